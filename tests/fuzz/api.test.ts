// Random calls of the package, many of them wrong: each gives the right result, or a NormError that has changed nothing.
//
// They are the same in each run, or with SIMDNORM_FUZZ_SECONDS others, for that long. A failure says its seed; with it in
// SIMDNORM_FUZZ_SEED only that call is made.

import { load, NormError, type Simdnorm } from 'simdnorm';
import { expect, test } from 'vitest';
import { type DType, type Floats, fingerprint, isBackward, type Options, ofType } from '../js/calls.ts';
import { canary, detach, draw, drawVariance, resizableBuffer, revoked } from '../js/data.ts';
import { narrow, widen } from '../js/float16-conversion.ts';
import { checkOutputs, Dice, describe, type Kind, type RandomCall, randomCall } from './random-call.ts';

const { SIMDNORM_FUZZ_SECONDS: asked, SIMDNORM_FUZZ_SEED: onlySeed } = process.env;
const seconds = Number(asked ?? 20);
const firstSeed = Number(onlySeed ?? (asked === undefined ? 1 : Math.floor(Math.random() * 2 ** 31)));

type AnyTensor = ReturnType<Simdnorm['tensor']>;
type Buffer = ArrayBufferLike & { resize?: (bytes: number) => void; resizable?: boolean };

/** Something of a call that holds values, in whatever memory. */
interface Held {
  readonly name: string;
  readonly how: string;
  /** Asked for when everything is there: views of the memory die when it grows. */
  readonly data: () => unknown;
  /** Of a view that may have died. */
  readonly again: () => unknown;
  readonly owner: AnyTensor | undefined;
  readonly buffer: Buffer | undefined;
  /** All bytes around the values, too. */
  readonly bytes: () => Uint8Array;
}

function bytesOf(values: ArrayBufferView): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength).slice();
}

function isTensor(value: unknown): value is AnyTensor {
  return typeof value === 'object' && value !== null && 'freed' in value;
}

const classes = { float32: Float32Array, float64: Float64Array, float16: Uint16Array } as const;

/** One call with all that it holds, and everything of an instance that it may not change. */
class Scene {
  readonly held: Held[] = [];
  readonly tensors: AnyTensor[] = [];

  constructor(
    readonly sn: Simdnorm,
    readonly other: Simdnorm,
    readonly dice: Dice,
  ) {}

  /** Of the instance, or undefined where that has no room. */
  tensor(shape: readonly number[], values: Floats, dtype: DType): AnyTensor | undefined {
    try {
      const tensor = this.sn.tensor(shape, values, dtype) as AnyTensor;
      this.tensors.push(tensor);
      return tensor;
    } catch (error) {
      if (error instanceof NormError && error.code === 'ERR_MEMORY') return undefined;
      throw error;
    }
  }

  get used(): number {
    const sizes = { float32: 4, float64: 8, float16: 2 };
    return this.tensors.reduce((sum, each) => sum + (each.freed ? 0 : each.length * sizes[each.dtype]), 0);
  }

  freeAll(): void {
    for (const tensor of this.tensors) tensor.free();
  }

  hold(name: string, values: Floats, dtype: DType, shape: readonly number[] = [values.length]): Held {
    const { dice } = this;
    const before = dice.below(9);
    const after = dice.below(9);
    const around = new classes[dtype](before + values.length + after).fill(canary);
    around.set(values, before);
    const how = dice.oneOf(['plain', 'part', 'shared', 'resizable', 'growable', 'Tensor', 'Tensor', 'window', 'data']);
    const held = this.#held(name, how, values, around, before, dtype, shape);
    this.held.push(held);
    return held;
  }

