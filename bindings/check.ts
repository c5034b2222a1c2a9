// Checks of arguments. Everything is checked before anything is written, here, where the values are known; every
// message says the operation, what was given and what was expected.

import { type Call, maxRank } from './call.js';
import {
  type DType,
  dtypeOfTag,
  isBits,
  isDetached,
  lengthOf,
  type Numbers,
  numbersOfHalves,
  statisticsOf,
  typedArrayTag,
  type Values,
} from './dtype.js';
import { NormError } from './errors.js';
import { resultArray } from './heap.js';

/** Undefined of a revoked proxy, of which nothing else can be asked. */
export function isArray(value: unknown): value is unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return undefined as unknown as false;
  }
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

/** The length of an array that isn't detached. */
function attachedLength(op: string, name: string, values: Values | Int32Array): number {
  const length = lengthOf(values);
  if (length > 0 || !isDetached(values)) return length;
  throw new NormError('ERR_TYPE', op, `the buffer of ${name} is detached (was it transferred?)`);
}

const arraysOf = {
  float32: 'a Float32Array',
  float64: 'a Float64Array',
  float16: 'a Float16Array, or a Uint16Array of bits',
};

function hintForBits(value: unknown): string {
  return isBits(value) ? ": if these are float16 bits, say dtype: 'float16'" : '';
}

/** What may help whoever gave something else than a typed array of floats. */
function hintFor(value: unknown): string {
  if (!isArray(value)) return hintForBits(value);
  const first = value[0];
  const isNested = typeof first === 'object' && first !== null;
  return isNested ? ': use Float32Array.from(x.flat(Infinity)) and shape' : ': use Float32Array.from(...)';
}

/** The type of x. The option says what the bits of Uint16Arrays are: x's, or those of parameters beside another x. */
export function dtypeOf(op: string, x: unknown, option: unknown, isOfParameters = false): DType {
  const tag = typedArrayTag.call(x);
  const dtype = dtypeOfTag(tag);
  if (option === undefined || option === null) {
    if (dtype) return dtype;
    const expected = 'a Float32Array, a Float64Array or a Float16Array';
    throw new NormError('ERR_TYPE', op, `x must be ${expected}, got ${kindOf(x)}${hintFor(x)}`);
  }
  if (option !== 'float16') {
    const why = 'Float32Array and Float64Array say what they are';
    throw new NormError('ERR_TYPE', op, `dtype may only be 'float16' (${why}), got ${kindOf(option)}`);
  }
  if (tag === 'Uint16Array' || dtype === 'float16') return 'float16';
  if (dtype && isOfParameters) return dtype;
  const others = dtype ? ', and so is no parameter' : '';
  throw new NormError('ERR_TYPE', op, `dtype: 'float16' is for a Uint16Array of bits, but x is ${kindOf(x)}${others}`);
}

/** An array of a type. */
export function values(op: string, name: string, value: unknown, dtype: DType): Values {
  const tag = typedArrayTag.call(value);
  const isRight = dtypeOfTag(tag) === dtype || (dtype === 'float16' && isBits(value));
  if (!isRight) {
    throw new NormError('ERR_TYPE', op, `${name} must be ${arraysOf[dtype]}, as x is, got ${kindOf(value)}`);
  }
  attachedLength(op, name, value as Values);
  return value as Values;
}

export function sameLength(op: string, name: string, length: number, expected: number, why: () => string): void {
  if (length === expected) return;
  throw new NormError('ERR_SHAPE', op, `${name} has ${length} values, expected ${expected} (${why()})`);
}

/** An array like x, or absent. */
export function optionalValues(
  op: string,
  name: string,
  value: unknown,
  dtype: DType,
  length: number,
  why: () => string,
): Values | undefined {
  if (value === undefined || value === null) return undefined;
  const array = values(op, name, value, dtype);
  sameLength(op, name, lengthOf(array), length, why);
  return array;
}

