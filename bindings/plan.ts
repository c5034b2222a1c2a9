// Calls that are given the same again. A small call is all overhead, and most of that makes sure of what the call before it
// has made sure of. So each operation remembers, in numbers, what it was given, and nothing of the user's is kept.

import { Offset } from './block.js';
import type { Call } from './call.js';
import { isArray, type Options } from './check.js';
import { bufferOf, lengthOf, setValues, typedArrayTag, type Values } from './dtype.js';
import { type Heap, type Kernel, resultArray } from './heap.js';
import { type Data, Tensor } from './tensor.js';

const absent = -Infinity;
/** What no number is equal to. */
const unlike = Number.NaN;

/** The arrays, whose lengths are the first numbers; a Tensor's is -1 - its length. */
enum Place {
  out,
  x,
  scale,
  bias,
  mean,
  variance,
  count,
}
/** Where the block has the addresses. */
const offsets = [Offset.y, Offset.x, Offset.scale, Offset.bias, Offset.mean, Offset.variance];

/** Besides those of the arrays the other options, and the axes and extents of the highest rank. */
const mostNumbers = 64;
/** Of the call that runs. */
const numbers = new Float64Array(mostNumbers);
/** Where its Tensors are; 0 of what is none. */
const addresses = new Float64Array(Place.count);
let hasTensors = false;

/** Whether a Tensor is in part what is written. x may be the same. */
function overlapsOut(place: Place, address: number, length: number): boolean {
  const begin = addresses[Place.out] as number;
  if (begin === 0 || place === Place.out || (place === Place.x && address === begin)) return false;
  return address < begin + 4 * (-1 - (numbers[Place.out] as number)) && begin < address + 4 * length;
}

/** Returns the buffer that the values are in. `output` is that of out, which comes first. */
function describeData(heap: Heap, place: Place, value: unknown, output?: ArrayBufferLike): ArrayBufferLike | undefined {
  let size = unlike;
  let address = 0;
  let buffer: ArrayBufferLike | undefined;
  if (value === undefined || value === null) {
    size = absent;
  } else if (typedArrayTag.call(value) === 'Float32Array') {
    buffer = bufferOf(value as Values);
    // What is in the module's memory is no copy, and what is written may be in part what is read.
    if (buffer !== output && buffer !== heap.buffer) size = lengthOf(value as Values);
  } else if (Tensor.is(value) && value.dtype === 'float32') {
    address = Tensor.placeOf(value, heap);
    if (address > 0 && !overlapsOut(place, address, value.length)) size = -1 - value.length;
    hasTensors = true;
  }
  numbers[place] = size;
  addresses[place] = address;
  return buffer;
}

