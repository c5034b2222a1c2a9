import { type ErrorCode, type LayerNormOptions, load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { canary, detach, draw, drawScale, place, placeOut, product } from './data.ts';
import {
  affinePromise,
  type Case,
  expectBits,
  expectNear,
  expectStatistics,
  invStdPromise,
  promise,
  type Reference,
  type Shape,
} from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

type Axes = readonly number[];
type Lengths = readonly number[];

interface Member {
  readonly isValid: boolean;
  readonly group: number;
  readonly parameter: number;
}

/** Each value of x [items, steps, ...]: whether it is valid, and which statistics and parameter are its own. */
function membersOf(shape: Shape, lengths: Lengths, over: Axes, parametersAlong: Axes): Member[] {
  const kept = shape.map((_, axis) => axis).filter((axis) => !over.includes(axis));
  const place = shape.map(() => 0);
  const indexAlong = (axes: Axes) => {
    let index = 0;
    for (const axis of axes) index = index * (shape[axis] as number) + (place[axis] as number);
    return index;
  };
  return Array.from({ length: product(shape) }, () => {
    const isValid = (place[1] as number) < (lengths[place[0] as number] as number);
    const member = { isValid, group: indexAlong(kept), parameter: indexAlong(parametersAlong) };
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      place[axis] = (place[axis] as number) + 1;
      if (place[axis] !== shape[axis]) break;
      place[axis] = 0;
    }
    return member;
  });
}

interface Parameters {
  readonly scale?: Float32Array | undefined;
  readonly bias?: Float32Array | undefined;
  readonly epsilon?: number | undefined;
}

interface Ragged extends Reference {
  readonly count: number[];
  readonly isValid: boolean[];
}

/** The definition over the valid places only. A group without any has the statistics 0/0. */
function normalizeValid(
  x: Float32Array,
  shape: Shape,
  lengths: Lengths,
  over: Axes,
  parametersAlong: Axes,
  { scale, bias, epsilon = 1e-5 }: Parameters,
  meanOf: (sum: number, count: number) => number,
): Ragged {
  const members = membersOf(shape, lengths, over, parametersAlong);
  const groups = product(shape.filter((_, axis) => !over.includes(axis)));
  const count = new Array<number>(groups).fill(0);
  const sum = new Array<number>(groups).fill(0);
  const squares = new Array<number>(groups).fill(0);
  const add = (sums: number[], group: number, value: number) => {
    sums[group] = (sums[group] as number) + value;
  };
  members.forEach(({ isValid, group }, i) => {
    if (!isValid) return;
    add(count, group, 1);
    add(sum, group, x[i] as number);
  });
  const mean = sum.map((each, group) => meanOf(each, count[group] as number));
  members.forEach(({ isValid, group }, i) => {
    if (isValid) add(squares, group, ((x[i] as number) - (mean[group] as number)) ** 2);
  });
  const variance = squares.map((each, group) => each / (count[group] as number));
  const invStd = variance.map((each) => 1 / Math.sqrt(each + epsilon));
  const y = new Float64Array(x.length);
  const magnitude = new Float64Array(x.length);
  members.forEach(({ isValid, group, parameter }, i) => {
    if (!isValid) return;
    const normalized = ((x[i] as number) - (mean[group] as number)) * (invStd[group] as number);
    const factor = scale ? (scale[parameter] as number) : 1;
    const summand = bias ? (bias[parameter] as number) : 0;
    y[i] = normalized * factor + summand;
    magnitude[i] = Math.max(1, Math.abs(normalized)) * Math.abs(factor) + Math.abs(summand);
  });
  return { y, magnitude, mean, variance, invStd, count, isValid: members.map(({ isValid }) => isValid) };
}

const references = {
  layerNorm: (x: Float32Array, shape: Shape, lengths: Lengths, axes: Axes, parameters: Parameters = {}) =>
    normalizeValid(x, shape, lengths, axes, axes, parameters, (sum, count) => sum / count),
  rmsNorm: (x: Float32Array, shape: Shape, lengths: Lengths, axes: Axes, parameters: Parameters = {}) =>
    normalizeValid(x, shape, lengths, axes, axes, parameters, () => 0),
  batchNormTraining: (x: Float32Array, shape: Shape, lengths: Lengths, axis: number, parameters: Parameters = {}) => {
    const others = shape.map((_, other) => other).filter((other) => other !== axis);
    return normalizeValid(x, shape, lengths, others, [axis], parameters, (sum, count) => sum / count);
  },
};

/** Near the reference where there is a value, and +0, not -0, past the lengths. */
function expectValid(what: Case, got: Float32Array, expected: Ragged, bound: number): void {
  expectNear(what, got, expected.y, bound, expected.magnitude);
  expected.isValid.forEach((isValid, i) => {
    if (isValid || Object.is(got[i], 0)) return;
    const value = Object.is(got[i], -0) ? '-0' : got[i];
    throw new Error(`${what.op} [${what.shape}] ${what.data}: y[${i}] is past a length: expected +0, got ${value}`);
  });
}

