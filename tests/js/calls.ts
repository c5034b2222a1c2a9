// Calls with everything that they can have, for tests of what happens when one thing of it is wrong.

import type { Simdnorm } from 'simdnorm';
import { canary, draw, drawScale, drawVariance } from './data.ts';

export type Op = 'layerNorm' | 'batchNorm' | 'batchNormTraining' | 'moments';
export type Options = Record<string, unknown>;

/** x of shape [3, 4] and everything else that fits: 4 units or channels, 3 rows. */
export function arrays() {
  const named = {
    x: draw(12, 1),
    scale: drawScale(4, 2),
    bias: draw(4, 3),
    mean: draw(4, 4),
    variance: drawVariance(4, 5),
    out: new Float32Array(12).fill(canary),
    meanOfRows: new Float32Array(3).fill(canary),
    invStdOfRows: new Float32Array(3).fill(canary),
    meanOfChannels: new Float32Array(4).fill(canary),
    varianceOfChannels: new Float32Array(4).fill(canary),
    invStdOfChannels: new Float32Array(4).fill(canary),
    /** For arrays that overlap. */
    memory: draw(64, 6),
    doubles: Float64Array.from(draw(32, 7)),
  };
  const bits = Object.values(named).map((values) => new Uint8Array(values.buffer.slice(0)));
  const isUntouched = () =>
    Object.values(named).every(({ buffer }, i) => {
      // Those that a test detaches have no bits.
      return buffer.byteLength === 0 || Buffer.compare(new Uint8Array(buffer), bits[i] as Uint8Array) === 0;
    });
  return { ...named, isUntouched };
}
export type Arrays = ReturnType<typeof arrays>;

/** Options that are right, with everything that the operation writes. */
export const valid: Record<Op, (a: Arrays) => Options> = {
  layerNorm: (a) => ({
    shape: [3, 4],
    scale: a.scale,
    bias: a.bias,
    out: a.out,
    meanOut: a.meanOfRows,
    invStdOut: a.invStdOfRows,
  }),
  batchNorm: (a) => ({
    shape: [3, 4],
    mean: a.mean,
    variance: a.variance,
    scale: a.scale,
    bias: a.bias,
    out: a.out,
  }),
  batchNormTraining: (a) => ({
    shape: [3, 4],
    scale: a.scale,
    bias: a.bias,
    out: a.out,
    meanOut: a.meanOfChannels,
    varianceOut: a.varianceOfChannels,
    invStdOut: a.invStdOfChannels,
  }),
  moments: () => ({ shape: [3, 4] }),
};
export const ops = Object.keys(valid) as Op[];
export const normalizations = ops.filter((op) => op !== 'moments');

export function call(instance: Simdnorm, op: Op, x: unknown, options?: unknown): unknown {
  return (instance[op] as (x: unknown, options?: unknown) => unknown)(x, options);
}

/** What an instance computes, to compare before and after. */
export function fingerprint(instance: Simdnorm): string {
  const a = arrays();
  const { y, mean, variance, invStd } = instance.batchNormTraining(a.x, valid.batchNormTraining(a));
  const all = [y, mean, variance, invStd];
  for (const op of ['layerNorm', 'batchNorm'] as const) {
    const options = { ...valid[op](a), out: undefined } as never;
    all.push(instance[op](a.x, options));
  }
  const moments = instance.moments(a.x, { shape: [3, 4] });
  all.push(moments.mean, moments.variance);
  return all.map((values) => Buffer.from(values.buffer).toString('hex')).join();
}
