import {
  type BatchNormLayer,
  type BatchNormLayerOptions,
  type ErrorCode,
  load,
  NormError,
  type Simdnorm,
} from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { onnxVersion, runNode } from '../onnx/session.mjs';
import { type RunningCase, runningCases, torchVersion } from '../pytorch/vectors.ts';
import { dtypes, numbersOf, ofType } from './calls.ts';
import { canary, detach, draw, drawScale, drawVariance, product } from './data.ts';
import { placesAlong } from './layouts.ts';
import * as reference from './reference.ts';
import {
  affinePromise,
  expectBits,
  expectNear,
  invStdPromise,
  machineEpsilon,
  promise,
  variancePromise,
} from './reference.ts';

const op = 'BatchNorm';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

type Numbers = ArrayLike<number>;

interface Statistics {
  readonly mean: Numbers;
  readonly variance: Numbers;
}

/**
 * How near running statistics come: to the batches' own errors one rounding is added. The variances' are relative and
 * those of sums of positive numbers, so they don't grow; the means' are relative to the largest deviation and mean.
 */
function expectRunning(
  layer: BatchNormLayer,
  expected: Statistics,
  batches: readonly Statistics[],
  data: string,
): void {
  const shape = [layer.runningMean.length];
  const magnitude = Array.from(expected.mean, (_, c) => {
    const largest = (values: (each: Statistics) => number) =>
      Math.max(0, ...batches.map(values).filter(Number.isFinite));
    const deviation = Math.sqrt(largest(({ variance }) => variance[c] as number));
    const mean = largest(({ mean }) => Math.abs(mean[c] as number));
    return promise * deviation + machineEpsilon * mean;
  });
  expectNear({ op, shape, output: 'running mean', data }, layer.runningMean, expected.mean, 1, magnitude);
  expectNear(
    { op, shape, output: 'running variance', data },
    layer.runningVariance,
    expected.variance,
    variancePromise,
  );
}

function isNear(got: Numbers, expected: Numbers, bound: number): boolean {
  return Array.from(got).every((value, i) => Math.abs(value - (expected[i] as number)) <= bound);
}

interface Batch {
  readonly x: Float32Array;
  readonly shape: readonly number[];
  readonly lengths?: readonly number[];
}

/** The population's mean and variance of each channel, and how many values they are of. */
function statisticsOf({ x, shape, lengths }: Batch, axis: number) {
  const channels = shape[axis] as number;
  const values: number[][] = Array.from({ length: channels }, () => []);
  const channelOf = placesAlong(shape, [axis]);
  const itemOf = placesAlong(shape, [0]);
  const stepOf = shape.length > 1 ? placesAlong(shape, [1]) : itemOf;
  for (let i = 0; i < x.length; ++i) {
    if (lengths && (stepOf[i] as number) >= (lengths[itemOf[i] as number] as number)) continue;
    values[channelOf[i] as number]?.push(x[i] as number);
  }
  const all = values.map((each) => {
    if (each.length === 0) return { mean: [NaN], variance: [NaN] };
    return reference.moments(each, [each.length], [0]);
  });
  return {
    mean: all.map(({ mean }) => mean[0] as number),
    variance: all.map(({ variance }) => variance[0] as number),
    count: values.map((each) => each.length),
  };
}

/** running = (1 - momentum) * running + momentum * batch, from 0 and 1, in double; or the average, for null. */
class Reference {
  readonly mean: number[];
  readonly variance: number[];
  readonly #seen: number[];
  readonly #momentum: number | null;
  readonly #unbiased: boolean;

  constructor(channels: number, momentum: number | null, unbiased = true) {
    this.mean = Array(channels).fill(0);
    this.variance = Array(channels).fill(1);
    this.#seen = Array(channels).fill(0);
    this.#momentum = momentum;
    this.#unbiased = unbiased;
  }

