// Layers: parameters, gradients and running statistics around the operations.

import * as check from './check.js';
import { type DType, type Numbers, typedArrayTag, type Values } from './dtype.js';
import { NormError } from './errors.js';
import { resultArray } from './heap.js';
import { arrayFromJSON, arrayToJSON, fieldsOf } from './layer-json.js';
import { Moving } from './running-statistics.js';
import type { Layers, Operations, Parameter } from './types.js';

/** The operations, without the types that callers see. */
// biome-ignore lint/suspicious/noExplicitAny: what the layers pass has been checked, here or will be there.
type Run = (...given: any[]) => any;
type Untyped = { readonly [name in keyof Operations]: Run };

/** What a forward call keeps for its backward call. */
interface Kept {
  /** Not copied. */
  readonly x: Values;
  readonly options: { readonly shape: readonly number[]; readonly dtype: 'float16' | undefined };
  readonly lengths: Int32Array | undefined;
  readonly invStd: Numbers;
}

/** A checked input of a forward call. */
interface Input {
  readonly x: Values;
  readonly dtype: DType;
  readonly options: { readonly shape: readonly number[]; readonly dtype: 'float16' | undefined };
  readonly lengths: Int32Array | undefined;
  readonly out: Values | undefined;
}

interface Gradients {
  readonly dx: Values;
  readonly dScale: Numbers;
  readonly dBias?: Numbers;
}

function booleanOf(op: string, name: string, value: unknown, absent: boolean): boolean {
  if (value === undefined || value === null) return absent;
  if (typeof value === 'boolean') return value;
  throw new NormError('ERR_TYPE', op, `${name} must be true or false, got ${check.kindOf(value)}`);
}

function integerOf(op: string, name: string, value: unknown, absent: number): number {
  if (value === undefined || value === null) return absent;
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  throw new NormError('ERR_TYPE', op, `${name} must be an integer, got ${check.kindOf(value)}`);
}

/** The extents that a layer normalizes over. */
function extentsOf(op: string, value: unknown): number[] {
  const list: unknown[] = Array.isArray(value) ? [...value] : [value];
  if (list.length === 0) throw new NormError('ERR_SHAPE', op, 'shape [] has no axes to normalize over');
  return list.map((extent, i) => check.positiveInteger(op, Array.isArray(value) ? `shape[${i}]` : 'shape', extent));
}

/** An array of a layer's own, if the engine has room for one. */
function newArray(op: string, length: number, value: number): Float32Array {
  return resultArray(op, 4 * length, () => new Float32Array(length).fill(value));
}

function newStatistics(dtype: DType, length: number): Numbers {
  return dtype === 'float64' ? new Float64Array(length) : new Float32Array(length);
}

function shareMemory(a: Values, b: Values): boolean {
  if (a.buffer !== b.buffer) return false;
  return a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength;
}

/** What all layers do. `op` is the layer's name. */
abstract class Base {
  training = true;
  readonly parameters: readonly Parameter[];
  readonly epsilon: number;
  readonly affine: boolean;
  /** The forward calls that wait for their backward calls. */
  readonly #kept: Kept[] = [];

  constructor(
    readonly op: string,
    size: number,
    o: { readonly epsilon?: unknown; readonly affine?: unknown },
    names: readonly Parameter['name'][],
  ) {
    this.epsilon = check.epsilon(op, o.epsilon, 1e-5);
    this.affine = booleanOf(op, 'affine', o.affine, true);
    this.parameters = Object.freeze(
      (this.affine ? names : []).map((name) =>
        Object.freeze({
          name,
          value: newArray(op, size, name === 'scale' ? 1 : 0),
          gradient: newArray(op, size, 0),
        }),
      ),
    );
  }

