// Checks of arguments. Everything is checked before anything is written, here, where the values are known; every
// message says the operation, what was given and what was expected.

import type { Call } from './call.js';
import { type DType, isBits, isDetached, type Numbers, numbersOfHalves, statisticsOf, typedArrayTag } from './dtype.js';
import { NormError } from './errors.js';
import { resultArray } from './heap.js';
import { type Data, dtypeOfData, isData, lengthOf, Tensor } from './tensor.js';

export const maxRank = 16;

/** Undefined of a revoked proxy, of which nothing else can be asked. */
export function isArray(value: unknown): value is unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return undefined as unknown as false;
  }
}

export function product(extents: readonly number[]): number {
  return extents.reduce((size, extent) => size * extent, 1);
}

/** As a user writes it. */
export function list(values: readonly number[]): string {
  return `[${values.join(', ')}]`;
}

/** What somebody gave instead, in words. */
export function kindOf(value: unknown): string {
  const tag = typedArrayTag.call(value);
  if (tag) return `${/^[AEIOU]/.test(tag) && !tag.startsWith('Ui') ? 'an' : 'a'} ${tag}`;
  if (isArray(value)) return 'an Array';
  if (Tensor.is(value)) return `a Tensor of ${value.dtype}`;
  if (value === null || typeof value === 'undefined') return String(value);
  if (typeof value === 'number' || typeof value === 'boolean') return `the ${typeof value} ${value}`;
  if (typeof value === 'string') return `the string ${JSON.stringify(value.slice(0, 40))}`;
  if (typeof value !== 'object') return `a ${typeof value}`;
  let name: unknown;
  try {
    name = value.constructor.name;
  } catch {
    // Without a class, a revoked proxy, a getter: what is said of a wrong value is no place for an error of its own.
  }
  return `an object (${typeof name === 'string' ? name.slice(0, 40) : 'of no class'})`;
}

/** Of a value of the wrong kind. */
export function typeError(op: string, name: string, expected: string, value: unknown, hint = ''): NormError {
  return new NormError('ERR_TYPE', op, `${name} must be ${expected}, got ${kindOf(value)}${hint}`);
}

/** Of a number out of its range. */
export function rangeError(op: string, name: string, expected: string, number: number): NormError {
  return new NormError('ERR_RANGE', op, `${name} must be ${expected}, got ${number}`);
}

/** The length of an array that isn't detached. (Whether a Tensor is freed is seen when its address is asked for.) */
export function attachedLength(op: string, name: string, values: Data | Int32Array): number {
  const length = lengthOf(values);
  if (length > 0 || Tensor.is(values) || !isDetached(values)) return length;
  const why = 'transferred, or of a Tensor from before the memory grew: ask for tensor.data again';
  throw new NormError('ERR_TYPE', op, `the buffer of ${name} is detached (${why})`);
}

const arraysOf = {
  float32: 'a Float32Array',
  float64: 'a Float64Array',
  float16: 'a Float16Array, or a Uint16Array of bits',
};

function hintForBits(value: unknown): string {
  return isBits(value) ? ": if these are float16 bits, say dtype: 'float16'" : '';
}

/** How to make one array of one that has others in it, or undefined where it has none. */
function flattened(name: string, values: readonly unknown[]): string | undefined {
  const first = values[0];
  if (isArray(first)) return `${name}.flat(Infinity)`;
  // These flat() leaves as they are.
  return ArrayBuffer.isView(first) ? `${name}.flatMap((row) => [...row])` : undefined;
}

/** What may help whoever gave something else than a typed array of floats. */
export function hintFor(name: string, value: unknown): string {
  if (!isArray(value)) return hintForBits(value);
  const flat = flattened(name, value);
  return flat ? `: use Float32Array.from(${flat}) and shape` : ': use Float32Array.from(...)';
}

