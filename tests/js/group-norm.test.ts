import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, drawScale, kinds, place, placeOut, product, resizableBuffer } from './data.ts';
import * as reference from './reference.ts';
import {
  affinePromise,
  expectBits,
  expectNear,
  expectStatistics,
  machineEpsilon,
  promise,
  transpose,
} from './reference.ts';

const op = 'groupNorm';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Expected extends reference.Parameters {
  readonly shape: readonly number[];
  readonly groups: number;
  readonly axis?: number | undefined;
  readonly data?: string;
}

function expectGroupNorm(got: Float32Array, x: Float32Array, expected: Expected): void {
  const { shape, axis = 1, groups } = expected;
  const { y, magnitude } = reference.groupNorm(x, shape, axis, groups, expected);
  const bound = expected.scale || expected.bias ? affinePromise : promise;
  const data = `by axis ${axis} in ${groups} groups ${expected.data ?? ''}`;
  expectNear({ op, shape, data }, got, y, bound, magnitude);
}

/** Every position of the channel axis past the first, with extents of 1 around it, and each number of groups. */
const layouts = [
  { shape: [3, 12], axis: 1 },
  { shape: [1, 1], axis: 1 },
  { shape: [2, 6, 1], axis: 1 },
  { shape: [2, 1, 6], axis: 1 },
  { shape: [2, 1, 6], axis: 2 },
  { shape: [2, 9, 1], axis: 2 },
  { shape: [2, 6, 5], axis: 1 },
  { shape: [2, 5, 6], axis: 2 },
  { shape: [2, 8, 3, 3], axis: 1 },
  { shape: [2, 3, 8, 3], axis: 2 },
  { shape: [2, 3, 3, 8], axis: 3 },
  { shape: [2, 2, 3, 4, 3], axis: 3 },
  { shape: [2, 32, 7, 7], axis: 1 },
  { shape: [2, 7, 7, 32], axis: 3 },
  { shape: [1, 5, 1100], axis: 2 },
  { shape: [1, 33, 17], axis: 1 },
  { shape: [1, 17, 33], axis: 2 },
].flatMap(({ shape, axis }) => {
  const channels = shape[axis] as number;
  const divisors = Array.from({ length: channels }, (_, i) => i + 1).filter((groups) => channels % groups === 0);
  return divisors.map((groups) => ({ shape, axis, groups }));
});

/** Of each value of x, its channel, and which statistic is its: [N, groups]. */
function placesOf({ shape, axis, groups }: { shape: readonly number[]; axis: number; groups: number }) {
  const after = product(shape.slice(axis + 1));
  const channels = shape[axis] as number;
  const item = product(shape.slice(1));
  return Array.from({ length: product(shape) }, (_, i) => {
    const channel = Math.floor(i / after) % channels;
    return { channel, group: Math.floor(i / item) * groups + Math.floor((channel * groups) / channels) };
  });
}

