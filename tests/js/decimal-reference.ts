// The definitions once more, in decimals of 50 digits: what judges results in double has to be more than double. For
// small cases only, as a decimal takes microseconds.

import { Decimal } from 'decimal.js';
import type { Case, Shape } from './reference.ts';

type Values = ArrayLike<number>;
type Axes = readonly number[];

/** The distance from 1 to the next double. */
export const machineEpsilon = 2 ** -52;
/** float32's promises, in double's units. */
export const promise = 5 * machineEpsilon;
export const affinePromise = promise + machineEpsilon;
export const variancePromise = 16 * machineEpsilon;
export const invStdPromise = variancePromise / 2 + 2 * machineEpsilon;

// Own settings, so that nobody else's are changed.
const Exact = Decimal.clone({ precision: 50, rounding: Decimal.ROUND_HALF_EVEN });
const zero = new Exact(0);
const one = new Exact(1);

const powersOfTwo = new Map<number, Decimal>();

function powerOfTwo(exponent: number): Decimal {
  let power = powersOfTwo.get(exponent);
  if (!power) {
    power = Exact.pow(2, exponent);
    powersOfTwo.set(exponent, power);
  }
  return power;
}

const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** A double's own value; decimal.js by itself takes the shortest decimal that would be rounded to it. */
export function exact(value: number): Decimal {
  if (value === 0 || !Number.isFinite(value)) return new Exact(value);
  double[0] = value;
  const [low, high] = words as unknown as [number, number];
  const exponent = (high >>> 20) & 2047;
  const significand = (exponent ? 2 ** 52 : 0) + (high & 0xfffff) * 2 ** 32 + low;
  return powerOfTwo(Math.max(exponent, 1) - 1075).times(Math.sign(value) * significand);
}

export interface Parameters {
  readonly scale?: Values | undefined;
  readonly bias?: Values | undefined;
  readonly epsilon?: number | undefined;
}

export interface Reference {
  readonly y: Decimal[];
  /** What an error of y is relative to. */
  readonly magnitude: Decimal[];
  readonly mean: Decimal[];
  readonly variance: Decimal[];
  readonly invStd: Decimal[];
}

function product(extents: Shape): number {
  return extents.reduce((result, extent) => result * extent, 1);
}

/** Every place of a tensor, with its flat index, in row-major order. */
function placesOf(shape: Shape): { i: number; place: number[] }[] {
  return Array.from({ length: product(shape) }, (_, i) => {
    const place = new Array<number>(shape.length);
    let rest = i;
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      place[axis] = rest % (shape[axis] as number);
      rest = Math.floor(rest / (shape[axis] as number));
    }
    return { i, place };
  });
}

/** The row-major index of a place among those that differ along these axes, in their order. */
function indexAlong(place: readonly number[], shape: Shape, axes: Axes): number {
  return axes.reduce((index, axis) => index * (shape[axis] as number) + (place[axis] as number), 0);
}

/** For each place, which group's statistics and which parameter are its own. */
interface Layout {
  readonly groups: number;
  readonly members: { readonly i: number; readonly group: number; readonly parameter: number }[];
}

function overAxes(shape: Shape, axes: Axes): Layout {
  const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const members = placesOf(shape).map(({ i, place }) => ({
    i,
    group: indexAlong(place, shape, kept),
    parameter: indexAlong(place, shape, axes),
  }));
  return { groups: product(kept.map((axis) => shape[axis] as number)), members };
}

/** Of each item, or, where there are no items, of the whole batch. */
function byChannel(shape: Shape, axis: number, groups: number, ofItems: boolean): Layout {
  const channels = shape[axis] as number;
  const members = placesOf(shape).map(({ i, place }) => {
    const channel = place[axis] as number;
    const item = ofItems ? (place[0] as number) : 0;
    return { i, group: item * groups + Math.floor(channel / (channels / groups)), parameter: channel };
  });
  return { groups: ofItems ? (shape[0] as number) * groups : groups, members };
}

function gather(x: Values, { groups, members }: Layout): Decimal[][] {
  const values: Decimal[][] = Array.from({ length: groups }, () => []);
  for (const { i, group } of members) values[group]?.push(exact(x[i] as number));
  return values;
}

function momentsOf(values: readonly Decimal[]): { mean: Decimal; variance: Decimal } {
  let sum = zero;
  for (const value of values) sum = sum.plus(value);
  const mean = sum.div(values.length);
  let squares = zero;
  for (const value of values) squares = squares.plus(value.minus(mean).pow(2));
  return { mean, variance: squares.div(values.length) };
}

