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

/** Ba, Kiros, Hinton 2016, eq. 4: each row over its units, which lie along the last `trailing` axes. */
export function layerNorm(x: Values, shape: Shape, trailing: number, parameters: Parameters = {}): Reference {
  const rows = product(shape.slice(0, shape.length - trailing));
  const units = product(shape.slice(shape.length - trailing));
  const result = emptyReference(x.length);
  for (let row = 0; row < rows; ++row) {
    const values = new Float64Array(units);
    for (let unit = 0; unit < units; ++unit) values[unit] = x[row * units + unit] as number;
    const { mean, variance } = momentsOf(values);
    addStatistics(result, mean, variance, parameters.epsilon ?? 1e-5);
    for (let unit = 0; unit < units; ++unit) {
      const scale = parameter(parameters.scale, unit, 1);
      const bias = parameter(parameters.bias, unit, 0);
      apply(result, row * units + unit, values[unit] as number, row, scale, bias);
    }
  }
  return result;
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

/** Over any axes, one for each place along the others in row-major order. */
export function moments(x: Values, shape: Shape, axes: readonly number[]): { mean: number[]; variance: number[] } {
  const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const groups: number[][] = Array.from({ length: product(kept.map((axis) => shape[axis] as number)) }, () => []);
  const place = shape.map(() => 0);
  for (let i = 0; i < x.length; ++i) {
    let group = 0;
    for (const axis of kept) group = group * (shape[axis] as number) + (place[axis] as number);
    groups[group]?.push(x[i] as number);
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      place[axis] = (place[axis] as number) + 1;
      if (place[axis] !== shape[axis]) break;
      place[axis] = 0;
    }
  }
  const all = groups.map(momentsOf);
  return { mean: all.map(({ mean }) => mean), variance: all.map(({ variance }) => variance) };
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