  #held(
    name: string,
    how: string,
    values: Floats,
    around: Floats,
    before: number,
    dtype: DType,
    shape: readonly number[],
  ): Held {
    const isWindow = how === 'window' || how === 'data';
    if (how === 'Tensor' || isWindow) {
      const owner = isWindow ? this.tensor([around.length], around, dtype) : this.tensor(shape, values, dtype);
      if (owner) {
        const bytes = () => (owner.freed ? new Uint8Array(0) : bytesOf(owner.data));
        const end = before + values.length;
        const data = () => {
          if (how === 'Tensor') return owner;
          return how === 'window' ? owner.subarray(before, end) : owner.data.subarray(before, end);
        };
        let kept: unknown;
        return { name, how, data: () => (kept ??= data()), again: data, owner, buffer: undefined, bytes };
      }
    }
    const size = around.byteLength;
    const growable = { maxByteLength: size + 64 } as unknown as undefined;
    const SharedBuffer = SharedArrayBuffer as new (bytes: number, options?: undefined) => SharedArrayBuffer;
    const Class = classes[dtype] as new (buffer: ArrayBufferLike, begin?: number, length?: number) => Floats;
    let view: Floats;
    if (how === 'plain') {
      view = values.slice() as Floats;
    } else {
      const buffer =
        how === 'shared'
          ? new SharedBuffer(size)
          : how === 'growable'
            ? new SharedBuffer(size, growable)
            : how === 'resizable'
              ? resizableBuffer(size, size + 64)
              : new ArrayBuffer(size);
      new Class(buffer).set(around);
      view = new Class(buffer, before * around.BYTES_PER_ELEMENT, values.length);
    }
    const { buffer } = view;
    const bytes = () => {
      try {
        return new Uint8Array(buffer).slice();
      } catch {
        // Detached.
        return new Uint8Array(0);
      }
    };
    const data = () => view;
    return { name, how, data, again: data, owner: undefined, buffer: buffer as Buffer, bytes };
  }
}

// ---------------------------------------------------------------- calls

const asHalves = (values: Float32Array) => Float32Array.from(widen(narrow(values)));

/** Parameters that all types can hold. */
function sourceOf(dice: Dice) {
  return (kind: Kind, dtype: DType, length: number): Floats => {
    const seed = dice.next();
    if (kind === 'variance') return asHalves(drawVariance(length, seed));
    if (kind === 'parameter') return asHalves(draw(length, seed, 0.3, 1));
    const [mean, deviation] = dice.oneOf([
      [0.4, 3],
      [-20, 30],
      [0, 0.1],
      [dtype === 'float16' ? 30 : 1e3, 1],
    ] as const);
    return ofType(dtype, draw(length, seed, mean, deviation)).x;
  };
}

interface Made {
  readonly call: RandomCall;
  x: unknown;
  dy: unknown;
  readonly options: Options;
  /** The names of what is written, of the options. */
  readonly written: string[];
  readonly outputs: Held[];
}

const statisticsOut: Readonly<Record<string, readonly string[]>> = {
  layerNorm: ['meanOut', 'invStdOut'],
  rmsNorm: ['invStdOut'],
  instanceNorm: ['meanOut', 'invStdOut'],
  groupNorm: ['meanOut', 'invStdOut'],
  batchNormTraining: ['meanOut', 'varianceOut', 'invStdOut'],
};

function vectorFor(scene: Scene, name: string, values: Float32Array | Float64Array, dtype: DType, options: Options) {
  const { dice } = scene;
  const kind = dice.below(5);
  if (kind === 0) return () => Array.from(values);
  if (values instanceof Float64Array || kind === 1) {
    return scene.hold(name, Float64Array.from(values), 'float64').data;
  }
  // Of invStd halves would not be the same.
  if (kind === 2 && name !== 'invStd') {
    const { data } = scene.hold(name, narrow(values), 'float16');
    return () => {
      const halves = data();
      // Tensors and Float16Arrays say themselves what they are.
      if (!isTensor(halves) || dtype === 'float16') options.dtype = 'float16';
      return halves;
    };
  }
  return scene.hold(name, values, 'float32').data;
}

