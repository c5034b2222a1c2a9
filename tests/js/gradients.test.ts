// The gradients of all operations. Laws that hold to the bit for any shape are in properties.test.ts, what is wrong with
// arguments in errors.test.ts.

import type { Decimal } from 'decimal.js';
import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type BackwardOp,
  backwardOps,
  type DType,
  dtypes,
  type Floats,
  isOverAxes,
  numbersOf,
  type Op,
  type Options,
  ofType,
  type Results,
  results,
} from './calls.ts';
import { canary, draw, drawScale, drawVariance, place, product } from './data.ts';
import * as decimal from './decimal-reference.ts';
import { exact } from './decimal-reference.ts';
import { narrow } from './float16-conversion.ts';
import * as gradientReference from './gradient-reference.ts';
import { type Given, type GivenStatistics, gradientsOf } from './gradient-reference.ts';
import {
  countOf,
  groupsOf,
  type Layout,
  layoutOptions,
  parameterLength,
  parameterPlaces,
  placesAlong,
  statisticsFor,
} from './layouts.ts';
import * as reference from './reference.ts';
import { type Case, expectBits, expectNear, machineEpsilon, promise } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

type Values = ArrayLike<number>;
type Shape = readonly number[];
type Axes = readonly number[];

const over = (op: Op, shape: Shape, axes: Axes): Layout => ({ op, shape, axes, axis: 1, groups: 1 });
const by = (op: Op, shape: Shape, axis: number, groups = 1): Layout => ({ op, shape, axes: [], axis, groups });

function placeOf({ op, axes, axis, groups }: Layout): string {
  return isOverAxes(op) ? `over [${axes}]` : `by ${axis}${op === 'groupNorm' ? ` in ${groups}` : ''}`;
}

function titled(layouts: readonly Layout[]): [string, Layout][] {
  return layouts.map((layout) => [`${layout.op} [${layout.shape}] ${placeOf(layout)}`, layout]);
}

function backwardOf(op: Op): BackwardOp {
  return `${op}Backward` as BackwardOp;
}

function run(layout: Layout, dy: unknown, x: unknown, given: Given & Options = {}): Results {
  return results(sn, backwardOf(layout.op), x, { ...layoutOptions(layout), ...given }, dy);
}

const parameterGradients = ['dScale', 'dBias'] as const;

/** What h = (x - mean) * invStd is promised enters twice, by itself and in the mean of g * h; and two roundings. */
const dxPromise = 2 * promise + 2 * machineEpsilon;
/** Sums of dy * h, where h has its promise, and a rounding; and of dy, where there is no h. */
const sumPromise = { dScale: promise + machineEpsilon, dBias: promise };

function describeGradient(layout: Layout, output: string, data: string): Case {
  return { op: backwardOf(layout.op), shape: layout.shape, output, data: `${placeOf(layout)}, ${data}` };
}

function largest(values: Values): number {
  let most = 0;
  for (let i = 0; i < values.length; ++i) most = Math.max(most, Math.abs(values[i] as number));
  return most;
}

/** The documented tolerance, and what follows from the promise of h, which is also of dx far below 1. */
function expectGradients(layout: Layout, got: Results, expected: gradientReference.Gradients, data: string): void {
  const what = describeGradient(layout, 'dx', data);
  const dx = got.dx as Float32Array;
  expectNear(what, dx, expected.dx, dxPromise, expected.magnitude.dx);
  const most = Math.max(1, largest(expected.dx));
  if (most < Infinity) expectNear(what, dx, expected.dx, 1e-6 * most, new Float64Array(dx.length).fill(1));
  for (const name of parameterGradients) {
    const values = got[name];
    if (!values) continue;
    expectNear({ ...what, output: name }, values, expected[name], sumPromise[name], expected.magnitude[name]);
  }
}

/** Every array of two results is equal to the bit. */
function expectSame(layout: Layout, got: Results, expected: Results, data: string): void {
  expect(Object.keys(got)).toEqual(Object.keys(expected));
  for (const name of ['dx', ...parameterGradients] as const) {
    const [values, right] = [got[name], expected[name]];
    if (values && right) expectBits(describeGradient(layout, name, data), numbersOf(values), numbersOf(right));
  }
}

/** Parameters and statistics that a layout can't do without, or can. */
function givenFor(layout: Layout, mean = 0, deviation = 1): { plain: Given; scaled: Given } {
  const length = parameterLength(layout);
  const statistics: Given =
    layout.op === 'batchNorm'
      ? {
          mean: draw(length, 4, mean, deviation),
          variance: drawVariance(length, 5).map((value) => value * deviation ** 2),
        }
      : {};
  const hasScale = layout.op !== 'lpNormalize';
  return { plain: statistics, scaled: { ...statistics, ...(hasScale ? { scale: drawScale(length, 3) } : {}) } };
}

const drawSlopes = (length: number, seed: number) => draw(length, seed, 0.2, 1);

// Rows, runs, columns and what lies across; groups that lie in pieces of 1, 3, 16 and 49 values.
const layouts: readonly Layout[] = [
  ...(['layerNorm', 'rmsNorm', 'lpNormalize'] as const).flatMap((op) => [
    over(op, [67], [0]),
    over(op, [5, 20], [1]),
    over(op, [20, 5], [0]),
    over(op, [3, 33, 18], [1]),
    over(op, [40, 67], [0]),
    over(op, [4, 5, 6], [1, 2]),
    over(op, [4, 5, 6], [0, 2]),
    over(op, [2, 6, 5, 7], [3, 1]),
  ]),
  ...(['batchNormTraining', 'batchNorm'] as const).flatMap((op) => [
    by(op, [30, 7], 1),
    by(op, [40, 67], 1),
    by(op, [7, 30], 0),
    by(op, [4, 6, 3], 1),
    by(op, [3, 5, 7, 7], 1),
    by(op, [3, 7, 5, 16], 2),
    by(op, [4, 3, 5, 8], 3),
  ]),
  ...[1, 3, 16, 49].flatMap((piece) => [
    by('groupNorm', [2, 6, piece], 1, 2),
    by('groupNorm', [2, 32, piece], 1, 1),
    by('groupNorm', [2, 3, 6, piece], 2, 3),
    by('instanceNorm', [3, 4, piece], 1),
    by('instanceNorm', [2, 20, 3, piece], 2),
  ]),
  by('groupNorm', [3, 5, 8], 2, 2),
  by('groupNorm', [3, 5, 8], 2, 8),
  by('groupNorm', [2, 12], 1, 3),
  by('groupNorm', [2, 60], 1, 3),
  by('instanceNorm', [3, 5, 8], 2),
  by('instanceNorm', [2, 20, 67], 2),
];

