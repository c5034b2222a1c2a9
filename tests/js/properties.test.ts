// Laws: how the result of one call follows from that of another. They hold to the bit, which no reference can say, or to
// a bound that follows from the promise. fast-check makes shapes, axes and data, and shrinks what breaks a law.

import fc from 'fast-check';
import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type BackwardOp,
  backwardOps,
  byChannel,
  type DType,
  dtypes,
  type Floats,
  forwardOf,
  isOverAxes,
  normalizations,
  numbersOf,
  type Op,
  type Options,
  ofType,
  ops,
  overAxes,
  ragged,
  results,
  vectors,
  withEpsilon,
} from './calls.ts';
import { drawScale, drawVariance, product, Random } from './data.ts';
import { narrow } from './float16-conversion.ts';
import { type Given, gradientsOf as referenceOf } from './gradient-reference.ts';
import {
  allBut,
  countOf,
  groupsOf,
  type Layout,
  layoutOptions,
  parameterLength,
  parameterPlaces,
  placesAlong,
  statisticsFor,
  stridesOf,
} from './layouts.ts';
import { type Case, expectBits, expectNear, promise } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

type Numbers = Float64Array;
type Parameter = (typeof vectors)[Op][number];

/** A call as numbers, so that a law can change it. The dtype has every one of them exactly. */
interface Call extends Layout {
  readonly dtype: DType;
  readonly x: Numbers;
  readonly parameters: Readonly<Partial<Record<Parameter, Numbers>>>;
  /** epsilon, p, size, ... */
  readonly rest: Options;
}

interface Outcome {
  readonly y?: Numbers;
  readonly mean?: Numbers;
  readonly variance?: Numbers;
  readonly invStd?: Numbers;
  readonly count?: number | undefined;
}
type Output = 'y' | 'mean' | 'variance' | 'invStd';
const outputs = ['y', 'mean', 'variance', 'invStd'] as const;

// ---------------------------------------------------------------- calls

function gather(values: Numbers, from: ArrayLike<number>): Numbers {
  return Float64Array.from(from, (i) => values[i] as number);
}

/** For each value of the new shape, whose axis i is the old one's axis order[i], where it was. */
function transposition(shape: readonly number[], order: readonly number[]): Int32Array {
  const from = new Int32Array(product(shape));
  placesAlong(shape, order).forEach((to, i) => {
    from[to] = i;
  });
  return from;
}

function optionsOf(each: Call): Options {
  return { ...layoutOptions(each), ...each.rest };
}

function run(each: Call): Outcome {
  const { x, options } = ofType(each.dtype, each.x);
  const given = { ...optionsOf(each), ...each.parameters, ...statisticsFor(each, each.dtype), ...options };
  const { count, ...got } = results(sn, each.op, x, given);
  const outcome: { -readonly [name in keyof Outcome]: Outcome[name] } = {};
  for (const name of outputs) {
    const values = got[name];
    if (values) outcome[name] = numbersOf(values);
  }
  if (typeof count === 'number') outcome.count = count;
  return outcome;
}

/** y before scale and bias. */
function normalized(each: Call): Numbers {
  const { mean, variance } = each.parameters;
  const parameters = each.op === 'batchNorm' ? { mean: mean as Numbers, variance: variance as Numbers } : {};
  return run({ ...each, parameters }).y as Numbers;
}

/** What the error of each y is relative to. */
function magnitudeOf(each: Call): Numbers {
  const { scale, bias } = each.parameters;
  const places = parameterPlaces(each);
  return normalized(each).map((value, i) => {
    const place = places[i] as number;
    return Math.max(1, Math.abs(value)) * Math.abs(scale?.[place] ?? 1) + Math.abs(bias?.[place] ?? 0);
  });
}

/** What is promised of y with scale and bias, in units of the magnitude. float16 is rounded once more. */
const promised: Record<DType, number> = {
  float32: 6 * 2 ** -23,
  float64: 6 * 2 ** -52,
  float16: (1 + 2 ** -10) * 2 ** -11 + 6 * 2 ** -23,
};

function describeCall({ op, dtype, shape, axes, axis }: Call, output: Output = 'y'): Case {
  return { op, shape, output, data: `${dtype} ${isOverAxes(op) ? `over [${axes}]` : `by ${axis}`}` };
}

function expectSame(each: Call, got: Outcome, expected: Outcome): void {
  expect(Object.keys(got).sort()).toEqual(Object.keys(expected).sort());
  for (const name of outputs) {
    const values = expected[name];
    if (values) expectBits(describeCall(each, name), got[name] as Numbers, values);
  }
  expect(got.count).toBe(expected.count);
}

/** Where a changed call has the values of another one, `from` their places there: what it must return. */
function gathered(before: Call, outcome: Outcome, after: Call, from: ArrayLike<number>): Outcome {
  const groupOf = groupsOf(before);
  const groups = groupsOf(after);
  const groupFrom = new Int32Array(countOf(groups));
  groups.forEach((group, i) => {
    groupFrom[group] = groupOf[from[i] as number] as number;
  });
  const result: Record<string, unknown> = {};
  for (const name of outputs) {
    const values = outcome[name];
    if (values) result[name] = gather(values, name === 'y' ? from : groupFrom);
  }
  return outcome.count === undefined ? result : { ...result, count: outcome.count };
}

/** Equal to the bit: the changed call, and the results of the call before it, moved as the values were. */
function expectGathered(before: Call, changes: Partial<Call>, from: ArrayLike<number>): void {
  const after = { ...before, x: gather(before.x, from), ...changes };
  expectSame(after, run(after), gathered(before, run(before), after, from));
}

/** The same to the bound: each of the two y has its error. */
function expectGatheredNear(before: Call, changes: Partial<Call>, from: ArrayLike<number>): void {
  const after = { ...before, x: gather(before.x, from), ...changes };
  const got = run(after).y as Numbers;
  const expected = gather(run(before).y as Numbers, from);
  expectNear(describeCall(after), got, expected, 2 * promised[before.dtype], gather(magnitudeOf(before), from));
}

// ---------------------------------------------------------------- what fast-check makes

/** Small enough to be read when a law breaks: the values follow from it. */
interface Sample {
  readonly dtype: DType;
  readonly extents: readonly number[];
  /** One for each axis: which are reduced, in which order, and which is the channels'. */
  readonly keys: readonly number[];
  readonly groups: number;
  readonly channelsPerGroup: number;
  readonly scale: boolean;
  readonly bias: boolean;
  readonly epsilon: number | undefined;
  readonly p: number;
  readonly size: number;
  readonly ratio: number;
  readonly deviation: number;
  readonly seed: number;
}

const mostValues = 5000;
const mostRank = 5;

/** Vectors have 4 or 2 values, runs are short below 16, blocks have 384 or 512. */
const extent = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 2, arbitrary: fc.constantFrom(7, 8, 15, 16, 17, 31, 33) },
  { weight: 1, arbitrary: fc.constantFrom(64, 67, 130, 385, 513, 1025, 4099) },
);

interface Limits {
  readonly least?: number;
  readonly dtypes?: readonly DType[];
  readonly ratios?: readonly number[];
  readonly deviations?: readonly number[];
  readonly epsilons?: readonly (number | undefined)[];
}

/** Of float32 and float64. Beyond 1e5 a few values may be closer than the promise says. */
const promisedRatios = [0, 1, 30, 1e3, 1e5];
const ratios = [...promisedRatios, 1e7];
const tameDeviations = [0.1, 1, 30];
const deviations = [...tameDeviations, 1e-12, 1e12, 1e-30, 1e28];

function samples(limits: Limits = {}): fc.Arbitrary<Sample> {
  return fc.record({
    dtype: fc.constantFrom(...(limits.dtypes ?? dtypes)),
    extents: fc.array(extent, { minLength: limits.least ?? 1, maxLength: mostRank }),
    keys: fc.array(fc.nat(99), { minLength: mostRank, maxLength: mostRank }),
    groups: fc.integer({ min: 1, max: 6 }),
    channelsPerGroup: fc.integer({ min: 1, max: 5 }),
    scale: fc.boolean(),
    bias: fc.boolean(),
    epsilon: fc.constantFrom(...(limits.epsilons ?? [undefined, 1e-5, 0, 0.25, 1e-12])),
    p: fc.constantFrom(2, 1, Infinity),
    size: fc.integer({ min: 1, max: 7 }),
    ratio: fc.constantFrom(...(limits.ratios ?? ratios)),
    deviation: fc.constantFrom(...(limits.deviations ?? deviations)),
    seed: fc.nat(1e6),
  });
}

