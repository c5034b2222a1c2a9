// The package's types and exports, by linters and by the oldest and the newest TypeScript.

import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Installed, install } from '../install.ts';

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const programs = ['uses.mts', 'wrong-uses.mts', 'dom.mts', 'script.cts'];
let folder: string;
let npmPackage: Installed;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-types-'));
  npmPackage = await install(folder);
  for (const name of programs) await cp(path(name), join(npmPackage.consumer, name));
});

afterAll(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** What a tool of node_modules says, and its exit code. */
async function runTool(file: string, args: string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [path(file), ...args], { cwd });
    return `${stdout}exit code 0`;
  } catch (error) {
    const { code, stdout, stderr } = error as { code: unknown; stdout: string; stderr: string };
    return `${stdout}${stderr}exit code ${code}`;
  }
}

describe('linters of packages', () => {
  test('publint', async () => {
    const said = await runTool('node_modules/publint/src/cli.js', [npmPackage.tarball, '--strict'], folder);
    expect(said).toMatch(/All good!\s*exit code 0$/);
  });

  test('are the types wrong?', async () => {
    const args = ['--profile', 'esm-only', '--exclude-entrypoints', './simdnorm.wasm', '--format', 'json'];
    const cli = 'node_modules/@arethetypeswrong/cli/dist/index.js';
    const said = await runTool(cli, [npmPackage.tarball, ...args], folder);
    expect(said).toMatch(/exit code 0$/);
    const { analysis } = JSON.parse(said.replace(/exit code 0$/, ''));
    expect(Object.keys(analysis.entrypoints).sort()).toEqual(['.', './package.json', './streaming']);
  });
});

describe.each([
  { version: '5.2.2', compiler: 'node_modules/typescript-5.2/bin/tsc' },
  { version: '5.9.3', compiler: '../../../node_modules/typescript/bin/tsc' },
  { version: '7.0.2', compiler: 'node_modules/typescript-7/bin/tsc' },
])('TypeScript $version', ({ version, compiler }) => {
  const release = Number.parseFloat(version);

  test('is this version', async () => {
    expect(await runTool(compiler, ['--version'], folder)).toContain(version);
  });

  test.each([
    { module: 'node16', moduleResolution: 'node16', lib: ['es2022'] },
    { module: 'nodenext', moduleResolution: 'nodenext', lib: ['es2022'] },
    { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022'] },
    // Checking the DOM's own types is most of the work, and how the package is found has nothing to do with them.
    { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'] },
  ])('$moduleResolution, $lib: right uses compile and wrong ones do not', async (settings) => {
    const mayRequire = settings.module === 'nodenext' && release >= 5.9;
    const skipped = [...(settings.lib.includes('dom') ? [] : ['dom.mts']), ...(mayRequire ? [] : ['script.cts'])];
    const declarations = npmPackage.files.filter((file) => file.endsWith('.d.ts'));
    expect(declarations).toContain('dist/index.d.ts');
    const compilerOptions = {
      ...settings,
      target: 'es2022',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      types: [],
    };
    const files = [
      ...programs.filter((name) => !skipped.includes(name)),
      ...declarations.map((file) => `node_modules/simdnorm/${file}`),
    ];
    await writeFile(join(npmPackage.consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    expect(await runTool(compiler, ['-p', '.'], npmPackage.consumer)).toBe('exit code 0');
  });
});