describe('shapes', () => {
  test.each(layouts)('$shape by axis $axis in $groups groups is right', ({ shape, axis, groups }) => {
    const channels = shape[axis] as number;
    const x = draw(product(shape), axis + 1);
    const untouched = Float32Array.from(x);
    const given = { shape, axis, groups };
    for (const scale of [undefined, drawScale(channels, 4)]) {
      for (const bias of [undefined, draw(channels, 5)]) {
        const y = sn.groupNorm(x, { ...given, scale, bias });
        expectGroupNorm(y, x, { ...given, scale, bias });
        expectBits({ op, shape }, sn.groupNorm(x, { ...given, axis: axis - shape.length, scale, bias }), y);
        if (axis !== 1) continue;
        for (const one of [undefined, null as never]) {
          expectBits({ op, shape }, sn.groupNorm(x, { ...given, axis: one, scale, bias }), y);
        }
      }
    }
    for (const epsilon of [0.5, 1e-3])
      expectGroupNorm(sn.groupNorm(x, { ...given, epsilon }), x, { ...given, epsilon });
    expectBits({ op, shape, output: 'x' }, x, untouched);
  });

  // Pieces are the values of one channel inside of a group.
  test.each([1, 2, 3, 5, 15, 16, 17, 49])('pieces of %i values are right', (piece) => {
    for (const size of [1, 2, 3, 8, 33]) {
      for (const groups of [1, 3]) {
        const channels = size * groups;
        const parameters = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
        for (const { shape, axis } of [
          { shape: [2, channels, piece], axis: 1 },
          { shape: [2, piece, channels], axis: 2 },
          { shape: [2, 3, channels, piece], axis: 2 },
        ]) {
          const x = draw(product(shape), piece, 2, 3);
          const given = { shape, axis, groups };
          for (const some of [{}, { scale: parameters.scale }, { bias: parameters.bias }, parameters]) {
            expectGroupNorm(sn.groupNorm(x, { ...given, ...some }), x, { ...given, ...some });
          }
        }
      }
    }
  });

  test('every number of values in a group from 1 to 67 and around the multiples of blocks is right', () => {
    const lengths = Array.from({ length: 67 }, (_, i) => i + 1);
    for (const block of [384, 512, 4096]) {
      for (const by of [-17, -1, 0, 1, 17]) lengths.push(block + by, 2 * block + by);
    }
    for (const length of lengths) {
      const x = draw(4 * length, length);
      for (const { shape, axis } of [
        { shape: [2, 2 * length], axis: 1 },
        { shape: [1, 4, length], axis: 1 },
        { shape: [1, length, 4], axis: 2 },
      ]) {
        const channels = shape[axis] as number;
        const given = { shape, axis, groups: 2, scale: drawScale(channels, 2), bias: draw(channels, 3) };
        expectGroupNorm(sn.groupNorm(x, { shape, axis, groups: 2 }), x, { shape, axis, groups: 2 });
        expectGroupNorm(sn.groupNorm(x, given), x, given);
      }
    }
  });

  test('channels first, in the middle and last give the same values', () => {
    const shape = [3, 6, 5, 7];
    const x = draw(product(shape), 1, 5, 2);
    const parameters = { scale: drawScale(6, 2), bias: draw(6, 3) };
    for (const groups of [1, 2, 3, 6]) {
      const first = sn.groupNorm(x, { shape, groups, ...parameters });
      const { magnitude } = reference.groupNorm(x, shape, 1, groups, parameters);
      for (const { order, back, axis } of [
        { order: [0, 2, 3, 1], back: [0, 3, 1, 2], axis: 3 },
        { order: [0, 2, 1, 3], back: [0, 2, 1, 3], axis: 2 },
      ]) {
        const moved = order.map((axis) => shape[axis] as number);
        const y = sn.groupNorm(transpose(x, shape, order), { shape: moved, axis, groups, ...parameters });
        const what = { op, shape: moved, data: `${groups} groups, channels on axis ${axis}` };
        expectNear(what, transpose(y, moved, back), first, 2 * affinePromise, magnitude);
      }
    }
  });

  test('groups of one value give exactly bias, without one 0', () => {
    for (const shape of [
      [3, 7],
      [2, 7, 1],
    ]) {
      const x = draw(product(shape), 1, 1000, 30);
      const bias = draw(7, 2);
      expect(sn.groupNorm(x, { shape, groups: 7 }).every((value) => value === 0)).toBe(true);
      const y = sn.groupNorm(x, { shape, groups: 7, bias, scale: drawScale(7, 3) });
      expectBits(
        { op, shape },
        y,
        Array.from(x, (_, i) => bias[i % 7] as number),
      );
    }
  });

  test('0 items give an empty result', () => {
    const empty = new Float32Array(0);
    for (const shape of [
      [0, 4, 5],
      [0, 4],
      [0, 65536, 65536],
    ]) {
      const scale = new Float32Array(shape[1] as number);
      expect(sn.groupNorm(empty, { shape, groups: 2, scale })).toBeInstanceOf(Float32Array);
      expect(sn.groupNorm(empty, { shape, groups: 2, scale })).toHaveLength(0);
      expect(sn.groupNorm(empty, { shape, groups: 2, out: empty, meanOut: empty, invStdOut: empty })).toBe(empty);
    }
  });

  test('groups must divide the channels', () => {
    const shape = [2, 6, 2];
    const x = draw(24, 1);
    const failure = (code: string) => expect.objectContaining({ name: 'NormError', code, op });
    for (const groups of [0, -1, 4, 5, 7, 12, 1.5, NaN, Infinity]) {
      expect(() => sn.groupNorm(x, { shape, groups })).toThrow(failure('ERR_RANGE'));
    }
    for (const groups of [undefined, null, '2', [2], true]) {
      expect(() => sn.groupNorm(x, { shape, groups } as never)).toThrow(failure('ERR_TYPE'));
    }
    // 4 divides the values of an item, and the other axis.
    expect(() => sn.groupNorm(x, { shape: [2, 3, 4], groups: 4 })).toThrow(failure('ERR_RANGE'));
    expect(sn.groupNorm(x, { shape: [2, 3, 4], axis: 2, groups: 4 })).toHaveLength(24);
  });

  test('the first axis is not a channel axis, and no places to normalize over are ERR_SHAPE', () => {
    const failure = (code: string) => expect.objectContaining({ name: 'NormError', code, op });
    expect(() => sn.groupNorm(draw(12, 1), { shape: [4, 3], axis: 0, groups: 2 })).toThrow(failure('ERR_AXIS'));
    expect(() => sn.groupNorm(draw(12, 1), { shape: [4, 3], axis: -2, groups: 2 })).toThrow(failure('ERR_AXIS'));
    expect(() => sn.groupNorm(new Float32Array(0), { shape: [2, 4, 0], groups: 2 })).toThrow(failure('ERR_SHAPE'));
  });
});

