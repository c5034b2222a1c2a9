// The arrays of the call that runs: where each is in the module's memory, or where it is copied to and from.

import { aligned } from './allocator.js';
import { Offset } from './block.js';
import {
  beginOf,
  bufferOf,
  bytesIn,
  bytesOf,
  copyOf,
  type DType,
  dtypeOfTag,
  isSharedBuffer,
  partOf,
  type Stored,
  typedArrayTag,
  type Values,
} from './dtype.js';
import { NormError } from './errors.js';
import type { Heap } from './heap.js';
import { type Data, numbersOf, Tensor } from './tensor.js';

export class Slot {
  /** The user's values, or a copy of them that has been converted. */
  data: Data | Int32Array | undefined;
  /** Whether the kernel is told of it. */
  isPresent = false;
  type: Stored = 'float32';
  address = 0;
  /** How many values it has, and how many of them the kernel is given at a time. */
  #count = 0;
  #given = 0;
  #isTensor = false;
  /** What the user's own values are; float16 also where they are bits of anything. */
  #storedType: DType = 'float32';
  /** Of values that are in the module's memory already, else 0. */
  #home = 0;
  // Where the user's own values are, also where a copy is used.
  #buffer: ArrayBufferLike | undefined;
  #begin = 0;
  #end = 0;

  constructor(
    readonly name: string,
    readonly offset: number,
    readonly isRead: boolean,
    /** Whether it has values for each item; else for all of them. */
    readonly isByItem: boolean,
    /** A copy that has served when this is written. */
    readonly before?: Slot,
  ) {}

