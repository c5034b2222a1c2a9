// Batch norm at inference is linear, so the linear layer before it can do it as well.

import * as check from './check.js';
import { lengthOf, type Numbers, typedArrayTag, type Values } from './dtype.js';
import { NormError } from './errors.js';
import { newArray } from './heap.js';
import { numbersOf } from './tensor.js';

const op = 'foldBatchNorm';

/** Those of batchNorm that are read here, and those that change nothing. */
const foldOptions = new Set(['shape', 'axis']);
const normOptions = new Set(['mean', 'variance', 'scale', 'bias', 'epsilon', 'shape', 'axis', 'dtype']);

/** A batch norm as options of batchNorm, from a layer or as they are. */
function normOf(norm: unknown): unknown {
  if (typeof norm === 'object' && norm !== null && !ArrayBuffer.isView(norm) && check.isArray(norm) === false) {
    if (!('parameters' in norm)) return norm;
    try {
      const { runningMean, runningVariance, parameters, epsilon } = norm as unknown as {
        runningMean: unknown;
        runningVariance: unknown;
        parameters: readonly { readonly name: string; readonly value: unknown }[];
        epsilon?: unknown;
      };
      const parameterOf = (wanted: string) => parameters.find(({ name }) => name === wanted)?.value;
      const affine = { scale: parameterOf('scale'), bias: parameterOf('bias') };
      if (runningMean && runningVariance) return { mean: runningMean, variance: runningVariance, ...affine, epsilon };
    } catch {
      // Not everything that has parameters has those of a layer.
    }
  }
  const expected = 'a BatchNorm layer, or mean, variance, scale, bias and epsilon';
  throw check.typeError(op, 'norm', expected, norm);
}

function floatsOf(name: string, value: unknown): Values {
  const tag = typedArrayTag.call(value);
  if (tag === 'Float32Array' || tag === 'Float64Array' || tag === 'Float16Array') {
    return check.values(op, name, value, check.dtypeOf(op, value, undefined)) as Values;
  }
  const expected = 'a Float32Array, a Float64Array or a Float16Array';
  throw check.typeError(op, name, expected, value, check.hintFor(name, value));
}

export interface Folded {
  weight: Float32Array;
  bias: Float32Array;
}

export function foldBatchNorm(weightGiven: unknown, biasGiven: unknown, norm: unknown, options: unknown): Folded {
  // All code of the user's runs here, before anything that it could change is checked.
  const o = check.options(op, options, foldOptions, weightGiven);
  const given = check.options(op, normOf(norm), normOptions, weightGiven);
  if (o.shape === undefined || o.shape === null) {
    throw new NormError('ERR_TYPE', op, 'shape is missing: { shape } is that of weight, output channels along axis 0');
  }
  const weight = floatsOf('weight', weightGiven);
  const shape = check.shapeOf(op, o.shape, lengthOf(weight), 'weight');
  const axis = check.axisOf(op, 'axis', o.axis ?? 0, shape);
  const channels = shape[axis] as number;
  const hint = o.axis === undefined || o.axis === null ? ', unless you pass another axis' : '';
  const why = () => `the output channels, axis ${axis} of shape ${check.list(shape)}${hint}`;
  // In double, and rounded once.
  const call = { op, dtype: 'float64', hasHalves: false } as const;
  const mean = numbersOf(check.vector(call, 'mean', given.mean, channels, why), op, 'mean');
  const variance = numbersOf(check.vector(call, 'variance', given.variance, channels, why), op, 'variance');
  const scaleGiven = check.optionalVector(call, 'scale', given.scale, channels, why);
  const scale = scaleGiven && numbersOf(scaleGiven, op, 'scale');
  const normBiasGiven = check.optionalVector(call, 'bias', given.bias, channels, why);
  const normBias = normBiasGiven && numbersOf(normBiasGiven, op, 'bias');
  const epsilon = check.epsilon(op, given.epsilon, 1e-5);
  const bias = biasGiven === null || biasGiven === undefined ? undefined : floatsOf('bias', biasGiven);
  if (bias) check.sameLength(op, 'bias', lengthOf(bias), channels, why, undefined);

  const at = (values: Numbers | Values | undefined, i: number, absent: number) =>
    values ? (values[i] as number) : absent;
  const factors = Float64Array.from({ length: channels }, (_, c) => {
    return at(scale, c, 1) / Math.sqrt((variance[c] as number) + epsilon);
  });
  const inner = check.product(shape.slice(axis + 1));
  const folded = newArray(op, lengthOf(weight), 'float32');
  for (let i = 0; i < folded.length; ++i) {
    folded[i] = (weight[i] as number) * (factors[Math.floor(i / inner) % channels] as number);
  }
  const foldedBias = Float32Array.from(factors, (factor, c) => {
    return (at(bias, c, 0) - (mean[c] as number)) * factor + at(normBias, c, 0);
  });
  return { weight: folded, bias: foldedBias };
}
