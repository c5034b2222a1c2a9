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

const op = 'instanceNorm';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Expected extends reference.Parameters {
  readonly shape: readonly number[];
  readonly axis?: number | undefined;
  readonly data?: string;
}

function expectInstanceNorm(got: Float32Array, x: Float32Array, expected: Expected): void {
  const { y, magnitude } = reference.instanceNorm(x, expected.shape, expected.axis ?? 1, expected);
  const bound = expected.scale || expected.bias ? affinePromise : promise;
  expectNear({ op, ...expected }, got, y, bound, magnitude);
}

/** Every position of the channel axis past the first, with extents of 1 on either side of it and at it. */
const layouts = [
  { shape: [3, 4], axis: 1 },
  { shape: [1, 9], axis: 1 },
  { shape: [2, 5, 1], axis: 1 },
  { shape: [2, 3, 5], axis: 1 },
  { shape: [2, 5, 3], axis: 2 },
  { shape: [2, 1, 9], axis: 1 },
  { shape: [2, 1, 9], axis: 2 },
  { shape: [2, 9, 1], axis: 2 },
  { shape: [1, 3, 67], axis: 1 },
  { shape: [1, 67, 3], axis: 2 },
  { shape: [5, 33, 17], axis: 1 },
  { shape: [5, 33, 17], axis: 2 },
  { shape: [3, 4, 5, 6], axis: 1 },
  { shape: [3, 4, 5, 6], axis: 2 },
  { shape: [3, 4, 5, 6], axis: 3 },
  { shape: [2, 5, 16, 16], axis: 1 },
  { shape: [2, 16, 5, 16], axis: 2 },
  { shape: [2, 16, 16, 5], axis: 3 },
  { shape: [2, 2, 3, 2, 3], axis: 1 },
  { shape: [2, 2, 3, 2, 3], axis: 2 },
  { shape: [2, 2, 3, 2, 3], axis: 3 },
  { shape: [2, 2, 3, 2, 3], axis: 4 },
  { shape: [2, 600, 3], axis: 2 },
  { shape: [1, 7, 1100], axis: 2 },
  { shape: [2, 3, 515, 2], axis: 2 },
];

/** Of each value of x, which statistic is its: [N, C]. */
function groupsOf(shape: readonly number[], axis: number): number[] {
  const after = product(shape.slice(axis + 1));
  const channels = shape[axis] as number;
  const item = product(shape.slice(1));
  return Array.from({ length: product(shape) }, (_, i) => {
    return Math.floor(i / item) * channels + (Math.floor(i / after) % channels);
  });
}

