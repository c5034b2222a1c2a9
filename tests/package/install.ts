// The package as npm makes it, installed in an empty folder as its users do.

import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const repository = fileURLToPath(new URL('../..', import.meta.url));

/** npm, without what an npm that runs this test has set, and without the network. */
async function npm(args: string[], cwd: string, cache: string): Promise<string> {
  const own = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name));
  const quiet = [
    '--offline',
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--loglevel=error',
    '--ignore-scripts',
  ];
  const env = { ...Object.fromEntries(own), npm_config_cache: cache };
  const { stdout } = await promisify(execFile)('npm', [...args, ...quiet], { cwd, env, timeout: 60_000 });
  return stdout;
}

export interface Installed {
  tarball: string;
  /** The paths of the files in it, and how many bytes they are. */
  files: string[];
  unpackedBytes: number;
  /** The folder of a user, and the package's own in its node_modules. */
  consumer: string;
  installed: string;
}

export async function install(folder: string): Promise<Installed> {
  const cache = join(folder, 'cache');
  const [packed] = JSON.parse(await npm(['pack', '--json', '--pack-destination', folder], repository, cache));
  const tarball = join(folder, packed.filename);
  const consumer = join(folder, 'consumer');
  await mkdir(consumer);
  await writeFile(join(consumer, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }\n');
  await npm(['install', tarball], consumer, cache);
  return {
    tarball,
    files: packed.files.map(({ path }: { path: string }) => path).sort(),
    unpackedBytes: packed.unpackedSize,
    consumer,
    installed: join(consumer, 'node_modules', 'simdnorm'),
  };
}
