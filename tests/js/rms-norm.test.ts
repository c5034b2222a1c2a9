import { load, type RmsNormOptions, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, drawScale, kinds, place, placeOut, product, resizableBuffer } from './data.ts';
import * as reference from './reference.ts';
import { affinePromise, expectBits, expectNear, expectStatistics, promise } from './reference.ts';
import { changes, expectInvariance, type Input, summedInputs, type Weight } from './table-1.ts';

const op = 'rmsNorm';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Expected {
  readonly shape: readonly number[];
  readonly axes?: readonly number[];
  readonly scale?: ArrayLike<number> | null | undefined;
  readonly epsilon?: number;
  readonly data?: string;
}

function expectRmsNorm(got: Float32Array, x: Float32Array, expected: Expected): void {
  const { y, magnitude } = reference.rmsNorm(x, expected.shape, expected.axes ?? [-1], expected);
  expectNear({ op, ...expected }, got, y, expected.scale ? affinePromise : promise, magnitude);
}

const row = (...values: number[]) => Float32Array.from(values);

describe('shapes', () => {
  const shapes = [
    [1],
    [2],
    [7],
    [67],
    [3, 4],
    [5, 1],
    [2, 3, 5],
    [4, 128],
    [2, 1, 3, 4],
    [1, 1, 1],
    [33, 31],
    [3, 515],
  ];

  test.each(shapes.map((shape) => ({ shape })))('$shape is right over every run of last axes', ({ shape }) => {
    const x = draw(product(shape), shape.length);
    const rank = shape.length;
    expectRmsNorm(sn.rmsNorm(x, { shape }), x, { shape });
    for (let first = 0; first < rank; ++first) {
      const axes = shape.map((_, axis) => axis).slice(first);
      const scale = drawScale(product(shape.slice(first)), 3);
      const y = sn.rmsNorm(x, { shape, axes, scale });
      expectRmsNorm(y, x, { shape, axes, scale });
      const fromTheEnd = axes.map((axis) => axis - rank);
      expectBits({ op, shape }, sn.rmsNorm(x, { shape, axes: fromTheEnd, scale }), y);
    }
  });

  test('the last axis is the default', () => {
    const shape = [4, 9];
    const x = draw(36, 1);
    const expected = sn.rmsNorm(x, { shape, axes: [1] });
    for (const axes of [undefined, null as never, 1, -1, [-1]]) {
      expectBits({ op, shape }, sn.rmsNorm(x, { shape, axes }), expected);
    }
  });

  test('without a shape x is one row', () => {
    const x = draw(50, 1);
    const shape = [50];
    expectRmsNorm(sn.rmsNorm(x), x, { shape });
    for (const options of [{}, null as never, { shape: null as never }]) {
      expectBits({ op, shape }, sn.rmsNorm(x, options), sn.rmsNorm(x, { shape }));
    }
  });

  test('every length from 1 to 67 and around the multiples of blocks is right', () => {
    const lengths = Array.from({ length: 67 }, (_, i) => i + 1);
    for (const block of [384, 512, 4096]) {
      for (const multiple of [1, 2, 3]) {
        for (const by of [-17, -1, 0, 1, 17]) lengths.push(block * multiple + by);
      }
    }
    for (const units of lengths) {
      const shape = [2, units];
      const x = draw(2 * units, units);
      expectRmsNorm(sn.rmsNorm(x, { shape }), x, { shape });
      const scale = drawScale(units, 2);
      expectRmsNorm(sn.rmsNorm(x, { shape, scale }), x, { shape, scale });
    }
  });

  test('with no axes every value is divided by its own size', () => {
    const shape = [2, 3];
    const x = draw(6, 1);
    expectRmsNorm(sn.rmsNorm(x, { shape, axes: [] }), x, { shape, axes: [] });
    const given = { shape, axes: [], scale: [-3], epsilon: 0.5 };
    expectRmsNorm(sn.rmsNorm(x, given), x, given);
    const signs = x.map((value) => -3 * Math.sign(value));
    expectNear({ op, shape }, sn.rmsNorm(x, { ...given, epsilon: 0 }), signs, affinePromise);
  });

  test('0 rows give an empty result', () => {
    const empty = new Float32Array(0);
    for (const shape of [
      [0, 3],
      [4, 0, 3],
      [0, 65536, 65536],
    ]) {
      expect(sn.rmsNorm(empty, { shape })).toBeInstanceOf(Float32Array);
      expect(sn.rmsNorm(empty, { shape })).toHaveLength(0);
      expect(sn.rmsNorm(empty, { shape, out: empty, invStdOut: shape[1] === 0 ? empty : (null as never) })).toBe(empty);
    }
    expect(sn.rmsNorm(empty, { shape: [0, 3], scale: [1, 2, 3] })).toHaveLength(0);
  });

  test('an extent of 0 to normalize over is ERR_SHAPE', () => {
    const failure = expect.objectContaining({ name: 'NormError', code: 'ERR_SHAPE', op });
    expect(() => sn.rmsNorm(new Float32Array(0), { shape: [3, 0] })).toThrow(failure);
    expect(() => sn.rmsNorm(new Float32Array(0))).toThrow(failure);
  });

  test('there is no bias and no mean', () => {
    const x = draw(4, 1);
    const failure = expect.objectContaining({ code: 'ERR_TYPE', op });
    expect(() => sn.rmsNorm(x, { bias: [1, 2, 3, 4] } as never)).toThrow(failure);
    expect(() => sn.rmsNorm(x, { meanOut: new Float32Array(1) } as never)).toThrow(failure);
  });
});