  /** The extents of an x of a length whose shape isn't given. */
  protected abstract defaultShape(length: number): number[];
  /** Makes sure that the layer fits a shape. */
  protected abstract checkShape(shape: readonly number[]): void;
  /** How many means there are. */
  protected abstract groups(shape: readonly number[]): number;
  protected abstract readonly takesLengths: boolean;
  /** While training, with what receives 1 / deviation; otherwise without. */
  protected abstract run(input: Input, invStdOut: Numbers | undefined): Values;
  protected abstract gradients(dy: unknown, kept: Kept, out: unknown): Gradients;
  /** What distinguishes the layer from others of its class. */
  protected abstract fields(): Record<string, unknown>;

  protected get scale(): Float32Array | undefined {
    return this.parameters.find(({ name }) => name === 'scale')?.value;
  }

  protected get bias(): Float32Array | undefined {
    return this.parameters.find(({ name }) => name === 'bias')?.value;
  }

  train(): this {
    this.training = true;
    return this;
  }

  eval(): this {
    this.training = false;
    return this;
  }

  zeroGradients(): void {
    for (const { gradient } of this.parameters) gradient.fill(0);
  }

  forward(x: unknown, options?: unknown): Values {
    const { op } = this;
    const o = check.options(op, options, ['shape', 'dtype', 'out', ...(this.takesLengths ? ['lengths'] : [])]);
    const dtype = check.dtypeOf(op, x, o.dtype);
    const values = check.values(op, 'x', x, dtype);
    const shape = check.shapeOf(op, o.shape ?? this.defaultShape(values.length), values);
    this.checkShape(shape);
    const out = check.optionalValues(op, 'out', o.out, dtype, values.length, () => "x's length");
    const lengths = check.lengthsOf(op, o.lengths, shape);
    const bits = typedArrayTag.call(values) === 'Uint16Array' ? 'float16' : undefined;
    const input: Input = { x: values, dtype, options: { shape, dtype: bits }, lengths, out };
    if (!this.training) return this.run(input, undefined);
    if (out && shareMemory(out, values)) {
      throw new NormError('ERR_OVERLAP', op, 'out shares memory with x, which backward will need: call eval() first');
    }
    const invStd = newStatistics(dtype, this.groups(shape));
    const y = this.run(input, invStd);
    this.#kept.push({ x: values, options: input.options, lengths: lengths?.slice(), invStd });
    return y;
  }

  backward(dy: unknown, options?: unknown): Values {
    const o = check.options(this.op, options, ['out']);
    const kept = this.#kept.at(-1);
    if (!kept) {
      const why = this.training ? 'none waits for it' : 'in eval() none is kept';
      throw new NormError('ERR_STATE', this.op, `backward answers a forward call while training, and ${why}`);
    }
    for (const { name, gradient } of this.parameters) {
      if (ArrayBuffer.isView(o.out) && shareMemory(o.out as Values, gradient)) {
        throw new NormError('ERR_OVERLAP', this.op, `out shares memory with the gradient of ${name}`);
      }
    }
    const { dx, dScale, dBias } = this.gradients(dy, kept, o.out);
    this.#kept.pop();
    for (const { name, gradient } of this.parameters) {
      const added = name === 'scale' ? dScale : dBias;
      if (added) for (let i = 0; i < gradient.length; ++i) gradient[i] = (gradient[i] as number) + (added[i] as number);
    }
    return dx;
  }

  toJSON(): object {
    const values = this.parameters.map(({ name, value }) => [name, arrayToJSON(value)]);
    const { op: layer, epsilon, affine, training } = this;
    return { layer, ...this.fields(), epsilon, affine, training, ...Object.fromEntries(values) };
  }

  /** Takes what toJSON has made of another one of the same extents. */
  protected restore(fields: Record<string, unknown>): this {
    this.training = booleanOf(this.op, 'training', fields.training, true);
    for (const { name, value } of this.parameters) value.set(arrayFromJSON(this.op, name, fields[name], value));
    return this;
  }
}

const layerOptions = ['epsilon', 'affine'];

/** What a class's fromJSON is given, and the options in it. */
function fromJSON(op: string, json: unknown, names: readonly string[]) {
  const fields = fieldsOf(op, json);
  const options = Object.fromEntries(names.map((name) => [name, fields[name]]));
  return { fields, options };
}

