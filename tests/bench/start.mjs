// What a library costs before it works: the time to its first result and the memory, each in fresh processes, and what is
// downloaded of it, bundled and gzipped.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { encodeModel } from '../onnx/session.mjs';
import { dataOf } from './cases.mjs';
import { nodeOf } from './peers/onnxruntime.mjs';
import { median } from './timing.mjs';

const folder = fileURLToPath(new URL('.', import.meta.url));
const require = createRequire(import.meta.url);
const small = [128, 768];
const large = [1024, 4096];

/** What a program imports of each for a layer norm, and the files that are fetched later. */
const downloads = {
  simdnorm: { program: "export { load } from '../../dist/index.js';", files: [] },
  'onnxruntime-web': {
    program: "export { InferenceSession, Tensor, env } from 'onnxruntime-web/wasm';",
    files: [join(dirname(require.resolve('onnxruntime-web')), 'ort-wasm-simd-threaded.wasm')],
  },
  'tfjs-wasm': {
    program: "import '@tensorflow/tfjs-backend-wasm'; export * from '@tensorflow/tfjs-core';",
    files: [join(dirname(require.resolve('@tensorflow/tfjs-backend-wasm')), 'tfjs-backend-wasm-simd.wasm')],
  },
};

async function gzippedKilobytes({ program, files }) {
  const { outputFiles } = await build({
    stdin: { contents: program, resolveDir: folder },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    // Only imported where there is Node.
    external: ['node:*', 'module', 'worker_threads'],
    write: false,
    logLevel: 'error',
  });
  const all = [outputFiles[0].contents, ...(await Promise.all(files.map((file) => readFile(file))))];
  return all.reduce((sum, bytes) => sum + gzipSync(bytes, { level: 9 }).length, 0) / 1000;
}

async function runChild(library, shape, model) {
  const parameters = [join(folder, 'start-child.mjs'), library, ...shape.map(String), model];
  const { stdout } = await promisify(execFile)(process.execPath, parameters);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

/** A session of its layer norm of a shape, as bytes on the disk. */
async function writeModel(file, shape) {
  const each = { operation: 'layerNorm', shape };
  await writeFile(file, encodeModel(nodeOf(each, dataOf(each))));
  return file;
}

/** By library: { importMilliseconds, firstResultMilliseconds, megabytes, kilobytes }, medians of so many processes. */
export async function measureStart(processes) {
  const models = await mkdtemp(join(tmpdir(), 'simdnorm-bench-'));
  try {
    const smallModel = await writeModel(join(models, 'small.onnx'), small);
    const largeModel = await writeModel(join(models, 'large.onnx'), large);
    const runs = Object.keys(downloads).map((library) => ({ library, starts: [], memory: [] }));
    for (let i = 0; i < processes; ++i) {
      for (const { library, starts, memory } of runs) {
        starts.push(await runChild(library, small, smallModel));
        memory.push(await runChild(library, large, largeModel));
      }
    }
    const results = runs.map(async ({ library, starts, memory }) => {
      const of = (name) => median(starts.map((start) => start[name]));
      return {
        library,
        importMilliseconds: of('importMilliseconds'),
        firstResultMilliseconds: of('firstResultMilliseconds'),
        megabytes: median(memory.map(({ megabytes }) => megabytes)),
        kilobytes: await gzippedKilobytes(downloads[library]),
      };
    });
    return { small, large, libraries: await Promise.all(results) };
  } finally {
    await rm(models, { recursive: true });
  }
}
