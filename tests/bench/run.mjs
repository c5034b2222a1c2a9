// One case, from its values to the times of all ways. Free of Node's API: peers that need it are handed in.

import { dataOf, describe, layoutOf, nameOf } from './cases.mjs';
import { checkResults } from './check.mjs';
import { openCopies } from './peers/copies.mjs';
import { openJavaScript } from './peers/javascript.mjs';
import { openOnnxRuntime } from './peers/onnxruntime.mjs';
import { openSimdnorm } from './peers/simdnorm.mjs';
import { openTfjs } from './peers/tfjs.mjs';
import { compare, median, quartiles } from './timing.mjs';

function bytesOf(each) {
  return (each.isBackward ? 12 : 8) * layoutOf(each).size;
}

/** { operation, shape, label, size, ways: [{ name, microseconds, quartiles, gigabytesPerSecond, error, times }] } */
export async function runCase(each, { sn, copyModule }, limits) {
  const data = dataOf(each);
  const opened = [];
  try {
    const javascript = await openJavaScript(each, data);
    opened.push(
      await openSimdnorm(sn, each, data),
      javascript,
      await openOnnxRuntime(each, data),
      await openTfjs(each, data),
      await openCopies(sn, copyModule, data),
    );
    const expected = structuredClone(javascript.ways[0].call());
    const ways = opened
      .flatMap((peer) => peer?.ways ?? [])
      .filter(({ name }) => !each.ways || each.ways.includes(name));
    const errors = [];
    for (const { name, call, result } of ways) {
      errors.push(checkResults(each, name, data, result(await call()), expected));
    }
    const times = await compare(ways, limits);
    return {
      operation: nameOf(each),
      shape: each.shape,
      label: describe(each),
      size: layoutOf(each).size,
      ways: ways.map(({ name }, i) => {
        const microseconds = median(times[i]);
        return {
          name,
          microseconds,
          quartiles: quartiles(times[i]),
          gigabytesPerSecond: bytesOf(each) / microseconds / 1000,
          error: errors[i],
          times: times[i],
        };
      }),
    };
  } finally {
    for (const peer of opened) await peer?.close();
  }
}