describe('scale and bias', () => {
  const values = { scale: drawScale(12, 4), bias: draw(12, 5) };
  const pairs = kinds.flatMap(([scaleKind, makeScale]) =>
    kinds.map(([biasKind, makeBias]) => ({ scaleKind, biasKind, makeScale, makeBias })),
  );

  test.each(pairs)('scale $scaleKind and bias $biasKind are for each channel', ({ makeScale, makeBias }) => {
    for (const { shape, axis } of [
      { shape: [3, 12], axis: 1 },
      { shape: [3, 12, 20], axis: 1 },
      { shape: [3, 12, 3], axis: 1 },
      { shape: [3, 20, 12], axis: 2 },
      { shape: [2, 3, 12, 5], axis: 2 },
    ]) {
      const x = draw(product(shape), 1);
      const given = { shape, axis, groups: 4 };
      const scale = makeScale(values.scale) as Float32Array | undefined;
      const bias = makeBias(values.bias) as Float32Array | undefined;
      const y = sn.groupNorm(x, { ...given, scale, bias });
      expectGroupNorm(y, x, { ...given, scale, bias });
      const floats = { scale: scale ? values.scale : undefined, bias: bias ? values.bias : undefined };
      expectBits({ op, shape }, y, sn.groupNorm(x, { ...given, ...floats }));
    }
  });

  test('a value for each group is the wrong length', () => {
    const failure = expect.objectContaining({ code: 'ERR_SHAPE', op });
    const given = { shape: [3, 12, 2], groups: 4 };
    expect(() => sn.groupNorm(draw(72, 1), { ...given, scale: [1, 2, 3, 4] })).toThrow(failure);
    expect(() => sn.groupNorm(draw(72, 1), { ...given, bias: [1, 2, 3, 4] })).toThrow(failure);
  });

  test('the same array as scale and bias gives what copies give, and is left alone', () => {
    const given = { shape: [3, 12, 4], groups: 3 };
    const x = draw(144, 1);
    const same = Float32Array.from(values.scale);
    const y = sn.groupNorm(x, { ...given, scale: same, bias: same });
    const copies = { scale: values.scale, bias: Array.from(values.scale) };
    expectBits({ op, shape: given.shape }, y, sn.groupNorm(x, { ...given, ...copies }));
    expectBits({ op, shape: given.shape, output: 'scale' }, same, values.scale);
    const parts = { scale: x.subarray(0, 12), bias: x.subarray(5, 17) };
    const slices = { scale: x.slice(0, 12), bias: x.slice(5, 17) };
    const expected = sn.groupNorm(x, { ...given, ...slices });
    expectBits({ op, shape: given.shape }, sn.groupNorm(x, { ...given, ...parts }), expected);
  });

  test('scale, bias, epsilon and groups do something', () => {
    const given = { shape: [3, 12, 4], groups: 3 };
    const x = draw(144, 1);
    const plain = [...sn.groupNorm(x, given)];
    for (const options of [{ scale: values.scale }, { bias: values.bias }, { epsilon: 1 }, { groups: 4 }]) {
      expect([...sn.groupNorm(x, { ...given, ...options })]).not.toEqual(plain);
    }
  });
});

