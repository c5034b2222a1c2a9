// The edge cases that layers are known to get wrong, for every operation and dtype that has them. What layer-norm.test.ts
// and batch-norm.test.ts say about their own operations in float32 is not repeated for its own sake.

import { load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type Arrays,
  arrays,
  call,
  type DType,
  dtypes,
  type Floats,
  normalizations,
  numbersOf,
  type Op,
  type Options,
  ofType,
  ops,
  overAxes,
  type Results,
  ragged,
  required,
  results,
  shapes,
  valid,
  vectors,
  withEpsilon,
  written,
} from './calls.ts';
import { draw, drawScale, product } from './data.ts';
import {
  countOf,
  groupsOf,
  type Layout,
  layoutOptions,
  parameterLength,
  parameterPlaces,
  statisticsFor,
} from './layouts.ts';
import * as reference from './reference.ts';
import { type Case, expectBits, expectNear, machineEpsilon, promise, variancePromise } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

const over = (op: Op, shape: readonly number[], axes: readonly number[]): Layout => {
  return { op, shape, axes, axis: 1, groups: 1 };
};
const by = (op: Op, shape: readonly number[], axis: number, groups = 1): Layout => {
  return { op, shape, axes: [], axis, groups };
};

/** Rows, runs and columns, short and long, next to each other and apart. Every group has an even number of values. */
const centered = [
  over('layerNorm', [3, 8], [1]),
  over('layerNorm', [8, 6], [0]),
  over('layerNorm', [4, 3, 2], [0, 2]),
  over('layerNorm', [2, 3, 4, 6], [3, 1]),
  over('layerNorm', [2, 4, 300], [1, 2]),
  over('layerNorm', [3, 1026], [1]),
  by('instanceNorm', [2, 3, 8], 1),
  by('instanceNorm', [2, 8, 3], 2),
  by('instanceNorm', [2, 4, 3, 18], 2),
  by('instanceNorm', [2, 3, 1026], 1),
  by('groupNorm', [2, 6], 1, 3),
  by('groupNorm', [2, 6, 4], 1, 3),
  by('groupNorm', [2, 4, 6], 2, 2),
  by('groupNorm', [2, 6, 300], 1, 2),
  by('batchNormTraining', [8, 3], 1),
  by('batchNormTraining', [3, 8], 0),
  by('batchNormTraining', [4, 3, 6], 1),
  by('batchNormTraining', [2, 300, 5], 2),
];
const rms = [
  over('rmsNorm', [3, 8], [1]),
  over('rmsNorm', [8, 6], [0]),
  over('rmsNorm', [4, 3, 2], [0, 2]),
  over('rmsNorm', [2, 4, 300], [1, 2]),
];
const lengthOne = [
  over('layerNorm', [5, 1], [1]),
  over('layerNorm', [1], [0]),
  over('layerNorm', [2, 3], []),
  by('instanceNorm', [3, 4], 1),
  by('instanceNorm', [3, 1, 4], 2),
  by('groupNorm', [3, 4], 1, 4),
  by('groupNorm', [3, 1, 4, 1], 2, 4),
];
const lp = rms.map((layout) => ({ ...layout, op: 'lpNormalize' as const }));
const moments = rms.map((layout) => ({ ...layout, op: 'moments' as const }));

function titled<Extra>(layouts: readonly Layout[], extras: readonly Extra[]): [string, Layout, Extra][] {
  return layouts.flatMap((layout) =>
    extras.map((extra): [string, Layout, Extra] => {
      const { op, shape, axes, axis, groups } = layout;
      const isOver = (overAxes as readonly Op[]).includes(op);
      const place = isOver ? `over [${axes}]` : `by ${axis}${op === 'groupNorm' ? ` in ${groups}` : ''}`;
      return [`${extra} ${op} [${shape}] ${place}`, layout, extra];
    }),
  );
}

function what({ op, shape }: Layout, dtype: DType, output = 'y'): Case {
  return { op, shape, output, data: dtype };
}

/** What is promised of y without scale and bias, times max(1, |y|). */
const promised: Record<DType, number> = {
  float32: promise,
  float64: 5 * 2 ** -52,
  float16: (1 + 2 ** -10) * 2 ** -11 + promise,
};
const epsilonOf: Record<DType, number> = { float32: machineEpsilon, float64: 2 ** -52, float16: machineEpsilon };

function sizes(values: Float64Array): Float64Array {
  return values.map((value) => Math.max(1, Math.abs(value)));
}

function run(layout: Layout, dtype: DType, values: ArrayLike<number>, extra: Options = {}): Results {
  const { x, options } = ofType(dtype, values);
  return results(sn, layout.op, x, { ...layoutOptions(layout), ...statisticsFor(layout, dtype), ...options, ...extra });
}

function yOf(got: Results): Float64Array {
  return numbersOf(got.y as Floats);
}

/** Values that depend on their place in the group only. */
function fill(layout: Layout, of: (place: number) => number): Float64Array {
  const groupOf = groupsOf(layout);
  const next = new Int32Array(countOf(groupOf));
  return Float64Array.from(groupOf, (group) => {
    const place = next[group] as number;
    next[group] = place + 1;
    return of(place);
  });
}

/** As a dtype has it. */
function rounded(dtype: DType, value: number): number {
  return numbersOf(ofType(dtype, [value]).x)[0] as number;
}