/** Each as large as there is room for. */
function fitted(extents: readonly number[], most = mostValues): number[] {
  let room = most;
  return extents.map((each) => {
    const result = Math.max(1, Math.min(each, room));
    room = Math.floor(room / result);
    return result;
  });
}

/** Values that the dtype has exactly, and has still when a float16 is scaled by 2^-4 to 2^4. */
function valuesOf({ dtype, ratio, deviation, seed }: Sample, length: number): Numbers {
  const random = new Random(seed);
  const values = new Float64Array(length);
  const is16 = dtype === 'float16';
  const scale = is16 ? Math.min(Math.max(deviation, 0.1), 30) : deviation;
  const mean = scale * (is16 ? Math.min(ratio, 30) : ratio);
  for (let i = 0; i < length; ++i) values[i] = mean + scale * random.bell();
  if (dtype === 'float32') return values.map(Math.fround);
  return is16 ? numbersOf(narrow(values.map((value) => Math.round(value * 256) / 256))) : values;
}

interface Wanted {
  /** Axis 0 is that of the items: statistics don't run over it, and it is not the channels'. */
  readonly items?: boolean;
  /** The axes are the last ones, in ascending order. */
  readonly trailing?: boolean;
}

function callOf(op: Op, sample: Sample, wanted: Wanted = {}): Call {
  const isGrouped = op === 'groupNorm';
  const channels = sample.groups * sample.channelsPerGroup;
  const shape = fitted(sample.extents, isGrouped ? Math.floor(mostValues / channels) : mostValues);
  const rank = shape.length;
  const key = (axis: number) => sample.keys[axis] as number;
  const hasItems = wanted.items || op === 'instanceNorm' || isGrouped;
  const first = hasItems && rank > 1 ? 1 : 0;
  const candidates = shape.map((_, i) => i).slice(first);

  const chosen = candidates.filter((each) => key(each) >= 50).sort((a, b) => key(a) - key(b));
  const last = candidates.slice(-1 - (key(0) % candidates.length));
  const axes = wanted.trailing ? last : chosen.length > 0 ? chosen : [rank - 1];
  const axis = candidates[key(0) % candidates.length] as number;

  if (isGrouped) shape[axis] = channels;
  // One value per channel is an error.
  if (op === 'batchNormTraining' && product(shape) === shape[axis]) shape[axis === 0 ? 1 : 0] = 2;

  const length = parameterLength({ op, shape, axes, axis });
  const random = (values: Float32Array) => Float64Array.from(values);
  const parameters: Partial<Record<Parameter, Numbers>> = {};
  if (sample.scale && vectors[op].includes('scale')) parameters.scale = random(drawScale(length, sample.seed + 1));
  if (sample.bias && vectors[op].includes('bias')) parameters.bias = random(drawScale(length, sample.seed + 2));
  if (op === 'batchNorm') {
    const mean = valuesOf({ ...sample, seed: sample.seed + 3 }, length);
    Object.assign(parameters, { mean, variance: random(drawVariance(length, sample.seed + 4)) });
  }

  const { epsilon, p, size } = sample;
  const rest: Options = withEpsilon.includes(op) && epsilon !== undefined ? { epsilon } : {};
  if (op === 'lpNormalize') Object.assign(rest, { p });
  if (op === 'localResponseNorm') Object.assign(rest, { size, alpha: 0.3 });
  const x = valuesOf(sample, product(shape));
  return { op, dtype: sample.dtype, shape, axes, axis, groups: sample.groups, x, parameters, rest };
}

/** Instance norm and the like need [N, C]. */
function leastRank(op: Op): number {
  return isOverAxes(op) ? 1 : 2;
}

function check<Values extends [unknown, ...unknown[]]>(
  arbitraries: { [i in keyof Values]: fc.Arbitrary<Values[i]> },
  law: (...values: Values) => void,
  numRuns = 60,
): void {
  fc.assert(fc.property(...arbitraries, law), { seed: 20260, numRuns });
}

/** A permutation of so many places. */
function permutation(length: number, seed: number): number[] {
  const random = new Random(seed);
  const keys = Array.from({ length }, () => random.next());
  return keys.map((_, i) => i).sort((a, b) => (keys[a] as number) - (keys[b] as number));
}

/** For each value its place before an axis was permuted. */
function permuted(shape: readonly number[], axis: number, order: readonly number[]): Int32Array {
  const stride = stridesOf(shape)[axis] as number;
  return placesAlong(shape, [axis]).map((place, i) => i + ((order[place] as number) - place) * stride);
}

function withParameters(each: Call, change: (values: Numbers, name: string) => Numbers): Call['parameters'] {
  return Object.fromEntries(Object.entries(each.parameters).map(([name, values]) => [name, change(values, name)]));
}

// ---------------------------------------------------------------- the laws

describe('what fast-check makes', () => {
  test.each(ops)('%s gets many shapes, several ranks and all dtypes', (op) => {
    const calls: Call[] = [];
    check([samples({ least: leastRank(op) })], (sample) => {
      calls.push(callOf(op, sample));
    });
    expect(new Set(calls.map(({ shape }) => shape.join())).size).toBeGreaterThan(40);
    expect(new Set(calls.map(({ shape }) => shape.length)).size).toBe(mostRank + 1 - leastRank(op));
    expect(new Set(calls.map(({ dtype }) => dtype)).size).toBe(3);
    expect(Math.max(...calls.map(({ x }) => x.length))).toBeGreaterThan(1000);
    const descending = calls.filter(({ axes }) => axes.some((axis, i) => axis < (axes[i - 1] ?? 0)));
    if (isOverAxes(op)) expect(descending.length).toBeGreaterThan(5);
    for (const name of vectors[op]) expect(calls.some(({ parameters }) => parameters[name])).toBe(true);
  });
});

describe('powers of two', () => {
  test.each(ops)('%s of 2^k x, epsilon scaled along, is the same to the bit', (op) => {
    // Squares and factors stay where floats have all of their bits.
    const tame = samples({ least: leastRank(op), deviations: tameDeviations });
    check([tame, fc.integer({ min: -20, max: 30 })], (sample, exponent) => {
      // Small results of it would be rounded as subnormals of float16.
      const isLocal = op === 'localResponseNorm';
      const each = callOf(op, isLocal && sample.dtype === 'float16' ? { ...sample, dtype: 'float32' } : sample);
      const factor = 2 ** (each.dtype === 'float16' ? exponent % 5 : exponent);
      const { epsilon = op === 'lpNormalize' ? 1e-12 : 1e-5 } = each.rest as { epsilon?: number };
      const rest = { ...each.rest };
      if (withEpsilon.includes(op)) rest.epsilon = epsilon * (op === 'lpNormalize' ? factor : factor ** 2);
      if (isLocal) rest.alpha = 0.3 / factor ** 2;
      const powers: Record<string, number> = { mean: factor, variance: factor ** 2, invStd: 1 / factor };
      const parameters = withParameters(each, (values, name) => values.map((value) => value * (powers[name] ?? 1)));
      const scaled = { ...each, x: each.x.map((value) => value * factor), parameters, rest };
      const expected: Outcome = Object.fromEntries(
        Object.entries(run(each)).map(([name, values]) => {
          const power = name === 'y' && isLocal ? factor : (powers[name] ?? 1);
          return [name, typeof values === 'number' ? values : (values as Numbers).map((value) => value * power)];
        }),
      );
      expectSame(scaled, run(scaled), expected);
    });
  });
});

