// Axes that share statistics, in every set and order. What an operation does with them otherwise is tested in its own
// file.

import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, drawScale, place, placeOut, product, Random } from './data.ts';
import * as reference from './reference.ts';
import {
  affinePromise,
  expectBits,
  expectNear,
  expectStatistics,
  machineEpsilon,
  promise,
  transpose,
} from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

const norms = [1, 2, Infinity];
type Axes = readonly number[];
type Shape = readonly number[];

function subsets(rank: number): number[][] {
  return Array.from({ length: 2 ** rank }, (_, set) =>
    Array.from({ length: rank }, (_, axis) => axis).filter((axis) => set & (2 ** axis)),
  );
}

function ordersOf(axes: Axes): number[][] {
  if (axes.length === 0) return [[]];
  return axes.flatMap((first) => ordersOf(axes.filter((axis) => axis !== first)).map((rest) => [first, ...rest]));
}

/** Descending, and one that is neither, where there are enough. */
function someOrders(axes: Axes, seed: number): number[][] {
  const random = new Random(seed);
  const shuffled = axes.map((axis) => ({ axis, key: random.unit() })).sort((a, b) => a.key - b.key);
  return [axes, [...axes].reverse(), shuffled.map(({ axis }) => axis)].map((order) => [...order]);
}

const extentsOf = (shape: Shape, axes: Axes) => axes.map((axis) => shape[axis] as number);
const title = (axes: Axes) => `[${axes.join(', ')}]`;

/** Everything that is a function of x, shape and axes. */
function expectOverAxes(shape: Shape, axes: Axes): void {
  const data = `over ${title(axes)}`;
  const x = draw(product(shape), shape.length, 3, 2);
  const untouched = Float32Array.from(x);
  const units = product(extentsOf(shape, axes));
  const groups = x.length / units;
  const statistics = () => ({ meanOut: new Float32Array(groups), invStdOut: new Float32Array(groups) });

  const scale = drawScale(units, 3);
  const bias = draw(units, 4);
  for (const parameters of [{}, { scale }, { bias }, { scale, bias }]) {
    const saved = statistics();
    const layer = sn.layerNorm(x, { shape, axes, ...parameters, ...saved });
    const expected = reference.layerNorm(x, shape, axes, parameters);
    const bound = 'scale' in parameters || 'bias' in parameters ? affinePromise : promise;
    const what = { op: 'layerNorm', shape, data: `${data} with ${Object.keys(parameters)}` };
    expectNear(what, layer, expected.y, bound, expected.magnitude);
    expectStatistics(what, { mean: saved.meanOut, invStd: saved.invStdOut }, expected);
    const inPlace = Float32Array.from(x);
    expect(sn.layerNorm(inPlace, { shape, axes, ...parameters, out: inPlace })).toBe(inPlace);
    expectBits({ ...what, data: `${what.data}, in place` }, inPlace, layer);
  }

  for (const parameters of [{}, { scale }]) {
    const { invStdOut } = statistics();
    const rms = sn.rmsNorm(x, { shape, axes, ...parameters, invStdOut });
    const expected = reference.rmsNorm(x, shape, axes, parameters);
    const what = { op: 'rmsNorm', shape, data: `${data} with ${Object.keys(parameters)}` };
    expectNear(what, rms, expected.y, 'scale' in parameters ? affinePromise : promise, expected.magnitude);
    expectStatistics(what, { invStd: invStdOut }, expected);
    const inPlace = Float32Array.from(x);
    sn.rmsNorm(inPlace, { shape, axes, ...parameters, out: inPlace });
    expectBits({ ...what, data: `${what.data}, in place` }, inPlace, rms);
  }

  for (const p of norms) {
    const { y, magnitude } = reference.lpNormalize(x, shape, axes, { p });
    const what = { op: 'lpNormalize', shape, data: `${data}, p ${p}` };
    expectNear(what, sn.lpNormalize(x, { shape, axes, p }), y, promise, magnitude);
  }

  const { count, ...moments } = sn.moments(x, { shape, axes });
  expectStatistics({ op: 'moments', shape, data }, moments, reference.moments(x, shape, axes));
  expect(count).toBe(units);
  expectBits({ op: 'all', shape, output: 'x' }, x, untouched);
}

