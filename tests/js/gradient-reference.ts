// The gradients of the operations, from the formulas that the chain rule gives: in double, over the valid values only.
// Statistics are those of reference.ts; nothing is shared with the package.

import type { Layout } from './layouts.ts';
import { lpNormalize as forwardLpNormalize, rmsNorm as forwardRmsNorm, moments, type Shape } from './reference.ts';

type Values = ArrayLike<number>;

export interface Parameters {
  readonly scale?: Values | null | undefined;
  readonly epsilon?: number | undefined;
  /** Valid lengths of the items of axis 0 along axis 1. */
  readonly lengths?: Values | undefined;
  /** What a forward call saved, one for each group, in place of what x has. */
  readonly invStd?: Values | undefined;
}

export interface Gradients {
  readonly dx: Float64Array;
  readonly dScale: Float64Array;
  readonly dBias: Float64Array;
  /** What errors are relative to: the sums of the magnitudes of what is added. */
  readonly magnitude: { readonly dx: Float64Array; readonly dScale: Float64Array; readonly dBias: Float64Array };
}

/** A value of a group: where it is in x, and where its scale and bias are. */
interface Member {
  readonly i: number;
  readonly parameter: number;
}

function product(extents: Shape): number {
  let result = 1;
  for (const extent of extents) result *= extent;
  return result;
}

function fromTheFront(axis: number, rank: number): number {
  return axis < 0 ? axis + rank : axis;
}

/**
 * The valid values of each group: that is a place along the axes that are left, row-major in the shape's order; a
 * parameter is one along the axes that are reduced, row-major in the order in which they are given.
 */
function groupsOverAxes(shape: Shape, axes: readonly number[], lengths?: Values): Member[][] {
  const reduced = axes.map((axis) => fromTheFront(axis, shape.length));
  const kept = shape.map((_, axis) => axis).filter((axis) => !reduced.includes(axis));
  const groups: Member[][] = Array.from({ length: product(kept.map((axis) => shape[axis] as number)) }, () => []);
  const place = shape.map(() => 0);
  for (let i = 0; i < product(shape); ++i) {
    const isValid = !lengths || (place[1] as number) < (lengths[place[0] as number] as number);
    let group = 0;
    for (const axis of kept) group = group * (shape[axis] as number) + (place[axis] as number);
    let parameter = 0;
    for (const axis of reduced) parameter = parameter * (shape[axis] as number) + (place[axis] as number);
    if (isValid) groups[group]?.push({ i, parameter });
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      place[axis] = (place[axis] as number) + 1;
      if (place[axis] !== shape[axis]) break;
      place[axis] = 0;
    }
  }
  return groups;
}

/** The values of each channel of a batch. */
function groupsOfChannels(shape: Shape, axis: number, lengths?: Values): Member[][] {
  const channel = fromTheFront(axis, shape.length);
  const others = shape.map((_, other) => other).filter((other) => other !== channel);
  return groupsOverAxes(shape, others, lengths).map((members, c) => members.map(({ i }) => ({ i, parameter: c })));
}

/** The values of each group of neighbouring channels, item by item, of [N, before, C, after]. */
function groupsOfItems(shape: Shape, axis: number, groups: number): Member[][] {
  const channel = fromTheFront(axis, shape.length);
  const before = product(shape.slice(1, channel));
  const channels = shape[channel] as number;
  const after = product(shape.slice(channel + 1));
  const size = channels / groups;
  const result: Member[][] = [];
  for (let n = 0; n < (shape[0] as number); ++n) {
    for (let group = 0; group < groups; ++group) {
      const members: Member[] = [];
      for (let c = group * size; c < (group + 1) * size; ++c) {
        for (let row = 0; row < before; ++row) {
          for (let column = 0; column < after; ++column) {
            members.push({ i: ((n * before + row) * channels + c) * after + column, parameter: c });
          }
        }
      }
      result.push(members);
    }
  }
  return result;
}

function emptyGradients(size: number, parameters: number): Gradients {
  const make = () => ({
    dx: new Float64Array(size),
    dScale: new Float64Array(parameters),
    dBias: new Float64Array(parameters),
  });
  return { ...make(), magnitude: make() };
}

/** Parameters reach the package's kernels as float32. */
function parameterOf(values: Values | null | undefined, i: number, absent: number): number {
  return values ? Math.fround(values[i] as number) : absent;
}

function addTo(sums: Float64Array, i: number, value: number): void {
  sums[i] = (sums[i] as number) + value;
}

