import { expect, test } from 'vitest';
import { float16Bits, fromFloat16Bits } from './float16.ts';

const all = Array.from({ length: 65536 }, (_, bits) => bits);

test('all float16 values are their own rounding', () => {
  const isNumber = (bits: number) => !Number.isNaN(fromFloat16Bits(bits));
  expect(all.filter(isNumber)).toHaveLength(65536 - 2 * 1023);
  expect(all.filter((bits) => isNumber(bits) && float16Bits(fromFloat16Bits(bits)) !== bits)).toEqual([]);
});

test('between two float16 values the nearer one is taken, halfway the even one', () => {
  const largest = 0x7bff;
  const isWrong = (bits: number) => {
    const middle = (fromFloat16Bits(bits) + fromFloat16Bits(bits + 1)) / 2;
    const around = [middle * (1 - 2 ** -52), middle, -middle, middle * (1 + 2 ** -52)];
    const even = bits + (bits % 2);
    const expected = [bits, even, even | 0x8000, bits + 1];
    return around.some((value, i) => float16Bits(value) !== expected[i]);
  };
  expect(all.slice(0, largest).filter(isWrong)).toEqual([]);
});

test('known values', () => {
  const known = [
    [1, 0x3c00],
    [-2, 0xc000],
    [65504, 0x7bff],
    [65519.99, 0x7bff],
    [65520, 0x7c00],
    [-Infinity, 0xfc00],
    [2 ** -24, 1],
    [2 ** -25, 0],
    [-0, 0x8000],
    [0.1, 0x2e66],
  ] as const;
  for (const [value, bits] of known) expect(float16Bits(value)).toBe(bits);
  expect(fromFloat16Bits(float16Bits(NaN))).toBeNaN();
});
