// Batch norm at inference is linear, so the linear layer before it can do it as well.

import * as check from './check.js';
import { type Numbers, typedArrayTag, type Values } from './dtype.js';
import { NormError } from './errors.js';
import { resultArray } from './heap.js';

const op = 'foldBatchNorm';

/** The parts of a batch norm: those of a layer, or options as batchNorm has them. */
interface Norm {
  readonly mean: unknown;
  readonly variance: unknown;
  readonly scale: unknown;
  readonly bias: unknown;
  readonly epsilon: unknown;
}

function normOf(norm: unknown): Norm {
  if (typeof norm !== 'object' || norm === null || ArrayBuffer.isView(norm)) {
    const expected = 'a BatchNorm layer, or mean, variance, scale, bias and epsilon';
    throw new NormError('ERR_TYPE', op, `norm must be ${expected}, got ${check.kindOf(norm)}`);
  }
  if (!('parameters' in norm)) {
    check.optionNames(op, norm, ['mean', 'variance', 'scale', 'bias', 'epsilon', 'shape', 'axis', 'dtype']);
    return norm as Norm;
  }
  if (!('runningMean' in norm && 'runningVariance' in norm)) {
    throw new NormError('ERR_TYPE', op, `norm must be a BatchNorm layer, got ${check.kindOf(norm)}`);
  }
  const { runningMean, runningVariance, parameters, epsilon } = norm as {
    runningMean: unknown;
    runningVariance: unknown;
    parameters: readonly { readonly name: string; readonly value: unknown }[];
    epsilon?: unknown;
  };
  const parameterOf = (wanted: string) => parameters.find(({ name }) => name === wanted)?.value;
  return {
    mean: runningMean,
    variance: runningVariance,
    scale: parameterOf('scale'),
    bias: parameterOf('bias'),
    epsilon,
  };
}

function floatsOf(name: string, value: unknown): Values {
  const tag = typedArrayTag.call(value);
  if (tag === 'Float32Array' || tag === 'Float64Array' || tag === 'Float16Array') {
    return check.values(op, name, value, check.dtypeOf(op, value, undefined));
  }
  const expected = 'a Float32Array, a Float64Array or a Float16Array';
  throw new NormError('ERR_TYPE', op, `${name} must be ${expected}, got ${check.kindOf(value)}`);
}

export interface Folded {
  weight: Float32Array;
  bias: Float32Array;
}

export function foldBatchNorm(weightGiven: unknown, biasGiven: unknown, norm: unknown, options: unknown): Folded {
  check.optionNames(op, options, ['shape', 'axis']);
  const o = (options ?? {}) as { readonly shape?: unknown; readonly axis?: unknown };
  if (o.shape === undefined || o.shape === null) {
    throw new NormError('ERR_TYPE', op, 'shape is missing: { shape } is that of weight, output channels along axis 0');
  }
  const weight = floatsOf('weight', weightGiven);
  const shape = check.shapeOf(op, Array.isArray(o.shape) ? [...o.shape] : o.shape, weight, 'weight');
  const axis = check.axisOf(op, 'axis', o.axis ?? 0, shape);
  const channels = shape[axis] as number;
  const hint = o.axis === undefined || o.axis === null ? ', unless you pass another axis' : '';
  const why = () => `the output channels, axis ${axis} of shape ${check.list(shape)}${hint}`;
  const given = normOf(norm);
  // In double, and rounded once.
  const call = { op, dtype: 'float64', hasHalves: false } as const;
  const mean = check.vector(call, 'mean', given.mean, channels, why);
  const variance = check.vector(call, 'variance', given.variance, channels, why);
  const scale = check.optionalVector(call, 'scale', given.scale, channels, why);
  const normBias = check.optionalVector(call, 'bias', given.bias, channels, why);
  const epsilon = check.epsilon(op, given.epsilon, 1e-5);
  const bias = biasGiven === null || biasGiven === undefined ? undefined : floatsOf('bias', biasGiven);
  if (bias) check.sameLength(op, 'bias', bias.length, channels, why);

  const at = (values: Numbers | Values | undefined, i: number, absent: number) =>
    values ? (values[i] as number) : absent;
  const factors = Float64Array.from({ length: channels }, (_, c) => {
    return at(scale, c, 1) / Math.sqrt((variance[c] as number) + epsilon);
  });
  const inner = shape.slice(axis + 1).reduce((product, extent) => product * extent, 1);
  const folded = resultArray(op, 4 * weight.length, () => new Float32Array(weight.length));
  for (let i = 0; i < folded.length; ++i) {
    folded[i] = (weight[i] as number) * (factors[Math.floor(i / inner) % channels] as number);
  }
  const foldedBias = Float32Array.from(factors, (factor, c) => {
    return (at(bias, c, 0) - (mean[c] as number)) * factor + at(normBias, c, 0);
  });
  return { weight: folded, bias: foldedBias };
}