function dressed(scene: Scene, call: RandomCall): Made {
  const { dice } = scene;
  const { dtype, layout, numbers, vectors, lengths, op } = call;
  const { shape } = layout;
  const options: Options = { ...numbers };
  const made: Made = { call, x: undefined, dy: undefined, options, written: [], outputs: [] };
  const later: (() => void)[] = [];
  const give = (name: string, data: () => unknown) => {
    later.push(() => {
      options[name] = data();
    });
  };
  const x = scene.hold('x', call.x, dtype, shape);
  const dy = call.dy && scene.hold('dy', call.dy, dtype);
  const residual = call.residual && scene.hold('residual', call.residual, dtype);
  if (residual) give('residual', residual.data);
  for (const [name, values] of Object.entries(vectors)) {
    give(name, vectorFor(scene, name, values, dtype, options));
  }
  const write = (name: string, held: Held) => {
    give(name, held.data);
    made.written.push(name);
    made.outputs.push(held);
  };
  const make = (name: string, length: number, type: DType) =>
    scene.hold(name, new classes[type](length).fill(canary) as Floats, type);
  let isInPlace = false;
  if (op !== 'moments' && dice.chance(0.6)) {
    const where = dice.below(3);
    isInPlace = where === 1;
    write('out', where === 1 ? x : where === 2 && dy ? dy : make('out', call.x.length, dtype));
  }
  if (residual && dice.chance(0.6)) {
    const where = dice.below(3);
    const into = where === 1 && !isInPlace ? x : where === 2 ? residual : make('residualOut', call.x.length, dtype);
    write('residualOut', into);
  }
  const wide = dtype === 'float64' ? 'float64' : 'float32';
  for (const name of statisticsOut[op] ?? []) if (dice.chance(0.4)) write(name, make(name, call.groups, wide));
  if (isBackward(op) && op !== 'lpNormalizeBackward') {
    if (dice.chance(0.4)) write('dScaleOut', make('dScaleOut', call.units, wide));
    if (op !== 'rmsNormBackward' && dice.chance(0.4)) write('dBiasOut', make('dBiasOut', call.units, wide));
  }
  if (lengths) options.lengths = dice.chance(0.5) ? lengths : Int32Array.from(lengths);
  for (const name of ['axis', 'axes']) {
    const value = options[name];
    const negative = (axis: number) => (dice.chance(0.3) ? axis - shape.length : axis);
    if (typeof value === 'number') options[name] = negative(value);
    else if (Array.isArray(value)) {
      const axes = value.map(negative);
      options[name] = axes.length === 1 && dice.chance(0.3) ? axes[0] : axes;
    }
  }
  for (const name of ['scale', 'out', 'dtype', 'residual', 'whatever']) {
    if (!(name in options) && dice.chance(0.1)) options[name] = dice.oneOf([undefined, null]);
  }
  for (const each of later) each();
  made.x = x.data();
  made.dy = dy?.data();
  if (dtype === 'float16' && (!isTensor(made.x) || dice.chance(0.3))) options.dtype = 'float16';
  if (isTensor(made.x) && x.how === 'Tensor' && dice.chance(0.3)) delete options.shape;
  return made;
}

function run(scene: Scene, { call, x, dy, options }: Made): unknown {
  const method = scene.sn[call.op] as (...given: unknown[]) => unknown;
  return call.dy ? method(dy, x, options) : method(x, options);
}

/** Everything that a call has returned and written. */
function gather({ call, options, outputs }: Made, result: unknown): Record<string, unknown> {
  const isData = ArrayBuffer.isView(result) || isTensor(result);
  const own = isData ? { y: result, mean: options.meanOut, invStd: options.invStdOut } : (result as object);
  const all = { ...own, ...(call.residual ? { residualOut: options.residualOut } : {}) };
  // Views of the memory die when a call makes it grow.
  const alive = (value: unknown) => {
    const held = outputs.find(({ how, data }) => how === 'data' && data() === value);
    return held && !held.owner?.freed ? held.again() : value;
  };
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [name, alive(value)]));
}

// ---------------------------------------------------------------- mistakes

function garbage(dice: Dice): unknown {
  const make: readonly (() => unknown)[] = [
    () => null,
    () => NaN,
    () => -1,
    () => 1.5,
    () => 0,
    () => 2 ** 32,
    () => 2 ** 53,
    () => -Infinity,
    () => '',
    () => 'float32',
    () => true,
    () => 1n,
    () => Symbol('garbage'),
    () => () => 1,
    () => ({}),
    () => [],
    () => [1, [2]],
    () => [1, 2n],
    () => new Array(5),
    () => new Date(0),
    () => new Uint8Array(3),
    () => new Int32Array(12),
    () => new Uint16Array(4),
    () => new Float32Array(5),
    () => new Float64Array(0),
    () => new BigInt64Array(4),
    () => new DataView(new ArrayBuffer(8)),
    () => new ArrayBuffer(16),
    () => revoked(),
    () => revoked([]),
    () => new Proxy([1, 2, 3], {}),
    () => new Proxy(new Float32Array(4), {}),
    () => Object.create(null),
    () => Object.create(Float32Array.prototype),
    () => ({ length: 2 ** 53, 0: 1 }),
    () => ({ length: -1 }),
    () => Object.defineProperty(new Float32Array(4), 'buffer', { value: 0 }),
    () =>
      new (class extends Float32Array {
        override get length() {
          return 1e9;
        }
      })(4),
    () => new Map(),
    () => Promise.resolve(1),
  ];
  return dice.oneOf(make)();
}