/** What nobody may see. */
const poisons = [NaN, Infinity, -Infinity, 1e30, -1e30, NaN];

function poison(x: Float32Array, shape: Shape, lengths: Lengths): Float32Array<ArrayBuffer> {
  const members = membersOf(shape, lengths, [], []);
  return Float32Array.from(x, (value, i) => (members[i]?.isValid ? value : (poisons[i % poisons.length] as number)));
}

/** Of `items` sequences of at most `steps`. */
function kindsOfLengths(items: number, steps: number): { kind: string; lengths: number[] }[] {
  const each = (length: (item: number) => number) => Array.from({ length: items }, (_, item) => length(item));
  const mixed = [steps, 0, Math.min(steps, 1), Math.max(0, steps - 1), Math.floor(steps / 2)];
  return [
    { kind: 'mixed', lengths: each((item) => mixed[item % mixed.length] as number) },
    { kind: 'mixed the other way', lengths: each((item) => mixed[(items - item) % mixed.length] as number) },
    { kind: 'full', lengths: each(() => steps) },
    { kind: 'all empty', lengths: each(() => 0) },
    { kind: 'all but the last empty', lengths: each((item) => (item === items - 1 ? steps : 0)) },
    { kind: 'one step each', lengths: each(() => Math.min(steps, 1)) },
  ];
}

/** Every set of axes in every order. */
function orderedSubsets(rank: number): number[][] {
  const longer = (axes: number[]): number[][] => [
    axes,
    ...Array.from({ length: rank }, (_, axis) => axis)
      .filter((axis) => !axes.includes(axis))
      .flatMap((axis) => longer([...axes, axis])),
  ];
  return longer([]);
}

const layouts: { shape: number[]; axes: number[][] }[] = [
  { shape: [4, 7], axes: orderedSubsets(2) },
  { shape: [5, 1], axes: orderedSubsets(2) },
  { shape: [1, 9], axes: orderedSubsets(2) },
  { shape: [7, 70], axes: orderedSubsets(2) },
  { shape: [5, 4, 3], axes: orderedSubsets(3) },
  { shape: [1, 6, 5], axes: orderedSubsets(3) },
  { shape: [6, 3, 1], axes: orderedSubsets(3) },
  { shape: [5, 9, 33], axes: [[2], [1], [1, 2], [2, 1], [0], [0, 1], [0, 1, 2], [0, 2]] },
  {
    shape: [5, 4, 2, 3],
    axes: [[3], [1], [2], [0], [2, 3], [1, 2], [3, 1], [1, 0], [2, 0], [0, 3], [0, 1, 2], [3, 0, 1], [3, 2, 1, 0], []],
  },
];
const withoutParameters = layouts.flatMap(({ shape, axes }) => axes.map((over) => ({ shape, axes: over })));

type Op = 'layerNorm' | 'rmsNorm';

function normalize(op: Op, x: Float32Array, options: LayerNormOptions & { out?: Float32Array } = {}): Float32Array {
  return op === 'layerNorm' ? sn.layerNorm(x, options) : sn.rmsNorm(x, options);
}

/** As a caller may write them: from the front or the end, and one axis alone without a list. */
function waysToWrite(axes: readonly number[], rank: number): (number | number[])[] {
  const fromTheEnd = axes.map((axis) => axis - rank);
  return axes.length === 1 ? [axes[0] as number, fromTheEnd[0] as number, fromTheEnd] : [fromTheEnd];
}

