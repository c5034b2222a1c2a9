// One case, from its values to the times of all ways. Free of Node's API: peers that need it are handed in.

import { dataOf, describe, layoutOf, nameOf, wayNames } from './cases.mjs';
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

/** Those of which a case wants a way. */
async function openPeers(each, data, { sn, copyModule }) {
  const { out, tensors, newArray, onnxruntime, tfjsResident, tfjsCopied, tfjsKernel } = wayNames;
  const { simdCopy, engineCopy, set } = wayNames;
  const peers = [
    { names: [out, tensors, newArray], open: () => openSimdnorm(sn, each, data) },
    { names: [onnxruntime], open: () => openOnnxRuntime(each, data) },
    { names: [tfjsResident, tfjsCopied, tfjsKernel], open: () => openTfjs(each, data) },
    { names: [simdCopy, engineCopy, set], open: () => openCopies(sn, copyModule, data) },
  ];
  const opened = [];
  for (const { names, open } of peers) {
    const peer = !each.ways || names.some((name) => each.ways.includes(name)) ? await open() : undefined;
    if (peer) opened.push(peer);
  }
  return opened;
}

/** { operation, shape, label, size, ways: [{ name, microseconds, quartiles, gigabytesPerSecond, error, bound, times }] } */
export async function runCase(each, environment, limits) {
  const data = dataOf(each);
  const javascript = openJavaScript(each, data);
  const opened = await openPeers(each, data, environment);
  try {
    const expected = structuredClone(javascript.call());
    const all = [...opened.flatMap((peer) => peer.ways), javascript];
    const ways = all.filter(({ name }) => !each.ways || each.ways.includes(name));
    const checks = [];
    for (const { name, call, result } of ways) {
      checks.push(checkResults(each, name, data, result(await call()), expected));
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
          ...checks[i],
          times: times[i],
        };
      }),
    };
  } finally {
    for (const peer of opened) await peer.close();
  }
}