const optionNames =
  'shape dtype axes axis groups scale bias epsilon mean variance out lengths residual residualOut meanOut varianceOut ' +
  'invStdOut invStd dScaleOut dBiasOut p size alpha beta k eps gamma __proto__ constructor';
const names = optionNames.split(' ');

/** Also in place of a getter, and of what objects have from the start. */
function give({ options }: Made, name: string, value: unknown): void {
  Object.defineProperty(options, name, { value, enumerable: true, configurable: true, writable: true });
}

/** Each makes something of a call wrong, probably, and says what. */
const mistakes: readonly ((scene: Scene, made: Made) => string | undefined)[] = [
  ({ dice }, made) => {
    const name = dice.oneOf(names);
    give(made, name, garbage(dice));
    return `${name} is garbage`;
  },
  ({ dice }, made) => {
    const present = Object.keys(made.options);
    if (present.length === 0) return undefined;
    const name = dice.oneOf(present);
    give(made, name, garbage(dice));
    return `${name} is garbage`;
  },
  ({ dice }, made) => {
    made.x = garbage(dice);
    return 'x is garbage';
  },
  ({ dice }, made) => {
    made.dy = garbage(dice);
    return 'dy is garbage';
  },
  ({ held, dice }) => {
    const { name, buffer } = dice.oneOf(held);
    if (!(buffer instanceof ArrayBuffer) || buffer.byteLength === 0) return undefined;
    detach(new Uint8Array(buffer));
    return `must: ${name} is detached`;
  },
  ({ held, dice }) => {
    const { name, buffer } = dice.oneOf(held);
    if (!buffer?.resizable || !buffer.resize || buffer.byteLength === 0) return undefined;
    buffer.resize(dice.below(buffer.byteLength + 64));
    return `${name} is resized`;
  },
  ({ held, dice }) => {
    const { name, how, owner } = dice.oneOf(held);
    if (!owner) return undefined;
    owner.free();
    // A view of the memory can't know it.
    return `${how === 'data' ? '' : 'must: '}${name} is freed`;
  },
  ({ other }, made) => {
    made.x = other.tensor([made.call.x.length], null, made.call.dtype);
    return 'must: x is of another instance';
  },
  ({ other, dice }, made) => {
    const name = dice.oneOf(['out', 'scale', 'residual', 'mean', 'invStd', 'meanOut', 'dScaleOut']);
    give(made, name, other.tensor([made.call.units], null));
    return `${name} is of another instance`;
  },
  ({ held }, made) => {
    const { buffer, data } = held[0] as Held;
    const x = data() as Float32Array;
    if (!buffer || x.length < 2 || made.call.op === 'moments') return undefined;
    const begin = x.byteOffset + x.BYTES_PER_ELEMENT;
    if (begin + x.byteLength > buffer.byteLength) return undefined;
    const Class = x.constructor as Float32ArrayConstructor;
    give(made, 'out', new Class(buffer as ArrayBuffer, begin, x.length));
    return 'must: out begins within x';
  },
  // Any view of memory that the call holds already, as any option.
  ({ held, dice }, made) => {
    const { name, buffer, owner, data } = dice.oneOf(held);
    const into = dice.oneOf(names);
    const length = dice.oneOf([made.call.x.length, made.call.units, made.call.groups]);
    const begin = dice.below(4);
    if (owner) {
      if (owner.freed) return undefined;
      give(made, into, owner.subarray(begin, begin + length));
    } else {
      const Class = (data() as Float32Array).constructor as Float32ArrayConstructor;
      const bytes = Class.BYTES_PER_ELEMENT;
      if (!buffer || buffer.byteLength < (begin + length) * bytes) return undefined;
      give(made, into, new Class(buffer as ArrayBuffer, begin * bytes, length));
    }
    return `${into} lies in ${name}`;
  },
  ({ dice }, made) => {
    const shape = [...made.call.layout.shape];
    const at = dice.below(shape.length + 1);
    const bad = [-1, 0, 1.5, NaN, 2 ** 32, 2 ** 53, '3', null, undefined, 3n, [2]] as unknown[];
    (shape as unknown[]).splice(at, dice.below(2), dice.oneOf(bad));
    give(made, 'shape', dice.chance(0.1) ? new Array(17).fill(1) : shape);
    return 'shape is wrong';
  },
  ({ dice }, made) => {
    const rank = made.call.layout.shape.length;
    const axes = Array.from({ length: dice.below(5) }, () => dice.oneOf([0, 1, -1, rank, -rank - 1, 0.5, '1', null]));
    give(made, dice.oneOf(['axes', 'axis']), dice.chance(0.5) ? axes : axes[0]);
    return 'axes are others';
  },
  ({ dice }, made) => {
    const items = made.call.layout.shape[0] ?? 0;
    const bad = () => dice.oneOf<unknown>([0, 1, 2, -1, 0.5, NaN, 1e9, '1', null]);
    const count = Math.min(items, 20) + dice.below(2);
    const lengths = Array.from({ length: count }, bad);
    give(made, 'lengths', dice.chance(0.5) ? lengths : Int32Array.from(lengths as number[]));
    return 'lengths are others';
  },
  ({ dice }, made) => {
    const name = dice.oneOf(['epsilon', 'groups', 'p', 'size', 'alpha', 'beta', 'k']);
    give(made, name, dice.oneOf([0, -1, 1e-300, 1e300, NaN, Infinity, -0, 0.5, 3, 1000, 2 ** 32, 2 ** 40, '1', 1n]));
    return `${name} is another number`;
  },
  // Options that do something when they are read.
  ({ held, dice }, made) => {
    const { owner, buffer, name } = dice.oneOf(held);
    const option = dice.oneOf(names.slice(0, -3));
    const value = made.options[option];
    Object.defineProperty(made.options, option, {
      enumerable: true,
      configurable: true,
      get() {
        owner?.free();
        if (buffer instanceof ArrayBuffer && buffer.byteLength > 0) detach(new Uint8Array(buffer));
        return value;
      },
    });
    return `reading ${option} loses ${name}`;
  },
  ({ sn }, made) => {
    const { epsilon } = made.options;
    Object.defineProperty(made.options, 'epsilon', {
      enumerable: true,
      configurable: true,
      get() {
        // Grows the memory, as far as it may, and uses what calls share.
        const wasUsed = sn.memory.capacity;
        try {
          sn.batchNormTraining(new Float32Array(wasUsed / 8), { shape: [4, wasUsed / 32] });
        } catch (error) {
          if (!(error instanceof NormError && error.code === 'ERR_MEMORY')) throw error;
        }
        return epsilon;
      },
    });
    return 'reading epsilon calls';
  },
];