  /** `count` is how many values it had when it was checked: a worker may have made more of them since. */
  fill(heap: Heap, op: string, given: unknown, data: Data | Int32Array, type: Stored, count: number): void {
    const isOwn = data === given;
    this.#locate(heap, op, given, isOwn);
    this.isPresent = true;
    this.data = data;
    this.type = type;
    this.#count = count;
    this.#given = count;
    this.#home = 0;
    if (!isOwn) return;
    if (this.#buffer === heap.buffer) {
      if (this.#storedType === type) this.#home = this.#begin;
      // To be converted, but the memory may grow before that, which detaches it.
      else if (!this.#isTensor) this.data = copyOf(data as Values);
    } else if (isSharedBuffer(this.#buffer)) {
      this.data = partOf(data as Values, 0, count);
    }
  }

  /** For values that will be made anew. */
  fillNew(type: Stored, count: number): void {
    this.clear();
    this.isPresent = true;
    this.type = type;
    this.#count = count;
    this.#given = count;
    this.#home = 0;
  }

  #locate(heap: Heap, op: string, given: unknown, isData: boolean): void {
    this.#buffer = undefined;
    this.#isTensor = false;
    const tag = typedArrayTag.call(given);
    if (tag !== undefined) {
      this.#storedType = dtypeOfTag(tag) ?? 'float16';
      this.#buffer = bufferOf(given as Values);
      this.#begin = beginOf(given as Values);
      this.#end = this.#begin + bytesIn(given as Values);
    } else if (isData || Tensor.is(given)) {
      const tensor = given as Tensor;
      this.#isTensor = true;
      this.#storedType = tensor.dtype;
      this.#begin = Tensor.addressOf(tensor, op, this.name, heap);
      this.#end = this.#begin + tensor.length * bytesOf(tensor.dtype);
      this.#buffer = heap.buffer;
    }
  }

  /** As new, so that nothing of the user's is kept. */
  clear(): void {
    this.data = undefined;
    this.#buffer = undefined;
    this.isPresent = false;
  }

  /** Whether it shares the place of a copy that is read before this is written. One array in the cache is better than two. */
  get #isShared(): boolean {
    const { before } = this;
    return before?.isPresent === true && before.#home === 0;
  }

  /** How much of the workspace it takes. */
  get room(): number {
    return this.isPresent && this.#home === 0 && !this.#isShared ? aligned(bytesOf(this.type) * this.#given) : 0;
  }

  /** From here on the kernel is given the values of some of the items. */
  divide(items: number, ofItems: number): void {
    if (this.isByItem) this.#given = (this.#count / ofItems) * items;
  }

  /** Finds a place for it, and puts what is read there. */
  place(heap: Heap, op: string, isCopied: boolean): void {
    if (!this.isPresent) return;
    this.address = this.#home;
    if (this.#home === 0) {
      this.address = this.#isShared ? (this.before as Slot).address : heap.skip(bytesOf(this.type) * this.#given);
      if (isCopied) this.#copyIn(heap, op, 0);
    }
    heap.writeWord(heap.block + this.offset, this.address);
  }

  /** Puts what follows in the same place: the items from `first` on, or the groups, of which an item has `parts`. */
  advance(heap: Heap, op: string, first: number, ofItems: number, parts: number): void {
    if (!this.isPresent) return;
    const begin = this.isByItem ? (this.#count / ofItems) * first : (this.#count / parts) * (first % parts);
    if (this.isByItem && this.#home === 0) this.#copyIn(heap, op, begin);
    else heap.writeWord(heap.block + this.offset, this.address + begin * bytesOf(this.type));
  }

  #copyIn(heap: Heap, op: string, first: number): void {
    // set() refuses an empty array whose buffer has shrunk beneath it.
    if (!this.isRead || this.#given === 0) return;
    const { data } = this;
    const values = this.#isTensor ? numbersOf(data as Tensor, op, this.name) : (data as Values);
    heap.copyIn(this.address, this.#part(values, first), this.type);
  }

  /** Where the kernel has written to a copy. */
  copyOut(heap: Heap, first: number, ofItems: number): void {
    if (this.isRead || this.data === undefined || this.#home !== 0) return;
    heap.copyOut(this.address, this.#part(this.data as Values, (this.#count / ofItems) * first), this.type);
  }

  #part(values: Values, first: number): Values {
    return this.#given === this.#count ? values : partOf(values, first, this.#given);
  }

  /** Two SharedArrayBuffers may be of one memory: postMessage makes such of it, and shared memory of a module that grows. */
  mayOverlapUnseen(other: Slot): boolean {
    if (!other.isRead || !other.isByItem || this.#buffer === other.#buffer) return false;
    return isSharedBuffer(this.#buffer) && isSharedBuffer(other.#buffer);
  }

  /** What is written overlaps nothing else that the call touches, but for what may be the same. */
  checkOverlap(op: string, other: Slot): void {
    if (this.#buffer === undefined || this.#buffer !== other.#buffer) return;
    if (Math.max(this.#begin, other.#begin) >= Math.min(this.#end, other.#end)) return;
    const mayBe = mayBeSame(this.name, other.name);
    if (mayBe && this.#begin === other.#begin) return;
    const hint = mayBe ? ` in part (${this.name} may be ${other.name} itself)` : '';
    throw new NormError('ERR_OVERLAP', op, `${this.name} shares memory with ${other.name}${hint}`);
  }
}

/** Whether two arrays that share memory may do so if they begin in the same place. */
function mayBeSame(output: string, other: string): boolean {
  if (output === 'out') return other === 'x' || other === 'dy';
  return output === 'residualOut' && (other === 'x' || other === 'residual');
}

// No code of the user's runs during a call, so that there is one call at a time.
const x = new Slot('x', Offset.x, true, true);
const residual = new Slot('residual', Offset.residual, true, true);
export const slots = {
  x,
  dy: new Slot('dy', Offset.dy, true, true),
  residual,
  scale: new Slot('scale', Offset.scale, true, false),
  bias: new Slot('bias', Offset.bias, true, false),
  mean: new Slot('mean', Offset.mean, true, false),
  variance: new Slot('variance', Offset.variance, true, false),
  invStd: new Slot('invStd', Offset.invStd, true, false),
  lengths: new Slot('lengths', Offset.lengths, true, false),
  y: new Slot('out', Offset.y, false, true, x),
  residualOut: new Slot('residualOut', Offset.residualOut, false, true, residual),
  meanOut: new Slot('meanOut', Offset.meanOut, false, true),
  varianceOut: new Slot('varianceOut', Offset.varianceOut, false, true),
  invStdOut: new Slot('invStdOut', Offset.invStdOut, false, true),
  dScaleOut: new Slot('dScaleOut', Offset.dScaleOut, false, false),
  dBiasOut: new Slot('dBiasOut', Offset.dBiasOut, false, false),
};