/** The type of x. The option says what the bits of Uint16Arrays are: x's, or those of parameters beside another x. */
export function dtypeOf(op: string, x: unknown, option: unknown, isOfParameters = false): DType {
  const dtype = dtypeOfData(x);
  if (option === undefined || option === null) {
    if (dtype) return dtype;
    const expected = 'a Float32Array, a Float64Array, a Float16Array or a Tensor';
    throw typeError(op, 'x', expected, x, hintFor('x', x));
  }
  if (option !== 'float16') {
    const why = 'Float32Array and Float64Array say what they are';
    throw new NormError('ERR_TYPE', op, `dtype may only be 'float16' (${why}), got ${kindOf(option)}`);
  }
  if (isBits(x) || dtype === 'float16') return 'float16';
  if (dtype && isOfParameters) return dtype;
  const others = dtype ? ', and so is no parameter' : '';
  throw new NormError('ERR_TYPE', op, `dtype: 'float16' is for a Uint16Array of bits, but x is ${kindOf(x)}${others}`);
}

/** An array or Tensor of a type. */
export function values(op: string, name: string, value: unknown, dtype: DType): Data {
  const isRight = dtypeOfData(value) === dtype || (dtype === 'float16' && isBits(value));
  if (!isRight) {
    throw typeError(op, name, `${arraysOf[dtype]}, as x is`, value);
  }
  attachedLength(op, name, value as Data);
  return value as Data;
}

/** In words, why something must be so long. Of the call: a closure for each would be garbage. */
type Why<C> = (call: C) => string;

export function sameLength<C>(op: string, name: string, length: number, expected: number, why: Why<C>, call: C): void {
  if (length === expected) return;
  throw new NormError('ERR_SHAPE', op, `${name} has ${length} values, expected ${expected} (${why(call)})`);
}

const asX = () => "x's length";

/** An array like x, or absent. */
export function optionalValues(
  op: string,
  name: string,
  value: unknown,
  dtype: DType,
  length: number,
): Data | undefined {
  if (value === undefined || value === null) return undefined;
  const array = values(op, name, value, dtype);
  sameLength(op, name, lengthOf(array), length, asX, undefined);
  return array;
}

/** An array that receives statistics, or absent. */
export function optionalStatistics(
  call: Call,
  name: string,
  value: unknown,
  length: number,
  why: Why<Call>,
): Numbers | Tensor | undefined {
  if (value === undefined || value === null) return undefined;
  const { op, dtype } = call;
  const wanted = statisticsOf(dtype);
  if (dtypeOfData(value) !== wanted) {
    const reason = `statistics of ${dtype} are ${wanted}`;
    throw typeError(op, name, `${arraysOf[wanted]} (${reason})`, value);
  }
  const array = value as Numbers | Tensor;
  sameLength(op, name, attachedLength(op, name, array), length, why, call);
  return array;
}

/** What a vector depends on: the type of x, and whether Uint16Arrays are float16 bits. */
type VectorCall = Pick<Call, 'op' | 'dtype' | 'hasHalves'>;

/** Parameters and given statistics: floats or plain numbers, of an exact length. */
export function vector<C extends VectorCall>(
  call: C,
  name: string,
  value: unknown,
  length: number,
  why: Why<C>,
): Numbers | Tensor {
  const { op, hasHalves } = call;
  const hasBits = hasHalves && isBits(value);
  if (hasBits || dtypeOfData(value)) {
    const array = value as Data;
    sameLength(op, name, attachedLength(op, name, array), length, why, call);
    return hasBits ? numbersOfHalves(array as Uint16Array) : (array as Numbers | Tensor);
  }
  if (!isArray(value)) {
    const expected = 'a Float32Array, a Float64Array, a Float16Array, a Tensor or an array of numbers';
    throw typeError(op, name, expected, value, hintForBits(value));
  }
  const flat = flattened(name, value);
  if (flat) throw typeError(op, `${name}[0]`, 'a number', value[0], `: use ${flat}`);
  sameLength(op, name, value.length, length, why, call);
  return Float64Array.from(value, (element, i) => {
    if (typeof element === 'number') return element;
    throw typeError(op, `${name}[${i}]`, 'a number', element);
  });
}