/** An array that receives statistics, or absent. */
export function optionalStatistics(
  { op, dtype }: Call,
  name: string,
  value: unknown,
  length: number,
  why: () => string,
): Numbers | undefined {
  if (value === undefined || value === null) return undefined;
  const wanted = statisticsOf(dtype);
  if (dtypeOfTag(typedArrayTag.call(value)) !== wanted) {
    const reason = `statistics of ${dtype} are ${wanted}`;
    throw new NormError('ERR_TYPE', op, `${name} must be ${arraysOf[wanted]} (${reason}), got ${kindOf(value)}`);
  }
  const array = value as Numbers;
  sameLength(op, name, attachedLength(op, name, array), length, why);
  return array;
}

/** What a vector depends on: the type of x, and whether Uint16Arrays are float16 bits. */
type VectorCall = Pick<Call, 'op' | 'dtype' | 'hasHalves'>;

/** Parameters and given statistics: an array of floats or of plain numbers, of an exact length. */
export function vector(
  { op, hasHalves }: VectorCall,
  name: string,
  value: unknown,
  length: number,
  why: () => string,
): Numbers {
  const tag = typedArrayTag.call(value);
  let array: Values;
  if (dtypeOfTag(tag) || (tag === 'Uint16Array' && hasHalves)) {
    array = value as Values;
    sameLength(op, name, attachedLength(op, name, array), length, why);
    return tag === 'Uint16Array' ? numbersOfHalves(array as Uint16Array) : (array as Numbers);
  }
  if (!isArray(value)) {
    const expected = 'a Float32Array, a Float64Array, a Float16Array or an array of numbers';
    throw new NormError('ERR_TYPE', op, `${name} must be ${expected}, got ${kindOf(value)}${hintForBits(value)}`);
  }
  sameLength(op, name, value.length, length, why);
  return Float64Array.from(value, (element, i) => {
    if (typeof element === 'number') return element;
    throw new NormError('ERR_TYPE', op, `${name}[${i}] must be a number, got ${kindOf(element)}`);
  });
}

export function optionalVector(call: VectorCall, name: string, value: unknown, length: number, why: () => string) {
  return value === undefined || value === null ? undefined : vector(call, name, value, length, why);
}

