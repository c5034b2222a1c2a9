// A call whose arguments have been checked: lays them out in the module's memory as `struct Call` in embind.cpp has it.
//
// A call of few values is all overhead, so this and check.ts make no garbage that isn't needed: no closures over
// lists of names, no messages that nobody reads.

import { Offset } from './block.js';
import { list, Options, product } from './check.js';
import { bytesOf, type DType, type Numbers, type Stored, statisticsOf, type Values } from './dtype.js';
import { NormError } from './errors.js';
import { type Heap, type Kernel, newArray } from './heap.js';
import type { Plan } from './plan.js';
import { type Slot, slots } from './slot.js';
import { type Data, newTensor, Tensor, valuesOf } from './tensor.js';

const dtypeNumbers = { float32: 0, float64: 1, float16: 2 } as const;
/**
 * As many bytes are worked on at a time where items don't know of each other: what is copied in is then still in the
 * cache when it is read, and so is what is copied out.
 */
const pieceBytes = 128 << 10;
/** As the scratch that a call has: only says how much it needs. */
const onlyMeasure = 2 ** 32 - 1;
const moreScratch = 100;

/** Everything that an operation may take. Undefined: absent. */
export class Call {
  op = '';
  kernel: Kernel | undefined;
  /** Of an operation whose result is y. */
  plan: Plan | undefined;
  /** The user's own arrays, of which the call may have copies. */
  readonly given = new Options();
  shape: readonly number[] = [];
  dtype: DType = 'float32';
  x: Data | undefined;
  /** How many values x has. */
  length = 0;
  /** Where y goes: undefined for a new array, null where only statistics are wanted. */
  out: Data | undefined | null;
  /** None is negative. */
  axes: readonly number[] = [];
  /** At most so many of the first axes, and none of `axes`, are of items that don't know of each other. */
  itemAxes = 0;
  /** Whether the groups of an item don't either, and are along axis 1. */
  hasGroupsInOrder = false;
  epsilon = 1e-5;
  dy: Data | undefined;
  residual: Data | undefined;
  residualOut: Data | undefined;
  scale: Numbers | Tensor | undefined;
  bias: Numbers | Tensor | undefined;
  mean: Numbers | Tensor | undefined;
  variance: Numbers | Tensor | undefined;
  invStd: Numbers | Tensor | undefined;
  /** Of a gradient, which makes its own. */
  savedMean: Numbers | Tensor | undefined;
  lengths: Int32Array | undefined;
  meanOut: Numbers | Tensor | undefined;
  varianceOut: Numbers | Tensor | undefined;
  invStdOut: Numbers | Tensor | undefined;
  dScaleOut: Numbers | Tensor | undefined;
  dBiasOut: Numbers | Tensor | undefined;
  /** How many statistics there are, and how many values of a parameter. */
  places = 0;
  units = 0;
  groups = 1;
  p = 2;
  size = 1;
  alpha = 1e-4;
  beta = 0.75;
  k = 1;
  /** Whether Uint16Arrays are float16 bits. */
  hasHalves = false;
  /** Whether the core may need memory to work in. */
  hasScratch = false;

  /** As new, so that nothing of the user's is kept. */
  clear(): void {
    this.given.clear();
    this.kernel = undefined;
    this.plan = undefined;
    this.x = this.dy = this.out = this.residual = this.residualOut = undefined;
    this.scale = this.bias = this.mean = this.variance = this.invStd = this.savedMean = undefined;
    this.meanOut = this.varianceOut = this.invStdOut = this.dScaleOut = this.dBiasOut = undefined;
    this.lengths = undefined;
    this.units = this.itemAxes = 0;
    this.hasGroupsInOrder = false;
    this.epsilon = 1e-5;
    this.groups = this.size = this.k = 1;
    this.p = 2;
    this.alpha = 1e-4;
    this.beta = 0.75;
    this.hasScratch = false;
  }
}

/** Those that the call has, in the order of `slots`; what is beyond the count is of calls before. */
const used: Slot[] = Object.values(slots);
let usedCount = 0;

function add(
  slot: Slot,
  heap: Heap,
  op: string,
  given: unknown,
  data: Data | Int32Array,
  type: Stored,
  count: number,
): void {
  used[usedCount++] = slot;
  slot.fill(heap, op, given, data, type, count);
}

function use(
  slot: Slot,
  heap: Heap,
  op: string,
  given: unknown,
  data: Data | Int32Array | undefined,
  type: Stored,
  count: number,
): void {
  // Short enough to be put wherever it is called: most slots are empty.
  if (data !== undefined) add(slot, heap, op, given, data, type, count);
}

