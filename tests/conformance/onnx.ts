// The operators of ONNX, as they are written in its backend's node tests: other names for the same options.

import type { Simdnorm } from 'simdnorm';
import { describeInput, numbersOf, parameterBeside, type Tensor, tensorOf, type Values } from './vectors.ts';

interface Described {
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly data: unknown;
}

export interface OnnxCase {
  readonly name: string;
  readonly op: string;
  readonly opset: number;
  readonly attributes: Readonly<Record<string, number>>;
  /** In the operator's order; the names are the test's own. */
  readonly inputs: Readonly<Record<string, Described>>;
  readonly outputs: Readonly<Record<string, Described>>;
}

export function tensorFrom({ data, shape, dtype }: Described): Tensor {
  return tensorOf(data, shape, dtype);
}

/** Its attributes and inputs are taken from it, so that what is left has no meaning here. */
class Node {
  readonly opset: number;
  readonly #op: string;
  readonly #attributes: Map<string, number>;
  readonly #inputs: Tensor[];

  constructor({ op, opset, attributes, inputs }: OnnxCase) {
    this.opset = opset;
    this.#op = op;
    this.#attributes = new Map(Object.entries(attributes));
    this.#inputs = Object.values(inputs).map(tensorFrom);
  }

  fail(message: string): never {
    throw new Error(`${this.#op} of opset ${this.opset}: ${message}`);
  }

  /** Without a default it must be there. */
  attribute(name: string, absent?: number): number {
    const value = this.#attributes.get(name) ?? absent;
    this.#attributes.delete(name);
    return value ?? this.fail(`attribute ${name} is missing`);
  }

  /** In what type the statistics are computed: only ONNX's default, float, is what happens here. */
  takeStashType(): void {
    const float = 1;
    const type = this.attribute('stash_type', float);
    if (type !== float) this.fail(`unknown stash_type ${type}`);
  }

  optional(): Tensor | undefined {
    return this.#inputs.shift();
  }

  input(name: string): Tensor {
    return this.optional() ?? this.fail(`input ${name} is missing`);
  }

