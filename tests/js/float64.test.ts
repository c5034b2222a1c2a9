import { type ErrorCode, load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { canary, product, Random } from './data.ts';
import * as decimal from './decimal-reference.ts';
import { affinePromise, exact, expectBits, expectNear, expectStatistics, promise } from './decimal-reference.ts';
import type { Case, Shape } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

/** With all of their 53 bits, and not of unit variance. */
function draw(length: number, seed: number, mean = 0.4, deviation = 3): Float64Array<ArrayBuffer> {
  const random = new Random(seed);
  return Float64Array.from({ length }, () => mean + deviation * random.bell());
}

/** Factors away from 0, of both signs. */
function drawScale(length: number, seed: number): Float64Array<ArrayBuffer> {
  return draw(length, seed, 0, 1).map((value) => value + Math.sign(value) * 0.5);
}

function drawVariance(length: number, seed: number): Float64Array<ArrayBuffer> {
  return draw(length, seed, 0, 2).map((value) => value * value + 0.1);
}

interface Parameters {
  readonly scale?: Float64Array | undefined;
  readonly bias?: Float64Array | undefined;
  readonly epsilon?: number | undefined;
}

interface Results {
  readonly y: Float64Array;
  readonly mean?: Float64Array;
  readonly variance?: Float64Array;
  readonly invStd?: Float64Array;
}

/** An operation whose groups have statistics, with a shape and axes, and how the reference computes it. */
interface Operation {
  readonly op: string;
  readonly shape: Shape;
  readonly data: string;
  readonly parameters: number;
  readonly hasMean: boolean;
  readonly run: (x: Float64Array, parameters?: Parameters & { out?: Float64Array }) => Results;
  readonly expected: (x: Float64Array, parameters?: Parameters) => decimal.Reference;
}

const operations: Operation[] = [];

function addOverAxes(shape: Shape, axes: readonly number[]): void {
  const units = product(axes.map((axis) => shape[axis] as number));
  const groups = product(shape) / units;
  const common = { shape, data: `over [${axes}]`, parameters: units };
  operations.push({
    op: 'layerNorm',
    ...common,
    hasMean: true,
    run: (x, parameters) => {
      const [mean, invStd] = [new Float64Array(groups), new Float64Array(groups)];
      const y = sn.layerNorm(x, { shape, axes, ...parameters, meanOut: mean, invStdOut: invStd });
      return { y, mean, invStd };
    },
    expected: (x, parameters) => decimal.layerNorm(x, shape, axes, parameters),
  });
  operations.push({
    op: 'rmsNorm',
    ...common,
    hasMean: false,
    run: (x, { bias: _, ...parameters } = {}) => {
      const invStd = new Float64Array(groups);
      return { y: sn.rmsNorm(x, { shape, axes, ...parameters, invStdOut: invStd }), invStd };
    },
    expected: (x, { bias: _, ...parameters } = {}) => decimal.rmsNorm(x, shape, axes, parameters),
  });
}

function addByChannel(shape: Shape, axis: number, groupCounts: readonly number[]): void {
  const channels = shape[axis] as number;
  const common = { shape, parameters: channels, hasMean: true };
  const save = (groups: number) => ({ meanOut: new Float64Array(groups), invStdOut: new Float64Array(groups) });
  operations.push({
    op: 'batchNormTraining',
    ...common,
    data: `axis ${axis}`,
    run: (x, parameters) => sn.batchNormTraining(x, { shape, axis, ...parameters }),
    expected: (x, parameters) => decimal.batchNormTraining(x, shape, axis, parameters),
  });
  if (axis === 0) return;
  operations.push({
    op: 'instanceNorm',
    ...common,
    data: `axis ${axis}`,
    run: (x, parameters) => {
      const saved = save((shape[0] as number) * channels);
      const y = sn.instanceNorm(x, { shape, axis, ...parameters, ...saved });
      return { y, mean: saved.meanOut, invStd: saved.invStdOut };
    },
    expected: (x, parameters) => decimal.instanceNorm(x, shape, axis, parameters),
  });
  for (const groups of groupCounts) {
    operations.push({
      op: 'groupNorm',
      ...common,
      data: `axis ${axis}, ${groups} groups`,
      run: (x, parameters) => {
        const saved = save((shape[0] as number) * groups);
        const y = sn.groupNorm(x, { shape, axis, groups, ...parameters, ...saved });
        return { y, mean: saved.meanOut, invStd: saved.invStdOut };
      },
      expected: (x, parameters) => decimal.groupNorm(x, shape, axis, groups, parameters),
    });
  }
}

// Rows, runs that join up, and columns of several widths: groups that lie across the memory.
addOverAxes([67], [0]);
addOverAxes([5, 1], [1]);
addOverAxes([3, 37], [1]);
addOverAxes([2, 130], [1]);
addOverAxes([1, 515], [1]);
addOverAxes([3, 4, 11], [1, 2]);
for (const width of [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 65]) addOverAxes([9, width], [0]);
addOverAxes([67, 6], [0]);
addOverAxes([3, 8, 7], [1]);
addOverAxes([2, 9, 33], [1]);
addOverAxes([4, 5, 6], [2, 1]);
addOverAxes([4, 5, 6], [0, 2]);
addOverAxes([3, 4, 2, 5], [3, 1]);
addOverAxes([3, 4, 2, 5], [2, 0]);
addOverAxes([3, 4, 2, 5], [1, 2]);
addByChannel([40, 3], 1, []);
addByChannel([9, 65], 1, [5, 13]);
addByChannel([3, 50], 0, []);
addByChannel([2, 6, 5], 1, [1, 3, 6]);
addByChannel([2, 4, 1, 67], 1, [2]);
addByChannel([2, 3, 5, 8], 3, [1, 4]);
addByChannel([2, 5, 6, 3], 2, [2, 6]);
addByChannel([3, 4, 33], 0, []);

function expectPromised(
  operation: Operation,
  got: Results,
  expected: decimal.Reference,
  data: string,
  parameters: Parameters = {},
): void {
  const what: Case = { op: operation.op, shape: operation.shape, data: `${operation.data}, ${data}` };
  const bound = parameters.scale || parameters.bias ? affinePromise : promise;
  expectNear(what, got.y, expected.y, bound, expected.magnitude);
  const { y, ...statistics } = got;
  for (const values of [y, ...Object.values(statistics)]) {
    if (values !== undefined && typeof values === 'object') expect(values).toBeInstanceOf(Float64Array);
  }
  expectStatistics(what, got, expected);
}

describe('the reference', () => {
  test("takes a double for what it is, not for the shortest decimal that's rounded to it", () => {
    expect(exact(0.1).toString()).toBe('0.1000000000000000055511151231257827021181583404541');
    expect(exact(-3).toString()).toBe('-3');
    expect(exact(2 ** 53 + 2).toString()).toBe('9007199254740994');
    expect(exact(5e-324).toPrecision(30)).toBe('4.94065645841246544176568792868e-324');
    expect(exact(1.7976931348623157e308).toPrecision(30)).toBe('1.79769313486231570814527423732e+308');
    for (const value of draw(100, 1)) expect(exact(value).toNumber()).toBe(value);
    for (const value of [-0, Infinity, -Infinity, NaN, 1e-310, 1e300]) expect(exact(value).toNumber()).toBe(value);
  });

  test('knows what others have computed', () => {
    const rounded = (values: readonly { toFixed(digits: number): string }[], digits: number) =>
      values.map((value) => value.toFixed(digits));
    const far = decimal.layerNorm([40000, 40001, 40002, 40003], [4], [0]);
    expect(rounded(far.y, 7)).toEqual(['-1.3416354', '-0.4472118', '0.4472118', '1.3416354']);
    expect(rounded(decimal.layerNorm([0, 0.002], [2], [0]).y, 5)).toEqual(['-0.30151', '0.30151']);
    expect(rounded(decimal.rmsNorm([3, 4], [2], [0], { epsilon: 0 }).y, 4)).toEqual(['0.8485', '1.1314']);
    expect(rounded(decimal.lpNormalize([3, 4], [2], [0]).y, 4)).toEqual(['0.6000', '0.8000']);
    const x = [2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1];
    const { variance } = decimal.batchNormTraining(x, [3, 4], 1);
    const unbiased = variance.map((each) => each.times(3).div(2));
    expect(rounded(unbiased, 4)).toEqual(['12.0000', '109.0000', '5.3333', '1.3333']);
  });
});

describe('keeps its promise', () => {
  test.each(operations)('$op $shape $data', (operation) => {
    const x = draw(product(operation.shape), 1);
    const before = x.slice();
    const scale = drawScale(operation.parameters, 2);
    const bias = draw(operation.parameters, 3);
    for (const parameters of [{}, { scale }, { bias }, { scale, bias }, { scale, bias, epsilon: 0.1 }]) {
      const data = Object.keys(parameters).join();
      const got = operation.run(x, parameters);
      expectPromised(operation, got, operation.expected(x, parameters), data, parameters);
      expectBits({ ...operation, output: 'x' }, x, before);
      const inPlace = x.slice();
      expect(operation.run(inPlace, { ...parameters, out: inPlace }).y).toBe(inPlace);
      expectBits({ ...operation, data: 'in place' }, inPlace, got.y);
    }
  });

  test('every length from 1 to 67, and around powers of two', () => {
    const lengths = Array.from({ length: 67 }, (_, i) => i + 1);
    for (const units of [...lengths, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025]) {
      const shape = [2, units];
      const x = draw(2 * units, units, 5, 2);
      const layer = decimal.layerNorm(x, shape, [1]);
      expectNear({ op: 'layerNorm', shape }, sn.layerNorm(x, { shape }), layer.y, promise, layer.magnitude);
      const columns = decimal.layerNorm(x, [units, 2], [0]);
      const across = sn.layerNorm(x, { shape: [units, 2], axes: 0 });
      expectNear({ op: 'layerNorm', shape: [units, 2] }, across, columns.y, promise, columns.magnitude);
    }
  });

  const ratios = [0, 1, 1e2, 1e5, 1e7, 1e10, 1e13, 1e15];
  const offset = operations.filter(({ hasMean, shape }) => hasMean && product(shape) > 100 && product(shape) < 300);

  test.each(ratios.map((ratio) => ({ ratio })))('mean/std $ratio', ({ ratio }) => {
    for (const operation of offset) {
      for (const [deviation, epsilon] of [
        [0.1, 0],
        [30, 1e-5],
      ] as const) {
        const x = draw(product(operation.shape), 4, ratio * deviation, deviation);
        const data = `mean/std ${ratio}, deviation ${deviation}, epsilon ${epsilon}`;
        expectPromised(operation, operation.run(x, { epsilon }), operation.expected(x, { epsilon }), data);
      }
    }
  });

  test.each([0, 3, 1e7, 1e15])('long rows and columns, mean/std %d', (ratio) => {
    for (const [shape, axes] of [
      [[1, 4099], [1]],
      [[2049, 3], [0]],
    ] as const) {
      const x = draw(product(shape), 6, ratio * 2, 2);
      const expected = decimal.layerNorm(x, shape, axes, { epsilon: 0 });
      const y = sn.layerNorm(x, { shape, axes, epsilon: 0 });
      expectNear({ op: 'layerNorm', shape, data: `mean/std ${ratio}` }, y, expected.y, promise, expected.magnitude);
    }
  });

  test('where all roundings go one way: one magnitude, and outliers before it', () => {
    for (const magnitude of [1.1, 1 / 3]) {
      const even = Float64Array.from({ length: 6000 }, (_, i) => (i % 2 ? magnitude : -magnitude));
      const outliers = even.map((value, i) => (i < 40 ? 1e4 * value : value));
      for (const [data, x] of Object.entries({ even, outliers })) {
        const what = { op: 'layerNorm', shape: [6000], data: `${data}, ${magnitude}` };
        const layer = decimal.layerNorm(x, [6000], [0], { epsilon: 0 });
        expectNear(what, sn.layerNorm(x, { epsilon: 0 }), layer.y, promise, layer.magnitude);
      }
      const l2 = decimal.lpNormalize(even, [6000], [0]);
      expectNear({ op: 'lpNormalize', shape: [6000] }, sn.lpNormalize(even), l2.y, promise, l2.magnitude);
    }
  });
});

describe('moments', () => {
  const op = 'moments';
  const layouts = [
    { shape: [67], axes: [0] },
    { shape: [3, 130], axes: [1] },
    { shape: [67, 9], axes: [0] },
    { shape: [3, 4, 5], axes: [0, 2] },
    { shape: [3, 4, 2, 5], axes: [3, 1] },
    { shape: [3, 4, 2, 5], axes: [] },
  ];

  test.each(layouts)('$shape over $axes, mean/std from 0 to 1e15', ({ shape, axes }) => {
    for (const ratio of [0, 1, 1e4, 1e7, 1e11, 1e15]) {
      const x = draw(product(shape), 1, ratio * 3, 3);
      const { mean, variance, count } = sn.moments(x, { shape, axes });
      expect([mean, variance]).toEqual([expect.any(Float64Array), expect.any(Float64Array)]);
      expect(count).toBe(product(axes.map((axis) => shape[axis] as number)));
      const expected = decimal.moments(x, shape, axes);
      expectStatistics({ op, shape, data: `over [${axes}], mean/std ${ratio}` }, { mean, variance }, expected);
    }
  });
});

describe('batchNorm', () => {
  const op = 'batchNorm';

  test.each([
    { shape: [7], axis: 0 },
    { shape: [40, 3], axis: 1 },
    { shape: [5, 65], axis: 1 },
    { shape: [3, 50], axis: 0 },
    { shape: [2, 3, 35], axis: 1 },
    { shape: [2, 5, 8, 3], axis: 3 },
    { shape: [2, 5, 6, 3], axis: 2 },
  ])('$shape by axis $axis', ({ shape, axis }) => {
    const channels = shape[axis] as number;
    const [scale, bias] = [drawScale(channels, 2), draw(channels, 3)];
    for (const ratio of [0, 1, 1e7, 1e15]) {
      const x = draw(product(shape), 1, 3 * ratio, 3);
      const statistics = { mean: draw(channels, 4, 3 * ratio, 1), variance: drawVariance(channels, 5) };
      for (const parameters of [{}, { scale }, { bias }, { scale, bias }, { scale, bias, epsilon: 0 }]) {
        const expected = decimal.batchNorm(x, shape, axis, { ...statistics, ...parameters });
        const y = sn.batchNorm(x, { shape, axis, ...statistics, ...parameters });
        const what = { op, shape, data: `axis ${axis}, ${Object.keys(parameters)}, mean/std ${ratio}` };
        expectNear(what, y, expected.y, affinePromise, expected.magnitude);
      }
    }
  });

  test('large and small statistics', () => {
    const x = Float64Array.from([1e300, -1e300, 3e300, 2e-300, 4e-300, 1e-300]);
    const options = { shape: [2, 3], axis: 0, mean: [1e300, 2e-300], epsilon: 0 };
    for (const variance of [
      [1e308, 1e-308],
      [4e307, 1e-320],
      [1.7e308, 5e-324],
    ]) {
      const expected = decimal.batchNorm(x, [2, 3], 0, { ...options, variance });
      const what = { op, shape: [2, 3], data: `variance ${variance}` };
      expectNear(what, sn.batchNorm(x, { ...options, variance }), expected.y, promise, expected.magnitude);
    }
  });

  test('a given mean so far from x that their difference is no double', () => {
    const given = { mean: [-1.7e308], variance: [1e300], epsilon: 0 };
    const x = Float64Array.of(1.7e308);
    const { y, magnitude } = decimal.batchNorm(x, [1, 1], 1, given);
    expectNear({ op, shape: [1, 1] }, sn.batchNorm(x, { shape: [1, 1], ...given }), y, promise, magnitude);
  });

  test('statistics that divide by 0, and below it', () => {
    const x = Float64Array.from([1, 2, 3, NaN, Infinity]);
    const by = (variance: number, epsilon: number) => [
      ...sn.batchNorm(x, { shape: [5, 1], mean: [2], variance: [variance], epsilon }),
    ];
    expect(by(0, 0)).toEqual([-Infinity, NaN, Infinity, NaN, Infinity]);
    expect(by(-1, 0)).toEqual([NaN, NaN, NaN, NaN, NaN]);
    expect(by(NaN, 0)).toEqual([NaN, NaN, NaN, NaN, NaN]);
    expect(by(-0.5, 1.5)).toEqual([-1, 0, 1, NaN, Infinity]);
  });
});

describe('lpNormalize', () => {
  const op = 'lpNormalize';

  function expectNormalized(x: Float64Array, shape: Shape, axes: readonly number[], p: number, epsilon?: number): void {
    const { y, magnitude } = decimal.lpNormalize(x, shape, axes, { p, epsilon });
    const what = { op, shape, data: `over [${axes}], p ${p}, epsilon ${epsilon}` };
    expectNear(what, sn.lpNormalize(x, { shape, axes, p, epsilon }), y, promise, magnitude);
  }

  test.each([1, 2, Infinity])('p %d over rows, columns and axes that alternate', (p) => {
    for (const [shape, axes] of [
      [[67], [0]],
      [[3, 130], [1]],
      [[5, 1], [1]],
      [[67, 9], [0]],
      [
        [3, 4, 5],
        [0, 2],
      ],
      [
        [3, 4, 2, 5],
        [2, 1],
      ],
    ] as const) {
      for (const mean of [0.4, 1e10]) expectNormalized(draw(product(shape), 1, mean), shape, axes, p);
      const x = draw(product(shape), 2);
      expectBits({ op, shape }, sn.lpNormalize(x, { shape, axes }), sn.lpNormalize(x, { shape, axes, p: 2 }));
    }
  });

  test.each([1, 2, Infinity])('p %d of sums and squares that overflow or underflow', (p) => {
    for (const size of [1e300, 1e308, 1e154, 1e160, 1e-150, 1e-155, 1e-160, 1e-165, 1e-200, 1e-300, 1e-310]) {
      const x = draw(60, 3, 0.3, 0.4).map((value) => value * size);
      for (const epsilon of [0, undefined, 1e-300, Math.min(3 * size, 1e308)])
        expectNormalized(x, [3, 20], [1], p, epsilon);
      expectNormalized(x, [20, 3], [0], p, 0);
    }
    const { MAX_VALUE: most, MIN_VALUE: least } = Number;
    const extremes = Float64Array.of(most, -most, most, 0, least, -least, 0, least, most, least, 1, 0);
    expectNormalized(extremes, [3, 4], [1], p, 0);
    expectNormalized(extremes, [4, 3], [0], p, 0);
    expectNormalized(Float64Array.of(1e300, 1, 1e-300, -1e160, 1e-160, 0), [6], [0], p, 0);
  });

  test.each([1, 2, Infinity])('p %d: a zero vector stays zero for every epsilon', (p) => {
    for (const epsilon of [undefined, 0, 1e-300, 1]) {
      const y = sn.lpNormalize(Float64Array.of(0, 0, 0, 3, -0, 0), { shape: [3, 2], p, epsilon });
      const [last] = sn.lpNormalize(Float64Array.of(3, -0), { p, epsilon });
      expect([...y.map(Math.abs)]).toEqual([0, 0, 0, last, 0, 0]);
    }
  });
});

describe('localResponseNorm', () => {
  const op = 'localResponseNorm';

  test.each([
    { shape: [4, 9], axis: 1 },
    { shape: [2, 5, 3], axis: 1 },
    { shape: [2, 1, 3, 9], axis: 3 },
    { shape: [1, 7, 3, 2], axis: 1 },
    { shape: [6, 5], axis: 0 },
  ])('$shape by axis $axis', ({ shape, axis }) => {
    const x = draw(product(shape), 1);
    for (const size of [1, 2, 3, 4, 20]) {
      for (const options of [{}, { alpha: 0.3, beta: 0.5, k: 2 }, { alpha: 2, beta: 1, k: 0.5 }]) {
        const { y, magnitude } = decimal.localResponseNorm(x, shape, axis, { size, ...options });
        const what = { op, shape, data: `axis ${axis}, size ${size}, ${JSON.stringify(options)}` };
        expectNear(what, sn.localResponseNorm(x, { shape, axis, size, ...options }), y, promise, magnitude);
      }
    }
  });

  test.each([0, 0.1, 0.6, 1.5, 2, 2.3, 3, -0.75])('beta %d', (beta) => {
    const x = draw(40, 1);
    for (const options of [{}, { alpha: 2, k: 0.5 }]) {
      const { y, magnitude } = decimal.localResponseNorm(x, [4, 10], 1, { size: 3, beta, ...options });
      const got = sn.localResponseNorm(x, { shape: [4, 10], size: 3, beta, ...options });
      expectNear({ op, shape: [4, 10], data: `beta ${beta}, ${JSON.stringify(options)}` }, got, y, promise, magnitude);
    }
  });

  test('squares that overflow or underflow', () => {
    for (const size of [1e300, 1e160, 1e150, 1e-150, 1e-165, 1e-300, 1e-310]) {
      const x = draw(24, 1, 0.3, 0.4).map((value) => value * size);
      for (const options of [
        { alpha: 1e-4, beta: 0.25, k: 1 },
        { alpha: 1, beta: 0.5, k: 1 },
        { alpha: 1e-4, beta: 0.75, k: 1 },
        { alpha: 1, beta: 0.5, k: 0 },
      ]) {
        const { y } = decimal.localResponseNorm(x, [4, 6], 1, { size: 3, ...options });
        // What the package promises; at 1e300 and beta 0.75 y is 1e-150, or nothing.
        const magnitude = y.map((value) => exact(1).plus(value.abs()));
        const what = { op, shape: [4, 6], data: `${size}, ${JSON.stringify(options)}` };
        expectNear(what, sn.localResponseNorm(x, { shape: [4, 6], size: 3, ...options }), y, promise, magnitude);
      }
    }
  });

  test('NaN and infinity have the effect that they have in the formula', () => {
    const x = Float64Array.of(1, 2, NaN, 4, 5, 6, Infinity, 8, -9, 10);
    const y = sn.localResponseNorm(x, { shape: [1, 10], size: 3 });
    expect([...y].map(Math.abs).map((value) => (Number.isNaN(value) || value === 0 ? value : 'a number'))).toEqual([
      'a number',
      NaN,
      NaN,
      NaN,
      'a number',
      0,
      NaN,
      0,
      'a number',
      'a number',
    ]);
  });
});

describe('extremes', () => {
  const sizes = [1e150, 1e153, 1e155, 1e160, 1e200, 1e300, 1e-140, 1e-150, 1e-155, 1e-158, 1e-161, 1e-200, 1e-300];
  const some = operations.filter(({ shape }) => product(shape) >= 60 && product(shape) <= 130);

  test.each([...sizes, 1e-310].map((size) => ({ size })))('values of $size', ({ size }) => {
    for (const operation of some) {
      const x = draw(product(operation.shape), 7, 0.3, 0.6).map((value) => value * size);
      // As large as the variance too, where a double can be.
      for (const epsilon of new Set([0, 1e-5, Math.min((size / 2) ** 2, 1e308)])) {
        const data = `values of ${size}, epsilon ${epsilon}`;
        expectPromised(operation, operation.run(x, { epsilon }), operation.expected(x, { epsilon }), data);
      }
    }
  });

  test('far from 0 as well: mean/std 1e10 at 1e290 and at 1e-290', () => {
    for (const operation of some.filter(({ hasMean }) => hasMean)) {
      for (const size of [1e290, 1e-290]) {
        const x = draw(product(operation.shape), 7, 1e10, 1).map((value) => value * size);
        const data = `around ${1e10 * size}`;
        expectPromised(operation, operation.run(x, { epsilon: 0 }), operation.expected(x, { epsilon: 0 }), data);
      }
    }
  });

  const { MAX_VALUE: most, MIN_VALUE: least } = Number;
  const rows: Record<string, number[]> = {
    'the largest of both signs': [most, -most],
    'a difference from the mean that is no double': [most, most, -most],
    'the largest and 0': [most, 0, 0, 0, 0],
    'the smallest of both signs': [least, -least, least, -least],
    'the smallest and 0': [least, 0],
    'the smallest, the largest and 1': [least, most, 1, -most, -least],
    '1e300, 1, 1e-300': [1e300, 1, 1e-300, -1e300, 1e150, -1, 1e-150],
    'one whose square overflows among ordinary ones': [1, 2, 3, 4, 5, 1e160, 6, 7, 8, 9, 10, 11, 12],
    'some whose squares underflow among ordinary ones': [1, 2, 3, 1e-170, -1e-170, 1e-310, 4],
    'some whose squares are subnormal': [1e-160, -2e-160, 3e-161, 4e-162, 5e-158],
    'subnormal and normal': [2e-308, 1e-308, -1e-308, 3e-310, 2.3e-308],
  };

  test.each(Object.keys(rows))('%s', (name) => {
    const x = Float64Array.from(rows[name] as number[]);
    const units = x.length;
    const by = { epsilon: 0 };
    for (const [shape, axes] of [
      [[units], [0]],
      [[units, 1], [0]],
    ] as const) {
      const layer = decimal.layerNorm(x, shape, axes, by);
      const y = sn.layerNorm(x, { shape, axes, ...by });
      expectNear({ op: 'layerNorm', shape, data: name }, y, layer.y, promise, layer.magnitude);
      const rms = decimal.rmsNorm(x, shape, axes, by);
      const normalized = sn.rmsNorm(x, { shape, axes, ...by });
      expectNear({ op: 'rmsNorm', shape, data: name }, normalized, rms.y, promise, rms.magnitude);
      const moments = sn.moments(x, { shape, axes });
      expectStatistics({ op: 'moments', shape, data: name }, moments, decimal.moments(x, shape, axes));
    }
    const twice = Float64Array.from([...x, ...x].map((_, i) => x[Math.floor(i / 2)] as number));
    const shape = [units, 2];
    const batch = decimal.batchNormTraining(twice, shape, 1, by);
    const result = sn.batchNormTraining(twice, { shape, ...by });
    expectNear({ op: 'batchNormTraining', shape, data: name }, result.y, batch.y, promise, batch.magnitude);
    expectStatistics({ op: 'batchNormTraining', shape, data: name }, result, batch);
  });

  test('groups that overflow or underflow change no bit of those beside them', () => {
    const factors = [1, 1e300, 1, 1e-300, 1e160, 1, 1e-160, 1e-310, 1];
    const groups = factors.length;
    const ordinary = draw(groups * 40, 1);
    for (const across of [false, true]) {
      const groupOf = (i: number) => (across ? i % groups : Math.floor(i / 40));
      const shape = across ? [40, groups] : [groups, 40];
      const axes = across ? 0 : 1;
      const x = ordinary.map((value, i) => value * (factors[groupOf(i)] as number));
      for (const op of ['layerNorm', 'rmsNorm'] as const) {
        const [got, expected] = [sn[op](x, { shape, axes }), sn[op](ordinary, { shape, axes })];
        const isOrdinary = (_: number, i: number) => factors[groupOf(i)] === 1;
        expectBits({ op, shape }, got.filter(isOrdinary), expected.filter(isOrdinary));
      }
    }
  });
});

describe('edge cases', () => {
  test('a constant group gives exactly bias, 0 without one, the constant as mean and 0 as variance', () => {
    for (const operation of operations.filter(({ hasMean }) => hasMean)) {
      const bias = draw(operation.parameters, 1);
      const scale = drawScale(operation.parameters, 2);
      const zeros = new Float64Array(product(operation.shape));
      // Of zeros the reference leaves bias, and so tells which one belongs where.
      const expected = operation.expected(zeros, { bias }).y.map((value) => value.toNumber());
      for (const constant of [0.1, -0.1, 1000.1, 3.3e7, 1 / 3, 1e150, 1e300, 1.7e308, 1e-300, 1e-310, 0, -0]) {
        const x = zeros.map(() => constant);
        const { y, mean, variance } = operation.run(x, { bias, scale });
        const what = { op: operation.op, shape: operation.shape, data: `${operation.data}, constant ${constant}` };
        expectBits(what, y, expected);
        if (mean) expect({ ...what, mean: mean.every((value) => value === constant) }).toEqual({ ...what, mean: true });
        if (variance) expect({ ...what, variance: new Set(variance) }).toEqual({ ...what, variance: new Set([0]) });
        const plain = operation.run(x).y;
        expect({ ...what, zero: plain.every((value) => value === 0) }).toEqual({ ...what, zero: true });
      }
    }
  });

  test('long constant rows and columns', () => {
    for (const constant of [0.1, 1000.1, 1e300]) {
      for (const shape of [[9002], [4501, 2]]) {
        const x = new Float64Array(9002).fill(constant);
        const width = shape[1] ?? 1;
        const bias = draw(9002 / width, 1);
        const expected = Array.from(x, (_, i) => bias[Math.floor(i / width)] as number);
        const what = { op: 'layerNorm', shape, data: `constant ${constant}` };
        expectBits(what, sn.layerNorm(x, { shape, axes: 0, bias }), expected);
        const { mean, variance } = sn.moments(x, { shape, axes: 0 });
        expect([new Set(mean), new Set(variance)]).toEqual([new Set([constant]), new Set([0])]);
      }
    }
  });

  test('epsilon 0 and no variance: 0/0', () => {
    expect([...sn.layerNorm(Float64Array.of(5, 5, 5), { epsilon: 0 })]).toEqual([NaN, NaN, NaN]);
    expect([...sn.rmsNorm(Float64Array.of(0, 0), { epsilon: 0 })]).toEqual([NaN, NaN]);
    expect([...sn.batchNormTraining(Float64Array.of(5, 5), { shape: [2, 1], epsilon: 0 }).y]).toEqual([NaN, NaN]);
  });

  test('NaN and infinity fill their group with NaN, and no other', () => {
    for (const operation of operations) {
      const x = draw(product(operation.shape), 1);
      const at = Math.floor(x.length / 2);
      const clean = operation.run(x);
      const expected = operation.expected(x.with(at, NaN));
      const y = clean.y.map((value, i) => (expected.y[i]?.isNaN() ? NaN : value));
      for (const bad of [NaN, Infinity, -Infinity]) {
        const got = operation.run(x.with(at, bad));
        const what = { op: operation.op, shape: operation.shape, data: `${operation.data}, ${bad}` };
        expectBits(what, got.y, y);
        for (const output of ['mean', 'variance', 'invStd'] as const) {
          if (!got[output]) continue;
          const statistics = clean[output]?.map((value, group) => (expected.variance[group]?.isNaN() ? NaN : value));
          expectBits({ ...what, output }, got[output], statistics as Float64Array);
        }
      }
    }
    const x = draw(12, 1);
    for (const p of [1, 2, Infinity]) {
      const y = sn.lpNormalize(x, { shape: [3, 4], p }).fill(NaN, 4, 8);
      for (const bad of [NaN, Infinity, -Infinity]) {
        const got = sn.lpNormalize(x.with(5, bad), { shape: [3, 4], p });
        expectBits({ op: 'lpNormalize', shape: [3, 4], data: `p ${p}, ${bad}` }, got, y);
      }
    }
  });

  test('no values', () => {
    const empty = new Float64Array(0);
    expect(sn.layerNorm(empty, { shape: [0, 3] })).toEqual(empty);
    expect(sn.batchNormTraining(empty, { shape: [2, 0] })).toMatchObject({ y: empty, mean: empty, variance: empty });
    expect(sn.moments(empty, { shape: [0, 3] })).toEqual({ mean: empty, variance: empty, count: 3 });
  });
});

describe('parameters are used as they are', () => {
  const shape = [4, 9];
  const x = draw(36, 1);
  const thirds = Float64Array.from({ length: 9 }, (_, i) => (i + 1) / 3);

  test('to the last bit of a double', () => {
    for (const parameters of [{ scale: thirds }, { bias: thirds }, { scale: thirds, bias: thirds }]) {
      const { y, magnitude } = decimal.layerNorm(x, shape, [1], parameters);
      const kinds: Record<string, (values: Float64Array) => Float64Array | number[]> = {
        Float64Array: (values) => values,
        'number[]': (values) => [...values],
      };
      const results = Object.entries(kinds).map(([kind, make]) => {
        const given = Object.fromEntries(Object.entries(parameters).map(([name, values]) => [name, make(values)]));
        const got = sn.layerNorm(x, { shape, ...given });
        expectNear({ op: 'layerNorm', shape, data: kind }, got, y, affinePromise, magnitude);
        return got;
      });
      expectBits({ op: 'layerNorm', shape }, results[0] as Float64Array, results[1] as Float64Array);
    }
  });

  test('a Float32Array is its own values', () => {
    const floats = Float32Array.from(thirds);
    const options = { shape, scale: floats, bias: floats };
    const copied = { shape, scale: Float64Array.from(floats), bias: [...floats] };
    expectBits({ op: 'layerNorm', shape }, sn.layerNorm(x, options), sn.layerNorm(x, copied));
    expect([...sn.layerNorm(x, options)]).not.toEqual([...sn.layerNorm(x, { shape, scale: thirds, bias: thirds })]);
  });

  test('mean and variance of every kind', () => {
    const statistics = { mean: thirds, variance: thirds };
    const expected = decimal.batchNorm(x, shape, 1, statistics);
    for (const make of [(values: Float64Array) => values, (values: Float64Array) => [...values]]) {
      const y = sn.batchNorm(x, { shape, mean: make(thirds), variance: make(thirds) });
      expectNear({ op: 'batchNorm', shape }, y, expected.y, promise, expected.magnitude);
    }
    const floats = Float32Array.from(thirds);
    const y = sn.batchNorm(x, { shape, mean: floats, variance: floats });
    const copied = sn.batchNorm(x, { shape, mean: [...floats], variance: Float64Array.from(floats) });
    expectBits({ op: 'batchNorm', shape }, y, copied);
    expect([...y]).not.toEqual([...sn.batchNorm(x, { shape, ...statistics })]);
  });

  test('beyond the range of float32', () => {
    const small = { scale: new Float64Array(9).fill(1e-200), bias: new Float64Array(9).fill(1e-201) };
    const large = { scale: new Float64Array(9).fill(1e200), bias: new Float64Array(9).fill(1e201) };
    for (const parameters of [small, large]) {
      const { y, magnitude } = decimal.layerNorm(x, shape, [1], parameters);
      expectNear({ op: 'layerNorm', shape }, sn.layerNorm(x, { shape, ...parameters }), y, affinePromise, magnitude);
    }
  });

  test('the same array as scale and bias, and parts of x', () => {
    const given = { shape, scale: x.subarray(3, 12), bias: x.subarray(3, 12) };
    const expected = sn.layerNorm(x, { shape, scale: [...given.scale], bias: [...given.bias] });
    expectBits({ op: 'layerNorm', shape }, sn.layerNorm(x, given), expected);
  });
});

describe('memory', () => {
  /** Values `offset` doubles behind an aligned address, with canaries on both sides. */
  function place(values: Float64Array, offset: number, shared = false) {
    const bytes = 8 * (values.length + offset + 6);
    const memory = new Float64Array(shared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes)).fill(canary);
    const [begin, end] = [offset + 3, offset + 3 + values.length];
    memory.set(values, begin);
    return {
      values: memory.subarray(begin, end),
      isIntact: () => memory.every((value, i) => (i >= begin && i < end) || value === canary),
    };
  }

  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      test(`subarrays at ${offset} doubles${shared ? ' of shared memory' : ''}`, () => {
        for (const [shape, axes] of [
          [[3, 37], 1],
          [[37, 3], 0],
        ] as const) {
          const units = 37;
          const [values, scaleValues, biasValues] = [draw(111, 1), drawScale(units, 2), draw(units, 3)];
          const expected = sn.layerNorm(values, { shape, axes, scale: scaleValues, bias: biasValues });
          const x = place(values, offset, shared);
          const scale = place(scaleValues, (offset + 1) % 4, shared);
          const bias = place(biasValues, (offset + 2) % 4, shared);
          const out = place(new Float64Array(111), (offset + 3) % 4, shared);
          const meanOut = place(new Float64Array(3), offset, shared);
          const invStdOut = place(new Float64Array(3), (offset + 1) % 4, shared);
          const given = {
            shape,
            axes,
            scale: scale.values,
            bias: bias.values,
            meanOut: meanOut.values,
            invStdOut: invStdOut.values,
          };
          const what = { op: 'layerNorm', shape, data: `offset ${offset}` };
          expect(sn.layerNorm(x.values, { ...given, out: out.values })).toBe(out.values);
          expectBits(what, out.values, expected);
          expectBits({ ...what, output: 'x' }, x.values, values);
          expect(sn.layerNorm(x.values, { ...given, out: x.values })).toBe(x.values);
          expectBits({ ...what, data: `in place, ${what.data}` }, x.values, expected);
          const placed = [x, scale, bias, out, meanOut, invStdOut];
          expect(placed.map((each) => each.isIntact())).not.toContain(false);
          expectBits({ ...what, output: 'scale' }, scale.values, scaleValues);
          expectBits({ ...what, output: 'bias' }, bias.values, biasValues);
          expect(meanOut.values).not.toContain(canary);
        }
      });
    }
  }
});

