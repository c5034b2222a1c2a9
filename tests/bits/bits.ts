// The same as bits.cpp, line by line. No API of Node or of browsers, so that it runs in both.

import type { Simdnorm } from 'simdnorm';

const absent = undefined;
type Parameters = Float32Array | undefined;
type Values = Float32Array | Float64Array | Uint16Array;

/** The types of x, and what makes arrays of them and of their parameters. */
const types = {
  float32: { Values: Float32Array, Parameters: Float32Array },
  float64: { Values: Float64Array, Parameters: Float64Array },
  float16: { Values: Uint16Array, Parameters: Float32Array },
} as const;
type DType = keyof typeof types;

/** A hash over the bits of every operation's results for fixed cases, as 16 hexadecimal digits: hash.txt. */
export function bitHash(sn: Simdnorm): string {
  // ---------------------------------------------------------------- hash

  let low = 0x243f6a88;
  let high = 0x85a308d3;

  function addWord(word: number): void {
    low = Math.imul(low ^ word, 0x9e3779b1);
    low ^= low >>> 15;
    high = Math.imul(high ^ (word + low), 0x85ebca77);
    high ^= high >>> 13;
  }

  /**
   * Floats and doubles word by word, halves one by one. NaN (of groups without values) has different bits on different
   * machines.
   */
  function add(values: Values): void {
    const perValue = values.BYTES_PER_ELEMENT === 8 ? 2 : 1;
    const length = perValue * values.length;
    const words = values instanceof Uint16Array ? values : new Uint32Array(values.buffer, values.byteOffset, length);
    for (let i = 0; i < words.length; i++) {
      addWord(Number.isNaN(values[Math.floor(i / perValue)]) ? 0x7fc00000 : (words[i] as number));
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
    return drawn(new Float32Array(count), offset, step);
  }

  function drawn<A extends Float32Array | Float64Array>(result: A, offset: number, step: number): A {
    for (let i = 0; i < result.length; i++) result[i] = offset + next() * step;
    return result;
  }

  /** Of both signs, from subnormal to 8. */
  function halves(count: number): Uint16Array {
    const result = new Uint16Array(count);
    for (let i = 0; i < count; i++) result[i] = next() & 0xc7ff;
    return result;
  }

  function draw(dtype: DType, count: number, offset: number, step: number): Values {
    if (dtype === 'float16') return halves(count);
    return drawn(new types[dtype].Values(count), offset, step);
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

  // ---------------------------------------------------------------- the family

  /** Everything at once: an operation, and what it is to have; `statistics` of them are made. */
  function run(
    dtype: DType,
    name:
      | 'layerNorm'
      | 'rmsNorm'
      | 'instanceNorm'
      | 'groupNorm'
      | 'batchNormTraining'
      | 'lpNormalize'
      | 'localResponseNorm',
    x: Values,
    { statistics = 0, ...options }: Record<string, unknown> & { residual?: Values; statistics?: number },
  ): void {
    const make = (count: number) => new types[dtype].Parameters(count);
    const isRms = name === 'rmsNorm';
    const outputs = {
      residualOut: options.residual && new types[dtype].Values(x.length),
      meanOut: statistics && !isRms ? make(statistics) : undefined,
      invStdOut: statistics ? make(statistics) : undefined,
    };
    const operation = sn[name] as (x: Values, options: object) => Values | { y: Values };
    const result = operation(x, { ...options, ...outputs, dtype: dtype === 'float16' ? dtype : undefined });
    add('y' in result ? result.y : result);
    for (const output of Object.values(outputs)) if (output) add(output);
  }

  /** Gradients, of which there are `parameters` of scale and bias. */
  function runBackward(
    dtype: DType,
    name:
      | 'layerNormBackward'
      | 'rmsNormBackward'
      | 'instanceNormBackward'
      | 'groupNormBackward'
      | 'batchNormBackward'
      | 'batchNormTrainingBackward'
      | 'lpNormalizeBackward',
    dy: Values,
    x: Values,
    options: object,
  ): void {
    const operation = sn[name] as (dy: Values, x: Values, options: object) => Record<string, Values>;
    const { dx, dScale, dBias } = operation(dy, x, { ...options, dtype: dtype === 'float16' ? dtype : undefined });
    for (const values of [dx, dScale, dBias]) if (values) add(values);
  }

  // ---------------------------------------------------------------- cases

  /** Statistics of x over axes. */
  function places(shape: readonly number[], axes: readonly number[]): number {
    return shape.reduce((count, extent, axis) => (axes.includes(axis) ? count : count * extent), 1);
  }

  function family(dtype: DType, offset: number, familyStep: number): void {
    const shape = [3, 5, 6, 7];
    const size = 630;
    const lengths = [5, 0, 3];
    const parameters = (count: number, center: number) => drawn(new types[dtype].Parameters(count), center, step);
    for (const axes of familyAxes) {
      const x = draw(dtype, size, offset, familyStep);
      const residual = draw(dtype, size, 0, familyStep);
      const statistics = places(shape, axes);
      const units = size / statistics;
      const scale = parameters(units, 1);
      const bias = parameters(units, 0);
      run(dtype, 'layerNorm', x, { shape, axes, statistics });
      run(dtype, 'layerNorm', x, { shape, axes, scale, bias, residual, statistics });
      run(dtype, 'layerNorm', x, { shape, axes, scale, lengths, statistics });
      run(dtype, 'rmsNorm', x, { shape, axes, scale, residual, statistics });
      run(dtype, 'rmsNorm', x, { shape, axes, lengths, statistics });
      for (const p of [1, 2, Infinity]) run(dtype, 'lpNormalize', x, { shape, axes, p });
    }
    for (const axis of [1, 2, 3]) {
      const x = draw(dtype, size, offset, familyStep);
      const channels = shape[axis] as number;
      const scale = parameters(channels, 1);
      const bias = parameters(channels, 0);
      run(dtype, 'instanceNorm', x, { shape, axis, scale, bias, statistics: 3 * channels });
      for (const groups of [1, channels]) {
        run(dtype, 'groupNorm', x, { shape, axis, groups, scale, bias, statistics: 3 * groups });
      }
      run(dtype, 'batchNormTraining', x, { shape, axis, scale, bias, statistics: channels });
      if (axis > 1) run(dtype, 'batchNormTraining', x, { shape, axis, lengths, statistics: channels });
      for (const beta of [0.75, 0.3, -2.5]) run(dtype, 'localResponseNorm', x, { shape, axis, size: 4, beta });
    }
    // Groups of several channels, in pieces of 1, 7 and 42 values.
    for (const images of groupedShapes) {
      const x = draw(dtype, images[0] * images[1] * images[2], offset, familyStep);
      const axis = images[1] === 12 ? 1 : 2;
      const scale = parameters(images[axis], 1);
      const bias = parameters(images[axis], 0);
      run(dtype, 'groupNorm', x, { shape: images, axis, groups: 4, scale, bias, statistics: 8 });
    }
  }

  function gradients(dtype: DType, offset: number, gradientStep: number): void {
    const shape = [3, 5, 6, 7];
    const size = 630;
    const parameters = (count: number, center: number) => drawn(new types[dtype].Parameters(count), center, step);
    for (const axes of familyAxes) {
      const x = draw(dtype, size, offset, gradientStep);
      const dy = draw(dtype, size, 0, step);
      const scale = parameters(size / places(shape, axes), 1);
      runBackward(dtype, 'layerNormBackward', dy, x, { shape, axes });
      runBackward(dtype, 'layerNormBackward', dy, x, { shape, axes, scale, lengths: [5, 0, 3] });
      runBackward(dtype, 'rmsNormBackward', dy, x, { shape, axes, scale });
      for (const p of [1, 2, Infinity]) runBackward(dtype, 'lpNormalizeBackward', dy, x, { shape, axes, p });
    }
    for (const axis of [1, 2, 3]) {
      const x = draw(dtype, size, offset, gradientStep);
      const dy = draw(dtype, size, 0, step);
      const channels = shape[axis] as number;
      const scale = parameters(channels, 1);
      runBackward(dtype, 'instanceNormBackward', dy, x, { shape, axis, scale });
      runBackward(dtype, 'groupNormBackward', dy, x, { shape, axis, groups: 1, scale });
      runBackward(dtype, 'batchNormTrainingBackward', dy, x, { shape, axis, scale });
      const mean = parameters(channels, offset);
      const variance = parameters(channels, 5);
      runBackward(dtype, 'batchNormBackward', dy, x, { shape, axis, scale, mean, variance });
    }
  }

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
  family('float32', 3, step);
  family('float64', 3, step);
  family('float64', 1e9, step);
  family('float16', 0, 0);
  gradients('float32', 3, step);
  gradients('float64', 1e6, step);
  gradients('float16', 0, 0);
  for (const exponent of [-1060, -600, 480, 1007]) family('float64', 0, 2 ** exponent);
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
const familyAxes = [[3], [1], [3, 2], [0, 1], [2, 0], [1, 3], []];
const groupedShapes = [
  [2, 12, 1],
  [2, 12, 7],
  [2, 12, 42],
  [2, 7, 12],
  [2, 7, 120],
] as const;
/** Steps of which squares, as floats, underflow or overflow. */
const farSteps = [1e-43, 1e-34, 1e-24, 1e14, 1e15, 1e26, 1e34];
