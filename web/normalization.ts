import type { Simdnorm } from 'simdnorm';
import type { Table } from './table';

export type Norm = 'layer' | 'rms' | 'l2' | 'l1' | 'max' | 'group' | 'batch';

interface Call {
  shape: [rows: number, cols: number];
  /** Of columns in each row; only group norm asks. */
  groups: number;
  epsilon: number;
  out: Float32Array;
}

/** What x is divided by, epsilon aside. */
export type Spread = 'standard deviation' | 'root mean square' | 'L2 norm' | 'L1 norm' | 'max norm';

interface Definition {
  /** As it stands within a sentence. */
  name: string;
  /** The library's function. */
  operation: 'layerNorm' | 'rmsNorm' | 'lpNormalize' | 'groupNorm' | 'batchNormTraining';
  /** What has statistics of its own. */
  shares: 'row' | 'group' | 'column';
  spread: Spread;
  /** The library's default, as people write it. */
  epsilon: '1e-5' | '1e-12';
  call: (simdnorm: Simdnorm, x: Float32Array, call: Call) => void;
}

export const norms: Record<Norm, Definition> = {
  layer: {
    name: 'layer norm',
    operation: 'layerNorm',
    shares: 'row',
    spread: 'standard deviation',
    epsilon: '1e-5',
    call: (simdnorm, x, { shape, epsilon, out }) => simdnorm.layerNorm(x, { shape, epsilon, out }),
  },
  rms: {
    name: 'RMS norm',
    operation: 'rmsNorm',
    shares: 'row',
    spread: 'root mean square',
    epsilon: '1e-5',
    call: (simdnorm, x, { shape, epsilon, out }) => simdnorm.rmsNorm(x, { shape, epsilon, out }),
  },
  l2: lp('L2 normalization', 'L2 norm', 2),
  l1: lp('L1 normalization', 'L1 norm', 1),
  max: lp('max normalization', 'max norm', Infinity),
  group: {
    name: 'group norm',
    operation: 'groupNorm',
    shares: 'group',
    spread: 'standard deviation',
    epsilon: '1e-5',
    call: (simdnorm, x, { shape, groups, epsilon, out }) => simdnorm.groupNorm(x, { shape, groups, epsilon, out }),
  },
  batch: {
    name: 'batch norm',
    operation: 'batchNormTraining',
    shares: 'column',
    spread: 'standard deviation',
    epsilon: '1e-5',
    call: (simdnorm, x, { shape, epsilon, out }) => simdnorm.batchNormTraining(x, { shape, epsilon, out }),
  },
};

function lp(name: string, spread: Spread, p: number): Definition {
  return {
    name,
    operation: 'lpNormalize',
    shares: 'row',
    spread,
    epsilon: '1e-12',
    call: (simdnorm, x, { shape, epsilon, out }) => simdnorm.lpNormalize(x, { shape, p, epsilon, out }),
  };
}

/** What was chosen: groups are those of columns in each row, 1 unless the norm has them. */
export interface Choice {
  norm: Norm;
  groups: number;
  epsilon: number;
}

/** The values that share statistics: a row, neighbouring columns in a row, or a column. */
export interface Groups {
  count: number;
  /** Values in each. */
  size: number;
  /** Where a group's value number i is in x. */
  at: (group: number, i: number) => number;
}

/** One value for each group. */
export interface Statistics {
  /** Null where none is subtracted. */
  mean: Float32Array | null;
  spread: Float64Array;
}

export interface Normalized extends Choice {
  table: Table;
  y: Float32Array;
  shared: Groups;
  before: Statistics;
  after: Statistics;
}

export function normalize(simdnorm: Simdnorm, table: Table, choice: Choice): Normalized {
  const { x } = table;
  const y = new Float32Array(x.length);
  call(simdnorm, table, choice, y);
  const shared = groupsOf(table, choice);
  return {
    ...choice,
    table,
    y,
    shared,
    before: statistics(simdnorm, choice.norm, shared, x),
    after: statistics(simdnorm, choice.norm, shared, y),
  };
}

function call(simdnorm: Simdnorm, { x, rows, cols }: Table, { norm, groups, epsilon }: Choice, out: Float32Array) {
  norms[norm].call(simdnorm, x, { shape: [rows, cols], groups, epsilon, out });
}

