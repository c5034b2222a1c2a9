// What both kinds of vectors have in common: arrays of a type, and how results are compared with them.

import { existsSync, readFileSync } from 'node:fs';
import { fromBits, toBits } from '../js/float16-conversion.ts';
import { ulps as float32Ulps } from '../js/reference.ts';

// Beside the project, not in it: a public clone has none.
const folder = new URL('../../../shared/conformance/', import.meta.url);

/** null where the vectors are absent. */
export function readVectors<T>(file: string): T | null {
  const url = new URL(file, folder);
  return existsSync(url) ? (JSON.parse(readFileSync(url, 'utf8')) as T) : null;
}

/** float16 as its bits. */
export type Values = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

export interface Tensor {
  readonly shape: readonly number[];
  readonly values: Values;
}

function numberOf(value: unknown): number {
  if (typeof value === 'number') return value;
  // JSON has no numbers for these.
  const special = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity }[String(value)];
  if (special === undefined) throw new Error(`no number: ${JSON.stringify(value)}`);
  return special;
}

/** Decimals as they stand in a file, rounded to the type. One number alone fills the shape. */
export function tensorOf(data: unknown, shape: readonly number[], dtype: string): Tensor {
  const length = shape.reduce((product, extent) => product * extent, 1);
  const list: unknown[] = Array.isArray(data) ? data : Array.from({ length }, () => data);
  if (list.length !== length) throw new Error(`${list.length} values for [${shape.join(', ')}]`);
  const numbers = list.map(numberOf);
  if (dtype === 'float32') return { shape, values: Float32Array.from(numbers) };
  if (dtype === 'float64') return { shape, values: Float64Array.from(numbers) };
  if (dtype === 'float16') return { shape, values: Uint16Array.from(numbers, toBits) };
  throw new Error(`unknown data type '${dtype}'`);
}

export function typeOf(values: Values): 'float32' | 'float64' | 'float16' {
  if (values instanceof Float32Array) return 'float32';
  return values instanceof Float64Array ? 'float64' : 'float16';
}

export function numbersOf(values: Values): number[] {
  return values instanceof Uint16Array ? Array.from(values, fromBits) : Array.from(values);
}

/** The options that say what x is. */
export function describeInput({ shape, values }: Tensor) {
  return { shape, dtype: values instanceof Uint16Array ? ('float16' as const) : undefined };
}

/** A parameter beside x: bits say what they are only where x's do. */
export function parameterBeside(x: Tensor, parameter: Tensor | undefined): Values | number[] | undefined {
  if (!parameter) return undefined;
  const isUnclear = parameter.values instanceof Uint16Array && !(x.values instanceof Uint16Array);
  return isUnclear ? numbersOf(parameter.values) : parameter.values;
}

/** The float16's place among all float16 in ascending order. */
function placeOfBits(bits: number): number {
  return bits & 0x8000 ? 0x8000 - bits : bits;
}

function ulps(got: number, expected: number, dtype: string): number {
  if (Object.is(got, expected) || got === expected) return 0;
  if (Number.isNaN(got) || Number.isNaN(expected)) return Infinity;
  if (dtype === 'float16') return Math.abs(placeOfBits(toBits(got)) - placeOfBits(toBits(expected)));
  return float32Ulps(got, expected);
}

/** A distance between values of a type, how large it may be, and what it is called. */
export interface Measure {
  readonly distance: (got: number, expected: number, dtype: string) => number;
  readonly limit: number;
  readonly unit: string;
}

export function ulpMeasure(limit: number): Measure {
  return { distance: ulps, limit, unit: 'ULP' };
}

/** numpy.testing.assert_allclose, in units of what it allows. Where float16 is rounded, both may take a neighbour. */
export function closeMeasure(rtol: number, atol: number): Measure {
  const distance = (got: number, expected: number, dtype: string) => {
    if (Object.is(got, expected) || got === expected) return 0;
    const step = dtype === 'float16' ? Math.max(2 ** -10 * Math.abs(expected), 2 ** -24) : 0;
    const share = Math.abs(got - expected) / (atol + rtol * Math.abs(expected) + step);
    return Number.isNaN(share) ? Infinity : share;
  };
  return { distance, limit: 1, unit: `of rtol ${rtol}, atol ${atol}` };
}

export interface Worst {
  readonly distance: number;
  readonly message: string;
}

/** The worst value of an output. NaN is right where NaN is expected, and wrong elsewhere. */
export function compare(what: string, got: Values, expected: Tensor, { distance, limit, unit }: Measure): Worst {
  const shape = `[${expected.shape.join(', ')}]`;
  if (got.length !== expected.values.length) {
    throw new Error(`${what} ${shape}: expected ${expected.values.length} values, got ${got.length}`);
  }
  const dtype = typeOf(expected.values);
  const right = numbersOf(expected.values);
  let worst: Worst = { distance: 0, message: '' };
  numbersOf(got).forEach((value, i) => {
    const each = right[i] as number;
    const far = distance(value, each, dtype);
    if (far <= worst.distance) return;
    const distances = `${ulps(value, each, dtype)} ULP, error ${Math.abs(value - each)}, ${far} ${unit}, limit ${limit}`;
    worst = { distance: far, message: `${what} ${shape}[${i}]: expected ${each}, got ${value}, ${distances}` };
  });
  return worst;
}

/** The worst of each operator, a line each. */
export class WorstOfEach {
  readonly #worst = new Map<string, Worst>();

  add(operator: string, worst: Worst): void {
    const last = this.#worst.get(operator);
    if (!last || worst.distance > last.distance) this.#worst.set(operator, worst);
  }

  get lines(): string {
    const line = ({ distance, message }: Worst) => (distance === 0 ? 'exact' : `worst is ${message}`);
    return [...this.#worst].map(([operator, worst]) => `${operator}: ${line(worst)}`).join('\n');
  }
}
