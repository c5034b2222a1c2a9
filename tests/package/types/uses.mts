// Right uses, which every TypeScript compiles, with the DOM's types and without.

import { type BatchNormOptions, type ErrorCode, type LayerNormOptions, load, NormError, type Simdnorm } from 'simdnorm';
import * as streaming from 'simdnorm/streaming';

const sn: Simdnorm = await load();
const streamed: Simdnorm = await streaming.load();
await load({});
await load({ wasm: new Uint8Array(8), initialMemory: 2 ** 20, maximumMemory: undefined });
await load({ wasm: { href: 'file:///simdnorm.wasm' } });
await load({ wasm: new ArrayBuffer(8) });
const x = new Float32Array(12);
const y: Float32Array = sn.layerNorm(x);
sn.layerNorm(x, { shape: [3, 4] as const, axes: -1, scale: [1, 2, 3, 4], bias: new Float64Array(4), out: x });
sn.layerNorm(x, { shape: [3, 4], axes: [0, 1], epsilon: undefined, scale: undefined, out: undefined });
const options: LayerNormOptions = { meanOut: new Float32Array(1), invStdOut: new Float32Array(1) };
sn.layerNorm(x, options);
const given: BatchNormOptions = { mean: [1, 2, 3, 4], variance: new Float32Array(4), shape: [3, 4], axis: 1 };
const normalized: Float32Array = sn.batchNorm(x, given);
const training = sn.batchNormTraining(x, { shape: [3, 4], varianceOut: new Float32Array(4) });
const statistics: Float32Array[] = [training.y, training.mean, training.variance, training.invStd];
const { mean, variance, count } = sn.moments(x, { shape: [3, 4], axes: [0] });
const counts: number | Int32Array = count;
const numbers: number[] = [training.count, sn.memory.capacity, sn.memory.limit, mean[0] ?? 0, variance.length];
const doubles = new Float64Array(12);
const wide: Float64Array = sn.rmsNorm(doubles, { shape: [3, 4], residual: doubles, lengths: [1, 4, 0] });
const wideMean: Float64Array = sn.moments(doubles).mean;
const bits: Uint16Array = sn.groupNorm(new Uint16Array(12), { shape: [3, 4], groups: 2, dtype: 'float16' });
const narrowMean: Float32Array = sn.moments(bits, { dtype: 'float16' }).mean;
const lengthOf = (values: ArrayLike<number>) => values.length;
lengthOf(sn.instanceNorm(x, { shape: [3, 4] }));
sn.lpNormalize(x, { p: Infinity, axes: [0] });
sn.localResponseNorm(x, { shape: [3, 4], size: 3 });
const { layerNorm, dispose } = sn;
const version: string = sn.version;
try {
  dispose();
} catch (error) {
  if (error instanceof NormError || error instanceof streaming.NormError) {
    const code: ErrorCode = error.code;
    if (code === 'ERR_FREED') throw new Error(error.op + error.message, { cause: error.cause });
  }
}

export { bits, counts, layerNorm, narrowMean, normalized, numbers, statistics, streamed, version, wide, wideMean, y };
