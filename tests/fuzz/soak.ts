// A soak test: many random calls of all sizes, with failures among them, on an instance that lives as long as all of
// them, and on others that are young, whose memory has yet to grow.

import { readFile } from 'node:fs/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { load, NormError, type Simdnorm, type Tensor } from 'simdnorm';
import { allOps, type Floats, isBackward, type Options } from '../js/calls.ts';
import { draw, drawVariance } from '../js/data.ts';
import { narrow } from '../js/float16-conversion.ts';
import { checkOutputs, Dice, describe, type RandomCall, randomCall, type Source } from './random-call.ts';

const most = 1e6;

/** Where all values are taken from: to draw new ones would take longer than the calls. */
function makePool() {
  const length = 1.25 * most;
  const data = draw(length, 1);
  return {
    data: { float32: data, float64: Float64Array.from(data), float16: narrow(data) },
    parameter: draw(length, 2, 0.3, 1),
    variance: drawVariance(length, 3),
    out: { float32: new Float32Array(most), float64: new Float64Array(most), float16: new Uint16Array(most) },
  };
}

export interface Soak {
  readonly calls: number;
  readonly seed: number;
  /** So many calls of a size have one whose results are compared. */
  readonly sampleEvery: (size: number) => number;
}

export interface Report {
  readonly table: readonly Readonly<Record<string, string | number>>[];
  readonly summary: Readonly<Record<string, number>>;
  /** What is not as it should be. */
  readonly broken: readonly string[];
}

type Doubles = Tensor<'float64'>;

const mebibytes = (bytes: number) => Math.round((10 * bytes) / 2 ** 20) / 10;