describe('the reference', () => {
  const small: readonly Layout[] = [
    ...(['layerNorm', 'rmsNorm', 'lpNormalize'] as const).flatMap((op) => [
      over(op, [9], [0]),
      over(op, [3, 5], [1]),
      over(op, [5, 3], [0]),
      over(op, [2, 3, 4], [2, 1]),
      over(op, [2, 3, 4], [0, 2]),
      over(op, [2, 2, 3, 2], [3, 1]),
    ]),
    ...(['batchNormTraining', 'batchNorm'] as const).flatMap((op) => [
      by(op, [6, 3], 1),
      by(op, [3, 6], 0),
      by(op, [2, 3, 4], 1),
      by(op, [2, 4, 3], 2),
    ]),
    by('instanceNorm', [2, 3, 4], 1),
    by('instanceNorm', [2, 2, 2, 3], 3),
    by('groupNorm', [2, 6], 1, 2),
    by('groupNorm', [2, 4, 3], 1, 2),
    by('groupNorm', [2, 3, 4], 2, 2),
  ];
  const ragged = small.filter(({ op, shape, axis }) => {
    if (shape.length < 2) return false;
    return op === 'layerNorm' || op === 'rmsNorm' || (op === 'batchNormTraining' && axis !== 1);
  });

  /** y, by the reference of the operation, or from the definition of a group where lengths leave out some values. */
  function forward(layout: Layout, x: Float64Array, given: Given, bias?: Values): Values {
    const { op, shape, axes, axis, groups } = layout;
    const { lengths, scale, epsilon } = given;
    const parameters = { scale, epsilon, bias };
    if (!lengths) {
      if (op === 'lpNormalize') return reference.lpNormalize(x, shape, axes, given).y;
      if (op === 'layerNorm') return reference.layerNorm(x, shape, axes, parameters).y;
      if (op === 'rmsNorm') return reference.rmsNorm(x, shape, axes, parameters).y;
      if (op === 'groupNorm') return reference.groupNorm(x, shape, axis, groups, parameters).y;
      if (op === 'instanceNorm') return reference.instanceNorm(x, shape, axis, parameters).y;
      if (op === 'batchNormTraining') return reference.batchNormTraining(x, shape, axis, parameters).y;
      return reference.batchNorm(x, shape, axis, { ...parameters, ...(given as GivenStatistics) }).y;
    }
    const y = new Float64Array(x.length);
    const [groupOf, parameterOf] = [groupsOf(layout), parameterPlaces(layout)];
    const [item, step] = [placesAlong(shape, [0]), placesAlong(shape, [1])];
    for (let group = 0; group < countOf(groupOf); ++group) {
      const own = Array.from(x.keys()).filter(
        (i) => groupOf[i] === group && (step[i] as number) < (lengths[item[i] as number] as number),
      );
      const pick = (values: Values | undefined) => values && own.map((i) => values[parameterOf[i] as number] as number);
      const values = own.map((i) => x[i] as number);
      const rows = { scale: pick(scale), bias: pick(bias), epsilon };
      const normalize = op === 'rmsNorm' ? reference.rmsNorm : reference.layerNorm;
      const normalized = normalize(values, [own.length], [0], rows).y;
      own.forEach((i, place) => {
        y[i] = normalized[place] as number;
      });
    }
    return y;
  }

  function loss(dy: Values, y: Values): number {
    let sum = 0;
    for (let i = 0; i < y.length; ++i) sum += (dy[i] as number) * (y[i] as number);
    return sum;
  }

  /** Values at a step to both sides of each, one after the other. */
  function differences(values: Float64Array, step: number, of: (values: Float64Array) => number): Float64Array {
    return values.map((value, i) => {
      const [more, less] = [of(values.with(i, value + step)), of(values.with(i, value - step))];
      return (more - less) / (2 * step);
    });
  }

  function expectDifferences(layout: Layout, given: Given, data: string): void {
    const size = product(layout.shape);
    const length = parameterLength(layout);
    const x = Float64Array.from(draw(size, 1, 0.7, 2));
    const dy = drawSlopes(size, 2);
    const expected = gradientsOf(layout, dy, x, given);
    const near = (name: 'dx' | 'dScale' | 'dBias', right: Float64Array) => {
      const tolerance = 1e-6 * Math.max(1, largest(right));
      const ones = new Float64Array(right.length).fill(1);
      expectNear(describeGradient(layout, name, data), expected[name], right, tolerance, ones);
    };
    near(
      'dx',
      differences(x, 1e-5, (values) => loss(dy, forward(layout, values, given))),
    );
    if (layout.op === 'lpNormalize') return;
    // y is linear in scale and bias, so any step will do; these are floats, as parameters are.
    const scale = Float64Array.from({ length }, (_, i) => (given.scale?.[i] as number) ?? 1);
    near(
      'dScale',
      differences(scale, 2 ** -6, (values) => loss(dy, forward(layout, x, { ...given, scale: values }))),
    );
    if (layout.op === 'rmsNorm') return;
    near(
      'dBias',
      differences(new Float64Array(length), 2 ** -6, (values) => loss(dy, forward(layout, x, given, values))),
    );
  }

  /** Of few bits, so that a step added to them is no rounding. */
  const scaleOf = (length: number) => Float64Array.from(drawScale(length, 3), (value) => Math.round(value * 64) / 64);

  test.each(titled(small))('of %s agrees with central differences', (_, layout) => {
    const { plain } = givenFor(layout);
    const hasScale = layout.op !== 'lpNormalize';
    for (const scale of hasScale ? [undefined, scaleOf(parameterLength(layout))] : [undefined]) {
      for (const p of hasScale ? [undefined] : [1, 2, Infinity]) {
        for (const epsilon of hasScale ? [undefined, 0.25, 0] : [undefined, 1e3]) {
          const data = `${scale ? 'scale' : 'no scale'}, epsilon ${epsilon}, p ${p}`;
          expectDifferences(layout, { ...plain, scale, epsilon, p }, data);
        }
      }
    }
  });

  test.each(titled(ragged))('of %s with lengths agrees with central differences', (_, layout) => {
    const [items, steps] = layout.shape as [number, number];
    for (const offset of [0, 1, 2]) {
      const mixed = [steps, Math.ceil(steps / 2), 0, 1];
      const lengths = Array.from({ length: items }, (_, item) => mixed[(item + offset) % mixed.length] as number);
      for (const scale of [undefined, scaleOf(parameterLength(layout))]) {
        expectDifferences(layout, { scale, lengths }, `${scale ? 'scale' : 'no scale'}, lengths [${lengths}]`);
      }
    }
  });

  test('knows what others have computed', () => {
    const layer = gradientReference.layerNorm([1, 0, 0], [1, 2, 4], [3], [0], { scale: [1, 2, 3] });
    const right = [0.2290823, -0.34362, 0.1145377];
    expectNear({ op: 'layerNorm', shape: [3], output: 'dx' }, layer.dx, right, 5e-8, [1, 1, 1]);
    const l2 = gradientReference.lpNormalize([1, 0], [3, -4], [2], [0]);
    expectNear({ op: 'lpNormalize', shape: [2], output: 'dx' }, l2.dx, [0.128, 0.096], 1e-15);
    const l1 = gradientReference.lpNormalize([1, 0], [1, -3], [2], [0], { p: 1 });
    expect([...l1.dx]).toEqual([0.1875, 0.0625]);
    const largest = gradientReference.lpNormalize([1, 1, 1], [1, -2, 2], [3], [0], { p: Infinity });
    expect([...largest.dx]).toEqual([0.5, 0.75, 0.5]);
    const below = gradientReference.lpNormalize([1, 2], [3, 4], [2], [0], { epsilon: 8 });
    expect([...below.dx]).toEqual([0.125, 0.25]);
    const given = { mean: [2, 20], variance: [1, 25], epsilon: 0 };
    const batch = gradientReference.batchNorm([1, 2, 3, 4], [1, 10, 3, 30], [2, 2], 1, given);
    expect([batch.dx, batch.dScale, batch.dBias].map((values) => [...values])).toEqual([
      [1, 0.4, 3, 0.8],
      [2, 4],
      [4, 6],
    ]);
  });
});

describe('float32 keeps its promise', () => {
  test.each(titled(layouts))('%s', (_, layout) => {
    const size = product(layout.shape);
    const dy = drawSlopes(size, 2);
    for (const [deviation, ratio] of [
      [1, 0.5],
      [0.1, 0],
      [30, 0],
      [0.1, 1],
      [30, 1e2],
      [30, 1e4],
      [0.1, 1e4],
    ] as const) {
      const x = draw(size, 1, ratio * deviation, deviation);
      const { plain, scaled } = givenFor(layout, ratio * deviation, deviation);
      for (const given of [plain, scaled]) {
        for (const p of layout.op === 'lpNormalize' ? [1, 2, Infinity] : [undefined]) {
          const data = `deviation ${deviation}, mean/std ${ratio}, ${given.scale ? 'scale' : 'no scale'}, p ${p}`;
          const all = { ...given, p };
          expectGradients(layout, run(layout, dy, x, all), gradientsOf(layout, dy, x, all), data);
        }
      }
    }
  });

  const sizes = [1, 2, 3, 4, 8, 15, 16, 17, 300, 5000];

  test.each(sizes)('groups of %d values', (size) => {
    const all: Layout[] = [
      ...(['layerNorm', 'rmsNorm', 'lpNormalize'] as const).flatMap((op) => [
        over(op, [3, size], [1]),
        over(op, [size, 3], [0]),
        over(op, [2, size, 5], [1]),
        ...(size % 3 === 0 ? [over(op, [2, 3, 2, size / 3], [3, 1])] : []),
      ]),
      by('instanceNorm', [2, 3, size], 1),
      by('instanceNorm', [2, size, 3], 2),
      by('groupNorm', [2, 6, size], 1, 6),
      ...(size % 3 === 0 ? [by('groupNorm', [2, 6, size / 3], 1, 2), by('groupNorm', [2, size / 3, 6], 2, 2)] : []),
      ...(size > 1 ? [by('batchNormTraining', [size, 3], 1), by('batchNormTraining', [3, size], 0)] : []),
      by('batchNorm', [size, 3], 1),
      by('batchNorm', [3, size], 0),
    ];
    for (const layout of all) {
      const length = product(layout.shape);
      const dy = drawSlopes(length, size);
      for (const [deviation, ratio] of [
        [0.1, 0],
        [30, 1],
        [3, 1e4],
      ] as const) {
        const x = draw(length, 1, ratio * deviation, deviation);
        const { scaled } = givenFor(layout, ratio * deviation, deviation);
        for (const p of layout.op === 'lpNormalize' ? [1, 2, Infinity] : [undefined]) {
          const data = `deviation ${deviation}, mean/std ${ratio}, p ${p}`;
          const given = { ...scaled, p };
          expectGradients(layout, run(layout, dy, x, given), gradientsOf(layout, dy, x, given), data);
        }
      }
    }
  });

  function ordersOf(axes: Axes): number[][] {
    if (axes.length === 0) return [[]];
    return axes.flatMap((first) => ordersOf(axes.filter((axis) => axis !== first)).map((rest) => [first, ...rest]));
  }
  function everyOrderedSet(rank: number): number[][] {
    const sets = Array.from({ length: 2 ** rank }, (_, set) =>
      Array.from({ length: rank }, (_, axis) => axis).filter((axis) => set & (2 ** axis)),
    );
    return sets.flatMap(ordersOf);
  }

  test.each([[[7]], [[5, 6]], [[3, 4, 6]], [[2, 3, 4, 5]]])('every set of axes of %j in every order', (shape) => {
    const size = product(shape);
    const [x, dy] = [draw(size, 1, 3, 2), drawSlopes(size, 2)];
    for (const axes of everyOrderedSet(shape.length)) {
      for (const op of ['layerNorm', 'rmsNorm', 'lpNormalize'] as const) {
        const layout = over(op, shape, axes);
        const { plain, scaled } = givenFor(layout);
        for (const given of op === 'lpNormalize' ? [{ p: 1 }, { p: 2 }, { p: Infinity }] : [plain, scaled]) {
          const got = run(layout, dy, x, given);
          expectGradients(layout, got, gradientsOf(layout, dy, x, given), JSON.stringify(Object.keys(given)));
          const fromTheEnd = { ...given, axes: axes.map((axis) => axis - shape.length) };
          expectSame(layout, run(layout, dy, x, fromTheEnd), got, 'negative axes');
        }
      }
    }
  });

  test('the default epsilons are those of the operations', () => {
    for (const layout of layouts.filter(({ shape }) => product(shape) < 200)) {
      const size = product(layout.shape);
      const [x, dy] = [draw(size, 1, 0, 0.01), drawSlopes(size, 2)];
      const { scaled } = givenFor(layout);
      const epsilon = layout.op === 'lpNormalize' ? 1e-12 : 1e-5;
      expectSame(layout, run(layout, dy, x, scaled), run(layout, dy, x, { ...scaled, epsilon }), 'epsilon');
      for (const other of [0.1, 10]) {
        const given = { ...scaled, epsilon: other };
        expectGradients(layout, run(layout, dy, x, given), gradientsOf(layout, dy, x, given), `epsilon ${other}`);
      }
    }
  });

  test('dScale and dBias are sums that lose nothing over a million rows', async () => {
    const instance = await load({});
    const rows = 1_000_000;
    const kinds = 8;
    for (const layout of [
      over('layerNorm', [rows, 16], [1]),
      over('rmsNorm', [rows, 3], [1]),
      by('batchNormTraining', [rows, 2], 1),
      by('batchNorm', [rows, 2], 1),
    ]) {
      const length = parameterLength(layout);
      // Rows that repeat have the statistics of their kinds, and so has the batch.
      const few = { ...layout, shape: [kinds, length] };
      const kind = draw(kinds * length, 1, 5, 2);
      const { plain } = givenFor(layout, 5, 2);
      const h = kind.map((_, i) => {
        const only = new Float32Array(kind.length);
        only[i] = 1;
        return gradientsOf(few, only, kind, plain).dScale[i % length] as number;
      });
      const x = new Float32Array(rows * length);
      const dy = new Float32Array(rows * length);
      const sums = { dScale: new Float64Array(length), dBias: new Float64Array(length) };
      const sizes = new Float64Array(length);
      for (let i = 0; i < x.length; ++i) {
        const [place, own] = [i % length, h[i % h.length] as number];
        // Of one sign, so that what a sum loses piles up.
        const slope = 1 + ((i * 7919) % 1013) / 4096;
        x[i] = kind[i % kind.length] as number;
        dy[i] = slope;
        sums.dScale[place] = (sums.dScale[place] as number) + slope * own;
        sums.dBias[place] = (sums.dBias[place] as number) + slope;
        sizes[place] = (sizes[place] as number) + slope * Math.max(1, Math.abs(own));
      }
      const options = { ...layoutOptions(layout), ...plain, out: x };
      const got = results(instance, backwardOf(layout.op), x, options, dy);
      const what = describeGradient(layout, 'dScale', 'a million rows');
      expectNear(what, got.dScale as Float32Array, sums.dScale, sumPromise.dScale, sizes);
      // A rounding of the sum, and what the sums of a block's few values lose.
      if (got.dBias) expectNear({ ...what, output: 'dBias' }, got.dBias, sums.dBias, machineEpsilon);
    }
    instance.dispose();
  });
});

