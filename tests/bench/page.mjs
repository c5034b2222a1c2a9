// The browser's side of the benchmark: browser.mjs calls `measure` for one case after the other.

import copyUrl from '../../build/wasm/tests/bench/copy.wasm?url';
import { load } from '../../dist/index.js';
import { startTfjs } from './peers/tfjs.mjs';
import { runCase } from './run.mjs';

const tfjsFolder = '/node_modules/@tensorflow/tfjs-backend-wasm/dist/';

const [sn, copyModule] = await Promise.all([
  load(),
  WebAssembly.compileStreaming(fetch(copyUrl)),
  startTfjs(tfjsFolder),
]);

globalThis.measure = (each, limits) => runCase(each, { sn, copyModule }, limits);
