import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, place, placeOut, product, resizableBuffer } from './data.ts';
import * as reference from './reference.ts';
import { expectBits, expectNear, machineEpsilon, promise } from './reference.ts';

const op = 'lpNormalize';
const norms = [1, 2, Infinity];

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Expected {
  readonly shape: readonly number[];
  readonly axes?: readonly number[];
  readonly p?: number;
  readonly epsilon?: number;
  readonly data?: string;
}

function expectLpNormalize(got: Float32Array, x: Float32Array, expected: Expected): void {
  const { shape, axes = [-1], p = 2 } = expected;
  const { y, magnitude } = reference.lpNormalize(x, shape, axes, expected);
  const data = `over [${axes}], p ${p} ${expected.data ?? ''}`;
  expectNear({ op, shape, data }, got, y, promise, magnitude);
}

const row = (...values: number[]) => Float32Array.from(values);

describe('shapes', () => {
  const layouts = [
    { shape: [7], axes: [0] },
    { shape: [1], axes: [0] },
    { shape: [3, 4], axes: [1] },
    { shape: [3, 4], axes: [0] },
    { shape: [5, 1], axes: [1] },
    { shape: [5, 1], axes: [0] },
    { shape: [70, 33], axes: [0] },
    { shape: [33, 70], axes: [1] },
    { shape: [2, 3, 5], axes: [1] },
    { shape: [2, 30, 50], axes: [1] },
    { shape: [2, 3, 5], axes: [0, 2] },
    { shape: [2, 3, 5], axes: [0, 1, 2] },
    { shape: [2, 3, 4, 5], axes: [1, 2] },
    { shape: [2, 3, 4, 5], axes: [1, 3] },
    { shape: [2, 3, 4, 50], axes: [1, 3] },
    { shape: [2, 515, 3], axes: [1] },
    { shape: [1, 7, 1100], axes: [1] },
  ];

  test.each(layouts)('$shape over $axes is right for every p', ({ shape, axes }) => {
    const x = draw(product(shape), 1);
    const untouched = Float32Array.from(x);
    for (const p of norms) {
      for (const epsilon of [1e-12, 0, 0.5, 5, 100]) {
        expectLpNormalize(sn.lpNormalize(x, { shape, axes, p, epsilon }), x, { shape, axes, p, epsilon });
      }
      const y = sn.lpNormalize(x, { shape, axes, p });
      expectLpNormalize(y, x, { shape, axes, p });
      const fromTheEnd = axes.map((axis) => axis - shape.length);
      expectBits({ op, shape }, sn.lpNormalize(x, { shape, axes: fromTheEnd, p }), y);
      const inPlace = Float32Array.from(x);
      expect(sn.lpNormalize(inPlace, { shape, axes, p, out: inPlace })).toBe(inPlace);
      expectBits({ op, shape, data: `in place, p ${p}` }, inPlace, y);
    }
    expectBits({ op, shape, output: 'x' }, x, untouched);
  });

  test('every length from 1 to 67 and around the multiples of blocks is right', () => {
    const lengths = Array.from({ length: 67 }, (_, i) => i + 1);
    for (const block of [384, 512, 4096]) {
      for (const multiple of [1, 2, 3]) {
        for (const by of [-17, -1, 0, 1, 17]) lengths.push(block * multiple + by);
      }
    }
    for (const length of lengths) {
      const x = draw(3 * length, length);
      for (const p of norms) {
        const rows = { shape: [3, length], p };
        expectLpNormalize(sn.lpNormalize(x, rows), x, rows);
        const columns = { shape: [length, 3], axes: [0], p };
        expectLpNormalize(sn.lpNormalize(x, columns), x, columns);
      }
    }
  });

  // Where the maximum or a value is overlooked depends on where it is.
  test('the largest value counts wherever it is', () => {
    for (const length of [1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 64, 67]) {
      for (let at = 0; at < length; ++at) {
        const x = draw(length, length, 0, 0.1).with(at, at % 2 ? 100 : -100);
        for (const p of norms) {
          expectLpNormalize(sn.lpNormalize(x, { p }), x, { shape: [length], p });
          const column = { shape: [length, 1], axes: [0], p };
          expectLpNormalize(sn.lpNormalize(x, column), x, column);
        }
      }
    }
  });

  test('p is 2, the axis the last and epsilon 1e-12 by default', () => {
    const shape = [4, 5];
    const x = draw(20, 1);
    const expected = sn.lpNormalize(x, { shape, axes: [1], p: 2, epsilon: 1e-12 });
    const all = [{}, { p: undefined }, { p: null as never }, { axes: -1 }, { axes: null as never }];
    for (const options of [...all, { epsilon: null as never }]) {
      expectBits({ op, shape }, sn.lpNormalize(x, { shape, ...options }), expected);
    }
    const alone = sn.lpNormalize(x);
    expectLpNormalize(alone, x, { shape: [20] });
    expectBits({ op, shape: [20] }, sn.lpNormalize(x, null as never), alone);
    expect([...alone]).not.toEqual([...expected]);
  });

  test('with no axes every value is divided by its own size', () => {
    const x = row(3, -4, 0, 1e-20);
    for (const p of norms) {
      expectLpNormalize(sn.lpNormalize(x, { axes: [], p }), x, { shape: [4], axes: [], p });
      const y = sn.lpNormalize(x, { axes: [], p, epsilon: 0 });
      expectNear({ op, shape: [4], data: `p ${p}` }, y, [1, -1, 0, 1], promise);
    }
  });

  test('0 rows give an empty result, and an extent of 0 to normalize over is ERR_SHAPE', () => {
    const empty = new Float32Array(0);
    const failure = expect.objectContaining({ name: 'NormError', code: 'ERR_SHAPE', op });
    for (const p of norms) {
      expect(sn.lpNormalize(empty, { shape: [0, 3], p })).toBeInstanceOf(Float32Array);
      expect(sn.lpNormalize(empty, { shape: [0, 3], p })).toHaveLength(0);
      expect(sn.lpNormalize(empty, { shape: [65536, 0, 65536], axes: [0, 2], p, out: empty })).toBe(empty);
      expect(() => sn.lpNormalize(empty, { shape: [3, 0], p })).toThrow(failure);
    }
  });

  test('p is 1, 2 or infinity', () => {
    const failure = (code: string) => expect.objectContaining({ name: 'NormError', code, op });
    for (const p of [0, 3, 1.5, -1, -2, NaN, -Infinity]) {
      expect(() => sn.lpNormalize(row(1, 2), { p })).toThrow(failure('ERR_RANGE'));
    }
    for (const p of ['2', [2], true, 'Infinity']) {
      expect(() => sn.lpNormalize(row(1, 2), { p } as never)).toThrow(failure('ERR_TYPE'));
    }
  });

  test('there is no scale and no bias', () => {
    for (const options of [{ scale: [1, 2] }, { bias: [1, 2] }, { invStdOut: new Float32Array(1) }]) {
      const failure = expect.objectContaining({ code: 'ERR_TYPE', op });
      expect(() => sn.lpNormalize(row(1, 2), options as never)).toThrow(failure);
    }
  });
});

