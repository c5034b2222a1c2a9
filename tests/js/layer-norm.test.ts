import { type LayerNormOptions, load, type Simdnorm, type Tensor, type Vector } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, drawScale, kinds, place, placeOut, product, resizableBuffer } from './data.ts';
import * as reference from './reference.ts';
import { affinePromise, expectBits, expectNear, invStdPromise, machineEpsilon, promise } from './reference.ts';
import { changes, expectInvariance, type Input, summedInputs, type Weight } from './table-1.ts';

const op = 'layerNorm';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Expected extends reference.Parameters {
  readonly shape: readonly number[];
  readonly trailing?: number;
  readonly data?: string;
}

function expectLayerNorm(got: Float32Array, x: Float32Array, expected: Expected): void {
  const { y, magnitude } = reference.layerNorm(x, expected.shape, expected.trailing ?? 1, expected);
  const bound = expected.scale || expected.bias ? affinePromise : promise;
  expectNear({ op, ...expected }, got, y, bound, magnitude);
}

describe('shapes and axes', () => {
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

  test.each(shapes.map((shape) => ({ shape })))('$shape over every run of last axes', ({ shape }) => {
    const x = draw(product(shape), shape.length);
    const rank = shape.length;
    expectLayerNorm(sn.layerNorm(x, { shape }), x, { shape });
    for (let trailing = 1; trailing <= rank; ++trailing) {
      const units = product(shape.slice(rank - trailing));
      const scale = drawScale(units, 3);
      const bias = draw(units, 4);
      const axes = shape.map((_, axis) => axis).slice(rank - trailing);
      const fromTheEnd = axes.map((axis) => axis - rank);
      const expected = { shape, trailing, scale, bias };
      const y = sn.layerNorm(x, { shape, axes, scale, bias });
      expectLayerNorm(y, x, expected);
      expectBits({ op, shape }, sn.layerNorm(x, { shape, axes: fromTheEnd, scale, bias }), y);
      if (trailing > 1) continue;
      for (const one of [undefined, null, -1, rank - 1] as number[]) {
        expectBits({ op, shape }, sn.layerNorm(x, { shape, axes: one, scale, bias }), y);
      }
    }
  });

  test('without a shape x is one row', () => {
    const x = draw(50, 1);
    const shape = [50];
    expectLayerNorm(sn.layerNorm(x), x, { shape });
    expectBits({ op, shape }, sn.layerNorm(x, {}), sn.layerNorm(x, { shape }));
    expectBits({ op, shape }, sn.layerNorm(x, null as never), sn.layerNorm(x, { shape }));
    expectBits({ op, shape }, sn.layerNorm(x, { shape: null as never }), sn.layerNorm(x, { shape }));
  });

  test('every length from 1 to 140, and around the block of 1024', () => {
    const lengths = Array.from({ length: 140 }, (_, i) => i + 1);
    for (const units of [...lengths, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097]) {
      const shape = [2, units];
      const x = draw(2 * units, units);
      expectLayerNorm(sn.layerNorm(x, { shape }), x, { shape });
    }
  });

  test('no axes: nothing is reduced, and bias is left', () => {
    const x = draw(6, 1);
    expect([...sn.layerNorm(x, { shape: [2, 3], axes: [] })]).toEqual([0, 0, 0, 0, 0, 0]);
    expect([...sn.layerNorm(x, { shape: [2, 3], axes: [], bias: [7], scale: [3] })]).toEqual([7, 7, 7, 7, 7, 7]);
    expect([...sn.layerNorm(draw(1, 1), { shape: [], axes: [], bias: [7] })]).toEqual([7]);
  });

  test('0 rows give an empty result', () => {
    const empty = new Float32Array(0);
    for (const [shape, axes] of [
      [[0, 3], [1]],
      [[4, 0, 3], [2]],
      [
        [0, 3, 2],
        [1, 2],
      ],
      [
        [0, 65536, 65536],
        [1, 2],
      ],
    ] as const) {
      const y = sn.layerNorm(empty, { shape, axes });
      expect(y).toBeInstanceOf(Float32Array);
      expect(y).toHaveLength(0);
      const meanOut = new Float32Array(0);
      expect(sn.layerNorm(empty, { shape, axes, out: empty, meanOut })).toBe(empty);
    }
    const scaled = { shape: [0, 3], scale: [1, 2, 3], bias: new Float32Array(3) };
    expect(sn.layerNorm(empty, scaled)).toHaveLength(0);
  });

  test('empty arrays overlap nothing, wherever they lie', () => {
    const memory = draw(10, 1);
    const out = memory.subarray(5, 5);
    const options = { shape: [0, 4], scale: memory.subarray(3, 7), out };
    expect(sn.layerNorm(memory.subarray(0, 0), options)).toBe(out);
  });
});

