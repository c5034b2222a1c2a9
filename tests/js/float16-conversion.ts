// float16 by its definition (IEEE 754, binary16), in double, which holds every float16 and every tie between two.

const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** What 16 bits mean: a sign, 5 bits of exponent, 10 of significand. */
export function fromBits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  // Subnormal numbers share the smallest exponent, and have no leading 1.
  return sign * (exponent ? 1024 + fraction : fraction) * 2 ** (Math.max(exponent, 1) - 25);
}

/** The bits of the nearest float16; of two that are as near, the even one's. */
export function toBits(value: number): number {
  double[0] = value;
  const high = words[1] as number;
  const sign = (high >>> 16) & 0x8000;
  if (Number.isNaN(value)) return 0x7e00;
  const exponent = Math.max(((high >>> 20) & 2047) - 1023, -14);
  // Exact, beyond float16's range too: a division by a power of two.
  const steps = Math.abs(value) / 2 ** (exponent - 10);
  const below = Math.floor(steps);
  const rest = steps - below;
  const rounded = below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0);
  // Numbers in ascending order have bits in ascending order, so that a carry into the exponent is the next number.
  return sign | Math.min((exponent + 14) * 1024 + rounded, 0x7c00);
}

export function widen(bits: ArrayLike<number>): Float32Array<ArrayBuffer> {
  return Float32Array.from(bits, fromBits);
}

export function narrow(values: ArrayLike<number>): Uint16Array<ArrayBuffer> {
  return Uint16Array.from(values, toBits);
}
