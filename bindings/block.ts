// The block of arguments in the module's memory: `struct Call` in embind.cpp.

/** Byte offsets. An enum, which esbuild leaves only the numbers of. */
export enum Offset {
  epsilon = 0,
  p = 8,
  alpha = 16,
  beta = 24,
  k = 32,
  x = 40,
  y = 44,
  dy = 48,
  residual = 52,
  residualOut = 56,
  scale = 60,
  bias = 64,
  mean = 68,
  variance = 72,
  invStd = 76,
  lengths = 80,
  meanOut = 84,
  varianceOut = 88,
  invStdOut = 92,
  dScaleOut = 96,
  dBiasOut = 100,
  scratch = 104,
  scratchBytes = 108,
  dtype = 112,
  groups = 116,
  size = 120,
  rank = 124,
  axisCount = 128,
  shape = 132,
  // Behind the extents of the highest rank, 16.
  axes = shape + 4 * 16,
}

/** How many words it has. */
export const blockWords = Offset.axes / 4 + 16;
