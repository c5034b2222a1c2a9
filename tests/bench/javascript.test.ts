// Plain JavaScript is what the benchmark's results are compared with, so it is compared with the references here.

import { describe, expect, it } from 'vitest';
import { gradientsOf } from '../js/gradient-reference.ts';
import * as reference from '../js/reference.ts';
import { type Case, dataOf, describe as label, nameOf } from './cases.mjs';
import { openJavaScript } from './peers/javascript.mjs';

const layouts: readonly Case[] = [
  { operation: 'layerNorm', shape: [3, 37] },
  { operation: 'rmsNorm', shape: [3, 37] },
  { operation: 'lpNormalize', shape: [3, 37] },
  { operation: 'groupNorm', shape: [2, 6, 3, 5], axis: 1, groups: 3 },
  { operation: 'instanceNorm', shape: [2, 6, 3, 5], axis: 1 },
  ...(['batchNorm', 'batchNormTraining'] as const).flatMap((operation): Case[] => [
    { operation, shape: [4, 6, 3, 5], axis: 1 },
    { operation, shape: [4, 3, 5, 6], axis: -1 },
    { operation, shape: [9, 6], axis: 1 },
  ]),
];

/** One rounding to float32, and what sums in double lose. */
const bound = reference.machineEpsilon / 2 + 1e-10;

function axisOf({ shape, axis = 0 }: Case): number {
  return axis < 0 ? axis + shape.length : axis;
}

function forward(each: Case) {
  const { operation, shape, groups = 1 } = each;
  const { x, mean, variance, ...given } = dataOf(each);
  const axis = axisOf(each);
  const last = [shape.length - 1];
  const of: Record<Case['operation'], () => Pick<reference.Reference, 'y' | 'magnitude'>> = {
    layerNorm: () => reference.layerNorm(x, shape, last, given),
    rmsNorm: () => reference.rmsNorm(x, shape, last, given),
    lpNormalize: () => reference.lpNormalize(x, shape, last),
    groupNorm: () => reference.groupNorm(x, shape, axis, groups, given),
    instanceNorm: () => reference.instanceNorm(x, shape, axis, given),
    batchNorm: () => reference.batchNorm(x, shape, axis, { ...given, mean, variance }),
    batchNormTraining: () => reference.batchNormTraining(x, shape, axis, given),
  };
  return of[operation]();
}

describe('plain JavaScript', () => {
  for (const isOffset of [false, true]) {
    for (const layout of layouts) {
      const each = { ...layout, isOffset };
      it(`${nameOf(each)} ${label(each)} is right`, () => {
        const { y, ...rest } = openJavaScript(each, dataOf(each)).call();
        expect(rest).toEqual({});
        const { y: expected, magnitude } = forward(each);
        reference.expectNear({ op: nameOf(each), shape: each.shape }, y as Float32Array, expected, bound, magnitude);
      });

      const gradient = { ...each, isBackward: true };
      it(`${nameOf(gradient)} ${label(gradient)} is right`, () => {
        const { operation: op, shape, groups = 1 } = gradient;
        const { x, dy, ...given } = dataOf(gradient);
        const got = openJavaScript(gradient, dataOf(gradient)).call();
        const place = { op, shape, axes: [shape.length - 1], axis: axisOf(gradient), groups };
        const { scale, mean, variance } = given;
        const options =
          op === 'lpNormalize'
            ? {}
            : { scale, epsilon: given.epsilon, ...(op === 'batchNorm' ? { mean, variance } : {}) };
        const expected = gradientsOf(place, dy as Float32Array, x, options);
        const outputs = (['dx', 'dScale', 'dBias'] as const).filter((name) => name in got);
        expect(outputs).toContain('dx');
        for (const output of outputs) {
          const what = { op: nameOf(gradient), shape, output };
          const values = got[output] as Float32Array;
          reference.expectNear(what, values, expected[output], bound, expected.magnitude[output]);
        }
      });
    }
  }
});
