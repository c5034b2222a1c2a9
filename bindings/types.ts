// The public types. The names are WebNN's where WebNN has one (scale, bias, axis, axes, epsilon, mean, variance).
// undefined and null mean absent everywhere.

/**
 * What load() may be told.
 *
 * @expand
 * @category Loading
 */
export interface LoadOptions {
  /**
   * Where the module comes from: a URL, bytes, a Response, a compiled WebAssembly.Module, or a promise of one of these. It
   * must be of the same version. Default: the bytes embedded in the package, so that no bundler, server or CSP rule can
   * lose a file; of `simdnorm/streaming` the file beside it.
   */
  wasm?: string | { href: string } | ArrayBuffer | ArrayBufferView | object | undefined;
  /** Bytes of memory to start with. Default, and the least: 1 MiB. Of 4 GiB the last 64 KiB are left for later. */
  initialMemory?: number | undefined;
  /**
   * Bytes that the memory may grow to. Default, and the most: 4 GiB. All Tensors have to fit beside what a call copies in:
   * whole arrays in gradients, in batchNormTraining, with lengths, over axis 0, and where x and out are in two
   * SharedArrayBuffers; else 128 KiB of them at a time, or one row or item where that is larger (one group of channels
   * along axis 1), and the parameters.
   */
  maximumMemory?: number | undefined;
}

/** Extents, row-major, last fastest. */
export type Shape = readonly number[];

/** Float16Array, where the engine and its types have it. */
type F16 = typeof globalThis extends { Float16Array: { new (length: number): infer T } } ? T : never;
/** float16 is a Float16Array where the engine has it, and a Uint16Array of IEEE bits with `dtype: 'float16'` anywhere. */
export type FloatArray = Float32Array | Float64Array | F16 | Uint16Array;
/** The types of values. */
export type DType = 'float32' | 'float64' | 'float16';
type ArrayOf<D extends DType> = D extends 'float32'
  ? Float32Array
  : D extends 'float64'
    ? Float64Array
    : F16 | Uint16Array;

/** What `using` calls, where the library has it. */
type Disposal = SymbolConstructor extends { readonly dispose: infer S extends symbol }
  ? { readonly [dispose in S]: () => void }
  : Record<never, never>;

/**
 * Values that live in the module's memory: pass one and nothing is copied. A forgotten one is freed once it and the arrays
 * that its `data` gave have been collected (arrays that were made of these don't count); `using` and free() are sooner.
 *
 * @category Tensors
 */
export interface Tensor<D extends DType = DType> extends Disposal {
  /** What its values are. */
  readonly dtype: D;
  /** Its extents, which operations take where `shape` is not given. */
  readonly shape: Shape;
  /** How many values it has. */
  readonly length: number;
  /**
   * The live values: a Float32Array, a Float64Array, or a Float16Array (where the engine has none, a Uint16Array of bits).
   * Ask again after a call that may allocate: growing the memory detaches views.
   */
  readonly data: ArrayOf<D>;
  /** Whether it, its owner or its instance has been freed. */
  readonly freed: boolean;
  /**
   * A window on the same memory, from element `begin` to `end` as in arrays, so that large work can be done in pieces
   * (unlike arrays, Tensors are never divided by themselves). It is flat: where it has several rows, pass their `shape` to the operation. It owns nothing; using it after the owner is
   * freed is ERR_FREED.
   */
  subarray(begin?: number, end?: number): Tensor<D>;
  /** Frees the memory; freeing twice does nothing. Using a freed tensor is ERR_FREED. */
  free(): void;
}

/** What is normalized. */
export type Input = FloatArray | Tensor;
/** Parameters and given statistics, of any type: converted to float64 for float64 x, else to float32. */
export type Vector = Input | readonly number[];
/** float64 for float64 input, else float32 (a float16 variance would overflow). */
export type StatisticsArray<X> = X extends Float64Array | Tensor<'float64'> ? Float64Array : Float32Array;

/** O, which the place where the result is used has no say in. */
type Given<O> = [O][O extends unknown ? 0 : never];

interface Common {
  /** Extents of x. Default: a Tensor's own shape, else [x.length]. */
  shape?: Shape | undefined;
  /** What the bits of Uint16Arrays are: those of x, or of parameters beside an x of another type. */
  dtype?: 'float16' | undefined;
}

/** @inline */
interface Result<O> {
  /**
   * Where y goes, and what is returned: an array or Tensor of x's type and length. May be x itself; any other overlap is
   * ERR_OVERLAP. Without it a new array is made, which for large ones costs more than the normalization; a Tensor where x
   * is one.
   */
  out?: O | undefined;
}

/** @inline */
interface GradientResult<O> {
  /**
   * Where dx goes, and what `dx` is then: an array or Tensor of x's type and length. May be dy or x itself; any other
   * overlap is ERR_OVERLAP. Without it a new array is made, or a Tensor where x is one.
   */
  out?: O | undefined;
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
  /**
   * Axes that share one mean and variance, in any order; negative counts from the end. Default -1, the last. scale and
   * bias have the extents of the axes, in the order given.
   */
  axes?: number | readonly number[] | undefined;
}

interface ByChannel {
  /** The channel axis; negative counts from the end. Default 1: [N, C, ...], or [batch, features]. */
  axis?: number | undefined;
}

interface Ragged {
  /**
   * Valid length of each item of axis 0 along axis 1, integers from 0 to axis 1's extent. Values past it join no
   * statistic and come out as 0. The statistics of a group without values are NaN. The channel axis cannot be axis 1
   * then (ERR_AXIS: pass axis: 2).
   */
  lengths?: Int32Array | readonly number[] | undefined;
}

interface SaveOut {
  /** Receives the means, one for each group: float32 (float64 for float64 x). */
  meanOut?: Input | undefined;
  /** Receives 1 / sqrt(variance + epsilon), one for each group: float32 (float64 for float64 x). */
  invStdOut?: Input | undefined;
}

interface Residual {
  /** Added to x before the normalization, in the same pass: the transformer's skip connection. */
  residual?: Input | undefined;
  /**
   * Receives x + residual, rounded to x's type; that rounded sum is what is normalized, and the x of the gradient (whose dx
   * is that of both summands). May be x or residual. Past the lengths it is 0.
   */
  residualOut?: Input | undefined;
}