export function optionalVector<C extends VectorCall>(
  call: C,
  name: string,
  value: unknown,
  length: number,
  why: Why<C>,
): Numbers | Tensor | undefined {
  return value === undefined || value === null ? undefined : vector(call, name, value, length, why);
}

/** A copy, which no worker can change, of the valid lengths of the items along axis 1, or absent. */
export function lengthsOf(op: string, value: unknown, shape: readonly number[]): Int32Array | undefined {
  if (value === undefined || value === null) return undefined;
  const isTyped = typedArrayTag.call(value) === 'Int32Array';
  if (!isTyped && !isArray(value)) {
    throw typeError(op, 'lengths', 'an Int32Array or an array of integers', value);
  }
  const given = value as Int32Array | unknown[];
  const count = isTyped ? attachedLength(op, 'lengths', given as Int32Array) : given.length;
  if (shape.length < 2) {
    throw new NormError('ERR_SHAPE', op, `lengths are along axis 1, but shape ${list(shape)} has none`);
  }
  const [items, extent] = shape as [number, number];
  sameLength(op, 'lengths', count, items, () => `the extent of axis 0 of shape ${list(shape)}`, undefined);
  const lengths = resultArray(op, 4 * items, () => new Int32Array(items));
  for (let i = 0; i < items; ++i) {
    const length: unknown = given[i];
    if (typeof length !== 'number') {
      throw typeError(op, `lengths[${i}]`, 'an integer', length);
    }
    if (!(Number.isInteger(length) && length >= 0 && length <= extent)) {
      const range = `an integer from 0 to ${extent}, the extent of axis 1`;
      throw rangeError(op, `lengths[${i}]`, range, length);
    }
    lengths[i] = length;
  }
  return lengths;
}

/** How many letters must be added, removed or changed to get from a to b (Levenshtein 1966). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; ++i) {
    const next = [i];
    for (let j = 1; j <= b.length; ++j) {
      const changed = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}

/** What other libraries call these. */
const otherNames: Record<string, readonly string[]> = {
  epsilon: ['eps'],
  scale: ['gamma', 'weight', 'gain'],
  bias: ['beta', 'offset'],
  axes: ['axis', 'dim', 'dims'],
  axis: ['axes', 'dim', 'channel_axis', 'channelAxis'],
  groups: ['num_groups', 'numGroups'],
  mean: ['running_mean', 'runningMean'],
  variance: ['var', 'running_var', 'runningVar', 'runningVariance'],
  lengths: ['mask'],
  affine: ['elementwise_affine', 'elementwiseAffine'],
};

/** What to do instead of an option that none of ours stands for. */
function adviceFor(op: string, name: string, names: readonly string[]): string | undefined {
  if (op === 'batchNorm' && name === 'training') return "batchNormTraining goes by the batch's own statistics";
  const isShape = name === 'normalized_shape' || name === 'normalizedShape';
  return isShape && names.includes('axes')
    ? 'give shape, that of x, and axes, numbers of axes such as [-2, -1]'
    : undefined;
}

function nearestName(name: string, names: readonly string[]): string | undefined {
  const known = names.find((candidate) => otherNames[candidate]?.includes(name));
  // What another operation has is no misspelling.
  if (known || name in new Options()) return known;
  const distances = names.map((candidate) => editDistance(name.toLowerCase(), candidate.toLowerCase()));
  const least = Math.min(...distances);
  return least <= Math.min(3, name.length / 2) ? names[distances.indexOf(least)] : undefined;
}