function numberOf(value: unknown): number {
  if (value === undefined || value === null) return absent;
  // -0 would be equal to 0.
  return typeof value === 'number' && value !== absent && !Object.is(value, -0) ? value : unlike;
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

/** What a call is given. Returns how many numbers that takes, or 0 where it isn't foreseen here. */
function describe(heap: Heap, x: unknown, o: Options, lengths: unknown): number {
  // What an operation doesn't have it may read all the same, where nobody has seen it.
  const others = lengths ?? o.dtype ?? o.lengths ?? o.residual ?? o.residualOut;
  const statistics = o.meanOut ?? o.varianceOut ?? o.invStdOut;
  if ((others ?? statistics ?? null) !== null) return 0;
  hasTensors = false;
  const output = describeData(heap, Place.out, o.out);
  describeData(heap, Place.x, x, x === o.out ? undefined : output);
  const isTensor = hasTensors && addresses[Place.x] !== 0;
  // A new Tensor is somewhere else each time.
  if (Number.isNaN(numbers[Place.x]) || (isTensor && numbers[Place.out] === absent)) return 0;
  describeData(heap, Place.scale, o.scale, output);
  describeData(heap, Place.bias, o.bias, output);
  describeData(heap, Place.mean, o.mean, output);
  describeData(heap, Place.variance, o.variance, output);
  let place: number = Place.count;
  numbers[place++] = numberOf(o.epsilon);
  numbers[place++] = numberOf(o.axis);
  numbers[place++] = numberOf(o.groups);
  numbers[place++] = numberOf(o.p);
  place = describeList(place, o.axes);
  return describeList(place, isTensor ? (o.shape ?? Tensor.shapeOf(x as Tensor)) : o.shape);
}

/** One of the calls of an operation. */
export class Plan {
  readonly #numbers = new Float64Array(mostNumbers);
  /** Whether a call with these numbers has succeeded. */
  #isChecked = false;
  /** The block of arguments of another such call, and where in the workspace its arrays were. */
  #words: Uint32Array | undefined;
  #views: (Float32Array | undefined)[] = [];
  #buffer: ArrayBufferLike | undefined;
  #workspace = 0;
  #bytes = 0;
  #kernel: Kernel | undefined;

  /** Whether the call that runs has these numbers, so many. */
  isOfThisCall(count: number): boolean {
    const known = this.#numbers;
    for (let i = 0; i < count; ++i) if (numbers[i] !== known[i]) return false;
    return true;
  }

  /** For the call that runs, instead of what was there before. */
  begin(): void {
    this.#words = undefined;
    this.#isChecked = false;
    this.#numbers.set(numbers);
  }

  #copyIn(x: unknown, o: Options): boolean {
    const views = this.#views;
    try {
      views[Place.x]?.set(x as Values);
      views[Place.scale]?.set(o.scale as Values);
      views[Place.bias]?.set(o.bias as Values);
      views[Place.mean]?.set(o.mean as Values);
      views[Place.variance]?.set(o.variance as Values);
      return true;
    } catch {
      // What other threads have as well may be longer by now.
      return false;
    }
  }

  /** y of the call that runs, or undefined where it must be checked: no other has been learnt, or the memory has changed since. */
  run(heap: Heap, op: string, x: unknown, o: Options): Data | undefined {
    const words = this.#words;
    if (words === undefined || this.#buffer !== heap.buffer) return undefined;
    if (this.#workspace !== heap.workspace || this.#bytes > heap.capacity) return undefined;
    heap.checkUsable(op);
    if (!this.#copyIn(x, o)) return undefined;
    heap.writeBlock(words);
    for (let place = 0; hasTensors && place < Place.count; ++place) {
      const address = addresses[place] as number;
      const offset = offsets[place] as number;
      if (address > 0 && words[offset >> 2] !== 0) heap.writeWord(heap.block + offset, address);
    }
    heap.run(op, this.#kernel as Kernel);
    const y = this.#views[Place.out];
    if (y && numbers[Place.out] === absent) return resultArray(op, 4 * lengthOf(y), () => y.slice());
    if (y) setValues(o.out as Values, y);
    return o.out as Data;
  }

  /** After a call of these numbers has succeeded, in so many bytes. The second time: most calls have no second. */
  learn(heap: Heap, { kernel, length }: Call, bytes: number): void {
    // What other threads have as well may have become longer when it was checked.
    if ((numbers[Place.x] as number) >= 0 && numbers[Place.x] !== length) return;
    if (this.#isChecked) {
      const words = heap.readBlock();
      for (let place = 0; place < Place.count; ++place) {
        const address = words[(offsets[place] as number) >> 2] as number;
        const given = numbers[place] as number;
        const count = place === Place.out && given === absent ? length : given;
        // There is no address of what the operation doesn't take.
        this.#views[place] = count >= 0 && address !== 0 ? heap.floatsAt(address, count) : undefined;
      }
      this.#buffer = heap.buffer;
      this.#workspace = heap.workspace;
      this.#bytes = bytes;
      this.#kernel = kernel;
      this.#words = words;
    }
    this.#isChecked = true;
  }
}

/** A network has several layers of a kind, of different sizes. */
const mostPlans = 8;

/** The last calls of an operation. */
export class Plans {
  readonly #plans: Plan[] = [];
  #oldest = 0;

  /** The plan of what a call is given, if it may have one. */
  of(heap: Heap, x: unknown, o: Options, lengths: unknown): Plan | undefined {
    const count = describe(heap, x, o, lengths);
    if (count === 0) return undefined;
    const plans = this.#plans;
    for (let i = 0; i < plans.length; ++i) if ((plans[i] as Plan).isOfThisCall(count)) return plans[i];
    const plan = plans[this.#oldest] ?? new Plan();
    plan.begin();
    plans[this.#oldest] = plan;
    this.#oldest = (this.#oldest + 1) % mostPlans;
    return plan;
  }
}
