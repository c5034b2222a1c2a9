import type { Simdnorm } from 'simdnorm';
import type { Table } from './table';

export type Norm = 'layer' | 'batch';

/** One value for each group: a row in layer norm, a column in batch norm. */
export interface Statistics {
  mean: Float32Array;
  variance: Float64Array;
}

export interface Normalized {
  table: Table;
  norm: Norm;
  epsilon: number;
  y: Float32Array;
  before: Statistics;
  after: Statistics;
}

export function normalize(simdnorm: Simdnorm, table: Table, norm: Norm, epsilon: number): Normalized {
  const y = new Float32Array(table.x.length);
  call(simdnorm, table, norm, epsilon, y);
  return {
    table,
    norm,
    epsilon,
    y,
    before: statistics(simdnorm, table, norm, table.x),
    after: statistics(simdnorm, table, norm, y),
  };
}

function statistics(simdnorm: Simdnorm, { rows, cols }: Table, norm: Norm, values: Float32Array): Statistics {
  const layer = norm === 'layer';
  const moments = simdnorm.moments(values, { shape: [rows, cols], axes: layer ? 1 : 0 });
  const variance = new Float64Array(moments.variance);
  for (let group = 0; group < variance.length; group++) {
    // The library normalizes values of 1e30 and 1e-30 rightly, but returns their variances as float32, which they leave.
    const value = variance[group] as number;
    if (value > leastNormal && value < Infinity) continue;
    const at = (i: number) => values[layer ? group * cols + i : i * cols + group] as number;
    variance[group] = varianceInDouble(layer ? cols : rows, at);
  }
  return { mean: moments.mean, variance };
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

function call(simdnorm: Simdnorm, { x, rows, cols }: Table, norm: Norm, epsilon: number, y: Float32Array): void {
  const options = { shape: [rows, cols], epsilon, out: y };
  if (norm === 'layer') simdnorm.layerNorm(x, options);
  else simdnorm.batchNormTraining(x, options);
}

export interface Timing {
  /** Of one call. */
  medianMilliseconds: number;
  timings: number;
  callsEach: number;
}

/** Repeats the call that made `result`; y is written again, with the same bits. */
export function measure(simdnorm: Simdnorm, { table, norm, epsilon, y }: Normalized): Timing {
  const milliseconds = (calls: number) => {
    const start = performance.now();
    for (let i = 0; i < calls; i++) call(simdnorm, table, norm, epsilon, y);
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

/** The epsilon that the field holds; NaN, which the library refuses, when it is not a number. */
export function parseEpsilon(text: string): number {
  return text.trim() === '' ? Number.NaN : Number(text);
}
