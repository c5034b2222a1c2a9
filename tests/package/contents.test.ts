// What the package is made of.

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Installed, install, repository } from './install.ts';

let folder: string;
let npmPackage: Installed;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-package-'));
  npmPackage = await install(folder);
});

afterAll(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** The .d.ts files that the entry's types need. */
async function reachableTypes(): Promise<string[]> {
  const reached = new Set(['index.d.ts']);
  for (const name of reached) {
    const text = await readFile(join(npmPackage.installed, 'dist', name), 'utf8');
    for (const [, path] of text.matchAll(/(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)) {
      // Only examples in comments import the package itself.
      if (path !== 'simdnorm') reached.add((path as string).replace(/^\.\//, '').replace(/\.js$/, '.d.ts'));
    }
  }
  return [...reached].map((name) => `dist/${name}`);
}

describe('what is in it', () => {
  test('the built files, the types that they need, and what people read', async () => {
    const code = ['core.js', 'index.js', 'streaming.js', 'workerd.js'].flatMap((name) => [name, `${name}.map`]);
    const built = [...code, 'simdnorm.wasm'].map((name) => `dist/${name}`);
    const expected = ['package.json', 'README.md', 'LICENSE', ...built];
    const types = await reachableTypes();
    const rest = npmPackage.files.filter((file) => file !== 'CHANGELOG.md' && !types.includes(file));
    expect(rest).toEqual(expected.sort());
    expect(npmPackage.files).toEqual(expect.arrayContaining(types));
  });

  test('no sources, tests or archives', () => {
    const strangers = npmPackage.files.filter((file) =>
      /\.(cpp|h|tgz|html|csv|mjs)$|(?<!\.d)\.ts$|test|node_modules/.test(file),
    );
    expect(strangers).toEqual([]);
    // More than half are the maps, which only debuggers read.
    expect(npmPackage.unpackedBytes).toBeLessThan(950_000);
  });

  test('no path of the machine that built it', async () => {
    for (const file of npmPackage.files) {
      const text = await readFile(join(npmPackage.installed, file), 'latin1');
      expect(text.includes(repository), file).toBe(false);
    }
  });

  test('no dependencies, no install scripts, types for every entry', async () => {
    const manifest = JSON.parse(await readFile(join(npmPackage.installed, 'package.json'), 'utf8'));
    expect(manifest.dependencies).toBeUndefined();
    expect(manifest.optionalDependencies).toBeUndefined();
    expect(manifest.peerDependencies).toBeUndefined();
    for (const name of ['preinstall', 'install', 'postinstall']) expect(manifest.scripts?.[name]).toBeUndefined();
    for (const [name, target] of Object.entries<Record<string, string> | string>(manifest.exports)) {
      const targets = typeof target === 'string' ? [target] : Object.values(target);
      for (const each of targets) expect(npmPackage.files, name).toContain(each.replace('./', ''));
      if (typeof target === 'string') continue;
      // Where an earlier condition matches, the types behind it are never seen.
      expect(Object.keys(target)[0], name).toBe('types');
    }
    expect(await readdir(join(npmPackage.consumer, 'node_modules'))).toEqual(['.package-lock.json', 'simdnorm']);
  });

  test.each([
    ['index.js', 60_000],
    ['core.js', 26_000],
    ['simdnorm.wasm', 35_000],
  ])('%s is at most %i bytes, compressed', async (name, most) => {
    const file = await readFile(join(npmPackage.installed, 'dist', name));
    const bytes = gzipSync(file, { level: 9 }).length;
    console.log(`dist/${name}: ${file.length} bytes, ${bytes} compressed`);
    expect(bytes).toBeLessThanOrEqual(most);
  });

  test('the main entry is one file', async () => {
    const code = await readFile(join(npmPackage.installed, 'dist', 'index.js'), 'utf8');
    expect(code.match(/^import |\brequire\(|\bimport\(|import\.meta/m)).toBeNull();
  });

  // Bundlers look for this very expression.
  test('the streaming entry says where the module is as bundlers read it', async () => {
    const code = await readFile(join(npmPackage.installed, 'dist', 'streaming.js'), 'utf8');
    expect(code).toContain('new URL("./simdnorm.wasm",import.meta.url)');
  });
});