/** Sums of dy * h and of dy, of the values that share a scale and a bias. */
function addParameters(result: Gradients, { i, parameter }: Member, dy: Values, h: number): void {
  const slope = dy[i] as number;
  addTo(result.dScale, parameter, slope * h);
  addTo(result.dBias, parameter, slope);
  addTo(result.magnitude.dScale, parameter, Math.abs(slope) * Math.max(1, Math.abs(h)));
  addTo(result.magnitude.dBias, parameter, Math.abs(slope));
}

/** What the values of a group share. Without a mean that is subtracted there is no gradient through it. */
interface Statistics {
  readonly mean: number;
  readonly invStd: number;
  readonly isCentered: boolean;
}

/** dx = invStd * (g - mean(g) - h * mean(g * h)), where g = dy * scale and h = (x - mean) * invStd. */
function addGroup(
  result: Gradients,
  members: readonly Member[],
  dy: Values,
  x: Values,
  scale: Values | null | undefined,
  { mean, invStd, isCentered }: Statistics,
): void {
  const weighted = ({ i, parameter }: Member) => (dy[i] as number) * parameterOf(scale, parameter, 1);
  const normalized = ({ i }: Member) => ((x[i] as number) - mean) * invStd;
  let sumOfG = 0;
  let sumOfGH = 0;
  let sizeOfG = 0;
  let sizeOfGH = 0;
  for (const member of members) {
    const [g, h] = [weighted(member), normalized(member)];
    sumOfG += g;
    sumOfGH += g * h;
    sizeOfG += Math.abs(g);
    sizeOfGH += Math.abs(g) * Math.max(1, Math.abs(h));
  }
  const n = members.length;
  const meanOfG = isCentered ? sumOfG / n : 0;
  const meanOfGH = sumOfGH / n;
  for (const member of members) {
    const [g, h] = [weighted(member), normalized(member)];
    result.dx[member.i] = invStd * (g - meanOfG - h * meanOfGH);
    const size = Math.abs(g) + (isCentered ? sizeOfG / n : 0) + Math.max(1, Math.abs(h)) * (sizeOfGH / n);
    result.magnitude.dx[member.i] = invStd * size;
    addParameters(result, member, dy, h);
  }
}

function centered(
  dy: Values,
  x: Values,
  groups: readonly Member[][],
  parameters: number,
  { scale, epsilon = 1e-5, invStd }: Parameters,
): Gradients {
  const result = emptyGradients(x.length, parameters);
  groups.forEach((members, group) => {
    if (members.length === 0) return;
    const values = members.map(({ i }) => x[i] as number);
    const { mean, variance } = moments(values, [values.length], [0]);
    const own = 1 / Math.sqrt((variance[0] as number) + epsilon);
    const statistics = { mean: mean[0] as number, invStd: invStd ? (invStd[group] as number) : own };
    addGroup(result, members, dy, x, scale, { ...statistics, isCentered: true });
  });
  return result;
}

/** Of layer norm over axes: its parameters have their extents, in the order given. */
export function layerNorm(
  dy: Values,
  x: Values,
  shape: Shape,
  axes: readonly number[],
  parameters: Parameters = {},
): Gradients {
  const units = product(axes.map((axis) => shape[fromTheFront(axis, shape.length)] as number));
  return centered(dy, x, groupsOverAxes(shape, axes, parameters.lengths), units, parameters);
}

/** dx = r * (g - h * mean(g * h)), where r = 1 / sqrt(mean(x^2) + epsilon) and h = x * r. dBias is none of its. */
export function rmsNorm(
  dy: Values,
  x: Values,
  shape: Shape,
  axes: readonly number[],
  { scale, epsilon = 1e-5, lengths, invStd }: Parameters = {},
): Gradients {
  const units = product(axes.map((axis) => shape[fromTheFront(axis, shape.length)] as number));
  const result = emptyGradients(x.length, units);
  groupsOverAxes(shape, axes, lengths).forEach((members, group) => {
    if (members.length === 0) return;
    const values = members.map(({ i }) => x[i] as number);
    const own = forwardRmsNorm(values, [values.length], [0], { epsilon }).invStd[0] as number;
    const r = invStd ? (invStd[group] as number) : own;
    addGroup(result, members, dy, x, scale, { mean: 0, invStd: r, isCentered: false });
  });
  return result;
}

export function instanceNorm(
  dy: Values,
  x: Values,
  shape: Shape,
  axis: number,
  parameters: Parameters = {},
): Gradients {
  const channels = shape[fromTheFront(axis, shape.length)] as number;
  return centered(dy, x, groupsOfItems(shape, axis, channels), channels, parameters);
}