describe('negation', () => {
  test.each(ops)('%s of -x without bias is the negative of that of x', (op) => {
    check([samples({ least: leastRank(op) })], (sample) => {
      const each = callOf(op, { ...sample, bias: false });
      const negative = (values: Numbers) => values.map((value) => -value);
      const parameters = withParameters(each, (values, name) => (name === 'mean' ? negative(values) : values));
      const negated = { ...each, x: negative(each.x), parameters };
      const outcome = run(each);
      // x - mean is +0 whatever the sign of x.
      const unsigned = (values: Numbers) => values.map((value) => (value === 0 ? 0 : value));
      const mapped = (from: Outcome, change: (values: Numbers) => Numbers): Outcome => {
        const result: Outcome = { ...from };
        const odd: Outcome = {};
        if (from.y) Object.assign(odd, { y: unsigned(change(from.y)) });
        if (from.mean) Object.assign(odd, { mean: unsigned(change(from.mean)) });
        return Object.assign(result, odd);
      };
      const same = (values: Numbers) => values;
      expectSame(negated, mapped(run(negated), same), mapped(outcome, negative));
    });
  });
});

describe('company', () => {
  const junk = fc.constantFrom(0, 5, NaN, Infinity, 1e30, -1e-30);

  test.each(ops)('what the others hold changes no bit of a group of %s', (op) => {
    check([samples({ least: leastRank(op) }), junk, fc.nat(1e6)], (sample, value, pick) => {
      const each = callOf(op, sample);
      // The group of a value in local response norm is all channels at its place.
      const others = op === 'localResponseNorm' ? allBut(each.shape, [each.axis]) : undefined;
      const company = others ? placesAlong(each.shape, others) : groupsOf(each);
      const group = company[pick % company.length];
      const from = Array.from(company.keys()).filter((i) => company[i] === group);
      const x = each.x.map((own, i) => (company[i] === group ? own : value));
      const [before, after] = [run(each), run({ ...each, x })];
      const part = (name: Output, outcome: Outcome) =>
        gather(outcome[name] as Numbers, name === 'y' ? from : [group as number]);
      for (const name of outputs) {
        if (before[name]) expectBits(describeCall(each, name), part(name, after), part(name, before));
      }
    });
  });

  test.each(ops.filter((op) => op !== 'batchNormTraining'))('an item of %s is that item alone, to the bit', (op) => {
    check([samples({ least: 2 }), fc.nat(1e6)], (sample, pick) => {
      const each = callOf(op, sample, { items: true });
      const item = pick % (each.shape[0] as number);
      const shape = [1, ...each.shape.slice(1)];
      expectGathered(
        each,
        { shape },
        Array.from({ length: product(shape) }, (_, i) => item * product(shape) + i),
      );
    });
  });

  test.each(overAxes)('a row of %s is that row alone, whatever shape it had, to the bit', (op) => {
    check([samples(), fc.nat(1e6)], (sample, pick) => {
      const each = callOf(op, sample, { trailing: true });
      const units = product(each.axes.map((axis) => each.shape[axis] as number));
      const first = (pick % (each.x.length / units)) * units;
      const changes = { shape: [units], axes: [0] };
      expectGathered(
        each,
        changes,
        Array.from({ length: units }, (_, i) => first + i),
      );
    });
  });

  test.each(['instanceNorm', 'groupNorm'] as const)('a group of %s, channels first, is that group alone', (op) => {
    check([samples({ least: 2 }), fc.nat(1e6)], (sample, pick) => {
      const each = callOf(op, { ...sample, keys: [0, ...sample.keys.slice(1)] });
      expect(each.axis).toBe(1);
      const groupOf = groupsOf(each);
      const group = pick % countOf(groupOf);
      const from = Array.from(groupOf.keys()).filter((i) => groupOf[i] === group);
      const size = op === 'groupNorm' ? (each.shape[1] as number) / each.groups : 1;
      const firstChannel = (group * size) % (each.shape[1] as number);
      const parameters = withParameters(each, (values) => values.subarray(firstChannel, firstChannel + size));
      expectGathered(each, { shape: [1, size, ...each.shape.slice(2)], groups: 1, parameters }, from);
    });
  });

  test.each(['layerNorm', 'rmsNorm', 'moments'] as const)('an item of %s with a length is that item cut', (op) => {
    check([samples({ least: 2 }), fc.nat(1e6)], (sample, pick) => {
      const each: Call = { ...callOf(op, sample, { items: true }), parameters: {} };
      const [items, extent] = each.shape as [number, number];
      const lengths = Array.from({ length: items }, (_, n) => (pick * (n + 1)) % (extent + 1));
      const [item, place] = [placesAlong(each.shape, [0]), placesAlong(each.shape, [1])];
      const isPadding = (i: number) => (place[i] as number) >= (lengths[item[i] as number] as number);
      const x = each.x.map((value, i) => (isPadding(i) ? NaN : value));
      const outcome = run({ ...each, x, rest: { ...each.rest, lengths } });
      const padding = outcome.y?.filter((_, i) => isPadding(i)) ?? [];
      expectBits({ ...describeCall(each), output: 'padding' }, padding, new Float64Array(padding.length));

      const n = pick % items;
      const shape = [1, lengths[n] as number, ...each.shape.slice(2)];
      const size = product(each.shape.slice(1));
      const from = Array.from({ length: product(shape) }, (_, i) => n * size + i);
      // An extent of 0 is an error, and there is nothing to compare.
      if (from.length === 0) return;
      const after = { ...each, shape, x: gather(each.x, from) };
      const uncounted = (of: Outcome): Outcome => ({ ...of, count: undefined });
      expectSame(after, uncounted(run(after)), uncounted(gathered(each, outcome, after, from)));
    });
  });
});

describe('permutations', () => {
  test.each(overAxes)('permuting an axis that is left permutes the result of %s to the bit', (op) => {
    check([samples({ least: 2 }), fc.nat(1e6)], (sample, pick) => {
      const each = callOf(op, sample, { items: true });
      const left = allBut(each.shape, each.axes);
      const axis = left[pick % left.length] as number;
      expectGathered(each, {}, permuted(each.shape, axis, permutation(each.shape[axis] as number, sample.seed)));
    });
  });

  test.each(byChannel.filter((op) => op !== 'batchNormTraining'))(
    'permuting the batch permutes the result of %s to the bit',
    (op) => {
      check([samples({ least: 2 })], (sample) => {
        const each = callOf(op, sample, { items: true });
        expectGathered(each, {}, permuted(each.shape, 0, permutation(each.shape[0] as number, sample.seed)));
      });
    },
  );

  test('permuting the batch permutes the result of batchNormTraining to the bound', () => {
    check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
      const each = callOf('batchNormTraining', sample, { items: true });
      expectGatheredNear(each, {}, permuted(each.shape, 0, permutation(each.shape[0] as number, sample.seed)));
    });
  });

  test.each(['instanceNorm', 'groupNorm', 'batchNorm', 'batchNormTraining'] as const)(
    'permuting the channels of %s, whole groups of them, with their parameters permutes the result to the bit',
    (op) => {
      check([samples({ least: 2 })], (sample) => {
        const each = callOf(op, sample);
        const channels = each.shape[each.axis] as number;
        const size = op === 'groupNorm' ? channels / each.groups : 1;
        const groups = permutation(channels / size, sample.seed);
        const order = groups.flatMap((group) => Array.from({ length: size }, (_, c) => group * size + c));
        const parameters = withParameters(each, (values) => gather(values, order));
        expectGathered(each, { parameters }, permuted(each.shape, each.axis, order));
      });
    },
  );

  test('permuting the channels within the groups of groupNorm permutes the result to the bound', () => {
    check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
      const each = callOf('groupNorm', sample);
      const size = (each.shape[each.axis] as number) / each.groups;
      const within = permutation(size, sample.seed);
      const order = Array.from({ length: each.groups }, (_, group) => within.map((c) => group * size + c)).flat();
      const parameters = withParameters(each, (values) => gather(values, order));
      expectGatheredNear(each, { parameters }, permuted(each.shape, each.axis, order));
    });
  });

  test.each(['layerNorm', 'rmsNorm', 'lpNormalize'] as const)(
    'permuting the units of %s with their parameters permutes the result to the bound',
    (op) => {
      check([samples({ ratios: promisedRatios })], (sample) => {
        const whole = callOf(op, sample);
        const axis = whole.axes[0] as number;
        const each = callOf(op, { ...sample, keys: whole.shape.map((_, i) => (i === axis ? 99 : 0)) });
        const order = permutation(each.shape[axis] as number, sample.seed);
        const parameters = withParameters(each, (values) => gather(values, order));
        expectGatheredNear(each, { parameters }, permuted(each.shape, axis, order));
      });
    },
  );

  test('reversing the channels of localResponseNorm with an odd window reverses the result to the bound', () => {
    check([samples({ least: 2 })], (sample) => {
      const each = callOf('localResponseNorm', { ...sample, size: sample.size | 1 });
      const channels = each.shape[each.axis] as number;
      const order = Array.from({ length: channels }, (_, c) => channels - 1 - c);
      expectGatheredNear(each, {}, permuted(each.shape, each.axis, order));
    });
  });
});

