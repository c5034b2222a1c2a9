// The library as programs in C++ have it: installed, found, compiled strictly and linked. What it computes has the bits of
// the package.

import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { load } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { repository } from '../js/child.ts';

const execute = promisify(execFile);
const program = join(repository, 'tests', 'consumer');

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-consumer-'));
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function run(command: string, ...args: string[]): Promise<string> {
  // Debian's emcc finds what it needs to link there.
  const env = { ...process.env, NODE_PATH: '/usr/share/nodejs' };
  const { stdout } = await execute(command, args, { cwd: repository, env, timeout: 300_000 });
  return stdout;
}

interface Kind {
  readonly name: string;
  /** Of the library. */
  readonly preset: string;
  /** How the library and the program are configured. */
  readonly compiler: readonly string[];
  /** How README.md configures a program. */
  readonly configure: readonly string[];
  readonly where: string;
  readonly execute: readonly string[];
}

const native = { preset: 'library', configure: ['cmake'], where: 'CMAKE_PREFIX_PATH', execute: ['./block'] };
const kinds: Kind[] = [
  { ...native, name: 'g++', compiler: ['-DCMAKE_CXX_COMPILER=g++'] },
  { ...native, name: 'clang++', compiler: ['-DCMAKE_CXX_COMPILER=clang++'] },
  {
    name: 'emcc',
    preset: 'library-wasm',
    // The glue of Emscripten 3.1.6 can't fetch the module in Node 18 and later.
    compiler: ['-DCMAKE_EXE_LINKER_FLAGS=-sENVIRONMENT=node -sWASM_ASYNC_COMPILATION=0'],
    configure: ['emcmake', 'cmake'],
    where: 'CMAKE_FIND_ROOT_PATH',
    execute: [process.execPath, 'block.js'],
  },
];

/** Builds and installs the library, and moves what is installed: it belongs to no place. */
async function install({ name, preset, compiler }: Kind): Promise<string> {
  const build = join(folder, `${name}-library`);
  const prefix = join(folder, `${name}-prefix`);
  await run('cmake', '--preset', preset, '-B', build, ...compiler);
  await run('cmake', '--build', build);
  await run('cmake', '--install', build, '--prefix', prefix);
  const moved = join(folder, name);
  await rename(prefix, moved);
  return moved;
}

async function configureProgram({ name, compiler, configure, where }: Kind, prefix: string): Promise<string> {
  const build = join(folder, `${name}-program`);
  const [command, ...options] = [...configure, '-S', program, '-B', build, '-G', 'Ninja', `-D${where}=${prefix}`];
  await run(
    command as string,
    ...options,
    ...compiler,
    '-DCMAKE_BUILD_TYPE=Release',
    '-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror',
    // Otherwise nothing is said about the headers.
    '-DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON',
  );
  return build;
}

/** What the program prints: names and the numbers behind them. */
function printed(output: string): Record<string, number[]> {
  const lines = output.trim().split('\n');
  return Object.fromEntries(lines.map((line) => [line.split(' ')[0], line.split(' ').slice(1).map(Number)]));
}

async function computedByPackage(): Promise<Record<string, number[]>> {
  const { layerNorm, rmsNorm, rmsNormBackward } = await load();
  const shape = [2, 4];
  const scale = [1, 1, 1, 2];
  const hidden = Float32Array.of(1, 2, 3, 4, 5, 6, 8, 8);
  layerNorm(hidden, { shape, scale, bias: [0, 0, 0, 0.5], out: hidden });
  const first = [...hidden];
  const update = Float32Array.of(1, 0, -1, 0, 2, 0, 0, 1);
  const y = rmsNorm(update, { shape, scale, residual: hidden, residualOut: hidden });
  const { dx, dScale } = rmsNormBackward(new Float32Array(8).fill(1), hidden, { shape, scale });
  const asPrinted = (values: Iterable<number>) => Array.from(values, (value) => Number(value.toPrecision(9)));
  return { hidden: asPrinted(first), y: asPrinted(y), dx: asPrinted(dx), dScale: asPrinted(dScale) };
}

describe.each(kinds)('with $name', { timeout: 300_000 }, (kind) => {
  let installed: string;
  beforeAll(async () => {
    installed = await install(kind);
  }, 300_000);

  test('a program computes with it what the package does', async () => {
    const build = await configureProgram(kind, installed);
    await run('cmake', '--build', build);
    const [command, ...options] = kind.execute;
    const { stdout } = await execute(command as string, options, { cwd: build });
    expect(printed(stdout)).toEqual(await computedByPackage());
  });

  test('what is installed names no other place, and needs no SIMDe', async () => {
    const entries = await readdir(installed, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(['libsimdnorm.a', 'simdnorm.h']));
    for (const { parentPath, name } of files) {
      const text = await readFile(join(parentPath, name), 'latin1');
      for (const place of [repository, folder]) expect(text.includes(place), `${name}: ${place}`).toBe(false);
      if (!name.endsWith('.a')) expect(text, name).not.toMatch(/simde\/|wasm_simd128/);
    }
  });

  test('it has the version of the package', async () => {
    const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8'));
    const file = join(installed, 'lib', 'cmake', 'simdnorm', 'simdnormConfigVersion.cmake');
    expect(await readFile(file, 'utf8')).toContain(`set(PACKAGE_VERSION "${version}")`);
  });

  test('another kind of program does not take it', async () => {
    const other = kinds.find(({ preset }) => preset !== kind.preset) as Kind;
    const attempt = configureProgram({ ...other, name: `${kind.name}-for-${other.name}` }, installed);
    await expect(attempt).rejects.toThrow(/\((32|64)bit\)/);
  });
});
