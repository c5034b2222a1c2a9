import { type LocalResponseNormOptions, load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, place, placeOut, product, resizableBuffer } from './data.ts';
import * as reference from './reference.ts';
import { expectBits, expectNear, machineEpsilon, promise, transpose } from './reference.ts';

const op = 'localResponseNorm';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Given {
  readonly shape: readonly number[];
  readonly size: number;
  readonly axis?: number | undefined;
  readonly alpha?: number | undefined;
  readonly beta?: number | undefined;
  readonly k?: number | undefined;
}

function expectLocalResponseNorm(got: Float32Array, x: Float32Array, given: Given): void {
  const { shape, axis = 1, size, alpha, beta, k } = given;
  const { y, magnitude } = reference.localResponseNorm(x, shape, axis, given);
  const data = `by axis ${axis}, size ${size}, alpha ${alpha}, beta ${beta}, k ${k}`;
  // What no float can hold is infinite.
  const expected = y.map((value) => (Number.isFinite(Math.fround(value)) ? value : Math.fround(value)));
  expectNear({ op, shape, data }, got, expected, promise, magnitude);
}

const row = (...values: number[]) => Float32Array.from(values);

const layouts = [
  { shape: [7], axis: 0 },
  { shape: [5, 3], axis: 0 },
  { shape: [3, 5], axis: 1 },
  { shape: [4, 1], axis: 1 },
  { shape: [4, 1, 9], axis: 1 },
  { shape: [1, 70], axis: 1 },
  { shape: [2, 9, 5], axis: 0 },
  { shape: [2, 9, 5], axis: 1 },
  { shape: [2, 9, 5], axis: 2 },
  { shape: [2, 9, 1], axis: 1 },
  { shape: [2, 6, 3, 5], axis: 0 },
  { shape: [2, 6, 3, 5], axis: 1 },
  { shape: [2, 6, 3, 5], axis: 2 },
  { shape: [2, 6, 3, 5], axis: 3 },
  { shape: [2, 2, 3, 2, 4], axis: 2 },
  { shape: [2, 17, 16, 4], axis: 1 },
  { shape: [2, 16, 4, 17], axis: 3 },
];
const sizes = [1, 2, 3, 4, 5, 6, 7, 8, 20, 1001];
const betas = [0, 0.25, 0.5, 0.75, 1, 1.3, 2, -0.5];

