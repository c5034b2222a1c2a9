// A call whose arguments have been checked: lays them out in the module's memory as `struct Call` in embind.cpp has it.
//
// A call of few values is all overhead, so this and check.ts make no garbage that isn't needed: no closures over
// lists of names, no messages that nobody reads.

import type { Options } from './check.js';
import {
  beginTogether,
  bytesOf,
  type DType,
  lengthOf,
  type Numbers,
  shareMemory,
  statisticsOf,
  typedArrayTag,
  type Values,
} from './dtype.js';
import { NormError } from './errors.js';
import { aligned, type Heap, type Kernel } from './heap.js';

export const maxRank = 16;

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
const blockBytes = 132 + 8 * maxRank;

const dtypeNumbers = { float32: 0, float64: 1, float16: 2 } as const;
/** As the scratch that a call has: only says how much it needs. */
const onlyMeasure = 2 ** 32 - 1;
const moreScratch = 100;

/** Everything that an operation may take. Undefined: absent. */
export interface Call {
  readonly op: string;
  readonly kernel: Kernel;
  /** The user's own arrays, of which the call may have copies. */
  readonly given: Options;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly x: Values;
  /** How many values x has. */
  readonly length: number;
  /** Where y goes: undefined for a new array, null where only statistics are wanted. */
  out: Values | undefined | null;
  /** None is negative. */
  axes: readonly number[];
  epsilon: number;
  dy: Values | undefined;
  residual: Values | undefined;
  residualOut: Values | undefined;
  scale: Numbers | undefined;
  bias: Numbers | undefined;
  mean: Numbers | undefined;
  variance: Numbers | undefined;
  invStd: Numbers | undefined;
  lengths: Int32Array | undefined;
  meanOut: Numbers | undefined;
  varianceOut: Numbers | undefined;
  invStdOut: Numbers | undefined;
  dScaleOut: Numbers | undefined;
  dBiasOut: Numbers | undefined;
  groups: number;
  p: number;
  size: number;
  alpha: number;
  beta: number;
  k: number;
  /** Whether Uint16Arrays are float16 bits. */
  readonly hasHalves: boolean;
  /** Whether the core may need memory to work in. */
  hasScratch: boolean;
}