/** Options of {@link layerNorm}. @expand */
export interface LayerNormOptions extends Common, Affine, OverAxes, Ragged, SaveOut, Residual {}

/** Options of {@link rmsNorm}. @expand */
export interface RmsNormOptions extends Common, OverAxes, Ragged, Residual {
  /** Factors after the normalization. Default: none. */
  scale?: Vector | undefined;
  /** Added to the mean of squares inside the root, in units of x squared. Default 1e-5; 0 is allowed. */
  epsilon?: number | undefined;
  /** Receives 1 / sqrt(mean(x^2) + epsilon), one for each group: float32 (float64 for float64 x). */
  invStdOut?: Input | undefined;
}

/** Options of {@link instanceNorm}. @expand */
export interface InstanceNormOptions extends Common, Affine, ByChannel, SaveOut {}

/** Options of {@link groupNorm}. @expand */
export interface GroupNormOptions extends Common, Affine, ByChannel, SaveOut {
  /** How many groups the channels make, each of neighbours. It divides the number of channels. */
  groups: number;
}

/** Options of {@link batchNorm}. @expand */
export interface BatchNormOptions extends Common, Affine, ByChannel {
  /** Means, one for each channel. */
  mean: Vector;
  /** Variances, one for each channel. */
  variance: Vector;
}

/** Options of {@link batchNormTraining}. @expand */
export interface BatchNormTrainingOptions extends Common, Affine, ByChannel, Ragged, SaveOut {
  /** Receives the population variances, one for each channel: float32 (float64 for float64 x). */
  varianceOut?: Input | undefined;
}

/** What {@link batchNormTraining} returns. */
export interface BatchNormTrainingResult<X, O> {
  /** The normalized batch: `out` where it was given. */
  y: O;
  /** The batch's means, one for each channel: `meanOut` where it was given. */
  mean: StatisticsArray<X>;
  /** The batch's population variances (divided by count): `varianceOut` where it was given. */
  variance: StatisticsArray<X>;
  /** 1 / sqrt(variance + epsilon): `invStdOut` where it was given. */
  invStd: StatisticsArray<X>;
  /**
   * Values in each channel. With lengths and axis 0, where every channel has a length of its own, it is an Int32Array of
   * them instead, which the type doesn't say.
   */
  count: number;
}

/** Options of {@link lpNormalize}. @expand */
export interface LpNormalizeOptions extends Common, OverAxes {
  /** 1, 2 or Infinity. Default 2. */
  p?: number | undefined;
  /** The least that x is divided by, in units of x. Default 1e-12; 0 is allowed. */
  epsilon?: number | undefined;
}

/** Options of {@link localResponseNorm}. @expand */
export interface LocalResponseNormOptions extends Common, ByChannel {
  /** Channels in the window. */
  size: number;
  /** Default 1e-4. It is divided by size. */
  alpha?: number | undefined;
  /** Default 0.75. */
  beta?: number | undefined;
  /** Default 1. */
  k?: number | undefined;
}

/** Options of {@link moments}. @expand */
export interface MomentsOptions extends Common, OverAxes, Ragged {}

/** What {@link moments} returns. */
export interface MomentsResult<X, Count = number | Int32Array> {
  /** The mean of each group. */
  mean: StatisticsArray<X>;
  /** The variance of each group, of the population: divided by count. */
  variance: StatisticsArray<X>;
  /** Values in each group; one number for each where lengths make it vary. */
  count: Count;
}

/** What the forward call saved, one for each group; made again from x where it is absent. */
interface Saved {
  /** Of no use to the numbers, since it is rounded: the mean is made again, so that gradients are as good as without. */
  mean?: Vector | undefined;
  /** 1 / sqrt(variance + epsilon), from `invStdOut`. */
  invStd?: Vector | undefined;
}

interface GradientOut {
  /** Receives the gradient of scale, and is returned: float32 (float64 for float64 x). */
  dScaleOut?: Input | undefined;
  /** Receives the gradient of bias, and is returned: float32 (float64 for float64 x). */
  dBiasOut?: Input | undefined;
}

/** What a gradient returns. */
export interface Gradients<O, X> {
  /** The gradient of x: `out` where it was given. */
  dx: O;
  /** The gradient of scale, of a scale of 1 where none was given: `dScaleOut` where it was given. */
  dScale: StatisticsArray<X>;
  /** The gradient of bias: `dBiasOut` where it was given. */
  dBias: StatisticsArray<X>;
}

type Backward<T> = Omit<T, 'residual' | 'residualOut' | 'bias' | keyof SaveOut | 'varianceOut'> & Saved & GradientOut;
/** Options of {@link layerNormBackward}. @expand */
export interface LayerNormBackwardOptions extends Backward<LayerNormOptions> {}
/** Options of {@link rmsNormBackward}. @expand */
export interface RmsNormBackwardOptions extends Omit<Backward<RmsNormOptions>, 'mean' | 'dBiasOut'> {}
/** Options of {@link instanceNormBackward}. @expand */
export interface InstanceNormBackwardOptions extends Backward<InstanceNormOptions> {}
/** Options of {@link groupNormBackward}. @expand */
export interface GroupNormBackwardOptions extends Backward<GroupNormOptions> {}
/** Options of {@link batchNormBackward}. @expand */
export interface BatchNormBackwardOptions extends Omit<BatchNormOptions, 'bias'>, GradientOut {}
/** Options of {@link batchNormTrainingBackward}. @expand */
export interface BatchNormTrainingBackwardOptions extends Backward<BatchNormTrainingOptions> {}

