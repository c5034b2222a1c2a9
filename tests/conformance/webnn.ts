// The operators of WebNN, as they are written in the web-platform-tests: other names for the same options.

import type { Simdnorm } from 'simdnorm';
import { describeInput, parameterBeside, type Tensor, tensorOf, typeOf, type Values } from './vectors.ts';

interface Described {
  readonly data: unknown;
  readonly descriptor: { readonly shape: readonly number[]; readonly dataType: string };
}

type Options = Readonly<Record<string, unknown>>;

export interface Operator {
  readonly name: string;
  /** One of each in each object: operands by the names of their arrays, and { options }. */
  readonly arguments: readonly Options[];
  readonly outputs: string | readonly string[];
}

export interface Graph {
  readonly inputs: Readonly<Record<string, Described>>;
  readonly operators: readonly Operator[];
  readonly expectedOutputs: Readonly<Record<string, Described>>;
}

export interface WebnnCase {
  readonly name: string;
  readonly graph: Graph;
}

export function tensorFrom({ data, descriptor }: Described): Tensor {
  return tensorOf(data, descriptor.shape, descriptor.dataType);
}

/** What an operator was given, each to be taken by its name: what is left then has no meaning here. */
class Given {
  readonly #operator: string;
  readonly #left: Map<string, unknown>;
  readonly #operands: ReadonlyMap<string, Tensor>;

  constructor(operator: string, values: Options, operands: ReadonlyMap<string, Tensor>) {
    this.#operator = operator;
    this.#left = new Map(Object.entries(values));
    this.#operands = operands;
  }

  take<T>(name: string, absent: T): T {
    const value = this.#left.get(name);
    this.#left.delete(name);
    return value === undefined ? absent : (value as T);
  }

  operand(name: string): Tensor | undefined {
    const reference = this.take<string | undefined>(name, undefined);
    if (reference === undefined) return undefined;
    const tensor = this.#operands.get(reference);
    if (!tensor) throw new Error(`${this.#operator}: no operand '${reference}' for ${name}`);
    return tensor;
  }

  needed(name: string): Tensor {
    const tensor = this.operand(name);
    if (!tensor) throw new Error(`${this.#operator}: ${name} is missing`);
    return tensor;
  }

  expectNothingLeft(): void {
    for (const name of this.#left.keys()) throw new Error(`${this.#operator}: unknown argument or option '${name}'`);
  }
}

type Run = (sn: Simdnorm, x: Tensor, operands: Given, options: Given) => () => Values;

const batchNormalization: Run = (sn, x, operands, options) => {
  const given = {
    ...describeInput(x),
    axis: options.take('axis', 1),
    epsilon: options.take('epsilon', 1e-5),
    mean: parameterBeside(x, operands.needed('mean')) as Values,
    variance: parameterBeside(x, operands.needed('variance')) as Values,
    scale: parameterBeside(x, options.operand('scale')),
    bias: parameterBeside(x, options.operand('bias')),
  };
  return () => sn.batchNorm(x.values, given);
};

const instanceNormalization: Run = (sn, x, _, options) => {
  const layout = options.take('layout', 'nchw');
  const axis = { nchw: 1, nhwc: 3 }[layout];
  if (axis === undefined) throw new Error(`instanceNormalization: unknown layout '${layout}'`);
  const given = {
    ...describeInput(x),
    axis,
    epsilon: options.take('epsilon', 1e-5),
    scale: parameterBeside(x, options.operand('scale')),
    bias: parameterBeside(x, options.operand('bias')),
  };
  return () => sn.instanceNorm(x.values, given);
};

const layerNormalization: Run = (sn, x, _, options) => {
  const allButTheFirst = x.shape.map((_, axis) => axis).slice(1);
  const given = {
    ...describeInput(x),
    axes: options.take<readonly number[]>('axes', allButTheFirst),
    epsilon: options.take('epsilon', 1e-5),
    scale: parameterBeside(x, options.operand('scale')),
    bias: parameterBeside(x, options.operand('bias')),
  };
  return () => sn.layerNorm(x.values, given);
};

const operators = new Map<string, Run>(
  Object.entries({ batchNormalization, instanceNormalization, layerNormalization }),
);

/** All arrays of a graph by name, when its operators have run one after the other. */
export function runGraph(sn: Simdnorm, graph: Graph): ReadonlyMap<string, Tensor> {
  const tensors = new Map(Object.entries(graph.inputs).map(([name, input]) => [name, tensorFrom(input)]));
  for (const { name, arguments: list, outputs } of graph.operators) {
    const run = operators.get(name);
    if (!run) throw new Error(`unknown operator '${name}'`);
    const operands = new Given(name, Object.assign({}, ...list), tensors);
    const options = new Given(name, operands.take<Options>('options', {}), tensors);
    // A name for error messages, which every operator may have.
    options.take('label', '');
    const x = operands.needed('input');
    const call = run(sn, x, operands, options);
    operands.expectNothingLeft();
    options.expectNothingLeft();
    const [output, ...others] = [outputs].flat();
    if (output === undefined || others.length > 0) throw new Error(`${name} has one output`);
    const values = call();
    if (typeOf(values) !== typeOf(x.values)) throw new Error(`${name}: y is not of x's type`);
    tensors.set(output, { shape: x.shape, values });
  }
  return tensors;
}