describe('operations that are other operations', () => {
  /** Without parameters: theirs are another operation's, or none. */
  const plain = (op: Op, sample: Sample): Call => ({ ...callOf(op, sample), parameters: {} });
  const identity = (each: Call) => each.x.keys();
  const expectNearOther = (each: Call, other: Call) => {
    const bound = 2 * promised[each.dtype];
    expectNear(describeCall(each), run(each).y as Numbers, run(other).y as Numbers, bound, magnitudeOf(each));
  };

  test('groupNorm with as many groups as channels is instanceNorm to the bit', () => {
    check([samples({ least: 2 })], (sample) => {
      const each = callOf('instanceNorm', sample);
      const groups = each.shape[each.axis] as number;
      expectGathered(each, { op: 'groupNorm', groups }, Array.from(identity(each)));
    });
  });

  test('instanceNorm is layerNorm over the axes of space', () => {
    check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
      const each = plain('instanceNorm', sample);
      expectNearOther(each, { ...each, op: 'layerNorm', axes: allBut(each.shape, [0, each.axis]) });
    });
  });

  test('groupNorm with one group is layerNorm over channels and space, with parameters for each of their places', () => {
    check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
      const each = callOf('groupNorm', { ...sample, groups: 1 });
      const places = parameterPlaces(each).subarray(0, product(each.shape.slice(1)));
      const parameters = withParameters(each, (values) => gather(values, places));
      expectNearOther(each, { ...each, op: 'layerNorm', axes: allBut(each.shape, [0]), parameters });
    });
  });

  test('batchNormTraining is layerNorm over all axes but that of the channels', () => {
    check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
      const each = plain('batchNormTraining', sample);
      expectNearOther(each, { ...each, op: 'layerNorm', axes: allBut(each.shape, [each.axis]) });
    });
  });

  test('lpNormalize is rmsNorm over the root of the length', () => {
    check([samples({ ratios: promisedRatios, dtypes: ['float32', 'float64'] })], (sample) => {
      const each = plain('lpNormalize', { ...sample, epsilon: 0, p: 2 });
      const root = Math.sqrt(parameterLength(each));
      const rms = run({ ...each, op: 'rmsNorm', rest: { epsilon: 0 } }).y as Numbers;
      const expected = rms.map((value) => (value === 0 || Number.isNaN(value) ? 0 : value / root));
      // The error of rmsNorm is divided by the root, and is relative to values of at most 1 then.
      expectNear(
        describeCall(each),
        run(each).y as Numbers,
        expected,
        2 * promised[each.dtype],
        expected.map(() => 1),
      );
    });
  });

  test('moments are those that layerNorm uses, to the bit', () => {
    check([samples()], (sample) => {
      const each = plain('layerNorm', sample);
      const moments: Call = { ...each, op: 'moments', rest: {} };
      const [{ mean, invStd }, { mean: expected }] = [run(each), run(moments)];
      expectBits(describeCall(moments, 'mean'), mean as Numbers, expected as Numbers);
      expect(invStd).toHaveLength(expected?.length as number);
    });
  });
});

describe('axes', () => {
  test.each(overAxes)('%s over axes in another order, parameters transposed, is the same to the bit', (op) => {
    check([samples({ least: 2 })], (sample) => {
      const each = callOf(op, sample);
      const ascending = [...each.axes].sort((a, b) => a - b);
      const extents = each.axes.map((axis) => each.shape[axis] as number);
      const order = ascending.map((axis) => each.axes.indexOf(axis));
      const parameters = withParameters(each, (values) => gather(values, transposition(extents, order)));
      expectSame(each, run({ ...each, axes: ascending, parameters }), run(each));
    });
  });

  test.each(overAxes)('%s counts axes from the end as well', (op) => {
    check([samples()], (sample) => {
      const each = callOf(op, sample);
      const fromTheEnd = { ...each.rest, axes: each.axes.map((axis) => axis - each.shape.length) };
      expectSame(each, run({ ...each, rest: fromTheEnd }), run(each));
    });
  });

  test.each(['layerNorm', 'rmsNorm', 'lpNormalize'] as const)(
    '%s over any axes is that over the last axes of the transposed x',
    (op) => {
      check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
        const each = callOf(op, sample);
        const order = [...allBut(each.shape, each.axes), ...each.axes];
        const shape = order.map((axis) => each.shape[axis] as number);
        const axes = each.axes.map((_, i) => order.length - each.axes.length + i);
        expectGatheredNear(each, { shape, axes }, transposition(each.shape, order));
      });
    },
  );

  test.each(byChannel)('%s of channels last has the values of channels first', (op) => {
    check([samples({ least: 2, ratios: promisedRatios })], (sample) => {
      const each = callOf(op, sample, { items: true });
      const order = [...allBut(each.shape, [each.axis]), each.axis];
      const shape = order.map((axis) => each.shape[axis] as number);
      expectGatheredNear(each, { shape, axis: order.length - 1 }, transposition(each.shape, order));
    });
  });

  /** Ways to write an extent as several: each is the same run of memory. */
  function factorizations(extent: number): number[][] {
    const all = [[extent], [1, extent], [extent, 1]];
    for (const factor of [2, 3, 5]) {
      if (extent % factor === 0) all.push([factor, extent / factor], [extent / factor, 1, factor]);
    }
    return all;
  }

  test.each(ops)('%s does not see how a run of memory is written as extents', (op) => {
    check(
      [samples({ least: leastRank(op) }), fc.array(fc.nat(99), { minLength: 5, maxLength: 5 })],
      (sample, picks) => {
        const each = callOf(op, sample);
        // Axis 0 of these is the items' alone, and channels have one axis.
        const hasItems = op === 'instanceNorm' || op === 'groupNorm';
        const factors = each.shape.map((extent, axis) => {
          const isChannel = !isOverAxes(op) && axis === each.axis;
          const possible = factorizations(extent).filter((some) => {
            if (hasItems && axis === 0) return some[0] === extent && some.every((factor, i) => i === 0 || factor === 1);
            return !isChannel || some.filter((factor) => factor !== 1).length <= 1;
          });
          return possible[(picks[axis] as number) % possible.length] as number[];
        });
        const firstOf = (axis: number) => factors.slice(0, axis).flat().length;
        const axes = each.axes.flatMap((axis) => factors[axis]?.map((_, i) => firstOf(axis) + i) as number[]);
        const channel = factors[each.axis]?.indexOf(each.shape[each.axis] as number) as number;
        const split = { ...each, shape: factors.flat(), axes, axis: firstOf(each.axis) + channel };
        expectSame(split, run(split), run(each));
      },
    );
  });
});