// ---------------------------------------------------------------- the fuzzer

const fixed = draw(1000, 1);

interface Pair {
  readonly sn: Simdnorm;
  readonly other: Simdnorm;
  readonly bits: string;
  readonly before: Uint8Array;
  readonly isSmall: boolean;
}

async function makePair(isSmall: boolean): Promise<Pair> {
  const sn = await load(isSmall ? { maximumMemory: 2 ** 20 } : {});
  return { sn, other: await load({}), bits: fingerprint(sn), before: bytesOf(sn.layerNorm(fixed)), isSmall };
}

const count = { valid: 0, wrong: 0, refused: 0, outOfMemory: 0 };

function tryCall({ sn, other, before, isSmall }: Pair, seed: number): void {
  const dice = new Dice(seed);
  const scene = new Scene(sn, other, dice);
  const used = sn.memory.used;
  const size = dice.logUniform(dice.chance(isSmall ? 0.3 : 0.02) ? 200_000 : dice.chance(0.5) ? 50 : 3000);
  const call = randomCall(dice, size, sourceOf(dice));
  const said: string[] = [];
  try {
    const made = dressed(scene, call);
    for (let i = dice.oneOf([0, 0, 1, 1, 2]); i > 0; --i) {
      const what = dice.oneOf(mistakes)(scene, made);
      if (what) said.push(what);
    }
    const losesThings = said.some((what) => what.startsWith('reading'));
    const snapshots = scene.held.map(({ bytes }) => bytes());
    const usedBefore = sn.memory.used;
    if (usedBefore !== used + scene.used) throw new Error(`used ${usedBefore}, Tensors have ${used + scene.used}`);
    let result: unknown;
    let failure: unknown;
    try {
      result = run(scene, made);
    } catch (error) {
      failure = error;
      if (!(error instanceof NormError)) throw error;
      if (error.code === 'ERR_STATE') throw new Error(`a trap: ${error.message}`, { cause: error });
    }
    const isOutOfMemory = failure instanceof NormError && failure.code === 'ERR_MEMORY' && isSmall;
    if (failure && said.length === 0 && !isOutOfMemory) throw failure;
    if (!failure && said.length === 1 && said[0]?.startsWith('must')) throw new Error('it is not refused');
    const got = failure ? {} : gather(made, result);
    // What is returned is new, unless it was given.
    const options = Object.values(Object.getOwnPropertyDescriptors(made.options)).map(({ value }) => value as unknown);
    const given = new Set([...options, ...scene.held.map(({ data }) => data())]);
    for (const each of new Set(Object.values(got))) if (isTensor(each) && !given.has(each)) scene.tensors.push(each);
    if (sn.memory.used !== used + scene.used) throw new Error(`used ${sn.memory.used}, not ${used + scene.used}`);
    scene.held.forEach((held, i) => {
      // What is read and lost on the way is not there to be compared.
      const bytes = held.bytes();
      if (losesThings && bytes.length === 0) return;
      const mayBeWritten = !failure && (said.length > 0 || made.outputs.includes(held));
      if (mayBeWritten || Buffer.compare(bytes, snapshots[i] as Uint8Array) === 0) return;
      throw new Error(`${held.name} is changed ${failure ? 'by what failed' : 'although it is only read'}`);
    });
    if (said.length === 0 && !failure) {
      const { y, dx } = result as Record<string, unknown>;
      const returned = ArrayBuffer.isView(result) || isTensor(result) ? result : (y ?? dx);
      if (made.options.out && returned !== made.options.out) throw new Error('out is not what is returned');
      checkOutputs(call, got);
      checkAround(made);
      ++count.valid;
    } else {
      ++count[isOutOfMemory ? 'outOfMemory' : failure ? 'refused' : 'wrong'];
    }
    const after = bytesOf(sn.layerNorm(fixed));
    if (Buffer.compare(after, before) !== 0) throw new Error('a later call gives other bits');
  } catch (error) {
    const what = [...said, ...scene.held.map(({ name, how }) => `${name} ${how}`)].join(', ');
    throw new Error(`seed ${seed}: ${describe(call)}: ${what}: ${error}`, { cause: error });
  } finally {
    scene.freeAll();
  }
  if (sn.memory.used !== used) throw new Error(`seed ${seed}: ${sn.memory.used - used} bytes are lost`);
}