describe('shapes', () => {
  test.each(layouts)('$shape by axis $axis is right with and without scale and bias', ({ shape, axis }) => {
    const channels = shape[axis] as number;
    const x = draw(product(shape), axis + 1);
    const untouched = Float32Array.from(x);
    for (const scale of [undefined, drawScale(channels, 4)]) {
      for (const bias of [undefined, draw(channels, 5)]) {
        const y = sn.instanceNorm(x, { shape, axis, scale, bias });
        expectInstanceNorm(y, x, { shape, axis, scale, bias });
        expectBits({ op, shape }, sn.instanceNorm(x, { shape, axis: axis - shape.length, scale, bias }), y);
        if (axis !== 1) continue;
        for (const one of [undefined, null as never]) {
          expectBits({ op, shape }, sn.instanceNorm(x, { shape, axis: one, scale, bias }), y);
        }
      }
    }
    for (const epsilon of [0.5, 1e-3]) {
      expectInstanceNorm(sn.instanceNorm(x, { shape, axis, epsilon }), x, { shape, axis, epsilon });
    }
    expectBits({ op, shape, output: 'x' }, x, untouched);
  });

  test('every number of places from 1 to 67 and around the multiples of blocks is right', () => {
    const lengths = Array.from({ length: 67 }, (_, i) => i + 1);
    for (const block of [384, 512, 4096]) {
      for (const by of [-17, -1, 0, 1, 17]) lengths.push(block + by, 2 * block + by);
    }
    for (const places of lengths) {
      const x = draw(6 * places, places);
      const parameters = { scale: drawScale(3, 2), bias: draw(3, 3) };
      for (const [shape, axis] of [
        [[2, 3, places], 1],
        [[2, places, 3], 2],
      ] as const) {
        expectInstanceNorm(sn.instanceNorm(x, { shape, axis }), x, { shape, axis });
        expectInstanceNorm(sn.instanceNorm(x, { shape, axis, ...parameters }), x, { shape, axis, ...parameters });
      }
    }
  });

  test('every number of channels from 1 to 67 and around 512 is right', () => {
    for (const channels of [...Array.from({ length: 67 }, (_, i) => i + 1), 511, 512, 513, 1025]) {
      const x = draw(2 * channels * 6, channels);
      const parameters = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
      for (const [shape, axis] of [
        [[2, channels, 6], 1],
        [[2, 3, channels, 2], 2],
        [[2, 6, channels], 2],
      ] as const) {
        expectInstanceNorm(sn.instanceNorm(x, { shape, axis, ...parameters }), x, { shape, axis, ...parameters });
      }
    }
  });

  test('channels first, in the middle and last give the same values', () => {
    const shape = [3, 6, 5, 7];
    const x = draw(product(shape), 1, 5, 2);
    const parameters = { scale: drawScale(6, 2), bias: draw(6, 3) };
    const first = sn.instanceNorm(x, { shape, ...parameters });
    const { magnitude } = reference.instanceNorm(x, shape, 1, parameters);
    for (const { order, back, axis } of [
      { order: [0, 2, 3, 1], back: [0, 3, 1, 2], axis: 3 },
      { order: [0, 2, 1, 3], back: [0, 2, 1, 3], axis: 2 },
    ]) {
      const moved = order.map((axis) => shape[axis] as number);
      const y = sn.instanceNorm(transpose(x, shape, order), { shape: moved, axis, ...parameters });
      const what = { op, shape: moved, data: `channels on axis ${axis}` };
      expectNear(what, transpose(y, moved, back), first, 2 * affinePromise, magnitude);
    }
  });

  test('one place per channel gives exactly bias, without one 0', () => {
    for (const { shape, axis } of layouts.filter(({ shape, axis }) => product(shape.slice(1)) === shape[axis])) {
      const channels = shape[axis] as number;
      const x = draw(product(shape), 1, 1000, 30);
      const bias = draw(channels, 2);
      expect(sn.instanceNorm(x, { shape, axis }).every((value) => value === 0)).toBe(true);
      const y = sn.instanceNorm(x, { shape, axis, bias, scale: drawScale(channels, 3) });
      expectBits(
        { op, shape },
        y,
        Array.from(x, (_, i) => bias[i % channels] as number),
      );
    }
    expect(sn.instanceNorm(draw(6, 1), { shape: [2, 3], epsilon: 0 }).every(Number.isNaN)).toBe(true);
  });

  test('0 items and 0 channels give an empty result', () => {
    const empty = new Float32Array(0);
    for (const shape of [
      [0, 3, 4],
      [0, 3],
      [2, 0, 3],
      [0, 65536, 65536],
    ]) {
      const scale = new Float32Array(shape[1] as number);
      expect(sn.instanceNorm(empty, { shape, scale })).toBeInstanceOf(Float32Array);
      expect(sn.instanceNorm(empty, { shape, scale })).toHaveLength(0);
      expect(sn.instanceNorm(empty, { shape, out: empty, meanOut: empty, invStdOut: empty })).toBe(empty);
    }
  });

  test('no places to normalize over is ERR_SHAPE', () => {
    const failure = expect.objectContaining({ name: 'NormError', code: 'ERR_SHAPE', op });
    expect(() => sn.instanceNorm(new Float32Array(0), { shape: [2, 3, 0] })).toThrow(failure);
    expect(() => sn.instanceNorm(new Float32Array(0), { shape: [2, 0, 3], axis: 2 })).toThrow(failure);
  });

  test('the first axis is not a channel axis', () => {
    const failure = expect.objectContaining({ name: 'NormError', code: 'ERR_AXIS', op });
    expect(() => sn.instanceNorm(draw(12, 1), { shape: [3, 4], axis: 0 })).toThrow(failure);
    expect(() => sn.instanceNorm(draw(12, 1), { shape: [3, 4], axis: -2 })).toThrow(failure);
    // Without a shape there is only that one.
    expect(() => sn.instanceNorm(draw(12, 1))).toThrow(failure);
  });
});

