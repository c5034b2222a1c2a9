// Plain JavaScript: what users would write without a library, and, since its sums are double, what is right.

import { layoutOf, nameOf, wayNames } from '../cases.mjs';
import { gradientOfColumns, normalizeColumns, statisticsOfColumns } from './javascript-columns.mjs';
import { groupNorm, groupNormBackward } from './javascript-groups.mjs';
import * as rows from './javascript-rows.mjs';
import { gradientOfRuns, normalizeRuns, statisticsOfRuns } from './javascript-runs.mjs';

const groups = {
  groupNorm,
  groupNormBackward,
  instanceNorm: groupNorm,
  instanceNormBackward: groupNormBackward,
};

function ofChannels(statistics, normalize, gradient) {
  return {
    batchNorm: normalize,
    batchNormBackward: (dy, x, dx, layout, given) => gradient(dy, x, dx, layout, { ...given, isTraining: false }),
    batchNormTraining: (x, out, layout, given) => normalize(x, out, layout, { ...given, ...statistics(x, layout) }),
    batchNormTrainingBackward: (dy, x, dx, layout, given) => {
      return gradient(dy, x, dx, layout, { ...given, ...statistics(x, layout), isTraining: true });
    },
  };
}

const runs = ofChannels(statisticsOfRuns, normalizeRuns, gradientOfRuns);
const columns = ofChannels(statisticsOfColumns, normalizeColumns, gradientOfColumns);

/** The one way. */
export function openJavaScript(each, { x, dy, ...data }) {
  const layout = layoutOf(each);
  const run = { ...rows, ...groups, ...(layout.inner === 1 ? columns : runs) }[nameOf(each)];
  // The same types as of statistics that are computed, or V8's code for both would be slower.
  const given = { ...data, mean: Float64Array.from(data.mean), variance: Float64Array.from(data.variance) };
  const out = new Float32Array(x.length);
  const call = each.isBackward
    ? () => ({ dx: out, ...run(dy, x, out, layout, given) })
    : () => {
        run(x, out, layout, given);
        return { y: out };
      };
  return { name: wayNames.javascript, call, result: (returned) => returned };
}