/** The operations and their gradients. */
export interface Operations {
  /**
   * Layer normalization: every row by its own mean and variance.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: a row is what lies along the axes. scale and bias have the extents of the axes in the order given;
   * meanOut and invStdOut one value for each place along the other axes, in row-major order. epsilon is in units of x
   * squared.
   *
   * **Buffers**: x and residual are read; `out`, which may be x, and residualOut, which may be x or residual, are
   * written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * max(1, |y|) before scale and bias, for any length and any mean up to 1e7 deviations; of
   * float64 1.2e-15 * max(1, |y|); float16 is computed in float32 and rounded once.
   *
   * **Cost**: two passes through the cache, one trip to memory, and the copies in and out; two more passes where the
   * axes alternate with others, or have parameters and aren't neighbours.
   *
   * **Edge cases**: a constant row gives exactly bias; NaN and infinity stay in their row; rows whose squares overflow
   * or underflow are right; epsilon 0 and variance 0 give NaN; 0 rows give an empty result.
   *
   * **Source**: Ba, Kiros, Hinton 2016, {@link https://arxiv.org/abs/1607.06450 | arXiv:1607.06450}, eq. 4. ONNX
   * LayerNormalization, WebNN layerNormalization.
   *
   * @category Operations
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { layerNorm } = await load();
   * const y = layerNorm(new Float32Array([1, 2, 4, 5, 5, 5]), { shape: [2, 3] });
   * y; // [-1.0690415, -0.26726034, 1.336302, 0, 0, 0]
   * ```
   */
  layerNorm<X extends Input, O extends Input = X>(x: X, options?: LayerNormOptions & Result<O>): Given<O>;

  /**
   * Root mean square normalization: every row by its own mean of squares.
   *
   * ```text
   * y = x / sqrt(mean(x^2) + epsilon) * scale
   * ```
   *
   * **Shapes**: as layerNorm. epsilon is in units of x squared.
   *
   * **Buffers**: as layerNorm.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * |y| before scale, for any length; of float64 1.2e-15 * |y|; float16 is computed in float32 and
   * rounded once.
   *
   * **Cost**: as layerNorm.
   *
   * **Edge cases**: NaN and infinity stay in their row; rows whose squares overflow or underflow are right; a row of
   * zeros gives zeros, with epsilon 0 NaN; 0 rows give an empty result.
   *
   * **Source**: Zhang, Sennrich 2019, {@link https://arxiv.org/abs/1910.07467 | arXiv:1910.07467}, eq. 4. ONNX
   * RMSNormalization.
   *
   * @category Operations
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { rmsNorm } = await load();
   * const x = new Float32Array([1, 7]);
   * const residual = new Float32Array([2, -3]);
   * rmsNorm(x, { epsilon: 0 }); // [0.2, 1.4]
   * rmsNorm(x, { residual, scale: [1, 10], epsilon: 0 }); // [0.84852814, 11.3137085]
   * ```
   */
  rmsNorm<X extends Input, O extends Input = X>(x: X, options?: RmsNormOptions & Result<O>): Given<O>;

  /**
   * Instance normalization: in every item, every channel by its own mean and variance.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: items along axis 0; scale and bias have one value for each channel, meanOut and invStdOut are [items,
   * channels]. epsilon is in units of x squared.
   *
   * **Buffers**: x is read and `out` written; `out` may be x.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * max(1, |y|) before scale and bias, for any length and any mean up to 1e7 deviations; of
   * float64 1.2e-15 * max(1, |y|); float16 is computed in float32 and rounded once.
   *
   * **Cost**: two passes over x, and the copies in and out.
   *
   * **Edge cases**: a constant channel, or one of a single value, gives exactly bias; NaN and infinity stay in their
   * channel.
   *
   * **Source**: Ulyanov, Vedaldi, Lempitsky 2016, {@link https://arxiv.org/abs/1607.08022 | arXiv:1607.08022}, eq. 3.
   * ONNX InstanceNormalization, WebNN instanceNormalization.
   *
   * @category Operations
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { instanceNorm } = await load();
   * const x = new Float32Array([1, 3, 10, 30]);
   * instanceNorm(x, { shape: [1, 2, 2], epsilon: 0 }); // [-1, 1, -1, 1]
   * instanceNorm(x, { shape: [1, 2, 2], axis: -1, epsilon: 0 }); // [-1, -1, 1, 1]
   * ```
   */
  instanceNorm<X extends Input, O extends Input = X>(x: X, options?: InstanceNormOptions & Result<O>): Given<O>;

  /**
   * Group normalization: in every item, every group of neighbouring channels by its own mean and variance.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: items along axis 0; scale and bias have one value for each channel, meanOut and invStdOut are [items,
   * groups]. epsilon is in units of x squared.
   *
   * **Buffers**: x is read and `out` written; `out` may be x.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * max(1, |y|) before scale and bias, for any length and any mean up to 1e7 deviations; of
   * float64 1.2e-15 * max(1, |y|); float16 is computed in float32 and rounded once.
   *
   * **Cost**: two passes over x, and the copies in and out.
   *
   * **Edge cases**: a constant group gives exactly bias; NaN and infinity stay in their group. As many groups as
   * channels are instanceNorm.
   *
   * **Source**: Wu, He 2018, {@link https://arxiv.org/abs/1803.08494 | arXiv:1803.08494}, eq. 7. ONNX
   * GroupNormalization, opset 21.
   *
   * @category Operations
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { groupNorm } = await load();
   * const x = new Float32Array([1, 3, 10, 30]);
   * groupNorm(x, { shape: [1, 4], groups: 2, scale: [1, 1, 1, 2], epsilon: 0 }); // [-1, 1, -1, 2]
   * ```
   */
  groupNorm<X extends Input, O extends Input = X>(x: X, options: GroupNormOptions & Result<O>): Given<O>;

