// Checks of arguments. Everything is checked before anything is written, here, where the values are known; every
// message says the operation, what was given and what was expected.

import { maxRank, type Numbers } from './call.js';
import { NormError } from './errors.js';

/** As a user writes it. */
export function list(values: readonly number[]): string {
  return `[${values.join(', ')}]`;
}

// The getters see through realms (frames, vm contexts, test runners) and can't be fooled by prototypes.
const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
const getterOf = (name: string | symbol) => Object.getOwnPropertyDescriptor(typedArray, name)?.get;
const typedArrayTag = getterOf(Symbol.toStringTag) as (this: unknown) => string | undefined;
const typedArrayLength = getterOf('length') as (this: unknown) => number;

/** What somebody gave instead, in words. */
export function kindOf(value: unknown): string {
  const tag = typedArrayTag.call(value);
  if (tag) return `a ${tag}`;
  if (Array.isArray(value)) return 'an Array';
  if (value === null || typeof value === 'undefined') return String(value);
  if (typeof value === 'number' || typeof value === 'boolean') return `the ${typeof value} ${value}`;
  if (typeof value === 'string') return `the string ${JSON.stringify(value.slice(0, 40))}`;
  return typeof value === 'object' ? `an object (${value.constructor?.name ?? 'of no class'})` : `a ${typeof value}`;
}

/** Only a detached buffer can't be viewed; an empty array looks the same otherwise. */
function checkAttached(op: string, name: string, values: Numbers): void {
  const length = typedArrayLength.call(values);
  if (values.length !== length) {
    throw new NormError('ERR_TYPE', op, `${name} has a length of its own, ${values.length}, but ${length} values`);
  }
  if (values.length > 0) return;
  try {
    new Uint8Array(values.buffer);
  } catch {
    throw new NormError('ERR_TYPE', op, `the buffer of ${name} is detached (was it transferred?)`);
  }
}

export function float32Array(op: string, name: string, value: unknown): Float32Array {
  if (typedArrayTag.call(value) !== 'Float32Array') {
    const hint = Array.isArray(value) ? ': use Float32Array.from(...)' : '';
    throw new NormError('ERR_TYPE', op, `${name} must be a Float32Array, got ${kindOf(value)}${hint}`);
  }
  checkAttached(op, name, value as Float32Array);
  return value as Float32Array;
}

function checkLength(op: string, name: string, values: Numbers, length: number, why: () => string): void {
  if (values.length === length) return;
  throw new NormError('ERR_SHAPE', op, `${name} has ${values.length} values, expected ${length} (${why()})`);
}

/** An array that is written: of an exact length, or absent. */
export function writable(op: string, name: string, value: unknown, length: number, why: () => string) {
  if (value === undefined || value === null) return undefined;
  const values = float32Array(op, name, value);
  checkLength(op, name, values, length, why);
  return values;
}

/** Parameters and given statistics: a Float32Array, a Float64Array or plain numbers, of an exact length. */
export function vector(op: string, name: string, value: unknown, length: number, why: () => string): Numbers {
  const tag = typedArrayTag.call(value);
  let values: Numbers;
  if (tag === 'Float32Array' || tag === 'Float64Array') {
    values = value as Numbers;
    checkAttached(op, name, values);
  } else if (Array.isArray(value)) {
    values = Float64Array.from(value as unknown[], (element, i) => {
      if (typeof element === 'number') return element;
      throw new NormError('ERR_TYPE', op, `${name}[${i}] must be a number, got ${kindOf(element)}`);
    });
  } else {
    const expected = 'a Float32Array, a Float64Array or an array of numbers';
    throw new NormError('ERR_TYPE', op, `${name} must be ${expected}, got ${kindOf(value)}`);
  }
  checkLength(op, name, values, length, why);
  return values;
}

export function optionalVector(op: string, name: string, value: unknown, length: number, why: () => string) {
  return value === undefined || value === null ? undefined : vector(op, name, value, length, why);
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

function rejectUnknown(op: string, name: string, names: readonly string[]): never {
  const distances = names.map((known) => editDistance(name.toLowerCase(), known.toLowerCase()));
  const least = Math.min(...distances);
  const nearest = names[distances.indexOf(least)];
  const isNear = least <= Math.min(3, name.length / 2);
  const hint = isNear ? `did you mean '${nearest}'?` : `there are ${names.join(', ')}`;
  throw new NormError('ERR_TYPE', op, `no option '${name}': ${hint}`);
}

/** Makes sure that the options are an object with no others than these in it. */
export function optionNames(op: string, value: unknown, names: readonly string[]): void {
  if (value === undefined || value === null) return;
  if (typeof value !== 'object' || Array.isArray(value) || ArrayBuffer.isView(value)) {
    throw new NormError('ERR_TYPE', op, `the options must be an object, got ${kindOf(value)}`);
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
  readonly axes: unknown;
  readonly axis: unknown;
  readonly scale: unknown;
  readonly bias: unknown;
  readonly epsilon: unknown;
  readonly mean: unknown;
  readonly variance: unknown;
  readonly out: unknown;
  readonly meanOut: unknown;
  readonly varianceOut: unknown;
  readonly invStdOut: unknown;
}

const noOptions = {} as Options;

function settled(value: unknown): unknown {
  return Array.isArray(value) ? [...value] : value;
}

/**
 * The options, each read once, and plain arrays copied. Options and elements may be getters, which may do anything, such
 * as detach an array that has been checked: after this, no code of the user's runs until the call is done.
 */
export function options(op: string, value: unknown, names: readonly string[]): Options {
  optionNames(op, value, names);
  const o = (value ?? noOptions) as Options;
  return {
    shape: settled(o.shape),
    axes: settled(o.axes),
    axis: o.axis,
    scale: settled(o.scale),
    bias: settled(o.bias),
    epsilon: o.epsilon,
    mean: settled(o.mean),
    variance: settled(o.variance),
    out: o.out,
    meanOut: o.meanOut,
    varianceOut: o.varianceOut,
    invStdOut: o.invStdOut,
  };
}

export function epsilon(op: string, value: unknown): number {
  if (value === undefined || value === null) return 1e-5;
  if (typeof value !== 'number') {
    throw new NormError('ERR_TYPE', op, `epsilon must be a number, got ${kindOf(value)}`);
  }
  if (!(value >= 0 && value < Infinity)) {
    throw new NormError('ERR_RANGE', op, `epsilon must be finite and at least 0, got ${value}`);
  }
  return value;
}

/** The extents of x: those given, or [x.length]. */
export function shapeOf(op: string, value: unknown, x: Float32Array): readonly number[] {
  if (value === undefined || value === null) return [x.length];
  if (!Array.isArray(value)) {
    throw new NormError('ERR_TYPE', op, `shape must be an array of integers, got ${kindOf(value)}`);
  }
  if (value.length > maxRank) {
    throw new NormError('ERR_SHAPE', op, `shape has ${value.length} extents, the most are ${maxRank}`);
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
  if (size !== x.length) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(extents)} has ${size} values, but x has ${x.length}`);
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
  if (!Array.isArray(value)) return [axisOf(op, 'axes', value, shape)];
  const axes: number[] = [];
  for (let i = 0; i < value.length; ++i) {
    const axis = axisOf(op, 'axes', value[i], shape, i);
    if (axes.includes(axis)) throw new NormError('ERR_AXIS', op, `axes ${list(value)} name axis ${axis} twice`);
    axes.push(axis);
  }
  return axes;
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