describe('scale', () => {
  const shape = [3, 21];
  const x = draw(63, 1);
  const values = drawScale(21, 2);

  test.each([...kinds, ['left out', () => undefined] as const].map(([kind, make]) => ({ kind, make })))(
    'scale $kind is applied after the normalization',
    ({ kind, make }) => {
      const scale = make(values) as Float32Array | undefined;
      const options: RmsNormOptions = { shape };
      if (kind !== 'left out') options.scale = scale;
      const y = sn.rmsNorm(x, options);
      expectRmsNorm(y, x, { shape, scale });
      expectBits({ op, shape }, y, sn.rmsNorm(x, scale ? { shape, scale: values } : { shape }));
    },
  );

  test('doubles are rounded to float32, as in a Float32Array', () => {
    const third = Array.from({ length: 21 }, (_, i) => (i + 1) / 3);
    const expected = sn.rmsNorm(x, { shape, scale: Float32Array.from(third) });
    expectBits({ op, shape }, sn.rmsNorm(x, { shape, scale: third }), expected);
    expectBits({ op, shape }, sn.rmsNorm(x, { shape, scale: Float64Array.from(third) }), expected);
  });

  test('a part of x is a scale like any other', () => {
    const y = sn.rmsNorm(x, { shape, scale: x.subarray(5, 26) });
    expectBits({ op, shape }, y, sn.rmsNorm(x, { shape, scale: x.slice(5, 26) }));
    expectRmsNorm(y, x, { shape, scale: x.slice(5, 26) });
  });

  test('scale and epsilon do something', () => {
    const plain = [...sn.rmsNorm(x, { shape })];
    expect([...sn.rmsNorm(x, { shape, scale: values })]).not.toEqual(plain);
    expect([...sn.rmsNorm(x, { shape, epsilon: 1 })]).not.toEqual(plain);
  });
});

