// A call whose arguments have been checked: lays them out in the module's memory as `struct Call` in embind.cpp has it.
//
// A call of few values is all overhead, so this and check.ts make no garbage that isn't needed: no closures over
// lists of names, no messages that nobody reads.

import { aligned } from './allocator.js';
import { maxRank, Options } from './check.js';
import { bytesOf, copyOf, type DType, fixed, type Numbers, statisticsOf, type Values } from './dtype.js';
import { NormError } from './errors.js';
import type { Heap, Kernel } from './heap.js';
import {
  addressIn,
  beginTogether,
  type Data,
  dtypeOfData,
  isData,
  lengthOf,
  newTensor,
  numbersOf,
  shareMemory,
  Tensor,
  valuesOf,
} from './tensor.js';

/** Byte offsets in struct Call. */
export const offsets = {
  epsilon: 0,
  p: 8,
  alpha: 16,
  beta: 24,
  k: 32,
  x: 40,
  y: 44,
  dy: 48,
  residual: 52,
  residualOut: 56,
  scale: 60,
  bias: 64,
  mean: 68,
  variance: 72,
  invStd: 76,
  lengths: 80,
  meanOut: 84,
  varianceOut: 88,
  invStdOut: 92,
  dScaleOut: 96,
  dBiasOut: 100,
  scratch: 104,
  scratchBytes: 108,
  dtype: 112,
  groups: 116,
  size: 120,
  rank: 124,
  axisCount: 128,
  shape: 132,
  axes: 132 + 4 * maxRank,
} as const;

const dtypeNumbers = { float32: 0, float64: 1, float16: 2 } as const;
/** As the scratch that a call has: only says how much it needs. */
const onlyMeasure = 2 ** 32 - 1;
const moreScratch = 100;

/** Everything that an operation may take. Undefined: absent. */
export class Call {
  op = '';
  kernel: Kernel | undefined;
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
  /** How many statistics are written, and how many gradients of a parameter. */
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
    this.x = this.dy = this.out = this.residual = this.residualOut = undefined;
    this.scale = this.bias = this.mean = this.variance = this.invStd = this.savedMean = undefined;
    this.meanOut = this.varianceOut = this.invStdOut = this.dScaleOut = this.dBiasOut = undefined;
    this.lengths = undefined;
    this.epsilon = 1e-5;
    this.groups = this.size = this.k = 1;
    this.p = 2;
    this.alpha = 1e-4;
    this.beta = 0.75;
    this.hasScratch = false;
  }
}

const read = ['x', 'dy', 'residual', 'scale', 'bias', 'mean', 'variance', 'invStd', 'lengths'];
const written = ['out', 'residualOut', 'meanOut', 'varianceOut', 'invStdOut', 'dScaleOut', 'dBiasOut'];
const names = [...read, ...written];
const firstWritten = read.length;

/** Whether two arrays that share memory may do so if they begin in the same place. */
function mayBeSame(output: string, other: string): boolean {
  if (output === 'out') return other === 'x' || other === 'dy';
  return output === 'residualOut' && (other === 'x' || other === 'residual');
}

const touched: unknown[] = names.map(() => undefined);

/** What is written overlaps nothing else that the call touches, but for what may be the same. */
function checkOverlap({ op, x, dy, given }: Call): void {
  // Spelled out: loads by a name that varies take a tenth of a small call.
  touched[0] = x;
  touched[1] = dy;
  touched[2] = given.residual;
  touched[3] = given.scale;
  touched[4] = given.bias;
  touched[5] = given.mean;
  touched[6] = given.variance;
  touched[7] = given.invStd;
  touched[8] = given.lengths;
  touched[9] = given.out;
  touched[10] = given.residualOut;
  touched[11] = given.meanOut;
  touched[12] = given.varianceOut;
  touched[13] = given.invStdOut;
  touched[14] = given.dScaleOut;
  touched[15] = given.dBiasOut;
  try {
    compareTouched(op);
  } finally {
    touched.fill(undefined);
  }
}

function compareTouched(op: string): void {
  for (let i = firstWritten; i < touched.length; ++i) {
    const output = touched[i];
    if (!isData(output)) continue;
    for (let j = 0; j < i; ++j) {
      const other = touched[j];
      if (!isData(other) || !shareMemory(output, other)) continue;
      const name = names[i] as string;
      const otherName = names[j] as string;
      const mayBe = mayBeSame(name, otherName);
      if (mayBe && beginTogether(output, other)) continue;
      const hint = mayBe ? ` in part (${name} may be ${otherName} itself)` : '';
      throw new NormError('ERR_OVERLAP', op, `${name} shares memory with ${otherName}${hint}`);
    }
  }
}

