// onnxruntime-web as a peer: models of one node, on the CPU, in one thread. It makes its outputs itself: given a
// preallocated one on the CPU, version 1.30.0 returns it unwritten.

import onnxProto from 'onnx-proto';
import * as ort from 'onnxruntime-web';

const { onnx } = onnxProto;
const { DataType } = onnx.TensorProto;
const { AttributeType } = onnx.AttributeProto;

export const onnxVersion = ort.env.versions.web ?? ort.env.versions.common;

/** Of all attributes that normalizations have, the ones that ONNX stores as floats; a wrong type is refused by name. */
const floatAttributes = new Set(['alpha', 'beta', 'bias', 'epsilon', 'momentum']);

function attribute([name, value]) {
  if (Array.isArray(value)) return { name, type: AttributeType.INTS, ints: value };
  if (floatAttributes.has(name)) return { name, type: AttributeType.FLOAT, f: value };
  return { name, type: AttributeType.INT, i: value };
}

/** Without a shape onnxruntime infers it. */
function valueInfo(name, shape) {
  const dims = shape && { dim: shape.map((extent) => ({ dimValue: extent })) };
  return { name, type: { tensorType: { elemType: DataType.FLOAT, shape: dims } } };
}

/** The bytes of a model of one node. */
export function encodeModel({ opType, opset, attributes = {}, inputs, constants = {}, outputs = ['y'] }) {
  const model = onnx.ModelProto.create({
    irVersion: 8,
    opsetImport: [{ domain: '', version: opset }],
    graph: {
      name: opType,
      node: [
        {
          opType,
          input: [...Object.keys(inputs), ...Object.keys(constants)],
          output: outputs,
          attribute: Object.entries(attributes).map(attribute),
        },
      ],
      initializer: Object.entries(constants).map(([name, { shape, values }]) => {
        return {
          name,
          dims: shape,
          dataType: DataType.FLOAT,
          rawData: new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
        };
      }),
      input: Object.entries(inputs).map(([name, shape]) => valueInfo(name, shape)),
      output: outputs.map((name) => valueInfo(name)),
    },
  });
  return onnx.ModelProto.encode(model).finish();
}

/** A function of one node: run it as often as wanted, on tensors that are made once. */
export async function openSession(node) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  return ort.InferenceSession.create(encodeModel(node), { executionProviders: ['wasm'] });
}

export function tensor({ shape, values }) {
  return new ort.Tensor('float32', values, shape);
}

/** One call of one node, whose inputs are given by value: { outputs by name }, each an array. */
export async function runNode({ inputs, ...node }) {
  const entries = Object.entries(inputs);
  const shapes = Object.fromEntries(entries.map(([name, { shape }]) => [name, shape]));
  const session = await openSession({ ...node, inputs: shapes });
  try {
    const feeds = Object.fromEntries(entries.map(([name, input]) => [name, tensor(input)]));
    const results = await session.run(feeds);
    return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, data]));
  } finally {
    await session.release();
  }
}