export function newCall(
  op: string,
  kernel: Kernel,
  given: Options,
  shape: readonly number[],
  dtype: DType,
  x: Values,
  length: number,
  out: Values | undefined | null,
  hasHalves: boolean,
): Call {
  return {
    op,
    kernel,
    given,
    shape,
    dtype,
    x,
    length,
    out,
    axes: [],
    epsilon: 1e-5,
    dy: undefined,
    residual: undefined,
    residualOut: undefined,
    scale: undefined,
    bias: undefined,
    mean: undefined,
    variance: undefined,
    invStd: undefined,
    lengths: undefined,
    meanOut: undefined,
    varianceOut: undefined,
    invStdOut: undefined,
    dScaleOut: undefined,
    dBiasOut: undefined,
    groups: 1,
    p: 2,
    size: 1,
    alpha: 1e-4,
    beta: 0.75,
    k: 1,
    hasHalves,
    hasScratch: dtype === 'float16',
  };
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

/** What is written overlaps nothing else that the call touches, but for what may be the same. */
function checkOverlap({ op, x, dy, given }: Call): void {
  const { residual, scale, bias, mean, variance, invStd, lengths } = given;
  const { out, residualOut, meanOut, varianceOut, invStdOut, dScaleOut, dBiasOut } = given;
  const inputs = [x, dy, residual, scale, bias, mean, variance, invStd, lengths];
  const touched = [...inputs, out, residualOut, meanOut, varianceOut, invStdOut, dScaleOut, dBiasOut];
  for (let i = firstWritten; i < touched.length; ++i) {
    const output = touched[i] as Values | undefined | null;
    if (!output || !typedArrayTag.call(output)) continue;
    for (let j = 0; j < i; ++j) {
      const other = touched[j] as Values | undefined | null;
      if (!other || !typedArrayTag.call(other) || !shareMemory(output, other)) continue;
      const name = names[i] as string;
      const otherName = names[j] as string;
      const mayBe = mayBeSame(name, otherName);
      if (mayBe && beginTogether(output, other)) continue;
      const hint = mayBe ? ` in part (${name} may be ${otherName} itself)` : '';
      throw new NormError('ERR_OVERLAP', op, `${name} shares memory with ${otherName}${hint}`);
    }
  }
}

/** Copies in, runs the kernel, copies out. Returns y, or null where only statistics are wanted. */
export function run(heap: Heap, call: Call): Values | null {
  const { op, shape, axes, dtype, x, length, out, dy, residual, scale, bias, mean, variance, invStd, lengths } = call;
  const { residualOut, meanOut, varianceOut, invStdOut, dScaleOut, dBiasOut } = call;
  if (out || residualOut || meanOut || varianceOut || invStdOut || dScaleOut || dBiasOut) checkOverlap(call);

  const xBytes = aligned(bytesOf(dtype) * length);
  const statistics = statisticsOf(dtype);
  const numberBytes = bytesOf(statistics);
  const roomFor = (values: Numbers | undefined) => (values ? aligned(numberBytes * lengthOf(values)) : 0);
  const parameters = roomFor(scale) + roomFor(bias) + roomFor(mean) + roomFor(variance) + roomFor(invStd);
  const statisticsOut = roomFor(meanOut) + roomFor(varianceOut) + roomFor(invStdOut);
  const results = statisticsOut + roomFor(dScaleOut) + roomFor(dBiasOut);
  const lengthBytes = lengths ? aligned(4 * lengths.length) : 0;
  const bytes =
    aligned(blockBytes) + (1 + (residual ? 1 : 0) + (dy ? 1 : 0)) * xBytes + parameters + results + lengthBytes;

  let block = 0;
  let xAddress = 0;
  let residualAddress = 0;
  let meanAddress = 0;
  let varianceAddress = 0;
  let invStdAddress = 0;
  let dScaleAddress = 0;
  let dBiasAddress = 0;
  let status = moreScratch;
  let isMeasured = !call.hasScratch;
  for (let scratchBytes = isMeasured ? 0 : onlyMeasure; status === moreScratch; isMeasured = true) {
    // To measure takes no data. What was reserved for it would lie idle beside what replaces it.
    block = heap.reserve(op, isMeasured ? bytes + scratchBytes : blockBytes);
    heap.skip(blockBytes);
    // set() refuses an empty array whose buffer has shrunk beneath it. A parameter is only empty where x is.
    const isCopied = isMeasured && length > 0;
    const place = (values: Numbers | undefined, offset: number) => {
      const address = values ? heap.skip(numberBytes * lengthOf(values)) : 0;
      heap.writeWord(block + offset, address);
      return address;
    };
    const copyIn = (values: Numbers | undefined, offset: number) => {
      const address = place(values, offset);
      if (values && isMeasured && (isCopied || lengthOf(values) > 0)) heap.copyIn(address, values, statistics);
    };
    // y takes x's place, and x + residual the residual's: these are copies already, and one array in the cache is
    // better than two.
    xAddress = heap.skip(xBytes);
    heap.writeWord(block + offsets.x, xAddress);
    heap.writeWord(block + offsets.y, out === null ? 0 : xAddress);
    residualAddress = residual ? heap.skip(xBytes) : 0;
    heap.writeWord(block + offsets.residual, residualAddress);
    heap.writeWord(block + offsets.residualOut, residualOut ? residualAddress : 0);
    if (isCopied) heap.copyIn(xAddress, x, dtype);
    if (isCopied && residual) heap.copyIn(residualAddress, residual, dtype);
    const dyAddress = dy ? heap.skip(xBytes) : 0;
    heap.writeWord(block + offsets.dy, dyAddress);
    if (isCopied && dy) heap.copyIn(dyAddress, dy, dtype);
    copyIn(scale, offsets.scale);
    copyIn(bias, offsets.bias);
    copyIn(mean, offsets.mean);
    copyIn(variance, offsets.variance);
    copyIn(invStd, offsets.invStd);
    meanAddress = place(meanOut, offsets.meanOut);
    varianceAddress = place(varianceOut, offsets.varianceOut);
    invStdAddress = place(invStdOut, offsets.invStdOut);
    dScaleAddress = place(dScaleOut, offsets.dScaleOut);
    dBiasAddress = place(dBiasOut, offsets.dBiasOut);
    const lengthsAddress = lengths ? heap.skip(lengthBytes) : 0;
    heap.writeWord(block + offsets.lengths, lengthsAddress);
    if (lengths && isMeasured) heap.copyWordsIn(lengthsAddress, lengths);
    heap.writeWord(block + offsets.scratch, heap.skip(0));
    heap.writeWord(block + offsets.scratchBytes, scratchBytes);
    heap.writeDouble(block + offsets.epsilon, call.epsilon);
    heap.writeDouble(block + offsets.p, call.p);
    heap.writeDouble(block + offsets.alpha, call.alpha);
    heap.writeDouble(block + offsets.beta, call.beta);
    heap.writeDouble(block + offsets.k, call.k);
    heap.writeWord(block + offsets.dtype, dtypeNumbers[dtype]);
    heap.writeWord(block + offsets.groups, call.groups);
    heap.writeWord(block + offsets.size, call.size);
    heap.writeWord(block + offsets.rank, shape.length);
    heap.writeWord(block + offsets.axisCount, axes.length);
    for (let i = 0; i < shape.length; ++i) heap.writeWord(block + offsets.shape + 4 * i, shape[i] as number);
    for (let i = 0; i < axes.length; ++i) heap.writeWord(block + offsets.axes + 4 * i, axes[i] as number);

    status = heap.run(op, call.kernel, block);
    scratchBytes = heap.readWord(block + offsets.scratchBytes);
  }
  if (status !== 0) {
    throw new NormError('ERR_AXIS', op, `not possible over axes [${axes.join(', ')}] of rank ${shape.length}`);
  }

  let y: Values | null = null;
  if (out) {
    heap.copyOut(xAddress, out, dtype);
    y = out;
  } else if (out === undefined) {
    y = heap.copy(op, xAddress, length, x, dtype);
  }
  if (residualOut) heap.copyOut(residualAddress, residualOut, dtype);
  if (meanOut) heap.copyOut(meanAddress, meanOut, statistics);
  if (varianceOut) heap.copyOut(varianceAddress, varianceOut, statistics);
  if (invStdOut) heap.copyOut(invStdAddress, invStdOut, statistics);
  if (dScaleOut) heap.copyOut(dScaleAddress, dScaleOut, statistics);
  if (dBiasOut) heap.copyOut(dBiasAddress, dBiasOut, statistics);
  return y;
}