/** An argument of a call: where it is, or where it is copied to and from. */
class Slot {
  data: Data | undefined;
  type: DType = 'float32';
  isPresent = false;
  bytes = 0;
  /** Of values that are in the memory already, else 0. */
  home = 0;
  address = 0;

  constructor(
    readonly name: string,
    readonly offset: number,
    readonly isRead: boolean,
    /** A copy that has served when this is written. */
    readonly before?: Slot,
  ) {}

  /** `count` is how many values it had when it was checked: a worker may have made more of them since. */
  fill(heap: Heap, op: string, data: Data | undefined, type: DType, count: number): void {
    this.isPresent = data !== undefined;
    this.data = data && !Tensor.is(data) ? fixed(data, count) : data;
    this.type = type;
    this.home = 0;
    this.bytes = 0;
    if (!data) return;
    this.bytes = bytesOf(type) * count;
    const home = addressIn(heap, op, this.name, data);
    if (home === 0) return;
    if ((dtypeOfData(data) ?? 'float16') === type) this.home = home;
    // To be converted, but the memory may grow before that, which detaches it.
    else if (!Tensor.is(data)) this.data = copyOf(data);
  }

  /** Whether it shares the place of a copy that is read before this is written. One array in the cache is better than two. */
  get isShared(): boolean {
    const { before } = this;
    return before?.isPresent === true && before.home === 0;
  }

  get room(): number {
    return this.isPresent && this.home === 0 && !this.isShared ? aligned(this.bytes) : 0;
  }

  place(heap: Heap, op: string, isCopied: boolean): void {
    this.address = this.home;
    if (this.isPresent && this.home === 0) {
      this.address = this.isShared ? (this.before as Slot).address : heap.skip(this.bytes);
      // set() refuses an empty array whose buffer has shrunk beneath it.
      if (this.isRead && isCopied && this.bytes > 0) {
        const data = this.data as Data;
        heap.copyIn(this.address, Tensor.is(data) ? numbersOf(data as Tensor, op, this.name) : data, this.type);
      }
    }
    heap.writeWord(heap.block + this.offset, this.address);
  }

  copyOut(heap: Heap): void {
    if (this.data && this.home === 0) heap.copyOut(this.address, this.data as Values, this.type);
  }
}

// The arguments of the call that runs. No code of the user's does meanwhile, so that there is one at a time.
const x = new Slot('x', offsets.x, true);
const y = new Slot('out', offsets.y, false, x);
const dy = new Slot('dy', offsets.dy, true);
const residual = new Slot('residual', offsets.residual, true);
const residualOut = new Slot('residualOut', offsets.residualOut, false, residual);
const scale = new Slot('scale', offsets.scale, true);
const bias = new Slot('bias', offsets.bias, true);
const mean = new Slot('mean', offsets.mean, true);
const variance = new Slot('variance', offsets.variance, true);
const invStd = new Slot('invStd', offsets.invStd, true);
const meanOut = new Slot('meanOut', offsets.meanOut, false);
const varianceOut = new Slot('varianceOut', offsets.varianceOut, false);
const invStdOut = new Slot('invStdOut', offsets.invStdOut, false);
const dScaleOut = new Slot('dScaleOut', offsets.dScaleOut, false);
const dBiasOut = new Slot('dBiasOut', offsets.dBiasOut, false);
const inputs = [x, dy, residual, scale, bias, mean, variance, invStd];
// After what they share.
const outputs = [y, residualOut, meanOut, varianceOut, invStdOut, dScaleOut, dBiasOut];
const slots = [...inputs, ...outputs];

function fillParameter(slot: Slot, heap: Heap, op: string, data: Numbers | Tensor | undefined, type: DType): void {
  slot.fill(heap, op, data, type, data ? lengthOf(data) : 0);
}

function fillSlots(heap: Heap, call: Call): void {
  const { op, dtype, length, places, units } = call;
  const type = statisticsOf(dtype);
  x.fill(heap, op, call.x, dtype, length);
  y.fill(heap, op, call.out ?? undefined, dtype, length);
  dy.fill(heap, op, call.dy, dtype, length);
  residual.fill(heap, op, call.residual, dtype, length);
  residualOut.fill(heap, op, call.residualOut, dtype, length);
  fillParameter(scale, heap, op, call.scale, type);
  fillParameter(bias, heap, op, call.bias, type);
  fillParameter(mean, heap, op, call.mean ?? call.savedMean, type);
  mean.isPresent = call.mean !== undefined;
  fillParameter(variance, heap, op, call.variance, type);
  fillParameter(invStd, heap, op, call.invStd, type);
  meanOut.fill(heap, op, call.meanOut, type, places);
  varianceOut.fill(heap, op, call.varianceOut, type, places);
  invStdOut.fill(heap, op, call.invStdOut, type, places);
  dScaleOut.fill(heap, op, call.dScaleOut, type, units);
  dBiasOut.fill(heap, op, call.dBiasOut, type, units);
}