/** An option that an operation doesn't have may only be absent. */
function rejectUnknown(op: string, given: string, value: unknown, known: Names): void {
  if (value === undefined || value === null) return;
  const names = [...known];
  const name = given.slice(0, 40);
  const nearest = nearestName(name, names);
  const offer = nearest ? `did you mean '${nearest}'?` : `there are ${names.join(', ')}`;
  const hint = adviceFor(op, name, names) ?? offer;
  throw new NormError('ERR_TYPE', op, `no option '${name}': ${hint}`);
}

/** The names of an operation's options. */
export type Names = ReadonlySet<string>;

/** Makes sure that the options are an object with no others than these in it. */
export function optionNames(op: string, value: unknown, names: Names): void {
  if (value === undefined || value === null) return;
  if (typeof value !== 'object' || isArray(value) !== false || ArrayBuffer.isView(value)) {
    const hint = isArray(value) ? ': a shape is { shape: [...] }' : '';
    throw typeError(op, 'the options', 'an object', value, hint);
  }
  for (const name in value) {
    if (!names.has(name)) rejectUnknown(op, name, (value as Record<string, unknown>)[name], names);
  }
}

/** What a user gave for the options of all operations. */
export class Options {
  shape: unknown;
  dtype: unknown;
  axes: unknown;
  axis: unknown;
  groups: unknown;
  scale: unknown;
  bias: unknown;
  epsilon: unknown;
  mean: unknown;
  variance: unknown;
  out: unknown;
  lengths: unknown;
  residual: unknown;
  residualOut: unknown;
  meanOut: unknown;
  varianceOut: unknown;
  invStdOut: unknown;
  invStd: unknown;
  dScaleOut: unknown;
  dBiasOut: unknown;
  p: unknown;
  size: unknown;
  alpha: unknown;
  beta: unknown;
  k: unknown;

  clear(): void {
    this.shape = this.dtype = this.axes = this.axis = this.groups = this.scale = undefined;
    this.bias = this.epsilon = this.mean = this.variance = this.out = this.lengths = this.residual = undefined;
    this.residualOut = this.meanOut = this.varianceOut = this.invStdOut = this.invStd = this.dScaleOut = undefined;
    this.dBiasOut = this.p = this.size = this.alpha = this.beta = this.k = undefined;
  }
}

const noOptions = new Options();

/** A plain array, copied, if it isn't longer than what can be right. */
export function settled(op: string, name: string, value: unknown, most: number): unknown {
  if (!isArray(value)) return value;
  const { length } = value;
  // A proxy's length may be anything.
  if (typeof length !== 'number' || !(length <= most)) {
    const code = name === 'axes' ? 'ERR_AXIS' : 'ERR_SHAPE';
    throw new NormError(code, op, `${name} may have ${most} values at most, got ${kindOf(length)}`);
  }
  const copy: unknown[] = new Array(length);
  for (let i = 0; i < length; ++i) copy[i] = value[i];
  return copy;
}

/** The same of parameters and lengths beside x. */
function settledVector(op: string, name: string, value: unknown, x: unknown): unknown {
  return isArray(value) ? settled(op, name, value, Math.max(2 ** 20, isData(x) ? lengthOf(x) : 0)) : value;
}

/**
 * The options, each read once, and plain arrays copied. Options and elements may be getters, which may do anything, such
 * as detach an array that has been checked, or call an operation: after this, no code of the user's runs until the call
 * is done. So nothing is written until all has been read.
 */
