// The public types. The names are WebNN's where WebNN has one (scale, bias, axis, axes, epsilon, mean, variance).
// undefined and null mean absent everywhere.

export interface LoadOptions {
  /**
   * Where the module comes from. Default: the bytes embedded in the package, so that no bundler, server or CSP rule
   * can lose a file. A URL or string, bytes, a Response (or a promise of one), or a compiled WebAssembly.Module.
   */
  wasm?: string | { href: string } | ArrayBuffer | ArrayBufferView | object | undefined;
  /** Bytes of memory to start with. Default, and the least: 1 MiB. */
  initialMemory?: number | undefined;
  /** Bytes that the memory may grow to. Default, and the most: 4 GiB. */
  maximumMemory?: number | undefined;
}

/** Extents, row-major, last fastest. */
export type Shape = readonly number[];
/** Parameters and given statistics: converted to float32. */
export type Vector = Float32Array | Float64Array | readonly number[];

interface Common {
  /** Extents of x. Default: [x.length]. */
  shape?: Shape | undefined;
}

interface Result {
  /**
   * Where y goes, and what is returned: a Float32Array of x's length. May be x itself; any other overlap is
   * ERR_OVERLAP. Without it a new array is made, which for large ones costs more than the normalization.
   */
  out?: Float32Array | undefined;
}

interface Affine {
  /** Factors after the normalization. Default: none. */
  scale?: Vector | undefined;
  /** Summands after the factors. Default: none. */
  bias?: Vector | undefined;
  /** Added to the variance inside the root, in units of x squared. Default 1e-5; 0 is allowed. */
  epsilon?: number | undefined;
}

interface OverAxes {
  /** Axes that share one mean and variance; negative counts from the end. Default -1, the last. */
  axes?: number | readonly number[] | undefined;
}

interface ByChannel {
  /** The channel axis; negative counts from the end. Default 1: [N, C, ...], or [batch, features]. */
  axis?: number | undefined;
}

interface SaveOut {
  /** Receives the means, one for each group. */
  meanOut?: Float32Array | undefined;
  /** Receives 1 / sqrt(variance + epsilon), one for each group. */
  invStdOut?: Float32Array | undefined;
}

export interface LayerNormOptions extends Common, Affine, OverAxes, SaveOut, Result {}

export interface BatchNormOptions extends Common, Affine, ByChannel, Result {
  /** Means, one for each channel. */
  mean: Vector;
  /** Variances, one for each channel. */
  variance: Vector;
}

export interface BatchNormTrainingOptions extends Common, Affine, ByChannel, SaveOut, Result {
  /** Receives the population variances, one for each channel. */
  varianceOut?: Float32Array | undefined;
}

export interface BatchNormTrainingResult {
  /** The normalized batch: `out` where it was given. */
  y: Float32Array;
  /** The batch's means, one for each channel: `meanOut` where it was given. */
  mean: Float32Array;
  /** The batch's population variances (divided by count): `varianceOut` where it was given. */
  variance: Float32Array;
  /** 1 / sqrt(variance + epsilon): `invStdOut` where it was given. */
  invStd: Float32Array;
  /** Values in each channel. */
  count: number;
}

export interface MomentsOptions extends Common, OverAxes {}

export interface MomentsResult {
  mean: Float32Array;
  /** Of the population: divided by count. */
  variance: Float32Array;
  /** Values in each group. */
  count: number;
}

/** Every method can be taken off the object: `const { layerNorm } = await load()`. */
export interface Simdnorm {
  /**
   * Layer normalization: every row by its own mean and variance.
   *
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   *
   * Shapes: scale and bias have the extents of the axes; meanOut and invStdOut one value for each row. The axes must be
   * the last ones, in ascending order. epsilon is in units of x squared.
   * Buffers: x is read and `out` written; `out` may be x.
   *
   * @throws NormError ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY
   *
   * Accuracy: 6e-7 * max(1, |y|) before scale and bias, for any length and any mean up to 1e7 deviations.
   * Cost: two passes through the cache, one trip to memory, and the copies in and out.
   * Edge cases: a constant row gives exactly bias; NaN and infinity stay in their row; rows whose squares overflow or
   * underflow in float32 are right; epsilon 0 and variance 0 give NaN; 0 rows give an empty result.
   *
   * Source: Ba, Kiros, Hinton 2016, {@link https://arxiv.org/abs/1607.06450 | arXiv:1607.06450}, eq. 4.
   * ONNX LayerNormalization, WebNN layerNormalization.
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { layerNorm } = await load();
   * const y = layerNorm(new Float32Array([1, 2, 4, 5, 5, 5]), { shape: [2, 3] });
   * y; // [-1.0690415, -0.26726034, 1.336302, 0, 0, 0]
   * ```
   */
  layerNorm(x: Float32Array, options?: LayerNormOptions): Float32Array;