describe('parameters that one value has', () => {
  // Whole vectors, and all that can be left of one. Fewer values are computed in double.
  const alone = [16, 17, 18, 19, 771].flatMap((size) => [
    over('layerNorm', [1, size], [1]),
    over('layerNorm', [1, size], [0, 1]),
    over('rmsNorm', [size], [0]),
    by('batchNorm', [1, size], 1),
    by('groupNorm', [1, size], 1, 1),
  ]);

  const rows: readonly [string, (size: number) => Float32Array][] = [
    ['mean/std 0', (size) => draw(size, 1, 0, 3)],
    ['mean/std 1e4', (size) => draw(size, 1, 3e4, 3)],
    ['mean/std 1e7', (size) => Float32Array.from({ length: size }, (_, i) => 1.4e7 + (i % 5))],
    ['equal values', (size) => new Float32Array(size).fill(1000.1)],
    ['one far from the others', (size) => draw(size, 1, 0, 1).with(size >> 1, 1e6)],
    ['large values', (size) => draw(size, 1, 0, 1e30)],
    ['small values', (size) => draw(size, 1, 0, 1e-30)],
  ];

  /** y without scale and bias, as the forward call makes it. */
  function normalized<X extends Float32Array | Float64Array>(layout: Layout, x: X, statistics: Given): X {
    return results(sn, layout.op, x, { ...layoutOptions(layout), ...statistics }).y as X;
  }

  test.each(titled(alone))('%s: dScale is dy * h and dBias is dy, to the bit, and none is -0', (_, layout) => {
    const size = product(layout.shape);
    const { plain } = givenFor(layout);
    const signs = Float32Array.from({ length: size }, (_, i) => [-2, 0, -0, 1][i % 4] as number);
    const ends = [0, size >> 1, size - 1];
    const poisoned = [NaN, Infinity, -Infinity].flatMap((value) => ends.map((i) => draw(size, 2).with(i, value)));
    const slopes = [drawSlopes(size, 2), signs, draw(size, 2, 0, 1e30), draw(size, 2, 0, 1e-38), ...poisoned];
    for (const [data, make] of rows) {
      for (const kind of [Float32Array, Float64Array]) {
        const x = kind.from(make(size));
        const h = normalized(layout, x, plain);
        for (const dy of slopes.map((values) => kind.from(values))) {
          const got = run(layout, dy, x, plain);
          const expected = { ...got, dScale: dy.map((slope, i) => slope * (h[i] as number)).map((value) => 0 + value) };
          if (got.dBias) expected.dBias = dy.map((slope) => 0 + slope);
          expectSame(layout, got, expected, `${kind.name}, ${data}`);
        }
      }
    }
  });

  const withOwnStatistics = alone.filter(({ op }) => op !== 'batchNorm');

  test.each(titled(withOwnStatistics))('%s keeps its promise', (_, layout) => {
    const size = product(layout.shape);
    for (const [data, make] of rows) {
      const x = make(size);
      const { plain, scaled } = givenFor(layout);
      const h = normalized(layout, x, {});
      const slopes: readonly [string, Float32Array][] = [
        ['any', drawSlopes(size, 2)],
        ['nearly equal', draw(size, 2, 100, 1e-5)],
        ['nearly a multiple of h', h.map((value, i) => 3 * value + 1e-6 * Math.sin(i))],
        ['large', draw(size, 2, 0, 1e6)],
      ];
      for (const [kind, dy] of slopes) {
        for (const given of [plain, scaled]) {
          const { dx, dScale, dBias, magnitude } = gradientsOf(layout, dy, x, given);
          const got = run(layout, dy, x, given);
          const what = describeGradient(layout, 'dx', `${data}, dy ${kind}, ${given.scale ? 'scale' : 'no scale'}`);
          expectNear(what, got.dx as Float32Array, dx, dxPromise, magnitude.dx);
          expectNear({ ...what, output: 'dScale' }, got.dScale as Float32Array, dScale, promise, magnitude.dScale);
          if (got.dBias) expectNear({ ...what, output: 'dBias' }, got.dBias, dBias, 0, magnitude.dBias);
        }
      }
    }
  });
});

const withStatistics = layouts.filter(({ op }) => op !== 'batchNorm' && op !== 'lpNormalize');

/** What a forward call saves. */
function save(layout: Layout, x: Floats, options: Options = {}): Given {
  const dtype = x instanceof Float64Array ? 'float64' : 'float32';
  const saved = statisticsFor(layout, dtype);
  const all = { ...layoutOptions(layout), ...saved, ...options };
  const { mean, invStd } = results(sn, layout.op, x, all);
  return { ...(mean ? { mean } : {}), ...(invStd ? { invStd } : {}) };
}

describe('saved statistics', () => {
  test.each(titled(withStatistics))('of %s give what none give', (_, layout) => {
    const size = product(layout.shape);
    const dy = drawSlopes(size, 2);
    const { scaled } = givenFor(layout);
    for (const [deviation, ratio] of [
      [0.1, 0],
      [0.1, 1],
      [30, 1e2],
      [0.1, 1e5],
      [30, 1e5],
    ] as const) {
      const x = draw(size, 1, ratio * deviation, deviation);
      const saved = save(layout, x);
      const data = `saved, deviation ${deviation}, mean/std ${ratio}`;
      const without = run(layout, dy, x, scaled);
      const expected = gradientsOf(layout, dy, x, scaled);
      for (const some of [saved, { invStd: saved.invStd }, { mean: saved.mean }]) {
        const got = run(layout, dy, x, { ...scaled, ...some });
        expectGradients(layout, got, expected, data);
        const most = Math.max(1, largest(expected.dx));
        const ones = new Float64Array(size).fill(1);
        const right = numbersOf(without.dx as Floats);
        expectNear(describeGradient(layout, 'dx', data), numbersOf(got.dx as Floats), right, 1e-6 * most, ones);
      }
    }
  });

  test('of groups of few values, whose dx is the little that is left of g, give what none give', () => {
    for (const size of [1, 2, 3, 4, 8]) {
      for (const layout of [
        over('layerNorm', [20, size], [1]),
        over('rmsNorm', [20, size], [1]),
        over('layerNorm', [size, 20], [0]),
        over('rmsNorm', [size, 20], [0]),
        by('instanceNorm', [2, 10, size], 1),
        by('groupNorm', [2, 10, size], 1, 10),
        ...(size > 1 ? [by('batchNormTraining', [size, 20], 1)] : []),
      ]) {
        const length = product(layout.shape);
        const dy = drawSlopes(length, 2);
        for (const [deviation, ratio] of [
          [0.1, 0],
          [0.5, 0],
          [0.1, 100],
        ] as const) {
          const x = draw(length, 1, ratio * deviation, deviation);
          const data = `saved, deviation ${deviation}, mean/std ${ratio}`;
          const got = run(layout, dy, x, save(layout, x));
          expectGradients(layout, got, gradientsOf(layout, dy, x), data);
        }
      }
    }
  });

  test.each(titled(withStatistics))('of %s keep the epsilon of the forward call', (_, layout) => {
    const size = product(layout.shape);
    const dy = drawSlopes(size, 2);
    const x = draw(size, 1, 0.5, 1);
    const { scaled } = givenFor(layout);
    const saved = save(layout, x, { epsilon: 0.5 });
    const expected = gradientsOf(layout, dy, x, { ...scaled, epsilon: 0.5 });
    for (const epsilon of [undefined, 0, 0.5, 100]) {
      const given = { ...scaled, ...saved, epsilon };
      expectGradients(layout, run(layout, dy, x, given), expected, `epsilon ${epsilon}`);
    }
    // Without them the epsilon is that of the call, which is seen.
    const other = run(layout, dy, x, { ...scaled, epsilon: 100 }).dx as Float32Array;
    if (layout.op !== 'rmsNorm' && product(layout.shape) / countOf(groupsOf(layout)) === 1) return;
    expect(largest(other.map((value, i) => value - (expected.dx[i] as number)))).toBeGreaterThan(0.01);
  });

  test('of any kind: arrays of both types, and numbers', () => {
    for (const layout of withStatistics.filter(({ shape }) => product(shape) < 300)) {
      const size = product(layout.shape);
      const [x, dy] = [draw(size, 1), drawSlopes(size, 2)];
      const saved = save(layout, x) as Record<string, Float32Array>;
      const got = run(layout, dy, x, saved);
      for (const make of [
        (values: Float32Array) => Array.from(values),
        (values: Float32Array) => Float64Array.from(values),
      ]) {
        const converted = Object.fromEntries(Object.entries(saved).map(([name, values]) => [name, make(values)]));
        expectSame(layout, run(layout, dy, x, converted), got, 'saved, of another kind');
      }
    }
  });

  test('that are not those of x are used: 1 / deviation as it is given', () => {
    const layout = over('layerNorm', [2, 20], [1]);
    const [x, dy] = [draw(40, 1), drawSlopes(40, 2)];
    for (const invStd of [
      [2, 0.25],
      [0.01, 3],
    ]) {
      const given = { invStd, scale: drawScale(20, 3) };
      expectGradients(layout, run(layout, dy, x, given), gradientsOf(layout, dy, x, given), `invStd ${invStd}`);
    }
  });

  test('of float64 give what none give', () => {
    for (const layout of withStatistics.filter(({ shape }) => product(shape) < 300)) {
      const size = product(layout.shape);
      const x = Float64Array.from(draw(size, 1, 3e5, 3));
      const dy = Float64Array.from(drawSlopes(size, 2));
      const saved = save(layout, x);
      expect(saved.invStd).toBeInstanceOf(Float64Array);
      const [got, without] = [run(layout, dy, x, saved), run(layout, dy, x)];
      const { magnitude } = gradientsOf(layout, dy, x);
      const bound = (dxPromise / machineEpsilon) * 2 ** -52 * 2;
      const what = describeGradient(layout, 'dx', 'float64, saved');
      expectNear(what, got.dx as Float64Array, without.dx as Float64Array, bound, magnitude.dx);
    }
  });
});