export function options(op: string, value: unknown, names: Names, x?: unknown, into: Options = new Options()): Options {
  optionNames(op, value, names);
  const o = (value ?? noOptions) as Options;
  const shape = settled(op, 'shape', o.shape, maxRank);
  const dtype = o.dtype;
  const axes = settled(op, 'axes', o.axes, maxRank);
  const axis = o.axis;
  const groups = o.groups;
  const scale = settledVector(op, 'scale', o.scale, x);
  const bias = settledVector(op, 'bias', o.bias, x);
  const epsilon = o.epsilon;
  const mean = settledVector(op, 'mean', o.mean, x);
  const variance = settledVector(op, 'variance', o.variance, x);
  const out = o.out;
  const lengths = settledVector(op, 'lengths', o.lengths, x);
  const residual = o.residual;
  const residualOut = o.residualOut;
  const meanOut = o.meanOut;
  const varianceOut = o.varianceOut;
  const invStdOut = o.invStdOut;
  const invStd = settledVector(op, 'invStd', o.invStd, x);
  const dScaleOut = o.dScaleOut;
  const dBiasOut = o.dBiasOut;
  const p = o.p;
  const size = o.size;
  const alpha = o.alpha;
  const beta = o.beta;
  const k = o.k;
  into.shape = shape;
  into.dtype = dtype;
  into.axes = axes;
  into.axis = axis;
  into.groups = groups;
  into.scale = scale;
  into.bias = bias;
  into.epsilon = epsilon;
  into.mean = mean;
  into.variance = variance;
  into.out = out;
  into.lengths = lengths;
  into.residual = residual;
  into.residualOut = residualOut;
  into.meanOut = meanOut;
  into.varianceOut = varianceOut;
  into.invStdOut = invStdOut;
  into.invStd = invStd;
  into.dScaleOut = dScaleOut;
  into.dBiasOut = dBiasOut;
  into.p = p;
  into.size = size;
  into.alpha = alpha;
  into.beta = beta;
  into.k = k;
  return into;
}

/** A number, or what stands for an absent one. */
function numberOf(op: string, name: string, value: unknown, absent: number | undefined): number {
  if (absent !== undefined && (value === undefined || value === null)) return absent;
  if (typeof value === 'number') return value;
  throw typeError(op, name, 'a number', value);
}

export function epsilon(op: string, value: unknown, absent: number): number {
  const number = numberOf(op, 'epsilon', value, absent);
  if (number >= 0 && number < Infinity) return number;
  throw rangeError(op, 'epsilon', 'finite and at least 0', number);
}

export function finite(op: string, name: string, value: unknown, absent: number): number {
  const number = numberOf(op, name, value, absent);
  if (Number.isFinite(number)) return number;
  throw rangeError(op, name, 'finite', number);
}

export function positiveInteger(op: string, name: string, value: unknown): number {
  if (value === undefined || value === null)
    throw new NormError('ERR_TYPE', op, `${name} is required, got ${String(value)}`);
  const number = numberOf(op, name, value, undefined);
  if (Number.isInteger(number) && number > 0) return number;
  throw rangeError(op, name, 'an integer and at least 1', number);
}

/** How many groups a number of channels makes. */
export function groupsOf(op: string, value: unknown, channels: number, where = ''): number {
  const groups = positiveInteger(op, 'groups', value);
  if (channels % groups === 0) return groups;
  throw new NormError('ERR_RANGE', op, `groups must divide the ${channels} channels${where}, got ${groups}`);
}

/** The weight of the newest batch; null is a value here, undefined is not. */
export function momentumOf(op: string, value: unknown): number | null {
  if (value === null) return null;
  const momentum = numberOf(op, 'momentum', value, 0.1);
  if (momentum >= 0 && momentum <= 1) return momentum;
  throw rangeError(op, 'momentum', 'from 0 to 1, or null for the plain average', momentum);
}

/** How often something has happened. */
export function countOf(op: string, name: string, value: unknown): number {
  const count = numberOf(op, name, value, undefined);
  if (Number.isInteger(count) && count >= 0) return count;
  throw rangeError(op, name, 'an integer and at least 0', count);
}

/** Lengths along the channels' axis would leave whole channels out. */
export function lengthsBesideChannels(op: string, axis: number, lengths: unknown): void {
  if (!lengths || axis !== 1) return;
  throw new NormError('ERR_AXIS', op, 'the channels cannot be along axis 1, as the lengths are: pass axis: 2');
}

/** The p of a norm. */
export function orderOfNorm(op: string, value: unknown): number {
  const p = numberOf(op, 'p', value, 2);
  if (p === 1 || p === 2 || p === Infinity) return p;
  throw rangeError(op, 'p', '1, 2 or Infinity', p);
}

