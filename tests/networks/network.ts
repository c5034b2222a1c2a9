// What networks are made of besides normalization: matrix products, a squashing function, a loss and an optimizer.

import type { Random } from '../js/data.ts';

/** The gradients' checks are in double. */
export type Values = Float32Array | Float64Array;

/** What an optimizer changes. A layer of the package has such too. */
export interface Parameter {
  readonly value: Values;
  readonly gradient: Values;
}

export function zeros<V extends Values>(like: V, length: number): V {
  const values = like instanceof Float64Array ? new Float64Array(length) : new Float32Array(length);
  return values as V;
}

/**
 * out[row, column] += the sum of a[row, k] b[k, column] over k. a is [rows, inner] as its strides have it; b and out are
 * row-major. Four k at once, which is three times as fast as one.
 */
function addProduct(
  out: Values,
  a: Values,
  b: Values,
  { rows, inner, columns }: { readonly rows: number; readonly inner: number; readonly columns: number },
  [rowStride, innerStride]: readonly [number, number],
): void {
  const fours = inner - (inner % 4);
  for (let row = 0; row < rows; ++row) {
    const first = row * columns;
    for (let k = 0; k < fours; k += 4) {
      const at = row * rowStride + k * innerStride;
      const a0 = a[at] as number;
      const a1 = a[at + innerStride] as number;
      const a2 = a[at + 2 * innerStride] as number;
      const a3 = a[at + 3 * innerStride] as number;
      const b0 = k * columns;
      const b1 = b0 + columns;
      const b2 = b1 + columns;
      const b3 = b2 + columns;
      for (let column = 0; column < columns; ++column) {
        out[first + column] =
          (out[first + column] as number) +
          (a0 * (b[b0 + column] as number) + a1 * (b[b1 + column] as number)) +
          (a2 * (b[b2 + column] as number) + a3 * (b[b3 + column] as number));
      }
    }
    for (let k = fours; k < inner; ++k) {
      const factor = a[row * rowStride + k * innerStride] as number;
      for (let column = 0; column < columns; ++column) {
        out[first + column] = (out[first + column] as number) + factor * (b[k * columns + column] as number);
      }
    }
  }
}

function transpose<V extends Values>(values: V, rows: number, columns: number): V {
  const result = zeros(values, values.length);
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      result[column * rows + row] = values[row * columns + column] as number;
    }
  }
  return result;
}

/** y = x weight + bias for each row of x. While training forward keeps x on a stack, as the layers of the package do. */
export class Linear {
  training = true;
  /** [inputs, outputs] */
  readonly weight: Parameter;
  readonly bias: Parameter;
  readonly #kept: Values[] = [];

  /** The weights are uniform, and of the given deviation. */
  constructor(
    readonly inputs: number,
    readonly outputs: number,
    deviation: number,
    random: Random,
    kind: Values = new Float32Array(),
  ) {
    const parameter = (length: number) => ({ value: zeros(kind, length), gradient: zeros(kind, length) });
    this.weight = parameter(inputs * outputs);
    this.bias = parameter(outputs);
    const { value } = this.weight;
    for (let i = 0; i < value.length; ++i) value[i] = (2 * random.unit() - 1) * Math.sqrt(3) * deviation;
  }

  get parameters(): readonly Parameter[] {
    return [this.weight, this.bias];
  }

  forward<V extends Values>(x: V): V {
    const { inputs, outputs } = this;
    const rows = x.length / inputs;
    const y = zeros(x, rows * outputs);
    for (let row = 0; row < rows; ++row) y.set(this.bias.value, row * outputs);
    addProduct(y, x, this.weight.value, { rows, inner: inputs, columns: outputs }, [inputs, 1]);
    if (this.training) this.#kept.push(x);
    return y;
  }

  /** Adds to the gradients and returns that of x. */
  backward<V extends Values>(dy: V): V {
    const { inputs, outputs } = this;
    const x = this.#kept.pop();
    if (!x) throw new Error('backward without forward');
    const rows = x.length / inputs;
    const dBias = this.bias.gradient;
    for (let i = 0; i < dy.length; ++i) dBias[i % outputs] = (dBias[i % outputs] as number) + (dy[i] as number);
    addProduct(this.weight.gradient, x, dy, { rows: inputs, inner: rows, columns: outputs }, [1, inputs]);
    const dx = zeros(dy, x.length);
    const turned = transpose(this.weight.value, inputs, outputs);
    addProduct(dx, dy, turned, { rows, inner: outputs, columns: inputs }, [outputs, 1]);
    return dx;
  }
}

/** In y's place, from which its backward is computed. */
export function tanh<V extends Values>(y: V): V {
  for (let i = 0; i < y.length; ++i) y[i] = Math.tanh(y[i] as number);
  return y;
}

/** dy times the derivative, in dy's place; y is what tanh made. */
export function tanhBackward<V extends Values>(dy: V, y: Values): V {
  for (let i = 0; i < dy.length; ++i) dy[i] = (dy[i] as number) * (1 - (y[i] as number) ** 2);
  return dy;
}

/** The mean cross entropy of rows of logits, its gradient in their place, and how many of the largest are the labels. */
export function crossEntropy(logits: Values, labels: ArrayLike<number>): { loss: number; correct: number } {
  const rows = labels.length;
  const classes = logits.length / rows;
  let loss = 0;
  let correct = 0;
  for (let row = 0; row < rows; ++row) {
    const own = logits.subarray(row * classes, (row + 1) * classes);
    const label = labels[row] as number;
    let largest = 0;
    for (let c = 1; c < classes; ++c) if ((own[c] as number) > (own[largest] as number)) largest = c;
    if (largest === label) ++correct;
    const logit = own[label] as number;
    const max = own[largest] as number;
    let sum = 0;
    for (let c = 0; c < classes; ++c) {
      own[c] = Math.exp((own[c] as number) - max);
      sum += own[c] as number;
    }
    loss += Math.log(sum) - (logit - max);
    for (let c = 0; c < classes; ++c) own[c] = ((own[c] as number) / sum - (c === label ? 1 : 0)) / rows;
  }
  return { loss: loss / rows, correct };
}

/** Stochastic gradient descent with momentum: v = momentum v - rate gradient, value += v. */
export class Descent {
  readonly #velocities: readonly Float64Array[];

  constructor(
    readonly parameters: readonly Parameter[],
    readonly rate: number,
    readonly momentum = 0.9,
  ) {
    this.#velocities = parameters.map(({ value }) => new Float64Array(value.length));
  }

  /** Takes the gradients and leaves zeros. `part` is of the rate; together they count as no longer than `longest`. */
  step(part = 1, longest = Infinity): void {
    const shrinking = longest === Infinity ? 1 : Math.min(1, longest / this.#length());
    const rate = this.rate * part * shrinking;
    for (const [n, { value, gradient }] of this.parameters.entries()) {
      const velocity = this.#velocities[n] as Float64Array;
      for (let i = 0; i < value.length; ++i) {
        velocity[i] = this.momentum * (velocity[i] as number) - rate * (gradient[i] as number);
        value[i] = (value[i] as number) + (velocity[i] as number);
      }
      gradient.fill(0);
    }
  }

  /** Of all gradients, as one vector. */
  #length(): number {
    let squares = 0;
    for (const { gradient } of this.parameters) for (const d of gradient) squares += d * d;
    return Math.sqrt(squares);
  }
}
