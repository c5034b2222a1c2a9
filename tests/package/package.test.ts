// The package as npm makes it and as its users install it.

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const most = 60_000;

let folder: string;
let consumer: string;
let installed: string;
let files: string[];
let unpackedBytes: number;

/** npm, without what an npm that runs this test has set, and without the network. */
async function npm(args: string[], cwd: string): Promise<string> {
  const own = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  const quiet = [
    '--offline',
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--loglevel=error',
    '--ignore-scripts',
  ];
  const env = { ...Object.fromEntries(own), npm_config_cache: join(folder, 'cache') };
  const { stdout } = await run('npm', [...args, ...quiet], { cwd, env, timeout: 60_000 });
  return stdout;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-package-'));
  const [packed] = JSON.parse(await npm(['pack', '--json', '--pack-destination', folder], repository));
  files = packed.files.map(({ path }: { path: string }) => path).sort();
  unpackedBytes = packed.unpackedSize;
  consumer = join(folder, 'consumer');
  installed = join(consumer, 'node_modules', 'simdnorm');
  await mkdir(consumer);
  await writeFile(join(consumer, 'package.json'), '{ "name": "consumer", "private": true }\n');
  await npm(['install', join(folder, packed.filename)], consumer);
}, 60_000);

afterAll(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** The .d.ts files that the entry's types need. */
async function reachableTypes(): Promise<string[]> {
  const reached = new Set(['index.d.ts']);
  for (const name of reached) {
    const text = await readFile(join(installed, 'dist', name), 'utf8');
    for (const [, path] of text.matchAll(/(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)) {
      // Only examples in comments import the package itself.
      if (path !== 'simdnorm') reached.add((path as string).replace(/^\.\//, '').replace(/\.js$/, '.d.ts'));
    }
  }
  return [...reached].map((name) => `dist/${name}`);
}

describe('what is in it', () => {
  test('the built files, the types that they need, and what people read', async () => {
    const built = ['dist/index.js', 'dist/index.js.map', 'dist/simdnorm.wasm'];
    const expected = ['package.json', 'README.md', 'LICENSE', ...built];
    const types = await reachableTypes();
    const rest = files.filter((file) => file !== 'CHANGELOG.md' && !types.includes(file));
    expect(rest).toEqual(expected.sort());
    expect(files).toEqual(expect.arrayContaining(types));
  });

  test('no sources, tests or archives', () => {
    const strangers = files.filter((file) => /\.(cpp|h|tgz|html|csv|mjs)$|(?<!\.d)\.ts$|test|node_modules/.test(file));
    expect(strangers).toEqual([]);
    // A third of it is the map, which nobody downloads but who debugs.
    expect(unpackedBytes).toBeLessThan(600_000);
  });

  test('no path of the machine that built it', async () => {
    for (const file of files) {
      const text = await readFile(join(installed, file), 'latin1');
      expect(text.includes(repository), file).toBe(false);
    }
  });

  test('no dependencies, no install scripts, types for every entry', async () => {
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
    expect(manifest.dependencies).toBeUndefined();
    expect(manifest.optionalDependencies).toBeUndefined();
    expect(manifest.peerDependencies).toBeUndefined();
    for (const name of ['preinstall', 'install', 'postinstall']) expect(manifest.scripts?.[name]).toBeUndefined();
    for (const [name, target] of Object.entries<Record<string, string> | string>(manifest.exports)) {
      const targets = typeof target === 'string' ? [target] : Object.values(target);
      for (const each of targets) expect(files, name).toContain(each.replace('./', ''));
      if (typeof target === 'string') continue;
      // Where an earlier condition matches, the types behind it are never seen.
      expect(Object.keys(target)[0], name).toBe('types');
    }
    expect(await readdir(join(consumer, 'node_modules'))).toEqual(['.package-lock.json', 'simdnorm']);
  });

  test(`what the main entry ships is at most ${most} bytes, compressed`, async () => {
    const code = await readFile(join(installed, 'dist', 'index.js'));
    const bytes = gzipSync(code, { level: 9 }).length;
    console.log(`dist/index.js: ${code.length} bytes, ${bytes} compressed`);
    expect(bytes).toBeLessThanOrEqual(most);
    expect(code.toString()).not.toMatch(/^import |\brequire\(|\bimport\(|import\.meta/m);
  });
});

describe('in an empty folder', () => {
  const compute = 'sn.layerNorm(new Float32Array([1, -1, 1, -1]), { epsilon: 0 })';

  async function runFile(name: string, source: string): Promise<string> {
    await writeFile(join(consumer, name), source);
    const { stdout, stderr } = await run(process.execPath, [name], { cwd: consumer, timeout: 20_000 });
    expect(stderr).toBe('');
    return stdout.trim();
  }

  test('import', async () => {
    const source = `import { load } from 'simdnorm'; const sn = await load(); console.log(${compute}.join());`;
    expect(await runFile('module.mjs', source)).toBe('1,-1,1,-1');
  });

  test('require', async () => {
    const source = `require('simdnorm').load().then((sn) => console.log(${compute}.join()));`;
    expect(await runFile('script.cjs', source)).toBe('1,-1,1,-1');
  });

  test('import() in a script', async () => {
    const source = `import('simdnorm').then(({ load }) => load()).then((sn) => console.log(${compute}.join()));`;
    expect(await runFile('dynamic.cjs', source)).toBe('1,-1,1,-1');
  });

  test('a module worker', async () => {
    await writeFile(
      join(consumer, 'worker.mjs'),
      `import { parentPort } from 'node:worker_threads';
       import { load } from 'simdnorm';
       const sn = await load();
       parentPort.postMessage(${compute});`,
    );
    const source = `import { Worker } from 'node:worker_threads';
      const worker = new Worker(new URL('worker.mjs', import.meta.url), { type: 'module' });
      worker.on('message', (y) => console.log(y.join()));`;
    expect(await runFile('starts-worker.mjs', source)).toBe('1,-1,1,-1');
  });

  test('the .wasm, by its own name', async () => {
    const source = `import { load } from 'simdnorm';
      const sn = await load({ wasm: import.meta.resolve('simdnorm/simdnorm.wasm') });
      console.log(${compute}.join());`;
    expect(await runFile('wasm.mjs', source)).toBe('1,-1,1,-1');
  });

  test('nothing else can be imported', async () => {
    const source = `for (const name of ['simdnorm/dist/index.js', 'simdnorm/heap', 'simdnorm/dist/heap.d.ts']) {
      await import(name).then(() => console.log(name), (error) => console.log(error.code));
    }`;
    const outcome = await runFile('internals.mjs', source);
    expect(outcome.split('\n')).toEqual(Array.from({ length: 3 }, () => 'ERR_PACKAGE_PATH_NOT_EXPORTED'));
  });
});

describe('types', () => {
  const uses = `
    import { type BatchNormOptions, type ErrorCode, type LayerNormOptions, load, NormError, type Simdnorm } from 'simdnorm';

    const sn: Simdnorm = await load();
    await load({});
    await load({ wasm: new Uint8Array(8), initialMemory: 2 ** 20, maximumMemory: undefined });
    await load({ wasm: { href: 'file:///simdnorm.wasm' } });
    await load({ wasm: new ArrayBuffer(8) });
    const x = new Float32Array(12);
    const y: Float32Array = sn.layerNorm(x);
    sn.layerNorm(x, { shape: [3, 4] as const, axes: -1, scale: [1, 2, 3, 4], bias: new Float64Array(4), out: x });
    sn.layerNorm(x, { shape: [3, 4], axes: [0, 1], epsilon: undefined, scale: undefined, out: undefined });
    const options: LayerNormOptions = { meanOut: new Float32Array(1), invStdOut: new Float32Array(1) };
    sn.layerNorm(x, options);
    const given: BatchNormOptions = { mean: [1, 2, 3, 4], variance: new Float32Array(4), shape: [3, 4], axis: 1 };
    const normalized: Float32Array = sn.batchNorm(x, given);
    const training = sn.batchNormTraining(x, { shape: [3, 4], varianceOut: new Float32Array(4) });
    const statistics: Float32Array[] = [training.y, training.mean, training.variance, training.invStd];
    const { mean, variance, count } = sn.moments(x, { shape: [3, 4], axes: [0] });
    const counts: number | Int32Array = count;
    const numbers: number[] = [training.count, sn.memory.capacity, sn.memory.limit, mean[0] ?? 0, variance.length];
    const doubles = new Float64Array(12);
    const wide: Float64Array = sn.rmsNorm(doubles, { shape: [3, 4], residual: doubles, lengths: [1, 4, 0] });
    const wideMean: Float64Array = sn.moments(doubles).mean;
    const bits: Uint16Array = sn.groupNorm(new Uint16Array(12), { shape: [3, 4], groups: 2, dtype: 'float16' });
    const narrowMean: Float32Array = sn.moments(bits, { dtype: 'float16' }).mean;
    const lengthOf = (values: ArrayLike<number>) => values.length;
    lengthOf(sn.instanceNorm(x, { shape: [3, 4] }));
    sn.lpNormalize(x, { p: Infinity, axes: [0] });
    sn.localResponseNorm(x, { shape: [3, 4], size: 3 });
    const { layerNorm, dispose } = sn;
    const version: string = sn.version;
    try {
      dispose();
    } catch (error) {
      if (error instanceof NormError) {
        const code: ErrorCode = error.code;
        if (code === 'ERR_FREED') throw new Error(error.op + error.message, { cause: error.cause });
      }
    }
    export { bits, counts, layerNorm, narrowMean, normalized, numbers, statistics, version, wide, wideMean, y };
  `;

  const misuses = [
    'sn.layerNorm([1, 2, 3])',
    'sn.layerNorm(new Int32Array(3))',
    'sn.layerNorm()',
    'sn.layerNorm(x, { epsilom: 1 })',
    "sn.layerNorm(x, { epsilon: '1' })",
    'sn.layerNorm(x, { axis: 1 })',
    'sn.layerNorm(x, { shape: 4 })',
    "sn.layerNorm(x, { shape: ['4'] })",
    'sn.layerNorm(x, { scale: new Int32Array(4) })',
    'sn.layerNorm(x, { meanOut: [0] })',
    'sn.layerNorm(x, { varianceOut: x })',
    'sn.batchNorm(x)',
    'sn.batchNorm(x, {})',
    'sn.batchNorm(x, { mean: [1] })',
    'sn.batchNorm(x, { mean: [1], variance: undefined })',
    'sn.batchNorm(x, { mean: [1], variance: [1], meanOut: x })',
    'sn.batchNorm(x, { mean: [1], variance: [1], axis: [1] })',
    'sn.batchNormTraining(x, { momentum: 0.1 })',
    'sn.batchNormTraining(x).normalized',
    'sn.moments(x, { epsilon: 1 })',
    "sn.moments(x, { axes: '0' })",
    "sn.version = '2'",
    'sn.memory.limit = 0',
    'sn.layerNorm = 5',
    'sn.groupNorm(x)',
    'sn.groupNorm(x, { shape: [4] })',
    'sn.rmsNorm(x, { bias: [1] })',
    "sn.rmsNorm(x, { dtype: 'float64' })",
    'sn.instanceNorm(x, { lengths: [1] })',
    'sn.instanceNorm(x).toFixed()',
    "sn.lpNormalize(x, { p: '2' })",
    'sn.localResponseNorm(x)',
    'const wrong: Float64Array = sn.layerNorm(x)',
    'load({ wsam: 1 })',
    'load({ wasm: 5 })',
    "load({ maximumMemory: '1' })",
    '(await load).layerNorm(x)',
    "const code: import('simdnorm').ErrorCode = 'ERR_OTHER'",
  ];

  const program = `import { load } from 'simdnorm';\nconst sn = await load();\nconst x = new Float32Array(4);\n`;
  const wrongUses = program + misuses.map((use) => `{\n  // @ts-expect-error\n  ${use};\n}\n`).join('');
  // A script can require() a module from Node 20.19 on, which only nodenext knows.
  const script = `import simdnorm = require('simdnorm');\nexport const y = simdnorm.load().then((sn) => sn.layerNorm(new Float32Array(2)));\n`;

  // Libraries are the same for all programs, and parsing them is most of the work.
  const libraries = new Map<string, ts.SourceFile>();

  function compile(roots: string[], settings: ts.CompilerOptions): string[] {
    const options: ts.CompilerOptions = {
      target: ts.ScriptTarget.ES2022,
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      types: [],
      ...settings,
    };
    const host = ts.createCompilerHost(options);
    const { getSourceFile } = host;
    host.getSourceFile = (name, ...rest) => {
      if (!/\/lib\.[\w.]*d\.ts$/.test(name)) return getSourceFile(name, ...rest);
      const file = libraries.get(name) ?? getSourceFile(name, ...rest);
      if (file) libraries.set(name, file);
      return file;
    };
    host.getCurrentDirectory = () => consumer;
    const diagnostics = ts.getPreEmitDiagnostics(ts.createProgram(roots, options, host));
    return diagnostics.map(({ file, start, messageText }) => {
      const line = file && start !== undefined ? file.getLineAndCharacterOfPosition(start).line + 1 : 0;
      return `${file?.fileName ?? ''}:${line}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
    });
  }

  const resolutions: [string, ts.CompilerOptions][] = [
    ['node16', { module: ts.ModuleKind.Node16, moduleResolution: ts.ModuleResolutionKind.Node16 }],
    ['nodenext', { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext }],
    ['bundler', { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler }],
  ];
  const withoutDom = ['lib.es2022.d.ts'];
  const withDom = ['lib.es2022.d.ts', 'lib.dom.d.ts'];

  beforeAll(async () => {
    await writeFile(join(consumer, 'uses.mts'), uses);
    await writeFile(join(consumer, 'wrong-uses.mts'), wrongUses);
    await writeFile(join(consumer, 'script.cts'), script);
  });

  for (const [name, resolution] of resolutions) {
    test.each([
      ['ES2022 alone', withoutDom],
      ['ES2022 and DOM', withDom],
    ])(`${name}, %s: right uses compile and wrong ones don't`, (_, lib) => {
      const roots = ['uses.mts', 'wrong-uses.mts', ...(name === 'nodenext' ? ['script.cts'] : [])];
      const paths = roots.map((root) => join(consumer, root));
      expect(compile(paths, { ...resolution, lib })).toEqual([]);
    });
  }

  test('what the DOM has can be the source of the module', async () => {
    const source = `import { load } from 'simdnorm';
      await load({ wasm: new URL('simdnorm.wasm', 'https://example.org') });
      await load({ wasm: fetch('simdnorm.wasm') });
      await load({ wasm: await WebAssembly.compile(new Uint8Array(8)) });
      await load({ wasm: new Response() });`;
    await writeFile(join(consumer, 'dom.mts'), source);
    const [, , [, bundler]] = resolutions as [unknown, unknown, [string, ts.CompilerOptions]];
    expect(compile([join(consumer, 'dom.mts')], { ...bundler, lib: withDom })).toEqual([]);
  });

  test('every .d.ts stands on ES2022 and the package alone', () => {
    const roots = files.filter((file) => file.endsWith('.d.ts')).map((file) => join(installed, file));
    expect(roots.length).toBeGreaterThan(0);
    const [, [, nodeNext]] = resolutions as [unknown, [string, ts.CompilerOptions]];
    const errors = compile(roots, { ...nodeNext, lib: withoutDom });
    expect(errors.map((error) => error.replace(`${installed}/`, ''))).toEqual([]);
  });
});
