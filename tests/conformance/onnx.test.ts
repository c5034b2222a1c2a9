import { load, type Simdnorm } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type OnnxCase, runCase, tensorFrom } from './onnx.ts';
import { closeMeasure, compare, numbersOf, readVectors, typeOf, WorstOfEach } from './vectors.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

// Much less than the rtol of 1e-3 that ONNX publishes. Its own results are computed in float32, naively: that is the
// rest. It's relative to y, so that what is left where a value cancels is in atol.
const measure = closeMeasure(2e-6, 1e-6);

const vectors = readVectors<{ cases: OnnxCase[] }>('onnx-node.json');

describe.runIf(vectors)('node tests of ONNX', () => {
  const worst = new WorstOfEach();

  test.each((vectors?.cases ?? []).map((each) => [each.name, each] as const))('%s', (name, each) => {
    const outputs = Object.entries(each.outputs);
    const got = runCase(sn, each);
    expect(got).toHaveLength(outputs.length);
    expect(outputs).not.toHaveLength(0);
    outputs.forEach(([output, described], i) => {
      const expected = tensorFrom(described);
      const { shape, values } = got[i] as (typeof got)[number];
      expect(shape).toEqual(expected.shape);
      if (i === 0) expect(typeOf(values)).toBe(typeOf(expected.values));
      const result = compare(`${name}: ${output}`, values, expected, measure);
      worst.add(`ONNX ${each.op} ${typeOf(expected.values)}`, result);
      if (!(result.distance <= measure.limit)) throw new Error(result.message);
    });
  });

  afterAll(() => console.log(worst.lines));
});

if (!vectors) test('skipped: no vectors', () => console.log('node tests of ONNX skipped: no vectors'));