describe('shapes and windows', () => {
  test.each(layouts)('$shape by axis $axis is right for every size of window', ({ shape, axis }) => {
    const x = draw(product(shape), 1);
    const untouched = Float32Array.from(x);
    for (const size of sizes) {
      // The default alpha would hide a wrong window.
      for (const options of [{ alpha: 1 }, { alpha: 2, beta: 0.5, k: 3 }, {}]) {
        const given = { shape, axis, size, ...options };
        const y = sn.localResponseNorm(x, given);
        expectLocalResponseNorm(y, x, given);
        expectBits({ op, shape }, sn.localResponseNorm(x, { ...given, axis: axis - shape.length }), y);
        const inPlace = Float32Array.from(x);
        expect(sn.localResponseNorm(inPlace, { ...given, out: inPlace })).toBe(inPlace);
        expectBits({ op, shape, data: `in place, size ${size}` }, inPlace, y);
        if (axis !== 1) continue;
        for (const one of [undefined, null as never]) {
          expectBits({ op, shape }, sn.localResponseNorm(x, { ...given, axis: one }), y);
        }
      }
    }
    expectBits({ op, shape, output: 'x' }, x, untouched);
  });

  test('values of very different sizes in a window: float64', () => {
    const of = (x: number[], beta: number) =>
      sn.localResponseNorm(Float64Array.from(x), { shape: [1, 2], size: 3, alpha: 3, beta, k: 0 })[0] as number;
    for (const [small, large] of [
      [1e-300, 1e-160],
      [1e-300, 1e160],
      [1e-160, 1e160],
    ] as const) {
      // x / large^(2 beta), by halves, as the whole may be out of range.
      for (const beta of [0.75, 1, -0.5, -1]) {
        const half = large ** beta;
        const expected = small / half / half;
        const relative = of([small, large], beta) / expected - 1;
        if (expected > 1e-300 && expected < 1e300) expect(Math.abs(relative)).toBeLessThan(1e-13);
      }
    }
  });

  test('windows of thousands lose nothing: float64', () => {
    for (const length of [64, 1000, 16384]) {
      const x = new Float64Array(length).fill(1.9416204674835191);
      // All windows have all channels: x / (length * x^2).
      const y = sn.localResponseNorm(x, { shape: [1, length], size: 2 * length, alpha: 2 * length, beta: 1, k: 0 });
      for (const value of y) expect(Math.abs(value * length * (x[0] as number) - 1)).toBeLessThan(20 * 2 ** -52);
    }
  });

  test('without values is quick, whatever the other extents are', () => {
    const none = new Float32Array(0);
    expect(sn.localResponseNorm(none, { shape: [1e9, 3, 0], size: 3 })).toEqual(none);
    expect(sn.lpNormalize(none, { shape: [2 ** 31, 2 ** 32 - 1, 2, 0, 65536], axes: [4, 1], p: 1 })).toEqual(none);
  });

  test('every number of channels and of places from 1 to 67 and around 512 is right', () => {
    for (const length of [...Array.from({ length: 67 }, (_, i) => i + 1), 511, 512, 513, 1025]) {
      const x = draw(6 * length, length);
      for (const { shape, axis } of [
        { shape: [2, length, 3], axis: 1 },
        { shape: [2, 3, length], axis: 1 },
        { shape: [6, length], axis: 1 },
      ]) {
        for (const size of [4, 5]) {
          const given = { shape, axis, size, alpha: 1 };
          expectLocalResponseNorm(sn.localResponseNorm(x, given), x, given);
        }
      }
    }
  });

  test('a window reaches floor((size - 1) / 2) channels back and ceil((size - 1) / 2) ahead', () => {
    for (const size of sizes) {
      for (const at of [0, 3, 10, 20]) {
        const x = new Float32Array(21).fill(1).with(at, 100);
        const y = sn.localResponseNorm(x, { shape: [1, 21], size, alpha: size, beta: 1, k: 0 });
        // A window without the large value counts its ones.
        for (let c = 0; c < 21; ++c) {
          const back = Math.min(c, Math.floor((size - 1) / 2));
          const ahead = Math.min(20 - c, Math.ceil((size - 1) / 2));
          const seen = at >= c - back && at <= c + ahead;
          const sum = 1 + back + ahead + (seen ? 9999 : 0);
          const expected = [(c === at ? 100 : 1) / sum];
          const data = `size ${size}, large at ${at}, channel ${c}`;
          expectNear({ op, shape: [1, 21], data }, y.subarray(c, c + 1), expected, promise);
        }
      }
    }
  });

  test('channels first, in the middle and last give the same values', () => {
    const shape = [3, 6, 5, 7];
    const x = draw(product(shape), 1);
    for (const size of [1, 2, 5, 30]) {
      const given = { size, alpha: 1, k: 2 };
      const first = sn.localResponseNorm(x, { shape, ...given });
      for (const { order, back, axis } of [
        { order: [0, 2, 3, 1], back: [0, 3, 1, 2], axis: 3 },
        { order: [0, 2, 1, 3], back: [0, 2, 1, 3], axis: 2 },
        { order: [1, 0, 2, 3], back: [1, 0, 2, 3], axis: 0 },
      ]) {
        const moved = order.map((axis) => shape[axis] as number);
        const y = sn.localResponseNorm(transpose(x, shape, order), { shape: moved, axis, ...given });
        const what = { op, shape: moved, data: `size ${size}, channels on axis ${axis}` };
        expectNear(what, transpose(y, moved, back), first, 2 * promise);
      }
    }
  });

  test('0 values give an empty result', () => {
    const empty = new Float32Array(0);
    for (const shape of [
      [0, 3],
      [0, 3, 4],
      [2, 3, 0],
      [0, 65536, 65536],
    ]) {
      expect(sn.localResponseNorm(empty, { shape, size: 5 })).toBeInstanceOf(Float32Array);
      expect(sn.localResponseNorm(empty, { shape, size: 5 })).toHaveLength(0);
      expect(sn.localResponseNorm(empty, { shape, size: 5, out: empty })).toBe(empty);
    }
  });

  test('size is a positive integer, the others finite numbers', () => {
    const x = draw(12, 1);
    const shape = [3, 4];
    const failure = (code: string) => expect.objectContaining({ name: 'NormError', code, op });
    for (const size of [0, -1, 1.5, NaN, Infinity, -Infinity]) {
      expect(() => sn.localResponseNorm(x, { shape, size })).toThrow(failure('ERR_RANGE'));
    }
    for (const size of [undefined, null, '5', [5], true]) {
      expect(() => sn.localResponseNorm(x, { shape, size } as never)).toThrow(failure('ERR_TYPE'));
    }
    for (const name of ['alpha', 'beta', 'k']) {
      for (const value of [NaN, Infinity, -Infinity]) {
        expect(() => sn.localResponseNorm(x, { shape, size: 3, [name]: value })).toThrow(failure('ERR_RANGE'));
      }
      expect(() => sn.localResponseNorm(x, { shape, size: 3, [name]: '1' } as never)).toThrow(failure('ERR_TYPE'));
    }
    for (const options of [{ scale: [1, 2, 3, 4] }, { epsilon: 1 }, { axes: 1 }]) {
      const given = { shape, size: 3, ...options } as never;
      expect(() => sn.localResponseNorm(x, given)).toThrow(failure('ERR_TYPE'));
    }
  });
});