  expectNothingLeft(): void {
    for (const name of this.#attributes.keys()) this.fail(`unknown attribute '${name}'`);
    if (this.#inputs.length > 0) this.fail(`${this.#inputs.length} inputs too many`);
  }
}

/** Takes what the node has and returns the call, whose results are the operator's outputs in their order. */
type Operator = (sn: Simdnorm, node: Node) => () => Tensor[];

function product(extents: readonly number[]): number {
  return extents.reduce((result, extent) => result * extent, 1);
}

/** The parameter's values at these places, in its own type. */
function pick({ values }: Tensor, shape: readonly number[], places: readonly number[]): Tensor {
  const Same = values.constructor as new (list: number[]) => Values;
  return { shape, values: new Same(places.map((i) => values[i] as number)) };
}

/** numpy's broadcasting, of a parameter to the extents that it is for. */
function broadcast(node: Node, parameter: Tensor, shape: readonly number[]): Tensor {
  const missing = shape.length - parameter.shape.length;
  const extents = shape.map((_, axis) => parameter.shape[axis - missing] ?? 1);
  if (missing < 0 || extents.some((extent, axis) => extent !== 1 && extent !== shape[axis])) {
    node.fail(`a parameter [${parameter.shape.join(', ')}] for [${shape.join(', ')}]`);
  }
  const places = Array.from({ length: product(shape) }, (_, i) => {
    let rest = i;
    let place = 0;
    let stride = 1;
    for (let axis = shape.length - 1; axis >= 0; --axis) {
      const extent = extents[axis] as number;
      if (extent > 1) place += stride * (rest % extent);
      stride *= extent;
      rest = Math.floor(rest / (shape[axis] as number));
    }
    return place;
  });
  return pick(parameter, shape, places);
}

/** From an axis to the last one, as ONNX names the axes of a layer. */
function axesFrom(node: Node, { shape }: Tensor): number[] {
  const axis = node.attribute('axis', -1);
  const first = axis < 0 ? axis + shape.length : axis;
  if (!(first >= 0 && first < shape.length)) node.fail(`no axis ${axis} in [${shape.join(', ')}]`);
  return shape.map((_, each) => each).slice(first);
}

const BatchNormalization: Operator = (sn, node) => {
  const x = node.input('X');
  const [scale, bias] = [node.input('scale'), node.input('B')];
  const [mean, variance] = [node.input('input_mean'), node.input('input_var')];
  const isTraining = node.attribute('training_mode', 0);
  if (isTraining !== 0 && isTraining !== 1) node.fail(`unknown training_mode ${isTraining}`);
  const momentum = node.attribute('momentum', 0.9);
  const { shape, dtype } = describeInput(x);
  const options = {
    // A single axis is the batch's, and the channel is one.
    shape: shape.length === 1 ? [...shape, 1] : shape,
    dtype,
    epsilon: node.attribute('epsilon', 1e-5),
    scale: parameterBeside(x, scale),
    bias: parameterBeside(x, bias),
  };
  if (!isTraining) {
    const given = {
      ...options,
      mean: parameterBeside(x, mean) as Values,
      variance: parameterBeside(x, variance) as Values,
    };
    return () => [{ shape, values: sn.batchNorm(x.values, given) }];
  }
  /** ONNX's momentum is the weight of what was, and its variances are the population's. */
  const run = (was: Tensor, batch: ArrayLike<number>): Tensor => {
    const running = numbersOf(was.values).map((value, c) => momentum * value + (1 - momentum) * (batch[c] as number));
    return {
      shape: was.shape,
      values: was.values instanceof Float64Array ? Float64Array.from(running) : Float32Array.from(running),
    };
  };
  return () => {
    const batch = sn.batchNormTraining(x.values, options);
    return [{ shape, values: batch.y }, run(mean, batch.mean), run(variance, batch.variance)];
  };
};

const InstanceNormalization: Operator = (sn, node) => {
  const x = node.input('input');
  const options = {
    ...describeInput(x),
    epsilon: node.attribute('epsilon', 1e-5),
    scale: parameterBeside(x, node.input('scale')),
    bias: parameterBeside(x, node.input('B')),
  };
  return () => [{ shape: x.shape, values: sn.instanceNorm(x.values, options) }];
};

const GroupNormalization: Operator = (sn, node) => {
  const x = node.input('X');
  const groups = node.attribute('num_groups');
  const channels = x.shape[1] ?? node.fail('no channels');
  const perChannel = (parameter: Tensor) => {
    if (node.opset >= 21) return parameter;
    if (parameter.values.length !== groups) node.fail(`${parameter.values.length} values for ${groups} groups`);
    const size = channels / groups;
    return pick(
      parameter,
      [channels],
      Array.from({ length: channels }, (_, c) => Math.floor(c / size)),
    );
  };
  if (node.opset >= 21) node.takeStashType();
  const options = {
    ...describeInput(x),
    groups,
    epsilon: node.attribute('epsilon', 1e-5),
    scale: parameterBeside(x, perChannel(node.input('scale'))),
    bias: parameterBeside(x, perChannel(node.input('bias'))),
  };
  return () => [{ shape: x.shape, values: sn.groupNorm(x.values, options) }];
};

const LayerNormalization: Operator = (sn, node) => {
  const x = node.input('X');
  const axes = axesFrom(node, x);
  const extents = x.shape.slice(axes[0]);
  const bias = () => {
    const given = node.optional();
    return given && parameterBeside(x, broadcast(node, given, extents));
  };
  node.takeStashType();
  // The reduced axes stay, as axes of 1.
  const shape = x.shape.map((extent, axis) => (axes.includes(axis) ? 1 : extent));
  const isDouble = x.values instanceof Float64Array;
  const statistics = () => (isDouble ? new Float64Array(product(shape)) : new Float32Array(product(shape)));
  const [meanOut, invStdOut] = [statistics(), statistics()];
  const options = {
    ...describeInput(x),
    axes,
    epsilon: node.attribute('epsilon', 1e-5),
    scale: parameterBeside(x, broadcast(node, node.input('Scale'), extents)),
    bias: bias(),
    meanOut,
    invStdOut,
  };
  return () => {
    const y = sn.layerNorm(x.values, options);
    return [
      { shape: x.shape, values: y },
      { shape, values: meanOut },
      { shape, values: invStdOut },
    ];
  };
};

const RMSNormalization: Operator = (sn, node) => {
  const x = node.input('X');
  const axes = axesFrom(node, x);
  node.takeStashType();
  const options = {
    ...describeInput(x),
    axes,
    epsilon: node.attribute('epsilon', 1e-5),
    scale: parameterBeside(x, broadcast(node, node.input('scale'), x.shape.slice(axes[0]))),
  };
  return () => [{ shape: x.shape, values: sn.rmsNorm(x.values, options) }];
};

const LpNormalization: Operator = (sn, node) => {
  const x = node.input('input');
  const p = node.attribute('p', 2);
  if (p !== 1 && p !== 2) node.fail(`unknown p ${p}`);
  // ONNX has no epsilon.
  const options = { ...describeInput(x), axes: node.attribute('axis', -1), p, epsilon: 0 };
  return () => [{ shape: x.shape, values: sn.lpNormalize(x.values, options) }];
};

const LRN: Operator = (sn, node) => {
  const x = node.input('X');
  const options = {
    ...describeInput(x),
    size: node.attribute('size'),
    alpha: node.attribute('alpha', 1e-4),
    beta: node.attribute('beta', 0.75),
    k: node.attribute('bias', 1),
  };
  return () => [{ shape: x.shape, values: sn.localResponseNorm(x.values, options) }];
};

const operators = new Map<string, Operator>(
  Object.entries({
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    LRN,
    RMSNormalization,
  }),
);

/** What the node gives for each output that the case has, in order. */
export function runCase(sn: Simdnorm, each: OnnxCase): Tensor[] {
  const operator = operators.get(each.op);
  if (!operator) throw new Error(`unknown operator '${each.op}'`);
  const node = new Node(each);
  const call = operator(sn, node);
  node.expectNothingLeft();
  const wanted = Object.keys(each.outputs).length;
  const results = call();
  if (wanted > results.length) node.fail(`${wanted} outputs, ${results.length} known`);
  return results.slice(0, wanted);
}
