// The module's memory: the only file that reads and writes it, and the only one that knows that it can grow.

import { Allocator, aligned } from './allocator.js';
import { blockWords } from './block.js';
import {
  bitsOf,
  bytesOf,
  type DType,
  type HalfArray,
  halfClass,
  halvesLike,
  lengthOf,
  type Stored,
  setValues,
  type Values,
} from './dtype.js';
import { NormError } from './errors.js';
import type { Plans } from './plan.js';

/** What embind exports: an operation runs on the block of arguments, and a status comes out. */
export type Kernel = () => number;
export type Kernels = {
  /** The address of the block of arguments. */
  readonly block: () => number;
  /** Where the memory begins that the module doesn't use itself. */
  readonly begin: () => number;
  /** Makes the memory at least so large, if it can. (Not memory.grow(), which the glue would not see.) */
  readonly resize: (bytes: number) => boolean;
} & { readonly [operation: string]: Kernel };

function amount(bytes: number): string {
  return bytes < 2 ** 20 ? `${bytes} bytes` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** A new array for a result, if the engine has room for one. */
export function resultArray<A>(op: string, bytes: number, make: () => A): A {
  try {
    return make();
  } catch (cause) {
    const room = amount(bytes);
    throw new NormError('ERR_MEMORY', op, `the engine has no room for a result of ${room}: pass out`, { cause });
  }
}

interface ArrayOf {
  float32: Float32Array;
  float64: Float64Array;
  float16: HalfArray;
}

/** A new array of a type; of float16 in the form of another. */
export function newArray<D extends DType>(op: string, length: number, dtype: D, like?: Values): ArrayOf[D] {
  return resultArray(op, length * bytesOf(dtype), () => {
    if (dtype === 'float32') return new Float32Array(length);
    return dtype === 'float64' ? new Float64Array(length) : halvesLike(like, new Uint16Array(length));
  }) as ArrayOf[D];
}

export class Heap {
  // Views die when the memory grows. Their length says so, and costs far less to ask for than `memory.buffer`.
  #float32 = new Float32Array(0);
  #float64 = new Float64Array(0);
  #uint32 = new Uint32Array(0);
  #uint16 = new Uint16Array(0);
  // Asking a view for its buffer, and making a view, take a tenth of a small call each.
  #buffer: ArrayBufferLike = this.#float32.buffer;
  #copied: Values = this.#float32;
  #copiedFrom = 0;
  /** Scratch of the calls, which only grows; so usually nothing is allocated. */
  #workspace = 0;
  #capacity = 0;
  #next = 0;
  /** What the block of arguments has, since words were last cleared. */
  #written: Uint32Array | undefined;
  #used = 0;
  /** Still when a call is over: it has ended by a trap, or at the end of the stack, where no handler may have run. */
  #isRunning = false;
  /** Why the instance can't be used any more. */
  #end: 'disposed' | 'trapped' | undefined;
  kernels: Kernels;
  /** Where the arguments of a call go. */
  readonly block: number;
  readonly #allocator: Allocator;
  #memory: WebAssembly.Memory | undefined;
  readonly limit: number;
  /** Of each operation that has been called. */
  readonly plans = new Map<string, Plans>();
  readonly #ended: () => void;

  constructor(kernels: Kernels, memory: WebAssembly.Memory, limit: number, ended: () => void) {
    this.kernels = kernels;
    this.block = kernels.block();
    this.#allocator = new Allocator(kernels.begin(), limit, (end) => end <= this.bytes || this.kernels.resize(end));
    this.#memory = memory;
    this.limit = limit;
    this.#ended = ended;
  }

  get bytes(): number {
    return this.#memory?.buffer.byteLength ?? 0;
  }

  /** The memory as it is now. */
  get buffer(): ArrayBufferLike {
    this.#renew();
    return this.#buffer;
  }

  get isEnded(): boolean {
    return this.#end !== undefined || this.#isRunning;
  }

  /** Where what is reserved is, or 0. */
  get workspace(): number {
    return this.#workspace;
  }

  /** How many bytes can be reserved without asking for more. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Bytes of Tensors. */
  get used(): number {
    return this.#used;
  }

  /** Makes every later call an error, and lets go of the memory. */
  end(why: 'disposed' | 'trapped'): void {
    this.#end = why;
    this.#isRunning = false;
    this.#used = 0;
    // Whoever keeps the instance keeps nothing that the memory hangs on.
    this.#memory = undefined;
    this.kernels = {} as Kernels;
    this.plans.clear();
    this.#view(new ArrayBuffer(0));
    this.#ended();
  }

  checkUsable(op: string): void {
    if (this.#isRunning) this.end('trapped');
    if (this.#end === 'disposed') throw new NormError('ERR_FREED', op, 'this instance has been disposed of');
    if (this.#end === 'trapped') {
      throw new NormError('ERR_STATE', op, 'an earlier call trapped, so this instance is unusable: load a new one');
    }
  }

  /** Bytes that stay the caller's until the next reserve. skip() divides them. */
  reserve(op: string, bytes: number): void {
    if (bytes > this.#capacity) this.#grow(op, bytes);
    this.#renew();
    // What is only measured is nowhere, but not absent.
    this.#next = this.#workspace || 64;
  }

  /** The address of the next of the reserved bytes, and passes over them and what aligns those that follow. */
  skip(bytes: number): number {
    const address = this.#next;
    this.#next += aligned(bytes);
    return address;
  }

  /** The address of bytes that stay a Tensor's until what releaser() makes is called. */
  allocate(op: string, bytes: number): number {
    this.checkUsable(op);
    let address = this.#allocator.allocate(bytes);
    if (!address && this.#capacity > 0) {
      // The workspace is made anew when it is needed.
      this.#dropWorkspace();
      address = this.#allocator.allocate(bytes);
    }
    if (!address) this.#refuse(op, `a Tensor needs ${amount(bytes)}`);
    this.#used += bytes;
    return address;
  }

  releaser(address: number, bytes: number): () => void {
    return () => {
      if (this.#end) return;
      this.#used -= bytes;
      this.#allocator.release(address);
    };
  }

  #dropWorkspace(): void {
    if (this.#workspace) this.#allocator.release(this.#workspace);
    this.#workspace = 0;
    this.#capacity = 0;
  }

  #refuse(op: string, what: string): never {
    const limit = `whose limit is ${amount(this.limit)}`;
    const used = this.#used > 0 ? `, of which Tensors use ${amount(this.#used)}` : '';
    throw new NormError('ERR_MEMORY', op, `${what} of the module's memory, ${limit}${used}`);
  }

  #grow(op: string, bytes: number): void {
    const before = this.#capacity;
    this.#dropWorkspace();
    // Some more than asked for, so that calls of slowly growing sizes don't allocate each time.
    for (const size of [Math.max(bytes, aligned(1.25 * before)), bytes]) {
      this.#workspace = this.#allocator.allocate(size);
      if (!this.#workspace) continue;
      this.#capacity = size;
      return;
    }
    this.#refuse(op, `this call needs ${amount(bytes)}`);
  }

  /** Where the memory has grown the views are dead. */
  #renew(): void {
    if (this.#float32.length === 0 && this.#memory) this.#view(this.#memory.buffer);
  }

  #view(buffer: ArrayBuffer): void {
    this.#float32 = new Float32Array(buffer);
    this.#float64 = new Float64Array(buffer);
    this.#uint32 = new Uint32Array(buffer);
    this.#uint16 = new Uint16Array(buffer);
    this.#buffer = buffer;
    this.#copied = this.#float32;
    this.#copiedFrom = 0;
  }

  writeWord(address: number, value: number): void {
    this.#uint32[address >>> 2] = value;
  }

  clearWords(begin: number, end: number): void {
    this.#written = undefined;
    // A call of fill() takes four times as long.
    for (let i = begin >>> 2; i < end >>> 2; ++i) this.#uint32[i] = 0;
  }

  readBlock(): Uint32Array {
    const words = new Uint32Array(blockWords);
    for (let i = 0; i < blockWords; ++i) words[i] = this.#uint32[(this.block >>> 2) + i] as number;
    return words;
  }

  /** After a call of the same words there is nothing to write. */
  writeBlock(words: Uint32Array): void {
    if (this.#written !== words) this.#uint32.set(words, this.block >>> 2);
    this.#written = words;
  }

  writeDouble(address: number, value: number): void {
    this.#float64[address >>> 3] = value;
  }

  readWord(address: number): number {
    return this.#uint32[address >>> 2] as number;
  }

  /** Copies values in, converted to a type where it isn't theirs. */
  copyIn(address: number, values: Values, type: Stored): void {
    if (type === 'float32') {
      this.#float32.set(values, address >>> 2);
    } else if (type === 'float64') {
      this.#float64.set(values, address >>> 3);
    } else if (type === 'float16') {
      this.#uint16.set(bitsOf(values), address >>> 1);
    } else {
      this.#uint32.set(values, address >>> 2);
    }
  }

  /** A part of the memory, until that grows. */
  floatsAt(address: number, length: number): Float32Array {
    return this.#float32.subarray(address >>> 2, (address >>> 2) + length);
  }

  /** A view for the user, who must not have the heap's own. */
  viewOf(address: number, length: number, dtype: DType): Values {
    if (dtype === 'float32') return new Float32Array(this.buffer, address, length);
    if (dtype === 'float64') return new Float64Array(this.buffer, address, length);
    return new (halfClass() ?? Uint16Array)(this.buffer, address, length);
  }

  /** Until the next call. */
  #values(address: number, length: number, type: Stored): Values {
    const view = type === 'float32' ? this.#float32 : type === 'float64' ? this.#float64 : this.#uint16;
    // Calls of one size have their results in one place.
    if (
      address !== this.#copiedFrom ||
      length !== this.#copied.length ||
      this.#copied.BYTES_PER_ELEMENT !== bytesOf(type)
    ) {
      const first = address / bytesOf(type);
      this.#copied = view.subarray(first, first + length);
      this.#copiedFrom = address;
    }
    return this.#copied;
  }

  copyOut(address: number, values: Values, type: Stored): void {
    const length = lengthOf(values);
    // A buffer may have shrunk beneath an empty array, which set() refuses then.
    if (length === 0) return;
    setValues(type === 'float16' ? bitsOf(values) : values, this.#values(address, length, type));
  }

  /** A new array of the same class as another, with what is at an address. */
  copy(op: string, address: number, length: number, like: Values, dtype: DType): Values {
    return resultArray(op, length * bytesOf(dtype), () => {
      const values = this.#values(address, length, dtype).slice();
      return dtype === 'float16' ? halvesLike(like, values as Uint16Array) : values;
    });
  }

  /** Runs an operation. */
  run(op: string, kernel: Kernel): number {
    this.#isRunning = true;
    try {
      const status = kernel();
      this.#isRunning = false;
      return status;
    } catch (cause) {
      // No checked call traps; if one did, what it left can't be trusted.
      this.end('trapped');
      const why =
        cause instanceof RangeError ? 'the stack was full within the module' : 'the module trapped, which is a bug';
      throw new NormError('ERR_STATE', op, `${why}, so this instance is unusable: load a new one`, { cause });
    }
  }
}
