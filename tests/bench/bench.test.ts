import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

const bench = fileURLToPath(new URL('bench.mjs', import.meta.url));

interface Way {
  readonly name: string;
  readonly microseconds: number;
  readonly times: readonly number[];
}
interface Result {
  readonly operation: string;
  readonly label: string;
  readonly ways: readonly Way[];
}
interface Run {
  readonly results: { readonly node: readonly Result[]; readonly browser: readonly Result[] };
  readonly scan?: readonly Result[];
  readonly start?: { readonly libraries: readonly Readonly<Record<string, unknown>>[] };
  readonly smallCall?: Readonly<Record<string, unknown>>;
}

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-bench-'));
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** What the benchmark writes and prints, whose times are too few to mean anything. */
async function run(...options: string[]): Promise<Run & { printed: string }> {
  const file = join(folder, 'run.json');
  const parameters = [bench, '--quick', '--json', file, ...options];
  const { stdout: printed } = await promisify(execFile)(process.execPath, parameters);
  return { ...JSON.parse(await readFile(file, 'utf8')), printed };
}

const everyWay = [
  'simdnorm, out',
  'simdnorm, Tensors',
  'simdnorm, new array',
  'plain JavaScript',
  'onnxruntime-web',
  'tfjs-wasm, resident',
  'tfjs-wasm, copied in and out',
  'SIMD copy',
  'Tensor data.set',
  'Float32Array.set',
];

it('measures every way in Node and in the browser', { timeout: 120_000 }, async () => {
  const { results, printed } = await run('--only', 'layerNorm', '--shape', '1x64');
  for (const [result, ...others] of [results.node, results.browser]) {
    expect(others).toEqual([]);
    expect(result).toMatchObject({ operation: 'layerNorm', label: '[1, 64]' });
    const ways = (result as Result).ways;
    expect(ways.map(({ name }) => name).sort()).toEqual([...everyWay].sort());
    for (const { microseconds, times } of ways) expect(times).toContain(microseconds);
  }
  expect(printed).toContain('| layerNorm [1, 64], simdnorm, out: onnxruntime-web takes | at least 40 |');
});

it('measures the scan, the start of each library and a small call', { timeout: 120_000 }, async () => {
  const plot = join(folder, 'scan.svg');
  const { scan, start, smallCall } = await run(
    '--only',
    'scan',
    '--only',
    'start',
    '--only',
    'smallCall',
    '--plot',
    plot,
  );
  expect(scan?.map(({ label }) => label)).toEqual(expect.arrayContaining(['[1, 64]', '[1, 4096]', '[4, 768]']));
  expect(start?.libraries.map(({ library }) => library)).toEqual(['simdnorm', 'onnxruntime-web', 'tfjs-wasm']);
  expect(smallCall).toMatchObject({ callNanoseconds: expect.any(Number), kernelNanoseconds: expect.any(Number) });
  const svg = await readFile(plot, 'utf8');
  expect(svg).toMatch(/^<svg /);
  expect(svg).toContain('SIMD copy, rows of 768');
});