/** Statistics as one sees them who normalizes: (x - mean) / sqrt(variance + epsilon) * scale + bias. */
function normalize(
  x: Values,
  { members }: Layout,
  statistics: readonly { mean: Decimal; variance: Decimal }[],
  { scale, bias, epsilon = 1e-5 }: Parameters,
  smallest: Decimal,
): Reference {
  const y: Decimal[] = [];
  const magnitude: Decimal[] = [];
  const invStd = statistics.map(({ variance }) => one.div(variance.plus(exact(epsilon)).sqrt()));
  for (const { i, group, parameter } of members) {
    const { mean } = statistics[group] as { mean: Decimal };
    const normalized = exact(x[i] as number)
      .minus(mean)
      .times(invStd[group] as Decimal);
    const factor = scale ? exact(scale[parameter] as number) : one;
    const summand = bias ? exact(bias[parameter] as number) : zero;
    y[i] = normalized.times(factor).plus(summand);
    magnitude[i] = Exact.max(smallest, normalized.abs()).times(factor.abs()).plus(summand.abs());
  }
  return {
    y,
    magnitude,
    mean: statistics.map(({ mean }) => mean),
    variance: statistics.map(({ variance }) => variance),
    invStd,
  };
}

/** Ba, Kiros, Hinton 2016, eq. 4, over any axes; scale and bias have their extents, in their order. */
export function layerNorm(x: Values, shape: Shape, axes: Axes, parameters: Parameters = {}): Reference {
  const layout = overAxes(shape, axes);
  return normalize(x, layout, gather(x, layout).map(momentsOf), parameters, one);
}

/** double's smallest normal number: a product below it has lost bits already. */
const smallestNormal = powerOfTwo(-1022);

/** Zhang, Sennrich 2019, eq. 4. Nothing is subtracted, so an error is relative to y itself. */
export function rmsNorm(x: Values, shape: Shape, axes: Axes, parameters: Parameters = {}): Reference {
  const layout = overAxes(shape, axes);
  const statistics = gather(x, layout).map((values) => {
    let squares = zero;
    for (const value of values) squares = squares.plus(value.pow(2));
    return { mean: zero, variance: squares.div(values.length) };
  });
  return normalize(x, layout, statistics, parameters, smallestNormal);
}

/** Ulyanov, Vedaldi, Lempitsky 2016, eq. 4: each channel of each item by its own statistics. */
export function instanceNorm(x: Values, shape: Shape, axis: number, parameters: Parameters = {}): Reference {
  return groupNorm(x, shape, axis, shape[axis] as number, parameters);
}

/** Wu, He 2018, eq. 7: neighbouring channels of an item share their statistics. */
export function groupNorm(
  x: Values,
  shape: Shape,
  axis: number,
  groups: number,
  parameters: Parameters = {},
): Reference {
  const layout = byChannel(shape, axis, groups, true);
  return normalize(x, layout, gather(x, layout).map(momentsOf), parameters, one);
}

/** Ioffe, Szegedy 2015, algorithm 1: each channel by its own statistics. */
export function batchNormTraining(x: Values, shape: Shape, axis: number, parameters: Parameters = {}): Reference {
  const layout = byChannel(shape, axis, shape[axis] as number, false);
  return normalize(x, layout, gather(x, layout).map(momentsOf), parameters, one);
}

/** Ioffe, Szegedy 2015, algorithm 2, last step: each channel by the statistics given. */
export function batchNorm(
  x: Values,
  shape: Shape,
  axis: number,
  parameters: Parameters & { readonly mean: Values; readonly variance: Values },
): Reference {
  const layout = byChannel(shape, axis, shape[axis] as number, false);
  const statistics = Array.from(parameters.mean, (mean, channel) => ({
    mean: exact(mean),
    variance: exact(parameters.variance[channel] as number),
  }));
  return normalize(x, layout, statistics, parameters, one);
}

/** Over any axes, one for each place along the others in row-major order. */
export function moments(x: Values, shape: Shape, axes: Axes): { mean: Decimal[]; variance: Decimal[] } {
  const all = gather(x, overAxes(shape, axes)).map(momentsOf);
  return { mean: all.map(({ mean }) => mean), variance: all.map(({ variance }) => variance) };
}

/** x / max(norm, epsilon), where a zero vector stays zero. An error is relative to y itself. */
export function lpNormalize(
  x: Values,
  shape: Shape,
  axes: Axes,
  { p = 2, epsilon = 1e-12 }: { readonly p?: number | undefined; readonly epsilon?: number | undefined } = {},
): { y: Decimal[]; magnitude: Decimal[] } {
  const layout = overAxes(shape, axes);
  const norms = gather(x, layout).map((values) => {
    let sum = zero;
    let squares = zero;
    let largest = zero;
    for (const value of values) {
      sum = sum.plus(value.abs());
      squares = squares.plus(value.pow(2));
      largest = Exact.max(largest, value.abs());
    }
    return p === 1 ? sum : p === 2 ? squares.sqrt() : largest;
  });
  const y: Decimal[] = [];
  for (const { i, group } of layout.members) {
    const norm = norms[group] as Decimal;
    y[i] = norm.isZero() ? zero : exact(x[i] as number).div(Exact.max(norm, exact(epsilon)));
  }
  return { y, magnitude: y.map((value) => Exact.max(smallestNormal, value.abs())) };
}