/** Which places of [items, steps, ...] have a value. */
function validPlaces(shape: Shape, lengths: readonly number[]): boolean[] {
  const [item, step] = [placesAlong(shape, [0]), placesAlong(shape, [1])];
  return Array.from(item, (n, i) => (step[i] as number) < (lengths[n] as number));
}

const poisons = [NaN, Infinity, -Infinity, 1e30, -1e30, NaN];

function poison(values: Float32Array, isValid: readonly boolean[]): Float32Array<ArrayBuffer> {
  return Float32Array.from(values, (value, i) => (isValid[i] ? value : (poisons[i % poisons.length] as number)));
}

describe('lengths', () => {
  const ragged: Layout[] = [
    ...(['layerNorm', 'rmsNorm'] as const).flatMap((op) => [
      ...[[1], [0], [0, 1], [1, 0], []].map((axes) => over(op, [6, 7], axes)),
      ...[[2], [1], [0], [1, 2], [2, 1], [0, 1], [2, 0], [0, 1, 2]].map((axes) => over(op, [6, 5, 18], axes)),
      ...[[3], [1, 3], [2], [3, 2], [1, 2, 3], [2, 0]].map((axes) => over(op, [5, 4, 2, 3], axes)),
      over(op, [5, 40], [1]),
      over(op, [4, 3, 300], [2]),
    ]),
    by('batchNormTraining', [6, 5, 4], 2),
    by('batchNormTraining', [6, 5, 70], 2),
    by('batchNormTraining', [4, 6, 3, 5], 3),
    by('batchNormTraining', [4, 6, 3, 5], 2),
    by('batchNormTraining', [4, 6, 3], 0),
    by('batchNormTraining', [5, 9], 0),
  ];

  function kindsOfLengths({ op, shape, axis }: Layout): number[][] {
    const [items, steps] = shape as [number, number];
    const each = (length: (item: number) => number) => Array.from({ length: items }, (_, item) => length(item));
    const mixed = [steps, 0, Math.ceil(steps / 2), steps - 1, 2];
    const kinds = [
      each((item) => mixed[item % mixed.length] as number),
      each((item) => mixed[(items - item) % mixed.length] as number),
      each(() => steps),
      each(() => 0),
      each((item) => (item === items - 1 ? steps : 0)),
    ];
    // One value per channel is an error.
    return op === 'batchNormTraining' && axis === 0 ? kinds : [...kinds, each((item) => Number(item % 2 === 0))];
  }

  test.each(titled(ragged))('of %s: what lies past them has the gradient +0, and no part in any other', (_, layout) => {
    const { op, shape } = layout;
    const size = product(shape);
    const { plain, scaled } = givenFor(layout);
    for (const lengths of kindsOfLengths(layout)) {
      const isValid = validPlaces(shape, lengths);
      const [wholeX, wholeDy] = [draw(size, 1, 3, 2), drawSlopes(size, 2)];
      const [x, dy] = [poison(wholeX, isValid), poison(wholeDy, isValid)];
      for (const given of [plain, scaled]) {
        const all = { ...given, lengths };
        const data = `lengths [${lengths}], ${given.scale ? 'scale' : 'no scale'}`;
        const got = run(layout, dy, x, all);
        expectGradients(layout, got, gradientsOf(layout, dy, x, all), data);
        const padding = (got.dx as Float32Array).filter((_, i) => !isValid[i]);
        expectBits(describeGradient(layout, 'dx past the lengths', data), padding, new Float32Array(padding.length));
        expectSame(layout, run(layout, wholeDy, wholeX, all), got, `${data}, other padding`);
        for (const into of ['dy', 'x']) {
          const copies = { dy: dy.slice(), x: x.slice() };
          const out = into === 'dy' ? copies.dy : copies.x;
          const inPlace = run(layout, copies.dy, copies.x, { ...all, out });
          expect(inPlace.dx).toBe(out);
          expectSame(layout, inPlace, got, `${data}, out is ${into}`);
        }
        const integers = { ...layoutOptions(layout), ...given, lengths: Int32Array.from(lengths) };
        expectSame(layout, results(sn, backwardOf(op), x, integers, dy), got, `${data}, an Int32Array`);
      }
      const saved = save(layout, x, { lengths });
      const got = run(layout, dy, x, { ...scaled, ...saved, lengths });
      const { dx, magnitude } = gradientsOf(layout, dy, x, { ...scaled, lengths });
      const what = describeGradient(layout, 'dx', `lengths [${lengths}], saved`);
      expectNear(what, got.dx as Float32Array, dx, dxPromise, magnitude.dx);
    }
  });

  test.each(titled(ragged))('of %s that are full are none', (_, layout) => {
    const size = product(layout.shape);
    const [x, dy] = [draw(size, 1, 3, 2), drawSlopes(size, 2)];
    const { scaled } = givenFor(layout);
    const [items, steps] = layout.shape as [number, number];
    const lengths = new Array<number>(items).fill(steps);
    const [full, none] = [run(layout, dy, x, { ...scaled, lengths }), run(layout, dy, x, scaled)];
    const { magnitude } = gradientsOf(layout, dy, x, scaled);
    const what = describeGradient(layout, 'dx', 'full lengths');
    expectNear(what, full.dx as Float32Array, none.dx as Float32Array, 2 * dxPromise, magnitude.dx);
  });

  test('that leave few values of many places, over items, keep the promise', () => {
    for (const [shape, axes] of [
      [[20, 2], [0]],
      [
        [20, 3, 5],
        [0, 2],
      ],
      [
        [18, 3, 2, 4],
        [0, 3],
      ],
    ] as const) {
      const lengths = Array.from({ length: shape[0] }, (_, item) => (item % 9 === 1 ? 2 : 1));
      const size = product(shape);
      for (const op of ['layerNorm', 'rmsNorm'] as const) {
        const layout = over(op, shape, axes);
        for (const [offset, deviation] of [
          [0, 0.1],
          [100, 0.1],
          [100, 30],
        ] as const) {
          const x = draw(size, 1, 0, deviation);
          const dy = drawSlopes(size, 2).map((value) => value + offset);
          const expected = gradientsOf(layout, dy, x, { lengths });
          expectGradients(layout, run(layout, dy, x, { lengths }), expected, `mean of dy ${offset}`);
        }
        if (op === 'rmsNorm') continue;
        const { dx } = run(layout, new Float32Array(size).fill(1.1), draw(size, 1, 0, 0.01), { lengths });
        const zeros = new Float64Array(size);
        expectNear(
          describeGradient(layout, 'dx', 'dy 1.1'),
          numbersOf(dx as Floats),
          zeros,
          1e-12,
          new Float64Array(size).fill(1),
        );
      }
    }
  });

  test('an item is that item alone, to the bit', () => {
    const layout = over('layerNorm', [4, 6, 20], [2]);
    const lengths = [6, 0, 3, 1];
    const isValid = validPlaces(layout.shape, lengths);
    const [x, dy] = [poison(draw(480, 1), isValid), poison(drawSlopes(480, 2), isValid)];
    const given = { scale: drawScale(20, 3) };
    const dx = run(layout, dy, x, { ...given, lengths }).dx as Float32Array;
    lengths.forEach((length, item) => {
      const own = (values: Float32Array) => values.subarray(item * 120, item * 120 + length * 20);
      const alone = over('layerNorm', [length, 20], [1]);
      const expected = run(alone, own(dy), own(x), given).dx as Float32Array;
      expectBits(describeGradient(alone, 'dx', `item ${item}`), own(dx), expected);
    });
  });
});