describe('every set of axes', () => {
  const shapes = [
    [1],
    [7],
    [70],
    [3, 5],
    [1, 6],
    [6, 1],
    [33, 19],
    [2, 3, 4],
    [1, 5, 1],
    [3, 1, 4],
    [5, 18, 17],
    [2, 3, 4, 5],
    [2, 1, 4, 3],
    [4, 17, 3, 18],
    [2, 3, 2, 2, 3],
    [2, 3, 1, 4, 5],
    [1, 2, 3, 2, 17],
  ];
  const all = shapes.flatMap((shape) => subsets(shape.length).map((axes) => ({ shape, axes })));

  test.each(all)('$shape over $axes is right in several orders', ({ shape, axes }) => {
    const orders = new Map(someOrders(axes, 1).map((order) => [title(order), order]));
    for (const order of orders.values()) expectOverAxes(shape, order);
  });

  test('sets whose axes alternate with the others are among them', () => {
    const alternating = all.filter(({ shape, axes }) => shape.length > 3 && title(axes) === '[0, 2]');
    expect(alternating.length).toBeGreaterThanOrEqual(4);
  });

  test.each([{ shape: [2, 3, 4] }, { shape: [3, 2, 5, 4] }])(
    '$shape over every set of axes in every order is right',
    ({ shape }) => {
      for (const set of subsets(shape.length)) for (const axes of ordersOf(set)) expectOverAxes(shape, axes);
    },
  );

  // 256 = 2^8: more runs than any layout folds.
  test('rank 8, in which all axes alternate, is right', () => {
    const shape = [2, 2, 2, 2, 2, 2, 2, 2];
    for (const axes of [
      [0, 2, 4, 6],
      [7, 5, 3, 1],
      [6, 1, 3],
      [0, 7],
    ]) {
      expectOverAxes(shape, axes);
    }
  });
});