  /**
   * Batch normalization at inference: every channel by statistics that are given.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: mean, variance, scale and bias have one value for each channel. epsilon is in units of x squared.
   *
   * **Buffers**: x is read and `out` written; `out` may be x.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * max(1, |y|) before bias, for mean and variance as they are in float32; of float64 1.2e-15 *
   * max(1, |y|); float16 is computed in float32 and rounded once.
   *
   * **Cost**: one pass, and the copies in and out.
   *
   * **Edge cases**: variance + epsilon of 0 gives infinity and NaN, below 0 NaN; an empty x gives an empty result.
   *
   * **Source**: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 2. ONNX
   * BatchNormalization, WebNN batchNormalization.
   *
   * @category Operations
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
  batchNorm<X extends Input, O extends Input = X>(x: X, options: BatchNormOptions & Result<O>): Given<O>;

  /**
   * Batch normalization in training: every channel by the mean and variance of this batch, which are returned.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: scale, bias and the statistics have one value for each channel. variance is the population's (divided
   * by n); multiply it by n / (n - 1) for a running variance as the paper has it. epsilon is in units of x squared.
   *
   * **Buffers**: x is read; `out`, which may be x, and the statistics are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE (one value per channel too), ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * max(1, |y|) before scale and bias, for any length and any mean up to 1e7 deviations; of
   * float64 1.2e-15 * max(1, |y|); float16 is computed in float32 and rounded once.
   *
   * **Cost**: two passes over x and the copies in and out.
   *
   * **Edge cases**: a constant channel gives exactly bias; NaN and infinity stay in their channel.
   *
   * **Source**: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 1. ONNX
   * BatchNormalization with training_mode = 1.
   *
   * @category Operations
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
  batchNormTraining<X extends Input, O extends Input = X>(
    x: X,
    options?: BatchNormTrainingOptions & Result<O>,
  ): BatchNormTrainingResult<X, Given<O>>;

  /**
   * Division by a norm: every row by its own.
   *
   * ```text
   * y = x / max(norm, epsilon)
   * norm = sum(|x|), sqrt(sum(x^2)) or max(|x|) for p = 1, 2, Infinity
   * ```
   *
   * **Shapes**: a row is what lies along the axes. epsilon is in units of x.
   *
   * **Buffers**: x is read and `out` written; `out` may be x.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 6e-7 * |y|, for any length; of float64 1.2e-15 * |y|; float16 is computed in float32 and rounded
   * once.
   *
   * **Cost**: two passes through the cache, one trip to memory, and the copies in and out; two more passes where p
   * isn't 2 and the axes aren't the last.
   *
   * **Edge cases**: zeros stay zeros for any epsilon; NaN and infinity stay in their row; rows whose sums or squares
   * overflow or underflow are right.
   *
   * **Source**: ONNX LpNormalization, PyTorch normalize.
   *
   * @category Operations
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { lpNormalize } = await load();
   * const embeddings = new Float32Array([3, -4, 0, 0]);
   * lpNormalize(embeddings, { shape: [2, 2] }); // [0.6, -0.8, 0, 0]
   * lpNormalize(embeddings, { shape: [2, 2], p: Infinity }); // [0.75, -1, 0, 0]
   * ```
   */
  lpNormalize<X extends Input, O extends Input = X>(x: X, options?: LpNormalizeOptions & Result<O>): Given<O>;

  /**
   * Local response normalization: every value by the squares of its neighbours among the channels.
   *
   * ```text
   * y = x / (k + alpha / size * sum(x[c]^2))^beta
   * ```
   *
   * where c goes from channel - floor((size - 1) / 2) to channel + ceil((size - 1) / 2), as far as there are channels.
   *
   * **Shapes**: any with a channel axis. k is in units of x squared.
   *
   * **Buffers**: x is read and `out` written; `out` may be x.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: y is computed in double and rounded once; of float64 4 * (4 + |beta|) machine epsilons.
   *
   * **Cost**: size multiplications and, for beta of 0.75, two square roots for each value. A beta that isn't a multiple
   * of a small power of two takes up to 60 roots.
   *
   * **Edge cases**: NaN and infinity have the effect that arithmetic gives them, within the window; a base below 0
   * gives NaN where beta isn't an integer.
   *
   * **Source**: Krizhevsky, Sutskever, Hinton 2012, "ImageNet classification with deep convolutional neural networks",
   * section 3.3, with alpha divided by size as in ONNX LRN.
   *
   * @category Operations
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { localResponseNorm } = await load();
   * const x = new Float32Array([1, 2, 3]);
   * const y = localResponseNorm(x, { shape: [1, 3], size: 3, alpha: 3, beta: 1, k: 0 });
   * y; // [0.2, 0.14285715, 0.23076923]
   * ```
   */
  localResponseNorm<X extends Input, O extends Input = X>(
    x: X,
    options: LocalResponseNormOptions & Result<O>,
  ): Given<O>;

  /**
   * Population mean and variance over axes.
   *
   * ```text
   * mean = sum(x) / n
   * variance = sum((x - mean)^2) / n
   * ```
   *
   * **Shapes**: mean and variance have one value for each place that is left when the axes are taken away, in row-major
   * order. variance is in units of x squared.
   *
   * **Buffers**: x is read, nothing is written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_MEMORY.
   *
   * **Accuracy**: the error of the mean is at most 6e-7 deviations beyond its rounding to float32; the relative error
   * of the variance 2e-6, for any length and any mean up to 1e7 deviations. Of float64 1.2e-15 and 4e-15.
   *
   * **Cost**: one pass, and the copy in; two more where the axes alternate with others.
   *
   * **Edge cases**: a constant group has exactly its value and 0; NaN and infinity make their group NaN.
   *
   * **Source**: Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
   * tfjs moments.
   *
   * @category Operations
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
  moments<X extends Input>(x: X, options?: MomentsOptions & { lengths?: undefined }): MomentsResult<X, number>;
  /** With lengths, which may make the count of each group another. */
  moments<X extends Input>(x: X, options?: MomentsOptions): MomentsResult<X>;