describe('a constant group gives exactly bias', () => {
  const constants: Record<DType, number[]> = {
    float32: [0.1, 1000.1, 3.3e7, -0.1, -1e30, 1e-40],
    float64: [0.1, 1000.1, 3.3e7, -1e300, 1e-300],
    float16: [0.1, 1000.1, 65504, -6e-8],
  };

  test.each(titled([...centered, ...lengthOne], dtypes))('%s', (_, layout, dtype) => {
    const length = parameterLength(layout);
    const places = parameterPlaces(layout);
    const bias = ofType(dtype, draw(length, 1));
    const biases = numbersOf(bias.x);
    const scale = drawScale(length, 2);
    for (const constant of constants[dtype]) {
      const values = new Float64Array(product(layout.shape)).fill(constant);
      const plain = run(layout, dtype, values);
      const zeros = new Float64Array(values.length);
      expectNear(what(layout, dtype), yOf(plain), zeros, 0);
      const expected = Float64Array.from(places, (place) => biases[place] as number);
      const biased = run(layout, dtype, values, { bias: biases, scale });
      expectBits(what(layout, dtype), yOf(biased), expected);
      const mean = plain.mean as Float32Array;
      expectBits(what(layout, dtype, 'mean'), mean, new Float64Array(mean.length).fill(rounded(dtype, constant)));
      const invStd = plain.invStd as Float32Array;
      const root = new Float64Array(invStd.length).fill(1 / Math.sqrt(1e-5));
      expectNear(what(layout, dtype, 'invStd'), invStd, root, epsilonOf[dtype]);
      if (plain.variance) expect([...new Set(plain.variance)]).toEqual([0]);
    }
  });

  test.each(titled(moments, dtypes))('%s: itself and 0', (_, layout, dtype) => {
    for (const constant of constants[dtype]) {
      const values = new Float64Array(product(layout.shape)).fill(constant);
      const { mean, variance } = run(layout, dtype, values);
      expect([...new Set(mean)]).toEqual([rounded(dtype, constant)]);
      expect([...new Set(variance)]).toEqual([0]);
    }
  });

  // The mean is not subtracted: what is left is the sign, and less where epsilon matters.
  test.each(titled(rms, dtypes))('but not %s', (_, layout, dtype) => {
    for (const constant of [3, -1000.5, 0.25, 2 ** -9]) {
      const y = yOf(run(layout, dtype, new Float64Array(product(layout.shape)).fill(constant)));
      const expected = new Float64Array(y.length).fill(constant / Math.sqrt(constant ** 2 + 1e-5));
      expectNear(what(layout, dtype), y, expected, promised[dtype], sizes(expected));
    }
  });
});

describe('epsilon 0', () => {
  test.each(titled([...centered, ...lengthOne], dtypes))('%s without variance is 0/0', (_, layout, dtype) => {
    const { y, variance } = run(layout, dtype, new Float64Array(product(layout.shape)).fill(5), { epsilon: 0 });
    const expected = new Float64Array(product(layout.shape)).fill(NaN);
    expectBits(what(layout, dtype), numbersOf(y as Floats), expected);
    if (variance) expect([...new Set(variance)]).toEqual([0]);
    // And bias doesn't hide it.
    const bias = draw(parameterLength(layout), 1);
    expectBits(
      what(layout, dtype),
      yOf(
        run(
          layout,
          dtype,
          fill(layout, () => 5),
          { epsilon: 0, bias },
        ),
      ),
      expected,
    );
  });

  test.each(titled(rms, dtypes))('%s of zeros is 0/0', (_, layout, dtype) => {
    const zeros = new Float64Array(product(layout.shape));
    const { y, invStd } = run(layout, dtype, zeros, { epsilon: 0 });
    expectBits(
      what(layout, dtype),
      numbersOf(y as Floats),
      zeros.map(() => NaN),
    );
    expect([...new Set(invStd)]).toEqual([Infinity]);
    expectNear(what(layout, dtype), yOf(run(layout, dtype, zeros)), zeros, 0);
  });

  test.each(titled(lp, dtypes))('%s of zeros is zeros', (_, layout, dtype) => {
    const zeros = new Float64Array(product(layout.shape));
    for (const p of [1, 2, Infinity]) {
      for (const epsilon of [0, undefined, 1e-300, 1]) {
        expectNear(what(layout, dtype), yOf(run(layout, dtype, zeros, { p, epsilon })), zeros, 0);
      }
    }
  });
});

describe('squares that over- and underflow', () => {
  const small: Record<DType, number[]> = {
    float32: [1e-30, 1e-20],
    float64: [1e-300, 1e-30],
    float16: [2 ** -24, 1e-3],
  };
  const large: Record<DType, number[]> = { float32: [1e30, 1e20], float64: [1e300, 1e30], float16: [65504, 300] };
  const alternating = (layout: Layout, size: number) => fill(layout, (place) => (place % 2 ? -size : size));

  test.each(titled(centered, dtypes))('%s of +-s is +-1', (_, layout, dtype) => {
    const signs = alternating(layout, 1);
    for (const size of [...small[dtype], ...large[dtype]]) {
      const y = yOf(run(layout, dtype, alternating(layout, size), { epsilon: 0 }));
      // In double there is nothing wider that could be rounded to 1.
      if (dtype === 'float64') expectNear(what(layout, dtype), y, signs, promised[dtype]);
      else expectBits({ ...what(layout, dtype), data: `+-${size}` }, y, signs);
    }
    for (const size of large[dtype]) {
      const y = yOf(run(layout, dtype, alternating(layout, size)));
      expectNear({ ...what(layout, dtype), data: `+-${size}, epsilon 1e-5` }, y, signs, promised[dtype]);
    }
  });

  test.each(titled(rms, dtypes))('%s of +-s is +-1', (_, layout, dtype) => {
    const signs = alternating(layout, 1);
    for (const size of [...small[dtype], ...large[dtype], ...(dtype === 'float16' ? [] : [3e30, 3e-30])]) {
      const y = yOf(run(layout, dtype, alternating(layout, size), { epsilon: 0 }));
      expectNear({ ...what(layout, dtype), data: `+-${size}` }, y, signs, promised[dtype]);
    }
  });

  test.each(titled(lp, dtypes))('%s of +-s is +-1 over the norm of ones', (_, layout, dtype) => {
    const count = product(layout.axes.map((axis) => layout.shape[axis] as number));
    for (const size of [...small[dtype], ...large[dtype], ...(dtype === 'float16' ? [] : [3e30, 3e-30])]) {
      for (const p of [1, 2, Infinity]) {
        const expected = alternating(layout, 1 / count ** (1 / p));
        const y = yOf(run(layout, dtype, alternating(layout, size), { epsilon: 0, p }));
        expectNear(
          { ...what(layout, dtype), data: `p ${p}, +-${size}` },
          y,
          expected,
          promised[dtype],
          sizes(expected),
        );
      }
    }
  });

  // 2^k, 2^(k+1) and 3 * 2^k are exact, and so are the definitions for 1, 2, 3, whose group repeats.
  test.each(dtypes)('1, 2 and 3 times the largest and smallest powers of two are 1, 2 and 3 to all: %s', (dtype) => {
    const powers: Record<DType, number[]> = {
      float32: [2 ** 126, 2 ** 100, 2 ** -100, 2 ** -126, 2 ** -140],
      float64: [2 ** 1022, 2 ** 700, 2 ** -700, 2 ** -1022, 2 ** -1030],
      float16: [2 ** 14, 2 ** -14, 2 ** -24],
    };
    const third = Math.sqrt(1.5);
    const square = Math.sqrt(14 / 3);
    const expectations: [Layout, Options, (place: number) => number][] = [
      [over('layerNorm', [2, 33], [1]), {}, (place) => third * ((place % 3) - 1)],
      [over('layerNorm', [33, 5], [0]), {}, (place) => third * ((place % 3) - 1)],
      [by('instanceNorm', [2, 3, 6], 1), {}, (place) => third * ((place % 3) - 1)],
      [by('groupNorm', [2, 4, 3], 1, 2), {}, (place) => third * ((place % 3) - 1)],
      [by('batchNormTraining', [3, 5], 1), {}, (place) => third * ((place % 3) - 1)],
      [over('rmsNorm', [2, 33], [1]), {}, (place) => ((place % 3) + 1) / square],
      [over('rmsNorm', [33, 5], [0]), {}, (place) => ((place % 3) + 1) / square],
      [over('lpNormalize', [2, 33], [1]), { p: 1 }, (place) => ((place % 3) + 1) / 66],
      [over('lpNormalize', [33, 5], [0]), { p: 1 }, (place) => ((place % 3) + 1) / 66],
      [over('lpNormalize', [2, 33], [1]), { p: 2 }, (place) => ((place % 3) + 1) / Math.sqrt(154)],
      [over('lpNormalize', [33, 5], [0]), { p: Infinity }, (place) => ((place % 3) + 1) / 3],
    ];
    for (const [layout, options, of] of expectations) {
      for (const power of powers[dtype]) {
        const x = fill(layout, (place) => power * ((place % 3) + 1));
        const expected = fill(layout, of);
        const y = yOf(run(layout, dtype, x, { epsilon: 0, ...options }));
        expectNear(
          { ...what(layout, dtype), data: `${dtype} ${power}` },
          y,
          expected,
          promised[dtype],
          sizes(expected),
        );
      }
    }
  });

  test.each(['float32', 'float64'] as const)('localResponseNorm of huge and tiny %s', (dtype) => {
    const sizes = dtype === 'float64' ? [1e200, 1e150, 1e-200] : [1e30, 1e20, 1e-30];
    for (const size of sizes) {
      const x = numbersOf(
        ofType(
          dtype,
          [1, -2, 3, 4, -5].map((value) => value * size),
        ).x,
      );
      const expected = Float64Array.from(x, (value, c) => {
        const window = x.subarray(Math.max(0, c - 1), c + 2).map((each) => (each / size) ** 2);
        const sum = window.reduce((total, each) => total + each, 0);
        // k is nothing beside 1e40, and the sum nothing beside k for the small ones.
        return size < 1 ? value : (value / size) * (1e-4 / 3) ** -0.75 * sum ** -0.75 * size ** -0.5;
      });
      const y = yOf(run(by('localResponseNorm', [1, 5], 1), dtype, x, { size: 3 }));
      const relative = Float64Array.from(expected, (value) => Math.max(Math.abs(value), 2 ** -126));
      expectNear(
        { op: 'localResponseNorm', shape: [1, 5], data: `${dtype} ${size}` },
        y,
        expected,
        promised[dtype] * 2,
        relative,
      );
    }
  });
});

