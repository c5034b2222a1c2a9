// Calls that are given the same again. A small call is all overhead, and most of that makes sure of what the call before it
// has made sure of. So each operation remembers, in numbers, what it was given last, and nothing of the user's is kept.

import { Offset } from './block.js';
import type { Call } from './call.js';
import { isArray, type Options } from './check.js';
import { bufferOf, isSharedBuffer, lengthOf, typedArrayTag, type Values } from './dtype.js';
import type { Heap, Kernel } from './heap.js';
import { type Data, Tensor } from './tensor.js';

const absent = -Infinity;
/** What no number is equal to. */
const unlike = Number.NaN;

/** Where the numbers of the arrays are, with which they begin: two of each. */
enum Place {
  out = 0,
  x = 2,
  scale = 4,
  bias = 6,
  mean = 8,
  variance = 10,
}
/** Besides them the other options, and the axes and extents of the highest rank. */
const mostNumbers = 64;
/** Of the call that runs. */
const numbers = new Float64Array(mostNumbers);

/** How long values are, and where if they are a Tensor's. Returns the buffer that they are in. */
function describeData(heap: Heap, place: Place, value: unknown, output?: ArrayBufferLike): ArrayBufferLike | undefined {
  numbers[place] = unlike;
  numbers[place + 1] = 0;
  if (value === undefined || value === null) {
    numbers[place] = absent;
  } else if (typedArrayTag.call(value) === 'Float32Array') {
    const buffer = bufferOf(value as Values);
    // What is in the module's memory isn't copied, and what other threads have may be longer when it is.
    const isUsual = buffer !== output && buffer !== heap.buffer && !isSharedBuffer(buffer);
    if (isUsual) numbers[place] = lengthOf(value as Values);
    return buffer;
  } else if (Tensor.is(value) && value.dtype === 'float32') {
    numbers[place] = value.length;
    numbers[place + 1] = Tensor.placeOf(value, heap);
  }
  return undefined;
}

function numberOf(value: unknown): number {
  if (value === undefined || value === null) return absent;
  return typeof value === 'number' ? value : unlike;
}

/** A number, or a list of them, from a place on. Returns the place behind them. */
function describeList(begin: number, values: unknown): number {
  let place = begin;
  if (isArray(values)) {
    numbers[place++] = values.length;
    for (let i = 0; i < values.length; ++i) numbers[place++] = numberOf(values[i]);
  } else {
    numbers[place++] = -1;
    numbers[place++] = numberOf(values);
  }
  return place;
}

/** What a call is given. Returns how many numbers that takes. Whatever isn't foreseen makes it unlike every other. */
function describe(heap: Heap, x: unknown, o: Options, lengths: unknown): number {
  const output = describeData(heap, Place.out, o.out);
  describeData(heap, Place.x, x, x === o.out ? undefined : output);
  describeData(heap, Place.scale, o.scale, output);
  describeData(heap, Place.bias, o.bias, output);
  describeData(heap, Place.mean, o.mean, output);
  describeData(heap, Place.variance, o.variance, output);
  const isTensor = numbers[Place.x + 1] !== 0;
  const others = lengths ?? o.dtype ?? o.lengths ?? o.residual ?? o.residualOut ?? o.meanOut ?? o.invStdOut;
  // A new Tensor is somewhere else each time.
  const isUsual = (others === undefined || others === null) && !(isTensor && numbers[Place.out] === absent);
  let place = Place.variance + 2;
  numbers[place++] = isUsual ? 0 : unlike;
  numbers[place++] = numberOf(o.axis);
  numbers[place++] = numberOf(o.groups);
  numbers[place++] = numberOf(o.epsilon);
  numbers[place++] = numberOf(o.p);
  place = describeList(place, o.axes);
  return describeList(place, isTensor ? (o.shape ?? Tensor.shapeOf(x as Tensor)) : o.shape);
}

/** Whether it is an array, not a Tensor or absent. */
function isCopied(place: Place): boolean {
  return (numbers[place] as number) >= 0 && numbers[place + 1] === 0;
}

export class Plan {
  readonly #numbers = new Float64Array(mostNumbers);
  /** Whether a call with these numbers has succeeded. */
  #isChecked = false;
  /** The block of arguments of another such call, and where its arrays were copied to. */
  #words: Uint32Array | undefined;
  #kernel: Kernel | undefined;
  #workspace = 0;
  #bytes = 0;

  /** Notes what a call is given, and forgets what was given before if that was something else. */
  note(heap: Heap, x: unknown, o: Options, lengths: unknown): void {
    const count = describe(heap, x, o, lengths);
    for (let i = 0; i < count; ++i) {
      if (numbers[i] === this.#numbers[i]) continue;
      this.#words = undefined;
      this.#isChecked = false;
      this.#numbers.set(numbers);
      return;
    }
  }

  #copyIn(heap: Heap, words: Uint32Array, place: Place, offset: Offset, values: unknown): void {
    if (isCopied(place)) heap.copyIn(words[offset >> 2] as number, values as Values, 'float32');
  }

  /** y of a call that has been noted, or undefined where the one before was given something else. */
  run(heap: Heap, op: string, x: unknown, o: Options): Data | undefined {
    const words = this.#words;
    if (!words || this.#workspace !== heap.workspace || this.#bytes > heap.capacity) return undefined;
    heap.checkUsable(op);
    heap.reserve(op, this.#bytes);
    heap.writeBlock(words);
    this.#copyIn(heap, words, Place.x, Offset.x, x);
    this.#copyIn(heap, words, Place.scale, Offset.scale, o.scale);
    this.#copyIn(heap, words, Place.bias, Offset.bias, o.bias);
    this.#copyIn(heap, words, Place.mean, Offset.mean, o.mean);
    this.#copyIn(heap, words, Place.variance, Offset.variance, o.variance);
    heap.run(op, this.#kernel as Kernel);
    const address = words[Offset.y >> 2] as number;
    if (isCopied(Place.out)) heap.copyOut(address, o.out as Values, 'float32');
    else if (numbers[Place.out] === absent) {
      return heap.copy(op, address, numbers[Place.x] as number, x as Values, 'float32');
    }
    return o.out as Data;
  }

  /** After the call that was noted has succeeded, in so many bytes of the workspace. The second time, as most calls have no second. */
  learn(heap: Heap, { kernel }: Call, bytes: number): void {
    if (this.#isChecked) {
      this.#kernel = kernel;
      this.#workspace = heap.workspace;
      this.#bytes = bytes;
      this.#words = heap.readBlock();
    }
    this.#isChecked = true;
  }
}
