import {
  type BatchNormOptions,
  type BatchNormTrainingOptions,
  load,
  type Simdnorm,
  type Tensor,
  type Vector,
} from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, drawScale, drawVariance, kinds, place, placeOut, product, resizableBuffer } from './data.ts';
import * as reference from './reference.ts';
import {
  affinePromise,
  type Case,
  expectBits,
  expectNear,
  invStdPromise,
  machineEpsilon,
  promise,
  variancePromise,
} from './reference.ts';
import { changes, expectInvariance, type Input, summedInputs, type Weight } from './table-1.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

/** Every position of the channel axis, with extents of 1 on either side of it and at it. */
const layouts = [
  { shape: [7], axis: 0 },
  { shape: [5, 3], axis: 0 },
  { shape: [5, 3], axis: 1 },
  { shape: [64, 33], axis: 1 },
  { shape: [3, 200], axis: 0 },
  { shape: [4, 1], axis: 1 },
  { shape: [1, 9], axis: 1 },
  { shape: [70, 1], axis: 1 },
  { shape: [5, 1, 9], axis: 1 },
  { shape: [1, 50], axis: 0 },
  { shape: [2, 3, 4], axis: 0 },
  { shape: [2, 3, 4], axis: 1 },
  { shape: [2, 3, 4], axis: 2 },
  { shape: [1, 3, 67], axis: 1 },
  { shape: [3, 17, 1], axis: 1 },
  { shape: [2, 3, 4, 5], axis: 0 },
  { shape: [2, 3, 4, 5], axis: 1 },
  { shape: [2, 3, 4, 5], axis: 2 },
  { shape: [2, 3, 4, 5], axis: 3 },
  { shape: [2, 5, 16, 16], axis: 1 },
  { shape: [2, 16, 16, 5], axis: 3 },
  { shape: [2, 2, 3, 2, 3], axis: 2 },
];
/** Batch norm in training needs more than one value per channel. */
const trainingLayouts = layouts.filter(({ shape, axis }) => product(shape) > (shape[axis] as number));

function expectY(what: Case, got: Float32Array, expected: reference.Reference): void {
  expectNear(what, got, expected.y, affinePromise, expected.magnitude);
}

function expectStatistics(
  what: Case,
  got: { mean: Float32Array; variance: Float32Array; invStd: Float32Array },
  expected: reference.Reference,
): void {
  // 5 machine epsilons of a deviation, and the rounding of the mean itself.
  const magnitude = expected.mean.map((mean, c) => Math.sqrt(expected.variance[c] as number) + Math.abs(mean) / 10);
  expectNear({ ...what, output: 'mean' }, got.mean, expected.mean, promise, magnitude);
  expectNear({ ...what, output: 'variance' }, got.variance, expected.variance, variancePromise);
  expectNear({ ...what, output: 'invStd' }, got.invStd, expected.invStd, invStdPromise);
}