describe('memory', () => {
  const shape = [3, 37];
  const values = draw(111, 1);
  const scale = drawScale(37, 2);
  const options = { shape, scale };
  const expectY = (got: Float32Array, data: string) => {
    expectRmsNorm(got, values, { ...options, data });
    expectBits({ op, shape, data }, got, sn.rmsNorm(values, options));
  };

  test('without out y is a new array, and x is untouched', () => {
    const x = Float32Array.from(values);
    const y = sn.rmsNorm(x, options);
    expectY(y, 'new');
    expectBits({ op, shape, output: 'x' }, x, values);
    expect(y.buffer.byteLength).toBe(y.byteLength);
    expect(sn.rmsNorm(x, { ...options, out: null as never })).not.toBe(y);
  });

  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      test(`subarrays at ${offset} floats${shared ? ' of shared memory' : ''} give the same bits`, () => {
        const x = place(values, offset, shared);
        const placedScale = place(scale, (offset + 1) % 4, shared);
        const out = placeOut(111, (offset + 3) % 4, shared);
        const invStdOut = placeOut(3, (offset + 2) % 4, shared);
        const given = { shape, scale: placedScale.values, invStdOut: invStdOut.values };
        expect(sn.rmsNorm(x.values, { ...given, out: out.values })).toBe(out.values);
        expectY(out.values, `offset ${offset}`);
        expectBits({ op, shape, output: 'x' }, x.values, values);
        expect(sn.rmsNorm(x.values, { ...given, out: x.values })).toBe(x.values);
        expectY(x.values, `in place, offset ${offset}`);
        expect([x, placedScale, out, invStdOut].map((each) => each.intact())).not.toContain(false);
        expectBits({ op, shape, output: 'scale' }, placedScale.values, scale);
      });
    }
  }

  test('another view of x, and resizable buffers, may be out', () => {
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.rmsNorm(x, { ...options, out })).toBe(out);
    expectY(x, 'through another view');
    const resizable = new Float32Array(resizableBuffer(444, 888));
    expectY(sn.rmsNorm(values, { ...options, out: resizable }), 'resizable');
  });

  test('invStdOut receives 1 / sqrt(mean square + epsilon), and changes nothing else', () => {
    for (const epsilon of [0, 1e-5, 0.25]) {
      const invStdOut = new Float32Array(3);
      const y = sn.rmsNorm(values, { ...options, epsilon, invStdOut });
      expectStatistics({ op, shape }, { invStd: invStdOut }, reference.rmsNorm(values, shape, [1], { epsilon }));
      expectBits({ op, shape }, y, sn.rmsNorm(values, { ...options, epsilon }));
    }
  });
});

describe('accuracy', () => {
  test.each([0, 1, 30, 1e3, 1e5, 1e7])('mean/std %f keeps the promise', (ratio) => {
    for (const units of [4, 17, 63, 384, 768, 1025, 4099]) {
      for (const deviation of [0.1, 1, 30]) {
        const shape = [2, units];
        const x = draw(2 * units, units, ratio * deviation, deviation);
        for (const epsilon of [0, 1e-5, 3]) {
          const invStdOut = new Float32Array(2);
          const data = `mean/std ${ratio}, deviation ${deviation}, epsilon ${epsilon}`;
          expectRmsNorm(sn.rmsNorm(x, { shape, epsilon, invStdOut }), x, { shape, epsilon, data });
          const expected = reference.rmsNorm(x, shape, [1], { epsilon });
          expectStatistics({ op, shape, data }, { invStd: invStdOut }, expected);
        }
      }
    }
  });

  test.each([1e-30, 1e-20, 1e-10, 1e10, 1e20, 1e30])('data of size %f keep the promise', (size) => {
    for (const units of [3, 16, 37, 513, 4099]) {
      const shape = [2, units];
      const x = draw(2 * units, units, 0.4 * size, 3 * size);
      const scale = drawScale(units, 2);
      for (const epsilon of [0, 1e-5]) {
        const data = `size ${size}, epsilon ${epsilon}`;
        expectRmsNorm(sn.rmsNorm(x, { shape, epsilon }), x, { shape, epsilon, data });
        expectRmsNorm(sn.rmsNorm(x, { shape, epsilon, scale }), x, { shape, epsilon, scale, data });
      }
    }
  });

  // Sums of equal squares round the same way at every step.
  test.each([1 / 3, 0.1, 1.7, 1000.1, 3.3e7])('+-%f in long rows keeps the promise', (size) => {
    for (const units of [100, 511, 513, 4095, 4097, 100_000]) {
      const x = Float32Array.from({ length: units }, (_, i) => (i % 3 ? size : -size));
      for (const epsilon of [0, 1e-5]) {
        expectRmsNorm(sn.rmsNorm(x, { epsilon }), x, { shape: [units], epsilon, data: `+-${size}` });
      }
    }
  });

  test('300 x 4099 at odd offsets keeps the promise', () => {
    const shape = [300, 4099];
    const values = draw(300 * 4099, 9, 1, 2);
    const scale = drawScale(4099, 2);
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    const y = sn.rmsNorm(x.values, { shape, scale: place(scale, 2).values, out: out.values });
    expectRmsNorm(y, values, { shape, scale });
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });
});

