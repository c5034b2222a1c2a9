import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  test: {
    include: ['*.test.ts'],
    // What tests read of programs that they run has no colors, whatever is set where they run.
    env: { SIMDNORM_MATRIX: 'whole', NO_COLOR: '1', FORCE_COLOR: '0' },
    testTimeout: 120_000,
    hookTimeout: 60_000,
  },
});
