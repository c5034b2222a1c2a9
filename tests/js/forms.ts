// The forms that the arguments of a call may have: arrays, Tensors, windows on them and views of the module's memory; and
// a call of any operation with any of them.

import type { Simdnorm, Tensor } from 'simdnorm';
import { expect } from 'vitest';
import {
  type AnyOp,
  call,
  type DType,
  dtypes,
  type Floats,
  forwardOf,
  isBackward,
  isOverAxes,
  type Options,
  ofType,
  ragged,
  required,
  vectors,
  withBackward,
  written,
} from './calls.ts';
import { canary, draw, drawVariance, product, type Random } from './data.ts';
import { narrow, widen } from './float16-conversion.ts';
import { countOf, groupsOf, type Layout, layoutOptions, parameterLength } from './layouts.ts';
import { expectBits } from './reference.ts';

export type Data = Floats | Tensor;

export function isTensor(value: unknown): value is Tensor {
  return typeof value === 'object' && value !== null && 'free' in value;
}

/** The values that are there now, of float16 the bits. */
export function valuesOf(data: Data): Floats {
  const view = isTensor(data) ? (data.data as Floats) : data;
  if (view.BYTES_PER_ELEMENT !== 2) return view;
  // Where the engine has a Float16Array, it is one.
  return new Uint16Array(view.buffer, view.byteOffset, view.length);
}

export function bytesOf(values: ArrayBufferView): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** What a call returns where `out` would be. */
export function resultOf(returned: unknown): Data {
  if (ArrayBuffer.isView(returned) || isTensor(returned)) return returned as Data;
  const { y, dx } = returned as { y?: Data; dx?: Data };
  return (y ?? dx) as Data;
}

export function statisticsOf(dtype: DType): DType {
  return dtype === 'float64' ? 'float64' : 'float32';
}

export const forms = ['array', 'window', 'shared', 'tensor', 'tensorWindow', 'data', 'dataWindow'] as const;
export type Form = (typeof forms)[number];
const kindOfForm = (form: Form) =>
  form.replace('Window', '').replace(/window|shared/, 'array') as 'array' | 'tensor' | 'data';
const isWindow = (form: Form) => /window|shared/i.test(form);

const kindOf = (values: Floats) => values.constructor as new (from: number | SharedArrayBuffer) => Floats;

function sharedCopyOf(values: Floats): Floats {
  const copy = new (kindOf(values))(new SharedArrayBuffer(values.byteLength));
  copy.set(values);
  return copy;
}

/** To make float16 takes longer than the calls that are given it. */
const conversions = { float32: new WeakMap(), float64: new WeakMap(), float16: new WeakMap() } as const;

function converted(dtype: DType, values: ArrayLike<number>): Floats {
  const known: WeakMap<object, Floats> = conversions[dtype];
  const made = known.get(values) ?? ofType(dtype, values).x;
  known.set(values, made);
  return made;
}

const canaries = new Map<number, Float32Array>();

function canariesOf(length: number): Float32Array {
  const made = canaries.get(length) ?? new Float32Array(length).fill(canary);
  canaries.set(length, made);
  return made;
}

/** Values in one of the forms; windows begin at an odd place, among canaries. */
export class Argument {
  readonly #memory: Data;
  readonly #before: Floats;
  readonly #begin: number;
  readonly #end: number;
  readonly values: Floats;

