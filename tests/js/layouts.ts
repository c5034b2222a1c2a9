// Where the values of a call lie: which of them share statistics and which share a parameter, counted place by place.

import { type DType, isOverAxes, type Op, type Options } from './calls.ts';
import { product } from './data.ts';

type Shape = readonly number[];

export interface Layout {
  readonly op: Op;
  readonly shape: Shape;
  /** From the front, in any order: of the operations over axes. */
  readonly axes: readonly number[];
  /** The channel axis of the others, from the front. */
  readonly axis: number;
  readonly groups: number;
}

export function stridesOf(shape: Shape): number[] {
  return shape.map((_, axis) => product(shape.slice(axis + 1)));
}

/** For each value its place along some axes, row-major in their order. */
export function placesAlong(shape: Shape, axes: readonly number[]): Int32Array {
  const strides = stridesOf(shape);
  const places = new Int32Array(product(shape));
  for (const axis of axes) {
    const extent = shape[axis] as number;
    const stride = strides[axis] as number;
    for (let i = 0; i < places.length; ++i) {
      places[i] = (places[i] as number) * extent + (Math.floor(i / stride) % extent);
    }
  }
  return places;
}

export function allBut(shape: Shape, axes: readonly number[]): number[] {
  return shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
}

/** For each value which statistics it shares. Operations that have none treat each value by itself. */
export function groupsOf({ op, shape, axes, axis, groups }: Layout): Int32Array {
  if (isOverAxes(op)) return placesAlong(shape, allBut(shape, axes));
  if (op === 'batchNormTraining') return placesAlong(shape, [axis]);
  if (op === 'instanceNorm') return placesAlong(shape, [0, axis]);
  if (op === 'groupNorm') {
    const channels = shape[axis] as number;
    const items = placesAlong(shape, [0]);
    return placesAlong(shape, [axis]).map((c, i) => {
      return (items[i] as number) * groups + Math.floor((c * groups) / channels);
    });
  }
  return placesAlong(shape, allBut(shape, []));
}

export function countOf(groupOf: Int32Array): number {
  return groupOf.reduce((most, group) => Math.max(most, group + 1), 0);
}

/** How many values scale and bias have. */
export function parameterLength({ op, shape, axes, axis }: Omit<Layout, 'groups'>): number {
  return isOverAxes(op) ? product(axes.map((each) => shape[each] as number)) : (shape[axis] as number);
}

/** For each value its scale and bias. */
export function parameterPlaces({ op, shape, axes, axis }: Layout): Int32Array {
  return placesAlong(shape, isOverAxes(op) ? axes : [axis]);
}

export function layoutOptions({ op, shape, axes, axis, groups }: Layout): Options {
  const place = isOverAxes(op) ? { axes } : { axis };
  return { shape, ...place, ...(op === 'groupNorm' ? { groups } : {}) };
}

/** Arrays for the statistics of the operations that return y alone. */
export function statisticsFor(layout: Layout, dtype: DType): Options {
  const length = countOf(groupsOf(layout));
  const make = () => (dtype === 'float64' ? new Float64Array(length) : new Float32Array(length));
  if (layout.op === 'rmsNorm') return { invStdOut: make() };
  const saved = ['layerNorm', 'instanceNorm', 'groupNorm'].includes(layout.op);
  return saved ? { meanOut: make(), invStdOut: make() } : {};
}
