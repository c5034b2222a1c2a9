// The definitions, written from the papers: in double, with a loop for each axis that they name, and how results are
// compared with them. Nothing here is shared with the package, so that a mistake of its can't be here too.

export type Shape = readonly number[];
type Values = ArrayLike<number>;

/** The distance from 1 to the next float32. */
export const machineEpsilon = 2 ** -23;
/** What the package promises of y before scale and bias, times max(1, |y|): 6e-7. */
export const promise = 5 * machineEpsilon;
/** With the two roundings of scale and bias. */
export const affinePromise = promise + machineEpsilon;
/** What it promises of a variance, relatively: 2e-6. */
export const variancePromise = 16 * machineEpsilon;
/** Half of the variance's, for the root, and the roundings of the root and of the quotient. */
export const invStdPromise = variancePromise / 2 + 2 * machineEpsilon;

export interface Parameters {
  readonly scale?: Values | null | undefined;
  readonly bias?: Values | null | undefined;
  readonly epsilon?: number | undefined;
}

export interface Reference {
  readonly y: Float64Array;
  /** What an error of y is relative to. */
  readonly magnitude: Float64Array;
  readonly mean: number[];
  readonly variance: number[];
  readonly invStd: number[];
}

function product(extents: Shape): number {
  let result = 1;
  for (const extent of extents) result *= extent;
  return result;
}

/** Of the population. At mean/std 1e7 even a double's rounding of a long sum would be seen, hence the correction. */
function momentsOf(values: Values): { mean: number; variance: number } {
  const n = values.length;
  let sum = 0;
  for (let i = 0; i < n; ++i) sum += values[i] as number;
  let mean = sum / n;
  let rest = 0;
  for (let i = 0; i < n; ++i) rest += (values[i] as number) - mean;
  mean += rest / n;
  let squares = 0;
  for (let i = 0; i < n; ++i) squares += ((values[i] as number) - mean) ** 2;
  return { mean, variance: squares / n };
}

/** Parameters reach the package's kernels as float32. */
function parameter(values: Values | null | undefined, i: number, absent: number): number {
  return values ? Math.fround(values[i] as number) : absent;
}

function emptyReference(size: number): Reference {
  return { y: new Float64Array(size), magnitude: new Float64Array(size), mean: [], variance: [], invStd: [] };
}

function addStatistics(result: Reference, mean: number, variance: number, epsilon: number): void {
  result.mean.push(mean);
  result.variance.push(variance);
  result.invStd.push(1 / Math.sqrt(variance + epsilon));
}

function apply(result: Reference, i: number, x: number, group: number, scale: number, bias: number): void {
  const normalized = (x - (result.mean[group] as number)) * (result.invStd[group] as number);
  result.y[i] = normalized * scale + bias;
  result.magnitude[i] = Math.max(1, Math.abs(normalized)) * Math.abs(scale) + Math.abs(bias);
}

function fromTheFront(axis: number, rank: number): number {
  return axis < 0 ? axis + rank : axis;
}

/**
 * For each value of x its group and its unit: the place along the axes that are left, row-major in the order of the
 * shape, and the place along the axes that are reduced, row-major in the order in which they are given.
 */
function placesOver(shape: Shape, axes: readonly number[]) {
  const reduced = axes.map((axis) => fromTheFront(axis, shape.length));
  const kept = shape.map((_, axis) => axis).filter((axis) => !reduced.includes(axis));
  const groupOf = new Int32Array(product(shape));
  const unitOf = new Int32Array(product(shape));
  const place = shape.map(() => 0);
  for (let i = 0; i < groupOf.length; ++i) {
    let group = 0;
    for (const axis of kept) group = group * (shape[axis] as number) + (place[axis] as number);
    groupOf[i] = group;
    let unit = 0;
    for (const axis of reduced) unit = unit * (shape[axis] as number) + (place[axis] as number);
    unitOf[i] = unit;
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      place[axis] = (place[axis] as number) + 1;
      if (place[axis] !== shape[axis]) break;
      place[axis] = 0;
    }
  }
  return { groups: product(kept.map((axis) => shape[axis] as number)), groupOf, unitOf };
}

/** The values of each group. */
function gather(x: Values, groups: number, groupOf: Int32Array): number[][] {
  const values: number[][] = Array.from({ length: groups }, () => []);
  for (let i = 0; i < groupOf.length; ++i) values[groupOf[i] as number]?.push(x[i] as number);
  return values;
}

/**
 * Ba, Kiros, Hinton 2016, eq. 4: every group by its own units, which lie along the axes. A number is how many of the
 * last axes; a list names them, and scale and bias have their extents in the list's order.
 */