  constructor(
    instance: Simdnorm,
    readonly form: Form,
    values: ArrayLike<number>,
    dtype: DType,
    shape: readonly number[],
    begin: number,
  ) {
    const x = converted(dtype, values);
    this.values = x;
    this.#begin = isWindow(form) ? begin : 0;
    this.#end = this.#begin + x.length;
    const all = new (kindOf(x))(this.#end + (isWindow(form) ? 5 : 0)).fill(ofType(dtype, [canary]).x[0] as number);
    all.set(x, this.#begin);
    this.#before = all.slice();
    if (form === 'shared') this.#memory = sharedCopyOf(all);
    else if (kindOfForm(form) === 'array') this.#memory = all;
    else this.#memory = instance.tensor(isWindow(form) ? [all.length] : shape, all, dtype);
  }

  /** To be asked for when all arguments are made: what is made may grow the memory, which detaches views. */
  given(as = kindOfForm(this.form)): Data {
    if (!isTensor(this.#memory)) return this.#memory.subarray(this.#begin, this.#end);
    if (as === 'data') {
      const view = this.#memory.data as Floats;
      return isWindow(this.form) ? view.subarray(this.#begin, this.#end) : view;
    }
    return isWindow(this.form) ? this.#memory.subarray(this.#begin, this.#end) : this.#memory;
  }

  get now(): Floats {
    return valuesOf(this.#memory).subarray(this.#begin, this.#end);
  }

  /** Whether all is as it was around the values; or everywhere. */
  isUntouched(everywhere: boolean): boolean {
    const now = valuesOf(this.#memory).slice();
    if (!everywhere) now.set(this.#before.subarray(this.#begin, this.#end), this.#begin);
    return Buffer.compare(bytesOf(now), bytesOf(this.#before)) === 0;
  }

  free(): void {
    if (isTensor(this.#memory)) this.#memory.free();
  }
}

export interface Case {
  readonly op: AnyOp;
  readonly dtype: DType;
  readonly layout: Layout;
  /** Everything but arrays. */
  readonly options: Options;
  readonly inputs: Readonly<Record<string, { values: Float32Array; isParameter: boolean }>>;
  readonly outputs: Readonly<Record<string, { length: number; type: DType }>>;
}

export function caseOf(op: AnyOp, dtype: DType, place: Omit<Layout, 'op'>, lengths?: readonly number[]): Case {
  const layout = { ...place, op: forwardOf(op) };
  const size = product(layout.shape);
  const units = parameterLength(layout);
  const groups = countOf(groupsOf(layout));
  const inputs: Record<string, { values: Float32Array; isParameter: boolean }> = {};
  const input = (name: string, values: Float32Array, isParameter = false) => {
    // What every type can hold, so that conversions change nothing.
    inputs[name] = { values: widen(narrow(values)), isParameter };
  };
  input('x', draw(size, 1));
  if (isBackward(op)) input('dy', draw(size, 2));
  if ('residualOut' in written[op]) input('residual', draw(size, 3));
  for (const [i, name] of vectors[op].entries()) {
    const isStatistic = op !== 'batchNorm' && op !== 'batchNormBackward' && (name === 'mean' || name === 'invStd');
    const length = isStatistic ? groups : units;
    input(name, name === 'variance' || name === 'invStd' ? drawVariance(length, 4 + i) : draw(length, 4 + i), true);
  }
  const outputs: Record<string, { length: number; type: DType }> = {};
  for (const name of Object.keys(written[op])) {
    const isLikeX = name === 'out' || name === 'residualOut';
    const length = isLikeX ? size : name.startsWith('d') ? units : groups;
    outputs[name] = { length, type: isLikeX ? dtype : statisticsOf(dtype) };
  }
  // Not `groups`, which only group norm has, and not what is given as an array above.
  const { mean: _, variance: __, ...others } = required[op];
  return { op, dtype, layout, options: { ...others, ...layoutOptions(layout), lengths }, inputs, outputs };
}

export const places: readonly Omit<Layout, 'op'>[] = [
  { shape: [3, 37], axes: [1], axis: 1, groups: 1 },
  { shape: [4, 5, 6], axes: [2, 0], axis: 1, groups: 5 },
  { shape: [3, 7, 6], axes: [1, 2], axis: 2, groups: 2 },
  { shape: [9, 68], axes: [0], axis: 1, groups: 4 },
];

export function casesOf(op: AnyOp, dtype: DType): Case[] {
  const cases = places.map((place) => caseOf(op, dtype, place));
  if (!withBackward(ragged).includes(op)) return cases;
  for (const place of places) {
    if (isOverAxes(op) || place.axis !== 1) {
      const [items, extent] = place.shape as [number, number];
      const lengths = Array.from({ length: items }, (_, i) => (i === 1 ? extent : (3 * i + 2) % (extent + 1)));
      cases.push(caseOf(op, dtype, place, lengths));
    }
  }
  return cases;
}

/** How the arguments of a call are given. */
export interface Plan {
  form(name: string): Form;
  /** Of a parameter. */
  type(name: string): DType;
  /** Where an output goes: a place of its own, that of another argument, or nowhere. */
  place(name: string): 'own' | 'absent' | 'x' | 'dy' | 'residual';
  /** Whether an output in another's place is given in the same way. */
  isSame: boolean;
  hasShape: boolean;
  begin: number;
  /** Called when all is made, before views of it are taken. */
  prepare?(): void;
}

export const plain: Plan = {
  form: () => 'array',
  type: () => 'float32',
  place: () => 'own',
  isSame: true,
  hasShape: true,
  begin: 1,
};

/** The names of outputs, in what a call returns. */
export const returnedAs: Readonly<Record<string, string>> = {
  mean: 'meanOut',
  variance: 'varianceOut',
  invStd: 'invStdOut',
  dScale: 'dScaleOut',
  dBias: 'dBiasOut',
};

/** All that a call computes, by the names of outputs. */
export function compute(instance: Simdnorm, c: Case, plan: Plan): Record<string, Floats> {
  const { op, dtype, layout } = c;
  const made: Record<string, Argument> = {};
  for (const [name, { values, isParameter }] of Object.entries(c.inputs)) {
    const type = isParameter ? plan.type(name) : dtype;
    const shape = isParameter ? [values.length] : layout.shape;
    made[name] = new Argument(instance, plan.form(name), values, type, shape, plan.begin);
  }
  for (const [name, { length, type }] of Object.entries(c.outputs)) {
    if (plan.place(name) !== 'own') continue;
    const shape = name === 'out' ? layout.shape : [length];
    made[name] = new Argument(instance, plan.form(name), canariesOf(length), type, shape, plan.begin + 2);
  }
  plan.prepare?.();
  const given: Record<string, Data> = {};
  for (const [name, argument] of Object.entries(made)) given[name] = argument.given();
  /** The arguments where the outputs are. */
  const found: Record<string, Argument> = {};
  for (const name of Object.keys(c.outputs)) {
    const place = plan.place(name);
    if (place === 'absent') continue;
    const argument = made[place === 'own' ? name : place] as Argument;
    found[name] = argument;
    if (place === 'own') continue;
    const kind = kindOfForm(argument.form);
    given[name] = plan.isSame ? (given[place] as Data) : argument.given(kind === 'tensor' ? 'data' : 'tensor');
  }
  const { x, dy, ...rest } = given;
  const hasBits = [x, ...vectors[op].map((name) => rest[name])].some((value) => value instanceof Uint16Array);
  const shape = plan.hasShape || plan.form('x') !== 'tensor' ? layout.shape : undefined;
  const options = { ...c.options, shape, ...rest, dtype: hasBits ? 'float16' : undefined };

  const returned = call(instance, op, x, options, dy);

  const results: Record<string, Floats> = {};
  if (op !== 'moments') {
    const result = resultOf(returned);
    if (given.out) {
      expect(result === given.out).toBe(true);
    } else {
      expect(isTensor(result)).toBe(isTensor(x));
      if (isTensor(result)) {
        expect([result.dtype, ...result.shape]).toEqual([dtype, ...layout.shape]);
      } else expect(Object.prototype.toString.call(result)).toBe(Object.prototype.toString.call(x));
      results.out = valuesOf(result).slice();
      if (isTensor(result)) result.free();
    }
  }
  if (!ArrayBuffer.isView(returned) && !isTensor(returned)) {
    for (const [name, value] of Object.entries(returned as Record<string, Data>)) {
      const output = returnedAs[name];
      if (output && given[output]) expect(value === given[output]).toBe(true);
      else if (output) results[output] = value as Floats;
    }
  }
  const foundIn = new Set(Object.values(found));
  for (const [name, argument] of Object.entries(found)) results[name] = argument.now.slice();
  for (const [name, argument] of Object.entries(made)) {
    if (!argument.isUntouched(!foundIn.has(argument))) throw new Error(`${op} of ${dtype} wrote to ${name}`);
    argument.free();
  }
  return results;
}

export function expectSame(c: Case, got: Record<string, Floats>, expected: Record<string, Floats>): void {
  for (const [output, values] of Object.entries(got)) {
    const { op, layout } = c;
    expectBits({ op: `${op} of ${c.dtype}`, shape: layout.shape, output }, values, expected[output] as Floats);
  }
}

export function pick<T>(random: Random, of: readonly T[]): T {
  return of[random.next() % of.length] as T;
}

export function randomPlan(c: Case, random: Random): Plan {
  const formOf = Object.fromEntries(
    [...Object.keys(c.inputs), ...Object.keys(c.outputs)].map((name) => [name, pick(random, forms)]),
  );
  const typeOf = Object.fromEntries(Object.keys(c.inputs).map((name) => [name, pick(random, dtypes)]));
  const placeOf: Record<string, ReturnType<Plan['place']>> = {};
  for (const name of Object.keys(c.outputs)) {
    const own = ['own', 'own', 'absent'] as const;
    if (name === 'out') placeOf[name] = pick(random, [...own, 'x', ...(isBackward(c.op) ? (['dy'] as const) : [])]);
    else if (name !== 'residualOut') placeOf[name] = pick(random, own);
    else placeOf[name] = pick(random, [...own, 'residual', ...(placeOf.out === 'x' ? [] : (['x'] as const))]);
  }
  return {
    form: (name) => formOf[name] as Form,
    type: (name) => typeOf[name] as DType,
    place: (name) => placeOf[name] as 'own',
    isSame: random.next() % 2 === 0,
    hasShape: random.next() % 2 === 0,
    begin: 1 + 2 * (random.next() % 8),
  };
}
