import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, place, product } from './data.ts';
import * as reference from './reference.ts';
import { type Case, expectBits, expectNear, promise, variancePromise } from './reference.ts';

const op = 'moments';
let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

function expectMoments(
  what: Case,
  got: { mean: Float32Array; variance: Float32Array },
  expected: { mean: number[]; variance: number[] },
): void {
  // 5 machine epsilons of a deviation, and the rounding of the mean itself.
  const magnitude = expected.mean.map((mean, i) => Math.sqrt(expected.variance[i] as number) + Math.abs(mean) / 10);
  expectNear({ ...what, output: 'mean' }, got.mean, expected.mean, promise, magnitude);
  expectNear({ ...what, output: 'variance' }, got.variance, expected.variance, variancePromise);
}

function subsets(rank: number): number[][] {
  return Array.from({ length: 2 ** rank }, (_, set) =>
    Array.from({ length: rank }, (_, axis) => axis).filter((axis) => set & (2 ** axis)),
  );
}

describe('any axes', () => {
  const shapes = [
    [7],
    [1],
    [3, 5],
    [5, 1],
    [70, 33],
    [2, 3, 4],
    [1, 5, 1],
    [2, 1, 4],
    [2, 3, 4, 5],
    [2, 1, 4, 5],
    [1, 3, 4, 1],
    [2, 3, 1, 2, 3],
    [2, 3, 2, 2, 3],
  ];
  const all = shapes.flatMap((shape) => subsets(shape.length).map((axes) => ({ shape, axes })));

  test.each(all)('$shape over $axes', ({ shape, axes }) => {
    const x = draw(product(shape), shape.length, 3, 2);
    const untouched = Float32Array.from(x);
    const result = sn.moments(x, { shape, axes });
    expectMoments({ op, shape, data: `over [${axes}]` }, result, reference.moments(x, shape, axes));
    expect(result.count).toBe(product(axes.map((axis) => shape[axis] as number)));
    expect(Object.keys(result).sort()).toEqual(['count', 'mean', 'variance']);
    expectBits({ op, shape, output: 'x' }, x, untouched);
    const backwards = axes.map((axis) => axis - shape.length).reverse();
    const again = sn.moments(x, { shape, axes: backwards });
    expectBits({ op, shape, data: 'in another order' }, again.mean, result.mean);
    expectBits({ op, shape, data: 'in another order' }, again.variance, result.variance);
    // The order in which the caller gave the axes is the caller's.
    expect(backwards).toEqual(axes.map((axis) => axis - shape.length).reverse());
  });

  test('the last axis by default', () => {
    const x = draw(35, 1);
    const { mean } = sn.moments(x, { shape: [5, 7] });
    for (const axes of [-1, 1, [1], [-1], undefined, null as never]) {
      expectBits({ op, shape: [5, 7] }, sn.moments(x, { shape: [5, 7], axes }).mean, mean);
    }
    const alone = sn.moments(x);
    expect(alone.count).toBe(35);
    expectMoments({ op, shape: [35] }, alone, reference.moments(x, [35], [0]));
    expectBits({ op, shape: [35] }, sn.moments(x, null as never).mean, alone.mean);
  });

  test('nothing left to reduce, and nothing at all', () => {
    const empty = new Float32Array(0);
    for (const [shape, axes, count] of [
      [[0, 3], [1], 3],
      [[3, 0, 2], [0, 2], 6],
      [[65536, 0, 65536], [0, 2], 2 ** 32],
      [[0], [], 1],
    ] as const) {
      const result = sn.moments(empty, { shape, axes });
      expect([result.mean.length, result.variance.length, result.count]).toEqual([0, 0, count]);
    }
    expect(sn.moments(Float32Array.of(3), { shape: [], axes: [] }).mean).toEqual(Float32Array.of(3));
  });
});

