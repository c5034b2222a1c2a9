// A short soak, in each test run: `npm run soak` is the long one.

import { expect, test } from 'vitest';
import { everySoOften, print, soak } from './soak.ts';

test('a soak of calls leaves the memory and the process as they were', { timeout: 300_000 }, async () => {
  const report = await soak({ calls: 6000, seed: 1, sampleEvery: everySoOften });
  print(report);
  expect(report.broken).toEqual([]);
});
