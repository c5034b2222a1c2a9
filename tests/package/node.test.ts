// The package in Node, in an empty folder.

import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { install } from './install.ts';

const run = promisify(execFile);
const compute = 'sn.layerNorm(new Float32Array([1, -1, 1, -1]), { epsilon: 0 })';
let folder: string;
let consumer: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-node-'));
  ({ consumer } = await install(folder));
});

afterAll(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** What a program prints. Fails where it warns, too: of what it was not told to use. */
async function runFile(name: string, source: string, flags: string[] = []): Promise<string> {
  await writeFile(join(consumer, name), source);
  const { stdout, stderr } = await run(process.execPath, [...flags, name], { cwd: consumer, timeout: 20_000 });
  expect(stderr).toBe('');
  return stdout.trim();
}

describe.each(['simdnorm', 'simdnorm/streaming'])('%s', (entry) => {
  const program = `import { load } from '${entry}'; const sn = await load(); console.log(${compute}.join());`;

  test('import', async () => {
    expect(await runFile('module.mjs', program)).toBe('1,-1,1,-1');
  });

  test('require', async () => {
    const source = `require('${entry}').load().then((sn) => console.log(${compute}.join()));`;
    expect(await runFile('script.cjs', source)).toBe('1,-1,1,-1');
  });

  test('require and import have one instance', async () => {
    const source = `
      const { load } = require('${entry}');
      import('${entry}').then(async (module) => console.log(await load() === await module.load()));`;
    expect(await runFile('both.cjs', source)).toBe('true');
  });

  test('import() in a script', async () => {
    const source = `import('${entry}').then(({ load }) => load()).then((sn) => console.log(${compute}.join()));`;
    expect(await runFile('dynamic.cjs', source)).toBe('1,-1,1,-1');
  });

  test('a module worker', async () => {
    await writeFile(
      join(consumer, 'worker.mjs'),
      `import { parentPort } from 'node:worker_threads';
       import { load } from '${entry}';
       const sn = await load();
       parentPort.postMessage(${compute});`,
    );
    const source = `import { Worker } from 'node:worker_threads';
      const worker = new Worker(new URL('worker.mjs', import.meta.url), { type: 'module' });
      worker.on('message', (y) => console.log(y.join()));`;
    expect(await runFile('starts-worker.mjs', source)).toBe('1,-1,1,-1');
  });

  test.each([
    ['--disallow-code-generation-from-strings'],
    ['--frozen-intrinsics', '--no-warnings'],
    ['--disable-proto=throw'],
    ['--no-experimental-fetch'],
  ])('%s', async (...flags) => {
    expect(await runFile('flags.mjs', program, flags)).toBe('1,-1,1,-1');
  });

  // Any use of WebAssembly begins with this getter.
  test('importing does nothing', async () => {
    const source = `
      const state = () => JSON.stringify([
        Reflect.ownKeys(globalThis).map(String),
        process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
        process.getActiveResourcesInfo(),
      ]);
      let uses = 0;
      const names = ['WebAssembly', 'fetch', 'atob', 'setTimeout', 'setInterval', 'queueMicrotask', 'Worker'];
      for (const name of names) {
        const value = globalThis[name];
        Object.defineProperty(globalThis, name, { get() { ++uses; return value; } });
      }
      const before = state();
      const module = await import('${entry}');
      console.log(Object.keys(module).sort().join(), uses, state() === before);`;
    expect(await runFile('silent.mjs', source)).toBe('NormError,load 0 true');
  });

  test('imports where there is no WebAssembly, and says so when it is needed', async () => {
    const source = `
      delete globalThis.WebAssembly;
      const { load } = await import('${entry}');
      console.log(await load().catch(({ code }) => code));`;
    expect(await runFile('without.mjs', source)).toBe('ERR_UNSUPPORTED');
  });
});

test('an error of one entry is one of the other, and nothing else is', async () => {
  const source = `
    import { load, NormError } from 'simdnorm';
    import * as streaming from 'simdnorm/streaming';
    class Mine extends NormError {}
    const errors = [];
    for (const start of [load, streaming.load]) errors.push(await start({ wasm: 5 }).catch((error) => error));
    const mine = new Mine('ERR_TYPE', 'mine', 'mine');
    const others = [new Error('other'), null, 'NormError', { name: 'NormError', code: 'ERR_LOAD' }];
    console.log(JSON.stringify({
      own: errors[0].constructor === errors[1].constructor,
      each: errors.map((error) => error instanceof NormError && error instanceof streaming.NormError),
      mine: [mine instanceof Mine, mine instanceof NormError, mine instanceof streaming.NormError],
      ofMine: errors.map((error) => error instanceof Mine),
      others: others.some((error) => error instanceof NormError),
    }));`;
  expect(JSON.parse(await runFile('errors.mjs', source))).toEqual({
    own: false,
    each: [true, true],
    mine: [true, true, true],
    ofMine: [false, false],
    others: false,
  });
});

test('a compiled module can be sent to workers', async () => {
  await writeFile(
    join(consumer, 'receives.mjs'),
    `import { parentPort } from 'node:worker_threads';
     import { load } from 'simdnorm';
     parentPort.once('message', async (wasm) => {
       const sn = await load({ wasm });
       parentPort.postMessage(${compute});
     });`,
  );
  const source = `import { readFile } from 'node:fs/promises';
    import { Worker } from 'node:worker_threads';
    const wasm = await WebAssembly.compile(await readFile(new URL(import.meta.resolve('simdnorm/simdnorm.wasm'))));
    const worker = new Worker(new URL('receives.mjs', import.meta.url));
    worker.on('message', (y) => console.log(y.join()));
    worker.postMessage(wasm);`;
  expect(await runFile('sends.mjs', source)).toBe('1,-1,1,-1');
});

test('the .wasm, by its own name', async () => {
  const source = `import { load } from 'simdnorm';
    const sn = await load({ wasm: import.meta.resolve('simdnorm/simdnorm.wasm') });
    console.log(${compute}.join());`;
  expect(await runFile('wasm.mjs', source)).toBe('1,-1,1,-1');
});

test('nothing else can be imported', async () => {
  const source = `for (const name of ['simdnorm/dist/index.js', 'simdnorm/core', 'simdnorm/dist/heap.d.ts']) {
    await import(name).then(() => console.log(name), (error) => console.log(error.code));
  }`;
  const outcome = await runFile('internals.mjs', source);
  expect(outcome.split('\n')).toEqual(Array.from({ length: 3 }, () => 'ERR_PACKAGE_PATH_NOT_EXPORTED'));
});
