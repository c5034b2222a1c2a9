// A call whose arguments have been checked: lays them out in the module's memory as `struct Call` in embind.cpp has it.

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
  readonly epsilon?: number;
  readonly x: Float32Array;
  /** Where y goes: undefined for a new array, null where only statistics are wanted. */
  readonly out: Float32Array | undefined | null;
  readonly scale?: Numbers | undefined;
  readonly bias?: Numbers | undefined;
  readonly mean?: Numbers | undefined;
  readonly variance?: Numbers | undefined;
  readonly meanOut?: Float32Array | undefined;
  readonly varianceOut?: Float32Array | undefined;
  readonly invStdOut?: Float32Array | undefined;
}

const inputs = ['scale', 'bias', 'mean', 'variance'] as const;
const outputs = ['meanOut', 'varianceOut', 'invStdOut'] as const;

function overlap(a: Numbers, b: Numbers): boolean {
  return (
    a.buffer === b.buffer && a.byteOffset < b.byteOffset + b.byteLength && b.byteOffset < a.byteOffset + a.byteLength
  );
}

/** What is written overlaps nothing else that the call touches, but for `out`, which may be x itself. */
function checkOverlap(call: Call): void {
  const touched: [name: string, values: Numbers][] = [['x', call.x]];
  const add = (name: (typeof inputs)[number] | (typeof outputs)[number] | 'out') => {
    const values = call[name];
    if (values) touched.push([name, values]);
  };
  const check = (name: (typeof outputs)[number] | 'out') => {
    const values = call[name];
    if (!values) return;
    for (const [otherName, other] of touched) {
      if (!overlap(values, other)) continue;
      if (name === 'out' && other === call.x && other.byteOffset === values.byteOffset) continue;
      const hint = other === call.x && name === 'out' ? ' in part (x itself may be out)' : '';
      throw new NormError('ERR_OVERLAP', call.op, `${name} shares memory with ${otherName}${hint}`);
    }
    add(name);
  };
  inputs.forEach(add);
  check('out');
  outputs.forEach(check);
}

/** Copies in, runs the kernel, copies out. Returns y, or null where only statistics are wanted. */
export function run(heap: Heap, call: Call): Float32Array | null {
  const { op, x, out, shape, axes } = call;
  if ((out && out !== x) || call.meanOut || call.varianceOut || call.invStdOut) checkOverlap(call);

  let bytes = blockBytes + alignedBytes(x.length);
  for (const name of inputs) bytes += alignedBytes(call[name]?.length ?? 0);
  for (const name of outputs) bytes += alignedBytes(call[name]?.length ?? 0);
  const block = heap.reserve(op, bytes);

  let next = block + blockBytes;
  const place = (name: (typeof inputs)[number] | (typeof outputs)[number] | 'x', length: number | undefined) => {
    const address = length === undefined ? 0 : next;
    heap.writeWord(block + offsets[name], address);
    next += alignedBytes(length ?? 0);
    return address;
  };
  const xAddress = place('x', x.length);
  // y takes x's place: x is a copy already, and one array in the cache is better than two.
  heap.writeWord(block + offsets.y, out === null ? 0 : xAddress);
  heap.copyIn(xAddress, x);
  for (const name of inputs) {
    const values = call[name];
    const address = place(name, values?.length);
    if (values) heap.copyIn(address, values);
  }
  const outputAddresses = outputs.map((name) => place(name, call[name]?.length));
  heap.writeDouble(block + offsets.epsilon, call.epsilon ?? 0);
  heap.writeWord(block + offsets.rank, shape.length);
  heap.writeWord(block + offsets.axisCount, axes.length);
  for (const [i, extent] of shape.entries()) heap.writeWord(block + offsets.shape + 4 * i, extent);
  for (const [i, axis] of axes.entries()) heap.writeWord(block + offsets.axes + 4 * i, axis);

  const status = heap.run(op, call.kernel, block);
  if (status !== 0) {
    throw new NormError('ERR_AXIS', op, `not possible over axes [${axes.join(', ')}] of rank ${shape.length}`);
  }

  let y: Float32Array | null = null;
  if (out) heap.copyOut(xAddress, out);
  if (out !== null) y = out ?? heap.copy(op, xAddress, x.length);
  outputs.forEach((name, i) => {
    const values = call[name];
    if (values) heap.copyOut(outputAddresses[i] as number, values);
  });
  return y;
}