describe('edge cases', () => {
  test('a row of 0 gives 0, and with epsilon 0 it is 0/0', () => {
    for (const units of [1, 2, 5, 17, 1025]) {
      const x = new Float32Array(units);
      const invStdOut = new Float32Array(1);
      expect(sn.rmsNorm(x, { invStdOut }).every((value) => value === 0)).toBe(true);
      expectStatistics({ op, shape: [units] }, { invStd: invStdOut }, reference.rmsNorm(x, [units], [0]));
      expect(sn.rmsNorm(x, { epsilon: 0 }).every(Number.isNaN)).toBe(true);
    }
  });

  test.each([1e-30, 1e-20, 1, 1e20, 1e30, 3e30])('+-%f with epsilon 0 gives exactly +-1', (size) => {
    expect([...sn.rmsNorm(row(size, -size), { epsilon: 0 })]).toEqual([1, -1]);
    expect([...sn.rmsNorm(row(size), { epsilon: 0 })]).toEqual([1]);
    const long = Float32Array.from({ length: 1000 }, (_, i) => (i % 3 ? size : -size));
    expect(sn.rmsNorm(long, { epsilon: 0 }).every((value, i) => value === (i % 3 ? 1 : -1))).toBe(true);
    expect([...sn.rmsNorm(row(size, -size), { epsilon: 0, scale: [5, -7] })]).toEqual([5, 7]);
  });

  test('+-3e30 with the default epsilon gives exactly +-1, and 1e-30 almost nothing', () => {
    expect([...sn.rmsNorm(row(3e30, -3e30))]).toEqual([1, -1]);
    const tiny = row(1e-30, -1e-30);
    expectRmsNorm(sn.rmsNorm(tiny), tiny, { shape: [2] });
    expectNear({ op, shape: [2] }, sn.rmsNorm(tiny), [1e-30 / Math.sqrt(1e-5), -1e-30 / Math.sqrt(1e-5)], 1e-6);
  });

  test('the largest and the smallest floats are normalized', () => {
    for (const size of [3.4e38, 1e-38, 1e-40]) {
      const x = row(size, -size, size);
      expectRmsNorm(sn.rmsNorm(x, { epsilon: 0 }), x, { shape: [3], epsilon: 0, data: `+-${size}` });
    }
  });

  test('rows that overflow or underflow are right, among others that do not', () => {
    const shape = [5, 40];
    const x = draw(200, 1);
    for (const [i, factor] of [1e37, 1, 1e-37, 1e25, 1e-25].entries()) {
      for (let unit = 0; unit < 40; ++unit) x[40 * i + unit] = (x[40 * i + unit] as number) * factor;
    }
    expectRmsNorm(sn.rmsNorm(x, { shape, epsilon: 0 }), x, { shape, epsilon: 0 });
    expectRmsNorm(sn.rmsNorm(x, { shape }), x, { shape });
  });

  test.each([NaN, Infinity, -Infinity])('%f makes its own row NaN, and no other', (bad) => {
    for (const units of [1, 3, 17, 1025]) {
      for (const at of [0, units >> 1, units - 1]) {
        const shape = [3, units];
        const x = draw(3 * units, 1);
        const clean = sn.rmsNorm(x, { shape });
        x[units + at] = bad;
        const invStdOut = new Float32Array(3);
        const y = sn.rmsNorm(x, { shape, invStdOut });
        expectBits({ op, shape }, y.subarray(0, units), clean.subarray(0, units));
        expectBits({ op, shape }, y.subarray(2 * units), clean.subarray(2 * units));
        expect(y.subarray(units, 2 * units).every(Number.isNaN)).toBe(true);
        expect([...invStdOut].map(Number.isNaN)).toEqual([false, true, false]);
      }
    }
  });

  test('the default epsilon is 1e-5, and null or undefined is the default', () => {
    const x = draw(20, 1, 0, 1e-3);
    const expected = sn.rmsNorm(x, { epsilon: 1e-5 });
    for (const epsilon of [undefined, null as never]) {
      expectBits({ op, shape: [20] }, sn.rmsNorm(x, { epsilon }), expected);
    }
    expect([...sn.rmsNorm(x, { epsilon: 1e-6 })]).not.toEqual([...expected]);
    for (const epsilon of [1e30, 1e-44]) {
      expectRmsNorm(sn.rmsNorm(x, { epsilon }), x, { shape: [20], epsilon });
    }
  });

  test('values computed by hand', () => {
    // The mean squares are 4 and (9 + 16) / 2; sqrt(3 + 1) is 2.
    expect([...sn.rmsNorm(row(2, -2, 2, -2), { epsilon: 0 })]).toEqual([1, -1, 1, -1]);
    const y = sn.rmsNorm(row(3, 4), { epsilon: 0 });
    expectNear({ op, shape: [2] }, y, [3 / Math.sqrt(12.5), 4 / Math.sqrt(12.5)], promise);
    expectNear({ op, shape: [3] }, sn.rmsNorm(row(1, 2, 2), { epsilon: 1 }), [0.5, 1, 1], promise);
    // Epsilon is inside the root: outside it the result would be 0.9901 times sqrt(2).
    const small = sn.rmsNorm(row(0, 0.002), { epsilon: 1e-5 });
    expectNear({ op, shape: [2] }, small, [0, 0.002 / Math.sqrt(2e-6 + 1e-5)], promise);
  });

  test('the mean is not subtracted', () => {
    expectNear({ op, shape: [4] }, sn.rmsNorm(row(5, 5, 5, 5), { epsilon: 0 }), [1, 1, 1, 1], promise);
  });
});

