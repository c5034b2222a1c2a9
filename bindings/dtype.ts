// The types of values, and how arrays of them are told apart.

export type DType = 'float32' | 'float64' | 'float16';
/** What the module's memory holds: values, and lengths. */
export type Stored = DType | 'int32';

/** Float16Array, where the engine has it. Its values are reached through their bits. */
export type HalfArray = Uint16Array;
/** What x, out and residual are. */
export type Values = Float32Array | Float64Array | HalfArray;
/** What parameters become, and statistics are. */
export type Numbers = Float32Array | Float64Array;

// The getters see through realms (frames, vm contexts, test runners) and can't be fooled by prototypes, subclasses and
// properties of an array's own, which could be getters that do things.
const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
const getterOf = (name: string | symbol) => Object.getOwnPropertyDescriptor(typedArray, name)?.get;
export const typedArrayTag = getterOf(Symbol.toStringTag) as (this: unknown) => string | undefined;
const getBuffer = getterOf('buffer') as (this: unknown) => ArrayBuffer;
const getByteOffset = getterOf('byteOffset') as (this: unknown) => number;
const getByteLength = getterOf('byteLength') as (this: unknown) => number;
const typedArrayLength = getterOf('length') as (this: unknown) => number;
const { set } = typedArray as { set: (values: ArrayLike<number>) => void };
const arrayBufferLength = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, 'byteLength')?.get as (
  this: unknown,
) => number;

/** Of an array without values where its buffer has been detached, or has shrunk beneath it. */
export function lengthOf(values: ArrayBufferView): number {
  return typedArrayLength.call(values);
}

/** Only a detached buffer can't be viewed; an empty array looks the same otherwise. */
export function isDetached(values: ArrayBufferView): boolean {
  try {
    return !new Uint8Array(getBuffer.call(values));
  } catch {
    return true;
  }
}

/** Whether something is an object of a class, of any realm. */
export function isOfClass(value: unknown, name: string): boolean {
  return Object.prototype.toString.call(value) === `[object ${name}]`;
}

export function isSharedBuffer(buffer: unknown): boolean {
  if (buffer === undefined) return false;
  // The usual answers first. What is thrown takes long, but only of another realm.
  if (typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer) return true;
  try {
    arrayBufferLength.call(buffer);
    return false;
  } catch {
    return true;
  }
}

/** Some of an array's values, whose number no worker can change: SharedArrayBuffers may grow at any time. */
export function partOf(values: Values, first: number, length: number): Values {
  const dtype = dtypeOfTag(typedArrayTag.call(values));
  const Class = dtype === 'float32' ? Float32Array : dtype === 'float64' ? Float64Array : Uint16Array;
  return new Class(bufferOf(values) as ArrayBuffer, beginOf(values) + first * Class.BYTES_PER_ELEMENT, length);
}

/** Not values.set(), which a subclass may have replaced. */
export function setValues(values: Values, from: Values): void {
  set.call(values, from);
}

/** Not values.slice(), which may be the user's own. */
export function copyOf<V extends Values>(values: V): V {
  return partOf(values, 0, lengthOf(values)).slice() as V;
}

/** The memory of an array of any type of floats, as 16 bits each. */
export function bitsOf(values: Values): Uint16Array {
  return new Uint16Array(getBuffer.call(values), beginOf(values), bytesIn(values) / 2);
}

export function bufferOf(values: ArrayBufferView): ArrayBufferLike {
  return getBuffer.call(values);
}

export function beginOf(values: ArrayBufferView): number {
  return getByteOffset.call(values);
}

export function bytesIn(values: ArrayBufferView): number {
  return getByteLength.call(values);
}

/** Of an array whose type says it; Uint16Array doesn't. */
export function dtypeOfTag(tag: string | undefined): DType | undefined {
  if (tag === 'Float32Array') return 'float32';
  if (tag === 'Float64Array') return 'float64';
  if (tag === 'Float16Array') return 'float16';
  return undefined;
}

/** Whether a value may be float16 bits, if it is said to be. */
export function isBits(value: unknown): boolean {
  return !!value && typedArrayTag.call(value) === 'Uint16Array';
}

export function bytesOf(type: Stored): number {
  if (type === 'float64') return 8;
  return type === 'float16' ? 2 : 4;
}

/** Of parameters and statistics. */
export function statisticsOf(dtype: DType): 'float32' | 'float64' {
  return dtype === 'float64' ? 'float64' : 'float32';
}

/** The number that a float16's bits mean. */
function numberOfHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}

/** The bits of a number as a float16, rounded once, to nearest even. */
function halfOf(number: number): number {
  const sign = number < 0 || Object.is(number, -0) ? 0x8000 : 0;
  const size = Math.abs(number);
  if (Number.isNaN(size)) return 0x7e00;
  // 65520 is half a step beyond the largest, 65504.
  if (size >= 65520) return sign | 0x7c00;
  // Subnormals have the steps of the smallest exponent.
  let exponent = -14;
  while (size >= 2 ** (exponent + 1)) ++exponent;
  const steps = size * 2 ** (10 - exponent);
  const down = Math.floor(steps);
  const rest = steps - down;
  const rounded = rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
  // What is rounded up to the next exponent carries into it.
  return sign | (((exponent + 14) << 10) + rounded);
}

/** Numbers as float16 values, as bits. */
export function halvesOfNumbers(numbers: ArrayLike<number>): Uint16Array {
  return Uint16Array.from(numbers, halfOf);
}

/** Float16 values, as bits. */
export function numbersOfHalves(bits: Uint16Array): Float32Array {
  const numbers = new Float32Array(lengthOf(bits));
  for (let i = 0; i < numbers.length; ++i) numbers[i] = numberOfHalf(bits[i] as number);
  return numbers;
}

/** The class of float16 arrays, where the engine has it. */
export function halfClass() {
  return (globalThis as { Float16Array?: new (buffer: ArrayBufferLike, begin?: number, length?: number) => HalfArray })
    .Float16Array;
}

/** Bits of float16 values as an array of the same class as another's. */
export function halvesLike(like: Values | undefined, bits: Uint16Array): HalfArray {
  const Float16Array = halfClass();
  return isBits(like) || !Float16Array ? bits : new Float16Array(bits.buffer);
}