describe('memory', () => {
  const shape = [3, 7, 5];
  const values = draw(105, 1);

  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      test(`subarrays at ${offset} floats${shared ? ' of shared memory' : ''} give the same bits`, () => {
        for (const p of norms) {
          for (const axes of [[2], [1], [0, 2]]) {
            const expected = sn.lpNormalize(values, { shape, axes, p });
            const x = place(values, offset, shared);
            const out = placeOut(105, (offset + 3) % 4, shared);
            const data = `over [${axes}], p ${p}, offset ${offset}`;
            expect(sn.lpNormalize(x.values, { shape, axes, p, out: out.values })).toBe(out.values);
            expectBits({ op, shape, data }, out.values, expected);
            expectBits({ op, shape, output: 'x' }, x.values, values);
            expect(sn.lpNormalize(x.values, { shape, axes, p, out: x.values })).toBe(x.values);
            expectBits({ op, shape, data: `in place, ${data}` }, x.values, expected);
            expect(x.intact() && out.intact()).toBe(true);
          }
        }
      });
    }
  }

  test('without out y is a new array', () => {
    const x = Float32Array.from(values);
    const y = sn.lpNormalize(x, { shape });
    expect(y).not.toBe(x);
    expect(y.buffer.byteLength).toBe(420);
    expectBits({ op, shape, output: 'x' }, x, values);
    expect(sn.lpNormalize(x, { shape, out: null as never })).not.toBe(y);
  });

  test('another view of x, and resizable buffers, may be out', () => {
    const expected = sn.lpNormalize(values, { shape });
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.lpNormalize(x, { shape, out })).toBe(out);
    expectBits({ op, shape }, x, expected);
    const resizable = new Float32Array(resizableBuffer(420, 840));
    expectBits({ op, shape }, sn.lpNormalize(values, { shape, out: resizable }), expected);
  });
});

