import { type ErrorCode, load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { canary, draw, drawScale, drawVariance, product } from './data.ts';
import { fromBits, narrow, toBits, widen } from './float16-conversion.ts';
import { type Case, expectBits } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

/** Newer than the types of the ES2023 library, for which it is Float32Array's like. */
const Float16 = (globalThis as { Float16Array?: Float32ArrayConstructor }).Float16Array;
const skipped = Float16 ? '' : ' (skipped: this engine has no Float16Array)';

const everyPattern = Uint16Array.from({ length: 65536 }, (_, bits) => bits);
const isNumber = (bits: number) => !Number.isNaN(fromBits(bits));

/** Equal bits; a NaN is a NaN, whatever its bits. */
function expectPatterns(what: Case, got: Uint16Array, expected: ArrayLike<number>): void {
  expect(got).toBeInstanceOf(Uint16Array);
  expectBits(what, widen(got), widen(expected));
}

describe('the oracle', () => {
  test('knows values by their bits', () => {
    const known: [number, number][] = [
      [0x0000, 0],
      [0x0001, 2 ** -24],
      [0x03ff, 1023 * 2 ** -24],
      [0x0400, 2 ** -14],
      [0x3555, 0.333251953125],
      [0x3bff, 0.99951171875],
      [0x3c00, 1],
      [0x3c01, 1.0009765625],
      [0x4248, 3.140625],
      [0x7bff, 65504],
      [0x7c00, Infinity],
      [0x7c01, NaN],
      [0x7e00, NaN],
      [0x8000, -0],
      [0xc000, -2],
      [0xfbff, -65504],
      [0xfc00, -Infinity],
      [0xffff, NaN],
    ];
    const what = { op: 'fromBits', shape: [known.length] };
    expectBits(
      what,
      known.map(([bits]) => fromBits(bits)),
      known.map(([, value]) => value),
    );
  });

  test('gives every number its own bits back', () => {
    const numbers = everyPattern.filter(isNumber);
    expect(numbers).toHaveLength(65536 - 2 * 1023);
    expect(numbers.map((bits) => toBits(fromBits(bits)))).toEqual(numbers);
    expect(isNumber(toBits(NaN))).toBe(false);
  });

  test('has one NaN, in whatever row it is made', () => {
    const rows = 9;
    const bits = new Uint16Array(5 * rows).map((_, i) => (i % 5 === 0 ? 0xfe00 : 0x3c00 + i));
    const options = { shape: [rows, 5], dtype: 'float16', scale: new Float32Array(5).fill(1) } as const;
    const all = new Uint16Array(bits.length).fill(0x7e00);
    expect(sn.rmsNorm(bits, options)).toEqual(all);
    expect(sn.layerNorm(bits, { ...options, bias: new Float32Array(5) })).toEqual(all);
  });

  test('rounds to the nearest, and of two to the even one, between any two neighbours', () => {
    for (let bits = 0; bits < 0x7c00; ++bits) {
      const [below, above] = [fromBits(bits), bits === 0x7bff ? 65536 : fromBits(bits + 1)];
      const tie = (below + above) / 2;
      const even = bits % 2 === 0 ? bits : bits + 1;
      const quarter = (above - below) / 4;
      const got = [tie * (1 - 2 ** -40), tie, tie * (1 + 2 ** -40), tie - quarter, -tie].map(toBits);
      expect({ bits, got }).toEqual({ bits, got: [bits, even, bits + 1, bits, even | 0x8000] });
    }
    expect([65520 - 2 ** -30, 65520, 1e300, -1e300, 2 ** -25, 2 ** -25 * 1.0001, 1e-300].map(toBits)).toEqual([
      0x7bff, 0x7c00, 0x7c00, 0xfc00, 0, 1, 0,
    ]);
  });

  test.skipIf(!Float16)(`agrees with the engine${skipped}`, () => {
    const kind = Float16 as Float32ArrayConstructor;
    const values = draw(20_000, 1, 0, 1).map((value, i) => value * 2 ** ((i % 44) - 26));
    expectBits({ op: 'Float16Array', shape: [20_000] }, Float32Array.from(kind.from(values)), widen(narrow(values)));
    expectBits({ op: 'Float16Array', shape: [65536] }, new kind(everyPattern.buffer), widen(everyPattern));
  });
});

describe('every pattern', () => {
  const op = 'batchNorm';
  const dtype = 'float16';

  test('comes through an identity as it was, by either layout', () => {
    const before = everyPattern.slice();
    for (const [shape, axis] of [
      [[65536], 0],
      [[1, 65536], 0],
      [[256, 256], 1],
      [[16, 16, 256], 1],
    ] as const) {
      const channels = shape[axis] as number;
      const statistics = { mean: new Float32Array(channels), variance: new Float32Array(channels).fill(1) };
      const y = sn.batchNorm(everyPattern, { shape, axis, dtype, ...statistics, epsilon: 0 });
      expectPatterns({ op, shape }, y, everyPattern);
      expect(everyPattern).toEqual(before);
    }
  });

  test('is halved, doubled and negated as numbers are', () => {
    for (const factor of [0.5, 2, -1, 1 / 3, 2 ** -10, 1000.1]) {
      const options = { shape: [1, 65536], axis: 0, dtype, mean: [0], variance: [1], epsilon: 0 } as const;
      const y = sn.batchNorm(everyPattern, { ...options, scale: [factor] });
      const expected = Array.from(everyPattern, (bits) => toBits(Math.fround(fromBits(bits) * Math.fround(factor))));
      expectPatterns({ op, shape: [65536], data: `times ${factor}` }, y, expected);
    }
  });
});

describe('rounding', () => {
  const op = 'batchNorm';

  /** What becomes of 1 by scales that are no float16. */
  function rounded(values: ArrayLike<number>): Uint16Array {
    const channels = values.length;
    const x = new Uint16Array(channels).fill(0x3c00);
    const statistics = { mean: new Float32Array(channels), variance: new Float32Array(channels).fill(1) };
    const scale = Float64Array.from(values);
    return sn.batchNorm(x, { shape: [1, channels], dtype: 'float16', ...statistics, scale, epsilon: 0 });
  }

  test('goes to the nearest, and of two to the even one, between any two neighbours', () => {
    const finite = everyPattern.subarray(0, 0x7c00);
    const above = (bits: number) => (bits === 0x7bff ? 65536 : fromBits(bits + 1));
    const ties = Float32Array.from(finite, (bits) => (fromBits(bits) + above(bits)) / 2);
    const words = new Int32Array(ties.buffer);
    const next = (by: number) => new Float32Array(Int32Array.from(words, (word) => word + by).buffer);
    const quarters = Float32Array.from(finite, (bits) => (3 * fromBits(bits) + above(bits)) / 4);
    for (const [data, values] of Object.entries({ ties, below: next(-1), beyond: next(1), quarters })) {
      const expected = narrow(values);
      expectPatterns({ op, shape: [values.length], data }, rounded(values), expected);
      const negative = expected.map((bits) => bits | 0x8000);
      expectPatterns({ op, shape: [values.length], data: `- ${data}` }, rounded(values.map((each) => -each)), negative);
    }
    // By hand, so that a mistake of the oracle's would be seen.
    expect([...rounded([1 + 2 ** -11, 1 + 3 * 2 ** -11, 2048.5, 2049, 2051])]).toEqual([
      0x3c00, 0x3c02, 0x6800, 0x6800, 0x6802,
    ]);
  });

  test('goes to infinity from 65520 on', () => {
    const below = 65520 - 2 ** -8;
    expect([...rounded([65504, 65519, below, 65520, 65536, 1e30, -below, -65520, Infinity])]).toEqual([
      0x7bff, 0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00, 0xfbff, 0xfc00, 0x7c00,
    ]);
  });

  test('goes to subnormal numbers, and to a signed 0 below half of the smallest', () => {
    const smallest = 2 ** -24;
    const values = [1023, 1023.5, 1024, 1, 1.5, 2.5, 0.5, 0.5 + 2 ** -20, 0.25].map((each) => each * smallest);
    const expected = [0x3ff, 0x400, 0x400, 1, 2, 2, 0, 1, 0];
    expect([...rounded(values)]).toEqual(expected);
    expect([...rounded(values.map((value) => -value))]).toEqual(expected.map((bits) => bits | 0x8000));
    expect([...rounded([1e-30, -1e-30, 1e-44, -1e-44, 0, -0])]).toEqual([0, 0x8000, 0, 0x8000, 0, 0x8000]);
  });

  test('happens once: what float32 has rounded to a tie is a tie', () => {
    // Their float32 is 1 + 2^-11, half way between two float16s.
    expect([...rounded([1 + 2 ** -11 + 2 ** -40, 1 + 2 ** -11 - 2 ** -40])]).toEqual([0x3c00, 0x3c00]);
  });

  test('intermediate results have no float16 range: squares of 60000 and of 1e-7', () => {
    const large = narrow([60000, -60000, 60000, -60000]);
    expect([...sn.layerNorm(large, { dtype: 'float16' })]).toEqual([0x3c00, 0xbc00, 0x3c00, 0xbc00]);
    expect([...sn.rmsNorm(large, { dtype: 'float16' })]).toEqual([0x3c00, 0xbc00, 0x3c00, 0xbc00]);
    const smallest = Uint16Array.of(1, 0x8001, 1, 0x8001);
    expect([...sn.layerNorm(smallest, { dtype: 'float16', epsilon: 0 })]).toEqual([0x3c00, 0xbc00, 0x3c00, 0xbc00]);
    expect([...sn.lpNormalize(smallest, { dtype: 'float16' })]).toEqual([0x3800, 0xb800, 0x3800, 0xb800]);
    const { mean, variance } = sn.moments(narrow([65504, -65504, 65504, -65504]), { dtype: 'float16' });
    expect([mean, variance]).toEqual([Float32Array.of(0), Float32Array.of(65504 ** 2)]);
  });
});

type Halves = Uint16Array | Float32Array;
/** y and everything else that a call returns or writes. */
type Results = Record<string, unknown>;

interface Operation {
  readonly op: string;
  readonly shape: number[];
  /** The rest of the options, for the title. */
  readonly data: string;
  readonly run: (x: Halves, given: { dtype?: 'float16'; shape: number[]; out?: Halves }) => Results;
}

const operations: Operation[] = [];

function add(op: string, shape: number[], data: object, run: Operation['run']): void {
  const title = Object.entries(data).map(([name, value]) => `${name} ${Array.isArray(value) ? `[${value}]` : value}`);
  operations.push({ op, shape, data: title.join(', '), run });
}

for (const { shape, axes } of [
  { shape: [67], axes: [0] },
  { shape: [5, 1], axes: [1] },
  { shape: [1000, 3], axes: [1] },
  { shape: [4, 37], axes: [1] },
  { shape: [2, 1025], axes: [1] },
  { shape: [1, 5000], axes: [1] },
  { shape: [70, 33], axes: [0] },
  { shape: [4, 9, 5], axes: [1] },
  { shape: [3, 4, 65], axes: [1, 2] },
  { shape: [3, 4, 5], axes: [0, 2] },
  { shape: [2, 3, 4, 5], axes: [3, 1] },
  { shape: [2, 3, 4, 5], axes: [2, 0] },
  { shape: [6, 7], axes: [] },
]) {
  const units = product(axes.map((axis) => shape[axis] as number));
  const groups = product(shape) / units;
  const scale = drawScale(units, 2);
  const bias = draw(units, 3);
  for (const parameters of [{}, { scale, bias }]) {
    const data = { axes, ...Object.fromEntries(Object.keys(parameters).map((name) => [name, units])) };
    add('layerNorm', shape, data, (x, given) => {
      const [meanOut, invStdOut] = [new Float32Array(groups), new Float32Array(groups)];
      const y = sn.layerNorm(x, { ...given, axes, ...parameters, meanOut, invStdOut });
      return { y, meanOut, invStdOut };
    });
    const { bias: _, ...scaleAlone } = { bias: undefined, ...parameters };
    add('rmsNorm', shape, data, (x, given) => {
      const invStdOut = new Float32Array(groups);
      return { y: sn.rmsNorm(x, { ...given, axes, ...scaleAlone, invStdOut }), invStdOut };
    });
  }
  for (const p of [1, 2, Infinity]) {
    add('lpNormalize', shape, { axes, p }, (x, given) => ({ y: sn.lpNormalize(x, { ...given, axes, p }) }));
  }
  add('moments', shape, { axes }, (x, { out: _, ...given }) => ({ ...sn.moments(x, { ...given, axes }) }));
  if (shape.length === 1) continue;
  const [items, steps] = shape as [number, number];
  const lengths = Array.from({ length: items }, (_, item) => [steps, 0, Math.ceil(steps / 2)][item % 3] as number);
  add('layerNorm', shape, { axes, lengths: 'mixed' }, (x, given) => {
    const invStdOut = new Float32Array(groups);
    const y = sn.layerNorm(x, { ...given, axes, lengths, scale, bias, invStdOut });
    return { y, invStdOut };
  });
  add('rmsNorm', shape, { axes, lengths: 'mixed' }, (x, given) => ({
    y: sn.rmsNorm(x, { ...given, axes, lengths, scale }),
  }));
  add('moments', shape, { axes, lengths: 'mixed' }, (x, { out: _, ...given }) => ({
    ...sn.moments(x, { ...given, axes, lengths }),
  }));
}

for (const { shape, axis } of [
  { shape: [1000, 3], axis: 1 },
  { shape: [3, 1001], axis: 0 },
  { shape: [64, 33], axis: 1 },
  { shape: [4, 1], axis: 1 },
  { shape: [2, 6, 4, 5], axis: 1 },
  { shape: [2, 4, 5, 6], axis: 3 },
  { shape: [2, 4, 6, 5], axis: 2 },
  { shape: [2, 6, 17, 17], axis: 1 },
]) {
  const channels = shape[axis] as number;
  const affine = { scale: drawScale(channels, 2), bias: draw(channels, 3) };
  const statistics = { mean: draw(channels, 4), variance: drawVariance(channels, 5) };
  for (const parameters of [{}, affine]) {
    const data = { axis, ...Object.fromEntries(Object.keys(parameters).map((name) => [name, channels])) };
    add('batchNorm', shape, data, (x, given) => ({
      y: sn.batchNorm(x, { ...given, axis, ...parameters, ...statistics }),
    }));
    add('batchNormTraining', shape, data, (x, given) => ({
      ...sn.batchNormTraining(x, { ...given, axis, ...parameters }),
    }));
    if (axis === 0) continue;
    const save = (groups: number) => ({ meanOut: new Float32Array(groups), invStdOut: new Float32Array(groups) });
    add('instanceNorm', shape, data, (x, given) => {
      const saved = save((shape[0] as number) * channels);
      return { y: sn.instanceNorm(x, { ...given, axis, ...parameters, ...saved }), ...saved };
    });
    for (const groups of [1, channels === 6 ? 2 : channels]) {
      add('groupNorm', shape, { ...data, groups }, (x, given) => {
        const saved = save((shape[0] as number) * groups);
        return { y: sn.groupNorm(x, { ...given, axis, groups, ...parameters, ...saved }), ...saved };
      });
    }
  }
  for (const size of [1, 2, 5]) {
    const options = { axis, size, alpha: 0.5, beta: 0.75, k: 2 };
    add('localResponseNorm', shape, { axis, size }, (x, given) => ({
      y: sn.localResponseNorm(x, { ...given, ...options }),
    }));
  }
}

describe('operations', () => {
  /** What the same operation gives for the widened values, with y rounded once. */
  function expectRoundedFloat32({ op, shape, data, run }: Operation, x: Uint16Array): void {
    const before = x.slice();
    const got = run(x, { dtype: 'float16', shape });
    const { y, ...expected } = run(widen(x), { shape });
    const what = { op, shape, data };
    if (y) expectPatterns(what, got.y as Uint16Array, narrow(y as Float32Array));
    const { y: _, ...others } = got;
    for (const [name, value] of Object.entries(others)) {
      if (typeof value === 'object' && name !== 'count') expect(value).toBeInstanceOf(Float32Array);
    }
    expect({ ...what, ...others }).toEqual({ ...what, ...expected });
    expectPatterns({ ...what, output: 'x' }, x, before);
    if (!y) return;
    const out = new Uint16Array(x.length).fill(0x1234);
    expect(run(x, { dtype: 'float16', shape, out }).y).toBe(out);
    expectPatterns({ ...what, data: `${data}, with out` }, out, got.y as Uint16Array);
    const inPlace = x.slice();
    expect(run(inPlace, { dtype: 'float16', shape, out: inPlace }).y).toBe(inPlace);
    expectPatterns({ ...what, data: `${data}, in place` }, inPlace, got.y as Uint16Array);
  }

  test.each(operations)('$op $shape $data is float32, rounded once', (operation) => {
    const size = product(operation.shape);
    expectRoundedFloat32(operation, narrow(draw(size, 1, 0.4, 3)));
    // Far from 0, where float16 has few values; subnormal ones; and large ones.
    expectRoundedFloat32(operation, narrow(draw(size, 2, 1000, 2)));
    expectRoundedFloat32(operation, narrow(draw(size, 3, 0, 2e-7)));
    expectRoundedFloat32(operation, narrow(draw(size, 4, 0, 15000)));
  });

  test.each(operations)('$op $shape $data of values that are not all finite', (operation) => {
    const x = narrow(draw(product(operation.shape), 1));
    const at = Math.floor(x.length / 2);
    for (const bad of [0x7e00, 0x7c00, 0xfc00, 0x7c01]) expectRoundedFloat32(operation, x.with(at, bad));
  });

  test('all of them are here', () => {
    const named = new Set(operations.map(({ op }) => op));
    expect([...named].sort()).toEqual([
      'batchNorm',
      'batchNormTraining',
      'groupNorm',
      'instanceNorm',
      'layerNorm',
      'localResponseNorm',
      'lpNormalize',
      'moments',
      'rmsNorm',
    ]);
  });

  test('every length from 1 to 140, at every offset', () => {
    const memory = narrow(draw(600, 1));
    for (let units = 1; units <= 140; ++units) {
      for (const offset of [0, 1, 2, 3, 5, 7]) {
        const buffer = memory.slice();
        const x = buffer.subarray(offset, offset + 2 * units);
        const out = buffer.subarray(300 + offset, 300 + offset + 2 * units);
        const shape = [2, units];
        const what = { op: 'layerNorm', shape, data: `offset ${offset}` };
        expect(sn.layerNorm(x, { shape, dtype: 'float16', out })).toBe(out);
        const expected = memory.slice();
        expected.set(narrow(sn.layerNorm(widen(x), { shape })), 300 + offset);
        expectPatterns(what, buffer, expected);
      }
    }
  });

  test('x in shared memory', () => {
    const values = narrow(draw(50, 1));
    const x = new Uint16Array(new SharedArrayBuffer(100));
    x.set(values);
    const y = sn.layerNorm(x, { dtype: 'float16', shape: [2, 25] });
    expectPatterns({ op: 'layerNorm', shape: [2, 25] }, y, sn.layerNorm(values, { dtype: 'float16', shape: [2, 25] }));
    expect(y.buffer).toBeInstanceOf(ArrayBuffer);
  });
});

describe('parameters', () => {
  const shape = [5, 11];
  const dtype = 'float16';
  const x = narrow(draw(55, 1));
  const bits = { scale: narrow(drawScale(11, 2)), bias: narrow(draw(11, 3)) };
  const statistics = { mean: narrow(draw(11, 4)), variance: narrow(drawVariance(11, 5)) };

  test('are bits, floats, doubles or numbers, with one result', () => {
    const kinds: Record<string, (bits: Uint16Array) => Uint16Array | Float32Array | Float64Array | number[]> = {
      Uint16Array: (values) => values,
      Float32Array: widen,
      Float64Array: (values) => Float64Array.from(widen(values)),
      'number[]': (values) => [...widen(values)],
    };
    const expected = {
      layerNorm: narrow(sn.layerNorm(widen(x), { shape, scale: widen(bits.scale), bias: widen(bits.bias) })),
      batchNorm: narrow(
        sn.batchNorm(widen(x), {
          shape,
          scale: widen(bits.scale),
          bias: widen(bits.bias),
          mean: widen(statistics.mean),
          variance: widen(statistics.variance),
        }),
      ),
    };
    for (const [scaleKind, makeScale] of Object.entries(kinds)) {
      for (const [biasKind, makeBias] of Object.entries(kinds)) {
        const what = { shape, data: `scale ${scaleKind}, bias ${biasKind}` };
        const parameters = { scale: makeScale(bits.scale), bias: makeBias(bits.bias) };
        const y = sn.layerNorm(x, { shape, dtype, ...parameters });
        expectPatterns({ op: 'layerNorm', ...what }, y, expected.layerNorm);
        const given = { mean: makeBias(statistics.mean), variance: makeScale(statistics.variance) };
        const inferred = sn.batchNorm(x, { shape, dtype, ...parameters, ...given });
        expectPatterns({ op: 'batchNorm', ...what }, inferred, expected.batchNorm);
      }
    }
    expect(expected.layerNorm).not.toEqual(sn.layerNorm(x, { shape, dtype }));
  });

  test('are as precise as float32, not as float16', () => {
    const thirds = Float32Array.from({ length: 11 }, (_, i) => (i + 1) / 3);
    const y = sn.layerNorm(x, { shape, dtype, scale: thirds, bias: thirds });
    const what = { op: 'layerNorm', shape };
    expectPatterns(what, y, narrow(sn.layerNorm(widen(x), { shape, scale: thirds, bias: thirds })));
    const coarse = widen(narrow(thirds));
    expect(y).not.toEqual(sn.layerNorm(x, { shape, dtype, scale: coarse, bias: coarse }));
    const doubles = Array.from({ length: 11 }, (_, i) => (i + 1) / 3);
    expectPatterns(what, sn.layerNorm(x, { shape, dtype, scale: doubles, bias: Float64Array.from(doubles) }), y);
  });

  test('outside of float16: a scale of 1e-6 and a variance of 1e10', () => {
    const options = { shape: [1, 3], mean: [1e5, 1e5, 1e5], variance: [1e10, 1e10, 1e10], scale: [1e-6, 1, 1e4] };
    const values = narrow([1000, 2000, 3000]);
    const y = sn.batchNorm(values, { ...options, dtype });
    expectPatterns({ op: 'batchNorm', shape: [1, 3] }, y, narrow(sn.batchNorm(widen(values), options)));
    expect(fromBits(y[0] as number)).toBeCloseTo(-1e-6, 7);
  });

  test('subnormal and infinite bits mean what they say', () => {
    const options = { shape: [1, 3], dtype, mean: [0, 0, 0], variance: [1, 1, 1], epsilon: 0 } as const;
    const y = sn.batchNorm(narrow([1, 2, 0]), { ...options, scale: Uint16Array.of(1, 0x7c00, 0x7c00) });
    expectPatterns({ op: 'batchNorm', shape: [1, 3] }, y, [1, 0x7c00, 0x7e00]);
  });
});

describe('errors', () => {
  const shape = [3, 4];
  const x = narrow(draw(12, 1));
  const floats = widen(x);
  const statistics = { mean: [0, 0, 0, 0], variance: [1, 1, 1, 1] };
  const methods: Record<string, (x: unknown, o: object) => unknown> = {
    layerNorm: (x, o) => sn.layerNorm(x as Uint16Array, { shape, ...o }),
    rmsNorm: (x, o) => sn.rmsNorm(x as Uint16Array, { shape, ...o }),
    instanceNorm: (x, o) => sn.instanceNorm(x as Uint16Array, { shape, ...o }),
    groupNorm: (x, o) => sn.groupNorm(x as Uint16Array, { shape, groups: 2, ...o }),
    batchNorm: (x, o) => sn.batchNorm(x as Uint16Array, { shape, ...statistics, ...o }),
    batchNormTraining: (x, o) => sn.batchNormTraining(x as Uint16Array, { shape, ...o }),
    lpNormalize: (x, o) => sn.lpNormalize(x as Uint16Array, { shape, ...o }),
    localResponseNorm: (x, o) => sn.localResponseNorm(x as Uint16Array, { shape, size: 3, ...o }),
    moments: (x, o) => sn.moments(x as Uint16Array, { shape, ...o }),
  };
  const names = Object.keys(methods);

  function expectError(op: string, code: ErrorCode, x: unknown, o: object, ...says: string[]): void {
    let failure: unknown;
    try {
      methods[op]?.(x, o);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    const { message, ...rest } = failure as NormError;
    expect({ code: rest.code, op: rest.op, message }).toEqual({ code, op, message });
    expect(message.startsWith(`${op}: `)).toBe(true);
    for (const part of says) expect(message).toContain(part);
  }

  test.each(names)('%s needs to be told what the bits of a Uint16Array are', (op) => {
    for (const o of [{}, { dtype: undefined }, { dtype: null }]) {
      expectError(op, 'ERR_TYPE', x, o, 'Uint16Array', "dtype: 'float16'");
    }
  });

  test.each(names)("%s takes dtype 'float16', for Uint16Arrays, and no other", (op) => {
    for (const values of [floats, Float64Array.from(floats)]) {
      expectError(op, 'ERR_TYPE', values, { dtype: 'float16' }, 'dtype');
      for (const dtype of ['float32', 'float64']) expectError(op, 'ERR_TYPE', values, { dtype }, 'dtype', dtype);
    }
    for (const dtype of ['float64', 'float32', 'bfloat16', 'Float16', 'half', '', 16, true, ['float16'], {}]) {
      expectError(op, 'ERR_TYPE', x, { dtype }, 'dtype');
    }
    const strangers = [new Int16Array(12), new Uint8Array(24), new Uint32Array(12), new Uint8ClampedArray(12), [...x]];
    for (const values of strangers) expectError(op, 'ERR_TYPE', values, { dtype: 'float16' }, 'x');
  });

  test.each(names)('%s: a dtype that is undefined or null is absent', (op) => {
    const expected = methods[op]?.(floats, {});
    for (const dtype of [undefined, null]) expect(methods[op]?.(floats, { dtype })).toEqual(expected);
  });

  test.each(names.filter((op) => op !== 'moments'))('%s takes no out of another type or length', (op) => {
    const dtype = 'float16';
    for (const out of [new Float32Array(12), new Float64Array(12), new Int16Array(12), new Uint8Array(24), [...x]]) {
      expectError(op, 'ERR_TYPE', x, { dtype, out }, 'out');
    }
    for (const length of [0, 11, 13, 24]) {
      expectError(op, 'ERR_SHAPE', x, { dtype, out: new Uint16Array(length) }, 'out', String(length), '12');
    }
    const before = x.slice();
    const memory = new Uint16Array(30).fill(7);
    memory.set(x, 3);
    const kept = memory.slice();
    for (const begin of [0, 2, 4, 14]) {
      const out = memory.subarray(begin, begin + 12);
      expectError(op, 'ERR_OVERLAP', memory.subarray(3, 15), { dtype, out }, 'out');
    }
    expect([memory, x]).toEqual([kept, before]);
    for (const out of [new Uint16Array(12), new Int16Array(12), new Float64Array(12)]) {
      expectError(op, 'ERR_TYPE', floats, { out }, 'out');
    }
  });

  test('statistics are written to Float32Arrays only', () => {
    const dtype = 'float16';
    for (const [op, length, outs] of [
      ['layerNorm', 3, ['meanOut', 'invStdOut']],
      ['rmsNorm', 3, ['invStdOut']],
      ['instanceNorm', 12, ['meanOut', 'invStdOut']],
      ['groupNorm', 6, ['meanOut', 'invStdOut']],
      ['batchNormTraining', 4, ['meanOut', 'varianceOut', 'invStdOut']],
    ] as const) {
      for (const name of outs) {
        for (const wrong of [new Uint16Array(length), new Float64Array(length), new Array(length).fill(0)]) {
          expectError(op, 'ERR_TYPE', x, { dtype, [name]: wrong }, name, 'Float32Array');
        }
        const right = new Float32Array(length).fill(canary);
        methods[op]?.(x, { dtype, [name]: right });
        expect([...right]).not.toContain(Math.fround(canary));
      }
    }
  });

  test('a parameter that is a Uint16Array needs a dtype as well', () => {
    for (const name of ['scale', 'bias']) {
      expectError('layerNorm', 'ERR_TYPE', floats, { [name]: new Uint16Array(4) }, name);
      expectError('batchNorm', 'ERR_TYPE', floats, { [name]: new Uint16Array(4) }, name);
      const wrong = { dtype: 'float16', [name]: new Int16Array(4) };
      expectError('layerNorm', 'ERR_TYPE', x, wrong, name);
      expectError('layerNorm', 'ERR_SHAPE', x, { dtype: 'float16', [name]: new Uint16Array(5) }, name, '5', '4');
    }
  });
});

describe.skipIf(!Float16)(`Float16Array${skipped}`, () => {
  const bitsOf = (values: unknown) => {
    const { buffer, byteOffset, length } = values as Float32Array;
    return new Uint16Array(buffer, byteOffset, length);
  };
  const halves = (bits: Uint16Array) => new (Float16 as Float32ArrayConstructor)(bits.slice().buffer);

  test('gives what bits give, in all operations', () => {
    for (const { op, shape, data, run } of operations) {
      const bits = narrow(draw(product(shape), 1));
      const { y, ...others } = run(bits, { dtype: 'float16', shape });
      const { y: got, ...rest } = run(halves(bits), { shape });
      const what = { op, shape, data };
      expect({ ...what, ...rest }).toEqual({ ...what, ...others });
      if (!y) continue;
      expect(got).toBeInstanceOf(Float16);
      expectPatterns(what, bitsOf(got), y as Uint16Array);
      const inPlace = halves(bits);
      expect(run(inPlace, { shape, out: inPlace }).y).toBe(inPlace);
      expectPatterns({ ...what, data: `${data}, in place` }, bitsOf(inPlace), y as Uint16Array);
    }
  });

  test('as parameters, with x of any type', () => {
    const scale = narrow(drawScale(4, 2));
    const x = draw(12, 1);
    const expected = sn.layerNorm(x, { shape: [3, 4], scale: widen(scale) });
    expectBits({ op: 'layerNorm', shape: [3, 4] }, sn.layerNorm(x, { shape: [3, 4], scale: halves(scale) }), expected);
    const y = sn.layerNorm(halves(narrow(x)), { shape: [3, 4], scale: halves(scale) });
    const rounded = narrow(sn.layerNorm(widen(narrow(x)), { shape: [3, 4], scale: widen(scale) }));
    expectPatterns({ op: 'layerNorm', shape: [3, 4] }, bitsOf(y), rounded);
  });

  test('with a residual', () => {
    const [x, residual] = [narrow(draw(12, 1)), narrow(draw(12, 2))];
    const [residualOut, bits] = [halves(x), x.slice()];
    const y = sn.layerNorm(halves(x), { shape: [3, 4], residual: halves(residual), residualOut });
    const options = { shape: [3, 4], dtype: 'float16', residual, residualOut: bits } as const;
    expectPatterns({ op: 'layerNorm', shape: [3, 4] }, bitsOf(y), sn.layerNorm(x, options));
    expectPatterns({ op: 'layerNorm', shape: [3, 4], output: 'residualOut' }, bitsOf(residualOut), bits);
  });

  test('no other type as out, and no out of this type for others', () => {
    const float16 = halves(new Uint16Array(12));
    const error = expect.objectContaining({ name: 'NormError', code: 'ERR_TYPE', op: 'layerNorm' });
    const dtype = 'float32' as never;
    expect(() => sn.layerNorm(float16, { out: new Float64Array(12) })).toThrow(error);
    expect(() => sn.layerNorm(new Float64Array(12), { out: float16 })).toThrow(error);
    expect(() => sn.layerNorm(float16, { dtype })).toThrow(error);
  });
});
