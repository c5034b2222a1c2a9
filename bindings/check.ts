// Checks of arguments. Everything is checked before anything is written, here, where the values are known; every
// message says the operation, what was given and what was expected.

import { maxRank, type Numbers } from './call.js';
import { NormError } from './errors.js';

/** Own list, as a user reads it. */
export function list(values: readonly number[]): string {
  return `[${values.join(', ')}]`;
}

// The getter sees through realms (frames, vm contexts, test runners) and can't be fooled by prototypes.
const typedArrayTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)
  ?.get as (this: unknown) => string | undefined;

function kindOf(value: unknown): string {
  const tag = typedArrayTag.call(value);
  if (tag) return `a ${tag}`;
  if (Array.isArray(value)) return 'an Array';
  if (value === null || typeof value === 'undefined') return String(value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return `the string ${JSON.stringify(value.slice(0, 40))}`;
  if (typeof value !== 'object') return `a ${typeof value}`;
  return `an object of class ${value.constructor?.name ?? 'null'}`;
}

/** Only a detached buffer can't be viewed; an empty array looks the same otherwise. */
function checkAttached(op: string, name: string, values: Numbers): void {
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

/** An array that is written: of an exact length, or absent. */
export function writable(op: string, name: string, value: unknown, length: number, why: string) {
  if (value === undefined || value === null) return undefined;
  const values = float32Array(op, name, value);
  if (values.length !== length) {
    throw new NormError('ERR_SHAPE', op, `${name} has ${values.length} values, expected ${length} (${why})`);
  }
  return values;
}

/** Parameters and given statistics: a Float32Array, a Float64Array or plain numbers, of an exact length. */
export function vector(op: string, name: string, value: unknown, length: number, why: string): Numbers {
  const tag = typedArrayTag.call(value);
  let values: Numbers;
  if (tag === 'Float32Array' || tag === 'Float64Array') {
    values = value as Numbers;
    checkAttached(op, name, values);
  } else if (Array.isArray(value)) {
    // A copy, because an array's elements may be getters: what is checked is what is used.
    values = Float64Array.from(value as unknown[], (element, i) => {
      if (typeof element === 'number') return element;
      throw new NormError('ERR_TYPE', op, `${name}[${i}] must be a number, got ${kindOf(element)}`);
    });
  } else {
    const expected = 'a Float32Array, a Float64Array or an array of numbers';
    throw new NormError('ERR_TYPE', op, `${name} must be ${expected}, got ${kindOf(value)}`);
  }
  if (values.length !== length) {
    throw new NormError('ERR_SHAPE', op, `${name} has ${values.length} values, expected ${length} (${why})`);
  }
  return values;
}

export function optionalVector(op: string, name: string, value: unknown, length: number, why: string) {
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

/** The options as an object without strangers in it. */
export function options<T extends object>(op: string, value: T | null | undefined, names: readonly string[]): T {
  if (value === undefined || value === null) return {} as T;
  if (typeof value !== 'object' || Array.isArray(value) || ArrayBuffer.isView(value)) {
    throw new NormError('ERR_TYPE', op, `the options must be an object, got ${kindOf(value)}`);
  }
  for (const name in value) {
    if (names.includes(name) || value[name] === undefined || value[name] === null) continue;
    const distances = names.map((known) => editDistance(name.toLowerCase(), known.toLowerCase()));
    const least = Math.min(...distances);
    const nearest = names[distances.indexOf(least)];
    const hint = least <= 3 ? `did you mean '${nearest}'?` : `there are ${names.join(', ')}`;
    throw new NormError('ERR_TYPE', op, `no option '${name}': ${hint}`);
  }
  return value;
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
  const shape: unknown[] = [...value];
  let size = 1;
  shape.forEach((extent, i) => {
    if (typeof extent !== 'number') {
      throw new NormError('ERR_TYPE', op, `shape[${i}] must be an integer, got ${kindOf(extent)}`);
    }
    if (!Number.isInteger(extent) || extent < 0) {
      throw new NormError('ERR_SHAPE', op, `shape[${i}] must be an integer and at least 0, got ${extent}`);
    }
    size *= extent;
  });
  const extents = shape as number[];
  if (extents.length > maxRank) {
    throw new NormError('ERR_SHAPE', op, `shape has ${extents.length} extents, the most are ${maxRank}`);
  }
  if (size !== x.length) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(extents)} has ${size} values, but x has ${x.length}`);
  }
  // An extent of 0 makes any other one possible, also one that 32 bits can't hold.
  const largest = extents.find((extent) => extent >= 2 ** 32);
  if (largest) throw new NormError('ERR_SHAPE', op, `shape ${list(extents)} has an extent beyond 2^32 - 1`);
  return extents;
}

/** An axis counted from the front. */
export function axisOf(op: string, name: string, value: unknown, shape: readonly number[]): number {
  const rank = shape.length;
  if (typeof value !== 'number') {
    throw new NormError('ERR_TYPE', op, `${name} must be an integer, got ${kindOf(value)}`);
  }
  if (!Number.isInteger(value) || value < -rank || value >= rank) {
    const range = rank === 0 ? 'it has no axes' : `its axes are ${-rank} to ${rank - 1}`;
    throw new NormError('ERR_AXIS', op, `${name} ${value} is out of range for shape ${list(shape)}: ${range}`);
  }
  return value < 0 ? value + rank : value;
}

/** Axes counted from the front, in the order given. */
export function axesOf(op: string, value: unknown, shape: readonly number[]): number[] {
  if (value === undefined || value === null) return [axisOf(op, 'axes', -1, shape)];
  if (!Array.isArray(value)) return [axisOf(op, 'axes', value, shape)];
  const axes = Array.from(value as unknown[], (axis, i) => axisOf(op, `axes[${i}]`, axis, shape));
  axes.forEach((axis, i) => {
    if (axes.indexOf(axis) !== i) throw new NormError('ERR_AXIS', op, `axes ${list(value)} name axis ${axis} twice`);
  });
  return axes;
}

/** How many values share statistics. None is an error: there is no mean of nothing. */
export function countOver(op: string, shape: readonly number[], axes: readonly number[]): number {
  const count = axes.reduce((product, axis) => product * (shape[axis] as number), 1);
  if (count === 0) {
    throw new NormError('ERR_SHAPE', op, `shape ${list(shape)} has nothing to normalize over along axes ${list(axes)}`);
  }
  return count;
}
