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
  layerNormBackward: [3, 4],
  rmsNormBackward: [3, 4],
  instanceNormBackward: [1, 4, 3],
  groupNormBackward: [1, 4, 3],
  batchNormBackward: [3, 4],
  batchNormTrainingBackward: [3, 4],
  lpNormalizeBackward: [3, 4],
} as const;
export type AnyOp = keyof typeof shapes;
export type BackwardOp = Extract<AnyOp, `${string}Backward`>;
/** The operations without their gradients. */
export type Op = Exclude<AnyOp, BackwardOp>;
export const allOps = Object.keys(shapes) as AnyOp[];
export const ops = allOps.filter((op): op is Op => !isBackward(op));
export const backwardOps = allOps.filter(isBackward);

export function isBackward(op: AnyOp): op is BackwardOp {
  return op.endsWith('Backward');
}

/** The operation that a gradient is of, or the operation itself. */
export function forwardOf(op: AnyOp): Op {
  return op.replace('Backward', '') as Op;
}

/** These operations and their gradients. */
export function withBackward(some: readonly Op[]): readonly AnyOp[] {
  return [...some, ...backwardOps.filter((op) => some.includes(forwardOf(op)))];
}

export const normalizations: readonly Op[] = ops.filter((op) => op !== 'moments');
export const overAxes = ['layerNorm', 'rmsNorm', 'lpNormalize', 'moments'] as const;
export const byChannel = ['instanceNorm', 'groupNorm', 'batchNorm', 'batchNormTraining', 'localResponseNorm'] as const;
/** Those that take lengths. */
export const ragged = ['layerNorm', 'rmsNorm', 'batchNormTraining', 'moments'] as const;
export const withEpsilon: readonly Op[] = normalizations.filter((op) => op !== 'localResponseNorm');