describe('batchNorm', () => {
  const op = 'batchNorm';

  test.each(layouts)('$shape by axis $axis', ({ shape, axis }) => {
    const channels = shape[axis] as number;
    const x = draw(product(shape), axis + 1);
    const mean = draw(channels, 2);
    const variance = drawVariance(channels, 3);
    const scale = drawScale(channels, 4);
    const bias = draw(channels, 5);
    const given = { mean, variance, scale, bias };
    const y = sn.batchNorm(x, { shape, axis, ...given });
    expectY({ op, shape }, y, reference.batchNorm(x, shape, axis, given));
    expectBits({ op, shape }, sn.batchNorm(x, { shape, axis: axis - shape.length, ...given }), y);
    if (axis === 1) {
      expectBits({ op, shape }, sn.batchNorm(x, { shape, ...given }), y);
      expectBits({ op, shape }, sn.batchNorm(x, { shape, axis: null as never, ...given }), y);
    }
    const plain = { shape, axis, mean, variance, epsilon: 0.5 };
    expectY({ op, shape }, sn.batchNorm(x, plain), reference.batchNorm(x, shape, axis, plain));
  });

  test('without a shape x is one case per channel', () => {
    const x = draw(9, 1);
    const given = { mean: draw(9, 2), variance: drawVariance(9, 3) };
    expectY({ op, shape: [9] }, sn.batchNorm(x, { axis: 0, ...given }), reference.batchNorm(x, [9], 0, given));
  });

  describe('kinds of parameters', () => {
    const shape = [3, 11, 2];
    const x = draw(66, 1);
    const floats = { mean: draw(11, 2), variance: drawVariance(11, 3), scale: drawScale(11, 4), bias: draw(11, 5) };
    const present = kinds.filter(([kind]) => kind.endsWith(']') || kind.endsWith('Array'));

    const pairs = kinds.flatMap(([scaleKind, makeScale]) =>
      kinds.map(([biasKind, makeBias]) => ({ scaleKind, biasKind, makeScale, makeBias })),
    );
    test.each(pairs)('scale $scaleKind, bias $biasKind', ({ makeScale, makeBias }) => {
      const scale = makeScale(floats.scale) as Exclude<Vector, Tensor> | undefined;
      const bias = makeBias(floats.bias) as Exclude<Vector, Tensor> | undefined;
      const { mean, variance } = floats;
      const y = sn.batchNorm(x, { shape, mean, variance, scale, bias });
      expectY({ op, shape }, y, reference.batchNorm(x, shape, 1, { mean, variance, scale, bias }));
      const training = sn.batchNormTraining(x, { shape, scale, bias });
      const expected = reference.batchNormTraining(x, shape, 1, { scale, bias });
      expectY({ op: 'batchNormTraining', shape }, training.y, expected);
    });

    test('mean and variance', () => {
      const expected = sn.batchNorm(x, { shape, ...floats });
      for (const [, makeMean] of present) {
        for (const [, makeVariance] of present) {
          const mean = makeMean(floats.mean) as Vector;
          const variance = makeVariance(floats.variance) as Vector;
          expectBits({ op, shape }, sn.batchNorm(x, { shape, ...floats, mean, variance }), expected);
        }
      }
    });

    test('all of them do something', () => {
      const expected = [...sn.batchNorm(x, { shape, ...floats })];
      for (const name of ['mean', 'variance', 'scale', 'bias'] as const) {
        const options = { shape, ...floats, [name]: floats[name].map((value) => value * 1.01) };
        expect([...sn.batchNorm(x, options)]).not.toEqual(expected);
      }
      expect([...sn.batchNorm(x, { shape, ...floats, epsilon: 1e-2 })]).not.toEqual(expected);
    });

    test('one array for several parameters gives what copies give', () => {
      const same = drawVariance(11, 6);
      const copy = () => Array.from(same);
      const untouched = Float32Array.from(same);
      const variants: [BatchNormOptions, BatchNormOptions][] = [
        [
          { ...floats, scale: same, variance: same },
          { ...floats, scale: copy(), variance: copy() },
        ],
        [
          { ...floats, scale: same, bias: same },
          { ...floats, scale: copy(), bias: copy() },
        ],
        [
          { ...floats, mean: same, bias: same },
          { ...floats, mean: copy(), bias: copy() },
        ],
        [
          { mean: same, variance: same, scale: same, bias: same },
          { mean: copy(), variance: copy(), scale: copy(), bias: copy() },
        ],
        [
          { ...floats, mean: x.subarray(1, 12), scale: x.subarray(5, 16) },
          { ...floats, mean: x.slice(1, 12), scale: x.slice(5, 16) },
        ],
      ];
      for (const [aliased, copied] of variants) {
        expectBits({ op, shape }, sn.batchNorm(x, { shape, ...aliased }), sn.batchNorm(x, { shape, ...copied }));
      }
      const training = sn.batchNormTraining(x, { shape, scale: same, bias: same }).y;
      expectBits({ op, shape }, training, sn.batchNormTraining(x, { shape, scale: copy(), bias: copy() }).y);
      expectBits({ op, shape }, same, untouched);
    });
  });

  test('empty x', () => {
    const empty = new Float32Array(0);
    const three = { mean: [1, 2, 3], variance: [1, 1, 1] };
    expect(sn.batchNorm(empty, { shape: [0, 3], ...three })).toHaveLength(0);
    expect(sn.batchNorm(empty, { shape: [4, 3, 0], ...three, scale: [1, 2, 3] })).toHaveLength(0);
    expect(sn.batchNorm(empty, { shape: [0, 3, 65536, 65536], ...three })).toHaveLength(0);
    expect(sn.batchNorm(empty, { shape: [2, 0, 3], mean: [], variance: [], out: empty })).toBe(empty);
  });

  test('statistics that divide by 0, and below it', () => {
    const x = Float32Array.from([1, 2, 3, NaN]);
    const by = (variance: number, epsilon: number) => [
      ...sn.batchNorm(x, { shape: [4, 1], mean: [2], variance: [variance], epsilon }),
    ];
    expect(by(0, 0)).toEqual([-Infinity, NaN, Infinity, NaN]);
    expect(by(-1, 0)).toEqual([NaN, NaN, NaN, NaN]);
    expect(by(NaN, 0)).toEqual([NaN, NaN, NaN, NaN]);
    expect(by(-0.5, 1.5)).toEqual([-1, 0, 1, NaN]);
    // 0 is -0 or 0 here, and both are right.
    expect(by(Infinity, 0).map(Math.abs)).toEqual([0, 0, 0, NaN]);
  });

  test('NaN stays in its channel', () => {
    const shape = [2, 3, 5];
    const x = draw(30, 1);
    const given = { mean: draw(3, 2), variance: drawVariance(3, 3) };
    const clean = sn.batchNorm(x, { shape, ...given });
    const y = sn.batchNorm(x, { shape, mean: given.mean.with(1, NaN), variance: given.variance });
    for (let i = 0; i < 30; ++i) expect(y[i]).toBe(Math.floor(i / 5) % 3 === 1 ? NaN : clean[i]);
  });

  test('large and small statistics', () => {
    const x = Float32Array.from([1e30, -1e30, 3e30, 2e-30, 4e-30, 1e-30]);
    const options = { shape: [2, 3], axis: 0, mean: [1e30, 2e-30], epsilon: 0 };
    for (const variance of [
      [1e38, 1e-38],
      [4e37, 1e-30],
    ]) {
      const expected = reference.batchNorm(x, [2, 3], 0, { ...options, variance });
      expectY({ op, shape: [2, 3] }, sn.batchNorm(x, { ...options, variance }), expected);
    }
  });

  // Algorithm 2, step 11: one factor and one summand for each channel.
  test('is an affine transformation', () => {
    const shape = [20, 6];
    const x = draw(120, 1);
    const given = { mean: draw(6, 2), variance: drawVariance(6, 3), scale: drawScale(6, 4), bias: draw(6, 5) };
    const y = sn.batchNorm(x, { shape, ...given });
    const expected = Array.from(x, (value, i) => {
      const c = i % 6;
      const factor = (given.scale[c] as number) / Math.sqrt((given.variance[c] as number) + 1e-5);
      return factor * value + ((given.bias[c] as number) - factor * (given.mean[c] as number));
    });
    expectNear({ op, shape }, y, expected, affinePromise, reference.batchNorm(x, shape, 1, given).magnitude);
  });
});

