// Values to test with, the same in every run, and arrays that lie where arrays like to lie.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) + 1) >>> 0;
  }

  /** Marsaglia 2003, "Xorshift RNGs". */
  next(): number {
    let state = this.#state;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.#state = state >>> 0;
    return this.#state;
  }

  /** Between 0 and 1, both left out. */
  unit(): number {
    return (this.next() + 0.5) / 2 ** 32;
  }

  /** Mean 0, deviation 1, roughly normal. */
  bell(): number {
    return (this.unit() + this.unit() + this.unit() + this.unit() - 2) * Math.sqrt(3);
  }
}

/** Not of unit variance: a forgotten 1 / deviation would be invisible. */
export function draw(length: number, seed: number, mean = 0.4, deviation = 3): Float32Array<ArrayBuffer> {
  const random = new Random(seed);
  const values = new Float32Array(length);
  for (let i = 0; i < length; ++i) values[i] = mean + deviation * random.bell();
  return values;
}

/** Factors away from 0, of both signs. */
export function drawScale(length: number, seed: number): Float32Array<ArrayBuffer> {
  return draw(length, seed, 0, 1).map((value) => value + Math.sign(value) * 0.5);
}

export function drawVariance(length: number, seed: number): Float32Array<ArrayBuffer> {
  return draw(length, seed, 0, 2).map((value) => value * value + 0.1);
}

/** No result of any test, so that it shows where something was written that shouldn't. */
export const canary = -12345.678;
const canaries = 5;

export interface Placed {
  readonly values: Float32Array;
  /** Whether everything around the values is as it was. */
  intact(): boolean;
}

/** Values `offset` floats behind an aligned address, with canaries on both sides. */
export function place(values: ArrayLike<number>, offset: number, shared = false): Placed {
  const before = canaries + offset;
  const bytes = 4 * (before + values.length + canaries);
  const memory = new Float32Array(shared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes)).fill(canary);
  memory.set(values, before);
  const after = before + values.length;
  return {
    values: memory.subarray(before, after),
    intact: () => memory.every((value, i) => (i >= before && i < after) || value === Math.fround(canary)),
  };
}

/** A space for `length` values that holds canaries. */
export function placeOut(length: number, offset: number, shared = false): Placed {
  return place(new Float32Array(length).fill(canary), offset, shared);
}

export function product(extents: readonly number[]): number {
  return extents.reduce((result, extent) => result * extent, 1);
}

/** What "absent" and "present" can look like, for a parameter. */
export const kinds: readonly [name: string, make: (values: Float32Array) => unknown][] = [
  ['Float32Array', (values) => values],
  ['Float64Array', (values) => Float64Array.from(values)],
  ['number[]', (values) => Array.from(values)],
  ['undefined', () => undefined],
  ['null', () => null],
];

/** Newer than the types of the ES2023 library. */
export function resizableBuffer(bytes: number, maxByteLength: number): ArrayBuffer & { resize(bytes: number): void } {
  const options = [bytes, { maxByteLength }] as unknown as [number];
  return new ArrayBuffer(...options) as ArrayBuffer & { resize(bytes: number): void };
}

export function growableBuffer(
  bytes: number,
  maxByteLength: number,
): SharedArrayBuffer & { grow(bytes: number): void } {
  const options = [bytes, { maxByteLength }] as unknown as [number];
  return new SharedArrayBuffer(...options) as SharedArrayBuffer & { grow(bytes: number): void };
}

/** A proxy of which nothing can be asked any more. */
export function revoked(target: object = {}): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

/** Values without any, since their buffer has shrunk beneath them. */
export function outOfBounds<A>(kind: new (buffer: ArrayBuffer, offset: number, length: number) => A): A {
  const buffer = resizableBuffer(64, 64);
  const values = new kind(buffer, 32, 4);
  buffer.resize(16);
  return values;
}

/** As a worker's postMessage with a transfer list leaves it. */
export function detach(values: ArrayBufferView): void {
  structuredClone(values.buffer, { transfer: [values.buffer as ArrayBuffer] });
}
