// simdnorm in the three ways that its users have.

import { layoutOf, nameOf, wayNames } from '../cases.mjs';

/** Which of the data an operation takes; a gradient has no use for the bias. */
const parametersOf = {
  layerNorm: ['scale', 'bias', 'epsilon'],
  rmsNorm: ['scale', 'epsilon'],
  groupNorm: ['scale', 'bias', 'epsilon'],
  instanceNorm: ['scale', 'bias', 'epsilon'],
  batchNorm: ['scale', 'bias', 'mean', 'variance', 'epsilon'],
  batchNormTraining: ['scale', 'bias', 'epsilon'],
  lpNormalize: [],
};

/** What it writes besides y or dx. */
function outputsOf({ operation, isBackward }) {
  if (operation === 'batchNormTraining' && !isBackward) return ['meanOut', 'varianceOut', 'invStdOut'];
  if (!isBackward || operation === 'lpNormalize') return [];
  return operation === 'rmsNorm' ? ['dScaleOut'] : ['dScaleOut', 'dBiasOut'];
}

function asArrays(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value?.data ?? value]));
}

function resultOf(returned, each) {
  if (each.isBackward) return asArrays(returned);
  const y = each.operation === 'batchNormTraining' ? returned.y : returned;
  return asArrays({ y });
}

export async function openSimdnorm(sn, each, data) {
  const { shape, axis, groups } = each;
  const { parameters: count } = layoutOf(each);
  const names = parametersOf[each.operation].filter((name) => !(each.isBackward && name === 'bias'));
  const parameters = Object.fromEntries(names.map((name) => [name, data[name]]));
  const place = { ...(axis !== undefined && { axis }), ...(groups !== undefined && { groups }) };
  const run = sn[nameOf(each)];
  const way = (name, { x, dy }, options) => {
    const call = each.isBackward ? () => run(dy, x, options) : () => run(x, options);
    return { name, call, result: (returned) => resultOf(returned, each) };
  };

  const tensors = [];
  const tensor = (extents, values) => {
    tensors.push(sn.tensor(extents, values));
    return tensors.at(-1);
  };
  const outputs = (make) => Object.fromEntries(outputsOf(each).map((name) => [name, make()]));
  const inMemory = Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [name, name === 'epsilon' ? value : tensor([count], value)]),
  );
  return {
    ways: [
      way(wayNames.out, data, {
        shape,
        ...place,
        ...parameters,
        ...outputs(() => new Float32Array(count)),
        out: new Float32Array(data.x.length),
      }),
      way(
        wayNames.tensors,
        { x: tensor(shape, data.x), dy: data.dy && tensor(shape, data.dy) },
        { ...place, ...inMemory, ...outputs(() => tensor([count])), out: tensor(shape) },
      ),
      way(wayNames.newArray, data, { shape, ...place, ...parameters }),
    ],
    close() {
      for (const each of tensors) each.free();
    },
  };
}