/** What lies beside outputs is as it was. */
function checkAround({ outputs }: Made): void {
  for (const { name, how, again, owner, buffer } of outputs) {
    const values = again();
    if (how === 'plain' || how === 'Tensor') continue;
    const all = owner
      ? owner.data
      : new ((values as Floats).constructor as Float32ArrayConstructor)(buffer as ArrayBuffer);
    const length = (values as Floats).length;
    const right = (all as Float32Array).slice(0, 1).fill(canary)[0];
    const begin = ArrayBuffer.isView(values)
      ? (values.byteOffset - (all as Float32Array).byteOffset) / (all as Float32Array).BYTES_PER_ELEMENT
      : undefined;
    const wrong = (all as Float32Array).reduce((sum, value) => sum + (Object.is(value, right) ? 0 : 1), 0);
    if (wrong > length) throw new Error(`${name}: something beside it is written`);
    if (begin === undefined) continue;
    (all as Float32Array).forEach((value, i) => {
      if ((i < begin || i >= begin + length) && !Object.is(value, right))
        throw new Error(`${name}: written at ${i - begin}`);
    });
  }
}

test(
  'random calls give the right result or a NormError',
  async () => {
    const end = performance.now() + 1000 * seconds;
    const isDone = () => onlySeed !== undefined || performance.now() >= end;
    let seed = firstSeed;
    do {
      const pairs = [await makePair(false), await makePair(true)] as const;
      // A seed says all of its call, but for what the calls before it have left in the memory.
      do {
        tryCall(pairs[seed % 16 === 0 ? 1 : 0], seed++);
      } while (!isDone() && seed % 1024 !== 0);
      for (const { sn, other, bits } of pairs) {
        expect(fingerprint(sn)).toBe(bits);
        expect(sn.memory.used).toBe(0);
        sn.dispose();
        other.dispose();
      }
    } while (!isDone());
    console.log(`${seed - firstSeed} calls from seed ${firstSeed}: ${JSON.stringify(count)}`);
  },
  1000 * (seconds + 60),
);