describe('batchNormTraining', () => {
  const op = 'batchNormTraining';

  test.each(trainingLayouts)('$shape by axis $axis', ({ shape, axis }) => {
    const channels = shape[axis] as number;
    const x = draw(product(shape), axis + 1);
    const untouched = Float32Array.from(x);
    const options = { shape, axis, scale: drawScale(channels, 4), bias: draw(channels, 5), epsilon: 1e-3 };
    const expected = reference.batchNormTraining(x, shape, axis, options);
    const result = sn.batchNormTraining(x, options);
    expectY({ op, shape }, result.y, expected);
    expectStatistics({ op, shape }, result, expected);
    expect(result.count).toBe(product(shape) / channels);
    expect(Object.keys(result).sort()).toEqual(['count', 'invStd', 'mean', 'variance', 'y']);
    expectBits({ op, shape }, x, untouched);
    const fromTheEnd = sn.batchNormTraining(x, { ...options, axis: axis - shape.length });
    expectBits({ op, shape }, fromTheEnd.y, result.y);
    expectBits({ op, shape }, fromTheEnd.invStd, result.invStd);
    const plain = sn.batchNormTraining(x, { shape, axis });
    expectNear(
      { op, shape },
      plain.y,
      reference.batchNormTraining(x, shape, axis).y,
      promise,
      reference.batchNormTraining(x, shape, axis).magnitude,
    );
    if (axis === 1) expectBits({ op, shape }, sn.batchNormTraining(x, { shape }).y, plain.y);
  });

  test('the paper in numbers', () => {
    const x = Float32Array.from([2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1]);
    const { mean, variance, count } = sn.batchNormTraining(x, { shape: [3, 4] });
    expect(count).toBe(3);
    expectNear({ op, shape: [3, 4], output: 'mean' }, mean, [0, 10, 2 / 3, 1 / 3], machineEpsilon);
    const running = Array.from(variance, (each) => (each * count) / (count - 1));
    expectNear({ op, shape: [3, 4], output: 'variance' }, running, [12, 109, 16 / 3, 4 / 3], machineEpsilon);
  });

  test('is batchNorm with its own statistics', () => {
    const shape = [8, 5, 7];
    const x = draw(280, 1);
    const options = { shape, scale: drawScale(5, 2), bias: draw(5, 3) };
    const { y, mean, variance } = sn.batchNormTraining(x, options);
    const expected = reference.batchNormTraining(x, shape, 1, options);
    const inference = sn.batchNorm(x, { ...options, mean, variance });
    const bound = affinePromise + invStdPromise;
    expectNear({ op, shape }, inference, y, bound, expected.magnitude);
  });

  for (const shared of [false, true]) {
    for (const offset of [0, 1, 2, 3]) {
      for (const axis of [0, 1, 2]) {
        test(`axis ${axis}, subarrays at ${offset} floats${shared ? ' of shared memory' : ''}`, () => {
          const shape = [6, 9, 5];
          const channels = shape[axis] as number;
          const values = draw(270, 1);
          const floats = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
          const statistics = { mean: draw(channels, 4), variance: drawVariance(channels, 5) };
          const x = place(values, offset, shared);
          const scale = place(floats.scale, (offset + 1) % 4, shared);
          const bias = place(floats.bias, (offset + 2) % 4, shared);
          const mean = place(statistics.mean, (offset + 3) % 4, shared);
          const variance = place(statistics.variance, offset, shared);
          const out = placeOut(270, (offset + 3) % 4, shared);
          const meanOut = placeOut(channels, offset, shared);
          const varianceOut = placeOut(channels, (offset + 2) % 4, shared);
          const invStdOut = placeOut(channels, (offset + 1) % 4, shared);
          const placed = [x, scale, bias, mean, variance, out, meanOut, varianceOut, invStdOut];
          const common = { shape, axis, scale: scale.values, bias: bias.values };
          const training = {
            ...common,
            meanOut: meanOut.values,
            varianceOut: varianceOut.values,
            invStdOut: invStdOut.values,
          };
          const inference = { ...common, mean: mean.values, variance: variance.values };
          const expected = reference.batchNormTraining(values, shape, axis, floats);
          const plain = sn.batchNormTraining(values, { shape, axis, ...floats });
          const inferred = sn.batchNorm(values, { shape, axis, ...floats, ...statistics });

          expect(sn.batchNorm(x.values, { ...inference, out: out.values })).toBe(out.values);
          expectBits({ op: 'batchNorm', shape }, out.values, inferred);
          const result = sn.batchNormTraining(x.values, { ...training, out: out.values });
          expect(result.y).toBe(out.values);
          expect(result.mean).toBe(meanOut.values);
          expect(result.variance).toBe(varianceOut.values);
          expect(result.invStd).toBe(invStdOut.values);
          expectY({ op, shape }, result.y, expected);
          expectStatistics({ op, shape }, result, expected);
          expectBits({ op, shape }, result.y, plain.y);
          expectBits({ op, shape }, result.mean, plain.mean);
          expectBits({ op, shape }, x.values, values);

          meanOut.values.fill(0);
          expectBits({ op, shape }, sn.batchNormTraining(x.values, { ...training, out: x.values }).y, plain.y);
          expectBits({ op, shape }, x.values, plain.y);
          expectBits({ op, shape }, meanOut.values, plain.mean);
          x.values.set(values);
          expect(sn.batchNorm(x.values, { ...inference, out: x.values })).toBe(x.values);
          expectBits({ op: 'batchNorm', shape }, x.values, inferred);
          expect(placed.map((each) => each.intact())).not.toContain(false);
          expectBits({ op, shape }, scale.values, floats.scale);
          expectBits({ op, shape }, mean.values, statistics.mean);
        });
      }
    }
  }

  test('each of the statistics alone', () => {
    const shape = [4, 3];
    const x = draw(12, 1);
    const expected = sn.batchNormTraining(x, { shape });
    for (const name of ['meanOut', 'varianceOut', 'invStdOut'] as const) {
      const values = new Float32Array(3);
      const absent = { meanOut: null, varianceOut: undefined, invStdOut: null } as never as BatchNormTrainingOptions;
      const result = sn.batchNormTraining(x, { shape, ...absent, [name]: values });
      const key = name.slice(0, -3) as 'mean' | 'variance' | 'invStd';
      expect(result[key]).toBe(values);
      for (const each of ['y', 'mean', 'variance', 'invStd'] as const) {
        expectBits({ op, shape, output: each }, result[each], expected[each]);
      }
    }
  });

  test('another view of x as out, and arrays on resizable buffers', () => {
    const shape = [4, 3];
    const values = draw(12, 1);
    const expected = sn.batchNormTraining(values, { shape }).y;
    const x = Float32Array.from(values);
    const out = new Float32Array(x.buffer);
    expect(sn.batchNormTraining(x, { shape, out }).y).toBe(out);
    expectBits({ op, shape }, x, expected);
    const resizable = new Float32Array(resizableBuffer(48, 96));
    resizable.set(values);
    expectBits({ op, shape }, sn.batchNormTraining(resizable, { shape, out: resizable }).y, expected);
  });

  test('no channels', () => {
    const result = sn.batchNormTraining(new Float32Array(0), { shape: [2, 0, 3] });
    expect([result.y, result.mean, result.variance, result.invStd].map(({ length }) => length)).toEqual([0, 0, 0, 0]);
    expect(result.count).toBe(6);
    expect(sn.batchNormTraining(new Float32Array(0), { shape: [65536, 0, 65536] }).y).toHaveLength(0);
  });

  test.each([0.1, 1000.1, 3.3e7, -1e30, 1e-40])('a constant channel of %f gives exactly bias', (constant) => {
    for (const { shape, axis } of trainingLayouts) {
      const channels = shape[axis] as number;
      const x = new Float32Array(product(shape)).fill(constant);
      const bias = draw(channels, 1);
      const { y, mean, variance } = sn.batchNormTraining(x, { shape, axis, bias, scale: drawScale(channels, 2) });
      const places = product(shape.slice(axis + 1));
      expectBits(
        { op, shape },
        y,
        Array.from(x, (_, i) => bias[Math.floor(i / places) % channels] as number),
      );
      expect(mean.every((each) => each === x[0])).toBe(true);
      expect(variance.every((each) => each === 0)).toBe(true);
    }
  });

  test.each([NaN, Infinity, -Infinity])('%f stays in its channel', (bad) => {
    for (const { shape, axis } of trainingLayouts) {
      const channels = shape[axis] as number;
      if (channels === 1) continue;
      const places = product(shape.slice(axis + 1));
      const x = draw(product(shape), 1);
      const clean = sn.batchNormTraining(x, { shape, axis });
      x[x.length - 1] = bad;
      const { y, mean, variance, invStd } = sn.batchNormTraining(x, { shape, axis });
      const channelOf = (i: number) => Math.floor(i / places) % channels;
      const others = (values: Float32Array) => values.filter((_, i) => channelOf(i) !== channels - 1);
      expectBits({ op, shape }, others(y), others(clean.y));
      expect(y[x.length - 1]).toBeNaN();
      expect(Number.isFinite(mean[channels - 1])).toBe(false);
      expect([variance[channels - 1], invStd[channels - 1]]).toEqual([NaN, NaN]);
      for (const [got, expected] of [
        [mean, clean.mean],
        [variance, clean.variance],
        [invStd, clean.invStd],
      ] as const) {
        expectBits({ op, shape }, got.subarray(0, channels - 1), expected.subarray(0, channels - 1));
      }
    }
  });

  test('+-1e30 and +-1e-30 give exactly +-1, in one batch with others', () => {
    const x = Float32Array.from([1e30, 1e-30, 1, 5, -1e30, -1e-30, -1, 5]);
    const { y, mean, variance } = sn.batchNormTraining(x, { shape: [2, 4], epsilon: 0 });
    expect([...y]).toEqual([1, 1, 1, NaN, -1, -1, -1, NaN]);
    expect([...mean]).toEqual([0, 0, 0, 5]);
    // 1e60 and 1e-60 are no float32.
    expect([...variance]).toEqual([Infinity, 0, 1, 0]);
  });

  test.each([0, 1, 1e3, 1e5, 1e7])('mean/std %f', (ratio) => {
    for (const { shape, axis } of [
      { shape: [4099, 3], axis: 1 },
      { shape: [70, 40], axis: 1 },
      { shape: [5, 3, 333], axis: 1 },
      { shape: [2, 2, 2100], axis: 0 },
    ]) {
      for (const deviation of [0.1, 30]) {
        const x = draw(product(shape), 1, ratio * deviation, deviation);
        for (const epsilon of [0, 1e-5]) {
          const result = sn.batchNormTraining(x, { shape, axis, epsilon });
          const expected = reference.batchNormTraining(x, shape, axis, { epsilon });
          const what = { op, shape, data: `mean/std ${ratio}, deviation ${deviation}` };
          expectNear(what, result.y, expected.y, promise, expected.magnitude);
          expectStatistics(what, result, expected);
        }
      }
    }
  });

  test('300 x 4099 at odd offsets, by either axis', () => {
    const shape = [300, 4099];
    const values = draw(300 * 4099, 9, 5, 2);
    const x = place(values, 1);
    const out = placeOut(values.length, 3);
    for (const axis of [0, 1]) {
      const channels = shape[axis] as number;
      const floats = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
      const given = { shape, axis, scale: place(floats.scale, 2).values, bias: place(floats.bias, 3).values };
      const expected = reference.batchNormTraining(values, shape, axis, floats);
      const result = sn.batchNormTraining(x.values, { ...given, out: out.values });
      expectY({ op, shape }, result.y, expected);
      expectStatistics({ op, shape }, result, expected);
      const { mean, variance } = result;
      const inference = sn.batchNorm(x.values, { ...given, mean, variance, out: out.values });
      const inferred = reference.batchNorm(values, shape, axis, { ...floats, mean, variance });
      expectY({ op: 'batchNorm', shape }, inference, inferred);
    }
    expect(x.intact() && out.intact()).toBe(true);
    expectBits({ op, shape, output: 'x' }, x.values, values);
  });

  test('to the bit: scaling by powers of two, negation, a channel alone', () => {
    for (const { shape, axis } of trainingLayouts) {
      const channels = shape[axis] as number;
      const places = product(shape.slice(axis + 1));
      const x = draw(product(shape), 3, 2, 3);
      const { y } = sn.batchNormTraining(x, { shape, axis });
      for (const k of [-20, -1, 3, 31]) {
        const scaled = { shape, axis, epsilon: 1e-5 * 4 ** k };
        expectBits(
          { op, shape, data: `2^${k} x` },
          sn.batchNormTraining(
            x.map((each) => each * 2 ** k),
            scaled,
          ).y,
          y,
        );
      }
      const negated = sn.batchNormTraining(
        x.map((each) => -each),
        { shape, axis },
      );
      expectBits(
        { op, shape, data: '-x' },
        negated.y,
        y.map((each) => -each),
      );
      // The order of summation depends on the layout, so the others stay, but as zeros.
      const alone = x.map((each, i) => (Math.floor(i / places) % channels === 0 ? each : 0));
      const first = (values: Float32Array) => values.filter((_, i) => Math.floor(i / places) % channels === 0);
      expectBits({ op, shape, data: 'alone' }, first(sn.batchNormTraining(alone, { shape, axis }).y), first(y));
    }
  });

  test('growing and shrinking batches', async () => {
    const growing = await load({});
    const capacities = new Set<number>();
    for (const cases of [2, 500, 50_000, 3, 200_000, 400_000, 2, 700_000]) {
      const shape = [cases, 3];
      const x = draw(3 * cases, cases, 10, 2);
      const result = growing.batchNormTraining(x, { shape });
      capacities.add(growing.memory.capacity);
      const expected = reference.batchNormTraining(x, shape, 1);
      expectNear({ op, shape }, result.y, expected.y, promise, expected.magnitude);
      expectStatistics({ op, shape }, result, expected);
    }
    expect(capacities.size).toBeGreaterThanOrEqual(4);
    growing.dispose();
  });
});

