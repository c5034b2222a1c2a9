// Layers: parameters, gradients and running statistics around the operations.

import * as check from './check.js';
import { isBits, type Numbers } from './dtype.js';
import { NormError } from './errors.js';
import { newArray } from './heap.js';
import { arrayFromJSON, arrayToJSON, fieldsOf } from './layer-json.js';
import { newStatistics } from './operation.js';
import { Moving } from './running-statistics.js';
import { type Data, isData, lengthOf, shareMemory, Tensor } from './tensor.js';
import type { Layers, Operations, Parameter } from './types.js';

/** The operations, without the types that callers see. */
// biome-ignore lint/suspicious/noExplicitAny: what the layers pass has been checked, here or will be there.
type Run = (...given: any[]) => any;
type Untyped = { readonly [name in keyof Operations]: Run };

/** What a forward call keeps for its backward call. */
interface Kept {
  /** Not copied. */
  readonly x: Data;
  readonly shape: readonly number[];
  /** What the operations are told of the type of x. */
  readonly dtype: 'float16' | undefined;
  readonly lengths: Int32Array | undefined;
  readonly invStd: Numbers;
}

/** A checked input of a forward call. */
interface Input {
  readonly x: Data;
  readonly shape: readonly number[];
  readonly dtype: 'float16' | undefined;
  readonly lengths: Int32Array | undefined;
  readonly out: Data | undefined;
}

/** The options that say which values have statistics and parameters in common. */
interface Place {
  readonly axes?: readonly number[];
  readonly axis?: number;
  readonly groups?: number;
}

/** What batchNormTraining returns. */
interface Batch {
  readonly y: Data;
  readonly mean: Numbers;
  readonly variance: Numbers;
  readonly count: number | Int32Array;
}

interface Gradients {
  readonly dx: Data;
  readonly dScale: Numbers;
  readonly dBias?: Numbers;
}

function booleanOf(op: string, name: string, value: unknown, absent: boolean): boolean {
  if (value === undefined || value === null) return absent;
  if (typeof value === 'boolean') return value;
  throw check.typeError(op, name, 'true or false', value);
}

function integerOf(op: string, name: string, value: unknown, absent: number): number {
  if (value === undefined || value === null) return absent;
  if (typeof value === 'number' && Number.isInteger(value)) return value;
  throw check.typeError(op, name, 'an integer', value);
}

/** The extents that a layer normalizes over. */
function extentsOf(op: string, value: unknown): number[] {
  const given = check.settled(op, 'shape', value, check.maxRank);
  if (!check.isArray(given)) return [check.positiveInteger(op, 'shape', given)];
  if (given.length === 0) throw new NormError('ERR_SHAPE', op, 'shape [] has no axes to normalize over');
  return given.map((extent, i) => check.positiveInteger(op, `shape[${i}]`, extent));
}

/** What of a layer's options are the fields of its JSON, if it is made from one. No user knows it. */
const restored = Symbol();

const forwardOptions = new Set(['shape', 'dtype', 'out']);
const forwardWithLengths = new Set([...forwardOptions, 'lengths']);
const backwardOptions = new Set(['out']);
/** The options of a layer, whose names have been checked. */
type Given = Record<string, unknown> & { readonly [restored]?: Record<string, unknown> };
type Constructor = new (...given: unknown[]) => Base;

/** What a layer reads and changes between calls, by its name in messages. */
interface Own {
  name: string;
  values: Data;
}

/** What all layers do. `op` is the layer's name. */
abstract class Base {
  training: boolean;
  readonly parameters: readonly Parameter[];
  readonly epsilon: number;
  readonly affine: boolean;
  protected readonly scale: Float32Array | undefined;
  protected readonly bias: Float32Array | undefined;
  /** The forward calls that wait for their backward calls. */
  readonly #kept: Kept[] = [];
  #own: readonly Own[] | undefined;