describe.each(['layerNorm', 'rmsNorm'] as const)('%s', (op) => {
  test.each(withoutParameters)('$shape over $axes sees the valid values only', ({ shape, axes }) => {
    const [items, steps] = shape as [number, number];
    const units = product(axes.map((axis) => shape[axis] as number));
    const groups = product(shape) / units;
    const scale = drawScale(units, 3);
    const bias = draw(units, 4);
    for (const { kind, lengths } of kindsOfLengths(items, steps)) {
      const x = poison(draw(product(shape), shape.length, 3, 2), shape, lengths);
      const untouched = Float32Array.from(x);
      for (const withScale of [true, false]) {
        for (const withBias of op === 'layerNorm' ? [true, false] : [false]) {
          const parameters = { scale: withScale ? scale : undefined, ...(withBias ? { bias } : {}) };
          const names = `${withScale ? ', scale' : ''}${withBias ? ', bias' : ''}`;
          const data = `over [${axes}], lengths ${kind} [${lengths}]${names}`;
          const expected = references[op](x, shape, lengths, axes, parameters);
          const statistics = {
            invStdOut: new Float32Array(groups).fill(canary),
            ...(op === 'layerNorm' ? { meanOut: new Float32Array(groups).fill(canary) } : {}),
          };
          const y = normalize(op, x, { shape, axes, lengths, ...parameters, ...statistics });
          expectValid({ op, shape, data }, y, expected, withScale || withBias ? affinePromise : promise);
          const { invStdOut: invStd, meanOut: mean } = statistics as {
            invStdOut: Float32Array;
            meanOut?: Float32Array;
          };
          if (mean) expectStatistics({ op, shape, data }, { mean }, expected);
          expectNear({ op, shape, data, output: 'invStdOut' }, invStd, expected.invStd, invStdPromise);
          expectBits({ op, shape, data, output: 'x' }, x, untouched);
          if (!withScale) continue;
          const given = { shape, ...parameters };
          for (const over of waysToWrite(axes, shape.length)) {
            expectBits({ op, shape, data }, normalize(op, x, { ...given, axes: over, lengths }), y);
          }
          expectBits({ op, shape, data }, normalize(op, x, { ...given, axes, lengths: Int32Array.from(lengths) }), y);
        }
      }
    }
  });

  test('what lies past the lengths changes no bit', () => {
    const shape = [5, 6, 7];
    const lengths = [6, 0, 1, 5, 3];
    const x = draw(210, 1, 3, 2);
    for (const axes of [[2], [1], [1, 2], [0], [0, 1], [0, 1, 2], [2, 0]]) {
      const expected = normalize(op, x, { shape, axes, lengths });
      for (const value of [0, ...poisons, 3.4e38, 1e-45]) {
        const members = membersOf(shape, lengths, [], []);
        const padded = x.map((each, i) => (members[i]?.isValid ? each : value));
        const data = `over [${axes}], padded with ${value}`;
        expectBits({ op, shape, data }, normalize(op, padded, { shape, axes, lengths }), expected);
      }
    }
  });

  test('full lengths give what none give: to the bit over the last axis, and to the bound over others', () => {
    for (const shape of [
      [5, 37],
      [4, 3, 65],
      [3, 4, 2, 9],
    ]) {
      const x = draw(product(shape), 2, 30, 3);
      const lengths = Array.from({ length: shape[0] as number }, () => shape[1] as number);
      for (const axes of orderedSubsets(shape.length)) {
        const units = product(axes.map((axis) => shape[axis] as number));
        const scale = drawScale(units, 5);
        const full = normalize(op, x, { shape, axes, scale, lengths });
        const none = normalize(op, x, { shape, axes, scale });
        const what = { op, shape, data: `over [${axes}]` };
        if (axes.length === 1 && axes[0] === shape.length - 1) expectBits(what, full, none);
        const { magnitude } = references[op](x, shape, lengths, axes, { scale });
        expectNear(what, full, none, 2 * affinePromise, magnitude);
      }
    }
  });

  test('a padded sequence is, to the bit, the sequence alone', () => {
    const scale = drawScale(1100, 3);
    for (const [steps, lengths] of [
      [70, Array.from({ length: 71 }, (_, length) => length)],
      [1100, [1024, 1, 0, 1023, 1025, 1100, 512, 513]],
    ] as const) {
      const shape = [lengths.length, steps];
      const x = poison(draw(product(shape), steps, 50, 3), shape, lengths);
      const y = normalize(op, x, { shape, lengths });
      const scaled = normalize(op, x, { shape, lengths, scale: scale.subarray(0, steps) });
      lengths.forEach((length, item) => {
        if (length === 0) return;
        const own = (values: Float32Array) => values.subarray(item * steps, item * steps + length);
        const what = { op, shape: [length], data: `item ${item} of [${shape}]` };
        expectBits(what, own(y), normalize(op, own(x)));
        expectBits(what, own(scaled), normalize(op, own(x), { scale: scale.subarray(0, length) }));
      });
    }
    for (const features of [1, 3, 64, 1025]) {
      const shape = [4, 6, features];
      const lengths = [6, 1, 0, 4];
      const x = poison(draw(product(shape), features, 50, 3), shape, lengths);
      const given = { scale: scale.subarray(0, features) };
      const y = normalize(op, x, { shape, lengths, ...given });
      lengths.forEach((length, item) => {
        const begin = item * 6 * features;
        const own = (values: Float32Array) => values.subarray(begin, begin + length * features);
        const alone = normalize(op, own(x), { shape: [length, features], ...given });
        expectBits({ op, shape: [length, features], data: `item ${item} of [${shape}]` }, own(y), alone);
      });
    }
  });

  test('out may be x, and nothing beside out is written', () => {
    const shape = [5, 4, 7];
    const lengths = [4, 0, 1, 3, 2];
    for (const axes of [[2], [1], [1, 2], [0], [0, 1], [0, 1, 2], [2, 0]]) {
      const values = poison(draw(140, 1), shape, lengths);
      const scale = drawScale(product(axes.map((axis) => shape[axis] as number)), 2);
      const expected = normalize(op, values, { shape, axes, lengths, scale });
      for (const offset of [0, 1, 2, 3]) {
        const x = place(values, offset);
        const out = placeOut(140, 3 - offset);
        const given = Int32Array.from(lengths);
        const options = { shape, axes, lengths: given, scale };
        const what = { op, shape, data: `over [${axes}], offset ${offset}` };
        expect(normalize(op, x.values, { ...options, out: out.values })).toBe(out.values);
        expectBits(what, out.values, expected);
        expectBits({ ...what, output: 'x' }, x.values, values);
        expect(normalize(op, x.values, { ...options, out: x.values })).toBe(x.values);
        expectBits({ ...what, data: `${what.data}, in place` }, x.values, expected);
        expect([x.intact(), out.intact()]).toEqual([true, true]);
        expect([...given]).toEqual(lengths);
      }
    }
  });

  test('of a residual too, only the valid values are seen, and residualOut past the lengths is +0', () => {
    const shape = [5, 4, 3];
    const lengths = [4, 0, 1, 3, 2];
    const x = poison(draw(60, 1), shape, lengths);
    const residual = poison(draw(60, 2), shape, lengths);
    const members = membersOf(shape, lengths, [], []);
    const sum = x.map((value, i) => (members[i]?.isValid ? value + (residual[i] as number) : 0));
    for (const axes of [[2], [1], [0, 1], [2, 0]]) {
      const residualOut = new Float32Array(60).fill(canary);
      const what = { op, shape, data: `over [${axes}]` };
      const y = normalize(op, x, { shape, axes, lengths, residual, residualOut });
      expectBits({ ...what, output: 'residualOut' }, residualOut, sum);
      expectBits(what, y, normalize(op, sum, { shape, axes, lengths }));
      expectBits(what, normalize(op, x, { shape, axes, lengths, residual }), y);
    }
  });

  test.each([NaN, Infinity, -Infinity])('%f within a length fills the valid part of its group, and no more', (bad) => {
    const shape = [4, 5, 3];
    const lengths = [5, 0, 2, 4];
    for (const axes of [[2], [1], [1, 2], [0], [0, 1], [2, 0]]) {
      const members = membersOf(shape, lengths, axes, []);
      const clean = poison(draw(60, 1), shape, lengths);
      const groups = 60 / product(axes.map((axis) => shape[axis] as number));
      // A value of the last item, whose group reaches past its length over most of the axes.
      const at = 45 + 3;
      const x = clean.with(at, bad);
      const before = normalize(op, clean, { shape, axes, lengths });
      const invStdOut = new Float32Array(groups);
      const y = normalize(op, x, { shape, axes, lengths, invStdOut });
      const group = members[at]?.group as number;
      const expected = before.map((value, i) => (members[i]?.isValid && members[i]?.group === group ? NaN : value));
      expectBits({ op, shape, data: `over [${axes}], ${bad}` }, y, expected);
      expect(invStdOut[group]).toBeNaN();
    }
  });

  test('lengths that are undefined or null are absent', () => {
    const x = draw(12, 1);
    const expected = normalize(op, x, { shape: [3, 4] });
    for (const lengths of [undefined, null as never]) {
      expectBits({ op, shape: [3, 4] }, normalize(op, x, { shape: [3, 4], lengths }), expected);
    }
  });

  test('no items, no steps and no features give empty results', () => {
    const empty = new Float32Array(0);
    expect(normalize(op, empty, { shape: [0, 3, 4], lengths: [] })).toHaveLength(0);
    expect(normalize(op, empty, { shape: [0, 3], lengths: new Int32Array(0) })).toHaveLength(0);
    expect(normalize(op, empty, { shape: [2, 0, 4], lengths: [0, 0] })).toHaveLength(0);
    expect(normalize(op, empty, { shape: [2, 3, 0], lengths: [1, 3], axes: 1 })).toHaveLength(0);
  });
});