describe('the order of the axes', () => {
  const cases = [
    { shape: [4, 3, 5], axes: [1, 2] },
    { shape: [4, 3, 5], axes: [0, 1] },
    { shape: [4, 3, 5], axes: [0, 2] },
    { shape: [2, 3, 4, 5], axes: [1, 2, 3] },
    { shape: [2, 3, 4, 5], axes: [0, 2, 3] },
    { shape: [2, 3, 4, 5], axes: [0, 1, 2, 3] },
    { shape: [3, 20, 30], axes: [1, 2] },
  ];

  test.each(cases)('is that of the extents of scale and bias: $shape over $axes, to the bit', ({ shape, axes }) => {
    const x = draw(product(shape), 1, 3, 2);
    const extents = extentsOf(shape, axes);
    const scale = drawScale(product(extents), 2);
    const bias = draw(product(extents), 3);
    const layer = sn.layerNorm(x, { shape, axes, scale, bias });
    const rms = sn.rmsNorm(x, { shape, axes, scale });
    for (const order of ordersOf(axes)) {
      const places = order.map((axis) => axes.indexOf(axis));
      const moved = { scale: transpose(scale, extents, places), bias: transpose(bias, extents, places) };
      for (const given of [order, order.map((axis) => axis - shape.length)]) {
        const data = `over ${title(given)}`;
        const y = sn.layerNorm(x, { shape, axes: given, ...moved });
        expectBits({ op: 'layerNorm', shape, data }, y, layer);
        const root = sn.rmsNorm(x, { shape, axes: given, scale: moved.scale });
        expectBits({ op: 'rmsNorm', shape, data }, root, rms);
      }
      // Parameters whose extents differ show it where they are taken in the wrong order.
      if (title(order) === title(axes)) continue;
      expect([...sn.layerNorm(x, { shape, axes: order, scale, bias })]).not.toEqual([...layer]);
      expect([...sn.rmsNorm(x, { shape, axes: order, scale })]).not.toEqual([...rms]);
    }
  });

  test.each(cases)('makes no difference to statistics and without parameters: $shape over $axes', ({ shape, axes }) => {
    const x = draw(product(shape), 1, 3, 2);
    const groups = x.length / product(extentsOf(shape, axes));
    const everything = (given: number[]) => {
      const meanOut = new Float32Array(groups);
      const invStdOut = new Float32Array(groups);
      const rmsOut = new Float32Array(groups);
      const { mean, variance } = sn.moments(x, { shape, axes: given });
      return {
        layerNorm: sn.layerNorm(x, { shape, axes: given, meanOut, invStdOut }),
        rmsNorm: sn.rmsNorm(x, { shape, axes: given, invStdOut: rmsOut }),
        ...Object.fromEntries(norms.map((p) => [`norm ${p}`, sn.lpNormalize(x, { shape, axes: given, p })])),
        ...{ meanOut, invStdOut, rmsOut, mean, variance },
      };
    };
    const ascending = everything(axes);
    for (const order of ordersOf(axes)) {
      for (const given of [order, order.map((axis) => axis - shape.length)]) {
        for (const [output, values] of Object.entries(everything(given))) {
          const expected = ascending[output as keyof typeof ascending] as Float32Array;
          expectBits({ op: 'all', shape, output, data: `over ${title(given)}` }, values, expected);
        }
      }
    }
  });

  test('the list of axes is left as it was given', () => {
    const axes = [2, -3];
    const x = draw(60, 1);
    const given = { shape: [3, 4, 5], axes };
    sn.layerNorm(x, { ...given, scale: drawScale(15, 1) });
    sn.rmsNorm(x, { ...given, scale: drawScale(15, 1) });
    sn.lpNormalize(x, given);
    sn.moments(x, given);
    expect(axes).toEqual([2, -3]);
    expect(sn.layerNorm(x, { shape: [3, 4, 5], axes: Object.freeze([2, 0]) })).toHaveLength(60);
  });

  test('positive and negative may be mixed', () => {
    const shape = [2, 3, 4, 5];
    const x = draw(120, 1);
    const scale = drawScale(12, 2);
    const expected = sn.layerNorm(x, { shape, axes: [2, 1], scale });
    for (const axes of [
      [-2, 1],
      [2, -3],
      [-2, -3],
    ]) {
      expectBits({ op: 'layerNorm', shape, data: title(axes) }, sn.layerNorm(x, { shape, axes, scale }), expected);
    }
  });
});

describe('extents of 1', () => {
  test('of the axes or beside them change no bit', () => {
    const x = draw(120, 1, 3, 2);
    const scale = drawScale(20, 2);
    const bias = draw(20, 3);
    const expected = sn.layerNorm(x, { shape: [6, 4, 5], axes: [1, 2], scale, bias });
    for (const { shape, axes } of [
      { shape: [6, 1, 4, 5], axes: [2, 3] },
      { shape: [6, 1, 4, 5], axes: [1, 2, 3] },
      { shape: [6, 4, 1, 5], axes: [1, 3] },
      { shape: [6, 4, 1, 5], axes: [2, 1, 3] },
      { shape: [1, 6, 4, 5, 1], axes: [2, 3] },
      { shape: [1, 6, 4, 5, 1], axes: [0, 2, 4, 3] },
    ]) {
      const y = sn.layerNorm(x, { shape, axes, scale, bias });
      expectBits({ op: 'layerNorm', shape, data: `over ${title(axes)}` }, y, expected);
    }
  });

  test('alone leave one value to each group', () => {
    const shape = [3, 1, 4];
    const x = draw(12, 1, 50, 3);
    expect(sn.layerNorm(x, { shape, axes: [1] }).every((value) => value === 0)).toBe(true);
    expect(sn.layerNorm(x, { shape, axes: 1, bias: [7], scale: [3] }).every((value) => value === 7)).toBe(true);
    const { mean, variance, count } = sn.moments(x, { shape, axes: [1] });
    expectBits({ op: 'moments', shape, output: 'mean' }, mean, x);
    expect([count, ...new Set(variance)]).toEqual([1, 0]);
  });
});