  /**
   * The gradient of a loss through layerNorm, given that of y.
   *
   * ```text
   * dx = invStd * (g - mean(g) - h * mean(g * h))
   * dScale = sum(dy * h)
   * dBias = sum(dy)
   * ```
   *
   * with g = dy * scale and h = (x - mean) * invStd, the means over what shares statistics, the sums over what shares a
   * parameter.
   *
   * **Shapes**: dy and dx as x; dScale, dBias and scale as scale of layerNorm; invStd one value for each row.
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, dScaleOut and dBiasOut are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|), with saved statistics and without; where g is nearly a multiple of h, so that
   * little is left of it, 1e-6 * invStd * max|g - mean(g)|. Of float64 in terms of its epsilon. The sums of dScale and
   * dBias lose nothing over 1e6 rows.
   *
   * **Cost**: about five passes, and the copies in and out. Groups of fewer than 16 values, and those along lengths,
   * are computed in double.
   *
   * **Edge cases**: groups of one value give 0; places past the lengths give 0, and their dy is ignored.
   *
   * **Source**: Ba, Kiros, Hinton 2016, {@link https://arxiv.org/abs/1607.06450 | arXiv:1607.06450}, supplement.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { layerNormBackward } = await load();
   * const x = new Float32Array([1, 2, 4]);
   * const dy = new Float32Array([1, 0, 0]);
   * const { dx, dScale, dBias } = layerNormBackward(dy, x, { scale: [1, 2, 3] });
   * dx; // [0.2290823, -0.3436200, 0.1145377]
   * dScale; // [-1.0690415, 0, 0]
   * dBias; // [1, 0, 0]
   * ```
   */
  layerNormBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options?: LayerNormBackwardOptions & GradientResult<O>,
  ): Gradients<Given<O>, X>;

  /**
   * The gradient of a loss through rmsNorm, given that of y.
   *
   * ```text
   * dx = r * (g - h * mean(g * h))
   * dScale = sum(dy * h)
   * ```
   *
   * with r = 1 / sqrt(mean(x^2) + epsilon), g = dy * scale and h = x * r.
   *
   * **Shapes**: dy and dx as x; dScale, dBias and scale as scale of rmsNorm; invStd one value for each row. There is no
   * bias.
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, dScaleOut and dBiasOut are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|), with saved statistics and without; where g is nearly a multiple of h, so that
   * little is left of it, 1e-6 * invStd * max|g - mean(g)|. Of float64 in terms of its epsilon. The sums of dScale and
   * dBias lose nothing over 1e6 rows.
   *
   * **Cost**: about five passes, and the copies in and out. Groups of fewer than 16 values, and those along lengths,
   * are computed in double.
   *
   * **Edge cases**: a row of zeros gives g / sqrt(epsilon); places past the lengths give 0, and their dy is ignored.
   *
   * **Source**: Zhang, Sennrich 2019, {@link https://arxiv.org/abs/1910.07467 | arXiv:1910.07467}, section 3.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { rmsNormBackward } = await load();
   * const x = new Float32Array([1, 7]);
   * const { dx, dScale } = rmsNormBackward(new Float32Array([1, 0]), x, { epsilon: 0 });
   * dx; // [0.196, -0.028]
   * dScale; // [0.2, 0]
   * ```
   */
  rmsNormBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options?: RmsNormBackwardOptions & GradientResult<O>,
  ): Omit<Gradients<Given<O>, X>, 'dBias'>;

  /**
   * The gradient of a loss through instanceNorm, given that of y.
   *
   * ```text
   * dx = invStd * (g - mean(g) - h * mean(g * h))
   * dScale = sum(dy * h)
   * dBias = sum(dy)
   * ```
   *
   * with g = dy * scale and h = (x - mean) * invStd, the means over what shares statistics, the sums over what shares a
   * parameter.
   *
   * **Shapes**: dy and dx as x; dScale, dBias and scale as scale of instanceNorm; invStd [items, channels].
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, dScaleOut and dBiasOut are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|), with saved statistics and without; where g is nearly a multiple of h, so that
   * little is left of it, 1e-6 * invStd * max|g - mean(g)|. Of float64 in terms of its epsilon. The sums of dScale and
   * dBias lose nothing over 1e6 rows.
   *
   * **Cost**: about five passes, and the copies in and out. Groups of fewer than 16 values, and those along lengths,
   * are computed in double.
   *
   * **Edge cases**: groups of one value give 0; places past the lengths give 0, and their dy is ignored.
   *
   * **Source**: Ulyanov, Vedaldi, Lempitsky 2016, {@link https://arxiv.org/abs/1607.08022 | arXiv:1607.08022}.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { instanceNormBackward } = await load();
   * const x = new Float32Array([1, 2, 4, 5, 5, 5]);
   * const dy = new Float32Array([1, 0, 0, 0, 0, 0]);
   * const { dx, dScale, dBias } = instanceNormBackward(dy, x, { shape: [1, 2, 3] });
   * dx; // [0.2290823, -0.34362, 0.1145377, 0, 0, 0]
   * dScale; // [-1.0690415, 0]
   * dBias; // [1, 0]
   * ```
   */
  instanceNormBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options?: InstanceNormBackwardOptions & GradientResult<O>,
  ): Gradients<Given<O>, X>;

  /**
   * The gradient of a loss through groupNorm, given that of y.
   *
   * ```text
   * dx = invStd * (g - mean(g) - h * mean(g * h))
   * dScale = sum(dy * h)
   * dBias = sum(dy)
   * ```
   *
   * with g = dy * scale and h = (x - mean) * invStd, the means over what shares statistics, the sums over what shares a
   * parameter.
   *
   * **Shapes**: dy and dx as x; dScale, dBias and scale as scale of groupNorm; invStd [items, groups].
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, dScaleOut and dBiasOut are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|), with saved statistics and without; where g is nearly a multiple of h, so that
   * little is left of it, 1e-6 * invStd * max|g - mean(g)|. Of float64 in terms of its epsilon. The sums of dScale and
   * dBias lose nothing over 1e6 rows.
   *
   * **Cost**: about five passes, and the copies in and out. Groups of fewer than 16 values, and those along lengths,
   * are computed in double.
   *
   * **Edge cases**: groups of one value give 0; places past the lengths give 0, and their dy is ignored.
   *
   * **Source**: Wu, He 2018, {@link https://arxiv.org/abs/1803.08494 | arXiv:1803.08494}.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { groupNormBackward } = await load();
   * const x = new Float32Array([1, 2, 4, 5, 5, 5]);
   * const dy = new Float32Array([1, 0, 0, 0, 0, 0]);
   * const { dBias } = groupNormBackward(dy, x, { shape: [1, 6], groups: 2 });
   * dBias; // [1, 0, 0, 0, 0, 0]
   * ```
   */
  groupNormBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options: GroupNormBackwardOptions & GradientResult<O>,
  ): Gradients<Given<O>, X>;

  /**
   * The gradient of a loss through batchNorm, given that of y.
   *
   * ```text
   * dx = dy * scale * invStd
   * dScale = sum(dy * h)
   * dBias = sum(dy)
   * ```
   *
   * with h = (x - mean) * invStd: the statistics are constants.
   *
   * **Shapes**: dy and dx as x; dScale, dBias and scale as scale of batchNorm; mean and variance one value for each
   * channel.
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, dScaleOut and dBiasOut are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|); of float64 in terms of its epsilon. The sums of dScale and dBias lose nothing
   * over 1e6 rows.
   *
   * **Cost**: about four passes, and the copies in and out.
   *
   * **Edge cases**: NaN and infinity in x stay in dScale, those in dy in their place of dx and their channel's
   * gradients.
   *
   * **Source**: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 2.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { batchNormBackward } = await load();
   * const x = new Float32Array([1, 10, 3, 30]);
   * const dy = new Float32Array([1, 2, 3, 4]);
   * const { dx, dScale } = batchNormBackward(dy, x, { shape: [2, 2], mean: [2, 20], variance: [1, 25], epsilon: 0 });
   * dx; // [1, 0.4, 3, 0.8]
   * dScale; // [2, 4]
   * ```
   */
  batchNormBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options: BatchNormBackwardOptions & GradientResult<O>,
  ): Gradients<Given<O>, X>;

  /**
   * The gradient of a loss through batchNormTraining, given that of y.
   *
   * ```text
   * dx = invStd * (g - mean(g) - h * mean(g * h))
   * dScale = sum(dy * h)
   * dBias = sum(dy)
   * ```
   *
   * with g = dy * scale and h = (x - mean) * invStd, the means over what shares statistics, the sums over what shares a
   * parameter.
   *
   * **Shapes**: dy and dx as x; dScale, dBias and scale as scale of batchNormTraining; invStd one value for each
   * channel.
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, dScaleOut and dBiasOut are written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE (one value per channel too), ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|), with saved statistics and without; where g is nearly a multiple of h, so that
   * little is left of it, 1e-6 * invStd * max|g - mean(g)|. Of float64 in terms of its epsilon. The sums of dScale and
   * dBias lose nothing over 1e6 rows.
   *
   * **Cost**: about five passes, and the copies in and out. Groups of fewer than 16 values, and those along lengths,
   * are computed in double.
   *
   * **Edge cases**: a constant channel gives dScale 0; places past the lengths give 0, and their dy is ignored.
   *
   * **Source**: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, section 3.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { batchNormTrainingBackward } = await load();
   * const x = new Float32Array([1, 2, 4]);
   * const dy = new Float32Array([1, 0, 0]);
   * const { dx, dBias } = batchNormTrainingBackward(dy, x, { shape: [3, 1] });
   * dx; // [0.2290823, -0.34362, 0.1145377]
   * dBias; // [1]
   * ```
   */
  batchNormTrainingBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options?: BatchNormTrainingBackwardOptions & GradientResult<O>,
  ): Gradients<Given<O>, X>;

  /**
   * The gradient of a loss through lpNormalize, given that of y.
   *
   * ```text
   * p = 2: dx = (dy - y * sum(dy * y)) / norm
   * p = 1: dx = (dy - sign(x) * sum(dy * y)) / norm
   * p = Infinity: as p = 1, with sign(x) only at the first of the largest magnitudes
   * ```
   *
   * and dy / epsilon where the norm is below epsilon.
   *
   * **Shapes**: dy and dx as x.
   *
   * **Buffers**: dy and x are read; `out`, which may be dy or x, is written.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_OVERLAP, ERR_MEMORY.
   *
   * **Accuracy**: 1e-6 * max(1, max|dx|); where dy is nearly a multiple of y, 1e-6 * max|dy| / norm. Of float64 in
   * terms of its epsilon.
   *
   * **Cost**: about four passes, and the copies in and out. Rows of fewer than 16 values are computed in double.
   *
   * **Edge cases**: NaN and infinity stay in their row. Where 1 / max(norm, epsilon) is beyond the dtype's largest value,
   * dx is infinite, and NaN where dy is 0.
   *
   * **Source**: the derivative of ONNX LpNormalization.
   *
   * @category Gradients
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { lpNormalizeBackward } = await load();
   * const { dx } = lpNormalizeBackward(new Float32Array([1, 0]), new Float32Array([3, -4]));
   * dx; // [0.128, 0.096]
   * ```
   */
  lpNormalizeBackward<X extends Input, O extends Input = X>(
    dy: X,
    x: X,
    options?: LpNormalizeOptions & GradientResult<O>,
  ): Pick<Gradients<Given<O>, X>, 'dx'>;
}