export function layerNorm(
  x: Values,
  shape: Shape,
  over: number | readonly number[],
  parameters: Parameters = {},
): Reference {
  const every = shape.map((_, axis) => axis);
  const axes = typeof over === 'number' ? every.slice(shape.length - over) : over;
  const { groups, groupOf, unitOf } = placesOver(shape, axes);
  const result = emptyReference(x.length);
  for (const values of gather(x, groups, groupOf)) {
    const { mean, variance } = momentsOf(values);
    addStatistics(result, mean, variance, parameters.epsilon ?? 1e-5);
  }
  for (let i = 0; i < x.length; ++i) {
    const unit = unitOf[i] as number;
    const scale = parameter(parameters.scale, unit, 1);
    const bias = parameter(parameters.bias, unit, 0);
    apply(result, i, x[i] as number, groupOf[i] as number, scale, bias);
  }
  return result;
}

/** float32's smallest normal number: a product below it has lost bits already. */
const smallestNormal = 2 ** -126;

/**
 * Zhang, Sennrich 2019, eq. 4, where a bar over a is x here. variance is the mean square, and mean 0. Nothing is
 * subtracted, so an error is relative to y itself, not to max(1, |y|).
 */
export function rmsNorm(
  x: Values,
  shape: Shape,
  axes: readonly number[],
  parameters: Pick<Parameters, 'scale' | 'epsilon'> = {},
): Reference {
  const { groups, groupOf, unitOf } = placesOver(shape, axes);
  const result = emptyReference(x.length);
  for (const values of gather(x, groups, groupOf)) {
    let squares = 0;
    for (const value of values) squares += value * value;
    // The root of an infinity would let the finite values of the group come out as 0.
    const meanSquare = Number.isFinite(squares) ? squares / values.length : NaN;
    addStatistics(result, 0, meanSquare, parameters.epsilon ?? 1e-5);
  }
  for (let i = 0; i < x.length; ++i) {
    const normalized = (x[i] as number) * (result.invStd[groupOf[i] as number] as number);
    const scale = parameter(parameters.scale, unitOf[i] as number, 1);
    result.y[i] = normalized * scale;
    result.magnitude[i] = Math.max(smallestNormal, Math.abs(normalized)) * Math.abs(scale);
  }
  return result;
}

/** ONNX LpNormalization with an epsilon: x / max(norm, epsilon). An error is relative to y itself. */
export function lpNormalize(
  x: Values,
  shape: Shape,
  axes: readonly number[],
  { p = 2, epsilon = 1e-12 }: { readonly p?: number | undefined; readonly epsilon?: number | undefined } = {},
): { y: Float64Array; magnitude: Float64Array; norm: number[] } {
  const { groups, groupOf } = placesOver(shape, axes);
  const norm = gather(x, groups, groupOf).map((values) => {
    let sum = 0;
    let squares = 0;
    let largest = 0;
    for (const value of values) {
      sum += Math.abs(value);
      squares += value * value;
      largest = Math.max(largest, Math.abs(value));
    }
    // As with all statistics: a group that is not finite has none.
    if (!Number.isFinite(sum)) return NaN;
    return p === 1 ? sum : p === 2 ? Math.sqrt(squares) : largest;
  });
  const y = new Float64Array(x.length);
  for (let i = 0; i < x.length; ++i) {
    const length = norm[groupOf[i] as number] as number;
    y[i] = length === 0 ? (x[i] as number) : (x[i] as number) / Math.max(length, epsilon);
  }
  return { y, magnitude: y.map((value) => Math.max(smallestNormal, Math.abs(value))), norm };
}

/** The extents before, of and after the channel axis. */
function extentsAround(shape: Shape, axis: number): { cases: number; channels: number; places: number } {
  return {
    cases: product(shape.slice(0, axis)),
    channels: shape[axis] as number,
    places: product(shape.slice(axis + 1)),
  };
}

function normalizeChannels(result: Reference, x: Values, shape: Shape, axis: number, parameters: Parameters): void {
  const { cases, channels, places } = extentsAround(shape, axis);
  for (let n = 0; n < cases; ++n) {
    for (let c = 0; c < channels; ++c) {
      const scale = parameter(parameters.scale, c, 1);
      const bias = parameter(parameters.bias, c, 0);
      for (let place = 0; place < places; ++place) {
        const i = (n * channels + c) * places + place;
        apply(result, i, x[i] as number, c, scale, bias);
      }
    }
  }
}

/** Ioffe, Szegedy 2015, algorithm 2, last step: each channel by the statistics given. */
export function batchNorm(
  x: Values,
  shape: Shape,
  axis: number,
  parameters: Parameters & { readonly mean: Values; readonly variance: Values },
): Reference {
  const result = emptyReference(x.length);
  for (let c = 0; c < (shape[axis] as number); ++c) {
    const mean = parameter(parameters.mean, c, 0);
    const variance = parameter(parameters.variance, c, 1);
    addStatistics(result, mean, variance, parameters.epsilon ?? 1e-5);
  }
  normalizeChannels(result, x, shape, axis, parameters);
  return result;
}