/** Krizhevsky, Sutskever, Hinton 2012, section 3.3, with ONNX's window and alpha. An error is relative to y itself. */
export function localResponseNorm(
  x: Values,
  shape: Shape,
  axis: number,
  { size, alpha = 1e-4, beta = 0.75, k = 1 }: { size: number; alpha?: number; beta?: number; k?: number },
): { y: Decimal[]; magnitude: Decimal[] } {
  const cases = product(shape.slice(0, axis));
  const channels = shape[axis] as number;
  const places = product(shape.slice(axis + 1));
  const y: Decimal[] = [];
  for (let n = 0; n < cases; ++n) {
    for (let c = 0; c < channels; ++c) {
      const first = Math.max(0, c - Math.floor((size - 1) / 2));
      const last = Math.min(channels - 1, c + Math.ceil((size - 1) / 2));
      for (let place = 0; place < places; ++place) {
        let squares = zero;
        for (let neighbour = first; neighbour <= last; ++neighbour) {
          squares = squares.plus(exact(x[(n * channels + neighbour) * places + place] as number).pow(2));
        }
        const i = (n * channels + c) * places + place;
        const divisor = exact(k).plus(exact(alpha).div(size).times(squares));
        y[i] = exact(x[i] as number).div(divisor.pow(exact(beta)));
      }
    }
  }
  return { y, magnitude: y.map((value) => Exact.max(smallestNormal, value.abs())) };
}

const long = new BigInt64Array(double.buffer);

/** The double's place among all doubles in ascending order. */
function placeOf(value: number): bigint {
  double[0] = value;
  const bits = long[0] as bigint;
  return bits < 0n ? -(2n ** 63n) - bits : bits;
}

/** How many doubles lie between two of them. */
export function ulps(got: number, expected: number): bigint {
  const distance = placeOf(got) - placeOf(expected);
  return distance < 0n ? -distance : distance;
}

function fail(what: Case, i: number, expected: Decimal | number, got: number, bound: string): never {
  const data = what.data ? ` ${what.data}` : '';
  throw new Error(
    `${what.op} [${what.shape.join(', ')}]${data}: ${what.output ?? 'y'}[${i}]: expected ${expected.toString()}, ` +
      `got ${got}, ${ulps(got, Number(expected))} ULP, ${bound}`,
  );
}

function checkLength(what: Case, got: Values, expected: { readonly length: number }): void {
  if (got.length === expected.length) return;
  const lengths = `expected ${expected.length} values, got ${got.length}`;
  throw new Error(`${what.op} [${what.shape.join(', ')}]: ${what.output ?? 'y'}: ${lengths}`);
}

const halfOfTheSmallest = Exact.pow(2, -1075);

/**
 * |got - expected| <= c * magnitude, or, where that is less, the rounding of numbers near 0. NaN and infinity are right
 * where the double nearest to what is expected is NaN or infinity. Without a magnitude errors are relative.
 */
export function expectNear(
  what: Case,
  got: Values,
  expected: readonly Decimal[],
  c: number,
  magnitude: readonly Decimal[] = expected.map((each) => each.abs()),
): void {
  checkLength(what, got, expected);
  for (let i = 0; i < got.length; ++i) {
    const value = got[i] as number;
    const right = expected[i] as Decimal;
    const nearest = right.toNumber();
    if (!Number.isFinite(nearest) || !Number.isFinite(value)) {
      if (!Object.is(value, nearest)) fail(what, i, right, value, 'not finite');
      continue;
    }
    const error = exact(value).minus(right).abs();
    const bound = exact(c)
      .times(magnitude[i] as Decimal)
      .plus(halfOfTheSmallest);
    if (!error.lessThanOrEqualTo(bound)) {
      fail(what, i, right, value, `error ${error.toPrecision(5)}, bound ${bound.toPrecision(5)}`);
    }
  }
}

/** Equal to the bit, so that -0 is not 0; all NaNs are equal. */
export function expectBits(what: Case, got: Values, expected: Values): void {
  checkLength(what, got, expected);
  for (let i = 0; i < got.length; ++i) {
    const value = got[i] as number;
    const right = expected[i] as number;
    if (!Object.is(value, right)) fail(what, i, right, value, 'bound 0');
  }
}

/** Statistics by their promises: 5 machine epsilons of a deviation and the mean's own rounding, and relative ones. */
export function expectStatistics(
  what: Case,
  got: { readonly mean?: Values; readonly variance?: Values; readonly invStd?: Values },
  { mean, variance, invStd }: Pick<Reference, 'mean' | 'variance'> & Partial<Pick<Reference, 'invStd'>>,
): void {
  const magnitude = mean.map((each, i) => (variance[i] as Decimal).sqrt().plus(each.abs().div(10)));
  if (got.mean) expectNear({ ...what, output: 'mean' }, got.mean, mean, promise, magnitude);
  if (got.variance) expectNear({ ...what, output: 'variance' }, got.variance, variance, variancePromise);
  if (got.invStd && invStd) expectNear({ ...what, output: 'invStd' }, got.invStd, invStd, invStdPromise);
}
