// The same as bits.cpp, line by line. No API of Node or of browsers, so that it runs in both.

import type { Simdnorm } from 'simdnorm';

const absent = undefined;
type Parameters = Float32Array | undefined;

/** A hash over the bits of every operation's results for fixed cases, as 16 hexadecimal digits: hash.txt. */
export function bitHash(sn: Simdnorm): string {
  // ---------------------------------------------------------------- hash

  let low = 0x243f6a88;
  let high = 0x85a308d3;

  function add(values: Float32Array): void {
    for (const word of new Uint32Array(values.buffer, values.byteOffset, values.length)) {
      low = Math.imul(low ^ word, 0x9e3779b1);
      low ^= low >>> 15;
      high = Math.imul(high ^ (word + low), 0x85ebca77);
      high ^= high >>> 13;
    }
  }

  // ---------------------------------------------------------------- values

  let state = 1;

  /** From -32768 to 32767: the generator of Numerical Recipes, its upper half. */
  function next(): number {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state >> 16;
  }

  /** A multiple of a power of two plus an integer is exact in double, a product alone too: only the float rounds. */
  function values(count: number, offset: number, step: number): Float32Array<ArrayBuffer> {
    const result = new Float32Array(count);
    for (let i = 0; i < count; i++) result[i] = offset + next() * step;
    return result;
  }

  // ---------------------------------------------------------------- operations

  function layerNorm(x: Float32Array, rows: number, scale: Parameters, bias: Parameters, epsilon: number): void {
    const shape = [rows, x.length / rows];
    const meanOut = new Float32Array(rows);
    const invStdOut = new Float32Array(rows);
    add(sn.layerNorm(x, { shape, scale, bias, epsilon, meanOut, invStdOut }));
    add(meanOut);
    add(invStdOut);
  }

  function batchNormTraining(
    x: Float32Array,
    shape: readonly number[],
    scale: Parameters,
    bias: Parameters,
    epsilon: number,
  ): void {
    const { y, mean, variance, invStd } = sn.batchNormTraining(x, { shape, axis: 1, scale, bias, epsilon });
    add(y);
    add(mean);
    add(variance);
    add(invStd);
  }

  function batchNorm(
    x: Float32Array,
    shape: readonly number[],
    mean: Float32Array,
    variance: Float32Array,
    scale: Parameters,
    bias: Parameters,
    epsilon: number,
  ): void {
    add(sn.batchNorm(x, { shape, axis: 1, mean, variance, scale, bias, epsilon }));
  }

  function moments(x: Float32Array, shape: readonly number[], axes: readonly number[]): void {
    const { mean, variance } = sn.moments(x, { shape, axes });
    add(mean);
    add(variance);
  }

  // ---------------------------------------------------------------- cases

  function rows(length: number): void {
    for (const mean of means) {
      const x = values(3 * length, mean, step);
      const scale = values(length, 1, step);
      const bias = values(length, 0, step);
      layerNorm(x, 3, absent, absent, 1e-5);
      layerNorm(x, 3, scale, absent, 1e-5);
      layerNorm(x, 3, absent, bias, 1e-5);
      layerNorm(x, 3, scale, bias, 1e-3);
    }
  }

  function batches(shape: readonly [number, number, number]): void {
    for (const mean of means) {
      const x = values(shape[0] * shape[1] * shape[2], mean, step);
      const scale = values(shape[1], 1, step);
      const bias = values(shape[1], 0, step);
      batchNormTraining(x, shape, absent, absent, 1e-5);
      batchNormTraining(x, shape, scale, absent, 1e-5);
      batchNormTraining(x, shape, absent, bias, 1e-5);
      batchNormTraining(x, shape, scale, bias, 1e-3);
      const center = values(shape[1], mean, step);
      const variance = values(shape[1], 5, step);
      batchNorm(x, shape, center, variance, absent, absent, 1e-5);
      batchNorm(x, shape, center, variance, scale, bias, 0);
    }
  }

  function far(length: number): void {
    for (const farStep of farSteps) {
      const x = values(4 * length, 0, farStep);
      layerNorm(x, 4, absent, absent, 0);
      batchNormTraining(x, [length, 4, 1], absent, absent, 0);
      batchNormTraining(x, [2, 2, length], absent, absent, 0);
      moments(x, [2, 2, length], [0, 2]);
      // A mixture: most values are far below the largest.
      for (let i = 0; i < 4; i++) x[i * length + i] = i % 2 === 1 ? 3e38 : -3e38;
      layerNorm(x, 4, absent, absent, 1e-5);
      batchNormTraining(x, [length, 4, 1], absent, absent, 1e-5);
      batchNormTraining(x, [2, 2, length], absent, absent, 1e-5);
    }
  }

  for (let length = 1; length <= 67; length++) rows(length);
  for (const length of edges) rows(length);
  for (const shape of batchShapes) batches(shape);
  for (const axes of axesOfRank4) moments(values(4 * 5 * 6 * 7, 100, step), [4, 5, 6, 7], axes);
  for (const length of [4, 7, 16, 37, 600]) far(length);
  return [high, low].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('');
}

/** Deviations are about 1.2. */
const step = 1 / 16384;
const means = [0, 1, 1e3, 1e5, 1e7];
const edges = [511, 512, 513, 543, 544, 545, 768, 1024, 4099];
/** [n, channels, places]: columns, short runs, runs, one item, one channel. */
const batchShapes = [
  [2, 3, 1],
  [9, 4, 1],
  [17, 7, 1],
  [128, 8, 1],
  [129, 65, 1],
  [300, 5, 1],
  [40, 257, 1],
  [3, 2, 2],
  [17, 5, 3],
  [130, 3, 4],
  [3, 90, 7],
  [20, 4, 15],
  [2, 3, 16],
  [3, 5, 49],
  [4, 2, 513],
  [7, 3, 1024],
  [2, 300, 17],
  [1, 4, 600],
  [12, 1, 5],
] as const;
const axesOfRank4 = [[0], [1], [2], [3], [0, 1], [1, 2], [2, 3], [0, 3], [1, 3], [0, 1, 2], [0, 1, 2, 3]];
/** Steps of which squares, as floats, underflow or overflow. */
const farSteps = [1e-43, 1e-34, 1e-24, 1e14, 1e15, 1e26, 1e34];
