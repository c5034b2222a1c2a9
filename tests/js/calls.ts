// Calls with everything that they can have, for tests of what happens when one thing of it is wrong.

import type { Simdnorm } from 'simdnorm';
import { canary, draw, drawScale, drawVariance } from './data.ts';
import { narrow, widen } from './float16-conversion.ts';

export type Options = Record<string, unknown>;

/** x has 12 values and 4 units or channels. The spatial axes of instance and group norm give their groups some values. */
export const shapes = {
  layerNorm: [3, 4],
  rmsNorm: [3, 4],
  instanceNorm: [1, 4, 3],
  groupNorm: [1, 4, 3],
  batchNorm: [3, 4],
  batchNormTraining: [3, 4],
  lpNormalize: [3, 4],
  localResponseNorm: [3, 4],
  moments: [3, 4],
} as const;
export type Op = keyof typeof shapes;
export const ops = Object.keys(shapes) as Op[];
export const normalizations: readonly Op[] = ops.filter((op) => op !== 'moments');
export const overAxes = ['layerNorm', 'rmsNorm', 'lpNormalize', 'moments'] as const;
export const byChannel = ['instanceNorm', 'groupNorm', 'batchNorm', 'batchNormTraining', 'localResponseNorm'] as const;
/** Those that take lengths. */
export const ragged = ['layerNorm', 'rmsNorm', 'batchNormTraining', 'moments'] as const;
export const withEpsilon: readonly Op[] = normalizations.filter((op) => op !== 'localResponseNorm');

export function isOverAxes(op: Op): boolean {
  return (overAxes as readonly Op[]).includes(op);
}