  /**
   * Batch normalization at inference: every channel by statistics that are given.
   *
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   *
   * Shapes: mean, variance, scale and bias have one value for each channel. epsilon is in units of x squared.
   * Buffers: x is read and `out` written; `out` may be x.
   *
   * @throws NormError ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY
   *
   * Accuracy: 6e-7 * max(1, |y|) before bias, for mean and variance as they are in float32.
   * Cost: one pass, and the copies in and out.
   * Edge cases: variance + epsilon of 0 gives infinity and NaN, below 0 NaN; an empty x gives an empty result.
   *
   * Source: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 2.
   * ONNX BatchNormalization, WebNN batchNormalization.
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { batchNorm } = await load();
   * const x = new Float32Array([1, 10, 3, 30]);
   * const y = batchNorm(x, { shape: [2, 2], mean: [2, 20], variance: [1, 25], epsilon: 0 });
   * y; // [-1, -2, 1, 2]
   * ```
   */
  batchNorm(x: Float32Array, options: BatchNormOptions): Float32Array;

  /**
   * Batch normalization in training: every channel by the mean and variance of this batch, which are returned.
   *
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   *
   * Shapes: scale, bias and the statistics have one value for each channel. variance is the population's (divided by n);
   * multiply it by n / (n - 1) for a running variance as the paper has it. epsilon is in units of x squared.
   * Buffers: x is read; `out`, which may be x, and the statistics are written.
   *
   * @throws NormError ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE (one value per channel too), ERR_OVERLAP, ERR_MEMORY
   *
   * Accuracy: 6e-7 * max(1, |y|) before scale and bias, for any length and any mean up to 1e7 deviations.
   * Cost: two passes over x and the copies in and out.
   * Edge cases: a constant channel gives exactly bias; NaN and infinity stay in their channel.
   *
   * Source: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 1.
   * ONNX BatchNormalization with training_mode = 1.
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { batchNormTraining } = await load();
   * const x = new Float32Array([1, 10, 3, 30]);
   * const { y, mean, variance } = batchNormTraining(x, { shape: [2, 2], epsilon: 0 });
   * y; // [-1, -1, 1, 1]
   * mean; // [2, 20]
   * variance; // [1, 100]
   * ```
   */
  batchNormTraining(x: Float32Array, options?: BatchNormTrainingOptions): BatchNormTrainingResult;

  /**
   * Population mean and variance over axes.
   *
   * mean = sum(x) / n, variance = sum((x - mean)^2) / n
   *
   * Shapes: mean and variance have one value for each place that is left when the axes are taken away, in row-major
   * order. variance is in units of x squared.
   * Buffers: x is read, nothing is written.
   *
   * @throws NormError ERR_TYPE, ERR_SHAPE, ERR_AXIS (also for axes that alternate with the others, such as 0 and 2 of
   * four), ERR_MEMORY
   *
   * Accuracy: the error of the mean is at most 6e-7 deviations beyond its rounding to float32; the relative error of the
   * variance 2e-6, for any length and any mean up to 1e7 deviations.
   * Cost: one pass, and the copy in.
   * Edge cases: a constant group has exactly its value and 0; NaN and infinity make their group NaN.
   *
   * Source: Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
   * tfjs moments.
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { moments } = await load();
   * const { mean, variance, count } = moments(new Float32Array([1, 10, 3, 30]), { shape: [2, 2], axes: 0 });
   * mean; // [2, 20]
   * variance; // [1, 100]
   * count; // 2
   * ```
   */
  moments(x: Float32Array, options?: MomentsOptions): MomentsResult;

  /** capacity: bytes of the module's memory. limit: what it may grow to. */
  readonly memory: { readonly capacity: number; readonly limit: number };
  /** The package's version. */
  readonly version: string;
  /** Frees the instance. Every later call is ERR_FREED. */
  dispose(): void;
}
