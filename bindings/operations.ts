// The operations: each checks its arguments, then hands them over as a Call.

import { type Call, newCall, run } from './call.js';
import * as check from './check.js';
import { type Numbers, statisticsOf, type Values } from './dtype.js';
import { NormError } from './errors.js';
import { type Heap, type Kernel, resultArray } from './heap.js';

const everywhere = ['shape', 'dtype'];
const affine = ['scale', 'bias', 'epsilon'];
const saved = ['meanOut', 'invStdOut'];
const residuals = ['residual', 'residualOut'];
const optionsOf = {
  layerNorm: [...everywhere, 'axes', ...affine, 'out', 'lengths', ...saved, ...residuals],
  rmsNorm: [...everywhere, 'axes', 'scale', 'epsilon', 'out', 'lengths', 'invStdOut', ...residuals],
  instanceNorm: [...everywhere, 'axis', ...affine, 'out', ...saved],
  groupNorm: [...everywhere, 'groups', 'axis', ...affine, 'out', ...saved],
  batchNorm: [...everywhere, 'axis', 'mean', 'variance', ...affine, 'out'],
  batchNormTraining: [...everywhere, 'axis', ...affine, 'out', 'lengths', ...saved, 'varianceOut'],
  lpNormalize: [...everywhere, 'axes', 'p', 'epsilon', 'out'],
  localResponseNorm: [...everywhere, 'axis', 'size', 'alpha', 'beta', 'k', 'out'],
  moments: [...everywhere, 'axes', 'lengths'],
};
export type Op = keyof typeof optionsOf;

/** Why an array must be as long as x. */
const asX = () => "x's length";

interface Started {
  readonly o: check.Options;
  readonly call: Call;
}

/** Checks what every operation has: x, its shape and type, and where y goes. */
function start(heap: Heap, op: Op, x: unknown, options: unknown): Started {
  const o = check.options(op, options, optionsOf[op]);
  const dtype = check.dtypeOf(op, x, o.dtype);
  const values = check.values(op, 'x', x, dtype);
  const shape = check.shapeOf(op, o.shape, values);
  const out = op === 'moments' ? null : check.optionalValues(op, 'out', o.out, dtype, values.length, asX);
  return { o, call: newCall(op, heap.kernels[op] as Kernel, shape, dtype, values, out) };
}

/** Scale and bias, one value for each of `count`. */
function setAffine({ o, call }: Started, count: number, why: () => string): void {
  call.scale = check.optionalVector(call, 'scale', o.scale, count, why);
  call.bias = check.optionalVector(call, 'bias', o.bias, count, why);
}

/** Arrays that receive statistics, one value for each group. */
function setStatistics({ o, call }: Started, groups: number, why: () => string): void {
  call.meanOut = check.optionalStatistics(call, 'meanOut', o.meanOut, groups, why);
  call.varianceOut = check.optionalStatistics(call, 'varianceOut', o.varianceOut, groups, why);
  call.invStdOut = check.optionalStatistics(call, 'invStdOut', o.invStdOut, groups, why);
}

/** Axes that share statistics; returns how many values do. */
function setAxes({ o, call }: Started): number {
  const { op, shape } = call;
  call.axes = check.axesOf(op, o.axes, shape);
  // The others may need to be brought into another order.
  if (!check.areLast(call.axes, shape.length)) call.hasScratch = true;
  return check.countOver(op, shape, call.axes);
}

/** The channel axis; returns how many channels there are. */
function setAxis({ o, call }: Started): number {
  const axis = check.axisOf(call.op, 'axis', o.axis ?? 1, call.shape);
  call.axes = [axis];
  return call.shape[axis] as number;
}

function othersThan({ call }: Started, ...axes: (number | undefined)[]): number[] {
  return call.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
}

function setLengths({ o, call }: Started): void {
  call.lengths = check.lengthsOf(call.op, o.lengths, call.shape);
  if (call.lengths) call.hasScratch = true;
}