function useSlots(heap: Heap, call: Call): void {
  const { op, dtype, length, places, units, given, lengths } = call;
  const type = statisticsOf(dtype);
  use(slots.x, heap, op, call.x, call.x, dtype, length);
  use(slots.dy, heap, op, call.dy, call.dy, dtype, length);
  use(slots.residual, heap, op, call.residual, call.residual, dtype, length);
  use(slots.scale, heap, op, given.scale, call.scale, type, units);
  use(slots.bias, heap, op, given.bias, call.bias, type, units);
  use(slots.mean, heap, op, given.mean, call.mean ?? call.savedMean, type, places);
  slots.mean.isPresent = call.mean !== undefined;
  use(slots.variance, heap, op, given.variance, call.variance, type, places);
  use(slots.invStd, heap, op, given.invStd, call.invStd, type, places);
  use(slots.lengths, heap, op, given.lengths, lengths, 'int32', lengths ? lengths.length : 0);
  use(slots.y, heap, op, call.out, call.out ?? undefined, dtype, length);
  use(slots.residualOut, heap, op, call.residualOut, call.residualOut, dtype, length);
  use(slots.meanOut, heap, op, given.meanOut, call.meanOut, type, places);
  use(slots.varianceOut, heap, op, given.varianceOut, call.varianceOut, type, places);
  use(slots.invStdOut, heap, op, given.invStdOut, call.invStdOut, type, places);
  use(slots.dScaleOut, heap, op, given.dScaleOut, call.dScaleOut, type, units);
  use(slots.dBiasOut, heap, op, given.dBiasOut, call.dBiasOut, type, units);
}

function checkOverlap(op: string): void {
  for (let i = 1; i < usedCount; ++i) {
    const output = used[i] as Slot;
    if (output.isRead) continue;
    for (let j = 0; j < i; ++j) output.checkOverlap(op, used[j] as Slot);
  }
}

/**
 * Runs the kernel on the block of arguments, in scratch of as many bytes as it needs. Returns how much of the workspace the
 * call takes besides.
 */
function runKernel(heap: Heap, call: Call, shape: readonly number[], axes: readonly number[]): number {
  const { op } = call;
  const { block } = heap;
  let bytes = 0;
  for (let i = 0; i < usedCount; ++i) bytes += (used[i] as Slot).room;
  let scratchBytes = 0;
  let isMeasured = true;
  // What is there already is usually enough. Otherwise it is measured, which takes no data: what was reserved for that
  // would lie idle beside what replaces it.
  if (call.hasScratch) {
    isMeasured = heap.capacity > bytes;
    scratchBytes = isMeasured ? heap.capacity - bytes : onlyMeasure;
  }
  let status = moreScratch;
  while (status === moreScratch) {
    heap.reserve(op, isMeasured ? bytes + scratchBytes : 0);
    heap.clearWords(block + Offset.x, block + Offset.scratch);
    for (let i = 0; i < usedCount; ++i) (used[i] as Slot).place(heap, op, isMeasured);
    heap.writeWord(block + Offset.scratch, heap.skip(0));
    heap.writeWord(block + Offset.scratchBytes, scratchBytes);
    heap.writeDouble(block + Offset.epsilon, call.epsilon);
    heap.writeDouble(block + Offset.p, call.p);
    heap.writeDouble(block + Offset.alpha, call.alpha);
    heap.writeDouble(block + Offset.beta, call.beta);
    heap.writeDouble(block + Offset.k, call.k);
    heap.writeWord(block + Offset.dtype, dtypeNumbers[call.dtype]);
    heap.writeWord(block + Offset.groups, call.groups);
    heap.writeWord(block + Offset.size, call.size);
    heap.writeWord(block + Offset.rank, shape.length);
    heap.writeWord(block + Offset.axisCount, axes.length);
    for (let i = 0; i < shape.length; ++i) heap.writeWord(block + Offset.shape + 4 * i, shape[i] as number);
    for (let i = 0; i < axes.length; ++i) heap.writeWord(block + Offset.axes + 4 * i, axes[i] as number);

    status = heap.run(op, call.kernel as Kernel);
    scratchBytes = heap.readWord(block + Offset.scratchBytes);
    isMeasured = true;
  }
  if (status !== 0) {
    throw new NormError('ERR_AXIS', op, `not possible over axes ${list(call.axes)} of rank ${call.shape.length}`);
  }
  return bytes;
}

/**
 * How many bytes a piece has at least. What a kernel makes of each parameter it makes anew for each piece: batch norm a
 * factor with a root and a division, and others put them in order where the axes aren't.
 */
function leastBytes({ variance, hasScratch, units, dtype }: Call): number {
  const valuesPerParameter = variance ? 256 : hasScratch ? 16 : 0;
  return Math.max(pieceBytes, valuesPerParameter * units * bytesOf(dtype));
}

/** How many bytes are copied that can be divided. */
function dividableRoom(): number {
  let bytes = 0;
  for (let i = 0; i < usedCount; ++i) if ((used[i] as Slot).isByItem) bytes += (used[i] as Slot).room;
  return bytes;
}