describe('float64', () => {
  interface Exact {
    dx: Decimal[];
    dScale: Decimal[];
    dBias: Decimal[];
    magnitude: { dx: Decimal[]; dScale: Decimal[]; dBias: Decimal[] };
  }
  const [zero, one] = [exact(0), exact(1)];
  const larger = (a: Decimal, b: Decimal) => (a.lessThan(b) ? b : a);

  /** y without scale and bias, and 1 / deviation. */
  function statisticsOf({ op, shape, axes, axis, groups }: Layout, x: Values, given: Given): decimal.Reference {
    const { epsilon, mean, variance } = given;
    if (op === 'layerNorm') return decimal.layerNorm(x, shape, axes, { epsilon });
    if (op === 'rmsNorm') return decimal.rmsNorm(x, shape, axes, { epsilon });
    if (op === 'instanceNorm') return decimal.instanceNorm(x, shape, axis, { epsilon });
    if (op === 'groupNorm') return decimal.groupNorm(x, shape, axis, groups, { epsilon });
    if (op === 'batchNormTraining') return decimal.batchNormTraining(x, shape, axis, { epsilon });
    return decimal.batchNorm(x, shape, axis, { epsilon, ...({ mean, variance } as GivenStatistics) });
  }

  /** The formulas once more, in decimals, of the statistics that the decimal reference has. */
  function exactOf(layout: Layout, dy: Values, x: Values, given: Given): Exact {
    const { op, shape, axes } = layout;
    const { scale, p = 2 } = given;
    const [groupOf, parameterOf] = [groupsOf(layout), parameterPlaces(layout)];
    const zeros = (length: number) => Array.from({ length }, () => zero);
    const length = parameterLength(layout);
    const make = () => ({ dx: zeros(x.length), dScale: zeros(length), dBias: zeros(length) });
    const result: Exact = { ...make(), magnitude: make() };
    const slopes = Array.from(dy, exact);

    let h: Decimal[];
    let factors: Decimal[];
    if (op === 'lpNormalize') {
      h = decimal.lpNormalize(x, shape, axes, { p, epsilon: 0 }).y;
      factors = zeros(countOf(groupOf));
      Array.from(x, exact).forEach((value, i) => {
        const group = groupOf[i] as number;
        const norm = factors[group] as Decimal;
        if (p === Infinity) factors[group] = larger(norm, value.abs());
        else factors[group] = norm.plus(p === 1 ? value.abs() : value.pow(2));
      });
      factors = factors.map((norm) => one.div(p === 2 ? norm.sqrt() : norm));
    } else {
      ({ y: h, invStd: factors } = statisticsOf(layout, x, given));
    }

    const g = slopes.map((slope, i) => (scale ? slope.times(exact(scale[parameterOf[i] as number] as number)) : slope));
    const add = (sums: Decimal[], place: number, value: Decimal) => {
      sums[place] = (sums[place] as Decimal).plus(value);
    };
    const size = (value: Decimal) => larger(one, value.abs());
    slopes.forEach((slope, i) => {
      const [own, place] = [h[i] as Decimal, parameterOf[i] as number];
      add(result.dScale, place, slope.times(own));
      add(result.dBias, place, slope);
      add(result.magnitude.dScale, place, slope.abs().times(size(own)));
      add(result.magnitude.dBias, place, slope.abs());
    });
    if (op === 'batchNorm') {
      result.dx = g.map((own, i) => own.times(factors[parameterOf[i] as number] as Decimal));
      result.magnitude.dx = result.dx.map((value) => value.abs());
      return result;
    }

    for (let group = 0; group < factors.length; ++group) {
      const own = Array.from(groupOf.keys()).filter((i) => groupOf[i] === group);
      const count = op === 'lpNormalize' ? 1 : own.length;
      let [sumOfG, sumOfGH, sizeOfG, sizeOfGH] = [zero, zero, zero, zero];
      const sized = op === 'lpNormalize' ? (value: Decimal) => value.abs() : size;
      const most = own.reduce((found, i) => larger(found, (h[i] as Decimal).abs()), zero);
      const first = own.find((i) => (h[i] as Decimal).abs().equals(most));
      for (const i of own) {
        const [a, b] = [g[i] as Decimal, h[i] as Decimal];
        sumOfG = sumOfG.plus(a);
        sumOfGH = sumOfGH.plus(a.times(b));
        sizeOfG = sizeOfG.plus(a.abs());
        sizeOfGH = sizeOfGH.plus(a.abs().times(sized(b)));
      }
      const isCentered = op !== 'rmsNorm' && op !== 'lpNormalize';
      for (const i of own) {
        const [a, b] = [g[i] as Decimal, h[i] as Decimal];
        const isFlat = op === 'lpNormalize' && p !== 2;
        const sign = exact(Math.sign(x[i] as number));
        const along = isFlat ? (p === 1 || i === first ? sign : zero) : b;
        const mean = isCentered ? sumOfG.div(count) : zero;
        const factor = factors[group] as Decimal;
        result.dx[i] = factor.times(a.minus(mean).minus(along.times(sumOfGH).div(count)));
        const sizes = a.abs().plus(isCentered ? sizeOfG.div(count) : zero);
        result.magnitude.dx[i] = factor.times(sizes.plus(sized(along).times(sizeOfGH).div(count)));
      }
    }
    return result;
  }

  const doubles = (values: Float32Array, seed: number) =>
    // All of their 53 bits.
    Float64Array.from(values, (value, i) => value * (1 + Math.sin(i + seed) * 2 ** -26));
  const ulp = 2 ** -52 / machineEpsilon;

  const small: Layout[] = [
    ...(['layerNorm', 'rmsNorm', 'lpNormalize'] as const).flatMap((op) => [
      over(op, [3, 1], [1]),
      over(op, [3, 2], [1]),
      over(op, [2, 3], [1]),
      over(op, [2, 67], [1]),
      over(op, [18, 3], [0]),
      over(op, [2, 5, 9], [1]),
      over(op, [3, 4, 2], [2, 1]),
      over(op, [3, 4, 2], [0, 2]),
    ]),
    ...(['batchNormTraining', 'batchNorm'] as const).flatMap((op) => [
      by(op, [2, 3], 1),
      by(op, [20, 3], 1),
      by(op, [3, 20], 0),
      by(op, [2, 3, 7], 1),
    ]),
    by('instanceNorm', [2, 3, 7], 1),
    by('instanceNorm', [2, 17, 3], 2),
    by('groupNorm', [2, 6, 4], 1, 2),
    by('groupNorm', [2, 4, 6], 2, 3),
    by('groupNorm', [2, 6], 1, 3),
  ];

  test.each(titled(small))('of %s keeps its promise, in its own epsilon', (_, layout) => {
    const size = product(layout.shape);
    const dy = doubles(drawSlopes(size, 2), 1);
    const length = parameterLength(layout);
    for (const [deviation, ratio] of [
      [0.1, 0],
      [30, 1],
      [0.1, 1e4],
      [30, 1e9],
    ] as const) {
      const x = doubles(draw(size, 1, 0, deviation), 2).map((value) => value + ratio * deviation);
      const { plain } = givenFor(layout, ratio * deviation, deviation);
      const scale = doubles(drawScale(length, 3), 3);
      for (const given of layout.op === 'lpNormalize'
        ? [{ p: 1 }, { p: 2 }, { p: Infinity }]
        : [plain, { ...plain, scale }]) {
        const data = `float64, deviation ${deviation}, mean/std ${ratio}, ${Object.keys(given)}`;
        const got = run(layout, dy, x, given);
        const expected = exactOf(layout, dy, x, given);
        const what = describeGradient(layout, 'dx', data);
        for (const [name, bound] of [
          ['dx', dxPromise],
          ['dScale', sumPromise.dScale],
          ['dBias', sumPromise.dBias],
        ] as const) {
          const values = got[name];
          if (!values) continue;
          expect(values).toBeInstanceOf(Float64Array);
          decimal.expectNear(
            { ...what, output: name },
            values as Float64Array,
            expected[name],
            ulp * bound,
            expected.magnitude[name],
          );
        }
      }
    }
  });

  test.each([300, 5000])('of long groups, of %d values, keeps its promise', (size) => {
    const [one, ...others] = [
      over('layerNorm', [1, size], [1]),
      over('rmsNorm', [size, 1], [0]),
      over('lpNormalize', [1, size], [1]),
      by('batchNormTraining', [size, 1], 1),
    ];
    // Decimals take their time.
    for (const layout of [one, ...(size < 1000 ? others : [])] as Layout[]) {
      const dy = doubles(drawSlopes(size, 2), 1);
      const x = doubles(draw(size, 1, 100, 3), 2);
      const got = run(layout, dy, x).dx as Float64Array;
      const expected = exactOf(layout, dy, x, {});
      const what = describeGradient(layout, 'dx', 'float64');
      decimal.expectNear(what, got, expected.dx, ulp * dxPromise, expected.magnitude.dx);
    }
  });

  test('of values whose squares overflow or underflow', () => {
    for (const size of [1e300, 1e-300]) {
      for (const layout of [
        over('layerNorm', [2, 20], [1]),
        over('rmsNorm', [20, 2], [0]),
        over('lpNormalize', [2, 20], [1]),
        by('instanceNorm', [1, 2, 20], 1),
        by('batchNormTraining', [20, 2], 1),
      ]) {
        const x = doubles(draw(40, 1, 0.3, 0.4), 1).map((value) => value * size);
        const dy = doubles(drawSlopes(40, 2), 2);
        const got = run(layout, dy, x, { epsilon: 0 });
        const expected = exactOf(layout, dy, x, { epsilon: 0 });
        const what = describeGradient(layout, 'dx', `float64 of ${size}`);
        decimal.expectNear(what, got.dx as Float64Array, expected.dx, ulp * dxPromise, expected.magnitude.dx);
        if (!got.dScale) continue;
        const { dScale } = got;
        const bound = ulp * sumPromise.dScale;
        decimal.expectNear({ ...what, output: 'dScale' }, dScale, expected.dScale, bound, expected.magnitude.dScale);
      }
    }
  });
});