describe('statistics of the result', () => {
  const centered = ['layerNorm', 'instanceNorm', 'groupNorm', 'batchNormTraining'] as const;

  /** The sums over each group of a function of y. */
  function sumsOver(each: Call, values: Numbers, of: (value: number) => number): { sums: number[]; counts: number[] } {
    const groupOf = groupsOf(each);
    const sums = new Array<number>(countOf(groupOf)).fill(0);
    const counts = [...sums];
    values.forEach((value, i) => {
      const group = groupOf[i] as number;
      sums[group] = (sums[group] as number) + of(value);
      counts[group] = (counts[group] as number) + 1;
    });
    return { sums, counts };
  }
  function meansOver(each: Call, values: Numbers, of: (value: number) => number): number[] {
    const { sums, counts } = sumsOver(each, values, of);
    return sums.map((sum, group) => sum / (counts[group] as number));
  }
  const size = (value: number) => Math.max(1, Math.abs(value));
  const floats = samples({ least: 2, dtypes: ['float32'], ratios: promisedRatios });

  test.each(centered)('y of %s has mean 0 and variance v / (v + epsilon)', (op) => {
    check([floats], (sample) => {
      const each = { ...callOf(op, sample), parameters: {} };
      const y = run(each).y as Numbers;
      const groupOf = groupsOf(each);
      const rough = meansOver(each, each.x, (value) => value);
      const distances = each.x.map((value, i) => value - (rough[groupOf[i] as number] as number));
      const shift = meansOver(each, distances, (value) => value);
      const squares = meansOver(each, distances, (value) => value * value);
      const { epsilon = 1e-5 } = each.rest as { epsilon?: number };
      const variance = squares.map((square, group) => square - (shift[group] as number) ** 2);
      const expected = variance.map((v) => v / (v + epsilon));
      // Every y is off by at most the promise times its size, so their mean is by no more than the mean of that.
      const mean = meansOver(each, y, (value) => value);
      // 0/0 where epsilon and variance are 0.
      const zeros = mean.map((value) => (Number.isNaN(value) ? NaN : 0));
      expectNear({ op, shape: each.shape, output: 'mean of y' }, mean, zeros, promise, meansOver(each, y, size));
      // And y^2 by twice its size times that; the square of the promise is a thousandth of a machine epsilon.
      const bounds = meansOver(each, y, (value) => 2 * Math.abs(value) * size(value) + 2 ** -10);
      const got = meansOver(each, y, (value) => value * value);
      expectNear({ op, shape: each.shape, output: 'variance of y' }, got, expected, promise, bounds);
    });
  });

  test('y of rmsNorm has the mean square m / (m + epsilon)', () => {
    check([floats], (sample) => {
      const each = { ...callOf('rmsNorm', sample), parameters: {} };
      const { epsilon = 1e-5 } = each.rest as { epsilon?: number };
      const y = run(each).y as Numbers;
      const got = meansOver(each, y, (value) => value * value);
      const expected = meansOver(each, each.x, (value) => value * value).map((m) => m / (m + epsilon));
      const bounds = meansOver(each, y, (value) => 2 * Math.abs(value) * size(value) + 2 ** -10);
      expectNear({ op: each.op, shape: each.shape, output: 'mean square of y' }, got, expected, promise, bounds);
    });
  });

  test('y of lpNormalize has norm 1', () => {
    check([floats], (sample) => {
      const each = callOf('lpNormalize', { ...sample, epsilon: 0 });
      const y = run(each).y as Numbers;
      const { p } = each.rest as { p: number };
      const groupOf = groupsOf(each);
      const largest = new Array<number>(countOf(groupOf)).fill(0);
      y.forEach((value, i) => {
        const group = groupOf[i] as number;
        largest[group] = Math.max(largest[group] as number, Math.abs(value));
      });
      const { sums, counts } = sumsOver(each, y, (value) => Math.abs(value) ** p);
      const norms = p === Infinity ? largest : sums.map((sum) => sum ** (1 / p));
      // The norm of the errors, none of which is above the promise.
      const bounds = counts.map((count) => count ** (1 / p));
      expectNear(
        { op: each.op, shape: each.shape, output: `norm ${p} of y` },
        norms,
        norms.map(() => 1),
        promise,
        bounds,
      );
    });
  });

  test.each([...centered, 'rmsNorm', 'lpNormalize'] as const)('normalizing by %s twice changes nothing', (op) => {
    check([samples({ least: 2, dtypes: ['float32', 'float64'], ratios: promisedRatios })], (sample) => {
      const once = { ...callOf(op, { ...sample, epsilon: 0 }), parameters: {} };
      const y = run(once).y as Numbers;
      const twice = run({ ...once, x: y }).y as Numbers;
      const groupOf = groupsOf(once);
      const { counts } = sumsOver(once, y, size);
      const { p = 2 } = once.rest as { p?: number };
      // With errors of at most c max(1, |y|) the first y has a mean of at most c sqrt(2), a deviation within 2c of 1,
      // and a norm within c n^(1/p) of 1; the second call adds its own c.
      const magnitude = y.map((value, i) => {
        const count = counts[groupOf[i] as number] as number;
        if (op === 'lpNormalize') return 1 + Math.abs(value) * count ** (1 / p);
        return size(value) * (1 + Math.SQRT2 + 2);
      });
      // The promise alone: there are no scale and bias.
      const c = (5 / 6) * promised[once.dtype] * (1 + 2 ** -10);
      expectNear({ ...describeCall(once), data: `${once.dtype} twice` }, twice, y, c, magnitude);
    });
  });
});

describe('parameters', () => {
  const parameterized = ops.filter((op) => vectors[op].length > 0);

  test.each(parameterized)('%s times scale, plus bias, is y with them', (op) => {
    check([samples({ least: leastRank(op), ratios: promisedRatios })], (sample) => {
      const each = callOf(op, sample);
      const { scale, bias } = each.parameters;
      const places = parameterPlaces(each);
      const expected = normalized(each).map((value, i) => {
        const place = places[i] as number;
        return value * (scale?.[place] ?? 1) + (bias?.[place] ?? 0);
      });
      expectNear(describeCall(each), run(each).y as Numbers, expected, 2 * promised[each.dtype], magnitudeOf(each));
    });
  });

  test.each(parameterized)('parameters of %s in arrays of other kinds give the same bits', (op) => {
    check([samples({ least: leastRank(op) }), fc.array(fc.nat(3), { minLength: 4, maxLength: 4 })], (sample, picks) => {
      const whole = callOf(op, sample);
      // What float16 has, all have.
      const each = { ...whole, parameters: withParameters(whole, (values) => numbersOf(narrow(values))) };
      const { x, options } = ofType(each.dtype, each.x);
      const kinds: ((values: Numbers) => unknown)[] = [
        (values) => Float32Array.from(values),
        (values) => Array.from(values),
        (values) => values,
        (values) => (each.dtype === 'float16' ? narrow(values) : Array.from(values)),
      ];
      const given = Object.entries(each.parameters).map(([name, values], i) => {
        return [name, kinds[picks[i] as number]?.(values)];
      });
      const got = results(sn, op, x, { ...optionsOf(each), ...options, ...Object.fromEntries(given) });
      const { y } = run(each);
      if (got.y && y) expectBits(describeCall(each), numbersOf(got.y), y);
      expect(got.y).toBeDefined();
    });
  });
});

describe('buffers', () => {
  test.each(normalizations)('%s in place gives the same bits', (op) => {
    check([samples({ least: leastRank(op) })], (sample) => {
      const each = callOf(op, sample);
      const { x, options } = ofType(each.dtype, each.x);
      const got = results(sn, op, x, { ...optionsOf(each), ...options, ...each.parameters, out: x });
      expect(got.y).toBe(x);
      expectBits(describeCall(each), numbersOf(x), run(each).y as Numbers);
    });
  });

  test.each(['layerNorm', 'rmsNorm'] as const)('%s with a residual is that of the rounded sum, to the bit', (op) => {
    check([samples()], (sample) => {
      const each = callOf(op, sample);
      const { x, options } = ofType(each.dtype, each.x);
      const added = valuesOf({ ...sample, seed: sample.seed + 9 }, each.x.length);
      const { x: sum } = ofType(
        each.dtype,
        each.x.map((value, i) => value + (added[i] as number)),
      );
      const residual = ofType(each.dtype, added).x;
      const residualOut = x.slice();
      const given = { ...optionsOf(each), ...options, ...each.parameters, residual, residualOut };
      const { y } = results(sn, op, x, given);
      expectBits({ ...describeCall(each), output: 'residualOut' }, numbersOf(residualOut), numbersOf(sum));
      expectBits(describeCall(each), numbersOf(y as Float32Array), run({ ...each, x: numbersOf(sum) }).y as Numbers);
    });
  });
});