// Ba, Kiros, Hinton 2016, table 1. The summed inputs of a layer are a = W x; each unit has a mean and variance over the
// cases.
describe('invariances of the paper', () => {
  const op = 'batchNormTraining';
  const cases = 40;
  const inputs = 9;
  const units = 12;
  const shape = [cases, units];
  const weights = draw(units * inputs, 1, 0.2, 1);
  const data = draw(cases * inputs, 2, 0.5, 2);
  const w = (unit: number, input: number) => weights[unit * inputs + input] as number;
  const x = (n: number, input: number) => data[n * inputs + input] as number;

  const layer = (w: Weight, x: Input) => summedInputs(w, x, { cases, units, inputs });

  test.each(changes(w, x))('$change, invariant: $invariant.batchNorm', ({ change, invariant, ...changed }) => {
    const before = sn.batchNormTraining(layer(w, x), { shape, epsilon: 0 }).y;
    const after = sn.batchNormTraining(layer(changed.w, changed.x), { shape, epsilon: 0 }).y;
    expectInvariance({ op, shape, data: change }, before, after, invariant.batchNorm);
  });

  // Ioffe, Szegedy 2015, section 3.2: the effect of a bias is cancelled by the subtraction of the mean.
  test('a bias before batch norm cancels in training, and does not at inference', () => {
    const a = layer(w, x);
    const b = draw(units, 7);
    const biased = a.map((value, i) => value + (b[i % units] as number));
    const training = sn.batchNormTraining(a, { shape, epsilon: 0 });
    const magnitude = Array.from(training.y, (value) => Math.max(1, Math.abs(value)));
    const bound = 2 * (promise + 20 * machineEpsilon);
    expectNear({ op, shape }, sn.batchNormTraining(biased, { shape, epsilon: 0 }).y, training.y, bound, magnitude);
    const given = { shape, mean: training.mean, variance: training.variance, epsilon: 0 };
    expect([...sn.batchNorm(biased, given)]).not.toEqual([...sn.batchNorm(a, given)]);
  });

  // Ioffe, Szegedy 2015, algorithm 2, with the unbiased variance.
  test('folding inference into the layer before it changes nothing', () => {
    const { mean, variance, count } = sn.batchNormTraining(layer(w, x), { shape });
    const unbiased = variance.map((each) => (each * count) / (count - 1));
    const given = { mean, variance: unbiased, scale: drawScale(units, 8), bias: draw(units, 9) };
    const y = sn.batchNorm(layer(w, x), { shape, ...given });
    const factor = given.scale.map((each, c) => each / Math.sqrt((unbiased[c] as number) + 1e-5));
    const folded = layer((u, i) => (factor[u] as number) * w(u, i), x).map((value, i) => {
      const c = i % units;
      return value + (given.bias[c] as number) - (factor[c] as number) * (mean[c] as number);
    });
    const { magnitude } = reference.batchNorm(layer(w, x), shape, 1, given);
    expectNear({ op: 'batchNorm', shape }, y, folded, affinePromise + 20 * machineEpsilon, magnitude);
  });
});

test('a given mean so far from x that their difference is no float32', () => {
  const options = { shape: [1, 1], mean: [-3e38], variance: [1e20], epsilon: 0 };
  const [y] = sn.batchNorm(new Float32Array([3e38]), options);
  const expected = (Math.fround(3e38) * 2) / Math.sqrt(Math.fround(1e20));
  expect(Math.abs((y as number) / expected - 1)).toBeLessThan(2 ** -22);
});