function objectOf(op: string, options: unknown, names: readonly string[]): Record<string, unknown> {
  check.optionNames(op, options, names);
  return (options ?? {}) as Record<string, unknown>;
}

/** The classes of an instance, around its operations. */
export function createLayers(operations: Operations): Omit<Layers, 'foldBatchNorm'> {
  const run = operations as unknown as Untyped;

  /** Over the last axes, along which the parameters are. */
  abstract class OverLast extends Base {
    readonly shape: readonly number[];
    readonly #size: number;

    constructor(op: string, shape: unknown, options: unknown, names: readonly Parameter['name'][]) {
      const extents = extentsOf(op, shape);
      const size = extents.reduce((product, extent) => product * extent, 1);
      super(op, size, objectOf(op, options, layerOptions), names);
      this.shape = Object.freeze(extents);
      this.#size = size;
    }

    protected readonly takesLengths = true;

    protected defaultShape(length: number): number[] {
      const rows = length / this.#size;
      if (Number.isInteger(rows)) return [rows, ...this.shape];
      const own = check.list(this.shape);
      throw new NormError(
        'ERR_SHAPE',
        this.op,
        `x has ${length} values, which are no rows of the layer's shape ${own}`,
      );
    }

    protected checkShape(shape: readonly number[]): void {
      const first = shape.length - this.shape.length;
      if (this.shape.every((extent, i) => shape[first + i] === extent)) return;
      const given = check.list(shape);
      throw new NormError(
        'ERR_SHAPE',
        this.op,
        `shape ${given} does not end in the layer's, ${check.list(this.shape)}`,
      );
    }

    protected groups(shape: readonly number[]): number {
      return shape.slice(0, shape.length - this.shape.length).reduce((product, extent) => product * extent, 1);
    }

    protected get axes(): number[] {
      return this.shape.map((_, i) => i - this.shape.length);
    }

    protected fields() {
      return { shape: [...this.shape] };
    }
  }

  class LayerNorm extends OverLast {
    constructor(shape: unknown, options?: unknown) {
      super('LayerNorm', shape, options, ['scale', 'bias']);
    }

    static fromJSON(json: unknown): LayerNorm {
      const { fields, options } = fromJSON('LayerNorm', json, layerOptions);
      return new LayerNorm(fields.shape, options).restore(fields);
    }

    protected run({ x, options, lengths, out }: Input, invStdOut: Numbers | undefined): Values {
      const { axes, scale, bias, epsilon } = this;
      return run.layerNorm(x, { ...options, axes, lengths, scale, bias, epsilon, out, invStdOut });
    }

    protected gradients(dy: unknown, { x, options, lengths, invStd }: Kept, out: unknown): Gradients {
      const { axes, scale, epsilon } = this;
      return run.layerNormBackward(dy, x, { ...options, axes, lengths, scale, epsilon, invStd, out });
    }
  }

  class RmsNorm extends OverLast {
    constructor(shape: unknown, options?: unknown) {
      super('RmsNorm', shape, options, ['scale']);
    }

    static fromJSON(json: unknown): RmsNorm {
      const { fields, options } = fromJSON('RmsNorm', json, layerOptions);
      return new RmsNorm(fields.shape, options).restore(fields);
    }

    protected run({ x, options, lengths, out }: Input, invStdOut: Numbers | undefined): Values {
      const { axes, scale, epsilon } = this;
      return run.rmsNorm(x, { ...options, axes, lengths, scale, epsilon, out, invStdOut });
    }

    protected gradients(dy: unknown, { x, options, lengths, invStd }: Kept, out: unknown): Gradients {
      const { axes, scale, epsilon } = this;
      return run.rmsNormBackward(dy, x, { ...options, axes, lengths, scale, epsilon, invStd, out });
    }
  }

  /** With parameters along a channel axis. */
  abstract class ByChannel extends Base {
    readonly channels: number;
    readonly axis: number;

    constructor(op: string, channels: unknown, options: unknown, names: readonly string[]) {
      const count = check.positiveInteger(op, 'channels', channels);
      const o = objectOf(op, options, names);
      super(op, count, o, ['scale', 'bias']);
      this.channels = count;
      this.axis = integerOf(op, 'axis', o.axis, 1);
    }

    protected defaultShape(length: number): number[] {
      const items = length / this.channels;
      if (Number.isInteger(items)) return [items, this.channels];
      throw new NormError(
        'ERR_SHAPE',
        this.op,
        `x has ${length} values, which ${this.channels} channels do not divide`,
      );
    }

    protected checkShape(shape: readonly number[]): void {
      const axis = check.axisOf(this.op, 'axis', this.axis, shape);
      if (shape[axis] === this.channels) return;
      const given = `axis ${axis} of shape ${check.list(shape)} has ${shape[axis]} channels`;
      throw new NormError('ERR_SHAPE', this.op, `${given}, the layer has ${this.channels}`);
    }

    protected fields(): Record<string, unknown> {
      return { channels: this.channels, axis: this.axis };
    }
  }

  const channelOptions = [...layerOptions, 'axis'];

  class GroupNorm extends ByChannel {
    readonly #groups: number;

    constructor(groups: unknown, channels: unknown, options?: unknown) {
      super('GroupNorm', channels, options, channelOptions);
      this.#groups = check.groupsOf('GroupNorm', groups, this.channels);
    }

    static fromJSON(json: unknown): GroupNorm {
      const { fields, options } = fromJSON('GroupNorm', json, channelOptions);
      return new GroupNorm(fields.groups, fields.channels, options).restore(fields);
    }

    protected readonly takesLengths = false;

    protected groups(shape: readonly number[]): number {
      return (shape[0] as number) * this.#groups;
    }

    protected run({ x, options, out }: Input, invStdOut: Numbers | undefined): Values {
      const { axis, scale, bias, epsilon } = this;
      return run.groupNorm(x, { ...options, axis, groups: this.#groups, scale, bias, epsilon, out, invStdOut });
    }

    protected gradients(dy: unknown, { x, options, invStd }: Kept, out: unknown): Gradients {
      const { axis, scale, epsilon } = this;
      return run.groupNormBackward(dy, x, { ...options, axis, groups: this.#groups, scale, epsilon, invStd, out });
    }

    protected override fields(): Record<string, unknown> {
      return { groups: this.#groups, ...super.fields() };
    }
  }

  class InstanceNorm extends ByChannel {
    constructor(channels: unknown, options?: unknown) {
      super('InstanceNorm', channels, options, channelOptions);
    }

    static fromJSON(json: unknown): InstanceNorm {
      const { fields, options } = fromJSON('InstanceNorm', json, channelOptions);
      return new InstanceNorm(fields.channels, options).restore(fields);
    }

    protected readonly takesLengths = false;

    protected groups(shape: readonly number[]): number {
      return (shape[0] as number) * this.channels;
    }

    protected run({ x, options, out }: Input, invStdOut: Numbers | undefined): Values {
      const { axis, scale, bias, epsilon } = this;
      return run.instanceNorm(x, { ...options, axis, scale, bias, epsilon, out, invStdOut });
    }

    protected gradients(dy: unknown, { x, options, invStd }: Kept, out: unknown): Gradients {
      const { axis, scale, epsilon } = this;
      return run.instanceNormBackward(dy, x, { ...options, axis, scale, epsilon, invStd, out });
    }
  }

  const batchOptions = [...channelOptions, 'momentum', 'unbiased'];

  class BatchNorm extends ByChannel {
    readonly momentum: number | null;
    readonly unbiased: boolean;
    readonly #mean: Moving;
    readonly #variance: Moving;
    #batchesSeen = 0;

    constructor(channels: unknown, options?: unknown) {
      super('BatchNorm', channels, options, batchOptions);
      const o = objectOf('BatchNorm', options, batchOptions);
      this.momentum = check.momentumOf('BatchNorm', o.momentum);
      this.unbiased = booleanOf('BatchNorm', 'unbiased', o.unbiased, true);
      this.#mean = new Moving('BatchNorm', this.channels, 0);
      this.#variance = new Moving('BatchNorm', this.channels, 1);
    }

    static fromJSON(json: unknown): BatchNorm {
      const { fields, options } = fromJSON('BatchNorm', json, batchOptions);
      return new BatchNorm(fields.channels, options).restore(fields);
    }

    protected readonly takesLengths = true;

    get runningMean(): Float32Array {
      return this.#mean.values;
    }

    get runningVariance(): Float32Array {
      return this.#variance.values;
    }

    get batchesSeen(): number {
      return this.#batchesSeen;
    }

    protected groups(): number {
      return this.channels;
    }

    protected run({ x, options, lengths, out }: Input, invStdOut: Numbers | undefined): Values {
      const { axis, scale, bias, epsilon } = this;
      const common = { ...options, axis, scale, bias, epsilon, out };
      check.lengthsBesideChannels(this.op, check.axisOf(this.op, 'axis', axis, options.shape), lengths);
      if (!invStdOut) {
        const y = run.batchNorm(x, { ...common, mean: this.runningMean, variance: this.runningVariance });
        // Inference has no use for lengths, but what is past them is 0 there as well.
        if (lengths) clearPadding(y, options.shape, lengths);
        return y;
      }
      const { y, mean, variance, count } = this.#train(x, { ...common, lengths, invStdOut });
      const countOf = (channel: number): number => (typeof count === 'number' ? count : count[channel]);
      const hasValues = (channel: number) => countOf(channel) > 0;
      const unbiased = (value: number, channel: number) => (value * countOf(channel)) / (countOf(channel) - 1);
      this.#batchesSeen += 1;
      this.#mean.add(mean, this.momentum, hasValues);
      this.#variance.add(this.unbiased ? Float64Array.from(variance, unbiased) : variance, this.momentum, hasValues);
      return y;
    }

    #train(x: Values, options: object) {
      try {
        return run.batchNormTraining(x, options);
      } catch (error) {
        // What is out of range there is the one value per channel: the usual reason is a forgotten eval().
        if (!(error instanceof NormError && error.code === 'ERR_RANGE')) throw error;
        const advice = 'call eval() first for inference, or use a larger batch';
        throw new NormError('ERR_RANGE', this.op, `one value per channel is not enough to train with: ${advice}`, {
          cause: error,
        });
      }
    }

    protected gradients(dy: unknown, { x, options, lengths, invStd }: Kept, out: unknown): Gradients {
      const { axis, scale, epsilon } = this;
      return run.batchNormTrainingBackward(dy, x, { ...options, axis, lengths, scale, epsilon, invStd, out });
    }

    protected override fields(): Record<string, unknown> {
      const { momentum, unbiased, batchesSeen } = this;
      const running = { runningMean: this.#mean.toJSON(), runningVariance: this.#variance.toJSON() };
      return { ...super.fields(), momentum, unbiased, batchesSeen, ...running };
    }

    protected override restore(fields: Record<string, unknown>): this {
      this.#batchesSeen = check.countOf(this.op, 'batchesSeen', fields.batchesSeen);
      this.#mean.restore(this.op, 'runningMean', fields.runningMean);
      this.#variance.restore(this.op, 'runningVariance', fields.runningVariance);
      return super.restore(fields);
    }
  }

  const classes = { LayerNorm, RmsNorm, GroupNorm, InstanceNorm, BatchNorm };
  // As they are printed, although the package is minified.
  for (const [name, value] of Object.entries(classes)) Object.defineProperty(value, 'name', { value: name });
  return classes as unknown as Omit<Layers, 'foldBatchNorm'>;
}

function clearPadding(y: Values, [items, extent, ...rest]: readonly number[], lengths: Int32Array): void {
  const place = rest.reduce((product, e) => product * e, 1);
  const size = (extent as number) * place;
  for (let item = 0; item < (items as number); ++item) {
    y.fill(0, item * size + (lengths[item] as number) * place, (item + 1) * size);
  }
}