/** Ioffe, Szegedy 2015, algorithm 1: each channel by its own statistics. */
export function batchNormTraining(x: Values, shape: Shape, axis: number, parameters: Parameters = {}): Reference {
  const { cases, channels, places } = extentsAround(shape, axis);
  const result = emptyReference(x.length);
  for (let c = 0; c < channels; ++c) {
    const values: number[] = [];
    for (let n = 0; n < cases; ++n) {
      for (let place = 0; place < places; ++place) values.push(x[(n * channels + c) * places + place] as number);
    }
    const { mean, variance } = momentsOf(values);
    addStatistics(result, mean, variance, parameters.epsilon ?? 1e-5);
  }
  normalizeChannels(result, x, shape, axis, parameters);
  return result;
}

/** The extents of [N, before, C, after], as which every layout with a channel axis past the first can be read. */
function extentsOfItems(shape: Shape, axis: number) {
  const channel = fromTheFront(axis, shape.length);
  return {
    items: shape[0] as number,
    before: product(shape.slice(1, channel)),
    channels: shape[channel] as number,
    after: product(shape.slice(channel + 1)),
  };
}

/** Ulyanov, Vedaldi, Lempitsky 2016, eq. 4: each channel of each item by its own statistics, which are [N, C]. */
export function instanceNorm(x: Values, shape: Shape, axis: number, parameters: Parameters = {}): Reference {
  const { items, before, channels, after } = extentsOfItems(shape, axis);
  const result = emptyReference(x.length);
  for (let n = 0; n < items; ++n) {
    for (let c = 0; c < channels; ++c) {
      const places: number[] = [];
      for (let row = 0; row < before; ++row) {
        for (let column = 0; column < after; ++column) {
          places.push(((n * before + row) * channels + c) * after + column);
        }
      }
      const { mean, variance } = momentsOf(places.map((i) => x[i] as number));
      addStatistics(result, mean, variance, parameters.epsilon ?? 1e-5);
      const scale = parameter(parameters.scale, c, 1);
      const bias = parameter(parameters.bias, c, 0);
      for (const i of places) apply(result, i, x[i] as number, n * channels + c, scale, bias);
    }
  }
  return result;
}

/**
 * Wu, He 2018, eq. 7: neighbouring channels of an item share their statistics, which are [N, groups]; scale and bias
 * are for each channel.
 */
export function groupNorm(
  x: Values,
  shape: Shape,
  axis: number,
  groups: number,
  parameters: Parameters = {},
): Reference {
  const { items, before, channels, after } = extentsOfItems(shape, axis);
  const size = channels / groups;
  const result = emptyReference(x.length);
  for (let n = 0; n < items; ++n) {
    for (let group = 0; group < groups; ++group) {
      const places: { i: number; c: number }[] = [];
      for (let c = group * size; c < (group + 1) * size; ++c) {
        for (let row = 0; row < before; ++row) {
          for (let column = 0; column < after; ++column) {
            places.push({ i: ((n * before + row) * channels + c) * after + column, c });
          }
        }
      }
      const { mean, variance } = momentsOf(places.map(({ i }) => x[i] as number));
      addStatistics(result, mean, variance, parameters.epsilon ?? 1e-5);
      for (const { i, c } of places) {
        const scale = parameter(parameters.scale, c, 1);
        const bias = parameter(parameters.bias, c, 0);
        apply(result, i, x[i] as number, n * groups + group, scale, bias);
      }
    }
  }
  return result;
}

/**
 * Krizhevsky, Sutskever, Hinton 2012, section 3.3, with ONNX's window and alpha: each value by those of its neighbours
 * along the channel axis. An error is relative to y itself.
 */
export function localResponseNorm(
  x: Values,
  shape: Shape,
  axis: number,
  {
    size,
    alpha = 1e-4,
    beta = 0.75,
    k = 1,
  }: {
    readonly size: number;
    readonly alpha?: number | undefined;
    readonly beta?: number | undefined;
    readonly k?: number | undefined;
  },
): { y: Float64Array; magnitude: Float64Array } {
  const { cases, channels, places } = extentsAround(shape, fromTheFront(axis, shape.length));
  const y = new Float64Array(x.length);
  for (let n = 0; n < cases; ++n) {
    for (let c = 0; c < channels; ++c) {
      const first = Math.max(0, c - Math.floor((size - 1) / 2));
      const last = Math.min(channels - 1, c + Math.ceil((size - 1) / 2));
      for (let place = 0; place < places; ++place) {
        let squares = 0;
        for (let neighbour = first; neighbour <= last; ++neighbour) {
          squares += (x[(n * channels + neighbour) * places + place] as number) ** 2;
        }
        const i = (n * channels + c) * places + place;
        y[i] = (x[i] as number) / (k + (alpha / size) * squares) ** beta;
      }
    }
  }
  return { y, magnitude: y.map((value) => Math.max(smallestNormal, Math.abs(value))) };
}