describe('values', () => {
  test.each([0, 1, 1e3, 1e5, 1e7])('mean/std %f', (ratio) => {
    for (const [shape, axes] of [
      [[3, 4099], [1]],
      [[4099, 3], [0]],
      [
        [7, 100, 9],
        [0, 2],
      ],
      [[2, 16], [1]],
      [[2, 1025], [1]],
      [[5, 300, 40], [1]],
    ] as const) {
      for (const deviation of [0.1, 1, 30]) {
        const x = draw(product(shape), 5, ratio * deviation, deviation);
        const what = { op, shape, data: `over [${axes}], mean/std ${ratio}, deviation ${deviation}` };
        expectMoments(what, sn.moments(x, { shape, axes }), reference.moments(x, shape, axes));
      }
    }
  });

  test.each([0.1, 1000.1, 3.3e7, -1e30, 1e-40])('constant %f: exactly itself and 0', (constant) => {
    for (const [shape, axes] of [
      [[2, 1000], [1]],
      [[1000, 2], [0]],
      [
        [3, 5, 7],
        [0, 2],
      ],
      [[4099], [0]],
      [[1], [0]],
    ] as const) {
      const x = new Float32Array(product(shape)).fill(constant);
      const { mean, variance } = sn.moments(x, { shape, axes });
      expect(mean.every((value) => value === x[0])).toBe(true);
      expect(variance.every((value) => value === 0)).toBe(true);
    }
  });

  test.each([NaN, Infinity, -Infinity])('%f stays in its group', (bad) => {
    const x = draw(3 * 50, 1);
    const clean = sn.moments(x, { shape: [3, 50] });
    x[70] = bad;
    const { mean, variance } = sn.moments(x, { shape: [3, 50] });
    expect([mean[0], mean[2]]).toEqual([clean.mean[0], clean.mean[2]]);
    expect([variance[0], variance[2]]).toEqual([clean.variance[0], clean.variance[2]]);
    expect([Number.isFinite(mean[1]), variance[1]]).toEqual([false, NaN]);
  });

  test('squares that overflow and underflow', () => {
    const x = Float32Array.from([3e18, -1e18, 3e-19, -1e-19, 1e30, -1e30]);
    expectMoments({ op, shape: [3, 2] }, sn.moments(x, { shape: [3, 2] }), {
      mean: [1e18, 1e-19, 0],
      variance: [4e36, 4e-38, Infinity],
    });
  });

  test('x at any offset, shared or not', () => {
    const values = draw(3 * 37, 1);
    const expected = sn.moments(values, { shape: [3, 37] });
    for (const shared of [false, true]) {
      for (const offset of [0, 1, 2, 3]) {
        const x = place(values, offset, shared);
        const { mean, variance } = sn.moments(x.values, { shape: [3, 37] });
        expectBits({ op, shape: [3, 37], data: `offset ${offset}` }, mean, expected.mean);
        expectBits({ op, shape: [3, 37], data: `offset ${offset}` }, variance, expected.variance);
        expect(x.intact()).toBe(true);
      }
    }
  });

  test('are those that layer norm and batch norm in training use', () => {
    const shape = [6, 35];
    const x = draw(210, 2, 50, 3);
    const meanOut = new Float32Array(6);
    sn.layerNorm(x, { shape, meanOut });
    expectBits({ op, shape }, sn.moments(x, { shape }).mean, meanOut);
    const training = sn.batchNormTraining(x, { shape });
    const { mean, variance } = sn.moments(x, { shape, axes: 0 });
    expectBits({ op, shape }, mean, training.mean);
    expectBits({ op, shape }, variance, training.variance);
  });

  test('300 x 4099 over either axis', () => {
    const shape = [300, 4099];
    const x = place(draw(300 * 4099, 1, 40, 3), 3);
    for (const axes of [0, 1]) {
      const expected = reference.moments(x.values, shape, [axes]);
      expectMoments({ op, shape, data: `over ${axes}` }, sn.moments(x.values, { shape, axes }), expected);
    }
    expect(x.intact()).toBe(true);
  });
});