describe('accuracy', () => {
  test.each([0, 1, 30, 1e3, 1e5, 1e7])('mean/std %f keeps the promise', (ratio) => {
    for (const p of norms) {
      for (const deviation of [0.1, 1, 30]) {
        for (const length of [4, 63, 513, 4099]) {
          const x = draw(2 * length, length, ratio * deviation, deviation);
          const data = `mean/std ${ratio}, deviation ${deviation}`;
          const rows = { shape: [2, length], p };
          expectLpNormalize(sn.lpNormalize(x, rows), x, { ...rows, data });
          const columns = { shape: [length, 2], axes: [0], p };
          expectLpNormalize(sn.lpNormalize(x, columns), x, { ...columns, data });
        }
      }
    }
  });

  // Sums of equal values round the same way at every step.
  test.each([1 / 3, 0.1, 1.7, 1000.1, 3.3e7])('+-%f in long vectors keeps the promise', (size) => {
    for (const length of [100, 513, 4097, 100_000]) {
      const x = Float32Array.from({ length }, (_, i) => (i % 3 ? size : -size));
      for (const p of norms) {
        expectLpNormalize(sn.lpNormalize(x, { p }), x, { shape: [length], p, data: `+-${size}` });
        const columns = { shape: [length / 2, 2], axes: [0], p };
        if (length % 2 === 0) expectLpNormalize(sn.lpNormalize(x, columns), x, { ...columns, data: `+-${size}` });
      }
    }
  });

  test.each([1e-40, 1e-38, 1e-30, 1e-20, 1e20, 1e30, 9e37])('data of size %f keep the promise', (size) => {
    for (const p of norms) {
      for (const length of [1, 3, 16, 37, 513]) {
        const x = draw(2 * length, length, 0.4 * size, size);
        for (const epsilon of [0, 1e-12]) {
          const data = `size ${size}, epsilon ${epsilon}`;
          const rows = { shape: [2, length], p, epsilon };
          expectLpNormalize(sn.lpNormalize(x, rows), x, { ...rows, data });
          const columns = { shape: [length, 2], axes: [0], p, epsilon };
          expectLpNormalize(sn.lpNormalize(x, columns), x, { ...columns, data });
        }
      }
    }
  });

  test('300 x 4099 at odd offsets over either axis keeps the promise', () => {
    const shape = [300, 4099];
    const values = draw(300 * 4099, 9, 1, 2);
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    for (const p of norms) {
      for (const axes of [[0], [1]]) {
        sn.lpNormalize(x.values, { shape, axes, p, out: out.values });
        expectLpNormalize(out.values, values, { shape, axes, p });
      }
    }
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });
});

