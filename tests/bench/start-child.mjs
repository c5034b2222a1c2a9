// A fresh process that normalizes once: `node start-child.mjs LIBRARY ROWS UNITS MODEL`. Prints what that took, as JSON.

import { readFileSync } from 'node:fs';
import { dataOf } from './cases.mjs';

const [library, rows, units, model] = process.argv.slice(2);
const shape = [Number(rows), Number(units)];
const { x, scale, bias } = dataOf({ operation: 'layerNorm', shape });

/** Each imports its library, and returns what makes the first result of it. */
const libraries = {
  async simdnorm() {
    const { load } = await import('../../dist/index.js');
    return async () => (await load()).layerNorm(x, { shape, scale, bias });
  },
  async 'onnxruntime-web'() {
    const ort = await import('onnxruntime-web');
    ort.env.wasm.numThreads = 1;
    const bytes = readFileSync(model);
    return async () => {
      const session = await ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] });
      return (await session.run({ x: new ort.Tensor('float32', x, shape) })).y.data;
    };
  },
  async 'tfjs-wasm'() {
    const { openTfjs, startTfjs } = await import('./peers/tfjs.mjs');
    return async () => {
      await startTfjs();
      const { ways } = await openTfjs({ operation: 'layerNorm', shape }, { x, scale, bias, epsilon: 1e-5 });
      return ways[1].call();
    };
  },
};

const before = process.memoryUsage.rss();
const begin = performance.now();
const run = await libraries[library]();
const imported = performance.now();
const y = await run();
const end = performance.now();
if (y.length !== x.length) throw new Error(`${library} returned ${y.length} values`);
const result = {
  importMilliseconds: imported - begin,
  firstResultMilliseconds: end - imported,
  megabytes: (process.resourceUsage().maxRSS * 1024 - before) / 1e6,
};
console.log(JSON.stringify(result));