// ---------------------------------------------------------------- layers

const layerArguments = (dice: Dice): readonly [string, unknown[]] => {
  const n = 1 + dice.below(5);
  return dice.oneOf<readonly [string, unknown[]]>([
    ['LayerNorm', [n]],
    ['RmsNorm', [[2, n]]],
    ['GroupNorm', [2, 2 * n, { epsilon: 1e-3 }]],
    ['InstanceNorm', [n, { affine: dice.chance(0.5) }]],
    ['BatchNorm', [n, { momentum: dice.oneOf([0.1, null, 1]), unbiased: dice.chance(0.5) }]],
  ]);
};

interface AnyLayer {
  training: boolean;
  readonly parameters: readonly { readonly value: Float32Array; readonly gradient: Float32Array }[];
  toJSON(): object;
  [method: string]: unknown;
}

/** What an error may not change. (The gradients are no part of the JSON.) */
function stateOf(layer: AnyLayer): string {
  const gradients = layer.parameters.map(({ gradient }) => Buffer.from(bytesOf(gradient)).toString('hex'));
  return JSON.stringify([layer, gradients]);
}

/** One layer, and calls of its methods, right and wrong. */
function tryLayer({ sn }: Pair, seed: number): void {
  const dice = new Dice(seed);
  const [name, given] = layerArguments(dice);
  const said = [`new ${name}(${JSON.stringify(given)})`];
  const Layer = (sn as unknown as Record<string, new (...given: unknown[]) => AnyLayer>)[name];
  const wrong = garbage(dice);
  // A layer of 2^32 parameters is right, where there is memory for it.
  if (dice.chance(0.2) && !(typeof wrong === 'number' && wrong > 1e6)) given[dice.below(3)] = wrong;
  const { used } = sn.memory;
  const refused = (error: unknown): void => {
    if (!(error instanceof NormError) || /trap|the stack/.test(error.message)) throw error;
  };
  try {
    let layer: AnyLayer;
    try {
      layer = new (Layer as NonNullable<typeof Layer>)(...given);
    } catch (error) {
      refused(error);
      return;
    }
    const size = layer.parameters[0]?.value.length ?? 2;
    const dtype = dice.oneOf(['float32', 'float32', 'float64'] as const);
    const shape = name.endsWith('erNorm') || name === 'RmsNorm' ? undefined : [4, size, 3];
    const values = (length: number) => ofType(dtype, draw(length, dice.next())).x;
    const length = shape ? 12 * size : 4 * size;
    for (let i = dice.below(12); i > 0; --i) {
      const method = dice.oneOf([
        'forward',
        'forward',
        'backward',
        'backward',
        'train',
        'eval',
        'zeroGradients',
        'fromJSON',
      ]);
      const isWrong = dice.chance(0.3);
      const data = isWrong && dice.chance(0.5) ? garbage(dice) : values(isWrong ? dice.below(40) : length);
      const out = ofType(dtype, new Float32Array(length).fill(canary)).x;
      const options: Options = {};
      if (method === 'forward' && shape) options.shape = shape;
      if (dice.chance(0.3)) options.out = out;
      if (isWrong && dice.chance(0.5)) {
        const option = dice.oneOf(names);
        Object.defineProperty(options, option, { value: garbage(dice), enumerable: true, configurable: true });
      }
      said.push(`${method}${isWrong ? ' (wrong)' : ''}`);
      const before = stateOf(layer);
      const outBefore = bytesOf(out);
      try {
        if (method === 'fromJSON') {
          const from = (Layer as unknown as { fromJSON(json: unknown): AnyLayer }).fromJSON;
          const json = JSON.parse(JSON.stringify(layer)) as Record<string, unknown>;
          if (isWrong) json[dice.oneOf(Object.keys(json))] = garbage(dice);
          const again = from(json);
          if (!isWrong && JSON.stringify(again) !== JSON.stringify(layer)) throw new Error('the JSON changes');
        } else {
          (layer[method] as (...given: unknown[]) => unknown)(data, options);
        }
      } catch (error) {
        refused(error);
        if (stateOf(layer) !== before) throw new Error(`what failed has changed the layer: ${error}`);
        if (Buffer.compare(bytesOf(out), outBefore) !== 0) throw new Error(`what failed has changed out: ${error}`);
      }
    }
    if (sn.memory.used !== used) throw new Error(`used ${sn.memory.used}, not ${used}`);
  } catch (error) {
    throw new Error(`seed ${seed}: ${said.join(', ')}: ${error}`, { cause: error });
  }
}