export function isOverAxes(op: AnyOp): boolean {
  return (overAxes as readonly Op[]).includes(forwardOf(op));
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
    dy: draw(12, 9),
    invStd: drawVariance(4, 10),
    dScaleOut: new Float32Array(4).fill(canary),
    dBiasOut: new Float32Array(4).fill(canary),
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
export const required: Record<AnyOp, Options> = {
  layerNorm: {},
  rmsNorm: {},
  instanceNorm: {},
  groupNorm: { groups: 2 },
  batchNorm: { mean: [1, -1, 0.5, 2], variance: [4, 0.25, 9, 1] },
  batchNormTraining: {},
  lpNormalize: {},
  localResponseNorm: { size: 3 },
  moments: {},
  layerNormBackward: {},
  rmsNormBackward: {},
  instanceNormBackward: {},
  groupNormBackward: { groups: 2 },
  batchNormBackward: { mean: [1, -1, 0.5, 2], variance: [4, 0.25, 9, 1] },
  batchNormTrainingBackward: {},
  lpNormalizeBackward: {},
};

/** Options that are right, all that the operation has but dtype, with everything that it writes. */
export const valid: Record<AnyOp, (a: Arrays) => Options> = {
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
  layerNormBackward: (a) => ({
    shape: [3, 4],
    axes: [1],
    scale: a.scale,
    epsilon: 1e-3,
    lengths: a.lengths,
    mean: a.mean.subarray(0, 3),
    invStd: a.invStd.subarray(0, 3),
    out: a.out,
    dScaleOut: a.dScaleOut,
    dBiasOut: a.dBiasOut,
  }),
  rmsNormBackward: (a) => ({
    shape: [3, 4],
    axes: [1],
    scale: a.scale,
    epsilon: 1e-3,
    lengths: a.lengths,
    invStd: a.invStd.subarray(0, 3),
    out: a.out,
    dScaleOut: a.dScaleOut,
  }),
  instanceNormBackward: (a) => ({
    shape: [1, 4, 3],
    axis: 1,
    scale: a.scale,
    epsilon: 1e-3,
    mean: a.mean,
    invStd: a.invStd,
    out: a.out,
    dScaleOut: a.dScaleOut,
    dBiasOut: a.dBiasOut,
  }),
  groupNormBackward: (a) => ({
    shape: [1, 4, 3],
    axis: 1,
    groups: 2,
    scale: a.scale,
    epsilon: 1e-3,
    mean: a.mean.subarray(0, 2),
    invStd: a.invStd.subarray(0, 2),
    out: a.out,
    dScaleOut: a.dScaleOut,
    dBiasOut: a.dBiasOut,
  }),
  batchNormBackward: (a) => ({
    shape: [3, 4],
    axis: 1,
    mean: a.mean,
    variance: a.variance,
    scale: a.scale,
    epsilon: 1e-3,
    out: a.out,
    dScaleOut: a.dScaleOut,
    dBiasOut: a.dBiasOut,
  }),
  // As of batchNormTraining.
  batchNormTrainingBackward: (a) => ({
    shape: [3, 4],
    axis: 1,
    scale: a.scale,
    epsilon: 1e-3,
    mean: a.mean,
    invStd: a.invStd,
    out: a.out,
    dScaleOut: a.dScaleOut,
    dBiasOut: a.dBiasOut,
  }),
  lpNormalizeBackward: (a) => ({ shape: [3, 4], axes: [1], p: 2, epsilon: 1e-3, out: a.out }),
};

/** How many values each array has that an operation writes, as it is called above. */
export const written: Record<AnyOp, Readonly<Record<string, number>>> = {
  layerNorm: { out: 12, residualOut: 12, meanOut: 3, invStdOut: 3 },
  rmsNorm: { out: 12, residualOut: 12, invStdOut: 3 },
  instanceNorm: { out: 12, meanOut: 4, invStdOut: 4 },
  groupNorm: { out: 12, meanOut: 2, invStdOut: 2 },
  batchNorm: { out: 12 },
  batchNormTraining: { out: 12, meanOut: 4, varianceOut: 4, invStdOut: 4 },
  lpNormalize: { out: 12 },
  localResponseNorm: { out: 12 },
  moments: {},
  layerNormBackward: { out: 12, dScaleOut: 4, dBiasOut: 4 },
  rmsNormBackward: { out: 12, dScaleOut: 4 },
  instanceNormBackward: { out: 12, dScaleOut: 4, dBiasOut: 4 },
  groupNormBackward: { out: 12, dScaleOut: 4, dBiasOut: 4 },
  batchNormBackward: { out: 12, dScaleOut: 4, dBiasOut: 4 },
  batchNormTrainingBackward: { out: 12, dScaleOut: 4, dBiasOut: 4 },
  lpNormalizeBackward: { out: 12 },
};

type Vector = 'scale' | 'bias' | 'mean' | 'variance';
/** Its parameters and the statistics that are given. */
export const vectors: Record<Op, readonly Vector[]> & Record<BackwardOp, readonly (Vector | 'invStd')[]> = {
  layerNorm: ['scale', 'bias'],
  rmsNorm: ['scale'],
  instanceNorm: ['scale', 'bias'],
  groupNorm: ['scale', 'bias'],
  batchNorm: ['scale', 'bias', 'mean', 'variance'],
  batchNormTraining: ['scale', 'bias'],
  lpNormalize: [],
  localResponseNorm: [],
  moments: [],
  layerNormBackward: ['scale', 'mean', 'invStd'],
  rmsNormBackward: ['scale', 'invStd'],
  instanceNormBackward: ['scale', 'mean', 'invStd'],
  groupNormBackward: ['scale', 'mean', 'invStd'],
  batchNormBackward: ['scale', 'mean', 'variance'],
  batchNormTrainingBackward: ['scale', 'mean', 'invStd'],
  lpNormalizeBackward: [],
};

/** How many values one of them has, as the operation is called above. */
export function vectorLength(op: AnyOp, name: Vector | 'invStd'): number {
  return (valid[op](arrays())[name] as Float32Array).length;
}

const slopes = draw(101, 9);

/** A gradient that fits x, so that whatever is wrong with x is all that is wrong. */
export function slopeOf(x: unknown): Floats {
  const kind = Object.prototype.toString.call(x);
  // What x says of its length may be a lie.
  const bytes = ArrayBuffer.isView(x) ? x.byteLength : 48;
  const values = (length: number) => {
    const result = new Float64Array(length);
    for (let i = 0; i < length; ++i) result[i] = slopes[i % slopes.length] as number;
    return result;
  };
  if (kind === '[object Uint16Array]') return narrow(values(bytes / 2));
  return kind === '[object Float64Array]' ? values(bytes / 8) : Float32Array.from(values(bytes / 4));
}

/** Of a gradient dy is what fits x, if it isn't given. */
export function call(instance: Simdnorm, op: AnyOp, x: unknown, options?: unknown, dy?: unknown): unknown {
  if (!isBackward(op)) return (instance[op] as (x: unknown, options?: unknown) => unknown)(x, options);
  const method = instance[op] as (dy: unknown, x: unknown, options?: unknown) => unknown;
  return method(dy === undefined ? slopeOf(x) : dy, x, options);
}

export type Floats = Float32Array | Float64Array | Uint16Array;

/** Everything that an operation returned and, under the options' names, wrote. */
export interface Results {
  readonly y?: Floats;
  readonly mean?: Float32Array | Float64Array;
  readonly variance?: Float32Array | Float64Array;
  readonly invStd?: Float32Array | Float64Array;
  readonly count?: number | Int32Array;
  readonly dx?: Floats;
  readonly dScale?: Float32Array | Float64Array;
  readonly dBias?: Float32Array | Float64Array;
}

/** The results of a call, whichever of them the operation has. */
export function results(instance: Simdnorm, op: AnyOp, x: unknown, options?: Options | null, dy?: unknown): Results {
  const result = call(instance, op, x, options, dy);
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
export function fingerprint(instance: Simdnorm, some: readonly AnyOp[] = allOps): string {
  const a = arrays();
  const all: unknown[] = [];
  for (const op of some) {
    const given = valid[op](a);
    all.push(...Object.values(results(instance, op, a.x, given, a.dy)));
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
