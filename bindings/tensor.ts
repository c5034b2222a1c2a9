// Values that live in the module's memory, and arrays of the user's: what the operations take of either.

import { typeError } from './check.js';
import * as array from './dtype.js';
import { bytesOf, type DType, dtypeOfTag, type Numbers, typedArrayTag, type Values } from './dtype.js';
import { NormError } from './errors.js';
import type { Heap } from './heap.js';

/** What operations read and write. */
export type Data = Values | Tensor;

// What `using` calls; engines that lack it have compilers that agree on this.
const disposeSymbol: typeof Symbol.dispose = Symbol.dispose ?? Symbol.for('Symbol.dispose');

/** The Tensors of views: a view that is kept keeps the memory that it is of. */
const viewed = new WeakMap<Values, Tensor>();

/** Frees what nobody has freed and nobody can reach any more. */
const forgotten = new FinalizationRegistry<() => void>((free) => free());

export class Tensor {
  static {
    // As it is printed, although the package is minified.
    Object.defineProperty(Tensor, 'name', { value: 'Tensor' });
  }

  readonly #heap: Heap;
  /** Of a window: whose memory this is in. */
  readonly #owner: Tensor | undefined;
  readonly #address: number;
  /** Not frozen: engines read the elements of frozen arrays slowly. */
  readonly #shape: readonly number[];
  #isFreed = false;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly length: number;

  constructor(heap: Heap, address: number, shape: readonly number[], length: number, dtype: DType, owner?: Tensor) {
    this.#heap = heap;
    this.#address = address;
    this.#owner = owner;
    this.#shape = [...shape];
    this.shape = Object.freeze([...shape]);
    this.length = length;
    this.dtype = dtype;
    Object.freeze(this);
    if (!owner) forgotten.register(this, heap.releaser(address, this.#bytes), this);
  }

  static is(value: unknown): value is Tensor {
    // Unlike instanceof, this runs no traps of proxies.
    return typeof value === 'object' && value !== null && #address in value;
  }

  /** Where the values are, for an operation of an instance. */
  static addressOf(tensor: Tensor, op: string, name: string, heap: Heap): number {
    if (tensor.#heap !== heap) {
      throw new NormError('ERR_TYPE', op, `${name} is a Tensor of another instance: each has a memory of its own`);
    }
    tensor.#check(op, name);
    return tensor.#address;
  }

  /** The same, or 0 where they can't be used. */
  static placeOf(tensor: Tensor, heap: Heap): number {
    return tensor.#heap === heap && !tensor.freed ? tensor.#address : 0;
  }

  /** For whoever doesn't change it. */
  static shapeOf(tensor: Tensor): readonly number[] {
    return tensor.#shape;
  }

  static bufferOf(tensor: Tensor): ArrayBufferLike {
    return tensor.#heap.buffer;
  }

  static beginOf(tensor: Tensor): number {
    return tensor.#address;
  }

  get #bytes(): number {
    return this.length * bytesOf(this.dtype);
  }

  #check(op: string, name: string): void {
    if (this.freed) throw new NormError('ERR_FREED', op, `${name} has been freed`);
  }

  get freed(): boolean {
    return this.#isFreed || this.#heap.isEnded || this.#owner?.freed === true;
  }

  static dataOf(tensor: Tensor, op: string, name: string): Values {
    tensor.#check(op, name);
    return tensor.data;
  }

  get data(): Values {
    this.#check('data', 'the Tensor');
    const view = this.#heap.viewOf(this.#address, this.length, this.dtype);
    viewed.set(view, this);
    return view;
  }

  subarray(begin?: number | null, end?: number | null): Tensor {
    const op = 'subarray';
    this.#check(op, 'the Tensor');
    const placeOf = (name: string, value: number | null | undefined, absent: number) => {
      if (value === undefined || value === null) return absent;
      if (!Number.isInteger(value)) {
        throw typeError(op, name, 'an integer', value);
      }
      // As in arrays: counted from the end where negative.
      return Math.min(Math.max(value < 0 ? value + this.length : value, 0), this.length);
    };
    const first = placeOf('begin', begin, 0);
    const length = Math.max(placeOf('end', end, this.length) - first, 0);
    const address = this.#address + first * bytesOf(this.dtype);
    return new Tensor(this.#heap, address, [length], length, this.dtype, this.#owner ?? this);
  }

  free(): void {
    if (!this.freed && !this.#owner) {
      forgotten.unregister(this);
      this.#heap.releaser(this.#address, this.#bytes)();
    }
    this.#isFreed = true;
  }

  [disposeSymbol](): void {
    this.free();
  }
}

/** A Tensor whose values are yet to be written. */
export function newTensor(heap: Heap, op: string, shape: readonly number[], length: number, dtype: DType): Tensor {
  return new Tensor(heap, heap.allocate(op, length * bytesOf(dtype)), shape, length, dtype);
}

export function isData(value: unknown): value is Data {
  return typedArrayTag.call(value) !== undefined || Tensor.is(value);
}

function isArray(data: Data | Int32Array): data is Values | Int32Array {
  return typedArrayTag.call(data) !== undefined;
}

/** What a value says that its type is; bits don't. */
export function dtypeOfData(value: unknown): DType | undefined {
  // Whether it is a Tensor takes three times as long to ask.
  const tag = typedArrayTag.call(value);
  if (tag !== undefined) return dtypeOfTag(tag);
  return Tensor.is(value) ? value.dtype : undefined;
}

export function lengthOf(data: Data | Int32Array): number {
  return isArray(data) ? array.lengthOf(data) : data.length;
}

function bufferOf(data: Data | Int32Array): ArrayBufferLike {
  return isArray(data) ? array.bufferOf(data) : Tensor.bufferOf(data);
}

function beginOf(data: Data | Int32Array): number {
  return isArray(data) ? array.beginOf(data) : Tensor.beginOf(data);
}

function endOf(data: Data | Int32Array): number {
  return beginOf(data) + (isArray(data) ? array.bytesIn(data) : data.length * bytesOf(data.dtype));
}

export function shareMemory(a: Data | Int32Array, b: Data | Int32Array): boolean {
  if (bufferOf(a) !== bufferOf(b)) return false;
  return Math.max(beginOf(a), beginOf(b)) < Math.min(endOf(a), endOf(b));
}

export function valuesOf(data: Data): Values {
  return Tensor.is(data) ? data.data : data;
}

/** The values as numbers: a Tensor's where they are. */
export function numbersOf(data: Numbers | Tensor, op: string, name: string): Numbers {
  if (!Tensor.is(data)) return data;
  const values = Tensor.dataOf(data, op, name);
  return (data.dtype === 'float16' ? array.numbersOfHalves(array.bitsOf(values)) : values) as Numbers;
}
