// The gradients of the operations.

import { run } from './call.js';
import * as check from './check.js';
import { lengthOf, type Numbers, type Values } from './dtype.js';
import type { Heap } from './heap.js';
import {
  alongAxis,
  asX,
  checkChannelCounts,
  newStatistics,
  othersThan,
  perChannel,
  type Started,
  setAxes,
  setAxis,
  setGroups,
  setLengths,
  start as startWith,
} from './operation.js';

const everywhere = ['shape', 'dtype', 'out'];
const parameters = ['scale', 'epsilon', 'dScaleOut', 'dBiasOut'];
const saved = ['mean', 'invStd'];
const optionsOf = {
  layerNormBackward: [...everywhere, 'axes', ...parameters, 'lengths', ...saved],
  rmsNormBackward: [...everywhere, 'axes', 'scale', 'epsilon', 'dScaleOut', 'lengths', 'invStd'],
  instanceNormBackward: [...everywhere, 'axis', ...parameters, ...saved],
  groupNormBackward: [...everywhere, 'groups', 'axis', ...parameters, ...saved],
  batchNormBackward: [...everywhere, 'axis', 'mean', 'variance', ...parameters],
  batchNormTrainingBackward: [...everywhere, 'axis', ...parameters, 'lengths', ...saved],
  lpNormalizeBackward: [...everywhere, 'axes', 'p', 'epsilon'],
};
export type BackwardOp = keyof typeof optionsOf;

export interface Gradients {
  dx: Values;
  dScale: Numbers;
  dBias: Numbers;
}

function start(heap: Heap, op: BackwardOp, dy: unknown, x: unknown, options: unknown): Started {
  const started = startWith(heap, op, optionsOf[op], x, options);
  const { call } = started;
  call.dy = check.values(op, 'dy', dy, call.dtype);
  check.sameLength(op, 'dy', lengthOf(call.dy), call.length, asX);
  call.hasScratch = true;
  return started;
}

/** What the forward call saved, one for each group. The mean is made again: a saved one is rounded. */
function setSaved({ o, call }: Started, groups: number, why: () => string): void {
  check.optionalVector(call, 'mean', o.mean, groups, why);
  call.invStd = check.optionalVector(call, 'invStd', o.invStd, groups, why);
}

/** Scale, and what receives the gradients of scale and bias. */
function setParameters({ o, call }: Started, count: number, why: () => string): void {
  call.scale = check.optionalVector(call, 'scale', o.scale, count, why);
  call.dScaleOut = check.optionalStatistics(call, 'dScaleOut', o.dScaleOut, count, why) ?? newStatistics(call, count);
  call.dBiasOut = check.optionalStatistics(call, 'dBiasOut', o.dBiasOut, count, why) ?? newStatistics(call, count);
}

function finish({ call }: Started, heap: Heap): Gradients {
  const dx = run(heap, call) as Values;
  return { dx, dScale: call.dScaleOut as Numbers, dBias: call.dBiasOut as Numbers };
}

function overAxes(started: Started): void {
  const { o, call } = started;
  const { shape } = call;
  const count = setAxes(started);
  setLengths(started);
  call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
  setSaved(started, call.length / count, () => `one for each place outside of axes ${check.list(call.axes)}`);
  setParameters(started, count, () => `the extents of axes ${check.list(call.axes)} of shape ${check.list(shape)}`);
}

function byGroups(started: Started, channels: number, groups: number, over: readonly number[]): void {
  const { o, call } = started;
  const items = setGroups(started, groups, over);
  call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
  setSaved(started, items * groups, () => `${items} items of ${groups} groups`);
  setParameters(started, channels, perChannel(call));
}

/** By the names of src/operations.h. */
export const backward: Record<BackwardOp, (heap: Heap, dy: unknown, x: unknown, options: unknown) => unknown> = {
  layerNormBackward(heap, dy, x, options): Gradients {
    const started = start(heap, 'layerNormBackward', dy, x, options);
    overAxes(started);
    return finish(started, heap);
  },

  rmsNormBackward(heap, dy, x, options): Omit<Gradients, 'dBias'> {
    const started = start(heap, 'rmsNormBackward', dy, x, options);
    overAxes(started);
    started.call.dBiasOut = undefined;
    const { dx, dScale } = finish(started, heap);
    return { dx, dScale };
  },

  instanceNormBackward(heap, dy, x, options): Gradients {
    const started = start(heap, 'instanceNormBackward', dy, x, options);
    const channels = setAxis(started);
    byGroups(started, channels, channels, othersThan(started, 0, started.call.axes[0]));
    return finish(started, heap);
  },

  groupNormBackward(heap, dy, x, options): Gradients {
    const started = start(heap, 'groupNormBackward', dy, x, options);
    const channels = setAxis(started);
    const groups = check.groupsOf(started.call.op, started.o.groups, channels, alongAxis(started));
    byGroups(started, channels, groups, othersThan(started, 0));
    return finish(started, heap);
  },

  batchNormBackward(heap, dy, x, options): Gradients {
    const started = start(heap, 'batchNormBackward', dy, x, options);
    const { o, call } = started;
    const channels = setAxis(started);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
    call.mean = check.vector(call, 'mean', o.mean, channels, perChannel(call));
    call.variance = check.vector(call, 'variance', o.variance, channels, perChannel(call));
    setParameters(started, channels, perChannel(call));
    return finish(started, heap);
  },

  batchNormTrainingBackward(heap, dy, x, options): Gradients {
    const started = start(heap, 'batchNormTrainingBackward', dy, x, options);
    const { o, call } = started;
    const channels = setAxis(started);
    setLengths(started);
    checkChannelCounts(started);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-5);
    setSaved(started, channels, perChannel(call));
    setParameters(started, channels, perChannel(call));
    return finish(started, heap);
  },

  lpNormalizeBackward(heap, dy, x, options): { dx: Values } {
    const started = start(heap, 'lpNormalizeBackward', dy, x, options);
    const { o, call } = started;
    setAxes(started);
    call.p = check.orderOfNorm(call.op, o.p);
    call.epsilon = check.epsilon(call.op, o.epsilon, 1e-12);
    return { dx: run(heap, call) as Values };
  },
};
