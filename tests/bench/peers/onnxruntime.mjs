// onnxruntime-web at its best: the session and the tensor of x reused, parameters constants of the model. It makes its
// outputs itself (tests/onnx/session.mjs says why).

import { openSession, tensor } from '../../onnx/session.mjs';
import { layoutOf, wayNames } from '../cases.mjs';

export { onnxVersion } from '../../onnx/session.mjs';

function operatorOf({ operation, groups }, { epsilon }) {
  const operators = {
    layerNorm: { opType: 'LayerNormalization', opset: 17, attributes: { axis: -1, epsilon } },
    rmsNorm: { opType: 'RMSNormalization', opset: 23, attributes: { axis: -1, epsilon } },
    lpNormalize: { opType: 'LpNormalization', opset: 22, attributes: { axis: -1, p: 2 } },
    groupNorm: { opType: 'GroupNormalization', opset: 21, attributes: { epsilon, num_groups: groups } },
    instanceNorm: { opType: 'InstanceNormalization', opset: 22, attributes: { epsilon } },
    batchNorm: { opType: 'BatchNormalization', opset: 15, attributes: { epsilon } },
    batchNormTraining: {
      opType: 'BatchNormalization',
      opset: 15,
      attributes: { epsilon, training_mode: 1 },
      outputs: ['y', 'batchMean', 'batchVariance'],
    },
  };
  return operators[operation];
}

const constantsOf = {
  rmsNorm: ['scale'],
  lpNormalize: [],
  batchNorm: ['scale', 'bias', 'mean', 'variance'],
  batchNormTraining: ['scale', 'bias', 'mean', 'variance'],
};

/** The node of a case: x is its input. */
export function nodeOf(each, data) {
  const layout = layoutOf(each);
  // Its channels are axis 1: where they are last, so are they of [values, channels].
  const places = layout.inner === 1 ? [layout.items, layout.channels] : [layout.items, layout.channels, layout.inner];
  const shape = layout.units ? [layout.rows, layout.units] : places;
  const names = constantsOf[each.operation] ?? ['scale', 'bias'];
  const constants = names.map((name) => [name, { shape: [layout.parameters], values: data[name] }]);
  return { ...operatorOf(each, data), inputs: { x: shape }, constants: Object.fromEntries(constants) };
}

/** It has no gradients. */
export async function openOnnxRuntime(each, data) {
  if (each.isBackward) return undefined;
  const node = nodeOf(each, data);
  const session = await openSession(node);
  const feeds = { x: tensor({ shape: node.inputs.x, values: data.x }) };
  return {
    ways: [
      {
        name: wayNames.onnxruntime,
        isAsync: true,
        call: () => session.run(feeds),
        result: ({ y }) => ({ y: y.data }),
      },
    ],
    close: () => session.release(),
  };
}