describe('edge cases', () => {
  test('a zero vector stays zero for every epsilon, among others that are not', () => {
    for (const p of norms) {
      for (const epsilon of [undefined, 0, 1e-12, 1, 1e30]) {
        for (const length of [1, 2, 5, 17, 1025]) {
          const zeros = new Float32Array(length);
          for (const x of [zeros, zeros.map((_, i) => (i % 2 ? 0 : -0))]) {
            expect(sn.lpNormalize(x, { p, epsilon }).every((value) => value === 0)).toBe(true);
          }
          const x = draw(3 * length, 1);
          x.fill(0, length, 2 * length);
          const given = { shape: [3, length], p, epsilon: epsilon ?? 1e-12 };
          expectLpNormalize(sn.lpNormalize(x, given), x, given);
        }
        const columns = { shape: [2, 3], axes: [0], p, epsilon: epsilon ?? 1e-12 };
        const x = row(1, 0, 2, 3, 0, 4);
        expectLpNormalize(sn.lpNormalize(x, columns), x, columns);
      }
    }
  });

  test('below epsilon the divisor is epsilon, which is not added to the norm', () => {
    const x = row(3, -4);
    expectNear({ op, shape: [2] }, sn.lpNormalize(x, { epsilon: 10 }), [0.3, -0.4], promise);
    expectNear({ op, shape: [2] }, sn.lpNormalize(x, { epsilon: 5 }), [0.6, -0.8], promise);
    expectNear({ op, shape: [2] }, sn.lpNormalize(x, { epsilon: 4.9 }), [0.6, -0.8], promise);
    expectNear({ op, shape: [2] }, sn.lpNormalize(x, { epsilon: 8, p: 1 }), [3 / 8, -0.5], promise);
    expectNear({ op, shape: [2] }, sn.lpNormalize(x, { epsilon: 8, p: Infinity }), [3 / 8, -0.5], promise);
    for (const p of norms) {
      expectNear({ op, shape: [1] }, sn.lpNormalize(row(1e-30), { p }), [1e-18], promise + machineEpsilon);
      expectNear({ op, shape: [1] }, sn.lpNormalize(row(1e-30), { p, epsilon: 0 }), [1], promise);
      const wide = sn.lpNormalize(row(1e30), { p, epsilon: 1e38 });
      expectNear({ op, shape: [1] }, wide, [1e-8], promise + machineEpsilon);
    }
  });

  test.each([1e-30, 1e-20, 1, 1e20, 1e30, 3e30])('one value of +-%f gives exactly +-1', (size) => {
    for (const p of norms) {
      expect([...sn.lpNormalize(row(size, -size), { shape: [2, 1], p, epsilon: 0 })]).toEqual([1, -1]);
      expect([...sn.lpNormalize(row(size, -size), { shape: [1, 2], axes: [0], p, epsilon: 0 })]).toEqual([1, -1]);
    }
  });

  test('squares and sums that overflow are right', () => {
    for (const size of [1e20, 3e30, 2e38, 3.4e38]) {
      for (const length of [2, 4, 7, 16, 100, 513]) {
        const x = Float32Array.from({ length }, (_, i) => (i % 2 ? -size : size));
        for (const [p, each] of [
          [1, 1 / length],
          [2, 1 / Math.sqrt(length)],
          [Infinity, 1],
        ] as const) {
          const expected = Array.from(x, (value) => Math.sign(value) * each);
          const data = `+-${size}, p ${p}`;
          expectNear({ op, shape: [length], data }, sn.lpNormalize(x, { p }), expected, promise);
          const column = sn.lpNormalize(x, { shape: [length, 1], axes: [0], p });
          expectNear({ op, shape: [length, 1], data }, column, expected, promise);
        }
      }
    }
  });

  test('rows that overflow or underflow are right, among others that do not', () => {
    const factors = [1e37, 1, 1e-37, 1e25, 1e-25];
    for (const p of norms) {
      for (const epsilon of [0, 1e-12]) {
        const rows = { shape: [5, 40], p, epsilon };
        const x = draw(200, 1).map((value, i) => value * (factors[Math.floor(i / 40)] as number));
        expectLpNormalize(sn.lpNormalize(x, rows), x, rows);
        const columns = { shape: [40, 5], axes: [0], p, epsilon };
        const other = draw(200, 1).map((value, i) => value * (factors[i % 5] as number));
        expectLpNormalize(sn.lpNormalize(other, columns), other, columns);
      }
    }
  });

  test('small values beside large ones are right', () => {
    const x = row(1e30, 1, 1e-30, -1e20, 1e-8);
    for (const p of norms) expectLpNormalize(sn.lpNormalize(x, { p }), x, { shape: [5], p });
  });

  test.each([NaN, Infinity, -Infinity])('%f makes its own vector NaN, and no other', (bad) => {
    for (const p of norms) {
      for (const length of [1, 3, 17, 1025]) {
        for (const at of [0, length >> 1, length - 1]) {
          const x = draw(3 * length, 1);
          const rows = { shape: [3, length], p };
          const data = `p ${p}, ${bad} at ${at}`;
          const clean = sn.lpNormalize(x, rows);
          const expected = clean.map((value, i) => (Math.floor(i / length) === 1 ? NaN : value));
          expectBits({ op, ...rows, data }, sn.lpNormalize(x.with(length + at, bad), rows), expected);
          const columns = { shape: [length, 3], axes: [0], p };
          const others = sn.lpNormalize(x, columns).map((value, i) => (i % 3 === 1 ? NaN : value));
          expectBits({ op, ...columns, data }, sn.lpNormalize(x.with(3 * at + 1, bad), columns), others);
        }
      }
    }
  });

  test('values computed by hand', () => {
    const x = row(3, -4, 12);
    expectNear({ op, shape: [3] }, sn.lpNormalize(x), [3 / 13, -4 / 13, 12 / 13], promise);
    expectNear({ op, shape: [3] }, sn.lpNormalize(x, { p: 1 }), [3 / 19, -4 / 19, 12 / 19], promise);
    expectNear({ op, shape: [3] }, sn.lpNormalize(x, { p: Infinity }), [1 / 4, -1 / 3, 1], promise);
    const negative = sn.lpNormalize(row(3, -4, -12), { p: Infinity });
    expectNear({ op, shape: [3] }, negative, [1 / 4, -1 / 3, -1], promise);
    const columns = sn.lpNormalize(row(3, 5, -4, 12), { shape: [2, 2], axes: [0] });
    expectNear({ op, shape: [2, 2] }, columns, [3 / 5, 5 / 13, -4 / 5, 12 / 13], promise);
  });
});