describe('scale and bias', () => {
  const values = { scale: drawScale(11, 4), bias: draw(11, 5) };
  const pairs = kinds.flatMap(([scaleKind, makeScale]) =>
    kinds.map(([biasKind, makeBias]) => ({ scaleKind, biasKind, makeScale, makeBias })),
  );

  test.each(pairs)('scale $scaleKind and bias $biasKind are for each channel', ({ makeScale, makeBias }) => {
    for (const { shape, axis } of [
      { shape: [3, 11, 20], axis: 1 },
      { shape: [3, 20, 11], axis: 2 },
      { shape: [2, 3, 11, 5], axis: 2 },
    ]) {
      const x = draw(product(shape), 1);
      const scale = makeScale(values.scale) as Float32Array | undefined;
      const bias = makeBias(values.bias) as Float32Array | undefined;
      const y = sn.instanceNorm(x, { shape, axis, scale, bias });
      expectInstanceNorm(y, x, { shape, axis, scale, bias });
      const floats = { scale: scale ? values.scale : undefined, bias: bias ? values.bias : undefined };
      expectBits({ op, shape }, y, sn.instanceNorm(x, { shape, axis, ...floats }));
    }
  });

  test('the same array as scale and bias gives what copies give, and is left alone', () => {
    const shape = [3, 11, 4];
    const x = draw(132, 1);
    const same = Float32Array.from(values.scale);
    const y = sn.instanceNorm(x, { shape, scale: same, bias: same });
    expectBits({ op, shape }, y, sn.instanceNorm(x, { shape, scale: values.scale, bias: Array.from(values.scale) }));
    expectBits({ op, shape, output: 'scale' }, same, values.scale);
    const parts = { scale: x.subarray(0, 11), bias: x.subarray(5, 16) };
    const copies = { scale: x.slice(0, 11), bias: x.slice(5, 16) };
    expectBits({ op, shape }, sn.instanceNorm(x, { shape, ...parts }), sn.instanceNorm(x, { shape, ...copies }));
  });

  test('scale, bias and epsilon do something', () => {
    const shape = [3, 11, 4];
    const x = draw(132, 1);
    const plain = [...sn.instanceNorm(x, { shape })];
    for (const options of [{ scale: values.scale }, { bias: values.bias }, { epsilon: 1 }]) {
      expect([...sn.instanceNorm(x, { shape, ...options })]).not.toEqual(plain);
    }
  });
});

describe('memory', () => {
  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      for (const axis of [1, 2, 3]) {
        const where = `${offset} floats${shared ? ' of shared memory' : ''}`;
        test(`by axis ${axis}, subarrays at ${where} give the same bits`, () => {
          const shape = [2, 6, 9, 5];
          const channels = shape[axis] as number;
          const values = draw(540, 1);
          const floats = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
          const expected = sn.instanceNorm(values, { shape, axis, ...floats });
          const x = place(values, offset, shared);
          const scale = place(floats.scale, (offset + 1) % 4, shared);
          const bias = place(floats.bias, (offset + 2) % 4, shared);
          const out = placeOut(540, (offset + 3) % 4, shared);
          const meanOut = placeOut(2 * channels, offset, shared);
          const invStdOut = placeOut(2 * channels, (offset + 1) % 4, shared);
          const statistics = { meanOut: meanOut.values, invStdOut: invStdOut.values };
          const given = { shape, axis, scale: scale.values, bias: bias.values, ...statistics };

          expect(sn.instanceNorm(x.values, { ...given, out: out.values })).toBe(out.values);
          expectInstanceNorm(out.values, values, { shape, axis, ...floats });
          expectBits({ op, shape, data: `offset ${offset}` }, out.values, expected);
          expectBits({ op, shape, output: 'x' }, x.values, values);
          const means = Float32Array.from(meanOut.values);
          meanOut.values.fill(0);

          expect(sn.instanceNorm(x.values, { ...given, out: x.values })).toBe(x.values);
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
    const shape = [2, 3, 4];
    const x = draw(24, 1);
    const y = sn.instanceNorm(x, { shape });
    expect(y).not.toBe(x);
    expect(y.buffer.byteLength).toBe(96);
    expect(sn.instanceNorm(x, { shape, out: null as never })).not.toBe(y);
  });

  test('another view of x, and resizable buffers, may be out', () => {
    const shape = [2, 3, 4];
    const values = draw(24, 1);
    const expected = sn.instanceNorm(values, { shape });
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.instanceNorm(x, { shape, out })).toBe(out);
    expectBits({ op, shape }, x, expected);
    const resizable = new Float32Array(resizableBuffer(96, 192));
    resizable.set(values);
    expectBits({ op, shape }, sn.instanceNorm(resizable, { shape, out: resizable }), expected);
  });

  test.each(layouts)('meanOut and invStdOut of $shape by axis $axis are [N, C]', ({ shape, axis }) => {
    const x = draw(product(shape), 1, 7, 2);
    const count = (shape[0] as number) * (shape[axis] as number);
    const expected = reference.instanceNorm(x, shape, axis, { epsilon: 0.25 });
    const y = sn.instanceNorm(x, { shape, axis, epsilon: 0.25 });
    for (const names of [['meanOut'], ['invStdOut'], ['meanOut', 'invStdOut']]) {
      const statistics = Object.fromEntries(names.map((name) => [name, new Float32Array(count)]));
      expectBits({ op, shape }, sn.instanceNorm(x, { shape, axis, epsilon: 0.25, ...statistics }), y);
      const { meanOut, invStdOut } = statistics;
      expectStatistics({ op, shape }, { mean: meanOut, invStd: invStdOut }, expected);
    }
  });
});