describe('accuracy', () => {
  const cases = [
    { shape: [70, 5, 3], axes: [0, 2] },
    { shape: [3, 600, 2, 4], axes: [1, 3] },
    { shape: [20, 3, 20, 3], axes: [0, 2] },
    { shape: [20, 3, 20, 3], axes: [2, 0] },
    { shape: [4099, 2], axes: [0] },
    { shape: [2, 1367, 3], axes: [1] },
    { shape: [2, 3, 1025], axes: [0, 2] },
    { shape: [17, 2, 3, 49], axes: [3, 0, 1] },
    { shape: [17, 2, 3, 49], axes: [3, 0] },
    { shape: [3, 5, 700], axes: [0, 1] },
  ];

  test.each([0, 1, 30, 1e3, 1e5, 1e7])('mean/std %f keeps the promise', (ratio) => {
    for (const { shape, axes } of cases) {
      const units = product(extentsOf(shape, axes));
      const groups = product(shape) / units;
      const parameters = { scale: drawScale(units, 2), bias: draw(units, 3) };
      for (const deviation of [0.1, 30]) {
        const x = draw(product(shape), 1, ratio * deviation, deviation);
        const data = `over ${title(axes)}, mean/std ${ratio}, deviation ${deviation}`;
        for (const epsilon of [0, 1e-5]) {
          const meanOut = new Float32Array(groups);
          const invStdOut = new Float32Array(groups);
          const y = sn.layerNorm(x, { shape, axes, epsilon, meanOut, invStdOut });
          const expected = reference.layerNorm(x, shape, axes, { epsilon });
          expectNear({ op: 'layerNorm', shape, data }, y, expected.y, promise, expected.magnitude);
          expectStatistics({ op: 'layerNorm', shape, data }, { mean: meanOut, invStd: invStdOut }, expected);
        }
        const affine = reference.layerNorm(x, shape, axes, parameters);
        const y = sn.layerNorm(x, { shape, axes, ...parameters });
        expectNear({ op: 'layerNorm', shape, data }, y, affine.y, affinePromise, affine.magnitude);
        const rms = reference.rmsNorm(x, shape, axes, parameters);
        const root = sn.rmsNorm(x, { shape, axes, scale: parameters.scale });
        expectNear({ op: 'rmsNorm', shape, data }, root, rms.y, affinePromise, rms.magnitude);
        for (const p of norms) {
          const unit = reference.lpNormalize(x, shape, axes, { p });
          const got = sn.lpNormalize(x, { shape, axes, p });
          expectNear({ op: 'lpNormalize', shape, data: `${data}, p ${p}` }, got, unit.y, promise, unit.magnitude);
        }
        const moments = sn.moments(x, { shape, axes });
        expectStatistics({ op: 'moments', shape, data }, moments, reference.moments(x, shape, axes));
      }
    }
  });

  test.each([1e-30, 1e30])('data of size %f keep the promise', (size) => {
    for (const { shape, axes } of cases) {
      const x = draw(product(shape), 1, 0.4 * size, 3 * size);
      const data = `over ${title(axes)}, size ${size}`;
      for (const epsilon of [0, 1e-5]) {
        const layer = reference.layerNorm(x, shape, axes, { epsilon });
        const y = sn.layerNorm(x, { shape, axes, epsilon });
        expectNear({ op: 'layerNorm', shape, data }, y, layer.y, promise, layer.magnitude);
        const rms = reference.rmsNorm(x, shape, axes, { epsilon });
        const root = sn.rmsNorm(x, { shape, axes, epsilon });
        expectNear({ op: 'rmsNorm', shape, data }, root, rms.y, promise, rms.magnitude);
        for (const p of norms) {
          const unit = reference.lpNormalize(x, shape, axes, { p, epsilon });
          const got = sn.lpNormalize(x, { shape, axes, p, epsilon });
          expectNear({ op: 'lpNormalize', shape, data: `${data}, p ${p}` }, got, unit.y, promise, unit.magnitude);
        }
      }
    }
  });
});