describe('scale and bias', () => {
  const shape = [3, 21];
  const x = draw(63, 1);
  const scaleValues = drawScale(21, 2);
  const biasValues = draw(21, 3);
  const absent = [...kinds, ['left out', () => undefined]] as typeof kinds;
  const pairs = absent.flatMap(([scaleKind, makeScale]) =>
    absent.map(([biasKind, makeBias]) => ({ scaleKind, biasKind, makeScale, makeBias })),
  );

  test.each(pairs)('scale $scaleKind, bias $biasKind', ({ scaleKind, biasKind, makeScale, makeBias }) => {
    const scale = makeScale(scaleValues) as Exclude<Vector, Tensor> | undefined;
    const bias = makeBias(biasValues) as Exclude<Vector, Tensor> | undefined;
    const options: LayerNormOptions = { shape };
    if (scaleKind !== 'left out') options.scale = scale;
    if (biasKind !== 'left out') options.bias = bias;
    const y = sn.layerNorm(x, options);
    expectLayerNorm(y, x, { shape, scale, bias });
    const asFloats: LayerNormOptions = { shape };
    if (scale) asFloats.scale = scaleValues;
    if (bias) asFloats.bias = biasValues;
    expectBits({ op, shape }, y, sn.layerNorm(x, asFloats));
  });

  test('doubles are rounded to float32, as in a Float32Array', () => {
    const third = Array.from({ length: 21 }, (_, i) => (i + 1) / 3);
    const expected = sn.layerNorm(x, { shape, scale: Float32Array.from(third), bias: Float32Array.from(third) });
    const options = { shape, scale: third, bias: Float64Array.from(third) };
    expectBits({ op, shape }, sn.layerNorm(x, options), expected);
  });

  test('the same array as scale and bias gives what copies give, and is left alone', () => {
    const same = Float32Array.from(scaleValues);
    const y = sn.layerNorm(x, { shape, scale: same, bias: same });
    expectBits({ op, shape }, y, sn.layerNorm(x, { shape, scale: scaleValues, bias: Array.from(scaleValues) }));
    expect(same).toEqual(scaleValues);
  });

  test('parts of x as scale and bias', () => {
    const y = sn.layerNorm(x, { shape, scale: x.subarray(0, 21), bias: x.subarray(5, 26) });
    expectLayerNorm(y, x, { shape, scale: x.slice(0, 21), bias: x.slice(5, 26) });
  });

  test('they do something', () => {
    const plain = [...sn.layerNorm(x, { shape })];
    expect([...sn.layerNorm(x, { shape, scale: scaleValues })]).not.toEqual(plain);
    expect([...sn.layerNorm(x, { shape, bias: biasValues })]).not.toEqual(plain);
    expect([...sn.layerNorm(x, { shape, epsilon: 1 })]).not.toEqual(plain);
  });
});