describe('alpha, beta and k', () => {
  const shape = [2, 9, 5];
  const x = draw(90, 1);
  const all = betas.flatMap((beta) => [0, 1e-4, 0.5, 3, 1e4].map((alpha) => ({ beta, alpha })));

  test.each(all)('beta $beta with alpha $alpha is right for every k', ({ beta, alpha }) => {
    for (const k of [0, 1e-3, 1, 2, 1000]) {
      if (alpha === 0 && k === 0) continue;
      for (const size of [1, 4, 5]) {
        const given = { shape, size, alpha, beta, k };
        expectLocalResponseNorm(sn.localResponseNorm(x, given), x, given);
      }
    }
  });

  test('beta 0 and, with k 1, alpha 0 give x to the bit', () => {
    for (const size of [1, 4, 5]) {
      expectBits({ op, shape }, sn.localResponseNorm(x, { shape, size, beta: 0, alpha: 3, k: 7 }), x);
      expectBits({ op, shape }, sn.localResponseNorm(x, { shape, size, alpha: 0 }), x);
    }
  });

  test('alpha 1e-4, beta 0.75 and k 1 are the defaults', () => {
    const expected = sn.localResponseNorm(x, { shape, size: 5, alpha: 1e-4, beta: 0.75, k: 1 });
    for (const absent of [undefined, null as never]) {
      const given: LocalResponseNormOptions = { shape, size: 5, alpha: absent, beta: absent, k: absent };
      expectBits({ op, shape }, sn.localResponseNorm(x, given), expected);
    }
    expectBits({ op, shape }, sn.localResponseNorm(x, { shape, size: 5 }), expected);
    for (const other of [{ alpha: 1e-3 }, { beta: 0.7 }, { k: 2 }, { size: 50 }]) {
      expect([...sn.localResponseNorm(x, { shape, size: 5, ...other })]).not.toEqual([...expected]);
    }
  });

  test('negative alpha and k are in the formula like others', () => {
    const given = { shape: [2, 1], size: 1, alpha: -1, k: 3 };
    const y = (beta: number) => sn.localResponseNorm(row(1, 2), { ...given, beta });
    // 3 - 1 is 2, and 3 - 4 is -1.
    expectNear({ op, ...given }, y(1), [0.5, -2], promise);
    expectNear({ op, ...given }, y(2), [0.25, 2], promise);
    expectNear({ op, ...given }, y(0.5), [Math.SQRT1_2, NaN], promise);
    expectNear({ op, ...given }, y(0.75), [2 ** -0.75, NaN], promise);
    const below = sn.localResponseNorm(row(1, 2), { ...given, alpha: 2, k: -1, beta: 1 });
    expectNear({ op, ...given }, below, [1, 2 / 7], promise);
  });
});

describe('memory', () => {
  const values = draw(120, 1);

  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      test(`subarrays at ${offset} floats${shared ? ' of shared memory' : ''} give the same bits`, () => {
        for (const { shape, axis } of [
          { shape: [2, 12, 5], axis: 1 },
          { shape: [2, 5, 12], axis: 2 },
          { shape: [12, 10], axis: 0 },
        ]) {
          for (const size of [2, 5]) {
            const given = { shape, axis, size, alpha: 1 };
            const expected = sn.localResponseNorm(values, given);
            const x = place(values, offset, shared);
            const out = placeOut(120, (offset + 3) % 4, shared);
            expect(sn.localResponseNorm(x.values, { ...given, out: out.values })).toBe(out.values);
            expectBits({ op, shape, data: `offset ${offset}` }, out.values, expected);
            expectBits({ op, shape, output: 'x' }, x.values, values);
            expect(sn.localResponseNorm(x.values, { ...given, out: x.values })).toBe(x.values);
            expectBits({ op, shape, data: `in place, offset ${offset}` }, x.values, expected);
            expect(x.intact() && out.intact()).toBe(true);
          }
        }
      });
    }
  }

  test('without out y is a new array', () => {
    const x = Float32Array.from(values);
    const y = sn.localResponseNorm(x, { shape: [10, 12], size: 3 });
    expect(y).not.toBe(x);
    expect(y.buffer.byteLength).toBe(480);
    expectBits({ op, shape: [10, 12], output: 'x' }, x, values);
    expect(sn.localResponseNorm(x, { shape: [10, 12], size: 3, out: null as never })).not.toBe(y);
  });

  test('another view of x, and resizable buffers, may be out', () => {
    const given = { shape: [10, 12], size: 3, alpha: 1 };
    const expected = sn.localResponseNorm(values, given);
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.localResponseNorm(x, { ...given, out })).toBe(out);
    expectBits({ op, ...given }, x, expected);
    const resizable = new Float32Array(resizableBuffer(480, 960));
    expectBits({ op, ...given }, sn.localResponseNorm(values, { ...given, out: resizable }), expected);
  });
});

