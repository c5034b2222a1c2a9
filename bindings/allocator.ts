// Blocks of the module's memory for Tensors and the workspace. The core allocates nothing, and malloc isn't asked:
// emmalloc adds sizes to addresses in 32 bits, so that near 4 GiB it hands out blocks that aren't there, and it doesn't
// extend what is free at the end of the memory.

/** Misaligned data costs the kernels 10 to 30% in cache. */
const alignment = 64;
/** The last page that an address can reach is left out, so that no end wraps to 0. */
const most = 2 ** 32 - 65536;

export function aligned(bytes: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}

export class Allocator {
  readonly #first: number;
  readonly #limit: number;
  readonly #reach: (end: number) => boolean;
  // Where the blocks that are taken begin and end, in order.
  readonly #begins: number[] = [];
  readonly #ends: number[] = [];

  /** `reach` makes sure that the memory goes so far, if it can. */
  constructor(begin: number, limit: number, reach: (end: number) => boolean) {
    this.#first = aligned(begin);
    this.#limit = Math.min(limit, most);
    this.#reach = reach;
  }

  /** The address of the first place with room for a block, or 0 where there is none. */
  allocate(bytes: number): number {
    // A block of nothing has an address of its own.
    const size = aligned(Math.max(bytes, 1));
    let begin = this.#first;
    let i = 0;
    for (; i < this.#begins.length && (this.#begins[i] as number) - begin < size; ++i) begin = this.#ends[i] as number;
    const end = begin + size;
    if (i === this.#begins.length && !(end <= this.#limit && this.#reach(end))) return 0;
    this.#begins.splice(i, 0, begin);
    this.#ends.splice(i, 0, end);
    return begin;
  }

  release(address: number): void {
    let low = 0;
    for (let high = this.#begins.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((this.#begins[middle] as number) < address) low = middle + 1;
      else high = middle;
    }
    this.#begins.splice(low, 1);
    this.#ends.splice(low, 1);
  }
}
