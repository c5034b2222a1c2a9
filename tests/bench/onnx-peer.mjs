// onnxruntime-web's layer norm: the session and the input tensor reused, scale and bias constants of the model.

import { openSession, tensor } from '../onnx/session.mjs';

export { onnxVersion } from '../onnx/session.mjs';

/** An asynchronous layer norm of x over the last axis, which returns y. */
export async function onnxLayerNorm(x, [rows, units], scale, bias, epsilon) {
  const session = await openSession({
    opType: 'LayerNormalization',
    opset: 17,
    attributes: { axis: -1, epsilon },
    inputs: { x: [rows, units] },
    constants: { scale: { shape: [units], values: scale }, bias: { shape: [units], values: bias } },
  });
  const feeds = { x: tensor({ shape: [rows, units], values: x }) };
  return async () => (await session.run(feeds)).y.data;
}
