// The operations.

import { run } from './call.js';
import * as check from './check.js';
import type { Numbers, Values } from './dtype.js';
import { NormError } from './errors.js';
import type { Heap } from './heap.js';
import {
  alongAxis,
  asX,
  checkChannelCounts,
  countsOf,
  newStatistics,
  othersThan,
  perChannel,
  type Started,
  setAffine,
  setAxes,
  setAxis,
  setGroups,
  setLengths,
  setStatistics,
  start as startWith,
} from './operation.js';

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
export type ForwardOp = keyof typeof optionsOf;

function start(heap: Heap, op: ForwardOp, x: unknown, options: unknown): Started {
  return startWith(heap, op, optionsOf[op], x, options);
}

/** Normalization over axes, with scale and bias along them. */
function overAxes(started: Started, heap: Heap): Values {
  const { o, call } = started;
  const { op, shape, dtype, length } = call;
  const count = setAxes(started);
  const groups = length / count;
  setLengths(started);
  call.epsilon = check.epsilon(op, o.epsilon, 1e-5);
  call.residual = check.optionalValues(op, 'residual', o.residual, dtype, length, asX);
  call.residualOut = check.optionalValues(op, 'residualOut', o.residualOut, dtype, length, asX);
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
  const items = setGroups(started, groups, over);
  call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
  setAffine(started, channels, perChannel(call));
  setStatistics(started, items * groups, () => `${items} items of ${groups} groups`);
  return run(heap, call) as Values;
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
export const forward: Record<ForwardOp, (heap: Heap, x: unknown, options: unknown) => unknown> = {
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
    const groups = check.groupsOf(op, started.o.groups, channels, alongAxis(started));
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
    const channels = setAxis(started);
    setLengths(started);
    const count = checkChannelCounts(started);
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
    const groups = call.length / count;
    const mean = newStatistics(call, groups);
    const variance = newStatistics(call, groups);
    call.meanOut = mean;
    call.varianceOut = variance;
    run(heap, call);
    return { mean, variance, count: countsOf(call, call.axes, count) };
  },
};
