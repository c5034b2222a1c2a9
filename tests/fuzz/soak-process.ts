// One process of `npm run soak`: so many calls, from a seed.

import { everySoOften, print, soak } from './soak.ts';

const [calls = 0, seed = 0] = process.argv.slice(2).map(Number);
const report = await soak({ calls, seed, sampleEvery: everySoOften });
print(report);
process.exitCode = report.broken.length > 0 ? 1 : 0;