describe('what the vectors do not have', () => {
  const tensor = (shape: number[], data: unknown, dtype = 'float32') => ({ shape, dtype, data });
  const y = { y: tensor([], 0) };
  const node = (op: string, opset: number, attributes: OnnxCase['attributes'], inputs: OnnxCase['inputs']) => {
    return { name: op, op, opset, attributes, inputs, outputs: y };
  };
  const yOf = (each: OnnxCase) => {
    const [first] = runCase(sn, each);
    return numbersOf((first as NonNullable<typeof first>).values);
  };
  // Deviations are powers of two here, so that nothing is rounded.
  const x = tensor([1, 4], [1, 3, 20, 12]);

  test('group normalization of opset 18 has a scale and bias for each group', () => {
    const attributes = { num_groups: 2, epsilon: 0 };
    const perGroup = { x, scale: tensor([2], [2, 3]), bias: tensor([2], [0, 10]) };
    const perChannel = { x, scale: tensor([4], [2, 2, 3, 3]), bias: tensor([4], [0, 0, 10, 10]) };
    expect(yOf(node('GroupNormalization', 18, attributes, perGroup))).toEqual([-2, 2, 13, 7]);
    const ofOpset21 = { ...attributes, stash_type: 1 };
    expect(yOf(node('GroupNormalization', 21, ofOpset21, perChannel))).toEqual([-2, 2, 13, 7]);
    expect(() => yOf(node('GroupNormalization', 18, attributes, perChannel))).toThrow('4 values for 2 groups');
    expect(() => yOf(node('GroupNormalization', 18, ofOpset21, perGroup))).toThrow("unknown attribute 'stash_type'");
    expect(() => yOf(node('GroupNormalization', 21, {}, perChannel))).toThrow('num_groups is missing');
  });

  test('in training what batch normalization has been weighs as much as momentum says', () => {
    const inputs = {
      x: tensor([2, 1], [1, 3]),
      scale: tensor([1], 1),
      bias: tensor([1], 0),
      mean: tensor([1], 10),
      variance: tensor([1], 16),
    };
    const outputs = { y: tensor([2, 1], 0), mean: tensor([1], 0), variance: tensor([1], 0) };
    const training = node('BatchNormalization', 15, { training_mode: 1, momentum: 0.75, epsilon: 0 }, inputs);
    const results = runCase(sn, { ...training, outputs });
    expect(results.map(({ values }) => numbersOf(values))).toEqual([[-1, 1], [8], [12.25]]);
    const inference = node('BatchNormalization', 15, { epsilon: 0 }, inputs);
    expect(yOf(inference)).toEqual([-2.25, -1.75]);
    expect(() => runCase(sn, { ...inference, outputs })).toThrow('3 outputs, 1 known');
  });

  test('the single axis of a batch to normalize is not the channel', () => {
    const one = (data: number) => tensor([1], data);
    const inputs = { x: tensor([3], [1, 2, 4]), scale: one(2), bias: one(1), mean: one(2), variance: one(1) };
    expect(yOf(node('BatchNormalization', 15, { epsilon: 0 }, inputs))).toEqual([-1, 1, 5]);
  });

  test('the scale of a layer is broadcast to its axes', () => {
    const layer = tensor([1, 2, 2], [2, -2, -2, 2]);
    const attributes = { axis: 1, epsilon: 0 };
    for (const op of ['LayerNormalization', 'RMSNormalization']) {
      const by = (scale: number[], shape: number[]) => {
        return yOf(node(op, 23, attributes, { x: layer, scale: tensor(shape, scale) }));
      };
      expect(by([2, 5], [2])).toEqual([2, -5, -2, 5]);
      expect(by([2, 5], [2, 1])).toEqual([2, -2, -5, 5]);
      expect(by([7], [])).toEqual([7, -7, -7, 7]);
      expect(by([1, 2, 3, 4], [2, 2])).toEqual([1, -2, -3, 4]);
      expect(() => by([1, 2, 3], [3])).toThrow('a parameter [3] for [2, 2]');
      expect(() => by([1], [1, 1, 1])).toThrow('a parameter [1, 1, 1] for [2, 2]');
    }
  });

  test('the defaults are those of ONNX', () => {
    const scale = tensor([4], [1, 1, 1, 1]);
    const bias = tensor([4], [0, 0, 0, 0]);
    const same = (op: string, opset: number, inputs: OnnxCase['inputs'], defaults: OnnxCase['attributes']) => {
      const needed: OnnxCase['attributes'] = { LRN: { size: 3 }, GroupNormalization: { num_groups: 2 } }[op] ?? {};
      const expected = yOf(node(op, opset, { ...needed, ...defaults }, inputs));
      expect(yOf(node(op, opset, needed, inputs))).toEqual(expected);
      // Each of them matters.
      for (const [name, value] of Object.entries(defaults)) {
        const changed = { axis: 0, p: 1 }[name] ?? value * 10;
        expect(yOf(node(op, opset, { ...needed, ...defaults, [name]: changed }, inputs))).not.toEqual(expected);
      }
    };
    const small = tensor(
      [2, 4],
      [1, 3, 20, 10, 5, 2, 7, 0].map((value) => value * 1e-2),
    );
    same('LayerNormalization', 17, { x: small, scale }, { epsilon: 1e-5 });
    same('RMSNormalization', 23, { x: small, scale }, { epsilon: 1e-5 });
    same('InstanceNormalization', 22, { x: { ...small, shape: [1, 4, 2] }, scale, bias }, { epsilon: 1e-5 });
    same('GroupNormalization', 21, { x: small, scale, bias }, { epsilon: 1e-5 });
    same('BatchNormalization', 15, { x: small, scale, bias, mean: bias, variance: bias }, { epsilon: 1e-5 });
    same('LpNormalization', 22, { x: small }, { axis: -1, p: 2 });
    same('LRN', 13, { x }, { alpha: 1e-4, beta: 0.75, bias: 1 });
    const layer = { x: tensor([2, 2], [1, 3, 5, 9]), scale: tensor([2], 1) };
    expect(yOf(node('LayerNormalization', 17, { epsilon: 0 }, layer))).toEqual([-1, 1, -1, 1]);
  });

  test('float16 is computed in float32, its statistics too', () => {
    const inputs = { x: tensor([1, 2], [1, 3], 'float16'), scale: tensor([2], [0.1, 1], 'float16') };
    const outputs = { y: tensor([1, 2], 0, 'float16'), mean: tensor([1, 1], 0), invStd: tensor([1, 1], 0) };
    const results = runCase(sn, { ...node('LayerNormalization', 17, { epsilon: 3 }, inputs), outputs });
    expect(results.map(({ values }) => numbersOf(values))).toEqual([[-0.04998779296875, 0.5], [2], [0.5]]);
  });

  test.each([
    ['an operator', "unknown operator 'Softmax'", node('Softmax', 13, {}, { x })],
    ['an attribute', "unknown attribute 'eps'", node('LRN', 13, { size: 3, eps: 1 }, { x })],
    ['a stash_type', 'unknown stash_type 10', node('LayerNormalization', 17, { stash_type: 10 }, { x, scale: x })],
    ['a p', 'unknown p 3', node('LpNormalization', 22, { p: 3 }, { x })],
    [
      'a training_mode',
      'unknown training_mode 2',
      node('BatchNormalization', 15, { training_mode: 2 }, { x, s: x, b: x, m: x, v: x }),
    ],
    ['an input', '1 inputs too many', node('LRN', 13, { size: 3 }, { x, scale: x })],
    ['a data type', "unknown data type 'bfloat16'", node('LRN', 13, { size: 3 }, { x: { ...x, dtype: 'bfloat16' } })],
    ['the size that is missing', 'attribute size is missing', node('LRN', 13, {}, { x })],
    ['the scale that is missing', 'input scale is missing', node('RMSNormalization', 23, {}, { x })],
  ])('%s that is not known is a failure', (_, message, each) => {
    expect(() => runCase(sn, each)).toThrow(message);
  });
});
