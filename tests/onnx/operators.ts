// Each operator of ONNX and what does the same here: a node for onnxruntime, a call, and what is right.

import type { Simdnorm } from 'simdnorm';
import { product } from '../js/data.ts';
import * as reference from '../js/reference.ts';
import type { Node, Values } from './session.mjs';

/** What both give, and what is right, by the names of the node's outputs. */
export interface Pair {
  readonly op: string;
  readonly shape: readonly number[];
  readonly node: Node<Values>;
  readonly ours: (sn: Simdnorm) => Record<string, Float32Array>;
  readonly right: Record<string, { readonly values: ArrayLike<number>; readonly magnitude: ArrayLike<number> }>;
}

export interface Layer {
  readonly x: Float32Array;
  readonly shape: readonly number[];
  readonly scale?: Float32Array | undefined;
  readonly bias?: Float32Array | undefined;
  readonly epsilon: number;
}

/** ONNX wants factors and summands where they are options here. */
function ones(length: number): Float32Array {
  return new Float32Array(length).fill(1);
}

function statistics({ mean, variance, invStd }: reference.Reference) {
  // A mean is as good as a deviation allows, and rounded.
  const magnitude = mean.map((each, i) => Math.sqrt(variance[i] as number) + Math.abs(each) / 10);
  return {
    mean: { values: mean, magnitude },
    // Beyond float32 the nearest is infinity.
    variance: {
      values: variance.map((each) => (Math.fround(each) === Infinity ? Infinity : each)),
      magnitude: variance,
    },
    invStd: { values: invStd, magnitude: invStd },
  };
}

function yOf({ y, magnitude }: Pick<reference.Reference, 'y' | 'magnitude'>) {
  return { y: { values: y, magnitude } };
}

export function layerNormalization({ x, shape, scale, bias, epsilon }: Layer, axis: number): Pair {
  const first = axis < 0 ? axis + shape.length : axis;
  const extents = shape.slice(first);
  const axes = shape.map((_, each) => each).slice(first);
  const groups = product(shape.slice(0, first));
  const expected = reference.layerNorm(x, shape, axes, { scale, bias, epsilon });
  const { mean, invStd } = statistics(expected);
  return {
    op: 'LayerNormalization',
    shape,
    node: {
      opType: 'LayerNormalization',
      opset: 17,
      attributes: { axis, epsilon },
      inputs: {
        x: { shape, values: x },
        scale: { shape: extents, values: scale ?? ones(product(extents)) },
        ...(bias && { bias: { shape: extents, values: bias } }),
      },
      outputs: ['y', 'mean', 'invStd'],
    },
    ours: (sn) => {
      const [meanOut, invStdOut] = [new Float32Array(groups), new Float32Array(groups)];
      const y = sn.layerNorm(x, { shape, axes, scale, bias, epsilon, meanOut, invStdOut });
      return { y, mean: meanOut, invStd: invStdOut };
    },
    right: { ...yOf(expected), mean, invStd },
  };
}

export function rmsNormalization({ x, shape, scale, epsilon }: Layer, axis: number): Pair {
  const first = axis < 0 ? axis + shape.length : axis;
  const extents = shape.slice(first);
  const axes = shape.map((_, each) => each).slice(first);
  return {
    op: 'RMSNormalization',
    shape,
    node: {
      opType: 'RMSNormalization',
      opset: 23,
      attributes: { axis, epsilon },
      inputs: {
        x: { shape, values: x },
        scale: { shape: extents, values: scale ?? ones(product(extents)) },
      },
    },
    ours: (sn) => ({ y: sn.rmsNorm(x, { shape, axes, scale, epsilon }) }),
    right: yOf(reference.rmsNorm(x, shape, axes, { scale, epsilon })),
  };
}

/** Division by the deviation plus 1e-9: next to any deviation but those near 1e-9, the same as an epsilon of 1e-18. */
export function meanVarianceNormalization({ x, shape }: Pick<Layer, 'x' | 'shape'>, axes: readonly number[]): Pair {
  const ascending = axes.map((axis) => (axis < 0 ? axis + shape.length : axis)).sort((a, b) => a - b);
  const epsilon = 1e-18;
  return {
    op: `MeanVarianceNormalization over [${axes.join(', ')}]`,
    shape,
    node: {
      opType: 'MeanVarianceNormalization',
      opset: 13,
      attributes: { axes: ascending },
      inputs: { x: { shape, values: x } },
    },
    ours: (sn) => ({ y: sn.layerNorm(x, { shape, axes, epsilon }) }),
    right: yOf(reference.layerNorm(x, shape, axes, { epsilon })),
  };
}

/** ONNX's channels are axis 1; here they may be any. Reads x and writes y as if they had been moved there. */
function withChannelsAt(
  { x, shape }: Pick<Layer, 'x' | 'shape'>,
  axis: number,
  call: (x: Float32Array, options: { shape: readonly number[]; axis: number }) => Float32Array,
): Float32Array {
  const order = shape.map((_, each) => each).filter((each) => each !== 1);
  order.splice(axis, 0, 1);
  const moved = order.map((each) => shape[each] as number);
  const y = call(reference.transpose(x, shape, order), { shape: moved, axis });
  const back = shape.map((_, each) => order.indexOf(each));
  return reference.transpose(y, moved, back);
}