describe('accuracy', () => {
  const shapes = [
    { shape: [2, 3, 17], axis: 1 },
    { shape: [2, 3, 1025], axis: 1 },
    { shape: [1, 2, 4099], axis: 1 },
    { shape: [2, 40, 7], axis: 2 },
    { shape: [1, 4099, 3], axis: 2 },
    { shape: [2, 9, 5, 20], axis: 2 },
    { shape: [2, 90, 5, 3], axis: 2 },
  ];

  test.each([0, 1, 30, 1e3, 1e5, 1e7])('mean/std %f keeps the promise', (ratio) => {
    for (const { shape, axis } of shapes) {
      const channels = shape[axis] as number;
      for (const deviation of [0.1, 1, 30]) {
        const x = draw(product(shape), 1, ratio * deviation, deviation);
        for (const epsilon of [0, 1e-5]) {
          const meanOut = new Float32Array((shape[0] as number) * channels);
          const invStdOut = new Float32Array(meanOut.length);
          const data = `mean/std ${ratio}, deviation ${deviation}, epsilon ${epsilon}`;
          const y = sn.instanceNorm(x, { shape, axis, epsilon, meanOut, invStdOut });
          expectInstanceNorm(y, x, { shape, axis, epsilon, data });
          const expected = reference.instanceNorm(x, shape, axis, { epsilon });
          expectStatistics({ op, shape, data }, { mean: meanOut, invStd: invStdOut }, expected);
        }
        const parameters = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
        expectInstanceNorm(sn.instanceNorm(x, { shape, axis, ...parameters }), x, { shape, axis, ...parameters });
      }
    }
  });

  test.each([1e-30, 1e-20, 1e20, 1e30])('data of size %f keep the promise', (size) => {
    for (const { shape, axis } of shapes) {
      const x = draw(product(shape), 1, 0.4 * size, 3 * size);
      const parameters = { scale: drawScale(shape[axis] as number, 2), bias: draw(shape[axis] as number, 3) };
      for (const epsilon of [0, 1e-5]) {
        const given = { shape, axis, epsilon };
        const data = `size ${size}, epsilon ${epsilon}`;
        expectInstanceNorm(sn.instanceNorm(x, given), x, { ...given, data });
        expectInstanceNorm(sn.instanceNorm(x, { ...given, ...parameters }), x, { ...given, ...parameters, data });
      }
    }
  });

  test.each([
    { shape: [4, 64, 56, 56], axis: 1 },
    { shape: [4, 56, 56, 64], axis: 3 },
  ])('$shape by axis $axis at odd offsets keeps the promise', ({ shape, axis }) => {
    const values = draw(product(shape), 9, 5, 2);
    const parameters = { scale: drawScale(64, 2), bias: draw(64, 3) };
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    sn.instanceNorm(x.values, { shape, axis, ...parameters, out: out.values });
    expectInstanceNorm(out.values, values, { shape, axis, ...parameters });
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });
});