/** Whether something that is written before the last piece is read may overlap that, and nobody could see it. */
function mayOverlapUnseen(): boolean {
  for (let i = 1; i < usedCount; ++i) {
    const output = used[i] as Slot;
    if (output.isRead) continue;
    for (let j = 0; j < i; ++j) if (output.mayOverlapUnseen(used[j] as Slot)) return true;
  }
  return false;
}

/** How many of the first axes are of items that the call is divided into; 0: it isn't. */
function itemAxesOf(call: Call): number {
  // Whatever the call has of each value, so few are one piece.
  if (64 * call.length <= pieceBytes) return 0;
  if (call.itemAxes === 0 || call.lengths || dividableRoom() <= leastBytes(call) || mayOverlapUnseen()) return 0;
  const axes = Math.min(call.itemAxes, ...call.axes);
  return product(call.shape.slice(0, axes)) > 1 ? axes : 0;
}

function copyOut(heap: Heap, first: number, ofItems: number): void {
  for (let i = 0; i < usedCount; ++i) (used[i] as Slot).copyOut(heap, first, ofItems);
}

/** Runs the kernel on some items after the others. Whatever can fail does so with the first, before anything is written. */
function runInPieces(heap: Heap, call: Call, itemAxes: number): void {
  const { op, shape, axes, groups } = call;
  const { block } = heap;
  const items = product(shape.slice(0, itemAxes));
  const bytes = dividableRoom();
  const least = leastBytes(call);
  // Items that are larger than a piece are divided into their groups.
  const parts = call.hasGroupsInOrder && bytes > items * least ? groups : 1;
  const channels = parts > 1 ? (shape[1] as number) / groups : 1;
  const before = parts > 1 ? [1] : [];
  const after = shape.slice(itemAxes + before.length);
  const pieceAxes = axes.map((axis) => axis - itemAxes + 1);
  const all = items * parts;
  let scratchBytes = 0;
  const most = Math.ceil(all / Math.ceil(bytes / least));
  for (let first = 0, count = 0; first < all; first += count) {
    count = Math.min(most, all - first);
    if (parts > 1) {
      count = Math.min(count, parts - (first % parts));
      call.groups = count;
    }
    for (let i = 0; i < usedCount; ++i) (used[i] as Slot).divide(count, all);
    if (first === 0) {
      runKernel(heap, call, [...before, count * channels, ...after], pieceAxes);
      scratchBytes = heap.readWord(block + Offset.scratchBytes);
    } else {
      // As many as at first, or fewer: they are possible in the same scratch.
      heap.writeWord(block + Offset.scratchBytes, scratchBytes);
      heap.writeWord(block + Offset.groups, call.groups);
      heap.writeWord(block + Offset.shape + 4 * before.length, count * channels);
      for (let i = 0; i < usedCount; ++i) (used[i] as Slot).advance(heap, op, first, all, parts);
      heap.run(op, call.kernel as Kernel);
    }
    copyOut(heap, first, all);
  }
}

function clearParameters({ dScaleOut, dBiasOut }: Call): void {
  if (dScaleOut) valuesOf(dScaleOut).fill(0);
  if (dBiasOut) valuesOf(dBiasOut).fill(0);
}

function clearSlots(): void {
  for (let i = 0; i < usedCount; ++i) (used[i] as Slot).clear();
  usedCount = 0;
}

/** Copies in what isn't in the memory, runs the kernel, copies out. Returns y, or null where only statistics are wanted. */
export function run(heap: Heap, call: Call): Data | null {
  const { op, shape, axes, dtype, length, out } = call;
  const { y } = slots;
  heap.checkUsable(op);
  // Where the stack was full even what follows an error may not have run.
  clearSlots();
  let made: Tensor | undefined;
  try {
    useSlots(heap, call);
    checkOverlap(op);
    if (out === undefined) {
      if (Tensor.is(call.x)) {
        made = newTensor(heap, op, shape, length, dtype);
        add(y, heap, op, made, made, dtype, length);
      } else {
        used[usedCount++] = y;
        y.fillNew(dtype, length);
      }
    }
    const isNew = out === undefined && !made;
    const like = call.x as Values;
    let result: Data | null = out ?? made ?? null;
    const itemAxes = itemAxesOf(call);
    if (length === 0) {
      // Extents beside one of 0 may be of any size, for which the core has no memory and loops for long.
      if (isNew) result = newArray(op, length, dtype, like);
      clearParameters(call);
    } else if (itemAxes > 0) {
      if (isNew) y.data = result = newArray(op, length, dtype, like);
      runInPieces(heap, call, itemAxes);
    } else {
      const bytes = runKernel(heap, call, shape, axes);
      // Faster than to make one before, which engines fill with zeros.
      if (isNew) result = heap.copy(op, y.address, length, like, dtype);
      copyOut(heap, 0, 1);
      if (!call.hasScratch) call.plan?.learn(heap, call, bytes);
    }
    made = undefined;
    return result;
  } finally {
    clearSlots();
    made?.free();
  }
}
