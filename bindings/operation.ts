// What the operations share: each checks its arguments, step by step, and fills in a Call.

import { type Call, newCall } from './call.js';
import * as check from './check.js';
import { isBits, lengthOf, type Numbers, statisticsOf } from './dtype.js';
import { NormError } from './errors.js';
import { type Heap, type Kernel, resultArray } from './heap.js';

/** Why an array must be as long as x. */
export const asX = () => "x's length";

export interface Started {
  readonly o: check.Options;
  readonly call: Call;
}

/** Whether a parameter is an array of bits. */
function hasBits({ scale, bias, mean, variance, invStd }: check.Options): boolean {
  return isBits(scale) || isBits(bias) || isBits(mean) || isBits(variance) || isBits(invStd);
}

/** Checks what every operation has: x, its shape and type, and where y goes. `names` are those of its options. */
export function start(heap: Heap, op: string, names: readonly string[], x: unknown, options: unknown): Started {
  const o = check.options(op, options, names, x);
  const dtype = check.dtypeOf(op, x, o.dtype, hasBits(o));
  const hasHalves = dtype === 'float16' || o.dtype === 'float16';
  const values = check.values(op, 'x', x, dtype);
  const length = lengthOf(values);
  const shape = check.shapeOf(op, o.shape, length);
  const out = op === 'moments' ? null : check.optionalValues(op, 'out', o.out, dtype, length, asX);
  return { o, call: newCall(op, heap.kernels[op] as Kernel, o, shape, dtype, values, length, out, hasHalves) };
}

/** Scale and bias, one value for each of `count`. */
export function setAffine({ o, call }: Started, count: number, why: () => string): void {
  call.scale = check.optionalVector(call, 'scale', o.scale, count, why);
  call.bias = check.optionalVector(call, 'bias', o.bias, count, why);
}

/** Arrays that receive statistics, one value for each group. */
export function setStatistics({ o, call }: Started, groups: number, why: () => string): void {
  call.meanOut = check.optionalStatistics(call, 'meanOut', o.meanOut, groups, why);
  call.varianceOut = check.optionalStatistics(call, 'varianceOut', o.varianceOut, groups, why);
  call.invStdOut = check.optionalStatistics(call, 'invStdOut', o.invStdOut, groups, why);
}

/** Axes that share statistics; returns how many values do. */
export function setAxes({ o, call }: Started): number {
  const { op, shape } = call;
  call.axes = check.axesOf(op, o.axes, shape);
  // The others may need to be brought into another order.
  if (!check.areLast(call.axes, shape.length)) call.hasScratch = true;
  return check.countOver(op, shape, call.axes);
}

/** Where the channels are said to be, for whoever meant another axis. */
export function alongAxis({ o, call }: Started): string {
  const axis = `along axis ${call.axes[0]} of shape ${check.list(call.shape)}`;
  return ` ${axis}${o.axis === undefined || o.axis === null ? ' (pass axis: -1 for channels last)' : ''}`;
}

/** The channel axis; returns how many channels there are. */
export function setAxis({ o, call }: Started): number {
  const axis = check.axisOf(call.op, 'axis', o.axis ?? 1, call.shape);
  call.axes = [axis];
  return call.shape[axis] as number;
}

export function othersThan({ call }: Started, ...axes: (number | undefined)[]): number[] {
  return call.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
}

export function setLengths({ o, call }: Started): void {
  call.lengths = check.lengthsOf(call.op, o.lengths, call.shape);
  if (call.lengths) call.hasScratch = true;
}

export function perChannel(call: Call): () => string {
  return () => `the channels, axis ${call.axes[0]} of shape ${check.list(call.shape)}`;
}

/** A new array for statistics, unless there is one. */
export function newStatistics({ op, dtype }: Pick<Call, 'op' | 'dtype'>, length: number): Numbers {
  const isWide = statisticsOf(dtype) === 'float64';
  return resultArray(op, (isWide ? 8 : 4) * length, () =>
    isWide ? new Float64Array(length) : new Float32Array(length),
  );
}

/** How many values share statistics: a number, or one for each group where lengths make it vary. */
export function countsOf({ shape, lengths }: Call, axes: readonly number[], count: number): number | Int32Array {
  if (!lengths) return count;
  const [items, extent, ...rest] = shape as [number, number, ...number[]];
  const inner = rest.reduce((product, e, i) => (axes.includes(i + 2) ? product * e : product), 1);
  const outer = rest.reduce((product, e, i) => (axes.includes(i + 2) ? product : product * e), 1);
  const isMerged = axes.includes(0);
  const isAlong = axes.includes(1);
  if (isMerged && isAlong) return lengths.reduce((sum, length) => sum + length, 0) * inner;
  const places = isAlong ? 1 : extent;
  const counts = new Int32Array((isMerged ? 1 : items) * places * outer);
  for (let item = 0; item < items; ++item) {
    const length = lengths[item] as number;
    const first = isMerged ? 0 : item * places * outer;
    const valid = isAlong ? outer : length * outer;
    for (let i = 0; i < valid; ++i) counts[first + i] = (counts[first + i] as number) + (isAlong ? length : 1) * inner;
  }
  return counts;
}

/** Groups of channels in each item of axis 0; `over` are the axes that a group is over. Returns how many items. */
export function setGroups({ call }: Started, groups: number, over: readonly number[]): number {
  const { op, shape } = call;
  if (call.axes[0] === 0) {
    throw new NormError('ERR_AXIS', op, `axis 0 of shape ${check.list(shape)} are the items: pass the channels' axis`);
  }
  call.groups = groups;
  check.countOver(op, shape, over);
  return shape[0] as number;
}

/** How many values each channel of a batch has; one is an error. */
export function checkChannelCounts(started: Started): number | Int32Array {
  const { call } = started;
  const { op, shape } = call;
  const [axis] = call.axes as [number];
  check.lengthsBesideChannels(op, axis, call.lengths);
  const otherAxes = othersThan(started, axis);
  const count = countsOf(call, otherAxes, check.countOver(op, shape, otherAxes));
  if (typeof count === 'number' ? count === 1 : count.includes(1)) {
    const given = `shape ${check.list(shape)}${call.lengths ? ' with these lengths' : ''} has one value per channel`;
    throw new NormError('ERR_RANGE', op, `${given}: its variance says nothing; use a larger batch, or layerNorm`);
  }
  return count;
}