  add({ mean, variance, count }: ReturnType<typeof statisticsOf>): void {
    for (let c = 0; c < this.mean.length; ++c) {
      const n = count[c] as number;
      if (n === 0) continue;
      const seen = (this.#seen[c] as number) + 1;
      this.#seen[c] = seen;
      const weight = this.#momentum ?? 1 / seen;
      const batchVariance = (variance[c] as number) * (this.#unbiased ? n / (n - 1) : 1);
      this.mean[c] = (1 - weight) * (this.mean[c] as number) + weight * (mean[c] as number);
      this.variance[c] = (1 - weight) * (this.variance[c] as number) + weight * batchVariance;
    }
  }
}

function unbiased({ mean, variance, count }: ReturnType<typeof statisticsOf>): Statistics {
  return { mean, variance: variance.map((value, c) => (value * (count[c] as number)) / ((count[c] as number) - 1)) };
}

describe(`as those of PyTorch ${torchVersion}`, () => {
  function layerOf({ channels, options, scale, bias }: RunningCase): BatchNormLayer {
    const layer = new sn.BatchNorm(channels, options);
    const given = { scale, bias };
    for (const { name, value } of layer.parameters) value.set(given[name] as readonly number[]);
    return layer;
  }

  const cases = runningCases.map((each) => [`${each.what}, momentum ${each.options.momentum}`, each] as const);

  test.each(cases)('%s: after each batch, and in eval', (title, each) => {
    const layer = layerOf(each);
    const bound = 8 * machineEpsilon;
    const largest = (values: Numbers) => Array.from(values, Math.abs).reduce((a, b) => Math.max(a, b), 1);
    const batches: Statistics[] = [{ mean: Array(each.channels).fill(0), variance: Array(each.channels).fill(1) }];
    for (const [i, batch] of each.batches.entries()) {
      const { shape } = batch;
      const x = Float32Array.from(batch.x);
      const data = `${title}, batch ${i + 1}`;
      batches.push(unbiased(statisticsOf({ x, shape }, 1)));
      expect(layer.batchesSeen).toBe(i);
      const y = layer.forward(x, { shape });
      const magnitude = batch.y.map(() => largest(batch.y));
      expectNear({ op, shape, data }, y, batch.y, bound, magnitude);
      const running = { mean: batch.runningMean, variance: batch.runningVariance };
      expectRunning(layer, running, batches, data);
      const dx = layer.backward(Float32Array.from(batch.dy));
      const dxMagnitude = batch.dx.map(() => largest(batch.dx));
      expectNear({ op, shape, output: 'dx', data }, dx, batch.dx, bound, dxMagnitude);
    }
    expect(layer.batchesSeen).toBe(each.batchesSeen);
    const sums = { scale: each.dScale, bias: each.dBias };
    expect(layer.parameters).toHaveLength(each.scale ? 2 : 0);
    for (const { name, gradient } of layer.parameters) {
      const expected = sums[name] as readonly number[];
      const magnitude = expected.map(() => largest(expected) * each.batches.length);
      expectNear({ op, shape: [each.channels], output: `gradient of ${name}` }, gradient, expected, bound, magnitude);
    }

    const { x, y, shape } = each.evaluated;
    const got = layer.eval().forward(Float32Array.from(x), { shape });
    // The statistics' own errors, seen through the formula.
    const last = each.batches.at(-1) as (typeof each.batches)[number];
    const { scale, bias } = each;
    const channelOf = placesAlong(shape, [1]);
    const errors = x.map((value, i) => {
      const c = channelOf[i] as number;
      const invStd = 1 / Math.sqrt((last.runningVariance[c] as number) + each.options.epsilon);
      const mean = last.runningMean[c] as number;
      const normalized = Math.abs(value - mean) * invStd;
      const ofMeans = batches.map(
        (batch) =>
          promise * Math.sqrt(batch.variance[c] as number) + machineEpsilon * Math.abs(batch.mean[c] as number),
      );
      const factor = Math.abs(scale ? (scale[c] as number) : 1);
      const offset = Math.abs(bias ? (bias[c] as number) : 0);
      const ofStatistics = Math.max(...ofMeans) * invStd + invStdPromise * normalized;
      return factor * ofStatistics + affinePromise * (Math.max(1, normalized) * factor + offset);
    });
    expectNear({ op, shape, data: `${title}, in eval` }, got, y, 1, errors);
  });
});

describe(`as those of onnxruntime-web ${onnxVersion}`, () => {
  const cases = [0.9, 0.5, 0, 0.99].flatMap((momentum) =>
    [
      [16, 3],
      [4, 3, 5],
      [2, 3, 4, 6],
    ].map((shape) => ({ momentum, shape })),
  );

  test.each(cases)(
    'ONNX momentum $momentum, $shape: with unbiased false and 1 - momentum',
    async ({ momentum, shape }) => {
      const channels = 3;
      const layer = new sn.BatchNorm(channels, {
        momentum: 1 - Math.fround(momentum),
        unbiased: false,
        epsilon: Math.fround(1e-5),
      });
      const [scale, bias] = [drawScale(channels, 5), draw(channels, 6)];
      for (const { name, value } of layer.parameters) value.set(name === 'scale' ? scale : bias);
      let running: Record<'mean' | 'variance', Float32Array> = {
        mean: Float32Array.of(0.5, -1, 2),
        variance: Float32Array.of(4, 0.5, 9),
      };
      layer.runningMean.set(running.mean);
      layer.runningVariance.set(running.variance);
      const vector = (values: Float32Array) => ({ shape: [channels], values });
      for (let seed = 1; seed <= 4; ++seed) {
        const x = draw(product(shape), seed, seed / 2, 1 + seed);
        const theirs = await runNode({
          opType: 'BatchNormalization',
          opset: 15,
          attributes: { epsilon: Math.fround(1e-5), training_mode: 1, momentum },
          inputs: {
            x: { shape, values: x },
            scale: vector(scale),
            bias: vector(bias),
            mean: vector(running.mean),
            variance: vector(running.variance),
          },
          outputs: ['y', 'runningMean', 'runningVariance'],
        });
        running = { mean: theirs.runningMean as Float32Array, variance: theirs.runningVariance as Float32Array };
        const y = layer.forward(x, { shape });
        const data = `batch ${seed}`;
        // onnxruntime sums in float32: a few ten roundings.
        const agreement = 1e-5;
        const { magnitude } = reference.batchNormTraining(x, shape, 1, { scale, bias });
        expectNear({ op, shape, data }, y, theirs.y as Float32Array, agreement, magnitude);
        const deviations = running.variance.map(Math.sqrt);
        expectNear({ op, shape, data, output: 'running mean' }, layer.runningMean, running.mean, agreement, deviations);
        expectNear({ op, shape, data, output: 'running variance' }, layer.runningVariance, running.variance, agreement);
      }
      expect(layer.batchesSeen).toBe(4);
      // The batches' variances divided by n - 1 are others.
      const n = product(shape) / channels;
      const other = running.variance.map((value) => value * (1 + (1 - momentum) / n));
      expect(isNear(layer.runningVariance, other, 1e-5)).toBe(false);
    },
  );
});

describe('as the definitions say', () => {
  const layouts = [
    { shape: [8, 5], axis: undefined },
    { shape: [4, 5, 3], axis: 1 },
    { shape: [2, 3, 4, 5], axis: -1 },
    { shape: [5, 9], axis: 0 },
    { shape: [2, 1], axis: undefined },
  ];
  const momenta = [undefined, 0.1, 0.75, 1, 0, null];
  const cases = layouts.flatMap((layout) =>
    momenta.flatMap((momentum) => [true, false, undefined].map((isUnbiased) => ({ ...layout, momentum, isUnbiased }))),
  );

  test.each(cases)(
    '$shape, axis $axis, momentum $momentum, unbiased $isUnbiased',
    ({ shape, axis, momentum, isUnbiased }) => {
      const from = axis === undefined ? 1 : axis < 0 ? axis + shape.length : axis;
      const channels = shape[from] as number;
      for (const mean of [0.4, -3e4]) {
        const layer = new sn.BatchNorm(channels, { axis, momentum, unbiased: isUnbiased });
        const expected = new Reference(channels, momentum === undefined ? 0.1 : momentum, isUnbiased ?? true);
        const batches: Statistics[] = [{ mean: expected.mean, variance: expected.variance }];
        expect([...layer.runningMean]).toEqual(Array(channels).fill(0));
        expect([...layer.runningVariance]).toEqual(Array(channels).fill(1));
        for (let seed = 1; seed <= 5; ++seed) {
          const x = draw(product(shape), seed, mean, 3);
          const statistics = statisticsOf({ x, shape }, from);
          expected.add(statistics);
          batches.push(unbiased(statistics));
          layer.forward(x, { shape });
          expectRunning(layer, expected, batches, `mean ${mean}, batch ${seed}`);
          expect(layer.batchesSeen).toBe(seed);
        }
      }
    },
  );

  test('the rows 2, 15, 2, 1 and so on have variances of 12, 109, 5.3333, 1.3333', () => {
    const expectClose = (got: Float32Array, expected: number[]) =>
      got.forEach((value, i) => {
        const right = expected[i] as number;
        expect(Math.abs(value - right)).toBeLessThanOrEqual(machineEpsilon * right);
      });
    const layer = new sn.BatchNorm(4, { momentum: 1 });
    layer.forward(Float32Array.of(2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1), { shape: [3, 4] });
    expectClose(layer.runningVariance, [12, 109, 16 / 3, 4 / 3]);
    expectClose(layer.runningMean, [0, 10, 2 / 3, 1 / 3]);
    const biased = new sn.BatchNorm(4, { momentum: 1, unbiased: false });
    biased.forward(Float32Array.of(2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1), { shape: [3, 4] });
    expectClose(biased.runningVariance, [8, 218 / 3, 32 / 9, 8 / 9]);
  });

  test('without a momentum the newest of 10 batches has a tenth of the weight, with 1 all of it', () => {
    const shape = [2, 1];
    const means = (momentum: number | null | undefined) => {
      const layer = new sn.BatchNorm(1, { momentum });
      for (let batch = 1; batch <= 10; ++batch) layer.forward(Float32Array.of(batch - 1, batch + 1), { shape });
      return [layer.runningMean[0], layer.runningVariance[0]];
    };
    expect(means(null)).toEqual([5.5, 2]);
    expect(means(1)).toEqual([10, 2]);
    expect(means(0)).toEqual([0, 1]);
    // 0.9 * running + 0.1 * batch: 10 - 9 * (1 - 0.9^10).
    const [mean, variance] = means(undefined) as [number, number];
    expect(mean).toBeCloseTo(10 - 9 * (1 - 0.9 ** 10), 6);
    expect(variance).toBeCloseTo(2 - 0.9 ** 10, 6);
  });

  test('the average of 1000 batches is right to the last rounding: the more batches, the finer', () => {
    // Batches of two values, whose mean and variance float32 holds.
    const channels = 16;
    const shape = [2, channels];
    const layer = new sn.BatchNorm(channels, { momentum: null });
    const means = draw(1000 * channels, 1, 100, 30).map((value) => Math.round(value * 64) / 64);
    const halves = draw(1000 * channels, 2, 0, 20).map((value) => Math.round(value * 8) / 8);
    const sums = { mean: Array<number>(channels).fill(0), variance: Array<number>(channels).fill(0) };
    const x = new Float32Array(2 * channels);
    for (let batch = 0; batch < 1000; ++batch) {
      for (let c = 0; c < channels; ++c) {
        const [mean, half] = [means[batch * channels + c] as number, halves[batch * channels + c] as number];
        x[c] = mean - half;
        x[channels + c] = mean + half;
        sums.mean[c] = (sums.mean[c] as number) + mean;
        sums.variance[c] = (sums.variance[c] as number) + 2 * half * half;
      }
      layer.forward(x, { shape });
    }
    expect(layer.batchesSeen).toBe(1000);
    // Half a step, and a thousand roundings of doubles.
    const bound = machineEpsilon / 2 + 2000 * 2 ** -53;
    const average = (values: readonly number[]) => values.map((sum) => sum / 1000);
    const what = { op, shape, data: '1000 batches' };
    expectNear({ ...what, output: 'running mean' }, layer.runningMean, average(sums.mean), bound);
    expectNear({ ...what, output: 'running variance' }, layer.runningVariance, average(sums.variance), bound);
  });

  test('a small momentum moves what float32 steps would hold in place', () => {
    // Each step is a hundredth of what the last digit of a float32 is worth.
    const layer = new sn.BatchNorm(1, { momentum: 2 ** -30 });
    layer.runningMean[0] = 1;
    const x = Float32Array.of(1, 3);
    for (let batch = 0; batch < 4096; ++batch) layer.forward(x, { shape: [2, 1] });
    const expected = 2 - (1 - 2 ** -30) ** 4096;
    expectNear({ op, shape: [1], output: 'running mean' }, layer.runningMean, [expected], machineEpsilon);
    expect(layer.runningMean[0]).toBeGreaterThan(1);
  });

  test('inference is algorithm 2 of the paper', () => {
    const shape = [6, 4, 3];
    const [channels, batchCount, epsilon] = [4, 5, 1e-3];
    const n = 18;
    const layer = new sn.BatchNorm(channels, { momentum: null, epsilon });
    const [scale, bias] = [drawScale(channels, 5), draw(channels, 6)];
    for (const { name, value } of layer.parameters) value.set(name === 'scale' ? scale : bias);
    // E[x] and n / (n - 1) * E[variance] over the training batches.
    const mean: number[] = Array(channels).fill(0);
    const variance: number[] = Array(channels).fill(0);
    for (let seed = 1; seed <= batchCount; ++seed) {
      const x = draw(product(shape), seed, seed, 2 * seed);
      layer.forward(x, { shape });
      const batch = reference.batchNormTraining(x, shape, 1);
      for (let c = 0; c < channels; ++c) {
        mean[c] = (mean[c] as number) + (batch.mean[c] as number) / batchCount;
        variance[c] = (variance[c] as number) + ((n / (n - 1)) * (batch.variance[c] as number)) / batchCount;
      }
    }
    const x = draw(product(shape), 9);
    const y = layer.eval().forward(x, { shape });
    const channelOf = placesAlong(shape, [1]);
    const expected = Float64Array.from(x, (value, i) => {
      const c = channelOf[i] as number;
      const deviation = Math.sqrt((variance[c] as number) + epsilon);
      const factor = (scale[c] as number) / deviation;
      return factor * value + ((bias[c] as number) - ((scale[c] as number) * (mean[c] as number)) / deviation);
    });
    const { magnitude } = reference.batchNorm(x, shape, 1, { mean, variance, scale, bias, epsilon });
    // Statistics are rounded, and their own errors are within their promises.
    expectNear({ op, shape, data: 'algorithm 2' }, y, expected, affinePromise + 2 * variancePromise, magnitude);
  });

  test('eval is batchNorm by the running statistics, to the bit', () => {
    for (const dtype of dtypes) {
      const layer = new sn.BatchNorm(4, { epsilon: 0.5 });
      for (const { name, value } of layer.parameters) value.set(name === 'scale' ? drawScale(4, 5) : draw(4, 6));
      const shape = [5, 4];
      for (let seed = 1; seed <= 3; ++seed) layer.forward(draw(20, seed), { shape });
      const { x, options } = ofType(dtype, draw(20, 7));
      const { runningMean: mean, runningVariance: variance } = layer;
      const [scale, bias] = layer.parameters.map(({ value }) => value);
      const given = { shape, mean, variance, scale, bias, epsilon: 0.5, ...options };
      const y = layer.eval().forward(x, { shape, ...options });
      expectBits({ op, shape, data: dtype }, numbersOf(y), numbersOf(sn.batchNorm(x, given)));
    }
  });

  test('doubles and 16-bit floats have the running statistics of their values', () => {
    const shape = [7, 4];
    for (const dtype of dtypes) {
      const layer = new sn.BatchNorm(4, { momentum: 0.5 });
      const expected = new Reference(4, 0.5);
      const batches: Statistics[] = [{ mean: expected.mean, variance: expected.variance }];
      for (let seed = 1; seed <= 4; ++seed) {
        const { x, options } = ofType(dtype, draw(28, seed, 2));
        const statistics = statisticsOf({ x: Float32Array.from(numbersOf(x)), shape }, 1);
        batches.push(unbiased(statistics));
        expected.add(statistics);
        layer.forward(x, { shape, ...options });
        expectRunning(layer, expected, batches, `${dtype}, batch ${seed}`);
      }
      expect(layer.runningMean).toBeInstanceOf(Float32Array);
      expect(layer.runningVariance).toBeInstanceOf(Float32Array);
    }
  });

  test('the variance of a batch far from 0 loses nothing', () => {
    const layer = new sn.BatchNorm(2, { momentum: 1 });
    const x = draw(2000, 1, 1e6, 1);
    layer.forward(x, { shape: [1000, 2] });
    const { variance } = unbiased(statisticsOf({ x, shape: [1000, 2] }, 1));
    expectNear({ op, shape: [1000, 2], output: 'running variance' }, layer.runningVariance, variance, variancePromise);
  });

  test('NaN and infinity stay in their channel', () => {
    const layer = new sn.BatchNorm(3);
    layer.forward(Float32Array.of(1, NaN, 3, 4, 5, Infinity, 7, 8, 9), { shape: [3, 3] });
    const [first, second, third] = layer.runningMean;
    expect(first).toBeCloseTo(0.4, 6);
    expect([second, third]).toEqual([NaN, NaN]);
    expect(layer.runningVariance[0]).toBeCloseTo(0.9 + 0.9, 6);
    expect([...layer.runningVariance.subarray(1)]).toEqual([NaN, NaN]);
  });
});

describe('with lengths', () => {
  const shape = [3, 4, 2];
  const ragged = [
    [4, 1, 0],
    [2, 2, 2],
    [0, 0, 2],
    [4, 4, 4],
    [1, 3, 0],
  ];

  test.each([0.1, 1, null])('only valid values count: momentum %s', (momentum) => {
    for (const isUnbiased of [true, false]) {
      const layer = new sn.BatchNorm(2, { axis: 2, momentum, unbiased: isUnbiased });
      const expected = new Reference(2, momentum, isUnbiased);
      const batches: Statistics[] = [{ mean: expected.mean, variance: expected.variance }];
      for (const [seed, lengths] of ragged.entries()) {
        const x = draw(24, seed, 2);
        const statistics = statisticsOf({ x, shape, lengths }, 2);
        batches.push(unbiased(statistics));
        expected.add(statistics);
        // What is past the lengths is no value.
        const steps = placesAlong(shape, [1]);
        const items = placesAlong(shape, [0]);
        const padded = x.map((value, i) =>
          (steps[i] as number) < (lengths[items[i] as number] as number) ? value : NaN,
        );
        layer.forward(padded, { shape, lengths });
        expectRunning(layer, expected, batches, `lengths ${lengths}`);
        layer.backward(draw(24, 1));
      }
      expect(layer.batchesSeen).toBe(ragged.length);
    }
  });

  test('a batch without any value changes no statistic', () => {
    for (const momentum of [0.1, 1, null]) {
      const layer = new sn.BatchNorm(2, { axis: 2, momentum });
      const control = new sn.BatchNorm(2, { axis: 2, momentum });
      layer.forward(draw(24, 1), { shape, lengths: [0, 0, 0] });
      expect([...layer.runningMean, ...layer.runningVariance]).toEqual([0, 0, 1, 1]);
      // Nor does it take part in an average.
      for (let seed = 2; seed <= 4; ++seed) {
        for (const each of [layer, control]) each.forward(draw(24, seed), { shape });
        layer.forward(draw(24, 9), { shape, lengths: Int32Array.of(0, 0, 0) });
      }
      expectBits({ op, shape, output: 'running mean' }, layer.runningMean, control.runningMean);
      expectBits({ op, shape, output: 'running variance' }, layer.runningVariance, control.runningVariance);
    }
  });

  test('along axis 0 a channel without values is not touched, and the others go on', () => {
    // [channels, steps, features]: each channel has a length of its own.
    for (const momentum of [0.1, null]) {
      const layer = new sn.BatchNorm(3, { axis: 0, momentum });
      const expected = new Reference(3, momentum);
      const batches: Statistics[] = [{ mean: expected.mean, variance: expected.variance }];
      for (const [seed, lengths] of [
        [4, 0, 1],
        [0, 2, 3],
        [2, 2, 0],
        [1, 1, 1],
      ].entries()) {
        const x = draw(24, seed, -3);
        const statistics = statisticsOf({ x, shape, lengths }, 0);
        batches.push(unbiased(statistics));
        expected.add(statistics);
        layer.forward(x, { shape, lengths });
        expectRunning(layer, expected, batches, `axis 0, lengths ${lengths}`);
        for (const [c, length] of lengths.entries()) {
          if (seed === 0 && length === 0) expect([layer.runningMean[c], layer.runningVariance[c]]).toEqual([0, 1]);
        }
      }
    }
  });

  test('padding does not change them, whatever is in it', () => {
    const [short, long] = [new sn.BatchNorm(2, { axis: 2 }), new sn.BatchNorm(2, { axis: 2 })];
    const x = draw(12, 1);
    short.forward(x, { shape: [2, 3, 2] });
    const padded = new Float32Array(20).fill(Infinity);
    padded.set(x.subarray(0, 6));
    padded.set(x.subarray(6), 10);
    long.forward(padded, { shape: [2, 5, 2], lengths: [3, 3] });
    const what = { op, shape: [2, 3, 2] };
    expectNear({ ...what, output: 'running mean' }, long.runningMean, short.runningMean, 2 * machineEpsilon);
    expectNear({ ...what, output: 'running variance' }, long.runningVariance, short.runningVariance, variancePromise);
  });
});

describe('what changes them', () => {
  const shape = [5, 4];
  const x = draw(20, 1);
  const trained = (options?: BatchNormLayerOptions): BatchNormLayer => {
    const layer = new sn.BatchNorm(4, options);
    layer.forward(draw(20, 7), { shape });
    layer.backward(draw(20, 8));
    return layer;
  };
  const stateOf = (layer: BatchNormLayer) => {
    const { parameters, batchesSeen, runningMean, runningVariance, training } = layer;
    const gradients = parameters.map(({ gradient }) => [...gradient]);
    return {
      json: layer.toJSON(),
      gradients,
      batchesSeen,
      mean: [...runningMean],
      variance: [...runningVariance],
      training,
    };
  };

  test('each forward call while training', () => {
    const layer = trained();
    const { runningMean, runningVariance } = layer;
    const states = [1, 2, 3].map((seed) => {
      layer.forward(draw(20, seed), { shape });
      expect(layer.batchesSeen).toBe(seed + 1);
      return JSON.stringify(stateOf(layer));
    });
    expect(new Set(states).size).toBe(3);
    // They can be looked at all the time.
    expect(layer.runningMean).toBe(runningMean);
    expect(layer.runningVariance).toBe(runningVariance);
  });

  test('neither backward nor zeroGradients', () => {
    const layer = trained();
    layer.forward(x, { shape });
    const before = stateOf(layer);
    layer.backward(draw(20, 3));
    layer.zeroGradients();
    const { gradients: _, ...after } = stateOf(layer);
    const { gradients: __, ...expected } = before;
    expect(after).toEqual(expected);
  });

  test('nothing in eval', () => {
    const layer = trained();
    layer.eval();
    const before = stateOf(layer);
    for (let seed = 1; seed <= 3; ++seed) {
      layer.forward(draw(20, seed, 50), { shape });
      layer.forward(draw(24, seed, 50), { shape: [2, 4, 3] });
      layer.forward(draw(4, seed), { shape: [1, 4] });
      layer.forward(new Float32Array(0), { shape: [0, 4] });
    }
    expect(stateOf(layer)).toEqual(before);
    layer.train();
    layer.forward(x, { shape });
    expect(layer.batchesSeen).toBe(2);
  });

  test('callers: what is written into them is gone on from', () => {
    for (const momentum of [0.25, null]) {
      const layer = trained({ momentum });
      layer.runningMean.set([1, 2, 3, 4]);
      layer.runningVariance.set([5, 6, 7, 8]);
      const y = layer.eval().forward(x, { shape });
      const given = { mean: [1, 2, 3, 4], variance: [5, 6, 7, 8] };
      const ones = { scale: [1, 1, 1, 1], bias: [0, 0, 0, 0] };
      expectBits({ op, shape }, y, sn.batchNorm(x, { shape, ...given, ...ones }));
      layer.train().forward(x, { shape });
      const { mean, variance } = unbiased(statisticsOf({ x, shape }, 1));
      // It is the second batch.
      const weight = momentum ?? 1 / 2;
      const expected = {
        mean: given.mean.map((value, c) => (1 - weight) * value + weight * (mean[c] as number)),
        variance: given.variance.map((value, c) => (1 - weight) * value + weight * (variance[c] as number)),
      };
      expectRunning(layer, expected, [given, { mean, variance }], `momentum ${momentum}`);
    }
  });

  test('no call that fails, of any kind', () => {
    const detached = draw(20, 1);
    detach(detached);
    const out = new Float32Array(20).fill(canary);
    const memory = new Float32Array(24);
    const layer = trained();
    const failures: readonly [title: string, code: ErrorCode, x: unknown, options: object][] = [
      ['one value per channel', 'ERR_RANGE', draw(4, 1), { shape: [1, 4] }],
      ['one value per channel, of an image', 'ERR_RANGE', draw(4, 1), { shape: [1, 4, 1, 1] }],
      ['one value per channel by default', 'ERR_RANGE', draw(4, 1), {}],
      ['no values', 'ERR_SHAPE', new Float32Array(0), { shape: [0, 4] }],
      ['no places', 'ERR_SHAPE', new Float32Array(0), { shape: [3, 4, 0] }],
      ['out too long', 'ERR_SHAPE', x, { shape, out: memory }],
      ['out too short', 'ERR_SHAPE', x, { shape, out: out.subarray(1) }],
      ['out of another type', 'ERR_TYPE', x, { shape, out: new Float64Array(20) }],
      ['out an Array', 'ERR_TYPE', x, { shape, out: [...x] }],
      ['out is x', 'ERR_OVERLAP', x, { shape, out: x }],
      ['out is x in part', 'ERR_OVERLAP', memory.subarray(0, 20), { shape, out: memory.subarray(4) }],
      ['another shape', 'ERR_SHAPE', x, { shape: [4, 5], out }],
      ['a shape of another size', 'ERR_SHAPE', x, { shape: [6, 4], out }],
      ['a shape that is none', 'ERR_TYPE', x, { shape: 4, out }],
      ['no channel axis', 'ERR_AXIS', x, { shape: [20], out }],
      ['x of another length', 'ERR_SHAPE', draw(21, 1), { out }],
      ['x an Array', 'ERR_TYPE', [...x], { shape, out }],
      ['x bits of nothing', 'ERR_TYPE', new Uint16Array(20), { shape }],
      ['x detached', 'ERR_TYPE', detached, { shape, out }],
      ['no x', 'ERR_TYPE', undefined, { shape, out }],
      ['a dtype', 'ERR_TYPE', x, { shape, out, dtype: 'float32' }],
      ['an unknown option', 'ERR_TYPE', x, { shape, out, momentum: 1 }],
      ['lengths along the channels', 'ERR_AXIS', x, { shape, out, lengths: [1, 2, 3, 4, 1] }],
      ['options that are none', 'ERR_TYPE', x, [1]],
    ];
    const before = stateOf(layer);
    const y = layer.eval().forward(x, { shape });
    layer.train();
    for (const [title, code, given, options] of failures) {
      let thrown: unknown;
      try {
        layer.forward(given as Float32Array, options);
      } catch (error) {
        thrown = error;
      }
      expect(thrown, title).toBeInstanceOf(NormError);
      expect((thrown as NormError).code, title).toBe(code);
      expect(stateOf(layer), title).toEqual(before);
      // Nothing waits for an answer either.
      expect(() => layer.backward(draw(20, 1)), title).toThrow(/forward/);
    }
    expect(out).toEqual(new Float32Array(20).fill(canary));
    expectBits({ op, shape }, layer.eval().forward(x, { shape }), y);
  });

  test('no call with wrong lengths', () => {
    const layer = new sn.BatchNorm(2, { axis: 2 });
    const given = draw(24, 1);
    layer.forward(draw(24, 7), { shape: [3, 4, 2] });
    layer.backward(draw(24, 7));
    const before = stateOf(layer);
    const failures: readonly [ErrorCode, unknown][] = [
      ['ERR_RANGE', [1, 0, 0]],
      ['ERR_RANGE', [1, 5, 2]],
      ['ERR_RANGE', [1, -1, 2]],
      ['ERR_RANGE', [1, 1.5, 2]],
      ['ERR_SHAPE', [1, 2]],
      ['ERR_TYPE', [1, '2', 3]],
      ['ERR_TYPE', Float32Array.of(1, 2, 3)],
    ];
    for (const [code, lengths] of failures) {
      expect(() => layer.forward(given, { shape: [3, 4, 2], lengths: lengths as number[] })).toThrow(
        expect.objectContaining({ code }),
      );
      expect(stateOf(layer)).toEqual(before);
      expect(() => layer.backward(given)).toThrow(expect.objectContaining({ code: 'ERR_STATE' }));
    }
  });

  test('no call whose out is what the layer reads', () => {
    const layer = new sn.BatchNorm(4).eval();
    const parameters = layer.parameters.map(({ value }) => value);
    for (const out of [...parameters, layer.runningMean, layer.runningVariance]) {
      const before = stateOf(layer);
      const given = () => layer.forward(draw(4, 1), { shape: [1, 4], out });
      expect(given).toThrow(expect.objectContaining({ code: 'ERR_OVERLAP' }));
      expect(stateOf(layer)).toEqual(before);
    }
  });

  test('no call that there is no memory for', async () => {
    const small = await load({ maximumMemory: 2 ** 20 });
    const layer = new small.BatchNorm(4);
    layer.forward(x, { shape });
    const before = stateOf(layer);
    expect(() => layer.forward(new Float32Array(2 ** 19))).toThrow(expect.objectContaining({ code: 'ERR_MEMORY' }));
    expect(stateOf(layer)).toEqual(before);
    small.dispose();
    expect(() => layer.forward(x, { shape })).toThrow(expect.objectContaining({ code: 'ERR_FREED' }));
    expect(stateOf(layer)).toEqual(before);
  });
});

describe('as JSON', () => {
  const shape = [5, 4];
  const again = (layer: BatchNormLayer) => sn.BatchNorm.fromJSON(JSON.parse(JSON.stringify(layer)));

  test.each([0.1, 1, 0, null])('what is restored goes on as the original does, to the bit: momentum %s', (momentum) => {
    for (const isUnbiased of [true, false]) {
      const layer = new sn.BatchNorm(4, { momentum, unbiased: isUnbiased, epsilon: 1e-3 });
      for (const { value } of layer.parameters) value.set(drawScale(4, 3));
      for (let seed = 1; seed <= 7; ++seed) layer.forward(draw(20, seed, 10), { shape });
      const restored = again(layer);
      expect(restored.batchesSeen).toBe(7);
      for (let seed = 8; seed <= 40; ++seed) {
        const x = draw(20, seed, 10);
        const y = layer.forward(x, { shape });
        expectBits({ op, shape }, restored.forward(x, { shape }), y);
        const what = { op, shape, data: `batch ${seed}` };
        expectBits({ ...what, output: 'running mean' }, restored.runningMean, layer.runningMean);
        expectBits({ ...what, output: 'running variance' }, restored.runningVariance, layer.runningVariance);
      }
      expect(restored.batchesSeen).toBe(40);
      const x = draw(20, 50);
      expectBits({ op, shape }, restored.eval().forward(x, { shape }), layer.eval().forward(x, { shape }));
      expect(JSON.stringify(restored)).toBe(JSON.stringify(layer));
    }
  });

  test('statistics survive to the bit, whoever has written them', () => {
    const layer = new sn.BatchNorm(8);
    const specials = [-0, NaN, Infinity, -Infinity, 2 ** -149, -(2 ** -140), 3.4028234663852886e38, Math.fround(0.1)];
    layer.forward(draw(16, 1), { shape: [2, 8] });
    layer.runningMean.set(specials);
    layer.runningVariance.set(specials.toReversed());
    const restored = again(layer);
    expectBits({ op, shape: [8], output: 'running mean' }, restored.runningMean, layer.runningMean);
    expectBits({ op, shape: [8], output: 'running variance' }, restored.runningVariance, layer.runningVariance);
    expect(restored.runningMean.buffer).not.toBe(layer.runningMean.buffer);
    expect(restored.batchesSeen).toBe(1);
  });

  test('what is no JSON of a layer is a NormError that says why', () => {
    const layer = new sn.BatchNorm(4, { momentum: null });
    layer.forward(draw(20, 1), { shape });
    const json = JSON.parse(JSON.stringify(layer)) as Record<string, unknown>;
    const wrong: readonly [object, RegExp][] = [
      [{ runningMean: undefined }, /runningMean/],
      [{ runningMean: 3 }, /runningMean/],
      [{ runningMean: [0, 0, 0, 0] }, /runningMean/],
      [{ runningVariance: null }, /runningVariance/],
      [{ runningVariance: 'abc' }, /runningVariance/],
      [{ batchesSeen: undefined }, /batchesSeen/],
      [{ batchesSeen: '3' }, /batchesSeen/],
      [{ batchesSeen: -1 }, /batchesSeen/],
      [{ batchesSeen: 1.5 }, /batchesSeen/],
      [{ momentum: 'a' }, /momentum/],
      [{ momentum: 2 }, /momentum/],
      [{ unbiased: 1 }, /unbiased/],
      [{ axis: 'a' }, /axis/],
      [{ channels: undefined }, /channels/],
      [{ channels: 0 }, /channels/],
      [{ channels: 5 }, /4.*5|5.*4/],
      [{ channels: 2 ** 50 }, /\d/],
    ];
    for (const [change, says] of wrong) {
      const restore = () => sn.BatchNorm.fromJSON({ ...json, ...change });
      expect(restore, JSON.stringify(change)).toThrow(NormError);
      expect(restore, JSON.stringify(change)).toThrow(says);
    }
  });

  test('how many batches there were is a number of them', () => {
    const layer = new sn.BatchNorm(2, { momentum: null });
    layer.forward(draw(20, 1));
    const json = JSON.parse(JSON.stringify(layer));
    for (const name of ['runningMean', 'runningVariance']) {
      const wrong = (count: number) => {
        const batches = Buffer.from(Float64Array.of(1, count).buffer).toString('base64');
        return () => sn.BatchNorm.fromJSON({ ...json, [name]: { ...json[name], batches } });
      };
      for (const count of [-1, 1.5, NaN, Infinity]) {
        const says = expect.stringContaining(`${name}.batches[1]`);
        expect(wrong(count)).toThrow(expect.objectContaining({ code: 'ERR_RANGE', op, message: says }));
      }
      for (const count of [0, 1, 1e15]) expect(wrong(count)().runningMean).toEqual(layer.runningMean);
    }
  });

  test('statistics of somebody else can be written into a layer', () => {
    // A layer made of somebody else's statistics, as checkpoints are read.
    const layer = new sn.BatchNorm(4, { epsilon: 1e-3 }).eval();
    const [mean, variance, scale, bias] = [draw(4, 1), drawVariance(4, 2), drawScale(4, 3), draw(4, 4)];
    layer.runningMean.set(mean);
    layer.runningVariance.set(variance);
    for (const { name, value } of layer.parameters) value.set(name === 'scale' ? scale : bias);
    const x = draw(20, 5);
    const expected = sn.batchNorm(x, { shape, mean, variance, scale, bias, epsilon: 1e-3 });
    expectBits({ op, shape }, layer.forward(x, { shape }), expected);
    expectBits({ op, shape }, again(layer).forward(x, { shape }), expected);
  });
});