/** Options of layers. @expand */
export interface LayerOptions {
  /** Added to the variance inside the root, in units of x squared. Default 1e-5; 0 is allowed. */
  epsilon?: number | undefined;
  /** Default true: scale 1 and bias 0, which are learned. false: neither. */
  affine?: boolean | undefined;
}

/** Options of {@link BatchNorm}. @expand */
export interface BatchNormLayerOptions extends LayerOptions, ByChannel {
  /**
   * Weight of the newest batch: running = (1 - momentum) * running + momentum * batch. Default 0.1. null: the plain
   * average of all batches so far. (PyTorch's meaning; ONNX, Keras and tfjs write 1 - this.)
   */
  momentum?: number | null | undefined;
  /** Divide the running variance by n - 1, as PyTorch and the paper do (default), or by n, as ONNX and Keras do. */
  unbiased?: boolean | undefined;
}

/** What is learned: change `value` in place. */
export interface Parameter {
  /** Which one it is. */
  readonly name: 'scale' | 'bias';
  /** The numbers, which operations read at every call. */
  readonly value: Float32Array;
  /** The sum of all backward calls since zeroGradients(). */
  readonly gradient: Float32Array;
}

/** What a layer's forward call takes. */
interface ForwardOptions<O> extends Common, Ragged, Result<O> {}

/**
 * What all layers have. A new one trains: for inference call eval() first.
 *
 * @category Layers
 */
export interface Layer {
  /** Whether forward keeps what backward needs, and batch norm takes the batch's statistics. At first true. */
  training: boolean;
  /** For training: the other way of eval(). */
  train(): this;
  /** For inference: forward keeps nothing, and batch norm goes by its running statistics. */
  eval(): this;
  /**
   * For an optimizer: for (const { value, gradient } of layer.parameters) ...; and for weights from elsewhere, which go into
   * the `value` of the parameter with their `name`.
   */
  readonly parameters: readonly Parameter[];
  /**
   * Normalizes x, by the parameters as they are now.
   *
   * While training, keeps what backward needs: x by reference (so `out` may not be x, nor that of an earlier call:
   * ERR_OVERLAP), on a stack, so that a recurrent network may call forward many times and backward as often, in reverse.
   * Every one that isn't answered stays: call eval() for inference; what fromJSON makes of toJSON() keeps none. Default
   * shape: [x.length / size, ...the layer's], of layers with channels [x.length / channels, channels]: pass the shape of
   * images.
   */
  forward<X extends Input, O extends Input = X>(x: X, options?: ForwardOptions<O>): Given<O>;
  /** Adds to the gradients and returns dx. Without a forward to answer: ERR_STATE. */
  backward<X extends Input, O extends Input = X>(dy: X, options?: GradientResult<O>): Given<O>;
  /** Before the next step of an optimizer: makes all gradients 0. */
  zeroGradients(): void;
  /**
   * For JSON.stringify. Numbers are base64 of little-endian bytes: -0, NaN and infinity survive. `training` is in it,
   * gradients and forward calls that wait are not.
   */
  toJSON(): object;
}