describe('float16', () => {
  test.each(ops)('%s of float16 is that of float32, rounded once', (op) => {
    check([samples({ least: leastRank(op), dtypes: ['float16'] })], (sample) => {
      const each = callOf(op, sample);
      const wide = run({ ...each, dtype: 'float32' });
      const expected = wide.y ? { ...wide, y: numbersOf(narrow(wide.y)) } : wide;
      expectSame(each, run(each), expected);
    });
  });
});

// ---------------------------------------------------------------- gradients

const differentiable = backwardOps.map(forwardOf);

/** As check, with fewer runs: a gradient takes the time of several forward calls. */
function checkSlopes<Values extends [unknown, ...unknown[]]>(
  arbitraries: { [i in keyof Values]: fc.Arbitrary<Values[i]> },
  law: (...values: Values) => void,
): void {
  check(arbitraries, law, 35);
}

/** A call of a gradient is one of its operation, with dy. */
interface BackwardCall extends Call {
  readonly dy: Numbers;
}
type Slopes = Readonly<{ dx: Numbers; dScale?: Numbers; dBias?: Numbers }>;
const slopeNames = ['dx', 'dScale', 'dBias'] as const;

/** dy is as large as it likes: of another size than x, and with a mean. */
function backwardCallOf(op: Op, sample: Sample, wanted: Wanted = {}): BackwardCall {
  const each = callOf(op, sample, wanted);
  const dy = valuesOf({ ...sample, ratio: 0.3, deviation: 2, seed: sample.seed + 7 }, each.x.length);
  const { bias: _, ...parameters } = each.parameters;
  return { ...each, parameters, dy };
}

function differentiate(each: BackwardCall, extra: Options = {}): Slopes {
  const { x, options } = ofType(each.dtype, each.x);
  const { x: dy } = ofType(each.dtype, each.dy);
  const given = { ...optionsOf(each), ...each.parameters, ...options, ...extra };
  const got = results(sn, `${each.op}Backward` as BackwardOp, x, given, dy);
  const all = slopeNames.flatMap((name) => (got[name] ? [[name, numbersOf(got[name] as Floats)] as const] : []));
  return Object.fromEntries(all) as Slopes;
}

function describeSlope(each: Call, output: string): Case {
  return { ...describeCall(each), op: `${each.op}Backward`, output };
}

function expectSameSlopes(each: Call, got: Slopes, expected: Slopes): void {
  expect(Object.keys(got)).toEqual(Object.keys(expected));
  for (const name of slopeNames) {
    const values = expected[name];
    if (values) expectBits(describeSlope(each, name), got[name] as Numbers, values);
  }
}

function withSlopes(slopes: Slopes, change: (values: Numbers, name: keyof Slopes) => Numbers): Slopes {
  return Object.fromEntries(
    Object.entries(slopes).map(([name, values]) => [name, change(values, name as keyof Slopes)]),
  ) as Slopes;
}

/** The same with the values of x and dy moved: what dx must be then, to the bit. */
function expectGatheredSlope(before: BackwardCall, changes: Partial<BackwardCall>, from: ArrayLike<number>): void {
  const after = { ...before, x: gather(before.x, from), dy: gather(before.dy, from), ...changes };
  expectBits(describeSlope(after, 'dx'), differentiate(after).dx, gather(differentiate(before).dx, from));
}

/** 0 without a sign. */
const unsigned = (values: Numbers) => values.map((value) => (value === 0 ? 0 : value));
const negative = (values: Numbers) => values.map((value) => -value);
const wide = ['float32', 'float64'] as const;

describe('gradients and powers of two', () => {
  const exponent = fc.integer({ min: -20, max: 30 });

  test.each(differentiable)('that of %s by 2^k x is 2^-k times that by x, to the bit', (op) => {
    checkSlopes(
      [samples({ least: leastRank(op), dtypes: wide, deviations: tameDeviations }), exponent],
      (sample, k) => {
        const each = backwardCallOf(op, sample);
        const factor = 2 ** k;
        const { epsilon = op === 'lpNormalize' ? 1e-12 : 1e-5 } = each.rest as { epsilon?: number };
        const rest = { ...each.rest, epsilon: epsilon * (op === 'lpNormalize' ? factor : factor ** 2) };
        const powers: Record<string, number> = { mean: factor, variance: factor ** 2 };
        const parameters = withParameters(each, (values, name) => values.map((value) => value * (powers[name] ?? 1)));
        const scaled = { ...each, x: each.x.map((value) => value * factor), parameters, rest };
        const expected = withSlopes(differentiate(each), (values, name) =>
          name === 'dx' ? values.map((value) => value / factor) : values,
        );
        expectSameSlopes(scaled, differentiate(scaled), expected);
      },
    );
  });

  test.each(differentiable)('that of %s by 2^k dy is 2^k times that by dy, to the bit', (op) => {
    checkSlopes(
      [samples({ least: leastRank(op), dtypes: wide, deviations: tameDeviations }), exponent],
      (sample, k) => {
        const each = backwardCallOf(op, sample);
        const times = (values: Numbers) => values.map((value) => value * 2 ** k);
        const scaled = { ...each, dy: times(each.dy) };
        expectSameSlopes(scaled, differentiate(scaled), withSlopes(differentiate(each), times));
      },
    );
  });
});

describe('gradients and negation', () => {
  test.each(differentiable)('that of %s by -dy is the negative of that by dy', (op) => {
    checkSlopes([samples({ least: leastRank(op) })], (sample) => {
      const each = backwardCallOf(op, sample);
      const got = differentiate({ ...each, dy: negative(each.dy) });
      const expected = withSlopes(differentiate(each), negative);
      expectSameSlopes(each, withSlopes(got, unsigned), withSlopes(expected, unsigned));
    });
  });

  test.each(differentiable)('that of %s by -x has the same dx, and the negative of dScale', (op) => {
    checkSlopes([samples({ least: leastRank(op) })], (sample) => {
      const each = backwardCallOf(op, sample);
      const parameters = withParameters(each, (values, name) => (name === 'mean' ? negative(values) : values));
      const got = differentiate({ ...each, x: negative(each.x), parameters });
      const expected = withSlopes(differentiate(each), (values, name) =>
        name === 'dScale' ? negative(values) : values,
      );
      expectSameSlopes(each, withSlopes(got, unsigned), withSlopes(expected, unsigned));
    });
  });
});

describe('gradients and company', () => {
  const junk = fc.constantFrom(0, 5, NaN, Infinity, 1e30, -1e-30);

  test.each(differentiable)('what others hold, x or dy, changes no bit of dx of a group of %s', (op) => {
    checkSlopes([samples({ least: leastRank(op) }), junk, fc.nat(1e6)], (sample, value, pick) => {
      const each = backwardCallOf(op, sample);
      const groupOf = groupsOf(each);
      const group = groupOf[pick % groupOf.length];
      const own = Array.from(groupOf.keys()).filter((i) => groupOf[i] === group);
      const spoil = (values: Numbers) => values.map((mine, i) => (groupOf[i] === group ? mine : value));
      const before = gather(differentiate(each).dx, own);
      for (const changes of [{ x: spoil(each.x) }, { dy: spoil(each.dy) }]) {
        const after = gather(differentiate({ ...each, ...changes }).dx, own);
        expectBits(describeSlope(each, 'dx'), after, before);
      }
    });
  });

  test.each(differentiable.filter((op) => op !== 'lpNormalize'))(
    'what others hold changes no bit of dScale and dBias of a parameter of %s that shares no group with them',
    (op) => {
      checkSlopes([samples({ least: leastRank(op) }), junk, fc.nat(1e6)], (sample, value, pick) => {
        const each = backwardCallOf(op, sample);
        const places = parameterPlaces(each);
        const parameter = places[pick % places.length] as number;
        const dy = each.dy.map((mine, i) => (places[i] === parameter ? mine : value));
        const [before, after] = [differentiate(each), differentiate({ ...each, dy })];
        for (const name of ['dScale', 'dBias'] as const) {
          if (!before[name]) continue;
          expectBits(
            describeSlope(each, name),
            [after[name]?.[parameter] as number],
            [before[name][parameter] as number],
          );
        }
      });
    },
  );

  test.each(differentiable.filter((op) => op !== 'batchNormTraining'))(
    'dx of an item of %s is that of the item alone, to the bit',
    (op) => {
      checkSlopes([samples({ least: 2 }), fc.nat(1e6)], (sample, pick) => {
        const each = backwardCallOf(op, sample, { items: true });
        const item = pick % (each.shape[0] as number);
        const shape = [1, ...each.shape.slice(1)];
        const from = Array.from({ length: product(shape) }, (_, i) => item * product(shape) + i);
        expectGatheredSlope(each, { shape }, from);
      });
    },
  );

  test.each(differentiable.filter(isOverAxes))('dx of a row of %s is that of the row alone, to the bit', (op) => {
    checkSlopes([samples(), fc.nat(1e6)], (sample, pick) => {
      const each = backwardCallOf(op, sample, { trailing: true });
      const units = product(each.axes.map((axis) => each.shape[axis] as number));
      const first = (pick % (each.x.length / units)) * units;
      const from = Array.from({ length: units }, (_, i) => first + i);
      expectGatheredSlope(each, { shape: [units], axes: [0] }, from);
    });
  });
});

