import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here('..'),
  // The built package, as its users have it.
  resolve: { alias: { 'simdnorm/streaming': here('../dist/streaming.js'), simdnorm: here('../dist/index.js') } },
  test: {
    include: [
      'tests/js/**/*.test.ts',
      'tests/browser/**/*.test.ts',
      'tests/package/**/*.test.ts',
      'tests/consumer/**/*.test.ts',
      'tests/conformance/**/*.test.ts',
      'tests/networks/**/*.test.ts',
      'tests/pytorch/**/*.test.ts',
      'tests/fuzz/**/*.test.ts',
      'tests/bench/**/*.test.ts',
    ],
    // What tests read of programs that they run has no colors, whatever is set where they run.
    env: { NO_COLOR: '1', FORCE_COLOR: '0' },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
