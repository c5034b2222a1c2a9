// Next to onnxruntime-web: the same operators, on data that is easy and on data that is not.

import { load, type Simdnorm } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as operators from '../onnx/operators.ts';
import { onnxVersion, runNode } from '../onnx/session.mjs';
import { draw, drawScale, drawVariance, product, Random } from './data.ts';
import { affinePromise, expectNear, invStdPromise, promise, variancePromise } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

class Draw extends Random {
  /** From first to last, both too. */
  between(first: number, last: number): number {
    return first + (this.next() % (last - first + 1));
  }

  oneOf<T>(list: readonly T[]): T {
    return list[this.next() % list.length] as T;
  }

  /** A batch of `cases`, a last axis that no group is small with, and anything between them. */
  shape(rank: number, cases: readonly [first: number, last: number]): number[] {
    const between = Array.from({ length: rank - 2 }, () => this.between(1, 6));
    return [this.between(...cases), ...between, this.between(8, 40)];
  }

  values(length: number): Float32Array {
    return draw(length, this.next(), this.unit() - 0.5, 1 + 2 * this.unit());
  }

  /** Each of scale and bias is there or not. */
  layer(shape: readonly number[], extents: readonly number[]): operators.Layer {
    const size = product(extents);
    const scale = drawScale(size, this.next());
    const bias = draw(size, this.next(), 0, 1);
    return {
      x: this.values(product(shape)),
      shape,
      scale: this.next() % 2 ? scale : undefined,
      bias: this.next() % 2 ? bias : undefined,
      epsilon: Math.fround(this.oneOf([1e-5, 1e-3, 0.25])),
    };
  }

  /** Of channels at axis 1, as ONNX has them. */
  channels(rank: number, cases: readonly [first: number, last: number]): operators.Layer {
    const shape = this.shape(rank, cases);
    return this.layer(shape, shape.slice(1, 2));
  }
}

describe(`next to onnxruntime-web ${onnxVersion}, on data that is easy`, () => {
  // Ours is within 6e-7. onnxruntime sums in float32 and takes squares' means for variances: a few ten roundings.
  const agreement = 1e-5;

  const kinds: readonly [name: string, pair: (random: Draw) => operators.Pair][] = [
    [
      'layer normalization from any axis on',
      (random) => {
        const rank = random.between(2, 5);
        const shape = random.shape(rank, [1, 12]);
        const axis = random.between(-rank, rank - 1);
        return operators.layerNormalization(random.layer(shape, shape.slice(axis)), axis);
      },
    ],
    [
      'RMS normalization from any axis on',
      (random) => {
        const rank = random.between(2, 5);
        const shape = random.shape(rank, [1, 12]);
        const axis = random.between(-rank, rank - 1);
        return operators.rmsNormalization(random.layer(shape, shape.slice(axis)), axis);
      },
    ],
    [
      'mean variance normalization over any axes',
      (random) => {
        const rank = random.between(2, 5);
        const shape = random.shape(rank, [8, 12]);
        const needed = random.oneOf([0, rank - 1]);
        const others = shape.map((_, axis) => axis).filter((axis) => axis !== needed && random.next() % 2 === 1);
        others.splice(random.between(0, others.length), 0, needed);
        const axes = others.map((axis) => (random.next() % 2 ? axis : axis - rank));
        return operators.meanVarianceNormalization({ x: random.values(product(shape)), shape }, axes);
      },
    ],
    [
      'batch normalization with channels at any axis',
      (random) => {
        const rank = random.between(2, 5);
        const layer = random.channels(rank, [1, 12]);
        const channels = layer.shape[1] as number;
        const mean = draw(channels, random.next(), 0, 1);
        const variance = drawVariance(channels, random.next());
        return operators.batchNormalization({ ...layer, mean, variance }, random.between(0, rank - 1));
      },
    ],
    [
      'batch normalization in training with channels at any axis',
      (random) => {
        const rank = random.between(2, 5);
        return operators.batchNormalizationInTraining(random.channels(rank, [8, 12]), random.between(0, rank - 1));
      },
    ],
    [
      'instance normalization with channels at any axis',
      (random) => {
        const rank = random.between(3, 5);
        return operators.instanceNormalization(random.channels(rank, [1, 5]), random.between(1, rank - 1));
      },
    ],
    [
      'group normalization with channels at any axis',
      (random) => {
        const rank = random.between(3, 5);
        const groups = random.between(1, 4);
        const shape = random.shape(rank, [1, 5]).with(1, groups * random.between(1, 4));
        return operators.groupNormalization(
          random.layer(shape, shape.slice(1, 2)),
          groups,
          random.between(1, rank - 1),
        );
      },
    ],
    [
      'L1 and L2 normalization over any axis',
      (random) => {
        const rank = random.between(1, 4);
        const shape = Array.from({ length: rank }, () => random.between(1, 20));
        const x = random.values(product(shape));
        return operators.lpNormalization({ x, shape }, random.between(-rank, rank - 1), random.oneOf([1, 2]));
      },
    ],
    [
      // onnxruntime has it for rank 4 and odd sizes alone.
      'local response normalization with channels at any axis',
      (random) => {
        const shape = Array.from({ length: 4 }, () => random.between(1, 9));
        const response = {
          size: random.oneOf([1, 3, 5, 7]),
          alpha: Math.fround(random.oneOf([1e-4, 0.1, 2])),
          beta: random.oneOf([0.5, 0.75, 1.25]),
          k: random.oneOf([1, 2]),
        };
        const x = random.values(product(shape));
        return operators.localResponseNormalization({ x, shape }, response, random.between(0, 3));
      },
    ],
  ];

  test.each(kinds)('%s agrees', async (_, pairOf) => {
    for (let seed = 1; seed <= 32; ++seed) {
      const pair = pairOf(new Draw(seed));
      const { op, shape, right } = pair;
      const theirs = await runNode(pair.node);
      const ours = pair.ours(sn);
      expect(Object.keys(ours).sort()).toEqual(Object.keys(theirs).sort());
      for (const [output, { magnitude }] of Object.entries(right)) {
        const what = { op, shape, output, data: `seed ${seed}` };
        const [got, other] = [ours[output], theirs[output]] as [Float32Array, Float32Array];
        expectNear(what, got, other, agreement, magnitude);
      }
    }
  });
});

