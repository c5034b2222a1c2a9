// `npm run soak -- [calls] [seed]`: 1e6 calls, unless others are asked for. Fails where a bound is broken.

import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const [calls = 1e6, seed = Math.floor(Math.random() * 2 ** 31)] = process.argv.slice(2).map(Number);

const { outputFiles } = await build({
  entryPoints: [here('soak.ts')],
  // The built package, as its users have it.
  alias: { simdnorm: here('../../dist/index.js') },
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'node',
});
const { everySoOften, print, soak } = await import(
  `data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`
);
const report = await soak({ calls, seed, sampleEvery: everySoOften });
print(report);
process.exitCode = report.broken.length > 0 ? 1 : 0;
