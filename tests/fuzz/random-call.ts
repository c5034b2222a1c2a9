// Random calls that are right, and what the references say of their results.

import {
  type AnyOp,
  allOps,
  type DType,
  type Floats,
  forwardOf,
  isBackward,
  isOverAxes,
  numbersOf,
  type Options,
  ofType,
  ragged,
} from '../js/calls.ts';
import { product, Random } from '../js/data.ts';
import { gradientsOf } from '../js/gradient-reference.ts';
import { allBut, groupsOf, type Layout, layoutOptions, parameterLength, parameterPlaces } from '../js/layouts.ts';
import * as reference from '../js/reference.ts';
import { affinePromise, expectNear, machineEpsilon, promise } from '../js/reference.ts';

type Values = ArrayLike<number>;

export class Dice extends Random {
  constructor(seed: number) {
    super(seed);
    // The first numbers of neighbouring seeds are alike.
    for (let i = 0; i < 8; ++i) this.next();
  }

  below(limit: number): number {
    return Math.floor(this.unit() * limit);
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  oneOf<V>(values: readonly V[]): V {
    return values[this.below(values.length)] as V;
  }

  /** As often from 1 to 10 as from 10 to 100. */
  logUniform(most: number): number {
    return Math.floor(Math.exp(this.unit() * Math.log(most + 1)));
  }

  shuffled<V>(values: readonly V[]): V[] {
    const result = [...values];
    for (let i = result.length - 1; i > 0; --i) {
      const j = this.below(i + 1);
      [result[i], result[j]] = [result[j] as V, result[i] as V];
    }
    return result;
  }
}

/** What is normalized, what parameters are, and variances. */
export type Kind = 'data' | 'parameter' | 'variance';
/** As many values as are asked for, as float32 where they are parameters. */
export type Source = (kind: Kind, dtype: DType, length: number) => Floats;

export interface RandomCall {
  readonly op: AnyOp;
  readonly layout: Layout;
  readonly dtype: DType;
  readonly x: Floats;
  readonly dy: Floats | undefined;
  readonly residual: Floats | undefined;
  readonly lengths: readonly number[] | undefined;
  /** Those that are arrays of parameters, and statistics that are given. */
  readonly vectors: Readonly<Record<string, Float32Array | Float64Array>>;
  /** Those that are numbers or say where values lie. */
  readonly numbers: Options;
  /** How many statistics and parameters there are. */
  readonly groups: number;
  readonly units: number;
}

function shapeOf(dice: Dice, size: number, rank: number): number[] {
  const shape: number[] = [];
  let rest = size;
  for (let axis = 1; axis < rank; ++axis) {
    const extent = dice.logUniform(rest);
    shape.push(extent);
    rest = Math.floor(rest / extent);
  }
  return dice.shuffled([...shape, rest]);
}

function divisorOf(dice: Dice, count: number): number {
  let divisor = 1 + dice.below(Math.min(count, 64));
  while (count % divisor !== 0) --divisor;
  return divisor;
}

function layoutOf(dice: Dice, op: AnyOp, size: number): Layout {
  const forward = forwardOf(op);
  const rank = 1 + dice.below(4);
  if (isOverAxes(op)) {
    const shape = shapeOf(dice, size, rank);
    const every = dice.shuffled(shape.map((_, axis) => axis));
    const axes = dice.chance(0.4) ? [shape.length - 1] : every.slice(0, dice.below(shape.length + 1));
    return { op: forward, shape, axes, axis: 1, groups: 1 };
  }
  const isByItem = forward === 'instanceNorm' || forward === 'groupNorm';
  const shape = shapeOf(dice, size, Math.max(2, rank));
  const axis = isByItem ? 1 + dice.below(shape.length - 1) : dice.below(shape.length);
  const groups = forward === 'groupNorm' ? divisorOf(dice, shape[axis] as number) : 1;
  return { op: forward, shape, axes: [], axis, groups };
}

/** The fewest values that share statistics, of those that have any. */
function leastCount(layout: Layout, lengths: readonly number[] | undefined): number {
  const { op, shape, axes, axis, groups } = layout;
  if (!lengths) {
    if (isOverAxes(op)) return product(axes.map((each) => shape[each] as number));
    const size = product(shape) / (shape[axis] as number);
    if (op === 'batchNorm' || op === 'batchNormTraining') return size;
    return (size / (shape[0] as number)) * (op === 'groupNorm' ? (shape[axis] as number) / groups : 1);
  }
  const groupOf = groupsOf(layout);
  const counts = new Map<number, number>();
  const item = product(shape.slice(1));
  const row = product(shape.slice(2));
  groupOf.forEach((group, i) => {
    if (Math.floor((i % item) / row) >= (lengths[Math.floor(i / item)] as number)) return;
    counts.set(group, (counts.get(group) ?? 0) + 1);
  });
  return Math.min(...counts.values());
}

function groupCount({ op, shape, axes, axis, groups }: Layout): number {
  if (isOverAxes(op)) return product(allBut(shape, axes).map((each) => shape[each] as number));
  if (op === 'batchNorm' || op === 'batchNormTraining') return shape[axis] as number;
  if (op === 'localResponseNorm') return 0;
  return (shape[0] as number) * (op === 'groupNorm' ? groups : (shape[axis] as number));
}

/** A call of about `size` values. */
export function randomCall(dice: Dice, size: number, source: Source, op: AnyOp = dice.oneOf(allOps)): RandomCall {
  let layout = layoutOf(dice, op, size);
  // Many statistics of few values each take a hundred times as long as few statistics.
  while (size > 1e4 && groupCount(layout) > 4000) layout = layoutOf(dice, op, size);
  const { op: forward, shape, axis } = layout;
  const dtype = dice.oneOf(['float32', 'float32', 'float64', 'float16'] as const);
  const length = product(shape);
  const units = parameterLength(layout);
  const mayBeRagged = (ragged as readonly string[]).includes(forward) && shape.length > 1;
  let lengths: number[] | undefined;
  // Lists of numbers, which for many items cost more than the call.
  if (mayBeRagged && (shape[0] as number) <= 1000 && length <= 1e5 && dice.chance(0.3)) {
    if (isOverAxes(op) || axis !== 1) {
      lengths = Array.from({ length: shape[0] as number }, () => dice.below((shape[1] as number) + 1));
    }
  }
  if (forward === 'batchNormTraining' && lengths && leastCount(layout, lengths) === 1) lengths = undefined;
  const count = leastCount(layout, lengths);
  // The variance of one value says nothing, which is an error.
  if (forward === 'batchNormTraining' && count === 1) return randomCall(dice, size, source, op);

  const vectors: Record<string, Float32Array | Float64Array> = {};
  const parameter = (kind: Kind, n: number) => source(kind, 'float32', n) as Float32Array;
  const isAffine = !['lpNormalize', 'localResponseNorm', 'moments'].includes(forward);
  if (isAffine && dice.chance(0.5)) vectors.scale = parameter('parameter', units);
  if (isAffine && forward !== 'rmsNorm' && !isBackward(op) && dice.chance(0.5)) {
    vectors.bias = parameter('parameter', units);
  }
  if (forward === 'batchNorm') {
    vectors.mean = parameter('parameter', units);
    vectors.variance = parameter('variance', units);
  }
  const numbers: Options = layoutOptions(layout);
  if (isAffine && dice.chance(0.5)) {
    const isSafe = count >= 8 && dtype !== 'float16' && forward !== 'batchNorm';
    numbers.epsilon = dice.oneOf(isSafe ? [1e-5, 1e-3, 1, 0] : [1e-5, 1e-3, 1]);
  }
  if (forward === 'lpNormalize') numbers.p = dice.oneOf([1, 2, Infinity]);
  if (forward === 'localResponseNorm') {
    numbers.size = 1 + dice.below(6);
    numbers.alpha = dice.oneOf([1e-4, 0.1, 1]);
    numbers.beta = dice.oneOf([0.75, 0.5, 1]);
  }
  const x = source('data', dtype, length);
  const mayBeSaved = isBackward(op) && forward !== 'batchNorm' && forward !== 'lpNormalize';
  if (mayBeSaved && length <= 1e4 && dice.chance(0.3)) {
    // A mean is made again, so that it may be any.
    if (forward !== 'rmsNorm') vectors.mean = parameter('parameter', groupCount(layout));
    const given = { op, layout, dtype, x, dy: undefined, residual: undefined, lengths, vectors, numbers };
    const { invStd = [] } = forwardReference({ ...given, groups: groupCount(layout), units }, numbersOf(x));
    vectors.invStd = dtype === 'float64' ? Float64Array.from(invStd) : Float32Array.from(invStd);
  }
  const dy = isBackward(op) ? source('data', dtype, length) : undefined;
  const mayHaveResidual = op === 'layerNorm' || op === 'rmsNorm';
  const residual = mayHaveResidual && dice.chance(0.3) ? source('data', dtype, length) : undefined;
  return { op, layout, dtype, x, dy, residual, lengths, vectors, numbers, groups: groupCount(layout), units };
}

// ---------------------------------------------------------------- results

interface Output {
  readonly values: Values;
  readonly magnitude: Values;
  /** Of float32. */
  readonly promise: number;
}
export type Outputs = Readonly<Record<string, Output>>;

/** What is normalized: x, or its sum with residual as its type has it. */
export function summed({ x, residual, dtype, lengths, layout }: RandomCall): Float64Array {
  const values = numbersOf(x);
  if (!residual) return values;
  const others = numbersOf(residual);
  const sum = numbersOf(
    ofType(
      dtype,
      values.map((value, i) => value + (others[i] as number)),
    ).x,
  );
  return lengths ? sum.map((value, i) => (isValid(layout, lengths, i) ? value : 0)) : sum;
}

function isValid({ shape }: Layout, lengths: readonly number[], i: number): boolean {
  const item = product(shape.slice(1));
  return Math.floor((i % item) / product(shape.slice(2))) < (lengths[Math.floor(i / item)] as number);
}

/** Of the valid values alone, group by group. */
function raggedReference(call: RandomCall, x: Float64Array, epsilon: number): reference.Reference {
  const { layout, lengths, vectors } = call;
  const groupOf = groupsOf(layout);
  const unitOf = parameterPlaces(layout);
  const members: number[][] = Array.from({ length: call.groups }, () => []);
  groupOf.forEach((group, i) => {
    if (isValid(layout, lengths as number[], i)) members[group]?.push(i);
  });
  const y = new Float64Array(x.length);
  const magnitude = new Float64Array(x.length);
  const statistics = members.map((places) => {
    const values = places.map((i) => x[i] as number);
    const own = reference.moments(values, [values.length], [0]);
    const isCentered = layout.op !== 'rmsNorm';
    const mean = isCentered ? (own.mean[0] as number) : 0;
    const variance = isCentered
      ? (own.variance[0] as number)
      : values.reduce((sum, value) => sum + value * value, 0) / values.length;
    const invStd = 1 / Math.sqrt(variance + epsilon);
    for (const i of places) {
      const normalized = ((x[i] as number) - mean) * invStd;
      const scale = vectors.scale?.[unitOf[i] as number] ?? 1;
      const bias = vectors.bias?.[unitOf[i] as number] ?? 0;
      y[i] = normalized * scale + bias;
      magnitude[i] = Math.max(1, Math.abs(normalized)) * Math.abs(scale) + Math.abs(bias);
    }
    return values.length > 0 ? { mean, variance, invStd } : { mean: NaN, variance: NaN, invStd: NaN };
  });
  return {
    y,
    magnitude,
    mean: statistics.map(({ mean }) => mean),
    variance: statistics.map(({ variance }) => variance),
    invStd: statistics.map(({ invStd }) => invStd),
  };
}

function forwardReference(call: RandomCall, x: Float64Array): Partial<reference.Reference> {
  const { layout, lengths, vectors, numbers } = call;
  const { op, shape, axes, axis, groups } = layout;
  const epsilon = numbers.epsilon as number | undefined;
  const parameters = { scale: vectors.scale, bias: vectors.bias, epsilon };
  if (lengths) return raggedReference(call, x, epsilon ?? 1e-5);
  if (op === 'layerNorm') return reference.layerNorm(x, shape, axes, parameters);
  if (op === 'rmsNorm') return reference.rmsNorm(x, shape, axes, parameters);
  if (op === 'instanceNorm') return reference.instanceNorm(x, shape, axis, parameters);
  if (op === 'groupNorm') return reference.groupNorm(x, shape, axis, groups, parameters);
  if (op === 'batchNormTraining') return reference.batchNormTraining(x, shape, axis, parameters);
  if (op === 'moments') return reference.moments(x, shape, axes);
  if (op === 'batchNorm') {
    const { mean = [], variance = [] } = vectors;
    return reference.batchNorm(x, shape, axis, { ...parameters, mean, variance });
  }
  if (op === 'lpNormalize') {
    const { y, magnitude } = reference.lpNormalize(x, shape, axes, { p: numbers.p as number, epsilon });
    return { y, magnitude };
  }
  return reference.localResponseNorm(x, shape, axis, numbers as { size: number });
}

/** By the names that results have; what a call does not return is there as well. */
export function expectedOutputs(call: RandomCall): Outputs {
  const { op, layout, vectors, numbers, lengths } = call;
  const x = summed(call);
  if (isBackward(op)) {
    const given = { ...vectors, ...numbers, lengths };
    const { dx, dScale, dBias, magnitude } = gradientsOf(layout, numbersOf(call.dy as Floats), x, given);
    const sum = promise + machineEpsilon;
    return {
      dx: { values: dx, magnitude: magnitude.dx, promise: 2 * promise + 2 * machineEpsilon },
      dScale: { values: dScale, magnitude: magnitude.dScale, promise: sum },
      dBias: { values: dBias, magnitude: magnitude.dBias, promise: sum },
    };
  }
  const { y, magnitude, mean, variance, invStd } = forwardReference(call, x);
  const result: Record<string, Output> = {};
  if (y && magnitude) result.y = { values: y, magnitude, promise: affinePromise };
  if (mean && variance) {
    const deviation = mean.map((each, i) => Math.sqrt(variance[i] as number) + Math.abs(each) / 10);
    result.mean = { values: mean, magnitude: deviation, promise };
    result.variance = { values: variance, magnitude: variance, promise: reference.variancePromise };
  }
  if (invStd) result.invStd = { values: invStd, magnitude: invStd, promise: reference.invStdPromise };
  if (call.residual) result.residualOut = { values: x, magnitude: x, promise: 0 };
  return result;
}

/** The values of a Tensor, or an array of its own. */
export function valuesOf(data: unknown): Floats {
  return ArrayBuffer.isView(data) ? (data as Floats) : (data as { data: Floats }).data;
}

/** How much worse than a double's promise the references are, which are of doubles: they sum, and subtract a mean. */
function roundingsOf(call: RandomCall): number {
  const x = summed(call);
  const { invStd = [] } = forwardReference({ ...call, op: forwardOf(call.op) }, x);
  let [largest, steepest] = [0, 0];
  for (const value of x) if (Math.abs(value) > largest) largest = Math.abs(value);
  for (const value of invStd) if (value > steepest) steepest = value;
  return 16 + Math.sqrt(x.length) + 4 * largest * steepest;
}

/** The largest error, in promises, of the results that a call has; throws where one is more than 1. */
export function checkOutputs(call: RandomCall, got: Readonly<Record<string, unknown>>): number {
  const expected = expectedOutputs(call);
  const roundings = call.dtype === 'float64' ? roundingsOf(call) : 1;
  let worst = 0;
  for (const [name, { values, magnitude, promise: own }] of Object.entries(expected)) {
    if (got[name] === undefined || got[name] === null) continue;
    const numbers = numbersOf(valuesOf(got[name]));
    const isData = name === 'y' || name === 'dx';
    const bound = call.dtype === 'float64' ? own * 2 ** -29 * roundings : own;
    // One rounding more, to steps that end at 2^-24.
    const step = isData && call.dtype === 'float16' ? 2 ** -11 : 0;
    const bounds = Float64Array.from(values, (value, i) => {
      return bound * (magnitude[i] as number) + step * (Math.abs(value) + 2 ** -14);
    });
    expectNear({ op: call.op, shape: call.layout.shape, output: name, data: call.dtype }, numbers, values, 1, bounds);
    for (let i = 0; i < numbers.length; ++i) {
      const error = Math.abs((numbers[i] as number) - (values[i] as number)) / (bounds[i] as number);
      if (error > worst) worst = error;
    }
  }
  return worst;
}

/** For a message from which the call can be made again, but for its values. */
export function describe({ op, layout, dtype, numbers, vectors, lengths, residual }: RandomCall): string {
  const given = { ...numbers, ...(lengths ? { lengths } : {}), ...(residual ? { residual: '...' } : {}) };
  const names = Object.keys(vectors).map((name) => [name, '...']);
  const p = (_: string, value: unknown) => (value === Infinity ? 'Infinity' : value);
  return `${op} of ${dtype} [${layout.shape}] ${JSON.stringify({ ...given, ...Object.fromEntries(names) }, p)}`;
}