describe('edge cases', () => {
  const cases = [
    { shape: [4, 3, 5], axes: [0] },
    { shape: [4, 3, 5], axes: [1] },
    { shape: [4, 3, 5], axes: [2, 0] },
    { shape: [4, 3, 5, 6], axes: [0, 2] },
    { shape: [4, 3, 5, 6], axes: [3, 1] },
    { shape: [4, 3, 5, 20], axes: [3, 1] },
    { shape: [70, 3, 2], axes: [0] },
  ];
  /** Of each value, its group. */
  const groupsOf = (shape: Shape, axes: Axes) => {
    const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
    const strides = shape.map((_, axis) => product(shape.slice(axis + 1)));
    return Array.from({ length: product(shape) }, (_, i) =>
      kept.reduce((group, axis) => {
        const extent = shape[axis] as number;
        return group * extent + (Math.floor(i / (strides[axis] as number)) % extent);
      }, 0),
    );
  };

  test.each(cases)('a constant group gives exactly bias: $shape over $axes', ({ shape, axes }) => {
    const groups = groupsOf(shape, axes);
    const bias = draw(product(extentsOf(shape, axes)), 3);
    const scale = drawScale(bias.length, 2);
    // A layer norm of constants is nothing but bias, at its places in x.
    const zeros = new Float32Array(product(shape));
    const repeated = reference.layerNorm(zeros, shape, axes, { bias }).y;
    for (const constant of [0.1, 1000.1, 3.3e7, 1e30]) {
      for (const hit of [0, Math.max(...groups)]) {
        const x = draw(product(shape), 1).map((value, i) => (groups[i] === hit ? constant : value));
        const inGroup = (values: Float32Array) => values.filter((_, i) => groups[i] === hit);
        const data = `over ${title(axes)}, constant ${constant}`;
        const y = sn.layerNorm(x, { shape, axes, scale, bias });
        expectBits({ op: 'layerNorm', shape, data }, inGroup(y), inGroup(Float32Array.from(repeated)));
        expect(inGroup(sn.layerNorm(x, { shape, axes })).every((value) => value === 0)).toBe(true);
        const { mean, variance } = sn.moments(x, { shape, axes });
        expect([mean[hit], variance[hit]]).toEqual([Math.fround(constant), 0]);
        expect(inGroup(sn.layerNorm(x, { shape, axes, epsilon: 0 })).every(Number.isNaN)).toBe(true);
      }
    }
  });

  test.each(cases)('NaN and infinity make their own group NaN: $shape over $axes', ({ shape, axes }) => {
    const groups = groupsOf(shape, axes);
    const count = Math.max(...groups) + 1;
    const x = draw(product(shape), 1);
    const everything = (values: Float32Array) => {
      const meanOut = new Float32Array(count);
      const invStdOut = new Float32Array(count);
      const rmsOut = new Float32Array(count);
      const { mean, variance } = sn.moments(values, { shape, axes });
      return {
        values: {
          layerNorm: sn.layerNorm(values, { shape, axes, meanOut, invStdOut }),
          rmsNorm: sn.rmsNorm(values, { shape, axes, invStdOut: rmsOut }),
          ...Object.fromEntries(norms.map((p) => [`norm ${p}`, sn.lpNormalize(values, { shape, axes, p })])),
        },
        statistics: { meanOut, invStdOut, rmsOut, mean, variance },
      };
    };
    const clean = everything(x);
    for (const bad of [NaN, Infinity, -Infinity]) {
      for (const at of [0, x.length >> 1, x.length - 1]) {
        const got = everything(x.with(at, bad));
        const hit = groups[at];
        const what = { op: 'all', shape, data: `over ${title(axes)}, ${bad} at ${at}` };
        for (const [output, values] of Object.entries(clean.values)) {
          const expected = values.map((value, i) => (groups[i] === hit ? NaN : value));
          expectBits({ ...what, output }, got.values[output as keyof typeof got.values] as Float32Array, expected);
        }
        for (const [output, values] of Object.entries(clean.statistics)) {
          const expected = values.map((value, group) => (group === hit ? NaN : value));
          expectBits({ ...what, output }, got.statistics[output as keyof typeof got.statistics], expected);
        }
      }
    }
  });

  test.each(cases)('+-1e30 and +-1e-30 with epsilon 0 give exactly +-1: $shape over $axes', ({ shape, axes }) => {
    const seen = new Map<number, number>();
    const signs = groupsOf(shape, axes).map((group) => {
      const sign = -(seen.get(group) ?? -1);
      seen.set(group, sign);
      return sign;
    });
    const odd = product(extentsOf(shape, axes)) % 2 === 1;
    for (const size of [1e-30, 1e30]) {
      const x = Float32Array.from(signs, (sign) => sign * size);
      const what = { shape, data: `over ${title(axes)}, +-${size}` };
      expectBits({ op: 'rmsNorm', ...what }, sn.rmsNorm(x, { shape, axes, epsilon: 0 }), signs);
      if (odd) continue;
      expectBits({ op: 'layerNorm', ...what }, sn.layerNorm(x, { shape, axes, epsilon: 0 }), signs);
    }
    const huge = Float32Array.from(signs, (sign) => sign * 3e30);
    expectBits({ op: 'rmsNorm', shape, data: `over ${title(axes)}, +-3e30` }, sn.rmsNorm(huge, { shape, axes }), signs);
    const peak = sn.lpNormalize(huge, { shape, axes, p: Infinity });
    expectNear({ op: 'lpNormalize', shape, data: `over ${title(axes)}, +-3e30` }, peak, signs, promise);
  });

  test('no groups give empty results, and nothing in a group is ERR_SHAPE', () => {
    const empty = new Float32Array(0);
    for (const [shape, axes] of [
      [
        [3, 0, 4],
        [0, 2],
      ],
      [
        [3, 0, 4],
        [2, 0],
      ],
      [
        [3, 4, 0, 5, 2],
        [4, 1],
      ],
      [[65536, 0, 65536], [0]],
    ] as const) {
      expect(sn.layerNorm(empty, { shape, axes })).toHaveLength(0);
      expect(sn.rmsNorm(empty, { shape, axes, out: empty })).toBe(empty);
      expect(sn.lpNormalize(empty, { shape, axes })).toHaveLength(0);
      expect(sn.moments(empty, { shape, axes }).mean).toHaveLength(0);
    }
    for (const [shape, axes] of [
      [[0, 3, 4], [0]],
      [
        [0, 3, 4],
        [2, 0],
      ],
      [
        [2, 3, 0, 5],
        [0, 2],
      ],
    ] as const) {
      const failure = (op: string) => expect.objectContaining({ name: 'NormError', code: 'ERR_SHAPE', op });
      expect(() => sn.layerNorm(empty, { shape, axes })).toThrow(failure('layerNorm'));
      expect(() => sn.rmsNorm(empty, { shape, axes })).toThrow(failure('rmsNorm'));
      expect(() => sn.lpNormalize(empty, { shape, axes })).toThrow(failure('lpNormalize'));
      expect(() => sn.moments(empty, { shape, axes })).toThrow(failure('moments'));
    }
  });
});

