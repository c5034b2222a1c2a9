// The types of values, and how arrays of them are told apart.

export type DType = 'float32' | 'float64' | 'float16';

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
const bufferOf = getterOf('buffer') as (this: unknown) => ArrayBuffer;
const byteOffsetOf = getterOf('byteOffset') as (this: unknown) => number;
const byteLengthOf = getterOf('byteLength') as (this: unknown) => number;
const typedArrayLength = getterOf('length') as (this: unknown) => number;

/** Of an array without values where its buffer has been detached, or has shrunk beneath it. */
export function lengthOf(values: ArrayBufferView): number {
  return typedArrayLength.call(values);
}

/** Only a detached buffer can't be viewed; an empty array looks the same otherwise. */
export function isDetached(values: ArrayBufferView): boolean {
  try {
    return !new Uint8Array(bufferOf.call(values));
  } catch {
    return true;
  }
}

/** The memory of an array of any type of floats, as 16 bits each. */
export function bitsOf(values: Values): Uint16Array {
  return new Uint16Array(bufferOf.call(values), byteOffsetOf.call(values), byteLengthOf.call(values) / 2);
}

export function beginTogether(a: ArrayBufferView, b: ArrayBufferView): boolean {
  return byteOffsetOf.call(a) === byteOffsetOf.call(b);
}

export function shareMemory(a: ArrayBufferView, b: ArrayBufferView): boolean {
  if (bufferOf.call(a) !== bufferOf.call(b)) return false;
  const begin = byteOffsetOf.call(a);
  const otherBegin = byteOffsetOf.call(b);
  const end = Math.min(begin + byteLengthOf.call(a), otherBegin + byteLengthOf.call(b));
  return Math.max(begin, otherBegin) < end;
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

export function bytesOf(dtype: DType): number {
  if (dtype === 'float32') return 4;
  return dtype === 'float64' ? 8 : 2;
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

/** Float16 values, as bits. */
export function numbersOfHalves(bits: Uint16Array): Float32Array {
  const numbers = new Float32Array(lengthOf(bits));
  for (let i = 0; i < numbers.length; ++i) numbers[i] = numberOfHalf(bits[i] as number);
  return numbers;
}

/** Bits of float16 values as an array of the same class as another's. */
export function halvesLike(like: Values, bits: Uint16Array): HalfArray {
  if (isBits(like)) return bits;
  // Only engines that have the class come here.
  const { Float16Array } = globalThis as unknown as { Float16Array: new (buffer: ArrayBufferLike) => HalfArray };
  return new Float16Array(bits.buffer);
}