function perChannel(call: Call): () => string {
  return () => `the channels, axis ${call.axes[0]} of shape ${check.list(call.shape)}`;
}

/** Normalization over axes, with scale and bias along them. */
function overAxes(started: Started, heap: Heap): Values {
  const { o, call } = started;
  const { op, shape, dtype, x } = call;
  const count = setAxes(started);
  const groups = x.length / count;
  setLengths(started);
  call.epsilon = check.epsilon(op, o.epsilon, 1e-5);
  call.residual = check.optionalValues(op, 'residual', o.residual, dtype, x.length, asX);
  call.residualOut = check.optionalValues(op, 'residualOut', o.residualOut, dtype, x.length, asX);
  if (call.residualOut && !call.residual) {
    throw new NormError('ERR_TYPE', op, 'residualOut is given without residual: it receives x + residual');
  }
  setAffine(started, count, () => `the extents of axes ${check.list(call.axes)} of shape ${check.list(shape)}`);
  setStatistics(started, groups, () => `one for each place outside of axes ${check.list(call.axes)}`);
  return run(heap, call) as Values;
}

/** Normalization in each item of axis 0 by groups of channels. */
function byGroups(started: Started, channels: number, groups: number, over: readonly number[], heap: Heap): Values {
  const { o, call } = started;
  const { op, shape } = call;
  if (call.axes[0] === 0) {
    throw new NormError('ERR_AXIS', op, `axis 0 of shape ${check.list(shape)} are the items: pass the channels' axis`);
  }
  call.groups = groups;
  const items = shape[0] as number;
  check.countOver(op, shape, over);
  call.epsilon = check.epsilon(op, o.epsilon, 1e-5);
  setAffine(started, channels, perChannel(call));
  setStatistics(started, items * groups, () => `${items} items of ${groups} groups`);
  return run(heap, call) as Values;
}

/** A new array for statistics, unless there is one. */
function newStatistics({ op, dtype }: Call, length: number): Numbers {
  const isWide = statisticsOf(dtype) === 'float64';
  return resultArray(op, (isWide ? 8 : 4) * length, () =>
    isWide ? new Float64Array(length) : new Float32Array(length),
  );
}

/** How many values share statistics: a number, or one for each group where lengths make it vary. */
function countsOf({ shape, lengths }: Call, axes: readonly number[], count: number): number | Int32Array {
  if (!lengths) return count;
  const [items, extent, ...rest] = shape as [number, number, ...number[]];
  const inner = rest.reduce((product, e, i) => (axes.includes(i + 2) ? product * e : product), 1);
  const outer = rest.reduce((product, e, i) => (axes.includes(i + 2) ? product : product * e), 1);
  const isMerged = axes.includes(0);
  const isAlong = axes.includes(1);
  if (isMerged && isAlong) return lengths.reduce((sum, length) => sum + length, 0) * inner;
  const places = isAlong ? 1 : extent;
  const counts = new Int32Array((isMerged ? 1 : items) * places * outer);
  for (let item = 0; item < items; ++item) {
    const length = lengths[item] as number;
    const first = isMerged ? 0 : item * places * outer;
    const valid = isAlong ? outer : length * outer;
    for (let i = 0; i < valid; ++i) counts[first + i] = (counts[first + i] as number) + (isAlong ? length : 1) * inner;
  }
  return counts;
}

export interface TrainingResult {
  y: Values;
  mean: Numbers;
  variance: Numbers;
  invStd: Numbers;
  count: number | Int32Array;
}

export interface MomentsResult {
  mean: Numbers;
  variance: Numbers;
  count: number | Int32Array;
}