/**
 * A {@link Layer} with running statistics, which may be changed in place.
 *
 * @category Layers
 */
export interface BatchNormLayer extends Layer {
  /** The means that eval() normalizes by: at first 0. */
  readonly runningMean: Float32Array;
  /** The variances that eval() normalizes by: at first 1. */
  readonly runningVariance: Float32Array;
  /** Forward calls while training. */
  readonly batchesSeen: number;
}

/**
 * How layers are made: `new`, or from JSON.
 *
 * @category Layers
 */
export interface LayerClass<A extends unknown[], L> {
  /** A layer with a scale of 1 and a bias of 0. */
  new (...given: A): L;
  /** A layer from what toJSON has made. **Errors**: ERR_TYPE, ERR_SHAPE, ERR_RANGE. */
  fromJSON(json: unknown): L;
}

/** What {@link foldBatchNorm} returns. */
export interface FoldedBatchNorm {
  /** The weights, in the shape that they had. */
  weight: Float32Array;
  /** One value for each output channel. */
  bias: Float32Array;
}

/** Parameters, gradients and running statistics around the operations. */
export interface Layers {
  /**
   * Layer norm over the last axes, which have the extents `shape`, with a scale and a bias for each place along them.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: scale and bias have `shape`; x has any other axes before these. epsilon is in units of x squared.
   *
   * **Buffers**: keeps x, not a copy of it, from {@link Layer.forward} to {@link Layer.backward}.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_RANGE; of its calls those of {@link layerNorm} and {@link layerNormBackward},
   * and ERR_STATE.
   *
   * **Accuracy**, **cost** and **edge cases**: as layerNorm and layerNormBackward.
   *
   * **Source**: Ba, Kiros, Hinton 2016, {@link https://arxiv.org/abs/1607.06450 | arXiv:1607.06450}, eq. 4.
   *
   * @category Layers
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { LayerNorm } = await load();
   * const norm = new LayerNorm(3);
   * const y = norm.forward(new Float32Array([1, 2, 4, 5, 5, 5]));
   * y; // [-1.0690415, -0.26726034, 1.336302, 0, 0, 0]
   * const dx = norm.backward(new Float32Array([1, 0, 0, 0, 0, 0]));
   * dx; // [0.2290823, -0.34362, 0.1145377, 0, 0, 0]
   * for (const { value, gradient } of norm.parameters) value.forEach((_, i) => (value[i] -= 0.1 * gradient[i]));
   * norm.parameters[1].value; // [-0.1, 0, 0]
   * norm.zeroGradients();
   * const again = LayerNorm.fromJSON(JSON.parse(JSON.stringify(norm)));
   * again.parameters[1].value; // [-0.1, 0, 0]
   * ```
   */
  readonly LayerNorm: LayerClass<[shape: number | Shape, options?: LayerOptions], Layer>;

  /**
   * RMS norm over the last axes, which have the extents `shape`, with a scale for each place along them.
   *
   * ```text
   * y = x / sqrt(mean(x^2) + epsilon) * scale
   * ```
   *
   * **Shapes**: scale has `shape`; x has any other axes before these. epsilon is in units of x squared.
   *
   * **Buffers**: keeps x, not a copy of it, from {@link Layer.forward} to {@link Layer.backward}.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_RANGE; of its calls those of {@link rmsNorm} and {@link rmsNormBackward}, and
   * ERR_STATE.
   *
   * **Accuracy**, **cost** and **edge cases**: as rmsNorm and rmsNormBackward.
   *
   * **Source**: Zhang, Sennrich 2019, {@link https://arxiv.org/abs/1910.07467 | arXiv:1910.07467}, eq. 4.
   *
   * @category Layers
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { RmsNorm } = await load();
   * const norm = new RmsNorm(2, { epsilon: 0 });
   * norm.forward(new Float32Array([1, 7])); // [0.2, 1.4]
   * norm.parameters.length; // 1
   * ```
   */
  readonly RmsNorm: LayerClass<[shape: number | Shape, options?: LayerOptions], Layer>;

  /**
   * Group norm, with a scale and a bias for each channel.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: scale and bias have one value for each channel; x is [items, channels, ...], or has its channels along
   * `axis`. epsilon is in units of x squared.
   *
   * **Buffers**: keeps x, not a copy of it, from {@link Layer.forward} to {@link Layer.backward}.
   *
   * **Errors**: ERR_TYPE, ERR_RANGE; of its calls those of {@link groupNorm} and {@link groupNormBackward}, and
   * ERR_STATE.
   *
   * **Accuracy**, **cost** and **edge cases**: as groupNorm and groupNormBackward.
   *
   * **Source**: Wu, He 2018, {@link https://arxiv.org/abs/1803.08494 | arXiv:1803.08494}, eq. 7.
   *
   * @category Layers
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { GroupNorm } = await load();
   * const norm = new GroupNorm(2, 4, { epsilon: 0 });
   * norm.forward(new Float32Array([1, 3, 10, 30])); // [-1, 1, -1, 1]
   * ```
   */
  readonly GroupNorm: LayerClass<[groups: number, channels: number, options?: LayerOptions & ByChannel], Layer>;