describe('memory', () => {
  for (const offset of [0, 1, 2, 3]) {
    test(`subarrays at ${offset} floats give the same bits`, () => {
      const shape = [4, 3, 5, 6];
      const values = draw(360, 1, 3, 2);
      for (const axes of [[0], [1], [2, 1], [0, 2], [3, 0], [1, 3], [3, 2, 0]]) {
        const units = product(extentsOf(shape, axes));
        const floats = { scale: drawScale(units, 2), bias: draw(units, 3) };
        const expected = sn.layerNorm(values, { shape, axes, ...floats });
        const x = place(values, offset);
        const scale = place(floats.scale, (offset + 1) % 4);
        const bias = place(floats.bias, (offset + 2) % 4);
        const out = placeOut(360, (offset + 3) % 4);
        const meanOut = placeOut(360 / units, offset);
        const invStdOut = placeOut(360 / units, (offset + 2) % 4);
        const parameters = { shape, axes, scale: scale.values, bias: bias.values };
        const saved = { meanOut: meanOut.values, invStdOut: invStdOut.values };
        const data = `over ${title(axes)}, offset ${offset}`;

        expect(sn.layerNorm(x.values, { ...parameters, ...saved, out: out.values })).toBe(out.values);
        expectBits({ op: 'layerNorm', shape, data }, out.values, expected);
        expectBits({ op: 'layerNorm', shape, data, output: 'x' }, x.values, values);
        expect(sn.layerNorm(x.values, { ...parameters, ...saved, out: x.values })).toBe(x.values);
        expectBits({ op: 'layerNorm', shape, data: `in place, ${data}` }, x.values, expected);

        x.values.set(values);
        const root = { shape, axes, scale: scale.values, invStdOut: invStdOut.values };
        const rms = sn.rmsNorm(values, { shape, axes, scale: floats.scale });
        expectBits({ op: 'rmsNorm', shape, data }, sn.rmsNorm(x.values, { ...root, out: out.values }), rms);
        expectBits({ op: 'rmsNorm', shape, data, output: 'x' }, x.values, values);
        expectBits({ op: 'rmsNorm', shape, data }, sn.rmsNorm(x.values, { ...root, out: x.values }), rms);
        const placed = [x, scale, bias, out, meanOut, invStdOut];
        expect(placed.map((each) => each.intact())).not.toContain(false);
        expectBits({ op: 'all', shape, output: 'scale' }, scale.values, floats.scale);
        expectBits({ op: 'all', shape, output: 'bias' }, bias.values, floats.bias);
      }
    });
  }
});

