// The module's memory: the only file that reads and writes it, and the only one that knows that it can grow.

import { bitsOf, bytesOf, type DType, halvesLike, lengthOf, type Values } from './dtype.js';
import { NormError } from './errors.js';

/** What embind exports: an address in, a status or an address out. The operations are there by their names. */
export type Kernel = (call: number) => number;
export interface Kernels {
  readonly [operation: string]: Kernel;
  readonly allocate: (bytes: number) => number;
  readonly release: (address: number) => number;
}

const { set } = Object.getPrototypeOf(Uint8Array.prototype) as { set: (values: ArrayLike<number>) => void };

/** Misaligned data costs the kernels 10 to 30% in cache. */
const alignment = 64;
/** What an address can reach; the last page is left out, so that no end of a range wraps to 0. */
const addressable = 2 ** 32 - 65536;

export function aligned(bytes: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** A new array for a result, if the engine has room for one. */
export function resultArray<A>(op: string, bytes: number, make: () => A): A {
  try {
    return make();
  } catch (cause) {
    const room = mebibytes(bytes);
    throw new NormError('ERR_MEMORY', op, `the engine has no room for a result of ${room}: pass out`, { cause });
  }
}

export class Heap {
  // Views die when the memory grows. Their length says so, and costs far less to ask for than `memory.buffer`.
  #float32 = new Float32Array(0);
  #float64 = new Float64Array(0);
  #uint32 = new Uint32Array(0);
  #uint16 = new Uint16Array(0);
  /** Scratch of the calls, which only grows; so usually nothing is allocated. */
  #workspace = 0;
  #capacity = 0;
  #next = 0;
  /** Why the instance can't be used any more. */
  #end: 'disposed' | 'trapped' | undefined;
  readonly kernels: Kernels;
  readonly #memory: WebAssembly.Memory;
  readonly limit: number;
  readonly #ended: () => void;

  constructor(kernels: Kernels, memory: WebAssembly.Memory, limit: number, ended: () => void) {
    this.kernels = kernels;
    this.#memory = memory;
    this.limit = limit;
    this.#ended = ended;
  }

  get bytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** Makes every later call an error, and lets go of the memory. */
  end(why: 'disposed' | 'trapped'): void {
    this.#end = why;
    this.#view(new ArrayBuffer(0));
    this.#ended();
  }

  /** The address of `bytes` bytes that stay the caller's until the next reserve. skip() divides them. */
  reserve(op: string, bytes: number): number {
    if (this.#end === 'disposed') throw new NormError('ERR_FREED', op, 'this instance has been disposed of');
    if (this.#end === 'trapped') {
      throw new NormError('ERR_STATE', op, 'an earlier call trapped, so this instance is unusable: load a new one');
    }
    if (bytes > this.#capacity) this.#grow(op, bytes);
    if (this.#float32.length === 0) this.#view(this.#memory.buffer);
    this.#next = this.#workspace;
    return this.#workspace;
  }

  /** The address of the next of the reserved bytes, and passes over them and what aligns those that follow. */
  skip(bytes: number): number {
    const address = this.#next;
    this.#next += aligned(bytes);
    return address;
  }

  #grow(op: string, bytes: number): void {
    const { allocate, release } = this.kernels;
    if (this.#workspace) this.run(op, release, this.#workspace);
    this.#workspace = 0;
    const before = this.#capacity;
    this.#capacity = 0;
    if (bytes <= addressable) {
      // Some more than asked for, so that calls of slowly growing sizes don't allocate each time.
      const ample = Math.min(Math.max(bytes, aligned(1.25 * before)), addressable);
      for (const size of ample > bytes ? [ample, bytes] : [bytes]) {
        this.#workspace = this.run(op, allocate, size) >>> 0;
        if (this.#workspace) {
          this.#capacity = size;
          return;
        }
      }
    }
    throw new NormError(
      'ERR_MEMORY',
      op,
      `this call needs ${mebibytes(bytes)} of the module's memory, whose limit is ${mebibytes(this.limit)}`,
    );
  }

  #view(buffer: ArrayBuffer): void {
    this.#float32 = new Float32Array(buffer);
    this.#float64 = new Float64Array(buffer);
    this.#uint32 = new Uint32Array(buffer);
    this.#uint16 = new Uint16Array(buffer);
  }

  writeWord(address: number, value: number): void {
    this.#uint32[address >>> 2] = value;
  }

  readWord(address: number): number {
    return this.#uint32[address >>> 2] as number;
  }

  writeDouble(address: number, value: number): void {
    this.#float64[address >>> 3] = value;
  }

  /** Copies values in, converted to a type where it isn't theirs. */
  copyIn(address: number, values: Values, dtype: DType): void {
    if (dtype === 'float32') {
      this.#float32.set(values, address >>> 2);
    } else if (dtype === 'float64') {
      this.#float64.set(values, address >>> 3);
    } else {
      this.#uint16.set(bitsOf(values), address >>> 1);
    }
  }

  copyWordsIn(address: number, words: ArrayLike<number>): void {
    this.#uint32.set(words, address >>> 2);
  }

  #values(address: number, length: number, dtype: DType): Values {
    const view = dtype === 'float32' ? this.#float32 : dtype === 'float64' ? this.#float64 : this.#uint16;
    const first = address / bytesOf(dtype);
    return view.subarray(first, first + length);
  }

  copyOut(address: number, values: Values, dtype: DType): void {
    const length = lengthOf(values);
    // A buffer may have shrunk beneath an empty array, which set() refuses then.
    if (length === 0) return;
    // Not target.set(), which a subclass may have replaced.
    set.call(dtype === 'float16' ? bitsOf(values) : values, this.#values(address, length, dtype));
  }

  /** A new array of the same class as another, with what is at an address. */
  copy(op: string, address: number, length: number, like: Values, dtype: DType): Values {
    return resultArray(op, length * bytesOf(dtype), () => {
      const values = this.#values(address, length, dtype).slice();
      return dtype === 'float16' ? halvesLike(like, values as Uint16Array) : values;
    });
  }

  /** Calls the module. No checked call traps; if one did, what it left can't be trusted. */
  run(op: string, kernel: Kernel, argument: number): number {
    try {
      return kernel(argument);
    } catch (cause) {
      this.end('trapped');
      throw new NormError('ERR_STATE', op, 'the module trapped, which is a bug in simdnorm: load a new instance', {
        cause,
      });
    }
  }
}
