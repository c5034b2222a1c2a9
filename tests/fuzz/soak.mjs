// `npm run soak -- [calls] [seed]`: 1e6 calls from seed 1, unless others are asked for, in as many processes as there are
// processors. Fails where a bound is broken.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const [calls = 1e6, seed = 1] = process.argv.slice(2).map(Number);
// As long as nobody waits: a million calls take one process ten minutes.
const timeout = 40 * 60 * 1000;
// Each has half a gibibyte.
const processes = Math.min(availableParallelism(), 8);

// As deep as the source is, so that its paths hold.
const program = here('../../build/soak/soak-process.js');
await build({
  entryPoints: [here('soak-process.ts')],
  outfile: program,
  // The built package, as its users have it.
  alias: { simdnorm: here('../../dist/index.js') },
  bundle: true,
  format: 'esm',
  platform: 'node',
});
const parts = Array.from({ length: processes }, (_, i) =>
  fork(program, [`${Math.ceil(calls / processes)}`, `${seed + i}`], { timeout }),
);
const codes = await Promise.all(parts.map(async (part) => (await once(part, 'exit'))[0]));
process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