/** An array of extents; how many values they make. */
export function sizeOf(op: string, value: unknown): number {
  if (!isArray(value)) {
    throw typeError(op, 'shape', 'an array of integers', value);
  }
  let size = 1;
  for (let i = 0; i < value.length; ++i) {
    const extent: unknown = value[i];
    if (typeof extent !== 'number') {
      throw typeError(op, `shape[${i}]`, 'an integer', extent);
    }
    if (!Number.isInteger(extent) || extent < 0) {
      throw new NormError('ERR_SHAPE', op, `shape[${i}] must be an integer and at least 0, got ${extent}`);
    }
    size *= extent;
  }
  return size;
}

/** An extent of 0 makes any other one possible, also one that 32 bits can't hold. */
export function fitsWords(op: string, shape: readonly number[]): void {
  for (let i = 0; i < shape.length; ++i) {
    if ((shape[i] as number) < 2 ** 32) continue;
    throw new NormError('ERR_SHAPE', op, `shape ${list(shape)} has an extent beyond 2^32 - 1`);
  }
}

/** The extents of x: those given, or [x.length]. */
export function shapeOf(op: string, value: unknown, length: number, name = 'x'): readonly number[] {
  if (value === undefined || value === null) return [length];
  const size = sizeOf(op, value);
  const shape = value as number[];
  if (size !== length) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(shape)} has ${size} values, but ${name} has ${length}`);
  }
  fitsWords(op, shape);
  return shape;
}

/** An axis counted from the front. */
export function axisOf(
  op: string,
  option: 'axis' | 'axes',
  value: unknown,
  shape: readonly number[],
  place?: number,
): number {
  const rank = shape.length;
  if (Number.isInteger(value) && (value as number) >= -rank && (value as number) < rank) {
    return (value as number) < 0 ? (value as number) + rank : (value as number);
  }
  const name = place === undefined ? option : `${option}[${place}]`;
  if (typeof value !== 'number') {
    throw typeError(op, name, 'an integer', value);
  }
  const hint = rank === 1 ? ' (pass shape if x has more)' : '';
  const range = rank === 0 ? 'it has no axes' : `its axes are ${-rank} to ${rank - 1}${hint}`;
  throw new NormError('ERR_AXIS', op, `${name} ${value} is out of range for shape ${list(shape)}: ${range}`);
}

const lastAxis = Array.from({ length: maxRank }, (_, axis) => [axis]);

/** Axes counted from the front, in the order given. */
export function axesOf(op: string, value: unknown, shape: readonly number[]): readonly number[] {
  if (value === undefined || value === null) return lastAxis[axisOf(op, 'axes', -1, shape)] as number[];
  if (!isArray(value)) return [axisOf(op, 'axes', value, shape)];
  const axes: number[] = [];
  for (let i = 0; i < value.length; ++i) {
    const axis = axisOf(op, 'axes', value[i], shape, i);
    if (axes.includes(axis)) {
      const given = value.slice(0, i + 1) as number[];
      throw new NormError('ERR_AXIS', op, `axes ${list(given)} name axis ${axis} twice`);
    }
    axes.push(axis);
  }
  return axes;
}

/** Whether axes are the last ones of a rank in ascending order. */
export function areLast(axes: readonly number[], rank: number): boolean {
  for (let i = 0; i < axes.length; ++i) if (axes[i] !== rank - axes.length + i) return false;
  return true;
}

/** How many values share statistics. None is an error: there is no mean of nothing. */
export function countOver(op: string, shape: readonly number[], axes: readonly number[]): number {
  let count = 1;
  for (let i = 0; i < axes.length; ++i) count *= shape[axes[i] as number] as number;
  if (count === 0) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(shape)} has nothing to normalize over along axes ${list(axes)}`);
  }
  return count;
}