/** By the names of src/operations.h. */
export const operations: Record<Op, (heap: Heap, x: unknown, options: unknown) => unknown> = {
  layerNorm: (heap, x, options): Values => overAxes(start(heap, 'layerNorm', x, options), heap),

  rmsNorm: (heap, x, options): Values => overAxes(start(heap, 'rmsNorm', x, options), heap),

  instanceNorm(heap, x, options): Values {
    const started = start(heap, 'instanceNorm', x, options);
    const channels = setAxis(started);
    return byGroups(started, channels, channels, othersThan(started, 0, started.call.axes[0]), heap);
  },

  groupNorm(heap, x, options): Values {
    const op = 'groupNorm';
    const started = start(heap, op, x, options);
    const channels = setAxis(started);
    const groups = check.positiveInteger(op, 'groups', started.o.groups);
    if (channels % groups !== 0) {
      throw new NormError('ERR_RANGE', op, `groups must divide the ${channels} channels, got ${groups}`);
    }
    return byGroups(started, channels, groups, othersThan(started, 0), heap);
  },

  batchNorm(heap, x, options): Values {
    const started = start(heap, 'batchNorm', x, options);
    const { o, call } = started;
    const channels = setAxis(started);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
    setAffine(started, channels, perChannel(call));
    call.mean = check.vector(call, 'mean', o.mean, channels, perChannel(call));
    call.variance = check.vector(call, 'variance', o.variance, channels, perChannel(call));
    return run(heap, call) as Values;
  },

  batchNormTraining(heap, x, options): TrainingResult {
    const op = 'batchNormTraining';
    const started = start(heap, op, x, options);
    const { o, call } = started;
    const { shape } = call;
    const channels = setAxis(started);
    const [axis] = call.axes as [number];
    setLengths(started);
    if (call.lengths && axis === 1) {
      throw new NormError('ERR_AXIS', op, 'the channels cannot be along axis 1, as the lengths are: pass axis: 2');
    }
    const otherAxes = othersThan(started, axis);
    const count = countsOf(call, otherAxes, check.countOver(op, shape, otherAxes));
    if (typeof count === 'number' ? count === 1 : count.includes(1)) {
      const given = `shape ${check.list(shape)}${call.lengths ? ' with these lengths' : ''} has one value per channel`;
      throw new NormError('ERR_RANGE', op, `${given}: its variance says nothing; use a larger batch, or layerNorm`);
    }
    call.epsilon = check.epsilon(op, o.epsilon, 1e-5);
    setAffine(started, channels, perChannel(call));
    setStatistics(started, channels, perChannel(call));
    call.meanOut ??= newStatistics(call, channels);
    call.varianceOut ??= newStatistics(call, channels);
    call.invStdOut ??= newStatistics(call, channels);
    const { meanOut: mean, varianceOut: variance, invStdOut: invStd } = call;
    return { y: run(heap, call) as Values, mean, variance, invStd, count };
  },

  lpNormalize(heap, x, options): Values {
    const op = 'lpNormalize';
    const started = start(heap, op, x, options);
    const { o, call } = started;
    setAxes(started);
    call.p = check.orderOfNorm(op, o.p);
    call.epsilon = check.epsilon(op, o.epsilon, 1e-12);
    return run(heap, call) as Values;
  },

  localResponseNorm(heap, x, options): Values {
    const op = 'localResponseNorm';
    const started = start(heap, op, x, options);
    const { o, call } = started;
    setAxis(started);
    call.hasScratch = true;
    const size = check.positiveInteger(op, 'size', o.size);
    // Wider windows reach no further; alpha / size is to be as it would be.
    call.size = Math.min(size, 2 ** 32 - 1);
    call.alpha = check.finite(op, 'alpha', o.alpha, 1e-4) * (call.size / size);
    call.beta = check.finite(op, 'beta', o.beta, 0.75);
    call.k = check.finite(op, 'k', o.k, 1);
    return run(heap, call) as Values;
  },

  moments(heap, x, options): MomentsResult {
    const started = start(heap, 'moments', x, options);
    const { call } = started;
    const count = setAxes(started);
    setLengths(started);
    const groups = call.x.length / count;
    const mean = newStatistics(call, groups);
    const variance = newStatistics(call, groups);
    call.meanOut = mean;
    call.varianceOut = variance;
    run(heap, call);
    return { mean, variance, count: countsOf(call, call.axes, count) };
  },
};