/** Throws what the library says about epsilon, whatever else is wrong. */
export function checkEpsilon(simdnorm: Simdnorm, norm: Norm, epsilon: number): void {
  // Two rows: batch norm refuses a single one.
  norms[norm].call(simdnorm, new Float32Array(2), { shape: [2, 1], groups: 1, epsilon, out: new Float32Array(2) });
}

function groupsOf({ rows, cols }: Table, { norm, groups }: Choice): Groups {
  if (norms[norm].shares === 'column') return { count: cols, size: rows, at: (group, i) => i * cols + group };
  const size = cols / groups;
  return { count: rows * groups, size, at: (group, i) => group * size + i };
}

function statistics(simdnorm: Simdnorm, norm: Norm, shared: Groups, values: Float32Array): Statistics {
  const { count, size, at } = shared;
  const { spread: kind, shares } = norms[norm];
  const spread = new Float64Array(count);
  if (kind !== 'standard deviation') {
    const spreadOf = spreads[kind];
    for (let group = 0; group < count; group++) spread[group] = spreadOf(values, group * size, size);
    return { mean: null, spread };
  }
  const byColumn = shares === 'column';
  const shape = byColumn ? [size, count] : [count, size];
  const { mean, variance } = simdnorm.moments(values, { shape, axes: byColumn ? 0 : 1 });
  for (let group = 0; group < count; group++) {
    // The library normalizes values of 1e30 and 1e-30 rightly, but returns their variances as float32, which they leave.
    const value = variance[group] as number;
    const fits = value > leastNormal && value < Infinity;
    spread[group] = Math.sqrt(fits ? value : varianceInDouble(size, (i) => values[at(group, i)] as number));
  }
  return { mean, spread };
}

const leastNormal = 2 ** -126;

function varianceInDouble(size: number, at: (i: number) => number): number {
  // From the first value, so that values all alike have exactly 0.
  let mean = 0;
  for (let i = 0; i < size; i++) mean += (at(i) - at(0)) / size;
  let variance = 0;
  for (let i = 0; i < size; i++) variance += (at(i) - at(0) - mean) ** 2 / size;
  return variance;
}

type SpreadOf = (values: Float32Array, first: number, size: number) => number;

/** In double, which holds the square of any float32. */
const spreads: Record<Exclude<Spread, 'standard deviation'>, SpreadOf> = {
  'root mean square': (values, first, size) => Math.sqrt(sumOfSquares(values, first, size) / size),
  'L2 norm': (values, first, size) => Math.sqrt(sumOfSquares(values, first, size)),
  'L1 norm': (values, first, size) => {
    let sum = 0;
    for (let i = first; i < first + size; i++) sum += Math.abs(values[i] as number);
    return sum;
  },
  'max norm': (values, first, size) => {
    let largest = 0;
    for (let i = first; i < first + size; i++) largest = Math.max(largest, Math.abs(values[i] as number));
    return largest;
  },
};

function sumOfSquares(values: Float32Array, first: number, size: number): number {
  let sum = 0;
  for (let i = first; i < first + size; i++) sum += (values[i] as number) ** 2;
  return sum;
}

/** The numbers of groups that columns can be divided into. */
export function divisors(cols: number): number[] {
  const small: number[] = [];
  for (let divisor = 1; divisor * divisor <= cols; divisor++) if (cols % divisor === 0) small.push(divisor);
  return [...new Set([...small, ...small.map((divisor) => cols / divisor).reverse()])];
}

export interface Timing {
  /** Of one call. */
  medianMilliseconds: number;
  timings: number;
  callsEach: number;
}

/** Repeats the call that made `result`; y is written again, with the same bits. */
export function measure(simdnorm: Simdnorm, result: Normalized): Timing {
  const milliseconds = (calls: number) => {
    const start = performance.now();
    for (let i = 0; i < calls; i++) call(simdnorm, result.table, result, result.y);
    return performance.now() - start;
  };

  // The clock's steps (5 to 100 microseconds) are longer than a call on a small table: time many at once. The median says
  // whether they are enough, as a single pause is long too. Finding out also gives the engine time to optimize.
  for (let callsEach = 1; ; callsEach *= 2) {
    const samples: number[] = [];
    const end = performance.now() + 50;
    while (samples.length < 3 || (samples.length < 25 && performance.now() < end)) {
      samples.push(milliseconds(callsEach));
    }
    const median = samples.sort((a, b) => a - b)[samples.length >> 1] as number;
    if (median >= 0.5 || callsEach >= 1 << 16) {
      return { medianMilliseconds: median / callsEach, timings: samples.length, callsEach };
    }
  }
}