describe('layerNorm', () => {
  const op = 'layerNorm';

  test.each([0.1, 1000.1, 3.3e7, 1e30])('a valid part that is %f everywhere gives exactly bias', (constant) => {
    const shape = [5, 6, 7];
    const lengths = [6, 0, 1, 5, 3];
    for (const axes of [[2], [1], [1, 2], [0], [0, 1], [0, 1, 2], [2, 0]]) {
      const units = product(axes.map((axis) => shape[axis] as number));
      const bias = draw(units, 2);
      const x = poison(new Float32Array(210).fill(constant), shape, lengths);
      const y = sn.layerNorm(x, { shape, axes, lengths, bias, scale: drawScale(units, 1) });
      const members = membersOf(shape, lengths, axes, axes);
      const expected = members.map(({ isValid, parameter }) => (isValid ? (bias[parameter] as number) : 0));
      expectBits({ op, shape, data: `over [${axes}]` }, y, expected);
    }
  });

  test.each([1e3, 1e5, 1e7])('mean/std %f, and items whose means lie far apart', (ratio) => {
    const shape = [5, 40, 9];
    const lengths = [40, 7, 0, 1, 33];
    const near = draw(product(shape), 1, ratio * 0.5, 0.5);
    const apart = near.map((value, i) => value * (1 + Math.floor(i / 360)));
    for (const [data, values] of Object.entries({ near, apart })) {
      const x = poison(values, shape, lengths);
      for (const axes of [[2], [1], [1, 2], [0], [0, 1], [0, 1, 2], [0, 2]]) {
        const expected = references.layerNorm(x, shape, lengths, axes, { epsilon: 0 });
        const groups = expected.mean.length;
        const statistics = { meanOut: new Float32Array(groups), invStdOut: new Float32Array(groups) };
        const y = sn.layerNorm(x, { shape, axes, lengths, epsilon: 0, ...statistics });
        const what = { op, shape, data: `over [${axes}], mean/std ${ratio}, ${data}` };
        // Over axis 0 a group may have one value: 0/0 at epsilon 0, in the reference too.
        expectValid(what, y, expected, promise);
        expectStatistics(what, { mean: statistics.meanOut, invStd: statistics.invStdOut }, expected);
      }
    }
  });
});