describe('NaN and infinity', () => {
  /** What makes a group of finite values one that isn't. */
  const bad: [string, (values: Float64Array, places: number[]) => void][] = [
    ['NaN first', (values, places) => values.fill(NaN, places[0], (places[0] as number) + 1)],
    ['NaN last', (values, places) => values.fill(NaN, places.at(-1), (places.at(-1) as number) + 1)],
    ['infinity', (values, places) => values.fill(Infinity, places[1], (places[1] as number) + 1)],
    ['-infinity', (values, places) => values.fill(-Infinity, places[0], (places[0] as number) + 1)],
    [
      'both infinities',
      (values, places) => {
        values[places[0] as number] = Infinity;
        values[places[1] as number] = -Infinity;
      },
    ],
    [
      'infinity alone',
      (values, places) => {
        for (const i of places) values[i] = Infinity;
      },
    ],
    [
      'NaN alone',
      (values, places) => {
        for (const i of places) values[i] = NaN;
      },
    ],
  ];

  const variants = [...titled([...centered, ...rms, ...moments], dtypes), ...titled(lp, dtypes)];
  test.each(variants)('%s: they stay in their group, all of which is NaN', (_, layout, dtype) => {
    const groupOf = groupsOf(layout);
    const group = countOf(groupOf) >> 1;
    const places = Array.from(groupOf.keys()).filter((i) => groupOf[i] === group);
    const length = parameterLength(layout);
    const names = vectors[layout.op];
    const parameters = Object.fromEntries(names.map((name, i) => [name, drawScale(length, i)]));
    for (const p of layout.op === 'lpNormalize' ? [1, 2, Infinity] : [undefined]) {
      for (const [data, spoil] of bad) {
        const values = Float64Array.from(draw(product(layout.shape), 3));
        const clean = run(layout, dtype, values, { ...parameters, p });
        spoil(values, places);
        const spoiled = run(layout, dtype, values, { ...parameters, p });
        const expected = (name: 'y' | 'mean' | 'variance' | 'invStd') => {
          const isBad = (i: number) => (name === 'y' ? groupOf[i] : i) === group;
          return numbersOf(clean[name] as Floats).map((value, i) => (isBad(i) ? NaN : value));
        };
        for (const name of ['y', 'mean', 'variance', 'invStd'] as const) {
          if (!clean[name]) continue;
          const got = numbersOf(spoiled[name] as Floats);
          expectBits({ ...what(layout, dtype, name), data: `${dtype}, ${data}` }, got, expected(name));
        }
      }
    }
  });

  test.each(titled(lengthOne, dtypes))(
    '%s: a group of one value that is NaN or infinite is NaN',
    (_, layout, dtype) => {
      for (const value of [NaN, Infinity, -Infinity]) {
        const values = Float64Array.from({ length: product(layout.shape) }, (_, i) => (i === 0 ? value : 3));
        const { y, mean, invStd } = run(layout, dtype, values, { bias: draw(parameterLength(layout), 1) });
        const numbers = numbersOf(y as Floats);
        expect(numbers[0]).toBeNaN();
        expect(numbers.filter(Number.isNaN)).toHaveLength(1);
        expect([mean?.[0], invStd?.[0]]).toEqual([NaN, NaN]);
      }
    },
  );

  test.each(dtypes)('in a residual they are as in x: %s', (dtype) => {
    const { options } = ofType(dtype, []);
    for (const op of ['layerNorm', 'rmsNorm'] as const) {
      const x = ofType(dtype, [1, 2, 3, Infinity, 2, 3, 1, 2, 4]).x;
      const residual = ofType(dtype, [0, NaN, 0, -Infinity, 0, 0, 1, 1, 1]).x;
      const residualOut = x.slice();
      const { y } = results(sn, op, x, { shape: [3, 3], residual, residualOut, ...options });
      expect([...numbersOf(y as Floats)].map(Number.isNaN)).toEqual([
        true,
        true,
        true,
        true,
        true,
        true,
        false,
        false,
        false,
      ]);
      expect([...numbersOf(residualOut)]).toEqual([1, NaN, 3, NaN, 2, 3, 2, 3, 5]);
    }
  });

  test.each(dtypes)('batchNorm by given statistics takes them as IEEE arithmetic does: %s', (dtype) => {
    const x = [NaN, Infinity, -Infinity, 3, 5, Infinity, -Infinity, 7];
    const given = { mean: [1, 2], variance: [4, 9], scale: [1, -2], bias: [3, 5], epsilon: 0 };
    const y = yOf(run(by('batchNorm', [4, 2], 1), dtype, x, given));
    expectNear(
      what(by('batchNorm', [4, 2], 1), dtype),
      y,
      [NaN, -Infinity, -Infinity, 13 / 3, 5, -Infinity, -Infinity, 5 / 3],
      promised[dtype] * 4,
    );
    const infinite = yOf(
      run(by('batchNorm', [4, 2], 1), dtype, x, { mean: [Infinity, 2], variance: [4, Infinity], epsilon: 0 }),
    );
    expectNear(
      what(by('batchNorm', [4, 2], 1), dtype),
      infinite,
      [NaN, NaN, -Infinity, 0, -Infinity, NaN, -Infinity, 0],
      0,
    );
  });

  test.each(dtypes)('localResponseNorm takes them as IEEE arithmetic does: %s', (dtype) => {
    const layout = by('localResponseNorm', [1, 7], 1);
    for (const value of [Infinity, -Infinity, NaN]) {
      const x = [1, 2, 3, value, 5, 6, 7];
      const y = yOf(run(layout, dtype, x, { size: 3 }));
      // Neighbours are divided by infinity, and infinity by itself.
      const { y: expected } = reference.localResponseNorm(x, [1, 7], 1, { size: 3 });
      expect(
        [...expected].map((each, c) => (c === 3 ? each : Number.isNaN(value) ? each : Math.abs(each))).slice(2, 5),
      ).toEqual(Number.isNaN(value) ? [NaN, NaN, NaN] : [0, NaN, 0]);
      expectNear(
        what(layout, dtype),
        y,
        expected,
        promised[dtype],
        expected.map((each) => Math.max(1, Math.abs(each))),
      );
    }
  });
});