describe('edge cases', () => {
  test.each([0.1, -0.1, 1000.1, 3.3e7, 1e-40, 1e30, 0])('a constant channel of %f gives exactly bias', (constant) => {
    for (const { shape, axis } of layouts) {
      const channels = shape[axis] as number;
      const groups = groupsOf(shape, axis);
      // The first channel of the last item is constant, the others are not.
      const last = ((shape[0] as number) - 1) * channels;
      const x = draw(product(shape), 1).map((value, i) => (groups[i] === last ? constant : value));
      const bias = draw(channels, 2);
      const meanOut = new Float32Array(last + channels);
      const invStdOut = new Float32Array(last + channels);
      const plain = sn.instanceNorm(x, { shape, axis, meanOut, invStdOut });
      const y = sn.instanceNorm(x, { shape, axis, bias, scale: drawScale(channels, 3) });
      const inLast = (values: Float32Array) => values.filter((_, i) => groups[i] === last);
      expect(inLast(plain).every((value) => value === 0)).toBe(true);
      expect(inLast(y).every((value) => value === bias[0])).toBe(true);
      // The mean of zeros may be -0.
      expect((meanOut[last] as number) + 0).toBe(Math.fround(constant));
      const expected = [1 / Math.sqrt(1e-5)];
      const what = { op, shape, output: 'invStd' };
      expectNear(what, invStdOut.subarray(last, last + 1), expected, machineEpsilon);
    }
  });

  test('epsilon 0 and no variance is 0/0', () => {
    const x = Float32Array.from([5, 5, 5, 1, 2, 3]);
    const y = sn.instanceNorm(x, { shape: [1, 2, 3], epsilon: 0 });
    expect([...y].map(Number.isNaN)).toEqual([true, true, true, false, false, false]);
  });

  test.each([1e-30, 1e-20, 1, 1e20, 1e30])('+-%f with epsilon 0 gives exactly +-1', (size) => {
    for (const { shape, axis } of [
      { shape: [2, 3, 2], axis: 1 },
      { shape: [2, 3, 400], axis: 1 },
      { shape: [2, 4, 3], axis: 2 },
      { shape: [2, 400, 3], axis: 2 },
      { shape: [2, 2, 3, 5], axis: 2 },
      { shape: [2, 2, 3, 50], axis: 2 },
    ]) {
      const seen = new Map<number, number>();
      const signs = groupsOf(shape, axis).map((group) => {
        const sign = -(seen.get(group) ?? -1);
        seen.set(group, sign);
        return sign;
      });
      const x = Float32Array.from(signs, (sign) => sign * size);
      expectBits({ op, shape, data: `+-${size}` }, sn.instanceNorm(x, { shape, axis, epsilon: 0 }), signs);
      if (size < 1e20) continue;
      expectBits({ op, shape, data: `+-${size}, default epsilon` }, sn.instanceNorm(x, { shape, axis }), signs);
    }
  });

  test('channels that overflow or underflow are right, among others that do not', () => {
    for (const { shape, axis } of [
      { shape: [2, 5, 40], axis: 1 },
      { shape: [2, 40, 5], axis: 2 },
      { shape: [2, 4, 5, 10], axis: 2 },
    ]) {
      const factors = [1e37, 1, 1e-37, 1e25, 1e-25];
      const groups = groupsOf(shape, axis);
      const x = draw(400, 1).map((value, i) => value * (factors[(groups[i] as number) % 5] as number));
      for (const epsilon of [0, 1e-5]) {
        expectInstanceNorm(sn.instanceNorm(x, { shape, axis, epsilon }), x, { shape, axis, epsilon });
      }
    }
  });

  test.each([NaN, Infinity, -Infinity])('%f makes its own channel of its own item NaN, and no other', (bad) => {
    for (const { shape, axis } of layouts) {
      const groups = groupsOf(shape, axis);
      const count = Math.max(...groups) + 1;
      const x = draw(product(shape), 1);
      const statistics = () => ({ meanOut: new Float32Array(count), invStdOut: new Float32Array(count) });
      const clean = statistics();
      const cleanY = sn.instanceNorm(x, { shape, axis, ...clean });
      for (const at of [0, x.length >> 1, x.length - 1]) {
        const hit = groups[at];
        const got = statistics();
        const y = sn.instanceNorm(x.with(at, bad), { shape, axis, ...got });
        const data = `${bad} at ${at}`;
        expectBits(
          { op, shape, data },
          y,
          cleanY.map((value, i) => (groups[i] === hit ? NaN : value)),
        );
        for (const output of ['meanOut', 'invStdOut'] as const) {
          const expected = clean[output].map((value, group) => (group === hit ? NaN : value));
          expectBits({ op, shape, data, output }, got[output], expected);
        }
      }
    }
  });

  test('values computed by hand', () => {
    const x = Float32Array.from([1, 3, 10, 30, 40000, 40001, 40002, 40003]);
    // Items of one channel: means 2 and 20, deviations 1 and 10.
    const pairs = sn.instanceNorm(x.subarray(0, 4), { shape: [2, 1, 2], epsilon: 0, scale: [3], bias: [0.5] });
    expectNear({ op, shape: [2, 1, 2] }, pairs, [-2.5, 3.5, -2.5, 3.5], affinePromise, [3.5, 3.5, 3.5, 3.5]);
    // The same as channels of one item, last: the values of a channel alternate.
    const last = sn.instanceNorm(Float32Array.from([1, 10, 3, 30]), { shape: [1, 2, 2], axis: 2, epsilon: 0 });
    expect([...last]).toEqual([-1, -1, 1, 1]);
    const expected = [-1.3416354, -0.4472118, 0.4472118, 1.3416354];
    const far = sn.instanceNorm(x.subarray(4), { shape: [1, 1, 4] });
    expectNear({ op, shape: [1, 1, 4] }, far, expected, promise, [2, 1, 1, 2]);
    // Epsilon is inside the root.
    const small = sn.instanceNorm(Float32Array.from([0, 0.002]), { shape: [1, 1, 2] });
    expectNear({ op, shape: [1, 1, 2] }, small, [-0.30151134, 0.30151134], promise, [1, 1]);
  });

  test('the default epsilon is 1e-5, and null or undefined is the default', () => {
    const shape = [1, 2, 10];
    const x = draw(20, 1, 0, 1e-3);
    const expected = sn.instanceNorm(x, { shape, epsilon: 1e-5 });
    for (const epsilon of [undefined, null as never]) {
      expectBits({ op, shape }, sn.instanceNorm(x, { shape, epsilon }), expected);
    }
    expect([...sn.instanceNorm(x, { shape, epsilon: 1e-6 })]).not.toEqual([...expected]);
    for (const epsilon of [1e30, 1e-44]) {
      expectInstanceNorm(sn.instanceNorm(x, { shape, epsilon }), x, { shape, epsilon });
    }
  });
});