describe('relations', () => {
  test('the 2-norm is RMS norm divided by the root of the length', () => {
    for (const [shape, axes] of [
      [[4, 7], [1]],
      [[3, 1000], [1]],
      [[50, 9], [0]],
      [
        [3, 5, 4, 6],
        [1, 3],
      ],
    ] as const) {
      const x = draw(product(shape), 1, 1, 3);
      const length = product(axes.map((axis) => shape[axis] as number));
      const rms = sn.rmsNorm(x, { shape, axes, epsilon: 0 });
      const expected = Array.from(rms, (value) => value / Math.sqrt(length));
      expectNear({ op, shape }, sn.lpNormalize(x, { shape, axes, epsilon: 0 }), expected, 2 * promise);
    }
  });

  test('vectors are the same alone and among others, to the bit', () => {
    for (const p of norms) {
      for (const length of [1, 3, 16, 203, 1024, 2500]) {
        const x = draw(5 * length, length);
        const together = sn.lpNormalize(x, { shape: [5, length], p });
        for (let i = 0; i < 5; ++i) {
          const alone = sn.lpNormalize(x.subarray(i * length, (i + 1) * length), { p });
          expectBits({ op, shape: [length] }, alone, together.subarray(i * length, (i + 1) * length));
        }
      }
    }
  });

  test('what is normalized has norm 1', () => {
    for (const p of norms) {
      const y = sn.lpNormalize(draw(1000, 1), { p });
      const sizes = Array.from(y, Math.abs);
      const norm = {
        1: sizes.reduce((sum, size) => sum + size, 0),
        2: Math.hypot(...sizes),
        Infinity: Math.max(...sizes),
      }[p];
      expect(Math.abs((norm as number) - 1)).toBeLessThanOrEqual(promise);
    }
  });
});