describe('nothing to normalize', () => {
  const nothing: [Layout, Options?][] = [
    [over('layerNorm', [0, 3], [1]), { scale: [1, 2, 3], bias: [1, 2, 3], lengths: [] }],
    [over('layerNorm', [4, 0, 3], [2])],
    [over('layerNorm', [3, 0], [0])],
    [over('layerNorm', [0, 65536, 65536], [1, 2])],
    [over('layerNorm', [2, 0, 3, 4], [0, 2])],
    [over('rmsNorm', [0, 3], [1]), { scale: [1, 2, 3], lengths: [] }],
    [over('rmsNorm', [3, 0], [0])],
    [over('lpNormalize', [0, 3], [1])],
    [over('lpNormalize', [3, 0], [0])],
    [over('moments', [0, 3], [1])],
    [over('moments', [3, 0], [0])],
    [by('instanceNorm', [0, 3, 4], 1), { scale: [1, 2, 3] }],
    [by('instanceNorm', [2, 0, 4], 1)],
    [by('instanceNorm', [0, 65536, 65536], 1), { scale: new Float32Array(65536) }],
    [by('groupNorm', [0, 4, 3], 1, 2), { scale: [1, 2, 3, 4] }],
    [by('batchNorm', [0, 3], 1), { mean: [1, 2, 3], variance: [1, 2, 3] }],
    [by('batchNorm', [4, 3, 0], 1), { mean: [1, 2, 3], variance: [1, 2, 3] }],
    [by('batchNorm', [4, 0, 3], 1), { mean: [], variance: [] }],
    [by('batchNormTraining', [2, 0, 3], 1)],
    [by('localResponseNorm', [0, 3], 1), { size: 3 }],
    [by('localResponseNorm', [2, 0, 3], 1), { size: 3 }],
    [by('localResponseNorm', [2, 3, 0], 1), { size: 3 }],
  ];

  for (const dtype of dtypes) {
    test.each(nothing)(`0 rows of ${dtype} give an empty result: %o`, (layout, extra = {}) => {
      const { x, options } = ofType(dtype, []);
      const given = { ...layoutOptions(layout), ...options, ...extra };
      const { y, mean, variance, invStd } = results(sn, layout.op, x, given);
      if (layout.op !== 'moments') expect(y?.constructor).toBe(x.constructor);
      for (const each of [y, mean, variance, invStd]) if (each) expect(each).toHaveLength(0);
      if (layout.op === 'moments') return;
      expect(results(sn, layout.op, x, { ...given, out: x }).y).toBe(x);
      const other = ofType(dtype, []).x;
      expect(results(sn, layout.op, x, { ...given, out: other }).y).toBe(other);
    });

    const impossible = [
      over('layerNorm', [3, 0], [1]),
      over('layerNorm', [0, 0], [1]),
      over('layerNorm', [2, 0, 3], [0, 1]),
      over('rmsNorm', [3, 0], [1]),
      over('lpNormalize', [3, 0], [1]),
      over('moments', [3, 0], [1]),
      by('instanceNorm', [2, 3, 0], 1),
      by('instanceNorm', [2, 0, 3], 2),
      by('groupNorm', [2, 4, 0], 1, 2),
      by('batchNormTraining', [0, 3], 1),
      by('batchNormTraining', [2, 3, 0], 1),
    ];
    test.each(impossible)(`an extent of 0 that is normalized is an error in ${dtype}: %o`, (layout) => {
      const { x, options } = ofType(dtype, []);
      let failure: unknown;
      try {
        call(sn, layout.op, x, { ...layoutOptions(layout), ...options });
      } catch (error) {
        failure = error;
      }
      expect(failure).toBeInstanceOf(NormError);
      expect(failure).toMatchObject({ code: 'ERR_SHAPE', op: layout.op });
      expect(String(failure)).toContain(`[${layout.shape.join(', ')}]`);
    });
  }
});