describe('to the bit', () => {
  const op = 'layerNorm';
  const shape = [4, 203];
  const x = draw(812, 1, 2, 3);

  test('scaling by powers of two, with epsilon scaled along', () => {
    for (const [layout, axes] of [
      [shape, 1],
      [[203, 4], 0],
    ] as const) {
      const expected = sn.layerNorm(x, { shape: layout, axes });
      for (const k of [-400, -30, -1, 1, 7, 40, 400]) {
        const scaled = x.map((value) => value * 2 ** k);
        const y = sn.layerNorm(scaled, { shape: layout, axes, epsilon: 1e-5 * 4 ** k });
        expectBits({ op, shape: layout, data: `2^${k} x` }, y, expected);
      }
    }
  });

  test('negation', () => {
    const negated = x.map((value) => -value);
    const expected = sn.layerNorm(x, { shape }).map((value) => -value);
    expectBits({ op, shape, data: '-x' }, sn.layerNorm(negated, { shape }), expected);
  });

  test.each([1, 3, 16, 203, 1024, 2500])('rows of %i alone and among others', (units) => {
    const rows = draw(5 * units, units, 100, 3);
    const together = sn.layerNorm(rows, { shape: [5, units] });
    for (let row = 0; row < 5; ++row) {
      const alone = sn.layerNorm(rows.subarray(row * units, (row + 1) * units));
      expectBits({ op, shape: [units] }, alone, together.subarray(row * units, (row + 1) * units));
    }
  });

  test('group norm with one channel per group is instance norm, and layer norm where it has one group', () => {
    const by = { shape: [2, 7, 29], axis: 1 };
    const values = x.subarray(0, 406);
    const instance = sn.instanceNorm(values, by);
    expectBits({ op: 'groupNorm', shape: by.shape }, sn.groupNorm(values, { ...by, groups: 7 }), instance);
    const layer = sn.layerNorm(values, { shape: by.shape, axes: [1, 2] });
    expectBits({ op: 'groupNorm', shape: by.shape }, sn.groupNorm(values, { ...by, groups: 1 }), layer);
  });
});