describe('float16', () => {
  test.each(titled(layouts))('of %s is that of float32, rounded once', (_, layout) => {
    const size = product(layout.shape);
    const { scaled } = givenFor(layout, 0.4, 3);
    for (const [mean, deviation] of [
      [0.4, 3],
      [200, 2],
      [0, 1e-3],
      [0, 9000],
    ] as const) {
      const [x, dy] = [ofType('float16', draw(size, 1, mean, deviation)), ofType('float16', drawSlopes(size, 2))];
      const [wideX, wideDy] = [Float32Array.from(numbersOf(x.x)), Float32Array.from(numbersOf(dy.x))];
      const got = run(layout, dy.x, x.x, { ...scaled, ...x.options });
      const wide = run(layout, wideDy, wideX, scaled);
      expect(got.dx).toBeInstanceOf(Uint16Array);
      for (const name of parameterGradients) if (got[name]) expect(got[name]).toBeInstanceOf(Float32Array);
      expectSame(layout, got, { ...wide, dx: narrow(wide.dx as Float32Array) }, `float16 around ${mean}`);
    }
  });

  test('has infinity where float32 has more than 65504, and 0 where it has less than half of the smallest', () => {
    const layout = over('lpNormalize', [1, 20], [1]);
    const dy = ofType(
      'float16',
      new Float32Array(20).map((_, i) => (i % 2 ? 1 : -1)),
    );
    const zeros = new Uint16Array(20);
    const dx = numbersOf(run(layout, dy.x, zeros, dy.options).dx as Floats);
    expectBits(
      describeGradient(layout, 'dx', 'zeros'),
      dx,
      dx.map((_, i) => (i % 2 ? Infinity : -Infinity)),
    );
    const large = { ...dy.options, epsilon: 1e9 };
    const flat = numbersOf(run(layout, dy.x, zeros, large).dx as Floats);
    expect([...new Set(flat.map(Math.abs))]).toEqual([0]);
  });
});

describe('buffers', () => {
  function typed(dtype: DType, layout: Layout) {
    const size = product(layout.shape);
    const { x, options } = ofType(dtype, draw(size, 1, 0.4, 3));
    return { x, dy: ofType(dtype, drawSlopes(size, 2)).x, options: options as Given };
  }

  test.each(titled(layouts))('out of %s may be dy or x, and the bits are the same', (_, layout) => {
    const { scaled } = givenFor(layout, 0.4, 3);
    for (const dtype of dtypes) {
      const { x, dy, options } = typed(dtype, layout);
      const given = { ...scaled, ...options };
      const expected = run(layout, dy, x, given);
      for (const into of ['a new array', 'dy', 'x']) {
        const copies = { dy: dy.slice(), x: x.slice() };
        const out = into === 'dy' ? copies.dy : into === 'x' ? copies.x : x.slice().fill(0x1234);
        const got = run(layout, copies.dy, copies.x, { ...given, out });
        expect(got.dx).toBe(out);
        expectSame(layout, got, expected, `${dtype}, out is ${into}`);
        const data = describeGradient(layout, 'input', `${dtype}, out is ${into}`);
        if (into !== 'dy') expectBits(data, numbersOf(copies.dy), numbersOf(dy));
        if (into !== 'x') expectBits(data, numbersOf(copies.x), numbersOf(x));
      }
    }
  });

  test.each(titled(layouts))('%s writes the gradients of its parameters where it is told to', (_, layout) => {
    const length = parameterLength(layout);
    const { scaled } = givenFor(layout, 0.4, 3);
    for (const dtype of dtypes) {
      const { x, dy, options } = typed(dtype, layout);
      const given = { ...scaled, ...options };
      const expected = run(layout, dy, x, given);
      const make = () => (dtype === 'float64' ? new Float64Array(length) : new Float32Array(length)).fill(canary);
      for (const name of parameterGradients) {
        if (!expected[name]) continue;
        expect(expected[name]).toHaveLength(length);
        const receiver = make();
        const got = run(layout, dy, x, { ...given, [`${name}Out`]: receiver });
        expect(got[name]).toBe(receiver);
        expectSame(layout, got, expected, `${dtype}, ${name}Out`);
      }
    }
    const keys = { rmsNorm: ['dx', 'dScale'], lpNormalize: ['dx'] } as Partial<Record<Op, string[]>>;
    const { x, dy } = typed('float32', layout);
    expect(Object.keys(run(layout, dy, x, scaled))).toEqual(keys[layout.op] ?? ['dx', 'dScale', 'dBias']);
  });

  test.each(backwardOps)('%s reads and writes views at any offset, and nothing beside them', (op) => {
    for (const layout of layouts.filter((each) => backwardOf(each.op) === op && product(each.shape) < 300)) {
      const size = product(layout.shape);
      const length = parameterLength(layout);
      const [x, dy] = [draw(size, 1), drawSlopes(size, 2)];
      const { scaled } = givenFor(layout);
      const expected = run(layout, dy, x, scaled);
      for (const offset of [0, 1, 2, 3]) {
        const placed = {
          x: place(x, offset),
          dy: place(dy, 3 - offset),
          out: place(x, (offset + 1) % 4),
          dScaleOut: place(new Float32Array(length), offset),
          dBiasOut: place(new Float32Array(length), (offset + 2) % 4),
        };
        const sums = {
          ...(expected.dScale ? { dScaleOut: placed.dScaleOut.values } : {}),
          ...(expected.dBias ? { dBiasOut: placed.dBiasOut.values } : {}),
        };
        const scale = scaled.scale && place(scaled.scale, offset).values;
        const given = { ...scaled, ...(scale ? { scale } : {}), ...sums, out: placed.out.values };
        expectSame(layout, run(layout, placed.dy.values, placed.x.values, given), expected, `offset ${offset}`);
        expect(Object.values(placed).map((each) => each.intact())).toEqual([true, true, true, true, true]);
        expectBits(describeGradient(layout, 'x', `offset ${offset}`), placed.x.values, x);
        expectBits(describeGradient(layout, 'dy', `offset ${offset}`), placed.dy.values, dy);
      }
    }
  });

  test('parameters are left as they are', () => {
    for (const layout of layouts.filter(({ shape }) => product(shape) < 300)) {
      const size = product(layout.shape);
      const { scaled } = givenFor(layout);
      const all = { ...scaled, ...(withStatistics.includes(layout) ? save(layout, draw(size, 1)) : {}) };
      const before = structuredClone(all);
      run(layout, drawSlopes(size, 2), draw(size, 1), all);
      expect(all).toEqual(before);
    }
  });

  test('dScale and dBias are new arrays in each call', () => {
    const layout = over('layerNorm', [2, 3], [1]);
    const [first, second] = [run(layout, draw(6, 1), draw(6, 2)), run(layout, draw(6, 1), draw(6, 2))];
    for (const name of ['dx', ...parameterGradients] as const) expect(first[name]).not.toBe(second[name]);
    expectSame(layout, first, second, 'twice');
  });
});

