// The block of arguments in the module's memory: `struct Call` in embind.cpp.

import { maxRank } from './check.js';

/** Byte offsets. */
export const offsets = {
  epsilon: 0,
  p: 8,
  alpha: 16,
  beta: 24,
  k: 32,
  x: 40,
  y: 44,
  dy: 48,
  residual: 52,
  residualOut: 56,
  scale: 60,
  bias: 64,
  mean: 68,
  variance: 72,
  invStd: 76,
  lengths: 80,
  meanOut: 84,
  varianceOut: 88,
  invStdOut: 92,
  dScaleOut: 96,
  dBiasOut: 100,
  scratch: 104,
  scratchBytes: 108,
  dtype: 112,
  groups: 116,
  size: 120,
  rank: 124,
  axisCount: 128,
  shape: 132,
  axes: 132 + 4 * maxRank,
} as const;