/** x and everything else that fits. */
export function arrays() {
  const named = {
    x: draw(12, 1),
    scale: drawScale(4, 2),
    bias: draw(4, 3),
    mean: draw(4, 4),
    variance: drawVariance(4, 5),
    residual: draw(12, 8),
    lengths: Int32Array.of(4, 2, 3),
    out: new Float32Array(12).fill(canary),
    residualOut: new Float32Array(12).fill(canary),
    meanOfRows: new Float32Array(3).fill(canary),
    invStdOfRows: new Float32Array(3).fill(canary),
    meanOfChannels: new Float32Array(4).fill(canary),
    varianceOfChannels: new Float32Array(4).fill(canary),
    invStdOfChannels: new Float32Array(4).fill(canary),
    meanOfGroups: new Float32Array(2).fill(canary),
    invStdOfGroups: new Float32Array(2).fill(canary),
    /** For arrays that overlap. */
    memory: draw(64, 6),
    doubles: Float64Array.from(draw(32, 7)),
    /** The same, where each value is a length that is right. */
    integers: new Int32Array(64).fill(2),
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

/** Without these there is no call. */
export const required: Record<Op, Options> = {
  layerNorm: {},
  rmsNorm: {},
  instanceNorm: {},
  groupNorm: { groups: 2 },
  batchNorm: { mean: [1, -1, 0.5, 2], variance: [4, 0.25, 9, 1] },
  batchNormTraining: {},
  lpNormalize: {},
  localResponseNorm: { size: 3 },
  moments: {},
};

/** Options that are right, all that the operation has but dtype, with everything that it writes. */
export const valid: Record<Op, (a: Arrays) => Options> = {
  layerNorm: (a) => ({
    shape: [3, 4],
    axes: [1],
    scale: a.scale,
    bias: a.bias,
    epsilon: 1e-3,
    residual: a.residual,
    lengths: a.lengths,
    out: a.out,
    residualOut: a.residualOut,
    meanOut: a.meanOfRows,
    invStdOut: a.invStdOfRows,
  }),
  rmsNorm: (a) => ({
    shape: [3, 4],
    axes: [1],
    scale: a.scale,
    epsilon: 1e-3,
    residual: a.residual,
    lengths: a.lengths,
    out: a.out,
    residualOut: a.residualOut,
    invStdOut: a.invStdOfRows,
  }),
  instanceNorm: (a) => ({
    shape: [1, 4, 3],
    axis: 1,
    scale: a.scale,
    bias: a.bias,
    epsilon: 1e-3,
    out: a.out,
    meanOut: a.meanOfChannels,
    invStdOut: a.invStdOfChannels,
  }),
  groupNorm: (a) => ({
    shape: [1, 4, 3],
    axis: 1,
    groups: 2,
    scale: a.scale,
    bias: a.bias,
    epsilon: 1e-3,
    out: a.out,
    meanOut: a.meanOfGroups,
    invStdOut: a.invStdOfGroups,
  }),
  batchNorm: (a) => ({
    shape: [3, 4],
    axis: 1,
    mean: a.mean,
    variance: a.variance,
    scale: a.scale,
    bias: a.bias,
    epsilon: 1e-3,
    out: a.out,
  }),
  // Its lengths exclude the channel axis 1, which the messages are about.
  batchNormTraining: (a) => ({
    shape: [3, 4],
    axis: 1,
    scale: a.scale,
    bias: a.bias,
    epsilon: 1e-3,
    out: a.out,
    meanOut: a.meanOfChannels,
    varianceOut: a.varianceOfChannels,
    invStdOut: a.invStdOfChannels,
  }),
  lpNormalize: (a) => ({ shape: [3, 4], axes: [1], p: 2, epsilon: 1e-3, out: a.out }),
  localResponseNorm: (a) => ({ shape: [3, 4], axis: 1, size: 3, alpha: 0.1, beta: 0.5, k: 2, out: a.out }),
  moments: (a) => ({ shape: [3, 4], axes: [1], lengths: a.lengths }),
};

/** How many values each array has that an operation writes, as it is called above. */
export const written: Record<Op, Readonly<Record<string, number>>> = {
  layerNorm: { out: 12, residualOut: 12, meanOut: 3, invStdOut: 3 },
  rmsNorm: { out: 12, residualOut: 12, invStdOut: 3 },
  instanceNorm: { out: 12, meanOut: 4, invStdOut: 4 },
  groupNorm: { out: 12, meanOut: 2, invStdOut: 2 },
  batchNorm: { out: 12 },
  batchNormTraining: { out: 12, meanOut: 4, varianceOut: 4, invStdOut: 4 },
  lpNormalize: { out: 12 },
  localResponseNorm: { out: 12 },
  moments: {},
};

/** Its parameters and the statistics that are given: 4 values each. */
export const vectors: Record<Op, readonly ('scale' | 'bias' | 'mean' | 'variance')[]> = {
  layerNorm: ['scale', 'bias'],
  rmsNorm: ['scale'],
  instanceNorm: ['scale', 'bias'],
  groupNorm: ['scale', 'bias'],
  batchNorm: ['scale', 'bias', 'mean', 'variance'],
  batchNormTraining: ['scale', 'bias'],
  lpNormalize: [],
  localResponseNorm: [],
  moments: [],
};

export function call(instance: Simdnorm, op: Op, x: unknown, options?: unknown): unknown {
  return (instance[op] as (x: unknown, options?: unknown) => unknown)(x, options);
}

export type Floats = Float32Array | Float64Array | Uint16Array;

/** Everything that an operation returned and, under the options' names, wrote. */
export interface Results {
  readonly y?: Floats;
  readonly mean?: Float32Array | Float64Array;
  readonly variance?: Float32Array | Float64Array;
  readonly invStd?: Float32Array | Float64Array;
  readonly count?: number | Int32Array;
}

/** The results of a call, whichever of them the operation has. */
export function results(instance: Simdnorm, op: Op, x: unknown, options?: Options | null): Results {
  const result = call(instance, op, x, options);
  if (!ArrayBuffer.isView(result)) return result as Results;
  const saved = { mean: options?.meanOut ?? undefined, invStd: options?.invStdOut ?? undefined };
  return { y: result, ...saved } as Results;
}

export type DType = 'float32' | 'float64' | 'float16';
export const dtypes: readonly DType[] = ['float32', 'float64', 'float16'];

/** Values as a dtype has them, and the option that says so. */
export function ofType(dtype: DType, values: ArrayLike<number>): { x: Floats; options: Options } {
  if (dtype === 'float64') return { x: Float64Array.from(values), options: {} };
  if (dtype === 'float16') return { x: narrow(values), options: { dtype: 'float16' } };
  return { x: Float32Array.from(values), options: {} };
}

/** The numbers in an array of any dtype: those that are 16 bits are float16. */
export function numbersOf(values: Floats): Float64Array {
  return values instanceof Uint16Array ? Float64Array.from(widen(values)) : Float64Array.from(values);
}

/** What an instance computes, to compare before and after. */
export function fingerprint(instance: Simdnorm): string {
  const a = arrays();
  const all: unknown[] = [];
  for (const op of ops) {
    const given = valid[op](a);
    all.push(...Object.values(results(instance, op, a.x, given)));
    for (const name of Object.keys(written[op])) all.push(given[name]);
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, a.x);
      all.push(...Object.values(results(instance, op, x, { ...required[op], shape: shapes[op], ...options })));
    }
  }
  return all
    .map((values) => {
      if (!ArrayBuffer.isView(values)) return String(values);
      return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('hex');
    })
    .join();
}