describe('edge cases', () => {
  const centered = layouts.filter(({ op }) => !['rmsNorm', 'batchNorm', 'lpNormalize'].includes(op));

  test("the documentation's example: layer norm of [1, 2, 4] by [1, 2, 3], of which the first value matters", () => {
    const x = Float32Array.of(1, 2, 4);
    const dy = Float32Array.of(1, 0, 0);
    for (const { dx, dScale, dBias } of [
      sn.layerNormBackward(dy, x, { scale: [1, 2, 3] }),
      sn.batchNormTrainingBackward(dy, x, { shape: [3, 1] }),
      sn.instanceNormBackward(dy, x, { shape: [1, 1, 3] }),
      sn.groupNormBackward(dy, x, { shape: [1, 1, 3], groups: 1 }),
    ]) {
      expectNear({ op: 'backward', shape: [3], output: 'dx' }, dx, [0.2290823, -0.34362, 0.1145377], 5e-8, [1, 1, 1]);
      expect(dScale[0]).toBeCloseTo(-1.0690415, 6);
      expect(dBias[0]).toBe(1);
    }
  });

  test.each(dtypes)('no rows: dx is empty, and dScale and dBias are +0: %s', (dtype) => {
    for (const [layout, given] of [
      [over('layerNorm', [0, 4], [1]), {}],
      [over('layerNorm', [4, 0, 20], [2, 0]), {}],
      [over('layerNorm', [0, 4, 3], [2]), { lengths: [] }],
      [over('rmsNorm', [0, 4], [1]), {}],
      [by('instanceNorm', [0, 4, 3], 1), {}],
      [by('groupNorm', [0, 4, 3], 1, 2), {}],
      [by('batchNorm', [0, 4], 1), { mean: [1, 2, 3, 4], variance: [1, 2, 3, 4] }],
      [by('batchNorm', [2, 4, 0], 1), { mean: [1, 2, 3, 4], variance: [1, 2, 3, 4] }],
    ] as const) {
      const { x, options } = ofType(dtype, []);
      const length = parameterLength(layout);
      const make = () => (dtype === 'float64' ? new Float64Array(length) : new Float32Array(length)).fill(canary);
      const dBiasOut = layout.op === 'rmsNorm' ? {} : { dBiasOut: make() };
      const all = { ...given, ...options, dScaleOut: make(), ...dBiasOut };
      const scale = draw(length, 1);
      for (const got of [
        run(layout, x, x, { ...given, ...options } as Given),
        run(layout, x, x, { ...all, scale } as Given),
      ]) {
        expect(got.dx).toHaveLength(0);
        for (const name of parameterGradients) {
          const values = got[name];
          if (values) expectBits(describeGradient(layout, name, 'no rows'), values, new Float64Array(length));
        }
      }
    }
    const { x, options } = ofType(dtype, []);
    expect(run(over('lpNormalize', [0, 4], [1]), x, x, options as Given).dx).toHaveLength(0);
  });

  test.each(backwardOps)('%s of no rows beside extents whose product 32 bits cannot hold', (op) => {
    const none = new Float32Array(0);
    const statistics =
      op === 'batchNormBackward' ? { mean: new Float32Array(65536), variance: new Float32Array(65536) } : {};
    const over0 = op === 'lpNormalizeBackward' || op === 'layerNormBackward' || op === 'rmsNormBackward';
    const place = over0 ? { axes: 1 } : op === 'groupNormBackward' ? { groups: 1 } : {};
    const shape = [0, 65536, 65536];
    // A batch without values has no statistics.
    if (op === 'batchNormTrainingBackward') return;
    const got = results(sn, op, none, { shape, ...place, ...statistics }, none);
    expect((got.dx as Floats).length).toBe(0);
    for (const name of parameterGradients) {
      if (got[name]) expectBits({ op, shape, output: name }, got[name], new Float64Array(65536));
    }
    // The instance is as it was.
    expect(sn.rmsNorm(Float32Array.of(2, -2), { epsilon: 0 })).toEqual(Float32Array.of(1, -1));
  });

  test.each(dtypes)('infinity in dy is that of dBias, in every layout: %s', (dtype) => {
    for (const shape of [
      [20, 2],
      [2, 20],
      [3, 2, 20],
      [40, 67],
    ]) {
      const size = product(shape);
      const dy = new Float64Array(size);
      const axis = shape.length === 3 ? 1 : 0;
      dy[0] = Infinity;
      const channels = shape[axis] as number;
      const statistics = { mean: new Float32Array(channels), variance: new Float32Array(channels).fill(1) };
      const { x, options } = ofType(dtype, new Float64Array(size));
      const slopes = ofType(dtype, dy).x;
      const got = results(sn, 'batchNormBackward', x, { shape, axis, ...options, ...statistics }, slopes);
      const expected = new Float64Array(channels);
      expected[0] = Infinity;
      expectBits({ op: 'batchNormBackward', shape, output: 'dBias' }, got.dBias as Floats, expected);
    }
  });

  test.each(dtypes)('one value in each group: dx and dScale are exactly 0: %s', (dtype) => {
    for (const layout of [
      over('layerNorm', [5, 1], [1]),
      over('layerNorm', [1], [0]),
      over('layerNorm', [3, 7], []),
      over('layerNorm', [3, 1, 20], [1]),
      by('instanceNorm', [3, 20], 1),
      by('instanceNorm', [3, 1, 4], 2),
      by('groupNorm', [3, 4], 1, 4),
      by('groupNorm', [3, 1, 4, 1], 2, 4),
    ]) {
      const size = product(layout.shape);
      const { x, options } = ofType(dtype, draw(size, 1, 1000.1, 300));
      const slopes = drawSlopes(size, 2);
      const given = { ...givenFor(layout).scaled, ...options };
      const got = run(layout, ofType(dtype, slopes).x, x, given);
      const zeros = new Float64Array(size);
      expectNear(describeGradient(layout, 'dx', dtype), numbersOf(got.dx as Floats), zeros, 0, zeros);
      expect([...(got.dScale as Float32Array)].every((value) => value === 0)).toBe(true);
      expect(largest(got.dBias as Float32Array)).toBeGreaterThan(0);
    }
  });

  test.each(titled(centered))('constant groups of %s have what is left of g without its mean', (_, layout) => {
    const size = product(layout.shape);
    const dy = drawSlopes(size, 2);
    const { scaled } = givenFor(layout);
    for (const constant of [0.1, 1000.1, 3.3e7, -1e30]) {
      const x = new Float32Array(size).fill(constant);
      const got = run(layout, dy, x, scaled);
      expectGradients(layout, got, gradientsOf(layout, dy, x, scaled), `constant ${constant}`);
      expect([...(got.dScale as Float32Array)].every((value) => value === 0)).toBe(true);
    }
  });

  test.each(titled(centered))('a dy of one value, of any size, gives zeros: %s', (_, layout) => {
    const size = product(layout.shape);
    const zeros = new Float64Array(size);
    for (const constant of [1, 1.6001, 100.1, -3.3e7]) {
      for (const [deviation, ratio] of [
        [0.1, 0],
        [0.1, 1e4],
      ] as const) {
        const x = draw(size, 1, ratio * deviation, deviation);
        const got = numbersOf(run(layout, new Float32Array(size).fill(constant), x).dx as Floats);
        expectNear(describeGradient(layout, 'dx', `dy ${constant}`), got, zeros, 0, zeros);
      }
    }
  });

  test.each(titled(centered))('a dy whose mean is 100 and 1e4 deviations keeps the promise: %s', (_, layout) => {
    const size = product(layout.shape);
    for (const offset of [100, -1e4]) {
      const dy = drawSlopes(size, 2).map((value) => value + offset);
      for (const deviation of [0.1, 30]) {
        const x = draw(size, 1, 0, deviation);
        const slopes = gradientsOf(layout, dy, x, {});
        expectGradients(layout, run(layout, dy, x), slopes, `mean of dy ${offset}`);
      }
    }
  });

  test.each(titled(layouts))('dy of zeros gives zeros: %s', (_, layout) => {
    const size = product(layout.shape);
    const zeros = new Float64Array(size);
    const got = run(layout, new Float32Array(size), draw(size, 1), givenFor(layout).scaled);
    expectNear(describeGradient(layout, 'dx', 'dy 0'), numbersOf(got.dx as Floats), zeros, 0, zeros);
    for (const name of parameterGradients) expect([...(got[name] ?? [])].every((value) => value === 0)).toBe(true);
  });

  const tame = layouts.filter(({ op }) => op !== 'batchNorm');

  test.each(titled(tame))('values of 1e30 and 1e-30 have right gradients with epsilon 0: %s', (_, layout) => {
    const size = product(layout.shape);
    const dy = drawSlopes(size, 2);
    const isOne = countOf(groupsOf(layout)) === size;
    if (isOne && layout.op !== 'lpNormalize' && layout.op !== 'rmsNorm') return;
    for (const [data, make] of [
      ['+-1e30', (i: number) => (i % 2 ? -1e30 : 1e30)],
      ['+-1e-30', (i: number) => (i % 2 ? -1e-30 : 1e-30)],
      ['around 3e30', (i: number) => 3e30 * (1 + Math.sin(3 * i))],
      ['around 3e-30', (i: number) => 3e-30 * (1 + Math.sin(3 * i))],
    ] as const) {
      const x = Float32Array.from({ length: size }, (_, i) => make(i + Math.floor(i / 7)));
      for (const p of layout.op === 'lpNormalize' ? [1, 2, Infinity] : [undefined]) {
        const given = { ...givenFor(layout).scaled, epsilon: 0, p };
        expectGradients(layout, run(layout, dy, x, given), gradientsOf(layout, dy, x, given), `${data}, p ${p}`);
      }
    }
  });

  test('dy of 1e30 and 1e-30 scales the gradients', () => {
    for (const layout of layouts.filter(({ shape }) => product(shape) < 300)) {
      const size = product(layout.shape);
      const x = draw(size, 1, 0.5, 1);
      const { scaled } = givenFor(layout);
      for (const factor of [1e30, 1e-30]) {
        const dy = drawSlopes(size, 2).map((value) => value * factor);
        expectGradients(layout, run(layout, dy, x, scaled), gradientsOf(layout, dy, x, scaled), `dy ${factor}`);
      }
    }
  });

  /** With a value of x or dy replaced: which places of dx share its group, and which parameters it has. */
  function expectContained(layout: Layout, bad: number, dtype: DType): void {
    const size = product(layout.shape);
    const groupOf = groupsOf(layout);
    const isGiven = layout.op === 'batchNorm';
    const { x, options } = ofType(dtype, draw(size, 1));
    const dy = ofType(dtype, drawSlopes(size, 2)).x;
    const { x: values } = ofType(dtype, [bad]);
    const at = Math.floor(size / 2);
    const parameter = parameterPlaces(layout)[at];
    const given = { ...givenFor(layout).scaled, ...options };
    const before = run(layout, dy, x, given);
    const clean = numbersOf(before.dx as Floats);
    const what = (output: string, data: string) => describeGradient(layout, output, `${dtype}, ${bad} in ${data}`);

    const byX = run(layout, dy, x.with(at, values[0] as number) as Floats, given);
    const whole = clean.map((value, i) => (!isGiven && groupOf[i] === groupOf[at] ? NaN : value));
    expectBits(what('dx', 'x'), numbersOf(byX.dx as Floats), whole);
    if (byX.dScale && before.dScale) {
      const [got, right] = [numbersOf(byX.dScale), numbersOf(before.dScale)];
      const shared = new Set(Array.from(parameterPlaces(layout)).filter((_, i) => groupOf[i] === groupOf[at]));
      const mine = right.map((value, i) => {
        if (isGiven) return i === parameter && Number.isNaN(bad) ? NaN : i === parameter ? (got[i] as number) : value;
        return shared.has(i) ? NaN : value;
      });
      expectBits(what('dScale', 'x'), got, mine);
      if (isGiven) expect(Number.isFinite(got[parameter as number])).toBe(false);
    }
    if (byX.dBias && before.dBias) expectBits(what('dBias', 'x'), numbersOf(byX.dBias), numbersOf(before.dBias));

    const byDy = run(layout, dy.with(at, values[0] as number) as Floats, x, given);
    const got = numbersOf(byDy.dx as Floats);
    const others = (each: Float64Array) => each.filter((_, i) => (isGiven ? i !== at : groupOf[i] !== groupOf[at]));
    expectBits(what('dx of others', 'dy'), others(got), others(clean));
    expect(Number.isFinite(got[at])).toBe(false);
    for (const name of parameterGradients) {
      const [sums, right] = [byDy[name], before[name]];
      if (!sums || !right) continue;
      const otherSums = (each: Floats) => numbersOf(each).filter((_, i) => i !== parameter);
      expectBits(what(name, 'dy'), otherSums(sums), otherSums(right));
      expect(Number.isFinite(sums[parameter as number])).toBe(false);
    }
  }

  test.each(titled(layouts))('NaN and infinity stay in their group and their parameter: %s', (_, layout) => {
    for (const dtype of dtypes) for (const bad of [NaN, Infinity, -Infinity]) expectContained(layout, bad, dtype);
  });

  test('the sum of dx over a group is 0 up to rounding', () => {
    for (const layout of centered) {
      const size = product(layout.shape);
      const [x, dy] = [draw(size, 1, 30, 3), drawSlopes(size, 2).map(Math.abs)];
      const { scaled } = givenFor(layout);
      const dx = run(layout, dy, x, scaled).dx as Float32Array;
      const { magnitude } = gradientsOf(layout, dy, x, scaled);
      const groupOf = groupsOf(layout);
      const sums = new Float64Array(countOf(groupOf));
      const sizes = new Float64Array(sums.length);
      dx.forEach((value, i) => {
        const group = groupOf[i] as number;
        sums[group] = (sums[group] as number) + value;
        sizes[group] = (sizes[group] as number) + (magnitude.dx[i] as number);
      });
      expectNear(
        describeGradient(layout, 'sum of dx', 'dy > 0'),
        sums,
        new Float64Array(sums.length),
        dxPromise,
        sizes,
      );
    }
  });

  test('each row is, to the bit, that row alone', () => {
    for (const units of [1, 2, 3, 15, 16, 17, 300, 1025]) {
      for (const op of ['layerNorm', 'rmsNorm', 'lpNormalize'] as const) {
        const layout = over(op, [7, units], [1]);
        const [x, dy] = [draw(7 * units, units, 10, 3), drawSlopes(7 * units, 2)];
        const { scaled } = givenFor(layout);
        const dx = run(layout, dy, x, scaled).dx as Float32Array;
        for (let row = 0; row < 7; ++row) {
          const own = (values: Float32Array) => values.subarray(row * units, (row + 1) * units);
          const alone = over(op, [units], [0]);
          const expected = run(alone, own(dy), own(x), scaled).dx as Float32Array;
          expectBits(describeGradient(layout, 'dx', `row ${row}`), own(dx), expected);
        }
      }
    }
  });
});