describe('relations', () => {
  test.each(layouts)('each item of $shape by axis $axis is the same alone, to the bit', ({ shape, axis }) => {
    const channels = shape[axis] as number;
    const x = draw(product(shape), 1, 3, 2);
    const parameters = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
    const together = sn.instanceNorm(x, { shape, axis, ...parameters });
    const item = product(shape.slice(1));
    for (let n = 0; n < (shape[0] as number); ++n) {
      const one = { shape: [1, ...shape.slice(1)], axis, ...parameters };
      const alone = sn.instanceNorm(x.subarray(n * item, (n + 1) * item), one);
      expectBits({ op, shape, data: `item ${n}` }, alone, together.subarray(n * item, (n + 1) * item));
    }
  });

  test('one item is batch norm in training', () => {
    for (const { shape, axis } of layouts) {
      const one = [1, ...shape.slice(1)];
      const channels = one[axis] as number;
      if (product(one) === channels) continue;
      const x = draw(product(one), 1);
      const parameters = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
      const { magnitude } = reference.instanceNorm(x, one, axis, parameters);
      const { y } = sn.batchNormTraining(x, { shape: one, axis, ...parameters });
      const what = { op, shape: one, data: 'batch norm' };
      expectNear(what, sn.instanceNorm(x, { shape: one, axis, ...parameters }), y, 2 * affinePromise, magnitude);
    }
  });

  test('channels first without parameters is layer norm over the places', () => {
    const shape = [3, 4, 5, 6];
    const x = draw(360, 1);
    const { magnitude } = reference.instanceNorm(x, shape, 1);
    const y = sn.layerNorm(x, { shape, axes: [2, 3] });
    expectNear({ op, shape }, sn.instanceNorm(x, { shape }), y, 2 * promise, magnitude);
  });
});