describe('moments', () => {
  const op = 'moments';

  test.each(withoutParameters)('$shape over $axes are those of the valid values', ({ shape, axes }) => {
    const [items, steps] = shape as [number, number];
    for (const { kind, lengths } of kindsOfLengths(items, steps)) {
      const x = poison(draw(product(shape), shape.length, 3, 2), shape, lengths);
      const what = { op, shape, data: `over [${axes}], lengths ${kind} [${lengths}]` };
      const expected = references.layerNorm(x, shape, lengths, axes);
      const result = sn.moments(x, { shape, axes, lengths });
      expectStatistics(what, result, expected);
      if (axes.includes(0) && axes.includes(1)) {
        // All groups have as many values, so one number says it.
        const [count] = expected.count;
        expect({ ...what, count: result.count }).toEqual({ ...what, count });
      } else {
        expect({ ...what, count: result.count }).toEqual({ ...what, count: Int32Array.from(expected.count) });
      }
      for (const over of waysToWrite(axes, shape.length)) {
        const again = sn.moments(x, { shape, axes: over, lengths: Int32Array.from(lengths) });
        expectBits(what, again.mean, result.mean);
        expectBits(what, again.variance, result.variance);
        expect(again.count).toEqual(result.count);
      }
    }
  });

  test('a group without values has NaN statistics and the count 0', () => {
    const x = draw(24, 1);
    const bySequence = sn.moments(x, { shape: [3, 4, 2], axes: [1, 2], lengths: [2, 0, 4] });
    expect([...bySequence.mean].map(Number.isNaN)).toEqual([false, true, false]);
    expect([...bySequence.variance].map(Number.isNaN)).toEqual([false, true, false]);
    expect(bySequence.count).toEqual(Int32Array.of(4, 0, 8));
    const ofAll = sn.moments(x, { shape: [3, 4, 2], axes: [0, 1], lengths: [0, 0, 0] });
    expect([...ofAll.mean, ...ofAll.variance]).toEqual([NaN, NaN, NaN, NaN]);
    expect(ofAll.count).toBe(0);
  });

  test('by hand: [1, 2, 3, x], [4, x, x, x] and [x, x, x, x]', () => {
    const x = Float32Array.from([1, 2, 3, NaN, 4, 1e30, NaN, Infinity, NaN, NaN, 1, 2]);
    const shape = [3, 4];
    const lengths = [3, 1, 0];
    expect(sn.moments(x, { shape, axes: 1, lengths })).toEqual({
      mean: Float32Array.of(2, 4, NaN),
      variance: Float32Array.of(2 / 3, 0, NaN),
      count: Int32Array.of(3, 1, 0),
    });
    expect(sn.moments(x, { shape, axes: 0, lengths })).toEqual({
      mean: Float32Array.of(2.5, 2, 3, NaN),
      variance: Float32Array.of(2.25, 0, 0, NaN),
      count: Int32Array.of(2, 1, 1, 0),
    });
    expect(sn.moments(x, { shape, axes: [0, 1], lengths })).toEqual({
      mean: Float32Array.of(2.5),
      variance: Float32Array.of(1.25),
      count: 4,
    });
  });

  test('full lengths give what none give, to the bound', () => {
    const shape = [4, 30, 5];
    const x = draw(600, 1, 40, 3);
    const lengths = [30, 30, 30, 30];
    for (const axes of [[2], [1], [1, 2], [0], [0, 1], [0, 1, 2], [2, 0]]) {
      const full = sn.moments(x, { shape, axes, lengths });
      const none = sn.moments(x, { shape, axes });
      const what = { op, shape, data: `over [${axes}]` };
      const [mean, variance] = [Array.from(none.mean), Array.from(none.variance)];
      // Both may be off by the promise, and both are rounded.
      const magnitude = mean.map((each, i) => 2 * Math.sqrt(variance[i] as number) + Math.abs(each) / 5);
      expectNear({ ...what, output: 'mean' }, full.mean, mean, promise, magnitude);
      const twice = variance.map((each) => 2 * each);
      expectNear({ ...what, output: 'variance' }, full.variance, variance, 2 ** -19, twice);
    }
  });
});