describe('memory', () => {
  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      for (const shape of [
        [2, 6, 9, 5],
        [2, 9, 6, 5],
        [2, 9, 5, 6],
      ]) {
        const axis = shape.indexOf(6);
        const where = `${offset} floats${shared ? ' of shared memory' : ''}`;
        test(`by axis ${axis}, subarrays at ${where} give the same bits`, () => {
          const values = draw(540, 1);
          const floats = { scale: drawScale(6, 2), bias: draw(6, 3) };
          const expected = sn.groupNorm(values, { shape, axis, groups: 3, ...floats });
          const x = place(values, offset, shared);
          const scale = place(floats.scale, (offset + 1) % 4, shared);
          const bias = place(floats.bias, (offset + 2) % 4, shared);
          const out = placeOut(540, (offset + 3) % 4, shared);
          const meanOut = placeOut(6, offset, shared);
          const invStdOut = placeOut(6, (offset + 1) % 4, shared);
          const statistics = { meanOut: meanOut.values, invStdOut: invStdOut.values };
          const given = { shape, axis, groups: 3, scale: scale.values, bias: bias.values, ...statistics };

          expect(sn.groupNorm(x.values, { ...given, out: out.values })).toBe(out.values);
          expectGroupNorm(out.values, values, { shape, axis, groups: 3, ...floats });
          expectBits({ op, shape, data: `offset ${offset}` }, out.values, expected);
          expectBits({ op, shape, output: 'x' }, x.values, values);
          const means = Float32Array.from(meanOut.values);
          meanOut.values.fill(0);

          expect(sn.groupNorm(x.values, { ...given, out: x.values })).toBe(x.values);
          expectBits({ op, shape, data: `in place, offset ${offset}` }, x.values, expected);
          expectBits({ op, shape, output: 'mean', data: 'in place' }, meanOut.values, means);
          const placed = [x, scale, bias, out, meanOut, invStdOut];
          expect(placed.map((each) => each.intact())).not.toContain(false);
          expectBits({ op, shape, output: 'scale' }, scale.values, floats.scale);
          expectBits({ op, shape, output: 'bias' }, bias.values, floats.bias);
        });
      }
    }
  }

  test('without out y is a new array', () => {
    const given = { shape: [2, 4, 3], groups: 2 };
    const x = draw(24, 1);
    const y = sn.groupNorm(x, given);
    expect(y).not.toBe(x);
    expect(y.buffer.byteLength).toBe(96);
    expect(sn.groupNorm(x, { ...given, out: null as never })).not.toBe(y);
  });

  test('another view of x, and resizable buffers, may be out', () => {
    const given = { shape: [2, 4, 3], groups: 2 };
    const values = draw(24, 1);
    const expected = sn.groupNorm(values, given);
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.groupNorm(x, { ...given, out })).toBe(out);
    expectBits({ op, shape: given.shape }, x, expected);
    const resizable = new Float32Array(resizableBuffer(96, 192));
    resizable.set(values);
    expectBits({ op, shape: given.shape }, sn.groupNorm(resizable, { ...given, out: resizable }), expected);
  });

  test.each(layouts)(
    'meanOut and invStdOut of $shape by axis $axis in $groups groups are [N, groups]',
    ({ shape, axis, groups }) => {
      const x = draw(product(shape), 1, 7, 2);
      const given = { shape, axis, groups, epsilon: 0.25 };
      const expected = reference.groupNorm(x, shape, axis, groups, given);
      const y = sn.groupNorm(x, given);
      for (const names of [['meanOut'], ['invStdOut'], ['meanOut', 'invStdOut']]) {
        const count = (shape[0] as number) * groups;
        const statistics = Object.fromEntries(names.map((name) => [name, new Float32Array(count)]));
        expectBits({ op, shape }, sn.groupNorm(x, { ...given, ...statistics }), y);
        const { meanOut, invStdOut } = statistics;
        expectStatistics({ op, shape }, { mean: meanOut, invStd: invStdOut }, expected);
      }
    },
  );
});

