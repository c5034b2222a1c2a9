// A recurrent layer over sequences of different lengths, whose normalization is one layer that answers many calls.

import type { Layer } from 'simdnorm';
import type { Random } from '../js/data.ts';
import { Linear, type Parameter, tanh, tanhBackward, type Values, zeros } from './network.ts';

/**
 * h[t] = tanh(norm(drive[t] + weight h[t - 1] + bias)), as in Ba, Kiros, Hinton 2016, eq. 4. The items are in the order
 * of their lengths, longest first, so that those which still run at a step are the first rows.
 */
export class Recurrent<V extends Values> {
  readonly hidden: Linear;
  /** What tanh made at each step that waits for its backward. */
  readonly #kept: V[] = [];
  #lengths: readonly number[] = [];
  #steps = 0;

  constructor(
    readonly units: number,
    readonly norm: Layer | null,
    random: Random,
    readonly kind: V,
  ) {
    this.hidden = new Linear(units, units, 1 / Math.sqrt(units), random, kind);
  }

  get parameters(): readonly Parameter[] {
    return [...this.hidden.parameters, ...(this.norm?.parameters ?? [])];
  }

  set training(value: boolean) {
    this.hidden.training = value;
    if (this.norm) this.norm.training = value;
  }

  #running(step: number): number {
    return this.#lengths.filter((length) => step < length).length;
  }

  /** From drive [items, steps, units] to the state [items, units] after each item's last step. */
  forward(drive: V, steps: number, lengths: readonly number[]): V {
    const { units, norm } = this;
    this.#lengths = lengths;
    this.#steps = steps;
    this.#kept.length = 0;
    const state = zeros(this.kind, lengths.length * units);
    for (let step = 0; this.#running(step) > 0; ++step) {
      const rows = this.#running(step);
      const sum = this.hidden.forward(state.slice(0, rows * units) as V);
      for (let row = 0; row < rows; ++row) {
        for (let unit = 0; unit < units; ++unit) {
          const at = row * units + unit;
          sum[at] = (sum[at] as number) + (drive[(row * steps + step) * units + unit] as number);
        }
      }
      const y = tanh(norm ? norm.forward(sum) : sum);
      this.#kept.push(y);
      state.set(y);
    }
    return state;
  }

  /** From the last states' gradient to that of drive; `past` stands where drive has no effect. */
  backward(dState: V, past = 0): V {
    const { units, norm } = this;
    const steps = this.#steps;
    const dDrive = zeros(this.kind, this.#lengths.length * steps * units).fill(past) as V;
    const d = dState.slice() as V;
    for (let step = this.#kept.length - 1; step >= 0; --step) {
      const rows = this.#running(step);
      const dy = tanhBackward(d.slice(0, rows * units) as V, this.#kept[step] as V);
      const dSum = norm ? norm.backward(dy) : dy;
      for (let row = 0; row < rows; ++row) {
        dDrive.set(dSum.subarray(row * units, (row + 1) * units), (row * steps + step) * units);
      }
      d.set(this.hidden.backward(dSum));
    }
    return dDrive;
  }
}