describe('batchNormTraining', () => {
  const op = 'batchNormTraining';
  const channelLayouts = [
    { shape: [5, 7, 3], axis: 2 },
    { shape: [5, 7, 33], axis: 2 },
    { shape: [6, 9, 1], axis: 2 },
    { shape: [5, 4, 3, 2], axis: 3 },
    { shape: [5, 4, 3, 2], axis: 2 },
    { shape: [3, 2, 2, 2, 3], axis: 4 },
    { shape: [5, 7], axis: 0 },
    { shape: [5, 7, 3], axis: 0 },
    { shape: [5, 4, 3, 2], axis: 0 },
    { shape: [7, 130, 2], axis: 0 },
  ];

  test.each(channelLayouts)('$shape by axis $axis sees the valid values only', ({ shape, axis }) => {
    const [items, steps] = shape as [number, number];
    const channels = shape[axis] as number;
    const scale = drawScale(channels, 3);
    const bias = draw(channels, 4);
    let tried = 0;
    for (const { kind, lengths } of kindsOfLengths(items, steps)) {
      const x = poison(draw(product(shape), axis + 1, 3, 2), shape, lengths);
      const untouched = Float32Array.from(x);
      const { count } = references.batchNormTraining(x, shape, lengths, axis);
      if (count.includes(1)) continue;
      ++tried;
      for (const parameters of [{}, { scale }, { bias }, { scale, bias }]) {
        const expected = references.batchNormTraining(x, shape, lengths, axis, parameters);
        const what = { op, shape, data: `axis ${axis}, lengths ${kind} [${lengths}], ${Object.keys(parameters)}` };
        const result = sn.batchNormTraining(x, { shape, axis, lengths, ...parameters });
        expectValid(what, result.y, expected, Object.keys(parameters).length ? affinePromise : promise);
        expectStatistics(what, result, expected);
        expect({ ...what, count: result.count }).toEqual({
          ...what,
          count: axis === 0 ? Int32Array.from(count) : count[0],
        });
        expectBits({ ...what, output: 'x' }, x, untouched);
        const again = { shape, axis: axis - shape.length, lengths: Int32Array.from(lengths), ...parameters };
        expectBits(what, sn.batchNormTraining(x, again).y, result.y);
      }
    }
    expect(tried).toBeGreaterThanOrEqual(axis === 0 && shape.length === 2 ? 3 : 5);
  });

  test('all items empty: statistics NaN, count 0, y 0, and no error', () => {
    const x = new Float32Array(24).fill(NaN);
    const result = sn.batchNormTraining(x, { shape: [3, 4, 2], axis: 2, lengths: [0, 0, 0], bias: [1, 2] });
    expectBits({ op, shape: [3, 4, 2] }, result.y, new Float32Array(24));
    expect([...result.mean, ...result.variance, ...result.invStd]).toEqual(new Array(6).fill(NaN));
    expect(result.count).toBe(0);
  });

  test('out may be x, and statistics go where they are wanted', () => {
    const shape = [5, 6, 3];
    const lengths = [6, 0, 1, 5, 3];
    const values = poison(draw(90, 1), shape, lengths);
    for (const axis of [2, 0]) {
      const channels = shape[axis] as number;
      const common = { shape, axis, lengths, scale: drawScale(channels, 2), bias: draw(channels, 3) };
      const plain = sn.batchNormTraining(values, common);
      for (const offset of [0, 1, 2, 3]) {
        const x = place(values, offset);
        const meanOut = placeOut(channels, offset);
        const varianceOut = placeOut(channels, (offset + 1) % 4);
        const invStdOut = placeOut(channels, (offset + 2) % 4);
        const statistics = { meanOut: meanOut.values, varianceOut: varianceOut.values, invStdOut: invStdOut.values };
        const result = sn.batchNormTraining(x.values, { ...common, ...statistics, out: x.values });
        expect(result.y).toBe(x.values);
        expect(result.mean).toBe(meanOut.values);
        expect(result.variance).toBe(varianceOut.values);
        expect(result.invStd).toBe(invStdOut.values);
        expect(result.count).toEqual(plain.count);
        for (const output of ['y', 'mean', 'variance', 'invStd'] as const) {
          expectBits({ op, shape, output, data: `offset ${offset}` }, result[output], plain[output]);
        }
        expect([x, meanOut, varianceOut, invStdOut].map((each) => each.intact())).not.toContain(false);
      }
    }
  });

  test('full lengths give what none give, to the bound', () => {
    for (const { shape, axis } of channelLayouts) {
      const x = draw(product(shape), 5, 40, 3);
      const lengths = Array.from({ length: shape[0] as number }, () => shape[1] as number);
      const full = sn.batchNormTraining(x, { shape, axis, lengths });
      const none = sn.batchNormTraining(x, { shape, axis });
      const expected = references.batchNormTraining(x, shape, lengths, axis);
      expectNear({ op, shape }, full.y, none.y, 2 * promise, expected.magnitude);
      expectStatistics({ op, shape }, none, expected);
      expect(typeof none.count).toBe('number');
    }
  });

  test.each([1e3, 1e5, 1e7])('mean/std %f, and items whose means lie far apart', (ratio) => {
    const shape = [5, 400, 3];
    const lengths = [400, 7, 0, 2, 333];
    const near = draw(product(shape), 1, ratio * 0.5, 0.5);
    const apart = near.map((value, i) => value * (1 + Math.floor(i / 1200)));
    for (const [data, values] of Object.entries({ near, apart })) {
      const x = poison(values, shape, lengths);
      for (const axis of [2, 0]) {
        const expected = references.batchNormTraining(x, shape, lengths, axis, { epsilon: 0 });
        const result = sn.batchNormTraining(x, { shape, axis, lengths, epsilon: 0 });
        const what = { op, shape, data: `axis ${axis}, mean/std ${ratio}, ${data}` };
        expectValid(what, result.y, expected, promise);
        expectStatistics(what, result, expected);
      }
    }
  });
});