describe('numbers that are known', () => {
  /** One group in every way that an operation can have it, alone and beside another one. */
  const forms = (n: number): Layout[] => [
    over('layerNorm', [n], [0]),
    over('layerNorm', [n, 3], [0]),
    over('layerNorm', [2, n / 2, 3], [0, 1]),
    over('layerNorm', [2, 3, n / 2], [0, 2]),
    by('instanceNorm', [1, 1, n], 1),
    by('instanceNorm', [2, n, 3], 2),
    by('groupNorm', [1, 2, n / 2], 1),
    by('groupNorm', [2, n / 2, 4], 2, 2),
    by('batchNormTraining', [n, 1], 1),
    by('batchNormTraining', [n, 3], 1),
    by('batchNormTraining', [3, n], 0),
    by('batchNormTraining', [2, 3, n / 2], 1),
  ];
  const floats = ['float32', 'float64'] as const;

  test.each(titled(forms(4), dtypes))('%s of 40000, 40001, 40002, 40003', (_, layout, dtype) => {
    // Beyond 2048 float16 has even numbers only, and at 40000 multiples of 32.
    const [start, step] = dtype === 'float16' ? [32768, 32] : [40000, 1];
    const y = yOf(
      run(
        layout,
        dtype,
        fill(layout, (place) => start + step * place),
      ),
    );
    const variance = 1.25 * step ** 2;
    const expected = fill(layout, (place) => (step * (place - 1.5)) / Math.sqrt(variance + 1e-5));
    expectNear(what(layout, dtype), y, expected, promised[dtype], sizes(expected));
    if (dtype === 'float32')
      expectNear(
        what(layout, dtype),
        y,
        fill(layout, (i) => [-1.3416354, -0.4472118, 0.4472118, 1.3416354][i] as number),
        promise,
        sizes(expected),
      );
  });

  /** The definition about the first value: the differences from it are exact. */
  const definition = (layout: Layout, x: Float64Array) => {
    const first = x[0] as number;
    const groupOf = groupsOf(layout);
    const group = x.filter((_, i) => groupOf[i] === groupOf[0]).map((value) => value - first);
    const mean = group.reduce((sum, value) => sum + value, 0) / group.length;
    const variance = group.reduce((sum, value) => sum + (value - mean) ** 2, 0) / group.length;
    return { y: x.map((value) => (value - first - mean) / Math.sqrt(variance + 1e-5)), variance };
  };

  test.each(titled(forms(16), floats))('%s of 16 values 10000 + i * 1e-3 is right to 1e-5', (_, layout, dtype) => {
    const x = fill(layout, (place) => rounded(dtype, 10000 + place * 1e-3));
    const expected = definition(layout, x);
    const { y, variance } = run(layout, dtype, x);
    // In double 1e4 deviations of the mean cost what they cost in float: nothing, but the sums here have roundings.
    expectNear(what(layout, dtype), numbersOf(y as Floats), expected.y, promised[dtype], sizes(expected.y));
    expect(promised[dtype]).toBeLessThan(1e-5);
    if (variance)
      expectNear(
        what(layout, dtype, 'variance'),
        variance,
        variance.map(() => expected.variance),
        16 * epsilonOf[dtype],
      );
  });

  test.each(titled(forms(4096), floats))('%s of 4096 values 1e7 + (i %% 5) is right to 1e-6', (_, layout, dtype) => {
    const x = fill(layout, (place) => 1e7 + (place % 5));
    const expected = definition(layout, x).y;
    expectNear(what(layout, dtype), yOf(run(layout, dtype, x)), expected, promised[dtype], sizes(expected));
    expect(promised[dtype]).toBeLessThan(1e-6);
  });

  test.each(titled(forms(2), floats))(
    '%s of 0 and 0.002 is +-0.30151: epsilon is inside the root',
    (_, layout, dtype) => {
      const y = yOf(
        run(
          layout,
          dtype,
          fill(layout, (place) => 0.002 * place),
          { epsilon: 1e-5 },
        ),
      );
      const half = rounded(dtype, 0.002) / 2;
      const expected = fill(layout, (place) => ((place ? 1 : -1) * half) / Math.sqrt(half ** 2 + 1e-5));
      expectNear(what(layout, dtype), y, expected, promised[dtype], sizes(expected));
      expect(Math.abs(y[0] as number)).toBeCloseTo(0.30151, 5);
    },
  );

  test.each(floats)('the epsilon of rmsNorm is inside the root: %s', (dtype) => {
    const y = yOf(run(over('rmsNorm', [2], [0]), dtype, [0.002, -0.002], { epsilon: 1e-5 }));
    const size = rounded(dtype, 0.002);
    const expected = size / Math.sqrt(size ** 2 + 1e-5);
    expectNear({ op: 'rmsNorm', shape: [2], data: dtype }, y, [expected, -expected], promised[dtype], [1, 1]);
    expect(expected).toBeCloseTo(0.53452, 5);
  });

  test.each(floats)('the epsilon of lpNormalize is a least norm: %s', (dtype) => {
    const layout = over('lpNormalize', [2], [0]);
    for (const [x, options, expected] of [
      [[3e-13, 4e-13], {}, [0.3, 0.4]],
      [[3e-12, 4e-12], {}, [0.6, 0.8]],
      [[3, 4], { epsilon: 10 }, [0.3, 0.4]],
      [[3, 4], { epsilon: 10, p: 1 }, [0.3, 0.4]],
      [[3, 4], { epsilon: 5, p: 1 }, [3 / 7, 4 / 7]],
      [[3, -4], { epsilon: 4, p: Infinity }, [0.75, -1]],
      [[3, -4], { epsilon: 8, p: Infinity }, [0.375, -0.5]],
    ] as const) {
      // The inputs themselves are rounded, by half a machine epsilon each.
      const bound = promised[dtype] + epsilonOf[dtype];
      expectNear(what(layout, dtype), yOf(run(layout, dtype, x, options)), expected, bound, [1, 1]);
    }
  });

  test('float16 is computed in float32: sums and squares beyond 65504 are right', () => {
    const layout = over('layerNorm', [2, 4096], [1]);
    const x = fill(layout, (place) => (place % 2 ? 60000 : -50016));
    const { y, mean, invStd } = run(layout, 'float16', x);
    // The float16 next to 60000 is 60000 itself, to 50016 as well.
    expectBits(
      what(layout, 'float16'),
      numbersOf(y as Floats),
      fill(layout, (place) => (place % 2 ? 1 : -1)),
    );
    expect([...(mean as Float32Array)]).toEqual([4992, 4992]);
    expectNear(what(layout, 'float16', 'invStd'), invStd as Float32Array, [1 / 55008, 1 / 55008], 2 ** -20);
    const { variance } = run(over('moments', [2, 4096], [1]), 'float16', x);
    const square = [55008 ** 2, 55008 ** 2];
    expectNear(what(layout, 'float16', 'variance'), variance as Float32Array, square, variancePromise);
  });
});