describe('lengths', () => {
  const shape = [4, 6, 5];
  const lengths = [6, 0, 1, 4];
  const steps = 5;
  const isValid = (i: number) => Math.floor(i / steps) % 6 < (lengths[Math.floor(i / 30)] as number);
  const clean = draw(120, 1, 50, 3);
  const x = clean.map((value, i) => (isValid(i) ? value : ([NaN, Infinity, 1e300][i % 3] as number)));
  const valid = (values: Float64Array) => values.filter((_, i) => isValid(i));
  const past = (values: Float64Array) => values.filter((_, i) => !isValid(i));
  const rows = valid(clean).length / steps;

  test('layerNorm and rmsNorm over the last axis give the valid rows what they get alone', () => {
    for (const op of ['layerNorm', 'rmsNorm'] as const) {
      const y = sn[op](x, { shape, lengths });
      expectBits({ op, shape }, valid(y), sn[op](valid(clean), { shape: [rows, steps] }));
      expectBits({ op, shape, data: 'past the lengths' }, past(y), new Float64Array(120 - rows * steps));
    }
  });

  test('moments and batchNormTraining merge the items', () => {
    const dense = [rows, steps];
    const { mean, variance, count } = sn.moments(x, { shape, axes: [0, 1], lengths });
    expect(count).toBe(rows);
    const expected = decimal.batchNormTraining(valid(clean), dense, 1);
    expectStatistics({ op: 'moments', shape }, { mean, variance }, expected);
    const result = sn.batchNormTraining(x, { shape, axis: 2, lengths });
    expect(result.count).toBe(rows);
    const what = { op: 'batchNormTraining', shape };
    expectNear(what, valid(result.y), expected.y, promise, expected.magnitude);
    expectBits({ ...what, data: 'past the lengths' }, past(result.y), new Float64Array(120 - rows * steps));
    expectStatistics(what, result, expected);
  });

  test('a group without values has NaN statistics', () => {
    const [meanOut, invStdOut] = [new Float64Array(4), new Float64Array(4)];
    sn.layerNorm(x, { shape, axes: [1, 2], lengths, meanOut, invStdOut });
    expect([meanOut[1], invStdOut[1]]).toEqual([NaN, NaN]);
    expect([...meanOut, ...invStdOut].filter(Number.isFinite)).toHaveLength(6);
  });
});