describe('accuracy', () => {
  const cases = [
    { shape: [2, 40], axis: 1, groups: 4 },
    { shape: [2, 6, 17], axis: 1, groups: 3 },
    { shape: [1, 12, 345], axis: 1, groups: 1 },
    { shape: [1, 2050, 2], axis: 1, groups: 2 },
    { shape: [2, 40, 6], axis: 2, groups: 2 },
    { shape: [1, 1367, 6], axis: 2, groups: 2 },
    { shape: [2, 9, 6, 20], axis: 2, groups: 3 },
    { shape: [2, 90, 6, 3], axis: 2, groups: 1 },
  ];

  test.each([0, 1, 30, 1e3, 1e5, 1e7])('mean/std %f keeps the promise', (ratio) => {
    for (const { shape, axis, groups } of cases) {
      const channels = shape[axis] as number;
      for (const deviation of [0.1, 1, 30]) {
        const x = draw(product(shape), 1, ratio * deviation, deviation);
        for (const epsilon of [0, 1e-5]) {
          const meanOut = new Float32Array((shape[0] as number) * groups);
          const invStdOut = new Float32Array(meanOut.length);
          const data = `mean/std ${ratio}, deviation ${deviation}, epsilon ${epsilon}`;
          const y = sn.groupNorm(x, { shape, axis, groups, epsilon, meanOut, invStdOut });
          expectGroupNorm(y, x, { shape, axis, groups, epsilon, data });
          const expected = reference.groupNorm(x, shape, axis, groups, { epsilon });
          expectStatistics({ op, shape, data }, { mean: meanOut, invStd: invStdOut }, expected);
        }
        const given = { shape, axis, groups, scale: drawScale(channels, 2), bias: draw(channels, 3) };
        expectGroupNorm(sn.groupNorm(x, given), x, given);
      }
    }
  });

  // What a moment of each channel, merged, must get right.
  test('channels that lie far apart share one mean and variance', () => {
    for (const { shape, axis, groups } of cases) {
      const places = placesOf({ shape, axis, groups });
      for (const distance of [10, 1e4, 1e6]) {
        const x = draw(product(shape), 1).map((value, i) => value + distance * ((places[i]?.channel ?? 0) % 3));
        expectGroupNorm(sn.groupNorm(x, { shape, axis, groups }), x, { shape, axis, groups });
      }
    }
  });

  test.each([1e-30, 1e-20, 1e20, 1e30])('data of size %f keep the promise', (size) => {
    for (const { shape, axis, groups } of cases) {
      const x = draw(product(shape), 1, 0.4 * size, 3 * size);
      const channels = shape[axis] as number;
      const parameters = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
      for (const epsilon of [0, 1e-5]) {
        const given = { shape, axis, groups, epsilon };
        const data = `size ${size}, epsilon ${epsilon}`;
        expectGroupNorm(sn.groupNorm(x, given), x, { ...given, data });
        expectGroupNorm(sn.groupNorm(x, { ...given, ...parameters }), x, { ...given, ...parameters, data });
      }
    }
  });

  test.each([
    { shape: [4, 64, 56, 56], axis: 1 },
    { shape: [4, 56, 56, 64], axis: 3 },
  ])('$shape by axis $axis at odd offsets keeps the promise', ({ shape, axis }) => {
    const values = draw(product(shape), 9, 5, 2);
    const given = { shape, axis, groups: 32, scale: drawScale(64, 2), bias: draw(64, 3) };
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    sn.groupNorm(x.values, { ...given, out: out.values });
    expectGroupNorm(out.values, values, given);
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });
});

