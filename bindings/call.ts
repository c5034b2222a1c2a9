// A call whose arguments have been checked: lays them out in the module's memory as `struct Call` in embind.cpp has it.
//
// A call of few values is all overhead, so this and check.ts make no garbage that isn't needed: no closures over
// lists of names, no messages that nobody reads.

import { NormError } from './errors.js';
import { alignedBytes, type Heap } from './heap.js';

export const maxRank = 16;

/** Byte offsets in struct Call. */
const offsets = {
  epsilon: 0,
  x: 8,
  y: 12,
  scale: 16,
  bias: 20,
  mean: 24,
  variance: 28,
  meanOut: 32,
  varianceOut: 36,
  invStdOut: 40,
  rank: 44,
  axisCount: 48,
  shape: 52,
  axes: 52 + 4 * maxRank,
} as const;
/** The size of the struct, rounded up to where an aligned array can follow it. */
const blockBytes = 192;

export type Numbers = Float32Array | Float64Array;

export interface Call {
  readonly op: string;
  readonly kernel: (call: number) => number;
  readonly shape: readonly number[];
  /** Ascending, none negative. */
  readonly axes: readonly number[];
  readonly epsilon: number;
  readonly x: Float32Array;
  /** Where y goes: undefined for a new array, null where only statistics are wanted. */
  readonly out: Float32Array | undefined | null;
  readonly scale: Numbers | undefined;
  readonly bias: Numbers | undefined;
  readonly mean: Numbers | undefined;
  readonly variance: Numbers | undefined;
  readonly meanOut: Float32Array | undefined;
  readonly varianceOut: Float32Array | undefined;
  readonly invStdOut: Float32Array | undefined;
}

const names = ['x', 'scale', 'bias', 'mean', 'variance', 'out', 'meanOut', 'varianceOut', 'invStdOut'];
const firstWritten = names.indexOf('out');

/** What is written overlaps nothing else that the call touches, but for `out`, which may be x itself. */
function checkOverlap(call: Call): void {
  const { op, x, scale, bias, mean, variance, out, meanOut, varianceOut, invStdOut } = call;
  const touched = [x, scale, bias, mean, variance, out, meanOut, varianceOut, invStdOut];
  for (let i = firstWritten; i < touched.length; ++i) {
    const written = touched[i];
    if (!written?.length) continue;
    const { buffer, byteOffset, byteLength } = written;
    for (let j = 0; j < i; ++j) {
      const other = touched[j];
      if (!other?.length || other.buffer !== buffer) continue;
      if (other.byteOffset >= byteOffset + byteLength || byteOffset >= other.byteOffset + other.byteLength) continue;
      const isOutOverX = i === firstWritten && j === 0;
      if (isOutOverX && byteOffset === x.byteOffset) continue;
      const hint = isOutOverX ? ' in part (out may be x itself)' : '';
      throw new NormError('ERR_OVERLAP', op, `${names[i]} shares memory with ${names[j]}${hint}`);
    }
  }
}

function roomFor(values: Numbers | undefined): number {
  return values ? alignedBytes(values.length) : 0;
}

/** Copies in, runs the kernel, copies out. Returns y, or null where only statistics are wanted. */
export function run(heap: Heap, call: Call): Float32Array | null {
  const { op, x, out, shape, axes, scale, bias, mean, variance, meanOut, varianceOut, invStdOut } = call;
  if (out || meanOut || varianceOut || invStdOut) checkOverlap(call);

  const parameters = roomFor(scale) + roomFor(bias) + roomFor(mean) + roomFor(variance);
  const statistics = roomFor(meanOut) + roomFor(varianceOut) + roomFor(invStdOut);
  const block = heap.reserve(op, blockBytes + alignedBytes(x.length) + parameters + statistics);
  heap.skip(blockBytes);

  // y takes x's place: x is a copy already, and one array in the cache is better than two.
  const xAddress = heap.put(x);
  heap.writeWord(block + offsets.x, xAddress);
  heap.writeWord(block + offsets.y, out === null ? 0 : xAddress);
  heap.writeWord(block + offsets.scale, scale ? heap.put(scale) : 0);
  heap.writeWord(block + offsets.bias, bias ? heap.put(bias) : 0);
  heap.writeWord(block + offsets.mean, mean ? heap.put(mean) : 0);
  heap.writeWord(block + offsets.variance, variance ? heap.put(variance) : 0);
  const meanAddress = heap.skip(roomFor(meanOut));
  const varianceAddress = heap.skip(roomFor(varianceOut));
  const invStdAddress = heap.skip(roomFor(invStdOut));
  heap.writeWord(block + offsets.meanOut, meanOut ? meanAddress : 0);
  heap.writeWord(block + offsets.varianceOut, varianceOut ? varianceAddress : 0);
  heap.writeWord(block + offsets.invStdOut, invStdOut ? invStdAddress : 0);
  heap.writeDouble(block + offsets.epsilon, call.epsilon);
  heap.writeWord(block + offsets.rank, shape.length);
  heap.writeWord(block + offsets.axisCount, axes.length);
  for (let i = 0; i < shape.length; ++i) heap.writeWord(block + offsets.shape + 4 * i, shape[i] as number);
  for (let i = 0; i < axes.length; ++i) heap.writeWord(block + offsets.axes + 4 * i, axes[i] as number);

  const status = heap.run(op, call.kernel, block);
  if (status !== 0) {
    throw new NormError('ERR_AXIS', op, `not possible over axes [${axes.join(', ')}] of rank ${shape.length}`);
  }

  let y: Float32Array | null = null;
  if (out) {
    heap.copyOut(xAddress, out);
    y = out;
  } else if (out === undefined) {
    y = heap.copy(op, xAddress, x.length);
  }
  if (meanOut) heap.copyOut(meanAddress, meanOut);
  if (varianceOut) heap.copyOut(varianceAddress, varianceOut);
  if (invStdOut) heap.copyOut(invStdAddress, invStdOut);
  return y;
}
