// A folder of somebody who uses the package: the tarball installed in it, and a program that prints the hash of all bits.

import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { install } from '../install.ts';
import { entries } from './targets.ts';

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

export async function expectedHash(): Promise<string> {
  return (await readFile(path('../../bits/hash.txt'), 'utf8')).trim();
}

/**
 * Where command lines find the tools. npm's links to Bun and Deno need install scripts, which do not run here: the folders
 * of the binaries come before them.
 */
async function pathOfTools(): Promise<string> {
  const tools = path('node_modules');
  const folders = [join(tools, '.bin'), path('../../../node_modules/.bin'), process.env.PATH];
  for (const [scope, bin] of [
    ['@oven', 'bin'],
    ['@deno', ''],
  ] as const) {
    for (const platform of await readdir(join(tools, scope))) folders.unshift(join(tools, scope, platform, bin));
  }
  return folders.join(delimiter);
}

export interface Consumer {
  folder: string;
  /** Runs a command line in the folder. What it prints, or an error that says everything that it printed. */
  run(command: string): Promise<string>;
  write(name: string, text: string): Promise<void>;
}

export interface Consumers {
  /** A new folder, in which the program imports an entry by its name, or by the path of its file. */
  create(entry: string, by: 'name' | 'path'): Promise<Consumer>;
  /** An import map of the package's entries. */
  importMap: string;
  remove(): Promise<void>;
}

export async function createConsumers(): Promise<Consumers> {
  const root = await mkdtemp(join(tmpdir(), 'simdnorm-matrix-'));
  const { consumer: original, installed } = await install(root);
  await cp(path('consumer'), original, { recursive: true });
  await build({ entryPoints: [path('../../bits/bits.ts')], bundle: true, format: 'esm', outdir: original });

  const { exports } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  const pathOf = (entry: string) =>
    exports[entry.replace('simdnorm', '.')].default.replace('.', './node_modules/simdnorm');
  const PATH = await pathOfTools();

  return {
    async create(entry, by) {
      const folder = await mkdtemp(join(root, 'consumer-'));
      await cp(original, folder, { recursive: true });
      const write = (name: string, text: string) => writeFile(join(folder, name), text);
      const program = await readFile(join(folder, 'compute.js'), 'utf8');
      await write('compute.js', program.replace("'simdnorm'", `'${by === 'name' ? entry : pathOf(entry)}'`));
      return {
        folder,
        write,
        async run(command) {
          // Away from what npm and vitest say to the programs that they start.
          const env = { PATH, HOME: folder };
          const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: folder, env, timeout: 60_000 });
          return stdout.trim();
        },
      };
    },
    importMap: JSON.stringify({ imports: Object.fromEntries(entries.map((entry) => [entry, pathOf(entry)])) }),
    remove: () => rm(root, { recursive: true, force: true }),
  };
}
