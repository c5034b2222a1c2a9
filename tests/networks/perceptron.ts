// A multilayer perceptron with or without normalization, and how it is trained.

import type { Layer } from 'simdnorm';
import { Random } from '../js/data.ts';
import { classes, type Images, pick, pixels, shuffled } from './digits.ts';
import { crossEntropy, Descent, Linear, type Parameter, tanh, tanhBackward, type Values } from './network.ts';

/** How a network's normalization is made, and restored from its JSON. */
export interface Kind {
  readonly name: string;
  make(): Layer | null;
  restore(json: unknown): Layer | null;
}

export interface Size {
  readonly inputs: number;
  readonly depth: number;
  readonly width: number;
  readonly outputs: number;
}

interface Hidden {
  readonly linear: Linear;
  readonly norm: Layer | null;
}

/** `depth` times linear, normalization, tanh, and a linear layer. */
export class Perceptron {
  readonly hidden: readonly Hidden[];
  readonly last: Linear;
  readonly #squashed: Values[] = [];

  /** The plain initialization, of which Glorot and Bengio 2010 say in eq. 1 and 15 why it fails in deep networks. */
  constructor(
    readonly size: Size,
    readonly kind: Kind,
    seed: number,
    values: Values = new Float32Array(),
  ) {
    const random = new Random(seed);
    const linear = (inputs: number, outputs: number) =>
      new Linear(inputs, outputs, 1 / Math.sqrt(3 * inputs), random, values);
    this.hidden = Array.from({ length: size.depth }, (_, i) => ({
      linear: linear(i === 0 ? size.inputs : size.width, size.width),
      norm: kind.make(),
    }));
    this.last = linear(size.width, size.outputs);
  }

  get parameters(): readonly Parameter[] {
    const hidden = this.hidden.flatMap(({ linear, norm }) => [...linear.parameters, ...(norm?.parameters ?? [])]);
    return [...hidden, ...this.last.parameters];
  }

  set training(value: boolean) {
    for (const { linear, norm } of this.hidden) {
      linear.training = value;
      if (norm) norm.training = value;
    }
    this.last.training = value;
  }

  /** The logits [rows, outputs] of x [rows, inputs]. */
  forward<V extends Values>(x: V): V {
    this.#squashed.length = 0;
    let y = x;
    for (const { linear, norm } of this.hidden) {
      y = linear.forward(y);
      if (norm) y = norm.forward(y);
      y = tanh(y);
      this.#squashed.push(y);
    }
    return this.last.forward(y);
  }

  backward<V extends Values>(dLogits: V): V {
    let d = this.last.backward(dLogits);
    for (const [i, { linear, norm }] of [...this.hidden.entries()].reverse()) {
      d = tanhBackward(d, this.#squashed[i] as Values);
      if (norm) d = norm.backward(d);
      d = linear.backward(d);
    }
    return d;
  }

  toJSON(): object {
    const linears = [...this.hidden.map(({ linear }) => linear), this.last];
    return {
      linears: linears.map(({ weight, bias }) => [Array.from(weight.value), Array.from(bias.value)]),
      norms: this.hidden.map(({ norm }) => norm),
    };
  }

  /** A network like this one from what JSON.stringify has made of another. */
  restored(text: string): Perceptron {
    const { linears, norms } = JSON.parse(text) as { linears: [number[], number[]][]; norms: unknown[] };
    const remaining = [...norms];
    const kind = { ...this.kind, make: () => this.kind.restore(remaining.shift()) };
    const result = new Perceptron(this.size, kind, 0);
    for (const [i, { weight, bias }] of [...result.hidden.map(({ linear }) => linear), result.last].entries()) {
      const [weights, biases] = linears[i] as [number[], number[]];
      weight.value.set(weights);
      bias.value.set(biases);
    }
    return result;
  }
}

export interface Course {
  readonly rate: number;
  readonly epochs: number;
  readonly batch: number;
  readonly seed: number;
  readonly momentum?: number;
}

/** The mean loss of each epoch. The rate falls linearly to 0; a last batch that isn't full is left out. */
export function train(network: Perceptron, images: Images, { rate, epochs, batch, seed, momentum }: Course): number[] {
  const random = new Random(seed);
  const descent = new Descent(network.parameters, rate, momentum);
  const batches = Math.floor(images.count / batch);
  network.training = true;
  return Array.from({ length: epochs }, (_, epoch) => {
    const order = shuffled(images.count, random);
    let sum = 0;
    for (let i = 0; i < batches; ++i) {
      const { values, labels } = pick(images, order.subarray(i * batch, (i + 1) * batch));
      const logits = network.forward(values);
      sum += crossEntropy(logits, labels).loss;
      network.backward(logits);
      descent.step(1 - (epoch * batches + i) / (epochs * batches));
    }
    return sum / batches;
  });
}

export function predict(network: Perceptron, images: Images): Float32Array {
  network.training = false;
  return network.forward(images.values);
}

/** The part of the images whose largest logit is their label's. */
export function accuracy(network: Perceptron, images: Images): number {
  return crossEntropy(predict(network, images), images.labels).correct / images.count;
}

export const digitsSize = (depth: number, width: number): Size => ({ inputs: pixels, depth, width, outputs: classes });
