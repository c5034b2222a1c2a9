// The operations: each checks its arguments, then hands them over as a Call.

import { run } from './call.js';
import * as check from './check.js';
import { NormError } from './errors.js';
import { type Heap, resultArray } from './heap.js';
import type {
  BatchNormOptions,
  BatchNormTrainingOptions,
  BatchNormTrainingResult,
  LayerNormOptions,
  MomentsOptions,
  MomentsResult,
} from './types.js';

const layerNormOptions = ['shape', 'axes', 'scale', 'bias', 'epsilon', 'out', 'meanOut', 'invStdOut'];
const batchNormOptions = ['shape', 'axis', 'mean', 'variance', 'scale', 'bias', 'epsilon', 'out'];
const batchNormTrainingOptions = [
  ...['shape', 'axis', 'scale', 'bias', 'epsilon', 'out'],
  ...['meanOut', 'varianceOut', 'invStdOut'],
];
const momentsOptions = ['shape', 'axes'];

function checkTrailing(op: string, axes: readonly number[], rank: number): void {
  const firstAxis = rank - axes.length;
  for (let i = 0; i < axes.length; ++i) {
    if (axes[i] === firstAxis + i) continue;
    const last = check.list(axes.map((_, j) => firstAxis + j));
    const given = check.list(axes);
    throw new NormError('ERR_AXIS', op, `axes must be the last ones in ascending order, ${last}, got ${given}`);
  }
}

/** Why an array must be as long as x. */
const asX = () => "x's length";

export function layerNorm(heap: Heap, x: Float32Array, options?: LayerNormOptions): Float32Array {
  const op = 'layerNorm';
  const o = check.options(op, options, layerNormOptions);
  check.float32Array(op, 'x', x);
  const shape = check.shapeOf(op, o.shape, x);
  const axes = check.axesOf(op, o.axes, shape);
  checkTrailing(op, axes, shape.length);
  const count = check.countOver(op, shape, axes);
  const rows = x.length / count;
  const perRow = () => `one for each row of shape ${check.list(shape)}`;
  const perUnit = () => `the extents of axes ${check.list(axes)} of shape ${check.list(shape)}`;
  return run(heap, {
    op,
    kernel: heap.kernels.layerNorm,
    shape,
    axes,
    epsilon: check.epsilon(op, o.epsilon),
    x,
    out: check.writable(op, 'out', o.out, x.length, asX),
    scale: check.optionalVector(op, 'scale', o.scale, count, perUnit),
    bias: check.optionalVector(op, 'bias', o.bias, count, perUnit),
    mean: undefined,
    variance: undefined,
    meanOut: check.writable(op, 'meanOut', o.meanOut, rows, perRow),
    varianceOut: undefined,
    invStdOut: check.writable(op, 'invStdOut', o.invStdOut, rows, perRow),
  }) as Float32Array;
}

/** The channel axis, how many channels there are, and the words for a message about their number. */
function channelsOf(op: string, axisOption: unknown, shape: readonly number[]) {
  const axis = check.axisOf(op, 'axis', axisOption ?? 1, shape);
  const channels = shape[axis] as number;
  return { axis, channels, perChannel: () => `the channels, axis ${axis} of shape ${check.list(shape)}` };
}

export function batchNorm(heap: Heap, x: Float32Array, options: BatchNormOptions): Float32Array {
  const op = 'batchNorm';
  const o = check.options(op, options, batchNormOptions);
  check.float32Array(op, 'x', x);
  const shape = check.shapeOf(op, o.shape, x);
  const { axis, channels, perChannel } = channelsOf(op, o.axis, shape);
  return run(heap, {
    op,
    kernel: heap.kernels.batchNorm,
    shape,
    axes: [axis],
    epsilon: check.epsilon(op, o.epsilon),
    x,
    out: check.writable(op, 'out', o.out, x.length, asX),
    scale: check.optionalVector(op, 'scale', o.scale, channels, perChannel),
    bias: check.optionalVector(op, 'bias', o.bias, channels, perChannel),
    mean: check.vector(op, 'mean', o.mean, channels, perChannel),
    variance: check.vector(op, 'variance', o.variance, channels, perChannel),
    meanOut: undefined,
    varianceOut: undefined,
    invStdOut: undefined,
  }) as Float32Array;
}

export function batchNormTraining(
  heap: Heap,
  x: Float32Array,
  options?: BatchNormTrainingOptions,
): BatchNormTrainingResult {
  const op = 'batchNormTraining';
  const o = check.options(op, options, batchNormTrainingOptions);
  check.float32Array(op, 'x', x);
  const shape = check.shapeOf(op, o.shape, x);
  const { axis, channels, perChannel } = channelsOf(op, o.axis, shape);
  const otherAxes = shape.map((_, i) => i).filter((i) => i !== axis);
  const count = check.countOver(op, shape, otherAxes);
  if (count === 1) {
    const given = `shape ${check.list(shape)} has one value per channel`;
    throw new NormError('ERR_RANGE', op, `${given}: its variance says nothing; use a larger batch, or layerNorm`);
  }
  const statistic = (name: 'meanOut' | 'varianceOut' | 'invStdOut') =>
    check.writable(op, name, o[name], channels, perChannel) ?? resultArray(op, channels);
  const mean = statistic('meanOut');
  const variance = statistic('varianceOut');
  const invStd = statistic('invStdOut');
  const y = run(heap, {
    op,
    kernel: heap.kernels.batchNormTraining,
    shape,
    axes: [axis],
    epsilon: check.epsilon(op, o.epsilon),
    x,
    out: check.writable(op, 'out', o.out, x.length, asX),
    scale: check.optionalVector(op, 'scale', o.scale, channels, perChannel),
    bias: check.optionalVector(op, 'bias', o.bias, channels, perChannel),
    mean: undefined,
    variance: undefined,
    meanOut: mean,
    varianceOut: variance,
    invStdOut: invStd,
  }) as Float32Array;
  return { y, mean, variance, invStd, count };
}

export function moments(heap: Heap, x: Float32Array, options?: MomentsOptions): MomentsResult {
  const op = 'moments';
  const o = check.options(op, options, momentsOptions);
  check.float32Array(op, 'x', x);
  const shape = check.shapeOf(op, o.shape, x);
  const axes = check.axesOf(op, o.axes, shape).sort((a, b) => a - b);
  const count = check.countOver(op, shape, axes);
  const mean = resultArray(op, x.length / count);
  const variance = resultArray(op, x.length / count);
  run(heap, {
    op,
    kernel: heap.kernels.moments,
    shape,
    axes,
    epsilon: 0,
    x,
    out: null,
    scale: undefined,
    bias: undefined,
    mean: undefined,
    variance: undefined,
    meanOut: mean,
    varianceOut: variance,
    invStdOut: undefined,
  });
  return { mean, variance, count };
}