  constructor(
    readonly op: string,
    size: number,
    o: Given,
    names: readonly Parameter['name'][],
  ) {
    this.epsilon = check.epsilon(op, o.epsilon, 1e-5);
    this.affine = booleanOf(op, 'affine', o.affine, true);
    const fields = o[restored];
    this.training = booleanOf(op, 'training', fields?.training, true);
    this.parameters = Object.freeze(
      (this.affine ? names : []).map((name) =>
        Object.freeze({
          name,
          value: fields
            ? arrayFromJSON(op, name, fields[name], size, Float32Array)
            : newArray(op, size, 'float32').fill(name === 'scale' ? 1 : 0),
          gradient: newArray(op, size, 'float32'),
        }),
      ),
    );
    this.scale = this.parameters.find(({ name }) => name === 'scale')?.value;
    this.bias = this.parameters.find(({ name }) => name === 'bias')?.value;
  }

  /** The extents of an x of a length whose shape isn't given. */
  protected abstract defaultShape(length: number): number[];
  /** Makes sure that the layer fits a shape. */
  protected abstract checkShape(shape: readonly number[]): void;
  /** How many means there are. */
  protected abstract groups(shape: readonly number[]): number;
  protected abstract readonly takesLengths: boolean;
  /** While training, with what receives 1 / deviation; otherwise without. */
  protected abstract run(input: Input, invStdOut: Numbers | undefined): Data;
  protected abstract gradients(dy: unknown, kept: Kept, out: unknown): Gradients;
  /** What distinguishes the layer from others of its class. */
  protected abstract fields(): Record<string, unknown>;

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

  protected own(): Own[] {
    return this.parameters.flatMap(({ name, value, gradient }) => [
      { name, values: value },
      { name: `the gradient of ${name}`, values: gradient },
    ]);
  }

  /** What is written may be neither the layer's own nor an x that so many of the waiting backward calls will read. */
  #checkOut(out: unknown, waiting: number, x?: Data, lengths?: unknown): void {
    // A freed one is the operation's to refuse.
    if (!isData(out) || (Tensor.is(out) && out.freed)) return;
    this.#own ??= this.own();
    for (let i = 0; i < this.#own.length; ++i) {
      const { name, values } = this.#own[i] as Own;
      this.#keepApart(out, values, name);
    }
    const kept = 'an x that backward will need (in eval() none is kept)';
    for (let i = 0; i < waiting; ++i) this.#keepApart(out, (this.#kept[i] as Kept).x, kept);
    this.#keepApart(out, x, kept);
    this.#keepApart(out, lengths, 'lengths');
  }

  #keepApart(out: Data, values: unknown, name: string): void {
    if (!isData(values) || !shareMemory(out, values)) return;
    throw new NormError('ERR_OVERLAP', this.op, `out shares memory with ${name}`);
  }

  /** Runs an operation, whose errors are then those of the layer. */
  #run<R>(operation: () => R): R {
    try {
      return operation();
    } catch (error) {
      if (!(error instanceof NormError) || error.op === this.op) throw error;
      throw new NormError(error.code, this.op, error.message.slice(error.op.length + 2), { cause: error });
    }
  }

  forward(x: unknown, options?: unknown): Data {
    const { op, training } = this;
    const o = check.options(op, options, this.takesLengths ? forwardWithLengths : forwardOptions, x);
    const dtype = check.dtypeOf(op, x, o.dtype);
    const values = check.values(op, 'x', x, dtype);
    const length = lengthOf(values);
    const shape = check.shapeOf(op, o.shape ?? (Tensor.is(x) ? x.shape : this.defaultShape(length)), length);
    this.checkShape(shape);
    const out = check.optionalValues(op, 'out', o.out, dtype, length);
    const lengths = check.lengthsOf(op, o.lengths, shape);
    const bits = isBits(values) ? 'float16' : undefined;
    const input: Input = { x: values, shape, dtype: bits, lengths, out };
    // The operation is given copies of the lengths.
    if (out) this.#checkOut(out, this.#kept.length, training ? values : undefined, o.lengths);
    const invStd = training ? newStatistics({ op, dtype }, this.groups(shape)) : undefined;
    const y = this.#run(() => this.run(input, invStd));
    if (invStd) this.#kept.push({ x: values, shape, dtype: bits, lengths, invStd });
    return y;
  }

  backward(dy: unknown, options?: unknown): Data {
    const o = check.options(this.op, options, backwardOptions);
    const kept = this.#kept.at(-1);
    if (!kept) {
      const why = this.training ? 'none waits for it' : 'in eval() none is kept';
      throw new NormError('ERR_STATE', this.op, `backward answers a forward call while training, and ${why}`);
    }
    if (o.out) this.#checkOut(o.out, this.#kept.length - 1);
    const { dx, dScale, dBias } = this.#run(() => this.gradients(dy, kept, o.out));
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
}

