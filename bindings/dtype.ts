// The types of values, and how arrays of them are told apart.

export type DType = 'float32' | 'float64' | 'float16';

/** Float16Array, where the engine has it. Its values are reached through their bits. */
export type HalfArray = Uint16Array;
/** What x, out and residual are. */
export type Values = Float32Array | Float64Array | HalfArray;
/** What parameters become, and statistics are. */
export type Numbers = Float32Array | Float64Array;

// The getters see through realms (frames, vm contexts, test runners) and can't be fooled by prototypes.
const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
const getterOf = (name: string | symbol) => Object.getOwnPropertyDescriptor(typedArray, name)?.get;
export const typedArrayTag = getterOf(Symbol.toStringTag) as (this: unknown) => string | undefined;
export const typedArrayLength = getterOf('length') as (this: unknown) => number;

/** Of an array whose type says it; Uint16Array doesn't. */
export function dtypeOfTag(tag: string | undefined): DType | undefined {
  if (tag === 'Float32Array') return 'float32';
  if (tag === 'Float64Array') return 'float64';
  if (tag === 'Float16Array') return 'float16';
  return undefined;
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
  return Float32Array.from(bits, numberOfHalf);
}

/** Bits of float16 values as an array of the same class as another's. */
export function halvesLike(like: Values, bits: Uint16Array): HalfArray {
  if (typedArrayTag.call(like) === 'Uint16Array') return bits;
  // Only engines that have the class come here.
  const { Float16Array } = globalThis as unknown as { Float16Array: new (buffer: ArrayBufferLike) => HalfArray };
  return new Float16Array(bits.buffer);
}
