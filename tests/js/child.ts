// Programs of their own: for what one process can only do once, or should survive.

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const repository = fileURLToPath(new URL('../..', import.meta.url));
export const entry = new URL('../../dist/index.js', import.meta.url).href;

/** What it prints. Rejects where it fails, warns, or doesn't end by itself. */
export async function runNode(args: string[], cwd: string = repository): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd, timeout: 20_000 });
  if (stderr) throw new Error(`it wrote to stderr: ${stderr}`);
  return stdout;
}

/** What a module prints as JSON; `entry` is the package's URL in it. */
export async function runModule(source: string, flags: string[] = []): Promise<unknown> {
  const prelude = `const entry = ${JSON.stringify(entry)};\n`;
  return JSON.parse(await runNode([...flags, '--input-type=module', '--eval', prelude + source]));
}