test('random calls of layers give a NormError that changes nothing, or none', async () => {
  const pair = await makePair(false);
  const end = performance.now() + 1000 * Math.min(5, seconds / 4);
  let seed = firstSeed;
  do tryLayer(pair, seed++);
  while (onlySeed === undefined && performance.now() < end);
  expect(fingerprint(pair.sn)).toBe(pair.bits);
  console.log(`${seed - firstSeed} layers from seed ${firstSeed}`);
});

// ---------------------------------------------------------------- what is no operation

/** What may have been given is what it was, or garbage. */
function spoiled<V>(dice: Dice, given: readonly V[]): unknown[] {
  return given.map((each) => (dice.chance(0.25) ? garbage(dice) : each));
}

/** Makes a Tensor or folds a batch norm, and looks at what came of it. */
function tryOther({ sn }: Pair, seed: number): void {
  const dice = new Dice(seed);
  const numbers = (n: number) => ofType(dice.oneOf(['float32', 'float64', 'float16']), draw(n, dice.next())).x;
  const tensors: AnyTensor[] = [];
  const { used } = sn.memory;
  const steps: readonly (() => void)[] = [
    () => {
      const make = sn.tensor as (...given: unknown[]) => AnyTensor;
      const dtype = dice.oneOf([undefined, 'float32', 'float64', 'float16']);
      tensors.push(make(...spoiled<unknown>(dice, [[3, 4], dice.chance(0.3) ? null : numbers(12), dtype])));
    },
    () => {
      const tensor = tensors.at(-1);
      const subarray = tensor?.subarray as ((...given: unknown[]) => AnyTensor) | undefined;
      if (tensor) tensors.push(subarray?.call(tensor, ...spoiled(dice, [1, 4])) as AnyTensor);
    },
    () => tensors.at(-1)?.free(),
    () => {
      const fold = sn.foldBatchNorm as (...given: unknown[]) => { weight: Floats; bias: Floats };
      const norm = { mean: draw(3, 1), variance: drawVariance(3, 2), scale: draw(3, 3), bias: draw(3, 4) };
      const name = dice.oneOf([...Object.keys(norm), 'none', 'epsilon']);
      const given = dice.chance(0.3)
        ? new sn.BatchNorm(3)
        : { ...norm, ...(name !== 'none' && { [name]: garbage(dice) }) };
      const folded = fold(
        ...spoiled<unknown>(dice, [numbers(12), dice.chance(0.5) ? null : numbers(3), given, { shape: [3, 4] }]),
      );
      if (folded.weight.length !== 12 || folded.bias.length !== 3) throw new Error('nothing is folded');
    },
  ];
  try {
    for (let i = 1 + dice.below(4); i > 0; --i) {
      try {
        dice.oneOf(steps)();
      } catch (error) {
        if (!(error instanceof NormError) || error.code === 'ERR_STATE') throw error;
      }
    }
    for (const tensor of tensors) tensor.free();
    if (sn.memory.used !== used) throw new Error(`${sn.memory.used - used} bytes are lost`);
  } catch (error) {
    throw new Error(`seed ${seed}: ${error}`, { cause: error });
  }
}

test('random Tensors and folds give a NormError that changes nothing, or none', async () => {
  const pair = await makePair(false);
  for (let i = 0; i < (onlySeed === undefined ? 5000 : 1); ++i) tryOther(pair, firstSeed + i);
  expect(fingerprint(pair.sn)).toBe(pair.bits);
});
