// Ba, Kiros, Hinton 2016, table 1: what a change of a layer's weights or data does behind each normalization.

import { expect } from 'vitest';
import { type Case, expectNear, machineEpsilon, promise } from './reference.ts';

export type Weight = (unit: number, input: number) => number;
export type Input = (n: number, input: number) => number;

/** a = W x for each case: what is normalized. */
export function summedInputs(w: Weight, x: Input, size: { cases: number; units: number; inputs: number }) {
  const a = new Float32Array(size.cases * size.units);
  for (let n = 0; n < size.cases; ++n) {
    for (let unit = 0; unit < size.units; ++unit) {
      let sum = 0;
      for (let input = 0; input < size.inputs; ++input) sum += w(unit, input) * x(n, input);
      a[n * size.units + unit] = sum;
    }
  }
  return a;
}

/** The columns of the table, and its entries. */
export function changes(w: Weight, x: Input) {
  const row = (change: string, batchNorm: boolean, layerNorm: boolean, changed: { w?: Weight; x?: Input }) => {
    return { change, invariant: { batchNorm, layerNorm }, w, x, ...changed };
  };
  return [
    row('weight matrix re-scaling', true, true, { w: (u, i) => 1.7 * w(u, i) }),
    row('weight matrix re-centering', false, true, { w: (u, i) => w(u, i) + 0.3 * (i + 1) }),
    row('weight vector re-scaling', true, false, { w: (u, i) => (u === 3 ? 1.7 : 1) * w(u, i) }),
    row('dataset re-scaling', true, true, { x: (n, i) => 1.7 * x(n, i) }),
    row('dataset re-centering', true, false, { x: (n, i) => x(n, i) + 0.3 * (i + 1) }),
    row('single case re-scaling', false, true, { x: (n, i) => (n === 2 ? 1.7 : 1) * x(n, i) }),
  ];
}

export function expectInvariance(what: Case, before: Float32Array, after: Float32Array, invariant: boolean): void {
  if (invariant) {
    // The summed inputs are rounded to float32 before each of the two; their size here is up to 20 deviations.
    const bound = 2 * (promise + 20 * machineEpsilon);
    const magnitude = Array.from(before, (value) => Math.max(1, Math.abs(value)));
    expectNear(what, after, before, bound, magnitude);
  } else {
    const difference = before.map((value, i) => Math.abs(value - (after[i] as number)));
    expect(Math.max(...difference)).toBeGreaterThan(0.05);
  }
}
