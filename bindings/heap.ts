// The module's memory: the only file that reads and writes it, and the only one that knows that it can grow.

import { NormError } from './errors.js';

/** What embind exports: addresses in, an address or a status out. */
export interface Kernels {
  readonly layerNorm: (call: number) => number;
  readonly batchNorm: (call: number) => number;
  readonly batchNormTraining: (call: number) => number;
  readonly moments: (call: number) => number;
  readonly allocate: (bytes: number) => number;
  readonly release: (address: number) => void;
}

const { set } = Float32Array.prototype;

/** Misaligned data costs the kernels 10 to 30% in cache. */
const alignment = 64;
/** What an address can reach; the last page is left out, so that no end of a range wraps to 0. */
const addressable = 2 ** 32 - 65536;

export function alignedBytes(length: number): number {
  return Math.ceil((4 * length) / alignment) * alignment;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** A new array for a result, if the engine has room for one. */
export function resultArray(op: string, length: number, make = () => new Float32Array(length)): Float32Array {
  try {
    return make();
  } catch (cause) {
    const bytes = mebibytes(4 * length);
    throw new NormError('ERR_MEMORY', op, `the engine has no room for a result of ${bytes}: pass out`, { cause });
  }
}

export class Heap {
  // Views die when the memory grows. Their length says so, and costs far less to ask for than `memory.buffer`.
  #float32 = new Float32Array(0);
  #uint32 = new Uint32Array(0);
  #float64 = new Float64Array(0);
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
    this.#float32 = new Float32Array(0);
    this.#uint32 = new Uint32Array(0);
    this.#float64 = new Float64Array(0);
    this.#ended();
  }

  /** The address of `bytes` bytes that stay the caller's until the next reserve. put() and skip() fill them. */
  reserve(op: string, bytes: number): number {
    if (this.#end === 'disposed') throw new NormError('ERR_FREED', op, 'this instance has been disposed of');
    if (this.#end === 'trapped') {
      throw new NormError('ERR_STATE', op, 'an earlier call trapped, so this instance is unusable: load a new one');
    }
    if (bytes > this.#capacity) this.#grow(op, bytes);
    if (this.#float32.length === 0) this.#refresh();
    this.#next = this.#workspace;
    return this.#workspace;
  }

  /** Passes over some of the reserved bytes; returns their address. */
  skip(bytes: number): number {
    const address = this.#next;
    this.#next += bytes;
    return address;
  }

  /** Copies values into the reserved bytes, as float32; returns their address. */
  put(values: Float32Array | Float64Array): number {
    const address = this.skip(alignedBytes(values.length));
    this.#float32.set(values, address >>> 2);
    return address;
  }

  #grow(op: string, bytes: number): void {
    const { allocate, release } = this.kernels;
    if (this.#workspace) release(this.#workspace);
    this.#workspace = 0;
    const before = this.#capacity;
    this.#capacity = 0;
    if (bytes <= addressable) {
      // Some more than asked for, so that calls of slowly growing sizes don't allocate each time.
      const ample = Math.min(Math.max(bytes, Math.ceil((1.25 * before) / alignment) * alignment), addressable);
      for (const size of ample > bytes ? [ample, bytes] : [bytes]) {
        this.#workspace = allocate(size) >>> 0;
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

  #refresh(): void {
    const { buffer } = this.#memory;
    this.#float32 = new Float32Array(buffer);
    this.#uint32 = new Uint32Array(buffer);
    this.#float64 = new Float64Array(buffer);
  }

  writeWord(address: number, value: number): void {
    this.#uint32[address >>> 2] = value;
  }

  writeDouble(address: number, value: number): void {
    this.#float64[address >>> 3] = value;
  }

  copyOut(address: number, values: Float32Array): void {
    // Not values.set(), which a subclass may have replaced.
    set.call(values, this.#float32.subarray(address >>> 2, (address >>> 2) + values.length));
  }

  copy(op: string, address: number, length: number): Float32Array {
    return resultArray(op, length, () => this.#float32.slice(address >>> 2, (address >>> 2) + length));
  }

  /** Runs a kernel on the block at an address. No checked call traps; if one did, what it left can't be trusted. */
  run(op: string, kernel: (call: number) => number, address: number): number {
    try {
      return kernel(address);
    } catch (cause) {
      this.end('trapped');
      throw new NormError('ERR_STATE', op, 'the module trapped, which is a bug in simdnorm: load a new instance', {
        cause,
      });
    }
  }
}