/** A copy, which no worker can change, of the valid lengths of the items along axis 1, or absent. */
export function lengthsOf(op: string, value: unknown, shape: readonly number[]): Int32Array | undefined {
  if (value === undefined || value === null) return undefined;
  const isTyped = typedArrayTag.call(value) === 'Int32Array';
  if (!isTyped && !isArray(value)) {
    throw new NormError('ERR_TYPE', op, `lengths must be an Int32Array or an array of integers, got ${kindOf(value)}`);
  }
  const given = value as Int32Array | unknown[];
  const count = isTyped ? attachedLength(op, 'lengths', given as Int32Array) : given.length;
  if (shape.length < 2) {
    throw new NormError('ERR_SHAPE', op, `lengths are along axis 1, but shape ${list(shape)} has none`);
  }
  const [items, extent] = shape as [number, number];
  sameLength(op, 'lengths', count, items, () => `the extent of axis 0 of shape ${list(shape)}`);
  const lengths = resultArray(op, 4 * items, () => new Int32Array(items));
  for (let i = 0; i < items; ++i) {
    const length: unknown = given[i];
    if (typeof length !== 'number') {
      throw new NormError('ERR_TYPE', op, `lengths[${i}] must be an integer, got ${kindOf(length)}`);
    }
    if (!(Number.isInteger(length) && length >= 0 && length <= extent)) {
      const range = `an integer from 0 to ${extent}, the extent of axis 1`;
      throw new NormError('ERR_RANGE', op, `lengths[${i}] must be ${range}, got ${length}`);
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
  axes: ['axis', 'dim', 'dims', 'normalized_shape', 'normalizedShape'],
  axis: ['axes', 'dim', 'channel_axis', 'channelAxis'],
  groups: ['num_groups', 'numGroups'],
  mean: ['running_mean', 'runningMean'],
  variance: ['var', 'running_var', 'runningVar', 'runningVariance'],
  lengths: ['mask'],
};

function nearestName(name: string, names: readonly string[]): string | undefined {
  const known = names.find((candidate) => otherNames[candidate]?.includes(name));
  if (known) return known;
  const distances = names.map((candidate) => editDistance(name.toLowerCase(), candidate.toLowerCase()));
  const least = Math.min(...distances);
  return least <= Math.min(3, name.length / 2) ? names[distances.indexOf(least)] : undefined;
}

function rejectUnknown(op: string, given: string, names: readonly string[]): never {
  const name = given.slice(0, 40);
  const nearest = nearestName(name, names);
  const hint = nearest ? `did you mean '${nearest}'?` : `there are ${names.join(', ')}`;
  throw new NormError('ERR_TYPE', op, `no option '${name}': ${hint}`);
}

/** Makes sure that the options are an object with no others than these in it. */
export function optionNames(op: string, value: unknown, names: readonly string[]): void {
  if (value === undefined || value === null) return;
  if (typeof value !== 'object' || isArray(value) !== false || ArrayBuffer.isView(value)) {
    const hint = isArray(value) ? ': a shape is { shape: [...] }' : '';
    throw new NormError('ERR_TYPE', op, `the options must be an object, got ${kindOf(value)}${hint}`);
  }
  for (const name in value) {
    if (names.includes(name)) continue;
    const option = (value as Record<string, unknown>)[name];
    if (option !== undefined && option !== null) rejectUnknown(op, name, names);
  }
}

/** What a user gave for the options of all operations. */
export interface Options {
  readonly shape: unknown;
  readonly dtype: unknown;
  readonly axes: unknown;
  readonly axis: unknown;
  readonly groups: unknown;
  readonly scale: unknown;
  readonly bias: unknown;
  readonly epsilon: unknown;
  readonly mean: unknown;
  readonly variance: unknown;
  readonly out: unknown;
  readonly lengths: unknown;
  readonly residual: unknown;
  readonly residualOut: unknown;
  readonly meanOut: unknown;
  readonly varianceOut: unknown;
  readonly invStdOut: unknown;
  readonly invStd: unknown;
  readonly dScaleOut: unknown;
  readonly dBiasOut: unknown;
  readonly p: unknown;
  readonly size: unknown;
  readonly alpha: unknown;
  readonly beta: unknown;
  readonly k: unknown;
}

const noOptions = {} as Options;

/** A plain array, copied, if it isn't longer than what can be right: `x` has no fewer values, if it has any. */
export function settled(op: string, name: string, value: unknown, x?: unknown): unknown {
  if (!isArray(value)) return value;
  const ofAxes = name === 'shape' || name === 'axes';
  const most = ofAxes ? maxRank : Math.max(2 ** 20, typedArrayTag.call(x) ? lengthOf(x as Values) : 0);
  const { length } = value;
  // A proxy's length may be anything.
  if (typeof length !== 'number' || !(length <= most)) {
    const code = name === 'axes' ? 'ERR_AXIS' : 'ERR_SHAPE';
    throw new NormError(code, op, `${name} may have ${most} values at most, got ${kindOf(length)}`);
  }
  const copy: unknown[] = [];
  for (let i = 0; i < length; ++i) copy.push(value[i]);
  return copy;
}

/**
 * The options, each read once, and plain arrays copied. Options and elements may be getters, which may do anything, such
 * as detach an array that has been checked: after this, no code of the user's runs until the call is done.
 */
export function options(op: string, value: unknown, names: readonly string[], x?: unknown): Options {
  optionNames(op, value, names);
  const o = (value ?? noOptions) as Options;
  return {
    shape: settled(op, 'shape', o.shape, x),
    dtype: o.dtype,
    axes: settled(op, 'axes', o.axes, x),
    axis: o.axis,
    groups: o.groups,
    scale: settled(op, 'scale', o.scale, x),
    bias: settled(op, 'bias', o.bias, x),
    epsilon: o.epsilon,
    mean: settled(op, 'mean', o.mean, x),
    variance: settled(op, 'variance', o.variance, x),
    out: o.out,
    lengths: settled(op, 'lengths', o.lengths, x),
    residual: o.residual,
    residualOut: o.residualOut,
    meanOut: o.meanOut,
    varianceOut: o.varianceOut,
    invStdOut: o.invStdOut,
    invStd: settled(op, 'invStd', o.invStd, x),
    dScaleOut: o.dScaleOut,
    dBiasOut: o.dBiasOut,
    p: o.p,
    size: o.size,
    alpha: o.alpha,
    beta: o.beta,
    k: o.k,
  };
}

/** A number, or what stands for an absent one. */
function numberOf(op: string, name: string, value: unknown, absent: number | undefined): number {
  if (absent !== undefined && (value === undefined || value === null)) return absent;
  if (typeof value === 'number') return value;
  throw new NormError('ERR_TYPE', op, `${name} must be a number, got ${kindOf(value)}`);
}

export function epsilon(op: string, value: unknown, absent: number): number {
  const number = numberOf(op, 'epsilon', value, absent);
  if (number >= 0 && number < Infinity) return number;
  throw new NormError('ERR_RANGE', op, `epsilon must be finite and at least 0, got ${number}`);
}

export function finite(op: string, name: string, value: unknown, absent: number): number {
  const number = numberOf(op, name, value, absent);
  if (Number.isFinite(number)) return number;
  throw new NormError('ERR_RANGE', op, `${name} must be finite, got ${number}`);
}

export function positiveInteger(op: string, name: string, value: unknown): number {
  if (value === undefined || value === null)
    throw new NormError('ERR_TYPE', op, `${name} is required, got ${String(value)}`);
  const number = numberOf(op, name, value, undefined);
  if (Number.isInteger(number) && number > 0) return number;
  throw new NormError('ERR_RANGE', op, `${name} must be an integer and at least 1, got ${number}`);
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
  throw new NormError('ERR_RANGE', op, `momentum must be from 0 to 1, or null for the plain average, got ${momentum}`);
}

/** How often something has happened. */
export function countOf(op: string, name: string, value: unknown): number {
  const count = numberOf(op, name, value, undefined);
  if (Number.isInteger(count) && count >= 0) return count;
  throw new NormError('ERR_RANGE', op, `${name} must be an integer and at least 0, got ${count}`);
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
  throw new NormError('ERR_RANGE', op, `p must be 1, 2 or Infinity, got ${p}`);
}

/** The extents of x: those given, or [x.length]. */
export function shapeOf(op: string, value: unknown, length: number, name = 'x'): readonly number[] {
  if (value === undefined || value === null) return [length];
  if (!isArray(value)) {
    throw new NormError('ERR_TYPE', op, `shape must be an array of integers, got ${kindOf(value)}`);
  }
  let size = 1;
  let largest = 0;
  for (let i = 0; i < value.length; ++i) {
    const extent: unknown = value[i];
    if (typeof extent !== 'number') {
      throw new NormError('ERR_TYPE', op, `shape[${i}] must be an integer, got ${kindOf(extent)}`);
    }
    if (!Number.isInteger(extent) || extent < 0) {
      throw new NormError('ERR_SHAPE', op, `shape[${i}] must be an integer and at least 0, got ${extent}`);
    }
    size *= extent;
    if (extent > largest) largest = extent;
  }
  const extents = value as number[];
  if (size !== length) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(extents)} has ${size} values, but ${name} has ${length}`);
  }
  // An extent of 0 makes any other one possible, also one that 32 bits can't hold.
  if (largest >= 2 ** 32) throw new NormError('ERR_SHAPE', op, `shape ${list(extents)} has an extent beyond 2^32 - 1`);
  return extents;
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
    throw new NormError('ERR_TYPE', op, `${name} must be an integer, got ${kindOf(value)}`);
  }
  const range = rank === 0 ? 'it has no axes' : `its axes are ${-rank} to ${rank - 1}`;
  throw new NormError('ERR_AXIS', op, `${name} ${value} is out of range for shape ${list(shape)}: ${range}`);
}

/** Axes counted from the front, in the order given. */
export function axesOf(op: string, value: unknown, shape: readonly number[]): number[] {
  if (value === undefined || value === null) return [axisOf(op, 'axes', -1, shape)];
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
  for (const axis of axes) count *= shape[axis] as number;
  if (count === 0) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(shape)} has nothing to normalize over along axes ${list(axes)}`);
  }
  return count;
}