describe('memory', () => {
  const shape = [3, 37];
  const values = draw(111, 1);
  const scale = drawScale(37, 2);
  const bias = draw(37, 3);
  const options = { shape, scale, bias };
  const expectY = (got: Float32Array, data: string) => {
    expectLayerNorm(got, values, { ...options, data });
    expectBits({ op, shape, data }, got, sn.layerNorm(values, options));
  };

  test('without out: a new array, x untouched', () => {
    const x = Float32Array.from(values);
    const y = sn.layerNorm(x, options);
    expectY(y, 'new');
    expect(x).toEqual(values);
    expect(y.buffer.byteLength).toBe(y.byteLength);
    expect(sn.layerNorm(x, { ...options, out: undefined })).not.toBe(y);
    expect(sn.layerNorm(x, { ...options, out: null as never })).toEqual(y);
  });

  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      test(`subarrays at ${offset} floats${shared ? ' of shared memory' : ''}`, () => {
        const x = place(values, offset, shared);
        const placedScale = place(scale, (offset + 1) % 4, shared);
        const placedBias = place(bias, (offset + 2) % 4, shared);
        const out = placeOut(111, (offset + 3) % 4, shared);
        const meanOut = placeOut(3, offset, shared);
        const invStdOut = placeOut(3, offset, shared);
        const placed = [x, placedScale, placedBias, out, meanOut, invStdOut];
        const given = {
          shape,
          scale: placedScale.values,
          bias: placedBias.values,
          meanOut: meanOut.values,
          invStdOut: invStdOut.values,
        };
        expect(sn.layerNorm(x.values, { ...given, out: out.values })).toBe(out.values);
        expectY(out.values, `offset ${offset}`);
        expect([...x.values]).toEqual([...values]);
        expect(sn.layerNorm(x.values, { ...given, out: x.values })).toBe(x.values);
        expectY(x.values, `in place, offset ${offset}`);
        expect(placed.map((each) => each.intact())).not.toContain(false);
        expect([...placedScale.values]).toEqual([...scale]);
        expect([...placedBias.values]).toEqual([...bias]);
        if (shared) {
          expect(sn.layerNorm(place(values, offset, true).values, options).buffer).toBeInstanceOf(ArrayBuffer);
        }
      });
    }
  }

  test('another view of x as out', () => {
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.layerNorm(x, { ...options, out })).toBe(out);
    expectY(x, 'through another view');
  });

  test('neighbours in one buffer are no overlap', () => {
    const memory = new Float32Array(111 + 111 + 37 + 37 + 3 + 3);
    let next = 0;
    const take = (length: number) => {
      next += length;
      return memory.subarray(next - length, next);
    };
    const [x, out] = [take(111), take(111)];
    x.set(values);
    const given = { shape, scale: take(37), bias: take(37), meanOut: take(3), invStdOut: take(3), out };
    given.scale.set(scale);
    given.bias.set(bias);
    expectY(sn.layerNorm(x, given), 'neighbours');
    expectBits({ op, shape }, given.scale, scale);
    expectBits({ op, shape }, given.bias, bias);
  });

  test('arrays on resizable buffers', () => {
    const x = new Float32Array(resizableBuffer(444, 888));
    const out = new Float32Array(resizableBuffer(444, 888));
    x.set(values);
    expectY(sn.layerNorm(x, { ...options, out }), 'resizable');
  });

  test('meanOut and invStdOut, alone and together', () => {
    const expected = reference.layerNorm(values, shape, 1, { epsilon: 0.25 });
    const deviation = expected.variance.map(Math.sqrt);
    for (const names of [['meanOut'], ['invStdOut'], ['meanOut', 'invStdOut']]) {
      const statistics = Object.fromEntries(names.map((name) => [name, new Float32Array(3)]));
      sn.layerNorm(values, { shape, epsilon: 0.25, ...statistics });
      const { meanOut, invStdOut } = statistics;
      const magnitude = expected.mean.map((mean, i) => (deviation[i] as number) + Math.abs(mean));
      if (meanOut) expectNear({ op, shape, output: 'meanOut' }, meanOut, expected.mean, promise, magnitude);
      if (invStdOut) expectNear({ op, shape, output: 'invStdOut' }, invStdOut, expected.invStd, invStdPromise);
    }
  });

  test('null statistics are absent ones', () => {
    expectY(sn.layerNorm(values, { ...options, meanOut: null as never, invStdOut: undefined }), 'null');
  });
});