/** Valid places of some items, where there is no channel with a single value. */
function raggedCallOf(op: Op, sample: Sample, pick: number): { each: BackwardCall; isValid: boolean[] } | undefined {
  const whole = backwardCallOf(op, {
    ...sample,
    extents: sample.extents.map((extent, i) => (i < 2 ? extent + 1 : extent)),
  });
  const each = op === 'batchNormTraining' && whole.axis === 1 ? { ...whole, axis: 0, parameters: {} } : whole;
  const [items, steps] = each.shape as [number, number];
  const lengths = Array.from({ length: items }, (_, n) => (pick * (n + 1)) % (steps + 1));
  const [item, step] = [placesAlong(each.shape, [0]), placesAlong(each.shape, [1])];
  const isValid = Array.from(item, (n, i) => (step[i] as number) < (lengths[n] as number));
  if (op === 'batchNormTraining') {
    const counts = new Int32Array(each.shape[each.axis] as number);
    groupsOf(each).forEach((channel, i) => {
      counts[channel] = (counts[channel] as number) + Number(isValid[i]);
    });
    if (counts.includes(1)) return undefined;
  }
  return { each: { ...each, rest: { ...each.rest, lengths } }, isValid };
}

describe('gradients and lengths', () => {
  test.each(ragged.filter((op) => op !== 'moments'))('of %s: what lies past them is ignored, and has +0', (op) => {
    let seen = 0;
    checkSlopes(
      [samples({ least: 2 }), fc.nat(1e6), fc.constantFrom(NaN, Infinity, 1e30, 7)],
      (sample, pick, value) => {
        const found = raggedCallOf(op, sample, pick);
        if (!found) return;
        const { each, isValid } = found;
        const spoil = (values: Numbers) => values.map((mine, i) => (isValid[i] ? mine : value));
        const slopes = differentiate(each);
        expectSameSlopes(each, differentiate({ ...each, x: spoil(each.x), dy: spoil(each.dy) }), slopes);
        const padding = slopes.dx.filter((_, i) => !isValid[i]);
        expectBits(describeSlope(each, 'dx past the lengths'), padding, new Float64Array(padding.length));
        seen += padding.length;
      },
    );
    expect(seen).toBeGreaterThan(1000);
  });

  test.each(['layerNorm', 'rmsNorm'] as const)('dx of an item of %s with a length is that of the item cut', (op) => {
    checkSlopes([samples({ least: 2, dtypes: wide }), fc.nat(1e6)], (sample, pick) => {
      const whole = backwardCallOf(op, sample, { items: true });
      const each: BackwardCall = { ...whole, parameters: {} };
      const [items, extent] = each.shape as [number, number];
      const lengths = Array.from({ length: items }, (_, n) => (pick * (n + 1)) % (extent + 1));
      const n = pick % items;
      const shape = [1, lengths[n] as number, ...each.shape.slice(2)];
      const size = product(each.shape.slice(1));
      const from = Array.from({ length: product(shape) }, (_, i) => n * size + i);
      if (from.length === 0) return;
      const dx = gather(differentiate(each, { lengths }).dx, from);
      const after = { ...each, shape, x: gather(each.x, from), dy: gather(each.dy, from) };
      const expected = differentiate(after).dx;
      // Along lengths they are computed in double, in whatever order it needs.
      if (!each.axes.includes(1)) return expectBits(describeSlope(after, 'dx'), dx, expected);
      const { magnitude } = referenceOf(after, after.dy, after.x, each.rest as Given);
      const finite = magnitude.dx.map((value) => (Number.isNaN(value) ? 1 : value));
      return expectNear(describeSlope(after, 'dx'), dx, expected, 4 * promised[each.dtype], finite);
    });
  });
});

describe('gradients and permutations', () => {
  test.each(differentiable.filter(isOverAxes))('permuting an axis that is left permutes dx of %s to the bit', (op) => {
    checkSlopes([samples({ least: 2 }), fc.nat(1e6)], (sample, pick) => {
      const each = backwardCallOf(op, sample, { items: true });
      const left = allBut(each.shape, each.axes);
      const axis = left[pick % left.length] as number;
      expectGatheredSlope(each, {}, permuted(each.shape, axis, permutation(each.shape[axis] as number, sample.seed)));
    });
  });

  test.each(['instanceNorm', 'groupNorm', 'batchNorm', 'batchNormTraining'] as const)(
    'permuting the channels of %s, whole groups of them, permutes all gradients to the bit',
    (op) => {
      checkSlopes([samples({ least: 2 })], (sample) => {
        const each = backwardCallOf(op, sample);
        const channels = each.shape[each.axis] as number;
        const size = op === 'groupNorm' ? channels / each.groups : 1;
        const groups = permutation(channels / size, sample.seed);
        const order = groups.flatMap((group) => Array.from({ length: size }, (_, c) => group * size + c));
        const parameters = withParameters(each, (values) => gather(values, order));
        const from = permuted(each.shape, each.axis, order);
        const after = { ...each, x: gather(each.x, from), dy: gather(each.dy, from), parameters };
        const expected = withSlopes(differentiate(each), (values, name) =>
          gather(values, name === 'dx' ? from : order),
        );
        expectSameSlopes(after, differentiate(after), expected);
      });
    },
  );
});