describe('choices where systems disagree', () => {
  const defaults: Partial<Record<Op, Options>> = {
    ...Object.fromEntries(withEpsilon.map((op) => [op, { epsilon: op === 'lpNormalize' ? 1e-12 : 1e-5 }])),
    localResponseNorm: { alpha: 1e-4, beta: 0.75, k: 1 },
  };

  for (const dtype of dtypes) {
    test.each(normalizations)(`the defaults of %s in ${dtype}`, (op) => {
      // Where the defaults can be seen: epsilon beside the variance or norm, alpha times squares beside k.
      const size = op === 'localResponseNorm' ? 30 : op === 'lpNormalize' && dtype !== 'float16' ? 1e-12 : 0.004;
      const { x, options } = ofType(dtype, draw(12, 1, size, size));
      const given = { ...required[op], shape: shapes[op], ...options };
      const expected = yOf(results(sn, op, x, given));
      const names = Object.keys(defaults[op] as Options);
      const all = op === 'lpNormalize' ? { ...defaults[op], p: 2 } : (defaults[op] as Options);
      const absent = Object.fromEntries(names.map((name) => [name, null]));
      const missing = Object.fromEntries(names.map((name) => [name, undefined]));
      for (const same of [all, absent, missing]) {
        expectBits({ op, shape: shapes[op], data: dtype }, yOf(results(sn, op, x, { ...given, ...same })), expected);
      }
      for (const name of names) {
        const other = { [name]: name === 'alpha' ? 1e4 : name === 'epsilon' ? 1 : 2 };
        expect([...yOf(results(sn, op, x, { ...given, ...other }))]).not.toEqual([...expected]);
      }
    });
  }

  test.each(withEpsilon)('an epsilon of %s far below the others is not clamped', (op) => {
    const x = Float64Array.from([
      1e-160, -1e-160, 3e-160, 2e-160, 1e-160, -3e-160, 4e-160, 0, 1e-160, 2e-160, 0, -1e-160,
    ]);
    const given = { ...required[op], shape: shapes[op] };
    if (op === 'batchNorm') Object.assign(given, { variance: new Float64Array(4), mean: new Float64Array(4) });
    const at = (epsilon: number) => [...(results(sn, op, x, { ...given, epsilon }).y as Float64Array)];
    // Of the size of x or its square: half of the usual result.
    expect(at(op === 'lpNormalize' ? 1e-159 : 1e-319)).not.toEqual(at(0));
    expect(at(op === 'lpNormalize' ? 1e-159 : 1e-319)).not.toEqual(at(1e-300));
    expect(at(0).some((value) => value !== 0)).toBe(true);
  });

  test.each(dtypes)(
    'one value per channel: instance and group norm give bias, batch norm in training refuses: %s',
    (dtype) => {
      const { x, options } = ofType(dtype, [5, -7, 9]);
      const given = { shape: [1, 3], bias: [1, 2, 3], scale: [4, 5, 6], ...options };
      expect([...yOf(results(sn, 'instanceNorm', x, given))]).toEqual([1, 2, 3]);
      expect([...yOf(results(sn, 'groupNorm', x, { ...given, groups: 3 }))]).toEqual([1, 2, 3]);
      expect(() => call(sn, 'batchNormTraining', x, given)).toThrow(expect.objectContaining({ code: 'ERR_RANGE' }));
    },
  );

  test.each(dtypes)('the groups of group norm are neighbours, and scale and bias are for each channel: %s', (dtype) => {
    const layout = by('groupNorm', [1, 4], 1, 2);
    const y = yOf(run(layout, dtype, [1, 3, 10, 30], { epsilon: 0, scale: [1, 2, 3, 4], bias: [0, 10, 0, 100] }));
    expect([...y]).toEqual([-1, 12, -3, 104]);
  });

  test.each(dtypes)('the extents of scale follow the axes in the order given: %s', (dtype) => {
    const [scale, bias] = [
      [1, 2, 3, 4, 5, 6],
      [0, 10, 20, 30, 40, 50],
    ];
    const x = [1, -1, 1, 1, -1, -1];
    const ascending = yOf(run(over('layerNorm', [2, 3], [0, 1]), dtype, x, { scale, bias, epsilon: 0 }));
    expect([...ascending]).toEqual([1, 8, 23, 34, 35, 44]);
    // scale is [3, 2] now: for place (i, j) of x the one at (j, i).
    const descending = yOf(run(over('layerNorm', [2, 3], [1, 0]), dtype, x, { scale, bias, epsilon: 0 }));
    expect([...descending]).toEqual([1, 20 - 3, 40 + 5, 10 + 2, 30 - 4, 50 - 6]);
    const roots = yOf(run(over('rmsNorm', [2, 3], [1, 0]), dtype, x, { scale, epsilon: 0 }));
    expect([...roots]).toEqual([1, -3, 5, 2, -4, -6]);
  });

  test.each(dtypes)('no axes: nothing is reduced: %s', (dtype) => {
    const x = [3, -4, 0, 0.25, 2, -1];
    const at = (op: Op, options: Options = {}) => run(over(op, [2, 3], []), dtype, x, options);
    expect([...yOf(at('layerNorm', { scale: [3], bias: [7] }))]).toEqual([7, 7, 7, 7, 7, 7]);
    expect([...yOf(at('layerNorm'))].map(Math.abs)).toEqual([0, 0, 0, 0, 0, 0]);
    const expected = Float64Array.from(x, (value) => (2 * value) / Math.sqrt(value ** 2 + 0.5));
    const roots = yOf(at('rmsNorm', { scale: [2], epsilon: 0.5 }));
    expectNear({ op: 'rmsNorm', shape: [2, 3], data: dtype }, roots, expected, promised[dtype] * 2, sizes(expected));
    for (const p of [1, 2, Infinity]) {
      expect([...yOf(at('lpNormalize', { p }))]).toEqual([1, -1, 0, 1, 1, -1]);
    }
    const { mean, variance, count } = at('moments');
    expect([...(mean as Float32Array)]).toEqual(x);
    expect([...(variance as Float32Array)]).toEqual([0, 0, 0, 0, 0, 0]);
    expect(count).toBe(1);
  });

  // ONNX's operator, with numbers that PyTorch's and TensorFlow's don't give.
  test.each(dtypes)(
    'the window of localResponseNorm begins at c - floor((size - 1) / 2), and alpha is divided by size: %s',
    (dtype) => {
      const x = [1, 2, 4, 8];
      const squares: Record<number, number[]> = {
        1: [1, 4, 16, 64],
        2: [1 + 4, 4 + 16, 16 + 64, 64],
        3: [1 + 4, 1 + 4 + 16, 4 + 16 + 64, 16 + 64],
        4: [1 + 4 + 16, 1 + 4 + 16 + 64, 4 + 16 + 64, 16 + 64],
        5: [1 + 4 + 16, 85, 85, 4 + 16 + 64],
        9: [85, 85, 85, 85],
        [2 ** 40]: [85, 85, 85, 85],
      };
      for (const [key, sums] of Object.entries(squares)) {
        const size = Number(key);
        for (const [beta, alpha, k] of [
          [1, size, 0],
          [1, 3, 2],
          [0.5, 3, 2],
          [0.75, 1, 1],
          [0, 1, 1],
          [2, 0, 4],
        ] as const) {
          const expected = Float64Array.from(
            x,
            (value, c) => value / (k + (alpha / size) * (sums[c] as number)) ** beta,
          );
          const layout = by('localResponseNorm', [1, 4], 1);
          const y = yOf(run(layout, dtype, x, { size, alpha, beta, k }));
          expectNear(
            { ...what(layout, dtype), data: `${dtype} size ${size}, beta ${beta}` },
            y,
            expected,
            promised[dtype],
            sizes(expected),
          );
        }
      }
    },
  );

  test.each(dtypes)('the last axis is the default, and axis 1 of channels: %s', (dtype) => {
    const { x, options } = ofType(dtype, draw(24, 5));
    for (const op of ops) {
      const given = { ...required[op], shape: [2, 4, 3], ...options };
      const isOver = (overAxes as readonly Op[]).includes(op);
      const { y, mean } = results(sn, op, x, given);
      const same = isOver
        ? [{ axes: -1 }, { axes: [2] }, { axes: 2 }, { axes: null }]
        : [{ axis: 1 }, { axis: -2 }, { axis: null }];
      for (const place of same) {
        const again = results(sn, op, x, { ...given, ...place });
        expectBits(
          { op, shape: [2, 4, 3] },
          numbersOf((again.y ?? again.mean) as Floats),
          numbersOf((y ?? mean) as Floats),
        );
      }
    }
  });

  test.each(dtypes)('results have the dtype of x, statistics float32 or, for float64, float64: %s', (dtype) => {
    const { x, options } = ofType(dtype, draw(12, 1));
    const statistic = dtype === 'float64' ? Float64Array : Float32Array;
    for (const op of ops) {
      const { y, ...rest } = results(sn, op, x, { ...required[op], shape: shapes[op], ...options });
      if (op !== 'moments') expect(y?.constructor).toBe(x.constructor);
      for (const name of ['mean', 'variance', 'invStd'] as const) {
        if (rest[name]) expect(rest[name]?.constructor).toBe(statistic);
      }
      const out = x.slice();
      if (op !== 'moments')
        expect(results(sn, op, x, { ...required[op], shape: shapes[op], ...options, out }).y).toBe(out);
    }
    expect(Object.keys(results(sn, 'moments', x, options)).sort()).toEqual(['count', 'mean', 'variance']);
  });

  test.each(dtypes)('the sum of x and residual is rounded to the dtype, and that is normalized: %s', (dtype) => {
    const { x, options } = ofType(dtype, [1, 1, 2, 4]);
    const lost = { float32: 2 ** -25, float64: 2 ** -54, float16: 2 ** -12 }[dtype];
    const residual = ofType(dtype, [lost, 0, 1, -1]).x;
    const residualOut = ofType(dtype, [0, 0, 0, 0]).x;
    const given = { shape: [2, 2], residual, residualOut, ...options };
    // The first row's sums are equal, and the second's.
    expect([...yOf(results(sn, 'layerNorm', x, { ...given, epsilon: 0 }))]).toEqual([NaN, NaN, NaN, NaN]);
    expect([...numbersOf(residualOut)]).toEqual([1, 1, 3, 3]);
    expect([...yOf(results(sn, 'rmsNorm', x, { ...given, epsilon: 0 }))]).toEqual([1, 1, 1, 1]);
    expect([...numbersOf(x), ...numbersOf(residual)]).toEqual([1, 1, 2, 4, lost, 0, 1, -1]);
  });
});