describe('accuracy', () => {
  const ratios = [0, 1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

  test.each(ratios.map((ratio) => ({ ratio })))('mean/std $ratio', ({ ratio }) => {
    for (const units of [4, 16, 17, 63, 128, 768, 1024, 1025, 4099]) {
      for (const deviation of [0.1, 1, 30]) {
        const shape = [2, units];
        const x = draw(2 * units, units, ratio * deviation, deviation);
        for (const epsilon of [0, 1e-5]) {
          const meanOut = new Float32Array(2);
          const invStdOut = new Float32Array(2);
          const data = `mean/std ${ratio}, deviation ${deviation}, epsilon ${epsilon}`;
          expectLayerNorm(sn.layerNorm(x, { shape, epsilon, meanOut, invStdOut }), x, { shape, epsilon, data });
          const { mean, variance, invStd } = reference.layerNorm(x, shape, 1, { epsilon });
          // 5 epsilons of deviation, and the rounding of the mean itself.
          const magnitude = mean.map((each, i) => Math.sqrt(variance[i] as number) + Math.abs(each) / 10);
          expectNear({ op, shape, data, output: 'meanOut' }, meanOut, mean, promise, magnitude);
          expectNear({ op, shape, data, output: 'invStdOut' }, invStdOut, invStd, invStdPromise);
        }
      }
    }
  });

  test('300 x 4099 at odd offsets', () => {
    const shape = [300, 4099];
    const values = draw(300 * 4099, 9, 5, 2);
    const scale = drawScale(4099, 2);
    const bias = draw(4099, 3);
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    const given = { shape, scale: place(scale, 2).values, bias: place(bias, 3).values, out: out.values };
    expectLayerNorm(sn.layerNorm(x.values, given), values, { shape, scale, bias });
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });
});

describe('edge cases', () => {
  const row = (...values: number[]) => Float32Array.from(values);

  test.each([0.1, -0.1, 1000.1, 3.3e7, 1e-40, 1e30, 0, -0])('a constant row of %f gives exactly bias', (constant) => {
    for (const units of [1, 2, 3, 5, 16, 17, 100, 768, 1025, 4099]) {
      const x = new Float32Array(units).fill(constant);
      const invStdOut = new Float32Array(1);
      const meanOut = new Float32Array(1);
      const y = sn.layerNorm(x, { meanOut, invStdOut });
      expect(y.every((value) => value === 0)).toBe(true);
      expect(meanOut[0]).toBe(x[0]);
      expectNear({ op, shape: [units], output: 'invStdOut' }, invStdOut, [1 / Math.sqrt(1e-5)], machineEpsilon);
      const bias = draw(units, 1);
      const scale = drawScale(units, 2);
      expectBits({ op, shape: [units], data: `constant ${constant}` }, sn.layerNorm(x, { bias, scale }), bias);
    }
  });

  test('epsilon 0 and no variance: 0/0', () => {
    expect([...sn.layerNorm(row(5, 5, 5), { epsilon: 0 })]).toEqual([NaN, NaN, NaN]);
    expect([...sn.layerNorm(row(5), { epsilon: 0, bias: [1] })]).toEqual([NaN]);
  });

  test.each([1e-30, 1e-20, 1, 1e20, 1e30, 1.5e38])('+-%f with epsilon 0 gives exactly +-1', (size) => {
    expect([...sn.layerNorm(row(size, -size), { epsilon: 0 })]).toEqual([1, -1]);
    expect([...sn.layerNorm(row(-size, size, -size, size), { epsilon: 0 })]).toEqual([-1, 1, -1, 1]);
    const long = Float32Array.from({ length: 1000 }, (_, i) => (i % 2 ? size : -size));
    expect(sn.layerNorm(long, { epsilon: 0 }).every((value, i) => value === (i % 2 ? 1 : -1))).toBe(true);
  });

  test('+-1e30 with the default epsilon gives +-1, +-1e-30 almost nothing', () => {
    expect([...sn.layerNorm(row(1e30, -1e30))]).toEqual([1, -1]);
    const tiny = row(1e-30, -1e-30);
    expectLayerNorm(sn.layerNorm(tiny), tiny, { shape: [2] });
    expectNear({ op, shape: [2] }, sn.layerNorm(tiny), [1e-30 / Math.sqrt(1e-5), -1e-30 / Math.sqrt(1e-5)], 1e-6);
  });

  test('rows that overflow or underflow are right, among others that do not', () => {
    const shape = [5, 40];
    const x = draw(200, 1);
    for (const [i, factor] of [1e37, 1, 1e-37, 1e25, 1e-25].entries()) {
      for (let unit = 0; unit < 40; ++unit) x[40 * i + unit] = (x[40 * i + unit] as number) * factor;
    }
    expectLayerNorm(sn.layerNorm(x, { shape, epsilon: 0 }), x, { shape, epsilon: 0 });
    expectLayerNorm(sn.layerNorm(x, { shape }), x, { shape });
  });

  test.each([NaN, Infinity, -Infinity])('%f stays in its row', (bad) => {
    for (const units of [3, 17, 1025]) {
      for (const at of [0, 1, units - 1]) {
        const shape = [3, units];
        const x = draw(3 * units, 1);
        const clean = sn.layerNorm(x, { shape });
        x[units + at] = bad;
        const meanOut = new Float32Array(3);
        const invStdOut = new Float32Array(3);
        const y = sn.layerNorm(x, { shape, meanOut, invStdOut });
        expectBits({ op, shape }, y.subarray(0, units), clean.subarray(0, units));
        expectBits({ op, shape }, y.subarray(2 * units), clean.subarray(2 * units));
        expect(Number.isFinite(meanOut[1])).toBe(false);
        expect(invStdOut[1]).toBeNaN();
        expect(y[units + at]).toBeNaN();
        expect([...meanOut, ...invStdOut].filter(Number.isFinite)).toHaveLength(4);
      }
    }
  });

  test('[40000, 40001, 40002, 40003]', () => {
    const expected = [-1.3416354, -0.4472118, 0.4472118, 1.3416354];
    expectNear({ op, shape: [4] }, sn.layerNorm(row(40000, 40001, 40002, 40003)), expected, promise, [2, 1, 1, 2]);
  });

  test('16 values 10000 + i * 1e-3, and 4096 values 1e7 + i % 5', () => {
    for (const x of [
      Float32Array.from({ length: 16 }, (_, i) => 10000 + i * 1e-3),
      Float32Array.from({ length: 4096 }, (_, i) => 1e7 + (i % 5)),
    ]) {
      expectLayerNorm(sn.layerNorm(x), x, { shape: [x.length] });
    }
  });

  test('epsilon is inside the root', () => {
    const y = sn.layerNorm(row(0, 0.002), { epsilon: 1e-5 });
    expectNear({ op, shape: [2] }, y, [-0.30151134, 0.30151134], promise, [1, 1]);
  });

  test('the default epsilon is 1e-5, and null or undefined is the default', () => {
    const x = draw(20, 1, 0, 1e-3);
    const expected = sn.layerNorm(x, { epsilon: 1e-5 });
    for (const epsilon of [undefined, null as never])
      expectBits({ op, shape: [20] }, sn.layerNorm(x, { epsilon }), expected);
    expect([...sn.layerNorm(x, { epsilon: 1e-6 })]).not.toEqual([...expected]);
    expectLayerNorm(sn.layerNorm(x, { epsilon: 1e30 }), x, { shape: [20], epsilon: 1e30 });
    expectLayerNorm(sn.layerNorm(x, { epsilon: 1e-44 }), x, { shape: [20], epsilon: 1e-44 });
  });
});

describe('to the bit', () => {
  const shape = [4, 203];
  const x = draw(812, 1, 2, 3);

  test('scaling by powers of two, with epsilon scaled along', () => {
    const expected = sn.layerNorm(x, { shape });
    for (const k of [-30, -12, -3, -1, 1, 2, 7, 20, 40]) {
      const y = sn.layerNorm(
        x.map((value) => value * 2 ** k),
        { shape, epsilon: 1e-5 * 4 ** k },
      );
      expectBits({ op, shape, data: `2^${k} x` }, y, expected);
    }
  });

  test('negation', () => {
    const negated = sn.layerNorm(
      x.map((value) => -value),
      { shape },
    );
    expectBits(
      { op, shape, data: '-x' },
      negated,
      sn.layerNorm(x, { shape }).map((value) => -value),
    );
  });

  test.each([1, 3, 16, 203, 1024, 2500])('rows of %i alone and among others', (units) => {
    const rows = draw(7 * units, units, 100, 3);
    const together = sn.layerNorm(rows, { shape: [7, units] });
    for (let i = 0; i < 7; ++i) {
      const alone = sn.layerNorm(rows.subarray(i * units, (i + 1) * units));
      expectBits({ op, shape: [units] }, alone, together.subarray(i * units, (i + 1) * units));
    }
  });

  test('the same in every call, and with statistics wanted or not', () => {
    const expected = sn.layerNorm(x, { shape });
    expectBits({ op, shape }, sn.layerNorm(x, { shape }), expected);
    const given = { shape, meanOut: new Float32Array(4), invStdOut: new Float32Array(4) };
    expectBits({ op, shape }, sn.layerNorm(x, given), expected);
  });

  test('axes that join up are one axis', () => {
    const y = sn.layerNorm(x, { shape: [4, 7, 29], axes: [1, 2] });
    expectBits({ op, shape: [4, 7, 29] }, y, sn.layerNorm(x, { shape }));
  });
});

// Ba, Kiros, Hinton 2016, table 1. The summed inputs of a layer are a = W x; its units share a mean and variance.
describe('invariances of the paper', () => {
  const cases = 6;
  const inputs = 9;
  const units = 50;
  const weights = draw(units * inputs, 1, 0.2, 1);
  const data = draw(cases * inputs, 2, 0.5, 2);

  const normalize = (w: Weight, x: Input) =>
    sn.layerNorm(summedInputs(w, x, { cases, units, inputs }), { shape: [cases, units], epsilon: 0 });
  const w = (unit: number, input: number) => weights[unit * inputs + input] as number;
  const x = (n: number, input: number) => data[n * inputs + input] as number;

  test.each(changes(w, x))('$change, invariant: $invariant.layerNorm', ({ change, invariant, ...changed }) => {
    const after = normalize(changed.w, changed.x);
    expectInvariance({ op, shape: [cases, units], data: change }, normalize(w, x), after, invariant.layerNorm);
  });
});

test('the worst row that a search found: outliers first, then roundings that all go one way', () => {
  const pairs = [
    [32, -0.972676337, -2.97913671],
    [352, -1.97566056, -1.97615123],
    [376, -1.97541666, -1.97639513],
    [379, -1.9754169, -1.97639501],
  ] as const;
  const x = Float32Array.from({ length: 379 }, (_, i) => {
    const [, even, odd] = pairs.find(([end]) => i < end) as (typeof pairs)[number];
    return i % 2 === 0 ? even : odd;
  });
  const { y, magnitude } = reference.layerNorm(x, [379], 1, { epsilon: 0 });
  expectNear({ op, shape: [379] }, sn.layerNorm(x, { epsilon: 0 }), y, promise, magnitude);
});