describe('accuracy', () => {
  test.each([1e-38, 1e-30, 1e-20, 1e-3, 1e3, 1e10, 1e20, 1e30, 3e37])('data of size %f keep the promise', (size) => {
    for (const { shape, axis } of [
      { shape: [2, 9, 5], axis: 1 },
      { shape: [2, 9, 20], axis: 1 },
      { shape: [3, 40], axis: 1 },
    ]) {
      const x = draw(product(shape), 1, 0.4 * size, size);
      for (const beta of betas) {
        for (const k of [0, 1]) {
          for (const window of [2, 5]) {
            for (const alpha of [1e-4, 1]) {
              const given = { shape, axis, size: window, alpha, beta, k };
              expectLocalResponseNorm(sn.localResponseNorm(x, given), x, given);
            }
          }
        }
      }
    }
  });

  // A running sum would lose what was small beside what has left the window.
  test.each([1e4, 1e10, 1e30, 3e38])('a value of %f is forgotten where the window leaves it', (large) => {
    for (const { shape, axis } of [
      { shape: [1, 40], axis: 1 },
      { shape: [1, 40, 17], axis: 1 },
    ]) {
      const places = product(shape) / 40;
      for (const at of [0, 5, 39]) {
        const x = draw(product(shape), 1).map((value, i) => (Math.floor(i / places) === at ? large : value));
        for (const size of [2, 5, 8]) {
          const given = { shape, axis, size, alpha: 1 };
          expectLocalResponseNorm(sn.localResponseNorm(x, given), x, given);
        }
      }
    }
  });

  test('long windows keep the promise', () => {
    for (const value of [0.1, 1 / 3, 1000.1]) {
      const x = new Float32Array(4000).fill(value);
      for (const size of [1000, 4001, 8001]) {
        const given = { shape: [1, 4000], size, alpha: 100, beta: 1, k: 0 };
        expectLocalResponseNorm(sn.localResponseNorm(x, given), x, given);
      }
    }
  });

  test.each([
    { shape: [4, 64, 28, 28], axis: 1 },
    { shape: [4, 28, 28, 64], axis: 3 },
  ])('$shape by axis $axis at odd offsets keeps the promise', ({ shape, axis }) => {
    const values = draw(product(shape), 9, 0, 20);
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    const given = { shape, axis, size: 5, alpha: 1e-2 };
    sn.localResponseNorm(x.values, { ...given, out: out.values });
    expectLocalResponseNorm(out.values, values, given);
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });
});