function writesData(): boolean {
  for (let i = 0; i < outputs.length; ++i) if ((outputs[i] as Slot).data) return true;
  return false;
}

/** Of the block, in its order. Numbers that were passed one by one would be garbage. */
const constants = new Float64Array(5);

/** Runs the kernel on the block of arguments, in scratch of as many bytes as it needs. */
function runKernel(heap: Heap, call: Call): void {
  const { op, shape, axes, lengths } = call;
  const { block } = heap;
  let bytes = lengths ? aligned(4 * lengths.length) : 0;
  for (let i = 0; i < slots.length; ++i) bytes += (slots[i] as Slot).room;
  let scratchBytes = 0;
  // What is there already is usually enough. Otherwise it is measured, which takes no data: what was reserved for that
  // would lie idle beside what replaces it.
  if (call.hasScratch) scratchBytes = heap.workspace > bytes ? heap.workspace - bytes : onlyMeasure;
  let status = moreScratch;
  while (status === moreScratch) {
    const isMeasured = scratchBytes !== onlyMeasure;
    heap.reserve(op, isMeasured ? bytes + scratchBytes : 0);
    for (let i = 0; i < slots.length; ++i) (slots[i] as Slot).place(heap, op, isMeasured);
    const lengthsAddress = lengths ? heap.skip(4 * lengths.length) : 0;
    heap.writeWord(block + offsets.lengths, lengthsAddress);
    if (lengths && isMeasured) heap.copyWordsIn(lengthsAddress, lengths);
    heap.writeWord(block + offsets.scratch, heap.skip(0));
    heap.writeWord(block + offsets.scratchBytes, scratchBytes);
    constants[0] = call.epsilon;
    constants[1] = call.p;
    constants[2] = call.alpha;
    constants[3] = call.beta;
    constants[4] = call.k;
    heap.copyIn(block + offsets.epsilon, constants, 'float64');
    heap.writeWord(block + offsets.dtype, dtypeNumbers[call.dtype]);
    heap.writeWord(block + offsets.groups, call.groups);
    heap.writeWord(block + offsets.size, call.size);
    heap.writeWord(block + offsets.rank, shape.length);
    heap.writeWord(block + offsets.axisCount, axes.length);
    for (let i = 0; i < shape.length; ++i) heap.writeWord(block + offsets.shape + 4 * i, shape[i] as number);
    for (let i = 0; i < axes.length; ++i) heap.writeWord(block + offsets.axes + 4 * i, axes[i] as number);

    status = heap.run(op, call.kernel as Kernel);
    scratchBytes = heap.readWord(block + offsets.scratchBytes);
  }
  if (status !== 0) {
    throw new NormError('ERR_AXIS', op, `not possible over axes [${axes.join(', ')}] of rank ${shape.length}`);
  }
}

function clearParameters(): void {
  for (const { data } of [dScaleOut, dBiasOut]) if (data) valuesOf(data).fill(0);
}

/** Copies in what isn't in the memory, runs the kernel, copies out. Returns y, or null where only statistics are wanted. */
export function run(heap: Heap, call: Call): Data | null {
  const { op, shape, dtype, length, out } = call;
  heap.checkUsable(op);
  let made: Tensor | undefined;
  try {
    fillSlots(heap, call);
    if (writesData()) checkOverlap(call);
    if (out === undefined && Tensor.is(call.x)) {
      made = newTensor(heap, op, shape, length, dtype);
      y.fill(heap, op, made, dtype, length);
    } else if (out === undefined) {
      y.isPresent = true;
      y.bytes = x.bytes;
    }
    // Extents beside one of 0 may be of any size, for which the core has no memory and loops for long.
    if (length > 0) runKernel(heap, call);
    else clearParameters();
    const result = out ?? made ?? (out === null ? null : heap.copy(op, y.address, length, call.x as Values, dtype));
    if (length > 0) for (let i = 0; i < outputs.length; ++i) (outputs[i] as Slot).copyOut(heap);
    made = undefined;
    return result;
  } finally {
    made?.free();
    for (let i = 0; i < slots.length; ++i) (slots[i] as Slot).data = undefined;
  }
}