describe('edge cases', () => {
  test.each([0.1, -0.1, 1000.1, 3.3e7, 1e-40, 1e30, 0])('a constant group of %f gives exactly bias', (constant) => {
    for (const { shape, axis, groups } of layouts) {
      const channels = shape[axis] as number;
      const places = placesOf({ shape, axis, groups });
      // The first group of the last item is constant, the others are not.
      const last = ((shape[0] as number) - 1) * groups;
      const x = draw(product(shape), 1).map((value, i) => (places[i]?.group === last ? constant : value));
      const bias = draw(channels, 2);
      const meanOut = new Float32Array(last + groups);
      const invStdOut = new Float32Array(last + groups);
      const plain = sn.groupNorm(x, { shape, axis, groups, meanOut, invStdOut });
      const y = sn.groupNorm(x, { shape, axis, groups, bias, scale: drawScale(channels, 3) });
      const inLast = (values: Float32Array) => values.filter((_, i) => places[i]?.group === last);
      const data = `constant ${constant}, by axis ${axis} in ${groups} groups`;
      expect(inLast(plain).every((value) => value === 0)).toBe(true);
      const repeated = Float32Array.from(places, ({ channel }) => bias[channel] as number);
      expectBits({ op, shape, data }, inLast(y), inLast(repeated));
      // The mean of zeros may be -0.
      expect((meanOut[last] as number) + 0).toBe(Math.fround(constant));
      const what = { op, shape, output: 'invStd' };
      expectNear(what, invStdOut.subarray(last, last + 1), [1 / Math.sqrt(1e-5)], machineEpsilon);
    }
  });

  test('epsilon 0 and no variance is 0/0', () => {
    const x = Float32Array.from([5, 5, 5, 5, 1, 2, 3, 4]);
    const y = sn.groupNorm(x, { shape: [1, 4, 2], groups: 2, epsilon: 0 });
    expect([...y].map(Number.isNaN)).toEqual([true, true, true, true, false, false, false, false]);
  });

  test.each([1e-30, 1e-20, 1, 1e20, 1e30])('+-%f with epsilon 0 gives exactly +-1', (size) => {
    for (const { shape, axis, groups } of [
      { shape: [2, 6], axis: 1, groups: 3 },
      { shape: [2, 6, 3], axis: 1, groups: 3 },
      { shape: [2, 6, 200], axis: 1, groups: 1 },
      { shape: [2, 4, 6], axis: 2, groups: 2 },
      { shape: [2, 400, 6], axis: 2, groups: 3 },
      { shape: [2, 2, 6, 5], axis: 2, groups: 3 },
      { shape: [2, 2, 6, 50], axis: 2, groups: 2 },
    ]) {
      const seen = new Map<number, number>();
      const signs = placesOf({ shape, axis, groups }).map(({ group }) => {
        const sign = -(seen.get(group) ?? -1);
        seen.set(group, sign);
        return sign;
      });
      const x = Float32Array.from(signs, (sign) => sign * size);
      const given = { shape, axis, groups };
      expectBits({ op, shape, data: `+-${size}` }, sn.groupNorm(x, { ...given, epsilon: 0 }), signs);
      if (size < 1e20) continue;
      expectBits({ op, shape, data: `+-${size}, default epsilon` }, sn.groupNorm(x, given), signs);
    }
  });

  test('groups that overflow or underflow are right, among others that do not', () => {
    for (const { shape, axis } of [
      { shape: [2, 10, 20], axis: 1 },
      { shape: [2, 20, 10], axis: 2 },
      { shape: [2, 4, 10, 5], axis: 2 },
    ]) {
      const factors = [1e37, 1, 1e-37, 1e25, 1e-25];
      const given = { shape, axis, groups: 5 };
      const places = placesOf(given);
      const x = draw(400, 1).map((value, i) => value * (factors[(places[i]?.group ?? 0) % 5] as number));
      for (const epsilon of [0, 1e-5]) {
        expectGroupNorm(sn.groupNorm(x, { ...given, epsilon }), x, { ...given, epsilon });
      }
    }
  });

  test.each([NaN, Infinity, -Infinity])('%f makes its own group of its own item NaN, and no other', (bad) => {
    for (const { shape, axis, groups } of layouts) {
      const given = { shape, axis, groups };
      const places = placesOf(given);
      const count = (shape[0] as number) * groups;
      const x = draw(product(shape), 1);
      const statistics = () => ({ meanOut: new Float32Array(count), invStdOut: new Float32Array(count) });
      const clean = statistics();
      const cleanY = sn.groupNorm(x, { ...given, ...clean });
      for (const at of [0, x.length >> 1, x.length - 1]) {
        const hit = places[at]?.group;
        const got = statistics();
        const y = sn.groupNorm(x.with(at, bad), { ...given, ...got });
        const data = `by axis ${axis} in ${groups} groups, ${bad} at ${at}`;
        const expected = cleanY.map((value, i) => (places[i]?.group === hit ? NaN : value));
        expectBits({ op, shape, data }, y, expected);
        for (const output of ['meanOut', 'invStdOut'] as const) {
          const others = clean[output].map((value, group) => (group === hit ? NaN : value));
          expectBits({ op, shape, data, output }, got[output], others);
        }
      }
    }
  });

  test('values computed by hand', () => {
    // Means 2 and 20, deviations 1 and 10; neighbouring channels are a group, not every second one.
    const x = Float32Array.from([1, 3, 10, 30]);
    const parameters = { scale: [3, 5, 7, 9], bias: [0.5, 1, 2, 4] };
    const y = sn.groupNorm(x, { shape: [1, 4], groups: 2, epsilon: 0, ...parameters });
    expectNear({ op, shape: [1, 4] }, y, [-2.5, 6, -5, 13], affinePromise, [3.5, 6, 9, 13]);
    // The same groups with the channels last: places are rows.
    const places = Float32Array.from([1, 1, 10, 10, 3, 3, 30, 30]);
    const last = sn.groupNorm(places, { shape: [1, 2, 4], axis: 2, groups: 2, epsilon: 0 });
    expect([...last]).toEqual([-1, -1, -1, -1, 1, 1, 1, 1]);
    const far = sn.groupNorm(Float32Array.from([40000, 40001, 40002, 40003]), { shape: [1, 2, 2], groups: 1 });
    const expected = [-1.3416354, -0.4472118, 0.4472118, 1.3416354];
    expectNear({ op, shape: [1, 2, 2] }, far, expected, promise, [2, 1, 1, 2]);
    // Epsilon is inside the root.
    const small = sn.groupNorm(Float32Array.from([0, 0.002]), { shape: [1, 2], groups: 1 });
    expectNear({ op, shape: [1, 2] }, small, [-0.30151134, 0.30151134], promise, [1, 1]);
  });

  test('the default epsilon is 1e-5, and null or undefined is the default', () => {
    const given = { shape: [1, 4, 10], groups: 2 };
    const { shape } = given;
    const x = draw(40, 1, 0, 1e-3);
    const expected = sn.groupNorm(x, { ...given, epsilon: 1e-5 });
    for (const epsilon of [undefined, null as never]) {
      expectBits({ op, shape }, sn.groupNorm(x, { ...given, epsilon }), expected);
    }
    expect([...sn.groupNorm(x, { ...given, epsilon: 1e-6 })]).not.toEqual([...expected]);
    for (const epsilon of [1e30, 1e-44]) {
      expectGroupNorm(sn.groupNorm(x, { ...given, epsilon }), x, { ...given, epsilon });
    }
  });
});

