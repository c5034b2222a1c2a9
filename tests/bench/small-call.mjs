// What a whole call of a small layer norm takes over the time of its kernel, which is what the bound function takes less
// what it takes for no rows.

import { dataOf } from './cases.mjs';
import { openSimdnorm } from './peers/simdnorm.mjs';
import { openRawModule } from './raw-module.mjs';
import { compare, median } from './timing.mjs';

export async function measureSmallCall(sn, limits) {
  const each = { operation: 'layerNorm', shape: [1, 64] };
  const data = dataOf(each);
  const peer = await openSimdnorm(sn, each, data);
  const { kernels, x, prepare } = await openRawModule(64);
  x.set(data.x);
  // Arguments are prepared for all calls of a round: writing them belongs to the call, not to the kernel.
  const bound = (rows) => {
    return { call: () => kernels.layerNorm(), before: () => prepare('layerNorm', [rows, 64], [1]) };
  };
  const [whole, one, none] = await compare([peer.ways[0], bound(1), bound(0)], limits);
  peer.close();
  const kernel = median(one.map((time, round) => time - none[round]));
  return { shape: each.shape, callNanoseconds: 1000 * median(whole), kernelNanoseconds: 1000 * kernel };
}