describe('relations', () => {
  const cases = [
    { shape: [4, 3, 5], axes: [0] },
    { shape: [4, 3, 5], axes: [1] },
    { shape: [4, 3, 5], axes: [2, 0] },
    { shape: [4, 3, 5, 6], axes: [0, 2] },
    { shape: [4, 3, 5, 6], axes: [3, 1] },
    { shape: [2, 3, 4, 5, 2], axes: [3, 0, 1] },
  ];

  test.each(cases)('$shape over $axes is the transposed x over its last axes', ({ shape, axes }) => {
    const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
    const order = [...kept, ...axes];
    const back = shape.map((_, axis) => order.indexOf(axis));
    const moved = extentsOf(shape, order);
    const last = axes.map((_, i) => kept.length + i);
    const x = draw(product(shape), 1, 3, 2);
    const scale = drawScale(product(extentsOf(shape, axes)), 2);
    const bias = draw(scale.length, 3);
    const { magnitude } = reference.layerNorm(x, shape, axes, { scale, bias });
    const data = `over ${title(axes)}`;
    const rows = transpose(x, shape, order);
    const layer = transpose(sn.layerNorm(rows, { shape: moved, axes: last, scale, bias }), moved, back);
    const y = sn.layerNorm(x, { shape, axes, scale, bias });
    expectNear({ op: 'layerNorm', shape, data }, y, layer, 2 * affinePromise, magnitude);
    const rms = transpose(sn.rmsNorm(rows, { shape: moved, axes: last, scale }), moved, back);
    expectNear({ op: 'rmsNorm', shape, data }, sn.rmsNorm(x, { shape, axes, scale }), rms, 2 * affinePromise);
    for (const p of norms) {
      const unit = transpose(sn.lpNormalize(rows, { shape: moved, axes: last, p }), moved, back);
      expectNear({ op: 'lpNormalize', shape, data }, sn.lpNormalize(x, { shape, axes, p }), unit, 2 * promise);
    }
  });

  test('each item of a first axis that is left is the same alone, to the bit', () => {
    for (const { shape, axes } of [
      { shape: [3, 4, 5], axes: [1] },
      { shape: [3, 4, 50], axes: [1] },
      { shape: [3, 40, 5, 6], axes: [1, 3] },
      { shape: [3, 4, 5, 60], axes: [3, 1] },
      { shape: [3, 4, 5, 3, 7], axes: [1, 3] },
    ]) {
      const x = draw(product(shape), 1, 3, 2);
      const scale = drawScale(product(extentsOf(shape, axes)), 2);
      const bias = draw(scale.length, 3);
      const one = [1, ...shape.slice(1)];
      const item = product(one);
      const together = {
        layerNorm: sn.layerNorm(x, { shape, axes, scale, bias }),
        rmsNorm: sn.rmsNorm(x, { shape, axes, scale }),
        lpNormalize: sn.lpNormalize(x, { shape, axes }),
      };
      for (let n = 0; n < (shape[0] as number); ++n) {
        const part = (values: Float32Array) => values.subarray(n * item, (n + 1) * item);
        const alone = {
          layerNorm: sn.layerNorm(part(x), { shape: one, axes, scale, bias }),
          rmsNorm: sn.rmsNorm(part(x), { shape: one, axes, scale }),
          lpNormalize: sn.lpNormalize(part(x), { shape: one, axes }),
        };
        for (const op of ['layerNorm', 'rmsNorm', 'lpNormalize'] as const) {
          const data = `over ${title(axes)}, item ${n}`;
          expectBits({ op, shape, data }, alone[op], part(together[op]));
        }
      }
    }
  });

  test('scale, and statistics, of the first axis alone are those of batch norm in training', () => {
    const shape = [40, 6];
    const x = draw(240, 1, 3, 2);
    const { mean, variance, y } = sn.batchNormTraining(x, { shape });
    const moments = sn.moments(x, { shape, axes: [0] });
    expectBits({ op: 'moments', shape, output: 'mean' }, moments.mean, mean);
    expectBits({ op: 'moments', shape, output: 'variance' }, moments.variance, variance);
    const { magnitude } = reference.layerNorm(x, shape, [0]);
    expectNear({ op: 'layerNorm', shape }, sn.layerNorm(x, { shape, axes: [0] }), y, 2 * promise, magnitude);
  });

  test('values computed by hand', () => {
    // Over axis 0: means 2 and 20, deviations 1 and 10.
    const x = Float32Array.from([1, 10, 3, 30]);
    const shape = [2, 2];
    expect([...sn.layerNorm(x, { shape, axes: 0, epsilon: 0 })]).toEqual([-1, -1, 1, 1]);
    const affine = { shape, axes: [0], epsilon: 0, scale: [2, 3], bias: [0.5, 1] };
    const y = sn.layerNorm(x, affine);
    expectNear({ op: 'layerNorm', shape }, y, [-1.5, -1.5, 4, 4], affinePromise, [2.5, 2.5, 4, 4]);
    // 0 to 7 over the outer axes of [2, 2, 2]: {0, 1, 4, 5} and {2, 3, 6, 7}, with mean 2.5 and 4.5, variance 4.25.
    const cube = Float32Array.from([0, 1, 2, 3, 4, 5, 6, 7]);
    const outer = { shape: [2, 2, 2], axes: [2, 0], epsilon: 0 };
    const { mean, variance, count } = sn.moments(cube, { shape: outer.shape, axes: outer.axes });
    expect([...mean, ...variance, count]).toEqual([2.5, 4.5, 4.25, 4.25, 4]);
    const factor = 1 / Math.sqrt(4.25);
    const deviations = [-2.5, -1.5, -2.5, -1.5, 1.5, 2.5, 1.5, 2.5];
    const plain = deviations.map((deviation) => deviation * factor);
    const size = Array.from(plain, (value) => Math.max(1, Math.abs(value)));
    expectNear({ op: 'layerNorm', shape: outer.shape }, sn.layerNorm(cube, outer), plain, promise, size);
    // Scale has the extents of axes 2 and 0, in this order: [2][0] is its second row.
    const scaled = sn.layerNorm(cube, { ...outer, scale: [1, 10, 100, 1000] });
    const factors = [1, 100, 1, 100, 10, 1000, 10, 1000];
    const expected = plain.map((value, i) => value * (factors[i] as number));
    const magnitude = size.map((each, i) => each * (factors[i] as number));
    expectNear({ op: 'layerNorm', shape: outer.shape }, scaled, expected, promise + machineEpsilon, magnitude);
  });
});