export function groupNorm(
  dy: Values,
  x: Values,
  shape: Shape,
  axis: number,
  groups: number,
  parameters: Parameters = {},
): Gradients {
  const channels = shape[fromTheFront(axis, shape.length)] as number;
  return centered(dy, x, groupsOfItems(shape, axis, groups), channels, parameters);
}

export function batchNormTraining(
  dy: Values,
  x: Values,
  shape: Shape,
  axis: number,
  parameters: Parameters = {},
): Gradients {
  const channels = groupsOfChannels(shape, axis, parameters.lengths);
  return centered(dy, x, channels, channels.length, parameters);
}

/** dx = g * invStd: the statistics are constants. */
export function batchNorm(
  dy: Values,
  x: Values,
  shape: Shape,
  axis: number,
  {
    scale,
    epsilon = 1e-5,
    ...given
  }: Pick<Parameters, 'scale' | 'epsilon'> & { readonly mean: Values; readonly variance: Values },
): Gradients {
  const channels = groupsOfChannels(shape, axis);
  const result = emptyGradients(x.length, channels.length);
  channels.forEach((members, c) => {
    const mean = parameterOf(given.mean, c, 0);
    const invStd = 1 / Math.sqrt(parameterOf(given.variance, c, 1) + epsilon);
    for (const member of members) {
      const { i } = member;
      result.dx[i] = (dy[i] as number) * parameterOf(scale, c, 1) * invStd;
      result.magnitude.dx[i] = Math.abs(result.dx[i] as number);
      addParameters(result, member, dy, ((x[i] as number) - mean) * invStd);
    }
  });
  return result;
}

/**
 * p = 2: dx = (dy - y * sum(dy * y)) / norm. p = 1: (dy - sign(x) * sum(dy * y)) / norm. p = Infinity: as p = 1, with
 * sign(x) only at the first of the largest magnitudes. Where the norm is below epsilon, y is x / epsilon. There are no
 * parameters.
 */
export function lpNormalize(
  dy: Values,
  x: Values,
  shape: Shape,
  axes: readonly number[],
  { p = 2, epsilon = 1e-12 }: { readonly p?: number | undefined; readonly epsilon?: number | undefined } = {},
): Gradients {
  const result = emptyGradients(x.length, 0);
  const { dx, magnitude } = result;
  const { norm: norms } = forwardLpNormalize(x, shape, axes, { p, epsilon });
  groupsOverAxes(shape, axes).forEach((members, group) => {
    const norm = norms[group] as number;
    if (norm < epsilon) {
      for (const { i } of members) {
        dx[i] = (dy[i] as number) / epsilon;
        magnitude.dx[i] = Math.abs(dx[i] as number);
      }
      return;
    }
    let sum = 0;
    let size = 0;
    let first = -1;
    for (const { i } of members) {
      const y = (x[i] as number) / norm;
      sum += (dy[i] as number) * y;
      size += Math.abs((dy[i] as number) * y);
      if (first < 0 && Math.abs(x[i] as number) === norm) first = i;
    }
    for (const { i } of members) {
      const y = (x[i] as number) / norm;
      const sign = p === 1 || i === first ? Math.sign(x[i] as number) : 0;
      const direction = p === 2 ? y : sign;
      dx[i] = ((dy[i] as number) - direction * sum) / norm;
      magnitude.dx[i] = (Math.abs(dy[i] as number) + Math.abs(direction) * size) / norm;
    }
  });
  return result;
}

/** What a gradient may be given beside dy, x and where they lie. */
export type Given = Readonly<{
  scale?: Values | undefined;
  epsilon?: number | undefined;
  lengths?: readonly number[] | undefined;
  mean?: Values | undefined;
  invStd?: Values | undefined;
  variance?: Values | undefined;
  p?: number | undefined;
}>;
export type GivenStatistics = Readonly<{ mean: Values; variance: Values }>;

/** Of the operation that a layout is of. */
export function gradientsOf(
  { op, shape, axes, axis, groups }: Layout,
  dy: Values,
  x: Values,
  given: Given = {},
): Gradients {
  if (op === 'lpNormalize') return lpNormalize(dy, x, shape, axes, given);
  if (op === 'layerNorm') return layerNorm(dy, x, shape, axes, given);
  if (op === 'rmsNorm') return rmsNorm(dy, x, shape, axes, given);
  if (op === 'instanceNorm') return instanceNorm(dy, x, shape, axis, given);
  if (op === 'groupNorm') return groupNorm(dy, x, shape, axis, groups, given);
  if (op === 'batchNormTraining') return batchNormTraining(dy, x, shape, axis, given);
  return batchNorm(dy, x, shape, axis, given as Given & GivenStatistics);
}