describe('edge cases', () => {
  const y = (x: Float32Array, given: Omit<Given, 'shape'>) => [
    ...sn.localResponseNorm(x, { ...given, shape: [1, x.length] }),
  ];

  test('zeros stay zeros, and with k 0 they are 0/0', () => {
    const zeros = new Float32Array(20);
    expect(y(zeros, { size: 5 }).every((value) => value === 0)).toBe(true);
    expect(y(zeros, { size: 5, k: 0 })).toEqual(Array.from(zeros, () => NaN));
    // 0 to the power of 0 is 1, and to the power of 0.5 it is 0.
    for (const beta of [0, -0.5]) {
      expect(y(zeros, { size: 5, k: 0, beta }).every((value) => value === 0)).toBe(true);
    }
    const x = row(0, 0, 0, 3, 0, 0, 0);
    const expected = [NaN, NaN, 0, 1 / 3, 0, NaN, NaN];
    expectNear({ op, shape: [1, 7] }, row(...y(x, { size: 3, alpha: 3, beta: 1, k: 0 })), expected, promise);
  });

  test('NaN and infinity reach the windows that they are in, and no others', () => {
    const infinite = Infinity;
    for (const size of [1, 2, 3, 5, 6]) {
      const inWindow = (c: number) => 10 >= c - Math.floor((size - 1) / 2) && 10 <= c + Math.ceil((size - 1) / 2);
      for (const places of [1, 3, 17]) {
        const shape = [2, 21, places];
        const x = draw(product(shape), 1);
        for (const bad of [NaN, infinite, -infinite]) {
          for (const beta of [0.75, 1, -0.5]) {
            const given = { shape, size, alpha: 1, beta };
            const clean = sn.localResponseNorm(x, given);
            // In the second item, on the last place.
            const at = (21 + 10) * places + places - 1;
            const got = sn.localResponseNorm(x.with(at, bad), given);
            const expected = clean.map((value, i) => {
              const channel = Math.floor(i / places) - 21;
              if (i % places !== places - 1 || !inWindow(channel)) return value;
              if (Number.isNaN(bad)) return NaN;
              if (i === at) return beta > 0 ? NaN : bad;
              return (x[i] as number) * (beta > 0 ? 0 : infinite);
            });
            expectBits({ op, shape, data: `${bad}, size ${size}, beta ${beta}` }, got, expected);
          }
        }
      }
    }
  });

  test('with beta 0 NaN and infinity are what they were', () => {
    const x = row(1, NaN, 2, Infinity, 3, -Infinity, 4);
    expectBits({ op, shape: [1, 7] }, y(x, { size: 3, beta: 0 }), x);
  });

  test('values computed by hand', () => {
    const x = row(1, 2, 3, 4);
    const expectValues = (size: number, expected: number[]) => {
      // alpha / size is 1.
      const got = row(...y(x, { size, alpha: size, beta: 1, k: 1 }));
      expectNear({ op, shape: [1, 4], data: `size ${size}` }, got, expected, promise);
    };
    expectValues(1, [1 / 2, 2 / 5, 3 / 10, 4 / 17]);
    expectValues(2, [1 / 6, 2 / 14, 3 / 26, 4 / 17]);
    expectValues(3, [1 / 6, 2 / 15, 3 / 30, 4 / 26]);
    expectValues(4, [1 / 15, 2 / 31, 3 / 30, 4 / 26]);
    expectValues(7, [1 / 31, 2 / 31, 3 / 31, 4 / 31]);
    // 15 + 1 is 16, whose powers are exact.
    const sixteen = row(Math.fround(Math.sqrt(15)));
    for (const beta of [0.25, 0.5, 0.75, 1.25, -0.5]) {
      const got = row(...y(sixteen, { size: 1, alpha: 1, beta, k: 1 }));
      const expected = [Math.sqrt(15) / 16 ** beta];
      expectNear({ op, shape: [1, 1], data: `beta ${beta}` }, got, expected, promise + 2 * machineEpsilon);
    }
    // Of five zeros and one value, alpha is divided by the window, not by what is inside of x.
    const alone = row(...y(row(3), { size: 9, alpha: 9, beta: 1, k: 0 }));
    expectNear({ op, shape: [1, 1] }, alone, [1 / 3], promise);
  });
});

describe('relations', () => {
  test('each place is the same alone and among others, to the bit', () => {
    for (const { shape, axis } of layouts) {
      const after = product(shape.slice(axis + 1));
      const channels = shape[axis] as number;
      const x = draw(product(shape), 1);
      for (const size of [4, 5]) {
        const together = sn.localResponseNorm(x, { shape, axis, size, alpha: 1, beta: 1.3 });
        const inLastPlace = (i: number) =>
          i % after === after - 1 && Math.floor(i / after / channels) === x.length / after / channels - 1;
        const last = (values: Float32Array) => values.filter((_, i) => inLastPlace(i));
        const alone = sn.localResponseNorm(last(x), { shape: [1, channels], size, alpha: 1, beta: 1.3 });
        expectBits({ op, shape, data: `size ${size}` }, alone, last(together));
      }
    }
  });

  test('a window over all channels with k 0 is the 2-norm', () => {
    const x = draw(60, 1);
    const given = { shape: [5, 12], size: 24, alpha: 24, beta: 0.5, k: 0 };
    const normalized = sn.lpNormalize(x, { shape: [5, 12], epsilon: 0 });
    expectNear({ op, ...given }, sn.localResponseNorm(x, given), normalized, 2 * promise);
  });
});
