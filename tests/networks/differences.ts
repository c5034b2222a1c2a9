// Derivatives by their definition, in double.

import type { Parameter, Values } from './network.ts';

/** A power of two, so that multiples of it are moved by it exactly, in float32 too. */
const step = 2 ** -12;

export function roundToStep(value: number): number {
  return Math.round(value / step) * step;
}

/**
 * By five points: (4 D(h) - D(2h)) / 3, where D is the central difference. What it leaves out falls with h^4, so that
 * with 2h it is 16 times as much. The other part of the bound is the rounding of the losses.
 */
function derivative(values: Values, i: number, lossOf: () => number): { value: number; bound: number } {
  const value = values[i] as number;
  const lossAt = (distance: number) => {
    values[i] = value + distance;
    if (values[i] !== value + distance) throw new Error(`${value} can't be moved by ${distance}`);
    return lossOf();
  };
  const difference = (h: number) => (lossAt(h) - lossAt(-h)) / (2 * h);
  const one = difference(step);
  const two = difference(2 * step);
  const four = difference(4 * step);
  const rounding = (64 * Number.EPSILON * Math.abs(lossAt(0))) / step;
  const fine = (4 * one - two) / 3;
  const coarse = (4 * two - four) / 3;
  return { value: fine, bound: rounding + Math.abs(coarse - fine) };
}

/** A bound above this would hide mistakes. */
const sharp = 1e-7;

/**
 * Every value of every gradient. A float32 gradient is the sum of `additions`, each of which rounds. Returns the largest
 * error of those that are in double.
 */
export function expectDerivatives(
  op: string,
  gradients: readonly (readonly [name: string, Parameter])[],
  lossOf: () => number,
  additions = 1,
): number {
  let worst = 0;
  for (const [name, { value, gradient }] of gradients) {
    if (gradient.length !== value.length) throw new Error(`${op}: ${name} has ${gradient.length} gradients`);
    let largest = 0;
    for (const each of gradient) largest = Math.max(largest, Math.abs(each));
    const isRounded = gradient instanceof Float32Array;
    for (let i = 0; i < value.length; ++i) {
      const got = gradient[i] as number;
      const right = derivative(value, i, lossOf);
      const bound = right.bound + (isRounded ? additions * 2 ** -24 * largest : 0);
      const error = Math.abs(got - right.value);
      if (!(right.bound < sharp) || !(error <= bound)) {
        const numbers = `expected ${right.value}, got ${got}, error ${error}, bound ${bound}`;
        throw new Error(`${op}: gradient of ${name} [${value.length}] at ${i}: ${numbers}`);
      }
      if (!isRounded) worst = Math.max(worst, error);
    }
  }
  return worst;
}