function channelInputs({ x, shape, scale, bias }: Layer) {
  const channels = shape[1] as number;
  return {
    x: { shape, values: x },
    scale: { shape: [channels], values: scale ?? ones(channels) },
    bias: { shape: [channels], values: bias ?? new Float32Array(channels) },
  };
}

export function batchNormalization(
  layer: Layer & { readonly mean: Float32Array; readonly variance: Float32Array },
  axis = 1,
): Pair {
  const { x, shape, scale, bias, epsilon, mean, variance } = layer;
  const channels = shape[1] as number;
  const given = { mean, variance, scale, bias, epsilon };
  return {
    op: 'BatchNormalization',
    shape,
    node: {
      opType: 'BatchNormalization',
      opset: 15,
      attributes: { epsilon },
      inputs: {
        ...channelInputs(layer),
        mean: { shape: [channels], values: mean },
        variance: { shape: [channels], values: variance },
      },
    },
    ours: (sn) => ({ y: withChannelsAt(layer, axis, (moved, where) => sn.batchNorm(moved, { ...where, ...given })) }),
    right: yOf(reference.batchNorm(x, shape, 1, given)),
  };
}

export function batchNormalizationInTraining(layer: Layer, axis = 1): Pair {
  const { x, shape, scale, bias, epsilon } = layer;
  const channels = shape[1] as number;
  const expected = reference.batchNormTraining(x, shape, 1, { scale, bias, epsilon });
  const { mean, variance } = statistics(expected);
  const nothing = { shape: [channels], values: new Float32Array(channels) };
  return {
    op: 'BatchNormalization in training',
    shape,
    node: {
      opType: 'BatchNormalization',
      opset: 15,
      // Without momentum the running statistics are the batch's.
      attributes: { epsilon, training_mode: 1, momentum: 0 },
      inputs: { ...channelInputs(layer), runningMean: nothing, runningVariance: nothing },
      outputs: ['y', 'mean', 'variance'],
    },
    ours: (sn) => {
      const [meanOut, varianceOut] = [new Float32Array(channels), new Float32Array(channels)];
      const options = { scale, bias, epsilon, meanOut, varianceOut };
      const y = withChannelsAt(layer, axis, (moved, where) => sn.batchNormTraining(moved, { ...where, ...options }).y);
      return { y, mean: meanOut, variance: varianceOut };
    },
    right: { ...yOf(expected), mean, variance },
  };
}

export function instanceNormalization(layer: Layer, axis = 1): Pair {
  const { x, shape, scale, bias, epsilon } = layer;
  const options = { scale, bias, epsilon };
  return {
    op: 'InstanceNormalization',
    shape,
    node: { opType: 'InstanceNormalization', opset: 22, attributes: { epsilon }, inputs: channelInputs(layer) },
    ours: (sn) => {
      return { y: withChannelsAt(layer, axis, (moved, where) => sn.instanceNorm(moved, { ...where, ...options })) };
    },
    right: yOf(reference.instanceNorm(x, shape, 1, options)),
  };
}

export function groupNormalization(layer: Layer, groups: number, axis = 1): Pair {
  const { x, shape, scale, bias, epsilon } = layer;
  const options = { groups, scale, bias, epsilon };
  return {
    op: `GroupNormalization of ${groups} groups`,
    shape,
    node: {
      opType: 'GroupNormalization',
      opset: 21,
      attributes: { epsilon, num_groups: groups },
      inputs: channelInputs(layer),
    },
    ours: (sn) => {
      return { y: withChannelsAt(layer, axis, (moved, where) => sn.groupNorm(moved, { ...where, ...options })) };
    },
    right: yOf(reference.groupNorm(x, shape, 1, groups, options)),
  };
}

export function lpNormalization({ x, shape }: Pick<Layer, 'x' | 'shape'>, axis: number, p: 1 | 2): Pair {
  const options = { p, epsilon: 0 };
  return {
    op: `LpNormalization of p ${p} over ${axis}`,
    shape,
    node: { opType: 'LpNormalization', opset: 22, attributes: { axis, p }, inputs: { x: { shape, values: x } } },
    ours: (sn) => ({ y: sn.lpNormalize(x, { shape, axes: axis, ...options }) }),
    right: yOf(reference.lpNormalize(x, shape, [axis], options)),
  };
}

export interface Response {
  readonly size: number;
  readonly alpha: number;
  readonly beta: number;
  readonly k: number;
}

export function localResponseNormalization(layer: Pick<Layer, 'x' | 'shape'>, response: Response, axis = 1): Pair {
  const { x, shape } = layer;
  const { size, alpha, beta, k } = response;
  return {
    op: `LRN of size ${size}`,
    shape,
    node: {
      opType: 'LRN',
      opset: 13,
      attributes: { size, alpha, beta, bias: k },
      inputs: { x: { shape, values: x } },
    },
    ours: (sn) => ({
      y: withChannelsAt(layer, axis, (moved, where) => sn.localResponseNorm(moved, { ...where, ...response })),
    }),
    right: yOf(reference.localResponseNorm(x, shape, 1, response)),
  };
}
