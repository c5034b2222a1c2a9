// The operations.

import { type Call, run } from './call.js';
import * as check from './check.js';
import { NormError } from './errors.js';
import type { Heap } from './heap.js';
import {
  alongAxis,
  begin,
  checkChannelCounts,
  countsOf,
  newStatistics,
  othersThan,
  perChannel,
  perGroup,
  perPlace,
  perUnit,
  readOptions,
  setAffine,
  setAxes,
  setAxis,
  setGroups,
  setLengths,
  setStatistics,
  start as startWith,
} from './operation.js';
import { Plans } from './plan.js';
import type { Data } from './tensor.js';

const everywhere = ['shape', 'dtype'];
const affine = ['scale', 'bias', 'epsilon'];
const saved = ['meanOut', 'invStdOut'];
const residuals = ['residual', 'residualOut'];
const optionsOf = {
  layerNorm: new Set([...everywhere, 'axes', ...affine, 'out', 'lengths', ...saved, ...residuals]),
  rmsNorm: new Set([...everywhere, 'axes', 'scale', 'epsilon', 'out', 'lengths', 'invStdOut', ...residuals]),
  instanceNorm: new Set([...everywhere, 'axis', ...affine, 'out', ...saved]),
  groupNorm: new Set([...everywhere, 'groups', 'axis', ...affine, 'out', ...saved]),
  batchNorm: new Set([...everywhere, 'axis', 'mean', 'variance', ...affine, 'out']),
  batchNormTraining: new Set([...everywhere, 'axis', ...affine, 'out', 'lengths', ...saved, 'varianceOut']),
  lpNormalize: new Set([...everywhere, 'axes', 'p', 'epsilon', 'out']),
  localResponseNorm: new Set([...everywhere, 'axis', 'size', 'alpha', 'beta', 'k', 'out']),
  moments: new Set([...everywhere, 'axes', 'lengths']),
};
export type ForwardOp = keyof typeof optionsOf;

function start(heap: Heap, op: ForwardOp, x: unknown, options: unknown): Call {
  return startWith(heap, op, optionsOf[op], x, options);
}

type Forward<Result> = (heap: Heap, x: unknown, options: unknown, lengths?: unknown) => Result;

/** An operation whose result is y: where it is given what it has been given before, there is nothing to check. */
function normalizing(op: ForwardOp, perform: (heap: Heap, call: Call, lengths: unknown) => Data): Forward<Data> {
  return (heap, x, options, lengths) => {
    const given = readOptions(op, optionsOf[op], x, options);
    let plans = heap.plans.get(op);
    if (!plans) {
      plans = new Plans();
      heap.plans.set(op, plans);
    }
    const plan = plans.of(heap, x, given, lengths);
    const y = plan?.run(heap, op, x, given);
    if (y) return y;
    const call = begin(heap, op, x);
    call.plan = plan;
    return perform(heap, call, lengths);
  };
}

/** Normalization over axes, with scale and bias along them. */
function overAxes(heap: Heap, call: Call): Data {
  const o = call.given;
  const { op, dtype, length } = call;
  const count = setAxes(call);
  const groups = length / count;
  setLengths(call);
  call.itemAxes = check.maxRank;
  call.epsilon = check.epsilon(op, o.epsilon, 1e-5);
  call.residual = check.optionalValues(op, 'residual', o.residual, dtype, length);
  call.residualOut = check.optionalValues(op, 'residualOut', o.residualOut, dtype, length);
  if (call.residualOut && !call.residual) {
    throw new NormError('ERR_TYPE', op, 'residualOut is given without residual: it receives x + residual');
  }
  setAffine(call, count, perUnit);
  setStatistics(call, groups, perPlace);
  return run(heap, call) as Data;
}

/** Normalization in each item of axis 0 by groups of channels. */
function byGroups(heap: Heap, call: Call, channels: number, groups: number, over: readonly number[]): Data {
  const o = call.given;
  const items = setGroups(call, groups, over);
  call.itemAxes = 1;
  call.hasGroupsInOrder = call.axes[0] === 1;
  call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
  setAffine(call, channels, perChannel);
  setStatistics(call, items * groups, perGroup);
  return run(heap, call) as Data;
}

