// Large arrays go through the module's memory in pieces of whole items. Tensors never do, so that they say what is right.

import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { allOps, call, dtypes, isBackward } from './calls.ts';
import { product, Random } from './data.ts';
import { caseOf, compute, expectSame, type Form, forms, type Plan, plain, randomPlan } from './forms.ts';
import type { Layout } from './layouts.ts';
import { expectBits } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load({});
});

/** Those whose items, along the first axes, know nothing of each other. */
const divided = allOps.filter((op) => op !== 'batchNormTraining' && (!isBackward(op) || op === 'lpNormalizeBackward'));

/** As much is in one piece; of float16 half as many values are. */
const pieceValues = 2 ** 15;

const tensors: Plan = { ...plain, form: () => 'tensor' };

const places: readonly Omit<Layout, 'op'>[] = [
  // The last piece has fewer rows than the others.
  { shape: [709, 98], axes: [1], axis: 1, groups: 7 },
  { shape: [7, 11, 9, 100], axes: [3], axis: 3, groups: 4 },
  { shape: [7, 11, 9, 100], axes: [2], axis: 2, groups: 9 },
  { shape: [31, 6, 17, 22], axes: [3, 1], axis: 1, groups: 3 },
  { shape: [31, 17, 22, 6], axes: [3, 2], axis: 3, groups: 2 },
  // One item is larger than a piece.
  { shape: [2, 4, 16_900], axes: [1, 2], axis: 1, groups: 2 },
  // One item has several pieces, of which the last has fewer groups.
  { shape: [3, 14, 2600], axes: [2], axis: 1, groups: 7 },
  // One item is all there is.
  { shape: [1, 8, 8300], axes: [1], axis: 1, groups: 2 },
  // Nothing is left outside.
  { shape: [4, 17_000], axes: [0, 1], axis: 1, groups: 5 },
  // Each value is a row.
  { shape: [70_001, 1], axes: [1], axis: 1, groups: 1 },
];

describe('what Tensors give, to the bit', () => {
  for (const op of divided) {
    test.each(dtypes)(`${op} of %s`, (dtype) => {
      const { used } = sn.memory;
      const random = new Random(allOps.indexOf(op));
      for (const place of places) {
        const c = caseOf(op, dtype, place);
        const expected = compute(sn, c, tensors);
        expectSame(c, compute(sn, c, plain), expected);
        for (const form of forms) expectSame(c, compute(sn, c, { ...plain, form: () => form }), expected);
        for (const name of ['x', 'out', 'residual', 'residualOut', 'meanOut', 'invStdOut']) {
          if (!(name in c.inputs || name in c.outputs)) continue;
          const alone = (other: Form, own: Form) => ({
            ...plain,
            form: (each: string) => (each === name ? own : other),
          });
          expectSame(c, compute(sn, c, alone('window', 'tensor')), expected);
          expectSame(c, compute(sn, c, alone('tensor', 'window')), expected);
        }
        for (let i = 0; i < 3; ++i) expectSame(c, compute(sn, c, randomPlan(c, random)), expected);
      }
      expect(sn.memory.used).toBe(used);
    });
  }

  test('any shape and axes', () => {
    const shapes = fc
      .array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 })
      .chain((rest) => {
        const values = (2 * pieceValues) / product(rest);
        return fc.integer({ min: Math.ceil(values / 2), max: Math.ceil(2 * values) }).map((first) => [first, ...rest]);
      })
      .chain((shape) => {
        const axes = Array.from({ length: shape.length - 1 }, (_, i) => i + 1);
        return fc.record({
          shape: fc.constant(shape),
          axes: fc.shuffledSubarray(axes, { minLength: 1 }),
          axis: fc.constantFrom(...axes),
          groups: fc.constant(1),
        });
      });
    fc.assert(
      fc.property(
        fc.constantFrom(...divided),
        fc.constantFrom(...dtypes),
        shapes,
        fc.nat(),
        (op, dtype, place, seed) => {
          const c = caseOf(op, dtype, place);
          expectSame(c, compute(sn, c, randomPlan(c, new Random(seed))), compute(sn, c, tensors));
        },
      ),
      { numRuns: 40, seed: 1 },
    );
  });
});

describe('what is written over what has yet to be read, through another SharedArrayBuffer of its memory', () => {
  const length = 3 * pieceValues;
  const realms: [string, () => SharedArrayBuffer][] = [
    ['this realm', () => new SharedArrayBuffer(12 * length)],
    ['another realm', () => runInNewContext(`new SharedArrayBuffer(${12 * length})`)],
    ['another prototype', () => Object.setPrototypeOf(new SharedArrayBuffer(12 * length), ArrayBuffer.prototype)],
  ];
  const twinOf = (buffer: SharedArrayBuffer): SharedArrayBuffer => {
    return Object.setPrototypeOf(structuredClone(buffer), Object.getPrototypeOf(buffer));
  };

  for (const [realm, make] of realms) {
    test.each(divided.filter((op) => op !== 'moments'))(`%s, of ${realm}`, (op) => {
      const c = caseOf(op, 'float32', { shape: [length / 8, 8], axes: [1], axis: 1, groups: 2 });
      const { x, dy, residual, ...parameters } = Object.fromEntries(
        Object.entries(c.inputs).map(([name, { values }]) => [name, values]),
      );
      const large = { x, dy, residual };
      const run = (inputs: typeof large, name: string, output: Float32Array) => {
        const options = { ...c.options, ...parameters, residual: inputs.residual, [name]: output };
        call(sn, op, inputs.x, options, inputs.dy);
      };
      for (const name of Object.keys(c.outputs)) {
        const expected = new Float32Array(c.outputs[name]?.length as number);
        run(large, name, expected);
        for (const [input, values] of Object.entries(large)) {
          if (!values) continue;
          const buffer = make();
          const shared = new Float32Array(buffer, 4 * length, length);
          shared.set(values);
          // Half a piece further.
          const over = new Float32Array(twinOf(buffer), 4 * (length + pieceValues / 2), expected.length);
          run({ ...large, [input]: shared }, name, over);
          expectBits({ op, shape: c.layout.shape, output: name }, over, expected);
        }
      }
    });
  }
});