const layerOptions = ['epsilon', 'affine'];

function objectOf(op: string, options: unknown, names: readonly string[]): Given {
  check.optionNames(op, options, new Set(names));
  return (options ?? {}) as Given;
}

/** The classes of an instance, around its operations. */
export function createLayers(operations: Operations): Omit<Layers, 'foldBatchNorm'> {
  const run = operations as unknown as Untyped;

  /** Around an operation and its gradient. */
  abstract class Around extends Base {
    protected abstract get operation(): keyof Untyped;
    protected abstract get place(): Place;

    // Each option by its name, also those that the operation doesn't have and that are absent: to spread objects takes
    // longer than all else.
    protected run({ x, shape, dtype, lengths, out }: Input, invStdOut: Numbers | undefined): Data {
      const { scale, bias, epsilon } = this;
      const { axes, axis, groups } = this.place;
      const given = { shape, dtype, axes, axis, groups, lengths, scale, bias, epsilon, out, invStdOut };
      return run[this.operation](x, given);
    }

    protected gradients(dy: unknown, { x, shape, dtype, lengths, invStd }: Kept, out: unknown): Gradients {
      const { scale, epsilon } = this;
      const { axes, axis, groups } = this.place;
      const given = { shape, dtype, axes, axis, groups, lengths, scale, epsilon, invStd, out };
      return run[`${this.operation}Backward` as keyof Untyped](dy, x, given);
    }
  }

  /** Over the last axes, along which the parameters are. */
  abstract class OverLast extends Around {
    readonly shape: readonly number[];
    readonly #place: Place;
    readonly #size: number;

    constructor(op: string, shape: unknown, options: unknown, names: readonly Parameter['name'][]) {
      const extents = extentsOf(op, shape);
      const size = check.product(extents);
      super(op, size, objectOf(op, options, layerOptions), names);
      this.shape = Object.freeze(extents);
      this.#place = { axes: extents.map((_, i) => i - extents.length) };
      this.#size = size;
    }

    protected get place(): Place {
      return this.#place;
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
      return check.product(shape.slice(0, shape.length - this.shape.length));
    }

    protected fields() {
      return { shape: [...this.shape] };
    }
  }

  class LayerNorm extends OverLast {
    protected get operation() {
      return 'layerNorm' as const;
    }

    constructor(shape: unknown, options?: unknown) {
      super('LayerNorm', shape, options, ['scale', 'bias']);
    }
  }

  class RmsNorm extends OverLast {
    protected get operation() {
      return 'rmsNorm' as const;
    }

    constructor(shape: unknown, options?: unknown) {
      super('RmsNorm', shape, options, ['scale']);
    }
  }

  /** With parameters along a channel axis. */
  abstract class ByChannel extends Around {
    readonly channels: number;
    readonly axis: number;

    constructor(op: string, channels: unknown, options: unknown, names: readonly string[]) {
      const count = check.positiveInteger(op, 'channels', channels);
      const o = objectOf(op, options, names);
      super(op, count, o, ['scale', 'bias']);
      this.channels = count;
      this.axis = integerOf(op, 'axis', o.axis, 1);
    }

    protected get place(): Place {
      return { axis: this.axis };
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

    protected get operation() {
      return 'groupNorm' as const;
    }

    protected override get place(): Place {
      return { axis: this.axis, groups: this.#groups };
    }

    protected readonly takesLengths = false;

    protected groups(shape: readonly number[]): number {
      return (shape[0] as number) * this.#groups;
    }

    protected override fields(): Record<string, unknown> {
      return { groups: this.#groups, ...super.fields() };
    }
  }

  class InstanceNorm extends ByChannel {
    protected get operation() {
      return 'instanceNorm' as const;
    }

    constructor(channels: unknown, options?: unknown) {
      super('InstanceNorm', channels, options, channelOptions);
    }

    protected readonly takesLengths = false;

    protected groups(shape: readonly number[]): number {
      return (shape[0] as number) * this.channels;
    }
  }

  const batchOptions = [...channelOptions, 'momentum', 'unbiased'];

  class BatchNorm extends ByChannel {
    readonly momentum: number | null;
    readonly unbiased: boolean;
    readonly #mean: Moving;
    readonly #variance: Moving;
    #batchesSeen: number;

    constructor(channels: unknown, options?: unknown) {
      super('BatchNorm', channels, options, batchOptions);
      const o = objectOf('BatchNorm', options, batchOptions);
      this.momentum = check.momentumOf('BatchNorm', o.momentum);
      this.unbiased = booleanOf('BatchNorm', 'unbiased', o.unbiased, true);
      const fields = o[restored];
      this.#batchesSeen = fields ? check.countOf('BatchNorm', 'batchesSeen', fields.batchesSeen) : 0;
      this.#mean = new Moving('BatchNorm', this.channels, 0, 'runningMean', fields);
      this.#variance = new Moving('BatchNorm', this.channels, 1, 'runningVariance', fields);
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

    protected override own(): Own[] {
      const statistics = [
        { name: 'runningMean', values: this.runningMean },
        { name: 'runningVariance', values: this.runningVariance },
      ];
      return [...super.own(), ...statistics];
    }

    protected groups(): number {
      return this.channels;
    }

    protected get operation() {
      return 'batchNormTraining' as const;
    }

    protected override run(input: Input, invStdOut: Numbers | undefined): Data {
      const { op, axis, scale, bias, epsilon } = this;
      const { x, shape, dtype, lengths, out } = input;
      check.lengthsBesideChannels(op, check.axisOf(op, 'axis', axis, shape), lengths);
      if (!invStdOut) {
        // Inference has no use for lengths, but what is past them is 0 there as well.
        const { runningMean: mean, runningVariance: variance } = this;
        return run.batchNorm(x, { shape, dtype, axis, scale, bias, epsilon, mean, variance, out }, lengths);
      }
      const { y, mean, variance, count } = this.#train(input, invStdOut);
      const countOf = (channel: number) => (typeof count === 'number' ? count : (count[channel] as number));
      const hasData = (channel: number) => countOf(channel) > 0;
      const unbiased = (value: number, channel: number) => (value * countOf(channel)) / (countOf(channel) - 1);
      this.#batchesSeen += 1;
      this.#mean.add(mean, this.momentum, hasData);
      this.#variance.add(this.unbiased ? Float64Array.from(variance, unbiased) : variance, this.momentum, hasData);
      return y;
    }

    #train(input: Input, invStdOut: Numbers): Batch {
      try {
        return super.run(input, invStdOut) as unknown as Batch;
      } catch (error) {
        // What is out of range there is the one value per channel: the usual reason is a forgotten eval().
        if (!(error instanceof NormError && error.code === 'ERR_RANGE')) throw error;
        const advice = 'call eval() first for inference, or use a larger batch';
        throw new NormError('ERR_RANGE', this.op, `one value per channel is not enough to train with: ${advice}`, {
          cause: error,
        });
      }
    }

    protected override fields(): Record<string, unknown> {
      const { momentum, unbiased, batchesSeen } = this;
      const running = { runningMean: this.#mean.toJSON(), runningVariance: this.#variance.toJSON() };
      return { ...super.fields(), momentum, unbiased, batchesSeen, ...running };
    }
  }

  // The classes, what their constructors take, by its names in their JSON, and their options.
  const classes: Record<string, [Class: Constructor, given: string[], options: readonly string[]]> = {
    LayerNorm: [LayerNorm, ['shape'], layerOptions],
    RmsNorm: [RmsNorm, ['shape'], layerOptions],
    GroupNorm: [GroupNorm, ['groups', 'channels'], channelOptions],
    InstanceNorm: [InstanceNorm, ['channels'], channelOptions],
    BatchNorm: [BatchNorm, ['channels'], batchOptions],
  };
  const entries = Object.entries(classes).map(([name, [Class, given, names]]) => {
    const fromJSON = (json: unknown) => {
      const fields = fieldsOf(name, json);
      const options = Object.fromEntries(names.map((option) => [option, fields[option]]));
      return new Class(...given.map((field) => fields[field]), { ...options, [restored]: fields });
    };
    // The name as it is printed, although the package is minified.
    return [name, Object.defineProperties(Class, { name: { value: name }, fromJSON: { value: fromJSON } })];
  });
  return Object.fromEntries(entries);
}
