// tfjs on its WebAssembly backend at its best, each norm as the chain of kernels that was measured to be the fastest:
// means of rows are products with a column, means of channels that are last are pools, statistics are folded into a factor
// where that saves a pass. And what one writes first: its own batchNorm, which is slower. No gradients: they are longer
// chains of the same.

import { setWasmPaths, version_wasm } from '@tensorflow/tfjs-backend-wasm';
import * as tf from '@tensorflow/tfjs-core';
import { layoutOf, wayNames } from '../cases.mjs';

export const tfjsVersion = version_wasm;

/** In one thread. `folder` is where its wasm files are, unless they are where it looks for them. */
export async function startTfjs(folder) {
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  if (folder) setWasmPaths(folder);
  await tf.setBackend('wasm');
  await tf.ready();
}

function rowsOf({ rows, units }, { scale, bias, epsilon }) {
  const column = tf.fill([units, 1], 1 / units);
  const [scales, biases] = [tf.tensor2d(scale, [1, units]), tf.tensor1d(bias)];
  const squares = (x) => tf.matMul(tf.square(x), column);
  return {
    shape: [rows, units],
    chains: {
      layerNorm(x) {
        const centered = tf.sub(x, tf.matMul(x, column));
        const factor = tf.matMul(tf.rsqrt(tf.add(squares(centered), epsilon)), scales);
        return tf.add(tf.mul(centered, factor), biases);
      },
      rmsNorm: (x) => tf.mul(x, tf.matMul(tf.rsqrt(tf.add(squares(x), epsilon)), scales)),
      lpNormalize: (x) => tf.div(x, tf.maximum(tf.sqrt(tf.mul(squares(x), units)), 1e-12)),
    },
  };
}

function groupsOf({ items, channels, inner, groups }, { scale, bias, epsilon }) {
  const size = (channels / groups) * inner;
  const column = tf.fill([size, 1], 1 / size);
  const [scales, biases] = [tf.tensor2d(scale, [channels, 1]), tf.tensor2d(bias, [channels, 1])];
  const groupNorm = (x) => {
    const centered = tf.sub(x, tf.matMul(x, column));
    const invStd = tf.rsqrt(tf.add(tf.matMul(tf.square(centered), column), epsilon));
    return tf.add(tf.mul(tf.reshape(tf.mul(centered, invStd), [items, channels, inner]), scales), biases);
  };
  return { shape: [items * groups, size], chains: { groupNorm, instanceNorm: groupNorm } };
}

function channelsOf({ shape, axis }, { items, channels, inner }, { epsilon, ...data }) {
  const isLast = inner === 1;
  const parameter = (name) => tf.tensor(data[name], isLast ? [channels] : [channels, 1]);
  const [scale, bias, mean, variance] = ['scale', 'bias', 'mean', 'variance'].map(parameter);
  const column = tf.fill([inner, 1], 1 / inner);
  const batches = axis === -1 ? shape[0] : 1;
  const values = items / batches;
  const averageOfRuns = (x) =>
    tf.reshape(tf.matMul(tf.reshape(x, [items * channels, inner]), column), [items, channels, 1]);
  const averageOfColumns = (x) => {
    return tf.reshape(tf.avgPool(tf.reshape(x, [batches, values, 1, channels]), [values, 1], 1, 'valid'), [
      batches,
      channels,
    ]);
  };
  const average = (x) => tf.mean(isLast ? averageOfColumns(x) : averageOfRuns(x), 0);
  const factorOf = (deviation) => tf.mul(scale, tf.rsqrt(tf.add(deviation, epsilon)));
  return {
    shape: isLast ? [items, channels] : [items, channels, inner],
    chains: {
      batchNorm(x) {
        const factor = factorOf(variance);
        return tf.add(tf.mul(x, factor), tf.sub(bias, tf.mul(mean, factor)));
      },
      batchNormTraining(x) {
        const centered = tf.sub(x, average(x));
        return tf.add(tf.mul(centered, factorOf(average(tf.square(centered)))), bias);
      },
    },
    // Its kernel has channels last.
    kernels: isLast && {
      batchNorm: (x) => tf.batchNorm(x, mean, variance, bias, scale, epsilon),
      batchNormTraining(x) {
        const moments = tf.moments(x, 0);
        return tf.batchNorm(x, moments.mean, moments.variance, bias, scale, epsilon);
      },
    },
  };
}

function formOf(each, data) {
  const layout = layoutOf(each);
  if (layout.units) return rowsOf(layout, data);
  return each.operation.startsWith('batchNorm') ? channelsOf(each, layout, data) : groupsOf(layout, data);
}

export async function openTfjs(each, data) {
  if (each.isBackward) return undefined;
  tf.engine().startScope();
  const { shape, chains, kernels } = formOf(each, data);
  const x = tf.tensor(data.x, shape);
  const resident = (name, chain) => {
    let y;
    const call = () => {
      y?.dispose();
      y = tf.tidy(() => chain(x));
    };
    return { name, call, result: () => ({ y: y.dataSync() }) };
  };
  const chain = chains[each.operation];
  const ways = [
    resident(wayNames.tfjsResident, chain),
    {
      name: wayNames.tfjsCopied,
      call() {
        const y = tf.tidy(() => chain(tf.tensor(data.x, shape)));
        const values = y.dataSync();
        y.dispose();
        return values;
      },
      result: (y) => ({ y }),
    },
  ];
  if (kernels) ways.push(resident(wayNames.tfjsKernel, kernels[each.operation]));
  return { ways, close: () => tf.engine().endScope() };
}
