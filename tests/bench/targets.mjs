// What the package means to reach, and whether a run has reached it.

import { describe, nameOf, wayNames } from './cases.mjs';
import { ratio } from './timing.mjs';

const images = { shape: [32, 64, 56, 56], axis: 1 };
const imagesChannelsLast = { shape: [32, 56, 56, 64], axis: -1 };

function timesOf(result, name) {
  return result.ways.find((way) => way.name === name)?.times;
}

function findResult({ results }, each) {
  return results.node.find(({ operation, label }) => operation === nameOf(each) && label === describe(each));
}

/** At least so many times as fast as a peer. */
function fasterThan(peer, own, each, goal) {
  return {
    text: `${nameOf(each)} ${describe(each)}, ${own}: ${peer} takes`,
    goal,
    isLeast: true,
    measured(run) {
      const result = findResult(run, each);
      return result && ratio(timesOf(result, peer), timesOf(result, own));
    },
  };
}

/** At most so many times the module's copy. */
function overCopy(each, [centered, offset]) {
  return [
    { ...each, goal: centered },
    { ...each, isOffset: true, goal: offset },
  ].map(({ goal, ...own }) => ({
    text: `${nameOf(own)} ${describe(own)}, Tensors, over a SIMD copy`,
    goal,
    isLeast: false,
    measured(run) {
      const result = findResult(run, own);
      return result && ratio(timesOf(result, wayNames.tensors), timesOf(result, wayNames.simdCopy));
    },
  }));
}

const layerNorm = (rows, units) => ({ operation: 'layerNorm', shape: [rows, units] });
const { out, tensors, javascript, onnxruntime, tfjsResident, tfjsKernel } = wayNames;

const neverSlower = {
  text: `all operations with out, of 256 values or more: ${javascript} takes`,
  goal: 1,
  isLeast: true,
  measured({ results }) {
    const large = results.node.filter((result) => result.size >= 256 && timesOf(result, javascript));
    const ratios = large.map((result) => ratio(timesOf(result, javascript), timesOf(result, out)));
    return large.length > 0 ? Math.min(...ratios) : undefined;
  },
};

const smallCall = {
  text: 'layerNorm [1, 64], a whole call with out over its kernel',
  goal: 8,
  isLeast: false,
  measured: (run) => run.smallCall && run.smallCall.callNanoseconds / run.smallCall.kernelNanoseconds,
};

const firstResult = {
  text: `load to first result: ${onnxruntime}'s session and first run take`,
  goal: 30,
  isLeast: true,
  measured({ start }) {
    const of = (name) => start?.libraries.find(({ library }) => library === name).firstResultMilliseconds;
    return start && of('onnxruntime-web') / of('simdnorm');
  },
};

const targets = [
  fasterThan(onnxruntime, out, layerNorm(128, 768), 12),
  fasterThan(onnxruntime, out, layerNorm(1, 64), 40),
  fasterThan(onnxruntime, out, layerNorm(16384, 768), 5),
  fasterThan(onnxruntime, tensors, layerNorm(16384, 768), 12),
  fasterThan(tfjsResident, tensors, layerNorm(128, 768), 6),
  fasterThan(tfjsResident, tensors, { operation: 'batchNorm', ...imagesChannelsLast }, 8),
  fasterThan(tfjsKernel, tensors, { operation: 'batchNorm', ...imagesChannelsLast }, 8),
  fasterThan(tfjsResident, tensors, { operation: 'batchNormTraining', ...imagesChannelsLast }, 12),
  fasterThan(tfjsKernel, tensors, { operation: 'batchNormTraining', ...imagesChannelsLast }, 12),
  fasterThan(onnxruntime, out, { operation: 'groupNorm', shape: [8, 64, 64, 64], groups: 32 }, 6),
  fasterThan(onnxruntime, out, { operation: 'instanceNorm', shape: [8, 64, 64, 64] }, 6),
  fasterThan(onnxruntime, out, { operation: 'lpNormalize', shape: [10_000, 384] }, 6),
  neverSlower,
  fasterThan(javascript, out, layerNorm(128, 768), 10),
  ...overCopy(layerNorm(16384, 768), [1.4, 1.6]),
  ...overCopy(layerNorm(128, 768), [3.4, 3.8]),
  ...overCopy(layerNorm(512, 768), [2.3, 2.7]),
  ...overCopy({ operation: 'batchNormTraining', ...images }, [1.9, 2.1]),
  ...overCopy({ operation: 'batchNormTraining', ...imagesChannelsLast }, [2.2, 2.5]),
  smallCall,
  firstResult,
];

/** [{ text, goal, isLeast, measured, isReached }] of those that a run has measured. */
export function judge(run) {
  return targets
    .map((target) => ({ ...target, measured: target.measured(run) }))
    .filter(({ measured }) => measured !== undefined)
    .map((target) => {
      const { measured, goal, isLeast } = target;
      return { ...target, isReached: isLeast ? measured >= goal : measured <= goal };
    });
}
