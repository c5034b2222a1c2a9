// What is measured, and the values that it is measured on. Free of Node's API: the browser measures the same.

const shapesOfRows = [
  [1, 64],
  [1, 768],
  [16, 768],
  [128, 768],
  [512, 768],
  [1024, 4096],
  [16384, 768],
  [1, 4_000_000],
];

const forward = [
  ...['layerNorm', 'rmsNorm'].flatMap((operation) => shapesOfRows.map((shape) => ({ operation, shape }))),
  ...['batchNorm', 'batchNormTraining'].flatMap((operation) => [
    { operation, shape: [32, 64, 56, 56], axis: 1 },
    { operation, shape: [32, 56, 56, 64], axis: -1 },
    { operation, shape: [4096, 256], axis: 1 },
  ]),
  { operation: 'groupNorm', shape: [8, 64, 64, 64], axis: 1, groups: 32 },
  { operation: 'instanceNorm', shape: [8, 64, 64, 64], axis: 1 },
  { operation: 'lpNormalize', shape: [10_000, 384] },
];

/** The cases of both series, a case being { operation, shape, axis?, groups?, isBackward?, isOffset?, ways? }. */
export const cases = [...forward, ...forward.map((each) => ({ ...each, isBackward: true }))];

/** The names of ways that others look for. */
export const wayNames = {
  out: 'simdnorm, out',
  tensors: 'simdnorm, Tensors',
  newArray: 'simdnorm, new array',
  javascript: 'plain JavaScript',
  onnxruntime: 'onnxruntime-web',
  tfjsResident: 'tfjs-wasm, resident',
  tfjsCopied: 'tfjs-wasm, copied in and out',
  tfjsKernel: 'tfjs-wasm, batchNorm, resident',
  simdCopy: 'SIMD copy',
  engineCopy: 'Tensor data.set',
  set: 'Float32Array.set',
};

/** The second series: means of 1 to 3 deviations, which ways to the statistics that guess may find harder. */
export const offsetCases = [
  { operation: 'layerNorm', shape: [128, 768] },
  { operation: 'layerNorm', shape: [512, 768] },
  { operation: 'layerNorm', shape: [16384, 768] },
  { operation: 'batchNormTraining', shape: [32, 64, 56, 56], axis: 1 },
  { operation: 'batchNormTraining', shape: [32, 56, 56, 64], axis: -1 },
].map((each) => ({ ...each, isOffset: true, ways: [wayNames.tensors, wayNames.simdCopy] }));

export function isOverRows({ operation }) {
  return ['layerNorm', 'rmsNorm', 'lpNormalize'].includes(operation);
}

export function nameOf({ operation, isBackward }) {
  return isBackward ? `${operation}Backward` : operation;
}

export function describe(each) {
  const channelsLast = each.axis === -1 ? ', channels last' : '';
  const groups = each.groups ? `, ${each.groups} groups` : '';
  return `[${each.shape.join(', ')}]${channelsLast}${groups}${each.isOffset ? ', mean/std 1 to 3' : ''}`;
}

export function product(extents) {
  return extents.reduce((result, extent) => result * extent, 1);
}

/** Rows of units; or items of channels of values that lie together. */
export function layoutOf({ shape, axis, groups, ...each }) {
  const size = product(shape);
  if (isOverRows(each)) {
    const units = shape.at(-1);
    return { size, rows: size / units, units, parameters: units };
  }
  const place = axis < 0 ? shape.length + axis : axis;
  const [channels, inner] = [shape[place], product(shape.slice(place + 1))];
  const items = size / channels / inner;
  return { size, items, channels, inner, groups: groups ?? channels, parameters: channels };
}

/** Marsaglia 2003, "Xorshift RNGs": the same numbers in every run, between -1 and 1. */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state / 2 ** 31;
  };
}

/** x, with mean 0 and deviation 1 or, of the second series, a mean of 1 to 3 in every row or channel; and all it takes. */
export function dataOf(each) {
  const layout = layoutOf(each);
  const { size, parameters } = layout;
  const random = randomNumbers(1);
  const vector = (length, least, most) => {
    return Float32Array.from({ length }, () => (least + most) / 2 + (random() * (most - least)) / 2);
  };
  const values = () => {
    const made = new Float32Array(size);
    for (let i = 0; i < size; ++i) made[i] = random() * Math.sqrt(3);
    return made;
  };
  const x = values();
  if (each.isOffset) {
    const run = isOverRows(each) ? layout.units : layout.inner;
    const means = vector(isOverRows(each) ? layout.rows : layout.channels, 1, 3);
    for (let i = 0; i < size; ++i) x[i] += means[Math.floor(i / run) % means.length];
  }
  return {
    x,
    dy: each.isBackward ? values() : undefined,
    scale: vector(parameters, 0.5, 1.5),
    bias: vector(parameters, -0.5, 0.5),
    mean: vector(parameters, -0.5, 0.5),
    variance: vector(parameters, 0.5, 1.5),
    epsilon: 1e-5,
  };
}
