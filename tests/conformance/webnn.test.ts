import { load, type Simdnorm } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compare, numbersOf, readVectors, typeOf, ulpMeasure, WorstOfEach } from './vectors.ts';
import { type Graph, type Operator, runGraph, tensorFrom, type WebnnCase } from './webnn.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

/** WebNN has no float64. What is computed in float32 and rounded once to float16 is off nowhere. */
const limits = { float32: 6, float16: 0, float64: NaN };

const vectors = readVectors<{ cases: WebnnCase[] }>('webnn-wpt.json');

describe.runIf(vectors)('web-platform-tests', () => {
  const worst = new WorstOfEach();

  test.each((vectors?.cases ?? []).map(({ name, graph }) => [name, graph] as const))('%s', (name, graph) => {
    const tensors = runGraph(sn, graph);
    expect(Object.keys(graph.expectedOutputs)).not.toHaveLength(0);
    for (const [output, described] of Object.entries(graph.expectedOutputs)) {
      const got = tensors.get(output);
      if (!got) throw new Error(`${name}: no output '${output}'`);
      const expected = tensorFrom(described);
      expect(got.shape).toEqual(expected.shape);
      const dtype = typeOf(expected.values);
      expect(typeOf(got.values)).toBe(dtype);
      const measure = ulpMeasure(limits[dtype]);
      const result = compare(`${name}: ${output}`, got.values, expected, measure);
      for (const { name: operator } of graph.operators) worst.add(`WebNN ${operator} ${dtype}`, result);
      if (!(result.distance <= measure.limit)) throw new Error(result.message);
    }
  });

  afterAll(() => console.log(worst.lines));
});

if (!vectors) test('skipped: no vectors', () => console.log('web-platform-tests skipped: no vectors'));

describe('what the vectors do not have', () => {
  const float32 = (shape: number[], data: unknown) => ({ data, descriptor: { shape, dataType: 'float32' } });
  const graphOf = (inputs: Graph['inputs'], name: string, ...list: Operator['arguments']): Graph => {
    return { inputs, operators: [{ name, arguments: [{ input: 'x' }, ...list], outputs: 'y' }], expectedOutputs: {} };
  };
  const yOf = (graph: Graph) => numbersOf(runGraph(sn, graph).get('y')?.values as Float32Array<ArrayBuffer>);
  const x = float32([2, 2], [1, 3, -6, -2]);

  test('a label changes nothing', () => {
    const options = { epsilon: 0, label: 'mine' };
    expect(yOf(graphOf({ x }, 'layerNormalization', { options }))).toEqual([-1, 1, -1, 1]);
  });

  test('layer normalization of one axis has none to reduce by default', () => {
    const bias = float32([], 7);
    expect(yOf(graphOf({ x: float32([3], [1, 2, 4]) }, 'layerNormalization'))).toEqual([0, 0, 0]);
    const options = { bias: 'bias' };
    expect(yOf(graphOf({ x: float32([2], [1, 2]), bias }, 'layerNormalization', { options }))).toEqual([7, 7]);
  });

  test('one number fills an array, and words stand for what JSON has not', () => {
    const inputs = { x, mean: float32([2], 1), variance: float32([2], [4, 'NaN']) };
    const list = [{ mean: 'mean' }, { variance: 'variance' }, { options: { epsilon: 0 } }];
    expect(yOf(graphOf(inputs, 'batchNormalization', ...list))).toEqual([0, NaN, -3.5, NaN]);
    const missing = { ...inputs, variance: float32([2], [4, null]) };
    expect(() => yOf(graphOf(missing, 'batchNormalization', ...list))).toThrow('no number: null');
  });

  test('operators run one after the other', () => {
    const operators = [
      { name: 'layerNormalization', arguments: [{ input: 'x' }, { options: { epsilon: 0 } }], outputs: ['first'] },
      {
        name: 'batchNormalization',
        arguments: [{ input: 'first' }, { mean: 'one' }, { variance: 'four' }, { options: { epsilon: 0 } }],
        outputs: 'y',
      },
    ];
    const inputs = { x, one: float32([2], 1), four: float32([2], 4) };
    expect(yOf({ inputs, operators, expectedOutputs: {} })).toEqual([-1, 0, -1, 0]);
  });

  test.each([
    ['an operator', 'unknown operator', graphOf({ x }, 'gemm')],
    ['an option', "unknown argument or option 'eps'", graphOf({ x }, 'layerNormalization', { options: { eps: 1 } })],
    ['an argument', "unknown argument or option 'mean'", graphOf({ x }, 'layerNormalization', { mean: 'x' })],
    ['a layout', 'unknown layout', graphOf({ x }, 'instanceNormalization', { options: { layout: 'chwn' } })],
    ['an array', "no operand 'z'", graphOf({ x }, 'layerNormalization', { options: { scale: 'z' } })],
    [
      'a data type',
      "unknown data type 'int8'",
      graphOf({ x: { ...x, descriptor: { shape: [2, 2], dataType: 'int8' } } }, 'layerNormalization'),
    ],
    ['the mean that is missing', 'mean is missing', graphOf({ x }, 'batchNormalization')],
  ])('%s that is not known is a failure', (_, message, graph) => {
    expect(() => runGraph(sn, graph)).toThrow(message);
  });
});