describe('on data that is not easy', () => {
  const rows: Record<string, string>[] = [];

  /** The largest, in units of what it is relative to. */
  function errorOf(got: ArrayLike<number>, right: ArrayLike<number>, magnitude: ArrayLike<number>): number {
    let largest = 0;
    for (let i = 0; i < right.length; ++i) {
      if (got[i] === right[i]) continue;
      const error = Math.abs((got[i] as number) - (right[i] as number)) / (magnitude[i] as number);
      if (!(error <= largest)) largest = error;
      if (Number.isNaN(error)) break;
    }
    return largest;
  }

  const square = [2, 4, 8, 100];
  const long = [1, 2, 1, 250_000];
  const spread = (mean: number, deviation: number) => (seed: number, length: number) => {
    return draw(length, seed, mean, deviation);
  };
  const scaled = (factor: number) => (seed: number, length: number) => {
    return draw(length, seed, 0.4, 3).map((value) => value * factor);
  };
  const constant = (value: number) => (_: number, length: number) => new Float32Array(length).fill(value);
  const usual = Math.fround(1e-5);
  // Powers of ten that float32 holds but not their squares need an epsilon of 0 to be seen.
  const kinds = [
    { data: 'mean/std 1e3', shape: square, values: spread(2e3, 2), mean: 2e3, epsilon: usual },
    { data: 'mean/std 1e5', shape: square, values: spread(2e5, 2), mean: 2e5, epsilon: usual },
    { data: 'mean/std 1e7', shape: square, values: spread(2e7, 2), mean: 2e7, epsilon: usual },
    { data: 'times 1e30', shape: square, values: scaled(1e30), epsilon: 0 },
    { data: 'times 1e-30', shape: square, values: scaled(1e-30), epsilon: 0 },
    { data: 'constant 0.1', shape: square, values: constant(0.1), mean: 0.1, epsilon: usual },
    { data: 'constant 3.3e7', shape: square, values: constant(3.3e7), mean: 3.3e7, epsilon: usual },
    { data: 'rows of 250000, mean/std 10', shape: long, values: spread(20, 2), mean: 20, epsilon: usual },
  ];

  const cases = kinds.flatMap(({ data, shape, values, mean, epsilon }) => {
    const channels = shape[1] as number;
    const x = values(1, product(shape));
    const layer = { x, shape, epsilon };
    const affine = { ...layer, scale: drawScale(channels, 2), bias: draw(channels, 3, 0, 1) };
    const response = { size: 3, alpha: Math.fround(1e-4), beta: 0.75, k: 1 };
    const pairs = [
      operators.layerNormalization(layer, 2),
      operators.rmsNormalization(layer, 2),
      operators.meanVarianceNormalization(layer, [0, 2, 3]),
      operators.batchNormalizationInTraining(affine),
      operators.instanceNormalization(affine),
      operators.groupNormalization(affine, 2),
      operators.lpNormalization(layer, -1, 1),
      operators.lpNormalization(layer, -1, 2),
      operators.localResponseNormalization(layer, response),
    ];
    if (mean !== undefined) {
      const given = { mean: new Float32Array(channels).fill(mean), variance: new Float32Array(channels).fill(4) };
      pairs.push(operators.batchNormalization({ ...affine, ...given }));
    }
    return pairs.map((pair) => [`${pair.op}, ${data}`, data, pair] as const);
  });

  const bounds: Record<string, number> = { mean: promise, variance: variancePromise, invStd: invStdPromise };

  test.each(cases)('%s: the promise is kept', async (_, data, pair) => {
    const { op, shape, right } = pair;
    const theirs = await runNode(pair.node);
    const ours = pair.ours(sn);
    const { values, magnitude } = right.y as (typeof right)[string];
    const errors = [theirs, ours].map(({ y }) => errorOf(y as Float32Array, values, magnitude).toExponential(1));
    rows.push({ operator: op, data, onnxruntime: errors[0] as string, simdnorm: errors[1] as string });
    for (const [output, { values, magnitude }] of Object.entries(right)) {
      const got = ours[output] as Float32Array;
      expectNear({ op, shape, output, data }, got, values, bounds[output] ?? affinePromise, magnitude);
    }
  });

  // Relative to what simdnorm's promise is relative to.
  afterAll(() => console.table(rows));
});