describe('lengths', () => {
  test.each(dtypes)('values past them join nothing and come out as 0, an empty item is no error: %s', (dtype) => {
    const layout = over('layerNorm', [2, 4], [1]);
    const x = [1, 3, NaN, Infinity, NaN, 1, 2, 3];
    const lengths = [2, 0];
    const { y, mean, invStd } = run(layout, dtype, x, { lengths, epsilon: 0, bias: [5, 6, 7, 8] });
    expectBits(what(layout, dtype), numbersOf(y as Floats), [4, 7, 0, 0, 0, 0, 0, 0]);
    expect([...(mean as Float32Array)]).toEqual([2, NaN]);
    expect([...(invStd as Float32Array)]).toEqual([1, NaN]);
    const root = run(over('rmsNorm', [2, 4], [1]), dtype, x, { lengths: Int32Array.from(lengths), epsilon: 0 });
    const size = Math.sqrt(5);
    expectNear(
      what(layout, dtype),
      yOf(root),
      [1 / size, 3 / size, 0, 0, 0, 0, 0, 0],
      promised[dtype],
      new Float64Array(8).fill(3),
    );
    expect(root.invStd?.[1]).toBeNaN();
  });

  test.each(dtypes)('batch norm in training counts the valid values: %s', (dtype) => {
    const x = [1, 3, 5, NaN];
    const layout = by('batchNormTraining', [2, 2, 1], 2);
    const { y, mean, variance, count } = run(layout, dtype, x, { lengths: [2, 1], epsilon: 0, bias: [7] });
    const root = Math.sqrt(1.5);
    expectNear(what(layout, dtype), numbersOf(y as Floats), [7 - root, 7, 7 + root, 0], promised[dtype], [9, 9, 9, 0]);
    expect([mean?.[0], count]).toEqual([3, 3]);
    expectNear(what(layout, dtype, 'variance'), variance as Float32Array, [8 / 3], epsilonOf[dtype]);
    const items = run(by('batchNormTraining', [2, 3], 0), dtype, [1, 3, NaN, 2, 4, 9], { lengths: [2, 3] });
    expect(items.count).toEqual(Int32Array.of(2, 3));
    expect([...(items.mean as Float32Array)]).toEqual([2, 5]);
  });

  test.each(dtypes)('moments have one count for each group, or one for all: %s', (dtype) => {
    const x = [1, 3, NaN, 5, NaN, NaN];
    const at = (axes: readonly number[]) => run(over('moments', [2, 3], axes), dtype, x, { lengths: [2, 1] });
    expect(at([1])).toMatchObject({ count: Int32Array.of(2, 1) });
    expect([...(at([1]).mean as Float32Array)]).toEqual([2, 5]);
    expect(at([0, 1]).count).toBe(3);
    expect([...(at([1, 0]).mean as Float32Array)]).toEqual([3]);
    expect(at([0]).count).toEqual(Int32Array.of(2, 1, 0));
    expect([...(at([0]).mean as Float32Array)]).toEqual([3, 3, NaN]);
    expect([...(at([0]).variance as Float32Array)]).toEqual([4, 0, NaN]);
  });

  test.each(ragged)('lengths of all do not change %s', (op) => {
    const a = arrays();
    const shape = [2, 3, 2];
    const given = op === 'batchNormTraining' ? { shape, axis: 2 } : { shape, axes: 2 };
    const plain = results(sn, op, a.x, given);
    const full = results(sn, op, a.x, { ...given, lengths: [3, 3] });
    for (const name of ['y', 'mean', 'variance', 'invStd'] as const) {
      const expected = plain[name] as Float32Array | undefined;
      if (expected)
        expectNear(
          { op, shape, output: name },
          full[name] as Float32Array,
          expected,
          2 * promise,
          expected.map((value) => Math.max(1, Math.abs(value))),
        );
    }
    expect(results(sn, op, a.x, { ...given, lengths: null })).toEqual(plain);
  });
});