export interface MomentsResult {
  mean: Data;
  variance: Data;
  count: number | Int32Array;
}

export interface TrainingResult extends MomentsResult {
  y: Data;
  invStd: Data;
}

/** By the names of src/operations.h. */
export const forward: Record<ForwardOp, Forward<unknown>> = {
  layerNorm: normalizing('layerNorm', overAxes),

  rmsNorm: normalizing('rmsNorm', overAxes),

  instanceNorm: normalizing('instanceNorm', (heap, call) => {
    const channels = setAxis(call);
    return byGroups(heap, call, channels, channels, othersThan(call, 0, call.axes[0]));
  }),

  groupNorm: normalizing('groupNorm', (heap, call) => {
    const channels = setAxis(call);
    const groups = check.groupsOf(call.op, call.given.groups, channels, alongAxis(call));
    return byGroups(heap, call, channels, groups, othersThan(call, 0));
  }),

  /** The lengths are no option of it, but layers have them. */
  batchNorm: normalizing('batchNorm', (heap, call, lengths) => {
    const o = call.given;
    const channels = setAxis(call);
    call.itemAxes = check.maxRank;
    call.lengths = check.lengthsOf(call.op, lengths, call.shape);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
    setAffine(call, channels, perChannel);
    call.places = channels;
    call.mean = check.vector(call, 'mean', o.mean, channels, perChannel);
    call.variance = check.vector(call, 'variance', o.variance, channels, perChannel);
    return run(heap, call) as Data;
  }),

  batchNormTraining(heap, x, options): TrainingResult {
    const op = 'batchNormTraining';
    const call = start(heap, op, x, options);
    const o = call.given;
    const channels = setAxis(call);
    setLengths(call);
    const count = checkChannelCounts(call);
    call.epsilon = check.epsilon(op, o.epsilon, 1e-5);
    setAffine(call, channels, perChannel);
    setStatistics(call, channels, perChannel);
    call.meanOut ??= newStatistics(call, channels);
    call.varianceOut ??= newStatistics(call, channels);
    call.invStdOut ??= newStatistics(call, channels);
    const { meanOut: mean, varianceOut: variance, invStdOut: invStd } = call;
    return { y: run(heap, call) as Data, mean, variance, invStd, count };
  },

  lpNormalize: normalizing('lpNormalize', (heap, call) => {
    const o = call.given;
    setAxes(call);
    call.itemAxes = check.maxRank;
    call.p = check.orderOfNorm(call.op, o.p);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-12);
    return run(heap, call) as Data;
  }),

  localResponseNorm(heap, x, options): Data {
    const op = 'localResponseNorm';
    const call = start(heap, op, x, options);
    const o = call.given;
    setAxis(call);
    call.itemAxes = check.maxRank;
    call.hasScratch = true;
    const size = check.positiveInteger(op, 'size', o.size);
    // Wider windows reach no further; alpha / size is to be as it would be.
    call.size = Math.min(size, 2 ** 32 - 1);
    call.alpha = check.finite(op, 'alpha', o.alpha, 1e-4) * (call.size / size);
    call.beta = check.finite(op, 'beta', o.beta, 0.75);
    call.k = check.finite(op, 'k', o.k, 1);
    return run(heap, call) as Data;
  },

  moments(heap, x, options): MomentsResult {
    const call = start(heap, 'moments', x, options);
    const count = setAxes(call);
    call.itemAxes = check.maxRank;
    setLengths(call);
    const groups = call.length / count;
    call.places = groups;
    const mean = newStatistics(call, groups);
    const variance = newStatistics(call, groups);
    call.meanOut = mean;
    call.varianceOut = variance;
    run(heap, call);
    return { mean, variance, count: countsOf(call, call.axes, count) };
  },
};