describe('to the bit', () => {
  test.each([1, 3, 16, 203, 1024, 2500])('rows of %i are the same alone and among others', (units) => {
    const rows = draw(7 * units, units, 2, 3);
    const scale = drawScale(units, 2);
    const together = sn.rmsNorm(rows, { shape: [7, units], scale });
    for (let i = 0; i < 7; ++i) {
      const alone = sn.rmsNorm(rows.subarray(i * units, (i + 1) * units), { scale });
      expectBits({ op, shape: [units] }, alone, together.subarray(i * units, (i + 1) * units));
    }
  });

  test('axes that join up are one axis', () => {
    const x = draw(812, 1, 2, 3);
    const y = sn.rmsNorm(x, { shape: [4, 7, 29], axes: [1, 2] });
    expectBits({ op, shape: [4, 7, 29] }, y, sn.rmsNorm(x, { shape: [4, 203] }));
  });
});

// Ba, Kiros, Hinton 2016, table 1, with the row that Zhang and Sennrich 2019, table 1, add to it.
describe('invariances of the paper', () => {
  const cases = 6;
  const inputs = 9;
  const units = 50;
  const weights = draw(units * inputs, 1, 0.2, 1);
  const data = draw(cases * inputs, 2, 0.5, 2);
  const w = (unit: number, input: number) => weights[unit * inputs + input] as number;
  const x = (n: number, input: number) => data[n * inputs + input] as number;
  const invariant = ['weight matrix re-scaling', 'dataset re-scaling', 'single case re-scaling'];
  const normalize = (w: Weight, x: Input) =>
    sn.rmsNorm(summedInputs(w, x, { cases, units, inputs }), { shape: [cases, units], epsilon: 0 });

  test.each(changes(w, x))('$change changes what the paper says it does', ({ change, ...changed }) => {
    const after = normalize(changed.w, changed.x);
    expectInvariance({ op, shape: [cases, units], data: change }, normalize(w, x), after, invariant.includes(change));
  });
});
