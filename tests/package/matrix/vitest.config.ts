import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  test: {
    include: ['*.test.ts'],
    env: { SIMDNORM_MATRIX: 'whole' },
    testTimeout: 120_000,
    hookTimeout: 60_000,
  },
});