describe('lpNormalize', () => {
  const op = 'lpNormalizeBackward';
  const norms = [1, 2, Infinity];

  test('is what one gets by hand', () => {
    const dx = (dy: number[], x: number[], p?: number, epsilon?: number) => [
      ...sn.lpNormalizeBackward(Float32Array.from(dy), Float32Array.from(x), { p, epsilon }).dx,
    ];
    expectNear({ op, shape: [2], output: 'dx' }, dx([1, 0], [3, -4]), [0.128, 0.096], promise);
    expect(dx([1, 0], [1, -3], 1)).toEqual([0.1875, 0.0625]);
    expect(dx([1, 0], [0, -4], 1)).toEqual([0.25, 0]);
    expect(dx([0, 1], [0, -4], 1)).toEqual([0, 0]);
    expect(dx([1, 1], [1, -4], Infinity)).toEqual([0.25, 0.25 * (1 - 0.75)]);
    expect(dx([1, 2], [3, 4], 2, 8)).toEqual([0.125, 0.25]);
    expect(dx([1, 2], [3, 4], 1, 8)).toEqual([0.125, 0.25]);
    expect(dx([1, 2], [3, 4], Infinity, 8)).toEqual([0.125, 0.25]);
  });

  test('p Infinity: of several of the largest magnitude the first one has the gradient', () => {
    const cases: [x: number[], first: number][] = [
      [[1, -2, 2, -2], 1],
      [[2, 2, 2, 2], 0],
      [[0, 0, -2, 2], 2],
      [[-1, 1, 1, 2], 3],
    ];
    for (const [x, first] of cases) {
      const ones = new Float32Array(4).fill(1);
      const dx = [...sn.lpNormalizeBackward(ones, Float32Array.from(x), { p: Infinity }).dx];
      const sum = x.reduce((total, value) => total + value / 2, 0);
      const expected = x.map((value, i) => (1 - (i === first ? Math.sign(value) * sum : 0)) / 2);
      expect(dx).toEqual(expected);
    }
    // In rows that are long, down columns, and over axes in another order: first as x lies in memory.
    for (const layout of [
      over('lpNormalize', [3, 300], [1]),
      over('lpNormalize', [300, 3], [0]),
      over('lpNormalize', [2, 5, 9], [1]),
      over('lpNormalize', [4, 5, 9], [2, 1]),
      over('lpNormalize', [4, 5, 9], [2, 0]),
      over('lpNormalize', [4, 2], [1]),
    ]) {
      const size = product(layout.shape);
      const x = Float32Array.from(draw(size, 1), (value) => Math.max(-1, Math.min(1, Math.round(value))));
      const dy = drawSlopes(size, 2);
      const given = { p: Infinity };
      expectGradients(layout, run(layout, dy, x, given), gradientsOf(layout, dy, x, given), 'ties');
    }
  });

  test('p 1: zeros have no sign', () => {
    for (const layout of [over('lpNormalize', [3, 40], [1]), over('lpNormalize', [40, 3], [0])]) {
      const x = Float32Array.from(draw(120, 1), (value, i) => (i % 7 === 0 ? 0 : i % 7 === 1 ? -0 : value));
      const dy = drawSlopes(120, 2);
      expectGradients(layout, run(layout, dy, x, { p: 1 }), gradientsOf(layout, dy, x, { p: 1 }), 'zeros');
    }
  });

  test.each(norms)('p %d: a norm below epsilon gives dy / epsilon', (p) => {
    for (const shape of [
      [3, 5],
      [3, 40],
    ]) {
      const layout = over('lpNormalize', shape, [1]);
      const size = product(shape);
      const dy = drawSlopes(size, 2);
      for (const [deviation, epsilon] of [
        [1e-15, 1e-12],
        [1e-15, undefined],
        [1, 1e3],
        [1e-25, 1e-20],
      ] as const) {
        const x = draw(size, 1, 0, deviation);
        const expected = dy.map((value) => value / (epsilon ?? 1e-12));
        const got = run(layout, dy, x, { p, epsilon }).dx as Float32Array;
        expectNear({ op, shape, data: `epsilon ${epsilon}`, output: 'dx' }, got, expected, 2 * machineEpsilon);
      }
      // One row below and others above it.
      const x = draw(size, 1, 1, 3).map((value, i) => (i < size / 3 ? value * 1e-15 : value));
      const given = { p, epsilon: 1e-3 };
      expectGradients(layout, run(layout, dy, x, given), gradientsOf(layout, dy, x, given), 'one row below');
    }
  });

  test.each(norms)('p %d: a norm of just epsilon is not below it', (p) => {
    for (const size of [2, 20]) {
      const x = new Float32Array(size);
      x[0] = -0.75;
      const dy = new Float32Array(size).fill(3);
      const dx = new Float32Array(size).fill(4);
      dx[0] = 0;
      expect(sn.lpNormalizeBackward(dy, x, { p, epsilon: 0.75 }).dx).toEqual(p === 1 ? dx.fill(4, 1) : dx);
    }
  });

  test.each(norms)('p %d: a zero vector has the gradient dy / epsilon', (p) => {
    for (const size of [4, 40]) {
      const dy = drawSlopes(size, 2);
      for (const epsilon of [undefined, 1e-3, 1]) {
        const { dx } = sn.lpNormalizeBackward(dy, new Float32Array(size), { p, epsilon });
        const expected = dy.map((value) => value / (epsilon ?? 1e-12));
        expectNear({ op, shape: [size], data: `epsilon ${epsilon}`, output: 'dx' }, dx, expected, 2 * machineEpsilon);
      }
    }
  });
});

describe('float32 of batchNorm', () => {
  test('is linear in dy, whatever x is', () => {
    const layout = by('batchNorm', [6, 4, 5], 1);
    const { scaled } = givenFor(layout);
    const dy = drawSlopes(120, 2);
    const first = run(layout, dy, draw(120, 1), scaled);
    const second = run(layout, dy, draw(120, 7, 1e6, 30), scaled);
    expectBits(describeGradient(layout, 'dx', 'another x'), second.dx as Float32Array, first.dx as Float32Array);
    expectBits(
      describeGradient(layout, 'dBias', 'another x'),
      second.dBias as Float32Array,
      first.dBias as Float32Array,
    );
  });

  test('of variances at and below 0 is infinite and NaN, as y is', () => {
    const dy = Float32Array.of(1, -1, 0, 2);
    const by = (variance: number, epsilon: number) => [
      ...sn.batchNormBackward(dy, Float32Array.of(3, 3, 3, 3), {
        shape: [4, 1],
        mean: [2],
        variance: [variance],
        epsilon,
      }).dx,
    ];
    expect(by(0, 0)).toEqual([Infinity, -Infinity, NaN, Infinity]);
    expect(by(-1, 0)).toEqual([NaN, NaN, NaN, NaN]);
    expect(by(-0.5, 0.75)).toEqual([2, -2, 0, 4]);
  });
});