export async function soak({ calls, seed, sampleEvery }: Soak): Promise<Report> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const pool = makePool();
  const dice = new Dice(seed);
  // Compiled once: to compile a module for each of thousands of instances takes longer than their calls.
  const wasm = await WebAssembly.compile(await readFile(new URL('../../dist/simdnorm.wasm', import.meta.url)));
  const lasting = await load({ wasm });
  let young = await load({ wasm });
  const kept = lasting.tensor([1000], pool.data.float32.subarray(0, 1000));
  const usedAtFirst = lasting.memory.used;
  const count = { growths: 0, errors: 0, samples: 0, instances: 1, tensors: 0 };
  const table: Record<string, string | number>[] = [];
  const broken: string[] = [];
  let worst = 0;

  const source: Source = (kind, dtype, length) => {
    const values = kind === 'data' ? pool.data[dtype] : pool[kind];
    const begin = dice.below(values.length - length + 1);
    return values.subarray(begin, begin + length) as Floats;
  };

  async function record(at: string): Promise<void> {
    // What instances had is given back when they are collected, and some of that in the background.
    for (let i = 0; i < 3; ++i) {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const { used, capacity } = lasting.memory;
    table.push({ at, used, 'capacity MiB': mebibytes(capacity), 'rss MiB': mebibytes(process.memoryUsage.rss()) });
  }

  function draws(): RandomCall {
    const size = dice.logUniform(most);
    let op = dice.oneOf(allOps);
    // Gradients of much take most of the time: a fifth as many of them leave time for twice as many calls.
    for (let i = 0; i < 2 && size > 1e5 && isBackward(op); ++i) op = dice.oneOf(allOps);
    return randomCall(dice, size, source, op);
  }

  function run(sn: Simdnorm, call: RandomCall): void {
    const { op, dtype, layout, x, dy, residual, lengths, vectors, numbers } = call;
    const options: Options = { ...numbers, ...vectors };
    if (residual) options.residual = residual;
    if (lengths) options.lengths = lengths;
    if (dtype === 'float16') options.dtype = 'float16';
    const tensors: { free(): void }[] = [];
    const isSampled = dice.below(sampleEvery(x.length)) === 0;
    const { capacity, used } = sn.memory;
    try {
      let input: unknown = x;
      if (dice.chance(0.2)) {
        input = sn.tensor(layout.shape, x, dtype);
        tensors.push(input as { free(): void });
      } else if (op !== 'moments' && dice.chance(0.8)) {
        options.out = pool.out[dtype].subarray(0, x.length);
      }
      const method = sn[op] as (...given: unknown[]) => unknown;
      const result = isBackward(op) ? method(dy, input, options) : method(input, options);
      const isData = ArrayBuffer.isView(result) || 'free' in (result as object);
      const got = (isData ? { y: result } : result) as Record<string, unknown>;
      for (const value of Object.values(got)) {
        if (typeof value === 'object' && 'free' in (value as object)) tensors.push(value as { free(): void });
      }
      if (isSampled) {
        ++count.samples;
        const error = checkOutputs(call, got);
        // A half is rounded to the nearest, which may be half a step away.
        if (dtype !== 'float16') worst = Math.max(worst, error);
      }
    } catch (error) {
      broken.push(`${describe(call)}: ${error}`);
    } finally {
      count.tensors += tensors.length;
      for (const tensor of tensors) tensor.free();
    }
    if (sn.memory.used !== used) broken.push(`${describe(call)}: used ${sn.memory.used}, before ${used}`);
    if (sn.memory.capacity > capacity) ++count.growths;
  }

  /** Is refused, at one step of a call or another. */
  function fail(sn: Simdnorm): void {
    const length = 2 + dice.logUniform(1e5);
    const x = pool.data.float32.subarray(0, length);
    const out = pool.out.float32.subarray(0, length);
    const tensor = sn.tensor([length]);
    const { used } = sn.memory;
    const wrong: readonly (() => unknown)[] = [
      () => sn.layerNorm(x, { shape: [length + 1], out }),
      () => sn.rmsNorm(x, { axes: 3, out }),
      () => sn.groupNorm(x, { shape: [1, length], groups: length + 1, out }),
      () => sn.layerNorm(tensor, { out: x.subarray(1) }),
      () => sn.layerNorm(tensor, { out: tensor.subarray(1) }),
      () => sn.layerNorm(x, { out, scale: [...'ab'] as unknown as number[] }),
      () => sn.batchNormTraining(x, { shape: [1, length], out }),
      () => sn.layerNormBackward(x, out, { dScaleOut: out }),
      () => sn.lpNormalize(tensor, { p: 3 }),
      () => sn.tensor([2 ** 20, 2 ** 11]),
      () => {
        tensor.free();
        return sn.layerNorm(tensor);
      },
    ];
    const each = dice.oneOf(wrong);
    try {
      each();
      broken.push(`not refused: ${each}`);
    } catch (error) {
      if (!(error instanceof NormError) || error.code === 'ERR_STATE') broken.push(`${each}: ${error}`);
      ++count.errors;
    }
    if (!tensor.freed && sn.memory.used !== used) broken.push(`${each}: used ${sn.memory.used}, before ${used}`);
    tensor.free();
  }

  const start = performance.now();
  // Everything is compiled, and the pools and the room for the largest calls are there, before sizes are taken for the
  // first time. This call needs most: there are as many parameters as values, and the axes are in another order.
  const values = pool.data.float64.subarray(0, most);
  const [dy, x] = [1, 2].map(() => lasting.tensor([10, 100, 1000], values, 'float64')) as [Doubles, Doubles];
  const { dx } = lasting.layerNormBackward(dy, x, { axes: [2, 0, 1], scale: values });
  for (const tensor of [dx, dy, x]) tensor.free();
  for (let i = 0; i < Math.min(1000, calls / 10); ++i) run(lasting, draws());
  await record('begin');
  const quarter = Math.ceil(calls / 4);
  for (let i = 1; i <= calls && broken.length < 20; ++i) {
    const isYoung = dice.chance(0.5);
    if (isYoung && dice.chance(0.01)) {
      if (young.memory.used !== 0) broken.push(`a young instance has used ${young.memory.used}`);
      young.dispose();
      young = await load({ wasm });
      // The memory of those that were disposed of counts little for the engine, which would let it pile up.
      if (++count.instances % 16 === 0) collect();
    }
    const sn = isYoung ? young : lasting;
    if (dice.chance(0.05)) fail(sn);
    else run(sn, draws());
    if (i % quarter === 0 && i < calls) await record(`${i} calls`);
  }
  young.dispose();
  young = lasting;
  await record('end');
  const seconds = (performance.now() - start) / 1000;

  const sizes = (name: string) => table.map((row) => row[name] as number);
  const [rssAtFirst = 0, ...rss] = sizes('rss MiB');
  const [settled = 0] = sizes('capacity MiB');
  const last = lasting.memory;
  if (last.used !== usedAtFirst) broken.push(`used ${last.used} bytes at the end, ${usedAtFirst} at the beginning`);
  // The workspace may have to grow once more, by a quarter.
  if (mebibytes(last.capacity) > 1.5 * settled) broken.push(`capacity ${mebibytes(last.capacity)} MiB, was ${settled}`);
  for (const size of rss)
    if (size > 1.25 * rssAtFirst + 64) broken.push(`rss ${size} MiB, at the beginning ${rssAtFirst}`);
  if (count.growths < calls / 100) broken.push(`only ${count.growths} calls grew the memory`);
  if (count.samples < calls / 1000) broken.push(`only ${count.samples} calls were compared`);
  kept.free();
  if (lasting.memory.used !== 0) broken.push(`used ${lasting.memory.used} bytes when nothing is left`);
  lasting.dispose();
  const summary = {
    calls,
    seed,
    ...count,
    worst,
    seconds: Math.round(seconds),
    perSecond: Math.round(calls / seconds),
  };
  return { table, summary, broken };
}

/** Few of the large ones: the references take their time. */
export function everySoOften(size: number): number {
  return size > 1e5 ? 4000 : size > 1e4 ? 800 : 40;
}

export function print({ table, summary, broken }: Report): void {
  console.table(table);
  console.log(summary);
  for (const each of broken) console.log(`BROKEN: ${each}`);
}