/** Over any axes, one for each place along the others in row-major order. */
export function moments(x: Values, shape: Shape, axes: readonly number[]): { mean: number[]; variance: number[] } {
  const { groups, groupOf } = placesOver(shape, axes);
  const all = gather(x, groups, groupOf).map(momentsOf);
  return { mean: all.map(({ mean }) => mean), variance: all.map(({ variance }) => variance) };
}

/** numpy's transpose: axis i of the result is axis order[i] of the values. */
export function transpose(values: Float32Array, shape: Shape, order: readonly number[]): Float32Array<ArrayBuffer> {
  const result = new Float32Array(values.length);
  const { unitOf } = placesOver(shape, order);
  for (let i = 0; i < values.length; ++i) result[unitOf[i] as number] = values[i] as number;
  return result;
}

/** What is compared, for the message. */
export interface Case {
  readonly op: string;
  readonly shape: Shape;
  /** Which of the results: 'y', 'mean', ... */
  readonly output?: string;
  readonly data?: string;
}

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** The float's place among all floats in ascending order. */
function placeOf(value: number): number {
  float[0] = value;
  const bits = word[0] as number;
  return bits & 0x80000000 ? 0x80000000 - bits : bits;
}

/** How many floats lie between a value and the float nearest to what was expected. */
export function ulps(got: number, expected: number): number {
  return Math.abs(placeOf(got) - placeOf(expected));
}

function report(what: Case, i: number, expected: number, got: number, error: number, bound: number): string {
  const data = what.data ? ` ${what.data}` : '';
  return (
    `${what.op} [${what.shape.join(', ')}]${data}: ${what.output ?? 'y'}[${i}]: expected ${expected}, got ${got}, ` +
    `${ulps(got, expected)} ULP, error ${error}, bound ${bound}`
  );
}

function checkLength(what: Case, got: Values, expected: Values): void {
  if (got.length === expected.length) return;
  const lengths = `expected ${expected.length} values, got ${got.length}`;
  throw new Error(`${what.op} [${what.shape.join(', ')}]: ${what.output ?? 'y'}: ${lengths}`);
}

/**
 * |got - expected| <= c * magnitude. NaN is right where NaN is expected, and wrong elsewhere. Without a magnitude errors
 * are relative to what is expected; below float32's normal numbers they can't be smaller than half the step there.
 */
export function expectNear(what: Case, got: Values, expected: Values, c: number, magnitude?: Values): void {
  checkLength(what, got, expected);
  for (let i = 0; i < got.length; ++i) {
    const value = got[i] as number;
    const right = expected[i] as number;
    if (value === right || (Number.isNaN(value) && Number.isNaN(right))) continue;
    const error = Math.abs(value - right);
    const bound = c * (magnitude ? (magnitude[i] as number) : Math.abs(right)) + 2 ** -150;
    // An infinite bound lets nothing but infinity itself through.
    if (!(error <= bound && error < Infinity)) throw new Error(report(what, i, right, value, error, bound));
  }
}

/** Equal to the bit, so that -0 is not 0; all NaNs are equal. */
export function expectBits(what: Case, got: Values, expected: Values): void {
  checkLength(what, got, expected);
  for (let i = 0; i < got.length; ++i) {
    const value = got[i] as number;
    const right = expected[i] as number;
    if (!Object.is(value, right)) throw new Error(report(what, i, right, value, Math.abs(value - right), 0));
  }
}

/** Statistics by their promises: 5 machine epsilons of a deviation and the mean's own rounding, and relative ones. */
export function expectStatistics(
  what: Case,
  got: { readonly mean?: Values; readonly variance?: Values; readonly invStd?: Values },
  expected: Pick<Reference, 'mean' | 'variance'> & Partial<Pick<Reference, 'invStd'>>,
): void {
  const { mean, variance, invStd } = expected;
  const magnitude = mean.map((each, i) => Math.sqrt(variance[i] as number) + Math.abs(each) / 10);
  if (got.mean) expectNear({ ...what, output: 'mean' }, got.mean, mean, promise, magnitude);
  if (got.variance) expectNear({ ...what, output: 'variance' }, got.variance, variance, variancePromise);
  if (got.invStd && invStd) expectNear({ ...what, output: 'invStd' }, got.invStd, invStd, invStdPromise);
}
