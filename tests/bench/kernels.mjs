// The kernels alone, over the time that copying the same bytes within the module's memory takes, in one run:
// `node tests/bench/kernels.mjs [part of an operation's name]`. The constants in src/ were chosen by it.

import { openRawModule } from './raw-module.mjs';
import { compare, median, ratio, settings } from './timing.mjs';

const { kernels, x, y, prepare } = await openRawModule(16384 * 768);

const cases = [
  ['layerNorm', [1, 64], 1],
  ['layerNorm', [1, 768], 1],
  ['layerNorm', [16, 768], 1],
  ['layerNorm', [128, 768], 1],
  ['layerNorm', [512, 768], 1],
  ['layerNorm', [2048, 1024], 1],
  ['layerNorm', [1024, 4096], 1],
  ['layerNorm', [16384, 768], 1],
  ['rmsNorm', [128, 768], 1],
  ['rmsNorm', [16384, 768], 1],
  ['groupNorm', [8, 64, 64, 64], 1],
  ['instanceNorm', [8, 64, 64, 64], 1],
  ['batchNormTraining', [32, 64, 56, 56], 1],
  ['batchNormTraining', [32, 56, 56, 64], 3],
  ['batchNormTraining', [4096, 256], 1],
  ['batchNormTraining', [8192, 1024], 1],
  ['batchNormTraining', [150, 4], 1],
  ['batchNorm', [32, 64, 56, 56], 1],
  ['batchNorm', [32, 56, 56, 64], 3],
];

console.log('operation           shape                mean/std   µs a call   of a copy');
for (const [operation, shape, axis] of cases) {
  if (!operation.includes(process.argv[2] ?? '')) continue;
  for (const offset of [0, 2]) {
    const count = shape.reduce((product, extent) => product * extent, 1);
    // Uniform with deviation 1.
    for (let i = 0; i < count; ++i) x[i] = offset + (Math.random() - 0.5) * Math.sqrt(12);
    prepare(operation, shape, [axis]);
    const source = x.subarray(0, count);
    const target = y.subarray(0, count);
    const ways = [{ call: kernels[operation] }, { call: () => target.set(source) }];
    const [own, copies] = await compare(ways, settings);
    const name = `${operation.padEnd(19)} ${`[${shape.join(', ')}]`.padEnd(20)} ${String(offset).padEnd(10)}`;
    console.log(`${name} ${median(own).toFixed(2).padStart(9)} ${ratio(own, copies).toFixed(2).padStart(11)}`);
  }
}
