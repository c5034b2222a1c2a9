// The gradients of the operations.

import { type Call, run } from './call.js';
import * as check from './check.js';
import type { Numbers } from './dtype.js';
import type { Heap } from './heap.js';
import {
  alongAxis,
  checkChannelCounts,
  newStatistics,
  othersThan,
  perChannel,
  perGroup,
  perPlace,
  perUnit,
  setAxes,
  setAxis,
  setGroups,
  setLengths,
  start as startWith,
} from './operation.js';
import { type Data, lengthOf, type Tensor } from './tensor.js';

const everywhere = ['shape', 'dtype', 'out'];
const parameters = ['scale', 'epsilon', 'dScaleOut', 'dBiasOut'];
const saved = ['mean', 'invStd'];
const optionsOf = {
  layerNormBackward: new Set([...everywhere, 'axes', ...parameters, 'lengths', ...saved]),
  rmsNormBackward: new Set([...everywhere, 'axes', 'scale', 'epsilon', 'dScaleOut', 'lengths', 'invStd']),
  instanceNormBackward: new Set([...everywhere, 'axis', ...parameters, ...saved]),
  groupNormBackward: new Set([...everywhere, 'groups', 'axis', ...parameters, ...saved]),
  batchNormBackward: new Set([...everywhere, 'axis', 'mean', 'variance', ...parameters]),
  batchNormTrainingBackward: new Set([...everywhere, 'axis', ...parameters, 'lengths', ...saved]),
  lpNormalizeBackward: new Set([...everywhere, 'axes', 'p', 'epsilon']),
};
export type BackwardOp = keyof typeof optionsOf;

export interface Gradients {
  dx: Data;
  dScale: Numbers | Tensor;
  dBias: Numbers | Tensor;
}

function start(heap: Heap, op: BackwardOp, dy: unknown, x: unknown, options: unknown): Call {
  const call = startWith(heap, op, optionsOf[op], x, options);
  call.dy = check.values(op, 'dy', dy, call.dtype);
  check.sameLength(op, 'dy', lengthOf(call.dy), call.length, () => "x's length", undefined);
  call.hasScratch = true;
  return call;
}

/** What the forward call saved, one for each group. The mean is made again: a saved one is rounded. */
function setSaved(call: Call, groups: number, why: (call: Call) => string): void {
  call.places = groups;
  call.savedMean = check.optionalVector(call, 'mean', call.given.mean, groups, why);
  call.invStd = check.optionalVector(call, 'invStd', call.given.invStd, groups, why);
}

function gradient(call: Call, name: 'dScaleOut' | 'dBiasOut', count: number, why: (call: Call) => string) {
  return check.optionalStatistics(call, name, call.given[name], count, why) ?? newStatistics(call, count);
}

/** Scale, and what receives the gradients of scale and bias. */
function setParameters(call: Call, count: number, why: (call: Call) => string): void {
  call.units = count;
  call.scale = check.optionalVector(call, 'scale', call.given.scale, count, why);
  call.dScaleOut = gradient(call, 'dScaleOut', count, why);
  if (optionsOf[call.op as BackwardOp].has('dBiasOut')) call.dBiasOut = gradient(call, 'dBiasOut', count, why);
}

function finish(call: Call, heap: Heap): Gradients {
  const dx = run(heap, call) as Data;
  return { dx, dScale: call.dScaleOut as Numbers | Tensor, dBias: call.dBiasOut as Numbers | Tensor };
}

function overAxes(call: Call): void {
  const o = call.given;
  const count = setAxes(call);
  setLengths(call);
  call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
  setSaved(call, call.length / count, perPlace);
  setParameters(call, count, perUnit);
}

function byGroups(call: Call, channels: number, groups: number, over: readonly number[]): void {
  const o = call.given;
  const items = setGroups(call, groups, over);
  call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
  setSaved(call, items * groups, perGroup);
  setParameters(call, channels, perChannel);
}

/** By the names of src/operations.h. */
export const backward: Record<BackwardOp, (heap: Heap, dy: unknown, x: unknown, options: unknown) => unknown> = {
  layerNormBackward(heap, dy, x, options): Gradients {
    const call = start(heap, 'layerNormBackward', dy, x, options);
    overAxes(call);
    return finish(call, heap);
  },

  rmsNormBackward(heap, dy, x, options): Omit<Gradients, 'dBias'> {
    const call = start(heap, 'rmsNormBackward', dy, x, options);
    overAxes(call);
    const { dx, dScale } = finish(call, heap);
    return { dx, dScale };
  },

  instanceNormBackward(heap, dy, x, options): Gradients {
    const call = start(heap, 'instanceNormBackward', dy, x, options);
    const channels = setAxis(call);
    byGroups(call, channels, channels, othersThan(call, 0, call.axes[0]));
    return finish(call, heap);
  },

  groupNormBackward(heap, dy, x, options): Gradients {
    const call = start(heap, 'groupNormBackward', dy, x, options);
    const channels = setAxis(call);
    const groups = check.groupsOf(call.op, call.given.groups, channels, alongAxis(call));
    byGroups(call, channels, groups, othersThan(call, 0));
    return finish(call, heap);
  },

  batchNormBackward(heap, dy, x, options): Gradients {
    const call = start(heap, 'batchNormBackward', dy, x, options);
    const o = call.given;
    const channels = setAxis(call);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
    call.places = channels;
    call.mean = check.vector(call, 'mean', o.mean, channels, perChannel);
    call.variance = check.vector(call, 'variance', o.variance, channels, perChannel);
    setParameters(call, channels, perChannel);
    return finish(call, heap);
  },

  batchNormTrainingBackward(heap, dy, x, options): Gradients {
    const call = start(heap, 'batchNormTrainingBackward', dy, x, options);
    const o = call.given;
    const channels = setAxis(call);
    setLengths(call);
    checkChannelCounts(call);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
    setSaved(call, channels, perChannel);
    setParameters(call, channels, perChannel);
    return finish(call, heap);
  },

  lpNormalizeBackward(heap, dy, x, options): { dx: Data } {
    const call = start(heap, 'lpNormalizeBackward', dy, x, options);
    const o = call.given;
    setAxes(call);
    call.itemAxes = check.maxRank;
    call.p = check.orderOfNorm(call.op, o.p);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-12);
    return { dx: run(heap, call) as Data };
  },
};
