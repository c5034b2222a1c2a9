// The kernels alone, over the time that copying the same bytes within the module's memory takes, in one run:
// `node tests/bench/kernels.mjs [part of an operation's name]`. The constants in src/ were chosen by it.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import createModule from '../../build/wasm/bindings/simdnorm.js';

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL('../../bindings/block.ts', import.meta.url))],
  bundle: true,
  format: 'esm',
  write: false,
});
const { offsets } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const rounds = 31;
const roundValues = 2e6;
const most = 16384 * 768;

const file = new URL('../../build/wasm/bindings/simdnorm.wasm', import.meta.url);
const module = new WebAssembly.Module(readFileSync(file));
const memory = new WebAssembly.Memory({ initial: 4096, maximum: 65536 });
const kernels = await createModule({
  wasmMemory: memory,
  instantiateWasm(imports, receive) {
    const instance = new WebAssembly.Instance(module, imports);
    receive(instance, module);
    return instance.exports;
  },
});

let next = kernels.begin();
const allocate = (values) => {
  const address = Math.ceil(next / 64) * 64;
  next = address + 4 * values;
  return address;
};
const call = kernels.block() >>> 0;
const [x, y] = [allocate(most), allocate(most)];
const [scale, bias, mean, variance] = Array.from({ length: 4 }, () => allocate(65536));
const float32 = new Float32Array(memory.buffer);
const uint32 = new Uint32Array(memory.buffer);
float32.fill(1.1, scale / 4, scale / 4 + 65536);
float32.fill(0.1, bias / 4, bias / 4 + 65536);
float32.fill(1, variance / 4, variance / 4 + 65536);

function median(times) {
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
}

/** Writes struct Call of bindings/embind.cpp. */
function prepare(operation, shape, axes) {
  const word = (name, value) => {
    uint32[(call + offsets[name]) / 4] = value;
  };
  for (const name of Object.keys(offsets)) word(name, 0);
  new Float64Array(memory.buffer, call, 1)[offsets.epsilon / 8] = 1e-5;
  for (const [name, address] of Object.entries({ x, y, scale, bias })) word(name, address);
  if (operation === 'batchNorm') for (const [name, address] of Object.entries({ mean, variance })) word(name, address);
  word('groups', 32);
  word('rank', shape.length);
  word('axisCount', axes.length);
  uint32.set(shape, (call + offsets.shape) / 4);
  uint32.set(axes, (call + offsets.axes) / 4);
}

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
    for (let i = 0; i < count; ++i) float32[x / 4 + i] = offset + (Math.random() - 0.5) * Math.sqrt(12);
    prepare(operation, shape, [axis]);
    const source = float32.subarray(x / 4, x / 4 + count);
    const target = float32.subarray(y / 4, y / 4 + count);
    const calls = Math.max(1, Math.round(roundValues / count));
    const time = (body) => {
      const begin = performance.now();
      for (let i = 0; i < calls; ++i) body();
      return ((performance.now() - begin) * 1000) / calls;
    };
    const run = kernels[operation];
    const copy = () => target.set(source);
    const own = [];
    const copies = [];
    const ratios = [];
    for (let round = -3; round < rounds; ++round) {
      const pair = [time(run), time(copy)];
      if (round < 0) continue;
      own.push(pair[0]);
      copies.push(pair[1]);
      ratios.push(pair[0] / pair[1]);
    }
    const name = `${operation.padEnd(19)} ${`[${shape.join(', ')}]`.padEnd(20)} ${String(offset).padEnd(10)}`;
    console.log(`${name} ${median(own).toFixed(2).padStart(9)} ${median(ratios).toFixed(2).padStart(11)}`);
  }
}
