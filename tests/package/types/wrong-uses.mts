// Wrong uses, each of which every TypeScript refuses.

import { load } from 'simdnorm';

const sn = await load();
const x = new Float32Array(4);
// @ts-expect-error
sn.layerNorm([1, 2, 3]);
// @ts-expect-error
sn.layerNorm(new Int32Array(3));
// @ts-expect-error
sn.layerNorm();
// @ts-expect-error
sn.layerNorm(x, { epsilom: 1 });
// @ts-expect-error
sn.layerNorm(x, { epsilon: '1' });
// @ts-expect-error
sn.layerNorm(x, { axis: 1 });
// @ts-expect-error
sn.layerNorm(x, { shape: 4 });
// @ts-expect-error
sn.layerNorm(x, { shape: ['4'] });
// @ts-expect-error
sn.layerNorm(x, { scale: new Int32Array(4) });
// @ts-expect-error
sn.layerNorm(x, { meanOut: [0] });
// @ts-expect-error
sn.layerNorm(x, { varianceOut: x });
// @ts-expect-error
sn.batchNorm(x);
// @ts-expect-error
sn.batchNorm(x, {});
// @ts-expect-error
sn.batchNorm(x, { mean: [1] });
// @ts-expect-error
sn.batchNorm(x, { mean: [1], variance: undefined });
// @ts-expect-error
sn.batchNorm(x, { mean: [1], variance: [1], meanOut: x });
// @ts-expect-error
sn.batchNorm(x, { mean: [1], variance: [1], axis: [1] });
// @ts-expect-error
sn.batchNormTraining(x, { momentum: 0.1 });
// @ts-expect-error
sn.batchNormTraining(x).normalized;
// @ts-expect-error
sn.moments(x, { epsilon: 1 });
// @ts-expect-error
sn.moments(x, { axes: '0' });
// @ts-expect-error
sn.version = '2';
// @ts-expect-error
sn.memory.limit = 0;
// @ts-expect-error
sn.layerNorm = 5;
// @ts-expect-error
sn.groupNorm(x);
// @ts-expect-error
sn.groupNorm(x, { shape: [4] });
// @ts-expect-error
sn.rmsNorm(x, { bias: [1] });
// @ts-expect-error
sn.rmsNorm(x, { dtype: 'float64' });
// @ts-expect-error
sn.instanceNorm(x, { lengths: [1] });
// @ts-expect-error
sn.instanceNorm(x).toFixed();
// @ts-expect-error
sn.lpNormalize(x, { p: '2' });
// @ts-expect-error
sn.localResponseNorm(x);
// @ts-expect-error
export const wrong: Float64Array = sn.layerNorm(x);
// @ts-expect-error
load({ wsam: 1 });
// @ts-expect-error
load({ wasm: 5 });
// @ts-expect-error
load({ maximumMemory: '1' });
// @ts-expect-error
(await load).layerNorm(x);
// @ts-expect-error
export const code: import('simdnorm').ErrorCode = 'ERR_OTHER';