describe('gradients and other ways to say the same', () => {
  test('those of groupNorm with as many groups as channels are those of instanceNorm to the bit', () => {
    checkSlopes([samples({ least: 2 })], (sample) => {
      const each = backwardCallOf('instanceNorm', sample);
      const other = { ...each, op: 'groupNorm' as const, groups: each.shape[each.axis] as number };
      expectSameSlopes(other, differentiate(other), differentiate(each));
    });
  });

  test.each(differentiable.filter(isOverAxes))(
    'those of %s over axes in another order, parameters transposed, are the same to the bit',
    (op) => {
      checkSlopes([samples({ least: 2 })], (sample) => {
        const each = backwardCallOf(op, sample);
        const ascending = [...each.axes].sort((a, b) => a - b);
        const extents = each.axes.map((axis) => each.shape[axis] as number);
        const order = ascending.map((axis) => each.axes.indexOf(axis));
        const transposed = transposition(extents, order);
        const parameters = withParameters(each, (values) => gather(values, transposed));
        const expected = withSlopes(differentiate(each), (values, name) =>
          name === 'dx' ? values : gather(values, transposed),
        );
        const after = { ...each, axes: ascending, parameters };
        expectSameSlopes(after, differentiate(after), expected);
        const fromTheEnd = { axes: each.axes.map((axis) => axis - each.shape.length) };
        expectSameSlopes(each, differentiate(each, fromTheEnd), differentiate(each));
      });
    },
  );

  test.each(differentiable)('an extent of 1 anywhere changes no bit of those of %s', (op) => {
    checkSlopes([samples({ least: leastRank(op) }), fc.nat(99)], (sample, pick) => {
      const each = backwardCallOf(op, sample);
      // Axis 0 of these is the items' alone.
      const hasItems = op === 'instanceNorm' || op === 'groupNorm';
      const at = hasItems ? 1 + (pick % each.shape.length) : pick % (each.shape.length + 1);
      const shape = each.shape.toSpliced(at, 0, 1);
      const moved = (axis: number) => (axis < at ? axis : axis + 1);
      const after = { ...each, shape, axis: moved(each.axis), axes: each.axes.map(moved) };
      expectSameSlopes(after, differentiate(after), differentiate(each));
    });
  });

  test.each(differentiable.filter((op) => vectors[op].includes('scale')))(
    'dScale and dBias of %s do not see scale, to the bit',
    (op) => {
      checkSlopes([samples({ least: leastRank(op) })], (sample) => {
        const each = backwardCallOf(op, { ...sample, scale: true });
        const { scale: _, ...parameters } = each.parameters;
        const { dx: __, ...expected } = differentiate({ ...each, parameters });
        const { dx: ___, ...got } = differentiate(each);
        expect(Object.keys(got)).toEqual(Object.keys(expected));
        for (const name of ['dScale', 'dBias'] as const) {
          if (expected[name]) expectBits(describeSlope(each, name), got[name] as Numbers, expected[name]);
        }
      });
    },
  );

  test.each(differentiable)('those of %s are the same to the bit whether out is new, dy or x', (op) => {
    checkSlopes([samples({ least: leastRank(op) })], (sample) => {
      const each = backwardCallOf(op, sample);
      const expected = differentiate(each);
      for (const into of ['dy', 'x']) {
        const { x, options } = ofType(each.dtype, each.x);
        const { x: dy } = ofType(each.dtype, each.dy);
        const out = into === 'dy' ? dy : x;
        const given = { ...optionsOf(each), ...options, ...each.parameters, out };
        const got = results(sn, `${op}Backward` as BackwardOp, x, given, dy);
        expect(got.dx).toBe(out);
        expectBits({ ...describeSlope(each, 'dx'), data: `out is ${into}` }, numbersOf(out), expected.dx);
      }
    });
  });

  test.each(differentiable)('those of %s of float16 are those of float32, dx rounded once', (op) => {
    checkSlopes([samples({ least: leastRank(op), dtypes: ['float16'] })], (sample) => {
      const each = backwardCallOf(op, sample);
      const expected = withSlopes(differentiate({ ...each, dtype: 'float32' }), (values, name) =>
        name === 'dx' ? numbersOf(narrow(values)) : values,
      );
      expectSameSlopes(each, differentiate(each), expected);
    });
  });
});

describe('gradients and their operation', () => {
  const tame = { dtypes: ['float64'], ratios: [0, 1, 30], deviations: tameDeviations } as const;

  function dot(a: Numbers, b: Numbers): number {
    return a.reduce((sum, value, i) => sum + value * (b[i] as number), 0);
  }
  function sizeOf(a: Numbers, b: Numbers): number {
    return a.reduce((sum, value, i) => sum + Math.abs(value * (b[i] as number)), 0);
  }

  test.each(differentiable)('dx of %s is how y changes along any direction of x', (op) => {
    checkSlopes([samples({ ...tame, least: leastRank(op) })], (sample) => {
      const each = backwardCallOf(op, sample);
      const direction = valuesOf({ ...sample, ratio: 0, deviation: 1, seed: sample.seed + 8 }, each.x.length);
      const step = 1e-6 * sample.deviation;
      const lossAt = (t: number) => {
        const x = each.x.map((value, i) => value + t * (direction[i] as number));
        return dot(run({ ...each, x }).y as Numbers, each.dy);
      };
      const difference = (lossAt(step) - lossAt(-step)) / (2 * step);
      const { dx } = differentiate(each);
      const epsilon = each.rest.epsilon as number | undefined;
      const { magnitude } = referenceOf(each, each.dy, each.x, {
        ...each.parameters,
        ...(each.rest as Given),
        epsilon,
      });
      // y has roundings of 2^-52 of its size, which the step divides.
      const bound = 1e-6 * sizeOf(magnitude.dx, direction) + (2 ** -48 * sizeOf(each.dy, magnitudeOf(each))) / step;
      const singular = [dot(dx, direction), difference].some(Number.isNaN);
      if (!singular)
        expectNear(describeSlope(each, 'dx along a direction'), [dot(dx, direction)], [difference], 1, [bound]);
      else expect([dot(dx, direction), difference]).toEqual([NaN, NaN]);
    });
  });

  test.each(differentiable.filter((op) => vectors[op].includes('scale')))(
    'dScale and dBias of %s are how y changes with scale and bias, in which it is linear',
    (op) => {
      checkSlopes([samples({ least: leastRank(op), dtypes: ['float64'], ratios: promisedRatios })], (sample) => {
        const each = backwardCallOf(op, sample);
        const length = parameterLength(each);
        const along = Float64Array.from(drawScale(length, sample.seed + 8));
        const { dScale, dBias } = differentiate(each);
        const y = run({ ...each, parameters: { ...each.parameters, scale: along } }).y as Numbers;
        const bound = 16 * sizeOf(each.dy, magnitudeOf({ ...each, parameters: { ...each.parameters, scale: along } }));
        const got = dot(dScale as Numbers, along);
        expectNear(describeSlope(each, 'dScale along a direction'), [got], [dot(each.dy, y)], promised.float64, [
          bound,
        ]);
        if (!dBias) return;
        const places = parameterPlaces(each);
        const spread = each.dy.map((_, i) => along[places[i] as number] as number);
        const sum = dot(each.dy, spread);
        const size = sizeOf(each.dy, spread);
        expectNear(describeSlope(each, 'dBias along a direction'), [dot(dBias, along)], [sum], promised.float64, [
          16 * size,
        ]);
      });
    },
  );

  test.each(['layerNorm', 'instanceNorm', 'groupNorm', 'batchNormTraining'] as const)(
    'the sum of dx over a group of %s is 0, and so is that of dx * h where epsilon is',
    (op) => {
      checkSlopes([samples({ least: 2, dtypes: ['float32'], ratios: promisedRatios, epsilons: [0] })], (sample) => {
        const each = backwardCallOf(op, sample);
        const { dx } = differentiate(each);
        const { magnitude } = referenceOf(each, each.dy, each.x, { ...each.parameters, epsilon: 0 });
        const h = normalized(each);
        const groupOf = groupsOf(each);
        const make = () => new Float64Array(countOf(groupOf));
        const sums = { 'dx summed': make(), 'dx * h summed': make() };
        const sizes = { 'dx summed': make(), 'dx * h summed': make() };
        dx.forEach((value, i) => {
          const group = groupOf[i] as number;
          const own = h[i] as number;
          const add = (into: Numbers, term: number) => {
            into[group] = (into[group] as number) + term;
          };
          add(sums['dx summed'], value);
          add(sums['dx * h summed'], value * own);
          add(sizes['dx summed'], magnitude.dx[i] as number);
          add(sizes['dx * h summed'], (magnitude.dx[i] as number) * Math.max(1, Math.abs(own)));
        });
        for (const name of ['dx summed', 'dx * h summed'] as const) {
          // 0/0 where the variance is 0.
          const zeros = sums[name].map((value) => (Number.isNaN(value) ? NaN : 0));
          const bounds = sizes[name].map((value) => (Number.isNaN(value) ? 1 : value));
          expectNear(describeSlope(each, name), sums[name], zeros, 4 * promised.float32, bounds);
        }
      });
    },
  );
});

test('the laws are about what changes: other data give other bits', () => {
  for (const op of ops) {
    const calls: string[] = [];
    check([samples({ least: leastRank(op), dtypes: ['float32'], ratios: [0] })], (sample) => {
      const { y, mean } = run(callOf(op, { ...sample, epsilon: 0.25, deviation: 1 }));
      calls.push(String(y ?? mean));
    });
    expect(new Set(calls).size).toBeGreaterThan(40);
    expect(calls.join()).toMatch(/\d\.\d{5}/);
  }
  for (const op of differentiable) {
    const calls: string[] = [];
    check([samples({ least: leastRank(op), dtypes: ['float32'], ratios: [0] })], (sample) => {
      calls.push(String(differentiate(backwardCallOf(op, { ...sample, epsilon: 0.25, deviation: 1 })).dx));
    });
    expect(new Set(calls).size).toBeGreaterThan(40);
    expect(calls.join()).toMatch(/\d\.\d{5}/);
  }
});
