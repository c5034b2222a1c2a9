// IEEE 754 binary16, from and to double: the vectors give float16 values as decimals, and Node 20 has no Float16Array.

const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** The nearest float16, ties to even, in one rounding. */
export function float16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // Half a step above the largest float16, 65504.
  if (magnitude >= 65520) return sign | 0x7c00;
  double[0] = magnitude;
  const exponent = Math.max((((words[1] as number) >>> 20) & 0x7ff) - 1023, -14);
  // Where doubles have no fraction, adding rounds to nearest even. 1024 and more carries into the exponent by itself.
  const significand = magnitude / 2 ** (exponent - 10) + 2 ** 52 - 2 ** 52;
  return sign | ((exponent + 14) * 1024 + significand);
}

export function fromFloat16Bits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}
