import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Case, expectNear, machineEpsilon } from '../js/reference.ts';
import { type Op, type OperationCase, operationCases, runningCases, torchVersion } from './vectors.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

type Floats = Float32Array | Float64Array;
type Numbers = readonly number[];
interface Gradients {
  readonly dx: Floats;
  readonly dScale?: Floats;
  readonly dBias?: Floats;
}

const types = { float32: Float32Array, float64: Float64Array } as const;
type DType = keyof typeof types;

/** 9.5e-7 in float32. In float64 both sides err. */
const bounds = { float32: 8 * machineEpsilon, float64: 8 * 2 ** -52 };

/** How many deviations the mean is away: PyTorch's sums lose as many times the epsilon that they are computed in. */
function distanceOfMean(x: Numbers): number {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return Math.abs(mean) / Math.sqrt(variance);
}

function expectTensor(what: Case, dtype: DType, got: Floats | undefined, expected: Numbers, x: Numbers): void {
  expect(got).toBeInstanceOf(types[dtype]);
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  const distance = dtype === 'float64' ? Math.max(1, distanceOfMean(x)) : 1;
  const magnitude = expected.map(() => largest * distance);
  expectNear(what, got as Floats, expected, bounds[dtype], magnitude);
}

/** Which of the statistics backward takes from forward. */
const saving: Record<Op, Numbers> = {
  layerNorm: [0, 1],
  rmsNorm: [1],
  groupNorm: [0, 1],
  instanceNorm: [0, 1],
  batchNorm: [],
  batchNormTraining: [0, 1],
  lpNormalize: [],
  localResponseNorm: [],
};

/** How many statistics there are: counted from the shape, for each operation as its documentation says. */
function statisticsLength({ op, shape, options }: OperationCase): number {
  const channels = shape[1] as number;
  if (op === 'groupNorm') return (shape[0] as number) * (options.groups as number);
  if (op === 'instanceNorm') return (shape[0] as number) * channels;
  if (op === 'batchNormTraining') return shape.at((options.axis as number | undefined) ?? 1) as number;
  const axes = (options.axes as Numbers).map((axis) => (axis < 0 ? axis + shape.length : axis));
  return shape.reduce((count, extent, axis) => (axes.includes(axis) ? count : count * extent), 1);
}

function expectCase(each: OperationCase, dtype: DType): void {
  const { op, shape, options, lengths, scale, bias, mean, variance } = each;
  const array = types[dtype];
  const x = array.from(each.x);
  const given = { shape, ...options, ...(options.p === 'Infinity' && { p: Infinity }), lengths, scale };
  const what = { op, shape, data: `${dtype}, ${each.what}` };

  const saved: Record<string, Floats> = {};
  const receivers: Record<string, Floats> = {};
  for (const which of saving[op]) {
    const name = which === 0 ? 'mean' : 'invStd';
    saved[name] = receivers[`${name}Out`] = new array(statisticsLength(each));
  }
  const forward = sn[op] as (x: Floats, options: object) => Floats | { y: Floats };
  const result = forward(x, { ...given, bias, mean, variance, ...receivers });
  const y = 'y' in result ? result.y : result;
  expectTensor({ ...what, output: 'y' }, dtype, y, each.y, each.x);
  if (!each.dx || !each.dy || op === 'localResponseNorm') return;

  const backward = sn[`${op}Backward`] as (dy: Floats, x: Floats, options: object) => Gradients;
  const dy = array.from(each.dy);
  for (const statistics of saving[op].length ? [{}, saved] : [{ mean, variance }]) {
    const gradients = backward(dy, x, { ...given, ...statistics });
    const how = Object.keys(statistics).length ? 'with' : 'without';
    const details = { ...what, data: `${what.data}, ${how} saved statistics` };
    expectTensor({ ...details, output: 'dx' }, dtype, gradients.dx, each.dx, each.x);
    for (const output of ['dScale', 'dBias'] as const) {
      const expected = each[output];
      if (expected) expectTensor({ ...details, output }, dtype, gradients[output], expected, each.x);
    }
  }
}

describe(`PyTorch ${torchVersion}`, () => {
  const titled = operationCases.map((each) => {
    const { op, shape, options, lengths, scale } = each;
    const affine = scale ? ', scaled' : '';
    const padded = lengths ? `, lengths [${lengths.join(', ')}]` : '';
    return [`${op} [${shape.join(', ')}] ${JSON.stringify(options)}${affine}${padded}`, each] as const;
  });

  test.each(titled.filter(([, { exact }]) => exact))('%s: float32 agrees', (_, each) => expectCase(each, 'float32'));

  test.each(titled)('%s: float64 agrees', (_, each) => expectCase(each, 'float64'));

  test('the vectors are all there', () => {
    const counts: Record<string, number> = {};
    for (const { op, lengths } of operationCases) {
      const name = lengths ? `${op}, padded` : op;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    expect(counts).toEqual({
      layerNorm: 8,
      'layerNorm, padded': 4,
      rmsNorm: 4,
      'rmsNorm, padded': 2,
      groupNorm: 5,
      instanceNorm: 4,
      batchNorm: 6,
      batchNormTraining: 6,
      'batchNormTraining, padded': 2,
      lpNormalize: 12,
      localResponseNorm: 4,
    });
    expect(new Set(runningCases.map(({ options }) => options.momentum))).toEqual(new Set([0.1, 1, null, 0.25]));
    for (const { op, dx, dy, dScale, dBias } of operationCases) {
      if (op === 'localResponseNorm') continue;
      expect(dx?.length).toBe(dy?.length);
      expect(dScale !== undefined).toBe(op !== 'lpNormalize');
      expect(dBias !== undefined).toBe(op !== 'lpNormalize' && op !== 'rmsNorm');
    }
  });
});