  /**
   * Instance norm, with a scale and a bias for each channel.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * ```
   *
   * **Shapes**: scale and bias have one value for each channel; x is [items, channels, ...], or has its channels along
   * `axis`. epsilon is in units of x squared.
   *
   * **Buffers**: keeps x, not a copy of it, from {@link Layer.forward} to {@link Layer.backward}.
   *
   * **Errors**: ERR_TYPE, ERR_RANGE; of its calls those of {@link instanceNorm} and {@link instanceNormBackward}, and
   * ERR_STATE.
   *
   * **Accuracy**, **cost** and **edge cases**: as instanceNorm and instanceNormBackward.
   *
   * **Source**: Ulyanov, Vedaldi, Lempitsky 2016, {@link https://arxiv.org/abs/1607.08022 | arXiv:1607.08022}, eq. 3.
   *
   * @category Layers
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { InstanceNorm } = await load();
   * const norm = new InstanceNorm(2, { epsilon: 0 });
   * norm.forward(new Float32Array([1, 3, 10, 30]), { shape: [1, 2, 2] }); // [-1, 1, -1, 1]
   * ```
   */
  readonly InstanceNorm: LayerClass<[channels: number, options?: LayerOptions & ByChannel], Layer>;

  /**
   * Batch norm, with a scale, a bias and running statistics for each channel: while training by the batch's mean and
   * variance, which the running ones follow; in eval() by the running ones.
   *
   * ```text
   * y = (x - mean) / sqrt(variance + epsilon) * scale + bias
   * runningMean = (1 - momentum) * runningMean + momentum * mean
   * runningVariance = (1 - momentum) * runningVariance + momentum * variance * n / (n - 1)
   * ```
   *
   * **Shapes**: parameters and statistics have one value for each channel; x is [batch, channels, ...], or has its
   * channels along `axis`. epsilon is in units of x squared.
   *
   * **Buffers**: keeps x, not a copy of it, from {@link Layer.forward} to {@link Layer.backward}.
   *
   * **Errors**: ERR_TYPE, ERR_RANGE; of its calls those of {@link batchNormTraining}, in eval() of {@link batchNorm}, of
   * their gradients, and ERR_STATE. Nothing is updated when a call fails, and nothing in eval().
   *
   * **Accuracy** and **cost**: as batchNormTraining and batchNorm. Running statistics are kept in double.
   *
   * **Edge cases**: as batchNormTraining and batchNorm; the running statistics of a channel without values stay.
   *
   * **Source**: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 2.
   *
   * @category Layers
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { BatchNorm } = await load();
   * const norm = new BatchNorm(2, { momentum: 1, epsilon: 0 });
   * const x = new Float32Array([1, 10, 3, 30]);
   * norm.forward(x); // [-1, -1, 1, 1]
   * norm.runningMean; // [2, 20]
   * norm.runningVariance; // [2, 200]
   * norm.eval().forward(x); // [-0.70710677, -0.70710677, 0.70710677, 0.70710677]
   * ```
   */
  readonly BatchNorm: LayerClass<[channels: number, options?: BatchNormLayerOptions], BatchNormLayer>;

  /**
   * A linear layer or convolution with the batch norm after it, as one.
   *
   * ```text
   * weight' = weight * f
   * bias' = (bias - mean) * f + norm's bias
   * f = scale / sqrt(variance + epsilon)
   * ```
   *
   * **Shapes**: weight has `shape`, its output channels along `axis` (default 0); bias, or null for none, and the
   * norm's statistics and parameters one value for each of them.
   *
   * **Buffers**: nothing is written; the results are new.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_AXIS, ERR_RANGE, ERR_MEMORY.
   *
   * **Accuracy**: computed in double and rounded once.
   *
   * **Cost**: one pass over weight.
   *
   * **Edge cases**: variance + epsilon of 0 gives infinity and NaN.
   *
   * **Source**: Ioffe, Szegedy 2015, {@link https://arxiv.org/abs/1502.03167 | arXiv:1502.03167}, algorithm 2, step 11.
   *
   * @category Layers
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { foldBatchNorm } = await load();
   * const weight = new Float32Array([1, 2, 3, 4]);
   * const norm = { mean: [1, 2], variance: [4, 1], epsilon: 0 };
   * const folded = foldBatchNorm(weight, null, norm, { shape: [2, 2] });
   * folded.weight; // [0.5, 1, 3, 4]
   * folded.bias; // [-0.5, -2]
   * ```
   */
  foldBatchNorm(
    weight: FloatArray,
    bias: FloatArray | null,
    norm: BatchNormLayer | BatchNormOptions,
    options: { shape: Shape; axis?: number | undefined },
  ): FoldedBatchNorm;
}

/**
 * What {@link load} gives: all functions and classes of this reference, and what follows. Every one can be taken off it:
 * `const { layerNorm } = await load()`.
 *
 * @category Loading
 */
export interface Simdnorm extends Operations, Layers {
  /**
   * A Tensor of a shape, with `values` (converted to its dtype, rounded to nearest even), or of zeros. The shape comes
   * first: `tensor([1, 2, 3])` has six zeros.
   *
   * **Shapes**: `values` has as many values as the shape. With dtype 'float16' a Uint16Array is taken for bits.
   *
   * **Buffers**: `values` is copied; the memory is the Tensor's until `free()`.
   *
   * **Errors**: ERR_TYPE, ERR_SHAPE, ERR_MEMORY, ERR_FREED.
   *
   * **Cost**: one copy of the values, which no operation on the Tensor makes again.
   *
   * **Edge cases**: a shape with an extent of 0 is an empty Tensor.
   *
   * @category Tensors
   *
   * @example
   * ```ts
   * import { load } from 'simdnorm';
   * const { tensor, layerNorm, rmsNorm } = await load();
   * const x = tensor([2, 4], [1, 2, 3, 4, 5, 6, 7, 8]);
   * layerNorm(x, { out: x }); // x, normalized where it is
   * x.subarray(0, 4).data; // [-1.3416355, -0.4472118, 0.4472118, 1.3416355]
   * rmsNorm(x, { axes: 0 }).shape; // [2, 4]
   * x.free();
   * ```
   */
  tensor<D extends DType = 'float32'>(shape: Shape, values?: Vector | null, dtype?: D): Tensor<D>;
  /** The module's memory, in bytes. */
  readonly memory: {
    /** Of live Tensors. */
    readonly used: number;
    /** Of all of it, workspace included. */
    readonly capacity: number;
    /** What it may grow to. */
    readonly limit: number;
  };
  /** The package's version. */
  readonly version: string;
  /** Frees the instance; every later call, and use of its Tensors, is ERR_FREED. */
  dispose(): void;
}