describe('arrays that are parts of others', () => {
  type AnyArray = Floats | Int32Array;

  /** The same values some places into a buffer that is full of something else. */
  function placed<T extends AnyArray>(values: T, offset: number): { values: T; intact: () => boolean } {
    const Kind = values.constructor as { new (length: number): T };
    const memory = new Kind(values.length + offset + 5).fill(77) as T;
    memory.set(values, offset);
    const end = offset + values.length;
    return {
      values: memory.subarray(offset, end) as T,
      intact: () => memory.every((value, i) => (i >= offset && i < end) || value === 77),
    };
  }

  /** All that an operation takes, in a dtype. */
  function complete(op: Op, dtype: DType, a: Arrays): { x: Floats; options: Options } {
    const { x, options } = ofType(dtype, a.x);
    const given: Options = { ...valid[op](a), ...options };
    for (const name of ['residual', 'out', 'residualOut']) {
      if (given[name]) given[name] = ofType(dtype, given[name] as Float32Array).x;
    }
    for (const name of ['meanOut', 'varianceOut', 'invStdOut']) {
      if (given[name] && dtype === 'float64') given[name] = Float64Array.from(given[name] as Float32Array);
    }
    return { x, options: given };
  }

  for (const dtype of dtypes) {
    test.each(ops)(`%s of ${dtype} honours the byteOffset of everything`, (op) => {
      const expected = complete(op, dtype, arrays());
      const { count } = results(sn, op, expected.x, expected.options);
      for (const offset of [1, 2, 3]) {
        const given = complete(op, dtype, arrays());
        const x = placed(given.x, offset);
        const others: [string, { values: AnyArray; intact: () => boolean }][] = [];
        Object.entries(given.options).forEach(([name, values], i) => {
          // Each somewhere else relative to 16 bytes.
          if (ArrayBuffer.isView(values)) others.push([name, placed(values as AnyArray, (offset + i) % 4)]);
        });
        const parts = Object.fromEntries(others.map(([name, { values }]) => [name, values]));
        const got = results(sn, op, x.values, { ...given.options, ...parts });
        expect(got.count).toEqual(count);
        for (const name of Object.keys(written[op])) {
          expectBits(
            { op, shape: shapes[op], output: name, data: dtype },
            parts[name] as Floats,
            expected.options[name] as Floats,
          );
        }
        for (const [name, { values, intact }] of others) {
          expect([name, intact()]).toEqual([name, true]);
          if (!(name in written[op])) expect(values).toEqual(given.options[name]);
        }
        expect(x.intact()).toBe(true);
        expectBits({ op, shape: shapes[op], output: 'x', data: dtype }, x.values, given.x);
      }
    });

    const several = ops.filter((op) => vectors[op].length > 1);
    test.each(several)(`one array for all parameters of %s in ${dtype} gives what copies give`, (op) => {
      const { x, options } = ofType(dtype, draw(12, 1));
      const same = Float32Array.from(draw(4, 9), (value) => Math.abs(value) + 0.5);
      const untouched = same.slice();
      const given = { ...required[op], shape: shapes[op], ...options };
      const aliased = Object.fromEntries(vectors[op].map((name) => [name, same]));
      const copied = Object.fromEntries(vectors[op].map((name) => [name, Array.from(same)]));
      const expected = yOf(results(sn, op, x, { ...given, ...copied }));
      expectBits({ op, shape: shapes[op], data: dtype }, yOf(results(sn, op, x, { ...given, ...aliased })), expected);
      expectBits({ op, shape: shapes[op], output: 'the parameters' }, same, untouched);
    });

    test.each(['layerNorm', 'rmsNorm'] as const)(`x as its own residual of %s in ${dtype} is 2 x`, (op) => {
      const { x, options } = ofType(dtype, draw(12, 1));
      const { x: doubled } = ofType(
        dtype,
        numbersOf(x).map((value) => 2 * value),
      );
      const given = { shape: [3, 4], ...options };
      const expected = yOf(results(sn, op, doubled, given));
      expectBits({ op, shape: [3, 4], data: dtype }, yOf(results(sn, op, x, { ...given, residual: x })), expected);
      // It may receive the sum as well.
      const y = yOf(results(sn, op, x, { ...given, residual: x, residualOut: x }));
      expectBits({ op, shape: [3, 4], data: dtype }, y, expected);
      expectBits({ op, shape: [3, 4], output: 'residualOut', data: dtype }, x, doubled);
    });
  }

  test('parts of x are parameters', () => {
    for (const op of ops.filter((each) => vectors[each].length > 0)) {
      // Positive, for the variance.
      const x = draw(12, 1).map(Math.abs);
      const given = { ...required[op], shape: shapes[op] };
      const parts = Object.fromEntries(vectors[op].map((name, i) => [name, x.subarray(i, i + 4)]));
      const copies = Object.fromEntries(vectors[op].map((name, i) => [name, x.slice(i, i + 4)]));
      const expected = yOf(results(sn, op, x, { ...given, ...copies }));
      expectBits({ op, shape: shapes[op] }, yOf(results(sn, op, x, { ...given, ...parts })), expected);
    }
  });
});
