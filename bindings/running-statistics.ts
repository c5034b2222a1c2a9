// Running averages of batches' statistics.

import { countOf } from './check.js';
import { newArray } from './heap.js';
import { arrayFromJSON, arrayToJSON, fieldsOf } from './layer-json.js';

/**
 * One average for each channel. In double: with a momentum of null the thousandth batch has a weight of 1 / 1000, whose
 * share of a float32 would be lost in rounding.
 */
export class Moving {
  /** What callers see, and may change. */
  readonly values: Float32Array;
  readonly #precise: Float64Array;
  /** Batches that each channel had values in. */
  readonly #seen: Float64Array;

  /** With the fields of a layer's JSON what is there by the name. */
  constructor(op: string, channels: number, initial: number, name: string, fields?: Record<string, unknown>) {
    if (fields) {
      const json = fieldsOf(op, fields[name], name);
      this.#precise = arrayFromJSON(op, `${name}.values`, json.values, channels, Float64Array);
      this.#seen = arrayFromJSON(op, `${name}.batches`, json.batches, channels, Float64Array);
      this.#seen.forEach((count, c) => {
        countOf(op, `${name}.batches[${c}]`, count);
      });
    } else {
      this.#precise = newArray(op, channels, 'float64').fill(initial);
      this.#seen = newArray(op, channels, 'float64');
    }
    this.values = newArray(op, channels, 'float32');
    this.values.set(this.#precise);
  }

  /** Takes over what a caller has written into `values`. */
  #follow(): void {
    for (let c = 0; c < this.values.length; ++c) {
      const value = this.values[c] as number;
      if (!Object.is(Math.fround(this.#precise[c] as number), value)) this.#precise[c] = value;
    }
  }

  /** Statistics of a batch, of which NaN are of channels without values. `momentum` null: the plain average. */
  add(batch: ArrayLike<number>, momentum: number | null, hasValues: (channel: number) => boolean): void {
    this.#follow();
    for (let c = 0; c < this.values.length; ++c) {
      if (!hasValues(c)) continue;
      const seen = (this.#seen[c] as number) + 1;
      const weight = momentum ?? 1 / seen;
      const before = this.#precise[c] as number;
      // A weight of 1 forgets what was before, NaN too.
      const next = weight === 1 ? (batch[c] as number) : (1 - weight) * before + weight * (batch[c] as number);
      this.#seen[c] = seen;
      this.#precise[c] = next;
      this.values[c] = next;
    }
  }

  toJSON(): object {
    this.#follow();
    return { values: arrayToJSON(this.#precise), batches: arrayToJSON(this.#seen) };
  }
}