describe('errors', () => {
  const shape = [3, 4];
  const doubles = draw(12, 1);
  const floats = Float32Array.from(doubles);

  function expectError(op: string, code: ErrorCode, run: () => unknown, ...says: string[]): void {
    let failure: unknown;
    try {
      run();
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    const { message, ...rest } = failure as NormError;
    expect({ code: rest.code, op: rest.op, message }).toEqual({ code, op, message });
    for (const part of says) expect(message).toContain(part);
  }

  test('out and statistics have the dtype of x', () => {
    const methods: Record<string, (x: Float32Array | Float64Array, o: object) => unknown> = {
      layerNorm: (x, o) => sn.layerNorm(x, { shape, ...o }),
      rmsNorm: (x, o) => sn.rmsNorm(x, { shape, ...o }),
      instanceNorm: (x, o) => sn.instanceNorm(x, { shape, ...o }),
      groupNorm: (x, o) => sn.groupNorm(x, { shape, groups: 2, ...o }),
      batchNorm: (x, o) => sn.batchNorm(x, { shape, mean: [0, 0, 0, 0], variance: [1, 1, 1, 1], ...o }),
      batchNormTraining: (x, o) => sn.batchNormTraining(x, { shape, ...o }),
      lpNormalize: (x, o) => sn.lpNormalize(x, { shape, ...o }),
      localResponseNorm: (x, o) => sn.localResponseNorm(x, { shape, size: 3, ...o }),
    };
    const statistics: Record<string, [number, string[]]> = {
      layerNorm: [3, ['meanOut', 'invStdOut']],
      rmsNorm: [3, ['invStdOut']],
      instanceNorm: [12, ['meanOut', 'invStdOut']],
      groupNorm: [6, ['meanOut', 'invStdOut']],
      batchNormTraining: [4, ['meanOut', 'varianceOut', 'invStdOut']],
    };
    for (const [op, run] of Object.entries(methods)) {
      const [groups, names] = statistics[op] ?? [0, []];
      for (const [name, length] of [['out', 12], ...names.map((name) => [name, groups])] as [string, number][]) {
        for (const wrong of [new Float32Array(length), new Uint16Array(length), new Array<number>(length).fill(0)]) {
          expectError(op, 'ERR_TYPE', () => run(doubles, { [name]: wrong }), name, 'Float64Array');
        }
        const wrong = new Float64Array(length);
        expectError(op, 'ERR_TYPE', () => run(floats, { [name]: wrong }), name, 'Float32Array');
        const short = new Float64Array(length + 1);
        expectError(op, 'ERR_SHAPE', () => run(doubles, { [name]: short }), name, String(length + 1), String(length));
        const right = new Float64Array(length).fill(canary);
        run(doubles, { [name]: right });
        expect([...right]).not.toContain(canary);
      }
    }
  });

  test('what overlaps in part', () => {
    const memory = draw(40, 1);
    const before = memory.slice();
    const x = memory.subarray(10, 22);
    const options: Record<string, object> = {
      'out in x': { out: memory.subarray(11, 23) },
      'out in scale': { out: memory.subarray(22, 34), scale: memory.subarray(32, 36) },
      'a Float32Array in out': { out: memory.subarray(22, 34), scale: new Float32Array(memory.buffer, 8 * 24, 4) },
      'meanOut in x': { meanOut: memory.subarray(12, 15) },
    };
    for (const given of Object.values(options)) {
      expectError('layerNorm', 'ERR_OVERLAP', () => sn.layerNorm(x, { shape, ...given }), 'shares memory');
      expect(memory).toEqual(before);
    }
  });
});