describe('errors', () => {
  const size = 24;
  const shape = [3, 4, 2];
  const ops = ['layerNorm', 'rmsNorm', 'moments', 'batchNormTraining'] as const;

  /** Throws what the call throws, after a look at what it may have written. */
  function expectError(op: string, code: ErrorCode, run: (out: Float32Array) => unknown, ...says: string[]): void {
    const out = new Float32Array(size).fill(canary);
    let failure: unknown;
    try {
      run(out);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    const { message, ...rest } = failure as NormError;
    expect({ code: rest.code, op: rest.op, message }).toEqual({ code, op, message });
    expect(message.startsWith(`${op}: `)).toBe(true);
    for (const part of says) expect(message).toContain(part);
    expect(out.every((value) => value === Math.fround(canary))).toBe(true);
  }

  function run(op: (typeof ops)[number], options: object, out: Float32Array): unknown {
    const x = draw(size, 1);
    const all = { shape, axis: 2, ...options } as never;
    if (op === 'batchNormTraining') return sn.batchNormTraining(x, Object.assign({ out }, all));
    const { axis: _, ...overAxes } = all as { axis: number };
    if (op === 'moments') return sn.moments(x, overAxes);
    return normalize(op, x, Object.assign({ out }, overAxes));
  }

  const wrong: [ErrorCode, unknown, ...string[]][] = [
    ['ERR_RANGE', [1, 2, 5], 'lengths[2]', '5', '4'],
    ['ERR_RANGE', [1, -1, 2], 'lengths[1]', '-1'],
    ['ERR_RANGE', [1.5, 1, 2], 'lengths[0]', '1.5'],
    ['ERR_RANGE', [1, NaN, 2], 'lengths[1]', 'NaN'],
    ['ERR_RANGE', [1, 2, Infinity], 'lengths[2]', 'Infinity'],
    // Those that an Int32Array would let pass as 1, 0 and 4.
    ['ERR_RANGE', [2 ** 32 + 1, 2, 3], 'lengths[0]', '4294967297'],
    ['ERR_RANGE', [3, 2, -(2 ** 32)], 'lengths[2]', '-4294967296'],
    ['ERR_RANGE', [3, 4.000001, 2], 'lengths[1]', '4.000001'],
    ['ERR_RANGE', Int32Array.of(1, 2, 5), 'lengths[2]', '5', '4'],
    ['ERR_RANGE', Int32Array.of(-1, 2, 3), 'lengths[0]', '-1'],
    ['ERR_SHAPE', [], 'lengths', '0', '3'],
    ['ERR_SHAPE', [1, 2], 'lengths', '2', '3'],
    ['ERR_SHAPE', [1, 2, 3, 4], 'lengths', '4', '3'],
    ['ERR_SHAPE', Int32Array.of(4), 'lengths', '1', '3'],
    ['ERR_SHAPE', new Int32Array(24), 'lengths', '24', '3'],
    ['ERR_TYPE', 3, 'lengths', '3'],
    ['ERR_TYPE', '123', 'lengths', '"123"'],
    ['ERR_TYPE', true, 'lengths', 'true'],
    ['ERR_TYPE', { 0: 1, 1: 2, 2: 3, length: 3 }, 'lengths', 'Object'],
    ['ERR_TYPE', new Set([1, 2, 3]), 'lengths', 'Set'],
    ['ERR_TYPE', Float32Array.of(1, 2, 3), 'lengths', 'a Float32Array'],
    ['ERR_TYPE', Uint8Array.of(1, 2, 3), 'lengths', 'a Uint8Array'],
    ['ERR_TYPE', new DataView(new ArrayBuffer(12)), 'lengths', 'DataView'],
    ['ERR_TYPE', [1, '2', 3], 'lengths[1]', '"2"'],
    ['ERR_TYPE', [1, null, 3], 'lengths[1]', 'null'],
    ['ERR_TYPE', [1n, 2n, 3n], 'lengths[0]', 'bigint'],
    // biome-ignore lint/suspicious/noSparseArray: holes are what is tested.
    ['ERR_TYPE', [1, , 3], 'lengths[1]', 'undefined'],
  ];

  test.each(ops)('%s refuses lengths that are none', (op) => {
    for (const [code, lengths, ...says] of wrong) expectError(op, code, (out) => run(op, { lengths }, out), ...says);
    const detached = Int32Array.of(1, 2, 3);
    detach(detached);
    expectError(op, 'ERR_TYPE', (out) => run(op, { lengths: detached }, out), 'lengths', 'detached');
  });

  test.each(ops)('%s takes lengths at the limits', (op) => {
    const out = new Float32Array(size);
    for (const lengths of [[4, 4, 4], [0, 0, 0], [0, 4, 1], Int32Array.of(4, 0, 4)]) {
      expect(run(op, { lengths }, out)).toBeDefined();
    }
  });

  test.each(ops)('%s refuses lengths where there is no axis 1', (op) => {
    for (const [lengths, of] of [
      [[4], [size]],
      [new Int32Array(size), [size]],
      [[1], undefined],
    ] as const) {
      const says = ['lengths', `[${size}]`];
      expectError(op, 'ERR_SHAPE', (out) => run(op, { lengths, shape: of, axis: 0 }, out), ...says);
    }
  });

  test('batchNormTraining refuses lengths along its channel axis', () => {
    const op = 'batchNormTraining';
    for (const axis of [1, -2, undefined]) {
      expectError(op, 'ERR_AXIS', (out) => run(op, { lengths: [1, 2, 3], axis }, out), 'lengths', 'axis');
    }
    const rankTwo = { shape: [6, 4], lengths: [1, 2, 3, 4, 0, 4], axis: -1 };
    expectError(op, 'ERR_AXIS', (out) => run(op, rankTwo, out), 'lengths', 'axis');
  });

  test('batchNormTraining refuses a channel with one valid value', () => {
    const op = 'batchNormTraining';
    for (const options of [
      { lengths: [0, 1, 0] },
      { shape: [6, 4], axis: 0, lengths: [4, 4, 1, 4, 0, 2] },
      { shape: [6, 4, 1], axis: 0, lengths: [4, 4, 2, 4, 0, 1] },
    ]) {
      expectError(op, 'ERR_RANGE', (out) => run(op, options, out), 'one value');
    }
    // One step, but of several values for each channel.
    const along2 = { shape: [2, 3, 2, 2], axis: 2, lengths: [0, 1] };
    expect(run(op, along2, new Float32Array(size))).toBeDefined();
    const along0 = { shape: [6, 2, 2], axis: 0, lengths: [2, 1, 0, 1, 2, 2] };
    expect(run(op, along0, new Float32Array(size))).toBeDefined();
  });

  test('out may not overlap the lengths', () => {
    for (const op of ['layerNorm', 'rmsNorm', 'batchNormTraining'] as const) {
      const memory = new Float32Array(size);
      const lengths = new Int32Array(memory.buffer, 8, 3).fill(2);
      const before = memory.slice();
      let failure: unknown;
      try {
        run(op, { lengths, out: memory }, memory);
      } catch (error) {
        failure = error;
      }
      expect({ op, failure }).toEqual({ op, failure: expect.objectContaining({ code: 'ERR_OVERLAP' }) });
      expect(memory).toEqual(before);
    }
  });

  test('operations without lengths say so', () => {
    const x = draw(size, 1);
    const o = { shape, lengths: [1, 2, 3] };
    const calls: Record<string, () => unknown> = {
      batchNorm: () => sn.batchNorm(x, { ...o, axis: 2, mean: [0, 0], variance: [1, 1] } as never),
      instanceNorm: () => sn.instanceNorm(x, { ...o, axis: 2 } as never),
      groupNorm: () => sn.groupNorm(x, { ...o, axis: 2, groups: 1 } as never),
      lpNormalize: () => sn.lpNormalize(x, o as never),
      localResponseNorm: () => sn.localResponseNorm(x, { ...o, size: 3 } as never),
    };
    for (const [op, call] of Object.entries(calls)) expectError(op, 'ERR_TYPE', call, "'lengths'");
  });
});
