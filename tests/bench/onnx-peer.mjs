// onnxruntime-web as a peer: one thread, the session and the input tensor reused. It makes its outputs itself: given a
// preallocated one on the CPU, version 1.30.0 returns it unwritten.

import onnxProto from 'onnx-proto';
import * as ort from 'onnxruntime-web';

const { onnx } = onnxProto;

export const onnxVersion = ort.env.versions.web ?? ort.env.versions.common;

function valueInfo(name, shape) {
  const dims = shape.map((extent) => ({ dimValue: extent }));
  return { name, type: { tensorType: { elemType: onnx.TensorProto.DataType.FLOAT, shape: { dim: dims } } } };
}

/** A model of one LayerNormalization node over the last axis, scale and bias as its constants. */
function layerNormModel([rows, units], scale, bias, epsilon) {
  const constant = (name, values) => ({
    name,
    dims: [units],
    dataType: onnx.TensorProto.DataType.FLOAT,
    floatData: Array.from(values),
  });
  const model = onnx.ModelProto.create({
    irVersion: 8,
    opsetImport: [{ domain: '', version: 17 }],
    graph: {
      name: 'layerNorm',
      node: [
        {
          opType: 'LayerNormalization',
          input: ['x', 'scale', 'bias'],
          output: ['y'],
          attribute: [
            { name: 'axis', type: onnx.AttributeProto.AttributeType.INT, i: -1 },
            { name: 'epsilon', type: onnx.AttributeProto.AttributeType.FLOAT, f: epsilon },
          ],
        },
      ],
      initializer: [constant('scale', scale), constant('bias', bias)],
      input: [valueInfo('x', [rows, units])],
      output: [valueInfo('y', [rows, units])],
    },
  });
  return onnx.ModelProto.encode(model).finish();
}

/** An asynchronous layer norm of x, which returns y. */
export async function onnxLayerNorm(x, shape, scale, bias, epsilon) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'error';
  const session = await ort.InferenceSession.create(layerNormModel(shape, scale, bias, epsilon), {
    executionProviders: ['wasm'],
  });
  const feeds = { x: new ort.Tensor('float32', x, shape) };
  return async () => (await session.run(feeds)).y.data;
}
