// What the operations share: each checks its arguments, step by step, and fills in a Call.

import { Call } from './call.js';
import * as check from './check.js';
import { isBits, type Numbers, statisticsOf } from './dtype.js';
import { NormError } from './errors.js';
import { type Heap, newArray } from './heap.js';
import { type Data, Tensor } from './tensor.js';

/** Whether a parameter is an array of bits. */
function hasBits({ scale, bias, mean, variance, invStd }: check.Options): boolean {
  return isBits(scale) || isBits(bias) || isBits(mean) || isBits(variance) || isBits(invStd);
}

// One call runs at a time, so that there is one of each: to make new ones for every call would be garbage.
const theCall = new Call();
const flat = [0];

function shapeOf(op: string, given: unknown, x: Data, length: number): readonly number[] {
  if (given !== undefined && given !== null) return check.shapeOf(op, given, length);
  if (Tensor.is(x)) return Tensor.shapeOf(x);
  flat[0] = length;
  return flat;
}

/** Reads the options of an operation, which are for `begin`. `names` are those that it has. */
export function readOptions(op: string, names: check.Names, x: unknown, options: unknown): check.Options {
  return check.options(op, options, names, x, theCall.given);
}

/** Checks what every operation has: x, its shape and type, and where y goes. */
export function begin(heap: Heap, op: string, x: unknown): Call {
  const call = theCall;
  const o = call.given;
  const dtype = check.dtypeOf(op, x, o.dtype, o.dtype !== undefined && hasBits(o));
  const data = x as Data;
  const length = check.attachedLength(op, 'x', data);
  call.op = op;
  call.kernel = heap.kernels[op];
  call.dtype = dtype;
  call.hasHalves = dtype === 'float16' || o.dtype === 'float16';
  call.x = data;
  call.length = length;
  call.shape = shapeOf(op, o.shape, data, length);
  call.out = op === 'moments' ? null : check.optionalValues(op, 'out', o.out, dtype, length);
  call.hasScratch = dtype === 'float16';
  return call;
}

export function start(heap: Heap, op: string, names: check.Names, x: unknown, options: unknown): Call {
  readOptions(op, names, x, options);
  return begin(heap, op, x);
}

/** Forgets what a call has left, so that nothing of the user's is kept. */
export function finish(): void {
  theCall.clear();
}

/** Scale and bias, one value for each of `count`. */
export function setAffine(call: Call, count: number, why: (call: Call) => string): void {
  call.units = count;
  call.scale = check.optionalVector(call, 'scale', call.given.scale, count, why);
  call.bias = check.optionalVector(call, 'bias', call.given.bias, count, why);
}

/** Arrays that receive statistics, one value for each group. */
export function setStatistics(call: Call, groups: number, why: (call: Call) => string): void {
  call.places = groups;
  call.meanOut = check.optionalStatistics(call, 'meanOut', call.given.meanOut, groups, why);
  call.varianceOut = check.optionalStatistics(call, 'varianceOut', call.given.varianceOut, groups, why);
  call.invStdOut = check.optionalStatistics(call, 'invStdOut', call.given.invStdOut, groups, why);
}

/** Axes that share statistics; returns how many values do. */
export function setAxes(call: Call): number {
  const { op, shape } = call;
  call.axes = check.axesOf(op, call.given.axes, shape);
  // The others may need to be brought into another order.
  if (!check.areLast(call.axes, shape.length)) call.hasScratch = true;
  return check.countOver(op, shape, call.axes);
}

/** Where the channels are said to be, for whoever meant another axis. */
export function alongAxis(call: Call): string {
  const axis = `along axis ${call.axes[0]} of shape ${check.list(call.shape)}`;
  return ` ${axis}${call.given.axis === undefined || call.given.axis === null ? ' (pass axis: -1 for channels last)' : ''}`;
}

/** The channel axis; returns how many channels there are. */
export function setAxis(call: Call): number {
  const axis = check.axisOf(call.op, 'axis', call.given.axis ?? 1, call.shape);
  call.axes = [axis];
  return call.shape[axis] as number;
}

export function othersThan(call: Call, ...axes: (number | undefined)[]): number[] {
  return call.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
}

export function setLengths(call: Call): void {
  call.lengths = check.lengthsOf(call.op, call.given.lengths, call.shape);
  if (call.lengths) call.hasScratch = true;
}

// Why parameters and statistics are as long as they are.
export const perUnit = ({ axes, shape }: Call) =>
  `the extents of axes ${check.list(axes)} of shape ${check.list(shape)}`;
export const perPlace = ({ axes }: Call) => `one for each place outside of axes ${check.list(axes)}`;
export const perChannel = ({ axes, shape }: Call) => `the channels, axis ${axes[0]} of shape ${check.list(shape)}`;
export const perGroup = ({ groups, shape }: Call) => `${shape[0]} items of ${groups} groups`;

/** A new array for statistics, unless there is one. */
export function newStatistics({ op, dtype }: Pick<Call, 'op' | 'dtype'>, length: number): Numbers {
  return newArray(op, length, statisticsOf(dtype));
}

/** How many values share statistics: a number, or one for each group where lengths make it vary. */
export function countsOf({ shape, lengths }: Call, axes: readonly number[], count: number): number | Int32Array {
  if (!lengths) return count;
  const [items, extent, ...rest] = shape as [number, number, ...number[]];
  const inner = check.product(rest.filter((_, i) => axes.includes(i + 2)));
  const outer = check.product(rest.filter((_, i) => !axes.includes(i + 2)));
  const isMerged = axes.includes(0);
  const isAlong = axes.includes(1);
  if (isMerged && isAlong) return lengths.reduce((sum, length) => sum + (length >>> 0), 0) * inner;
  const places = isAlong ? 1 : extent;
  const counts = new Int32Array((isMerged ? 1 : items) * places * outer);
  for (let item = 0; item < items; ++item) {
    // Beside an extent of 0 it may be beyond 2^31.
    const length = (lengths[item] as number) >>> 0;
    const first = isMerged ? 0 : item * places * outer;
    const valid = isAlong ? outer : length * outer;
    for (let i = 0; i < valid; ++i) counts[first + i] = (counts[first + i] as number) + (isAlong ? length : 1) * inner;
  }
  return counts;
}

/** Groups of channels in each item of axis 0; `over` are the axes that a group is over. Returns how many items. */
export function setGroups(call: Call, groups: number, over: readonly number[]): number {
  const { op, shape } = call;
  if (call.axes[0] === 0) {
    throw new NormError('ERR_AXIS', op, `axis 0 of shape ${check.list(shape)} are the items: pass the channels' axis`);
  }
  call.groups = groups;
  check.countOver(op, shape, over);
  return shape[0] as number;
}

/** How many values each channel of a batch has; one is an error. */
export function checkChannelCounts(call: Call): number | Int32Array {
  const { op, shape } = call;
  const [axis] = call.axes as [number];
  check.lengthsBesideChannels(op, axis, call.lengths);
  const otherAxes = othersThan(call, axis);
  const count = countsOf(call, otherAxes, check.countOver(op, shape, otherAxes));
  if (typeof count === 'number' ? count === 1 : count.includes(1)) {
    const given = `shape ${check.list(shape)}${call.lengths ? ' with these lengths' : ''} has one value per channel`;
    throw new NormError('ERR_RANGE', op, `${given}: its variance says nothing; use a larger batch, or layerNorm`);
  }
  return count;
}