describe('relations', () => {
  test('with a group for each channel it is instance norm, to the bit', () => {
    for (const { shape, axis, groups } of layouts) {
      if (groups !== shape[axis]) continue;
      const x = draw(product(shape), 1, 3, 2);
      const count = (shape[0] as number) * groups;
      const both = [{}, { scale: drawScale(groups, 2), bias: draw(groups, 3), epsilon: 0.1 }];
      for (const parameters of both) {
        const statistics = () => ({ meanOut: new Float32Array(count), invStdOut: new Float32Array(count) });
        const group = statistics();
        const instance = statistics();
        const y = sn.groupNorm(x, { shape, axis, groups, ...parameters, ...group });
        expectBits({ op, shape }, y, sn.instanceNorm(x, { shape, axis, ...parameters, ...instance }));
        expectBits({ op, shape, output: 'mean' }, group.meanOut, instance.meanOut);
        expectBits({ op, shape, output: 'invStd' }, group.invStdOut, instance.invStdOut);
      }
    }
  });

  test('with one group it is layer norm over channels and space', () => {
    for (const { shape, axis, groups } of layouts) {
      if (groups !== 1) continue;
      const channels = shape[axis] as number;
      const x = draw(product(shape), 1, 3, 2);
      const axes = shape.map((_, i) => i).slice(1);
      const scale = drawScale(channels, 2);
      const bias = draw(channels, 3);
      const item = placesOf({ shape: [1, ...shape.slice(1)], axis, groups });
      const repeat = (values: Float32Array) => item.map(({ channel }) => values[channel] as number);
      const { magnitude } = reference.groupNorm(x, shape, axis, 1, { scale, bias });
      const y = sn.groupNorm(x, { shape, axis, groups, scale, bias });
      const layer = sn.layerNorm(x, { shape, axes, scale: repeat(scale), bias: repeat(bias) });
      expectNear({ op, shape, data: 'layer norm' }, y, layer, 2 * affinePromise, magnitude);
    }
  });

  test.each(layouts)(
    'each item of $shape by axis $axis in $groups groups is the same alone, to the bit',
    ({ shape, axis, groups }) => {
      const channels = shape[axis] as number;
      const x = draw(product(shape), 1, 3, 2);
      const parameters = { axis, groups, scale: drawScale(channels, 2), bias: draw(channels, 3) };
      const together = sn.groupNorm(x, { shape, ...parameters });
      const item = product(shape.slice(1));
      for (let n = 0; n < (shape[0] as number); ++n) {
        const one = { shape: [1, ...shape.slice(1)], ...parameters };
        const alone = sn.groupNorm(x.subarray(n * item, (n + 1) * item), one);
        expectBits({ op, shape, data: `item ${n}` }, alone, together.subarray(n * item, (n + 1) * item));
      }
    },
  );

  test('with the channels first each group is the same alone, to the bit', () => {
    for (const { shape, axis, groups } of layouts) {
      if (axis !== 1) continue;
      const channels = (shape[1] as number) / groups;
      const x = draw(product(shape), 1, 3, 2);
      const scale = drawScale(channels * groups, 2);
      const bias = draw(channels * groups, 3);
      const together = sn.groupNorm(x, { shape, groups, scale, bias });
      const length = channels * product(shape.slice(2));
      for (let i = 0; i < (shape[0] as number) * groups; ++i) {
        const first = (i % groups) * channels;
        const alone = sn.groupNorm(x.subarray(i * length, (i + 1) * length), {
          shape: [1, channels, ...shape.slice(2)],
          groups: 1,
          scale: scale.subarray(first, first + channels),
          bias: bias.subarray(first, first + channels),
        });
        const data = `in ${groups} groups, group ${i}`;
        expectBits({ op, shape, data }, alone, together.subarray(i * length, (i + 1) * length));
      }
    }
  });
});
