import { type ErrorCode, type LayerNormOptions, load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { draw, drawScale, product, Random } from './data.ts';
import * as decimal from './decimal-reference.ts';
import { fromBits, narrow, toBits, widen } from './float16-conversion.ts';
import type { Case } from './reference.ts';
import * as reference from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

type Op = 'layerNorm' | 'rmsNorm';
type Values = Float32Array | Float64Array | Uint16Array;
type Options = LayerNormOptions & { out?: Values | undefined };

const ops = ['layerNorm', 'rmsNorm'] as const;

function normalize(op: Op, x: Values, options: Options = {}): Values {
  return op === 'layerNorm' ? sn.layerNorm(x, options) : sn.rmsNorm(x, options);
}

/** A dtype: how its numbers are made, added and compared. The elements of float16 are bits. */
interface Kind {
  readonly dtype: 'float32' | 'float64' | 'float16';
  /** What a call needs to know of it. */
  readonly given: { readonly dtype?: 'float16' };
  readonly bytes: number;
  readonly make: (values: ArrayLike<number>) => Values;
  readonly blank: (length: number) => Values;
  readonly on: (buffer: ArrayBuffer, offset: number, length: number) => Values;
  readonly statistics: (length: number) => Float32Array | Float64Array;
  /** The sum of two elements, rounded once. */
  readonly add: (a: number, b: number) => number;
  readonly expectSame: (what: Case, got: ArrayLike<number>, expected: ArrayLike<number>) => void;
  /** The distance from 1 to the next number, the largest number, and the smallest. */
  readonly machineEpsilon: number;
  readonly largest: number;
  readonly smallest: number;
}

const kinds: readonly Kind[] = [
  {
    dtype: 'float32',
    given: {},
    bytes: 4,
    make: (values) => Float32Array.from(values),
    blank: (length) => new Float32Array(length),
    on: (buffer, offset, length) => new Float32Array(buffer, offset, length),
    statistics: (length) => new Float32Array(length),
    add: (a, b) => Math.fround(a + b),
    expectSame: reference.expectBits,
    machineEpsilon: 2 ** -23,
    largest: (2 - 2 ** -23) * 2 ** 127,
    smallest: 2 ** -149,
  },
  {
    dtype: 'float64',
    given: {},
    bytes: 8,
    make: (values) => Float64Array.from(values),
    blank: (length) => new Float64Array(length),
    on: (buffer, offset, length) => new Float64Array(buffer, offset, length),
    statistics: (length) => new Float64Array(length),
    add: (a, b) => a + b,
    expectSame: decimal.expectBits,
    machineEpsilon: 2 ** -52,
    largest: Number.MAX_VALUE,
    smallest: Number.MIN_VALUE,
  },
  {
    dtype: 'float16',
    given: { dtype: 'float16' },
    bytes: 2,
    make: narrow,
    blank: (length) => new Uint16Array(length),
    on: (buffer, offset, length) => new Uint16Array(buffer, offset, length),
    statistics: (length) => new Float32Array(length),
    add: (a, b) => toBits(fromBits(a) + fromBits(b)),
    // A NaN is a NaN, whatever its bits.
    expectSame: (what, got, expected) => reference.expectBits(what, widen(got), widen(expected)),
    machineEpsilon: 2 ** -10,
    largest: 65504,
    smallest: 2 ** -24,
  },
];

/** Of every magnitude from far below 1 to above it, so that most sums are rounded. */
function drawMixed(kind: Kind, length: number, seed: number): Values {
  const random = new Random(seed);
  return kind.make(Array.from({ length }, () => (0.3 + 2 * random.bell()) * 2 ** -Math.floor(8 * random.unit())));
}

function sumOf(kind: Kind, x: Values, residual: Values): Values {
  return kind.blank(x.length).map((_, i) => kind.add(x[i] as number, residual[i] as number));
}

const layouts: { shape: number[]; axes: number[] | number; lengths?: number[] }[] = [
  { shape: [67], axes: [0] },
  { shape: [4, 37], axes: -1 },
  { shape: [2, 1030], axes: [1] },
  { shape: [3, 5, 7], axes: [1, 2] },
  { shape: [3, 5, 7], axes: [1] },
  { shape: [3, 5, 7], axes: [0] },
  { shape: [3, 5, 7], axes: [2, 1] },
  { shape: [3, 5, 7], axes: [0, 2] },
  { shape: [2, 3, 4, 5], axes: [3, 1] },
  { shape: [2, 3, 4, 5], axes: [2, 0] },
  { shape: [3, 9, 33], axes: [0, 1] },
  { shape: [3, 5], axes: [] },
  { shape: [4, 37], axes: -1, lengths: [37, 0, 1, 20] },
  { shape: [3, 5, 7], axes: -1, lengths: [4, 0, 5] },
  { shape: [3, 5, 7], axes: [1], lengths: [4, 0, 5] },
  { shape: [3, 5, 7], axes: [2, 0], lengths: [4, 0, 5] },
  { shape: [3, 5, 7], axes: [0, 1, 2], lengths: [0, 0, 0] },
];

const cases = ops.flatMap((op) =>
  kinds.flatMap((kind) =>
    layouts.map((layout) => {
      const past = layout.lengths ? ` with lengths [${layout.lengths}]` : '';
      return { op, kind, ...layout, title: `${op} of ${kind.dtype} [${layout.shape}] over [${layout.axes}]${past}` };
    }),
  ),
);

for (const { title, ...each } of cases) {
  test(`${title}: residualOut is the rounded sum, and y its norm`, () => {
    const { op, kind, shape, axes, lengths } = each;
    const size = product(shape);
    const over = typeof axes === 'number' ? [shape.length + axes] : axes;
    const units = product(over.map((axis) => shape[axis] as number));
    const [items, steps] = shape as [number, number];
    const isValid = (i: number) =>
      !lengths || Math.floor(i / (size / items / steps)) % steps < (lengths[Math.floor(i / (size / items))] as number);
    const x = drawMixed(kind, size, 1);
    const residual = drawMixed(kind, size, 2);
    const [xBefore, residualBefore] = [x.slice(), residual.slice()];
    const sum = sumOf(kind, x, residual).map((value, i) => (isValid(i) ? value : 0));
    const what = { op, shape, data: `${kind.dtype} over [${over}]` };
    const scale = drawScale(units, 3);
    const bias = draw(units, 4);
    for (const parameters of op === 'layerNorm' ? [{}, { scale }, { bias }, { scale, bias }] : [{}, { scale }]) {
      const statisticsOf = () => ({
        invStdOut: kind.statistics(size / units),
        ...(op === 'layerNorm' ? { meanOut: kind.statistics(size / units) } : {}),
      });
      const [statistics, expectedStatistics] = [statisticsOf(), statisticsOf()];
      const common = { shape, axes, lengths, ...kind.given, ...parameters };
      const residualOut = kind.blank(size).fill(7);
      const y = normalize(op, x, { ...common, ...statistics, residual, residualOut });
      kind.expectSame({ ...what, output: 'residualOut' }, residualOut, sum);
      kind.expectSame(what, y, normalize(op, residualOut, { ...common, ...expectedStatistics }));
      kind.expectSame({ ...what, data: 'without residualOut' }, normalize(op, x, { ...common, residual }), y);
      expect(statistics).toEqual(expectedStatistics);
      kind.expectSame({ ...what, output: 'x' }, x, xBefore);
      kind.expectSame({ ...what, output: 'residual' }, residual, residualBefore);
      if (size > 15 && !lengths) expect([...y]).not.toEqual([...normalize(op, x, common)]);
    }
  });
}

describe.each(ops)('%s', (op) => {
  describe.each(kinds)('of $dtype', (kind) => {
    const { dtype, given } = kind;
    const shape = [3, 5, 7];
    const scale = drawScale(7, 3);
    const values = drawMixed(kind, 105, 1);
    const residualValues = drawMixed(kind, 105, 2);
    const sum = sumOf(kind, values, residualValues);
    const common = { shape, scale, ...given };

    test('residualOut may be x or the residual, out may be x, and both at once', () => {
      const expected = normalize(op, sum, common);
      const check = (data: string, run: (x: Values, residual: Values, other: Values) => [Values, Values]) => {
        const [x, residual] = [values.slice(), residualValues.slice()];
        const [y, residualOut] = run(x, residual, kind.blank(105).fill(7));
        const what = { op, shape, data: `${dtype}, ${data}` };
        const written = new Set([y.buffer, residualOut.buffer]);
        kind.expectSame(what, y, expected);
        kind.expectSame({ ...what, output: 'residualOut' }, residualOut, sum);
        if (!written.has(x.buffer)) kind.expectSame({ ...what, output: 'x' }, x, values);
        if (!written.has(residual.buffer)) kind.expectSame({ ...what, output: 'residual' }, residual, residualValues);
      };
      check('residualOut is x', (x, residual) => [normalize(op, x, { ...common, residual, residualOut: x }), x]);
      check('residualOut is the residual', (x, residual) => [
        normalize(op, x, { ...common, residual, residualOut: residual }),
        residual,
      ]);
      check('residualOut is x, with out', (x, residual, out) => {
        expect(normalize(op, x, { ...common, residual, residualOut: x, out })).toBe(out);
        return [out, x];
      });
      check('residualOut is the residual, with out', (x, residual, out) => {
        expect(normalize(op, x, { ...common, residual, residualOut: residual, out })).toBe(out);
        return [out, residual];
      });
      check('out is x, with residualOut', (x, residual, residualOut) => {
        expect(normalize(op, x, { ...common, residual, residualOut, out: x })).toBe(x);
        return [x, residualOut];
      });
      check('out is x, residualOut is the residual', (x, residual) => {
        expect(normalize(op, x, { ...common, residual, residualOut: residual, out: x })).toBe(x);
        return [x, residual];
      });
      check('residualOut is another view of x', (x, residual) => {
        const residualOut = kind.on(x.buffer as ArrayBuffer, 0, 105);
        return [normalize(op, x, { ...common, residual, residualOut }), residualOut];
      });
      check('out is another view of x', (x, residual, residualOut) => {
        const out = kind.on(x.buffer as ArrayBuffer, 0, 105);
        return [normalize(op, x, { ...common, residual, residualOut, out }), residualOut];
      });
    });

    test('x may be its own residual', () => {
      const twice = sumOf(kind, values, values);
      const expected = normalize(op, twice, common);
      const what = { op, shape, data: dtype };
      const residualOut = kind.blank(105);
      kind.expectSame(what, normalize(op, values, { ...common, residual: values, residualOut }), expected);
      kind.expectSame({ ...what, output: 'residualOut' }, residualOut, twice);
    });

    test('an absent residual adds nothing', () => {
      const expected = normalize(op, values, common);
      for (const residual of [undefined, null as never]) {
        const y = normalize(op, values, { ...common, residual, residualOut: residual });
        kind.expectSame({ op, shape, data: dtype }, y, expected);
      }
    });

    test('neighbours in one buffer are no overlap, and nothing else is written', () => {
      const [x, residual, residualOut, out] = [1, 108, 215, 322] as const;
      const buffer = new ArrayBuffer(430 * kind.bytes);
      kind.on(buffer, 0, 430).fill(7);
      const at = (element: number) => kind.on(buffer, element * kind.bytes, 105);
      at(x).set(values);
      at(residual).set(residualValues);
      normalize(op, at(x), { ...common, residual: at(residual), residualOut: at(residualOut), out: at(out) });
      const what = { op, shape, data: dtype };
      kind.expectSame({ ...what, output: 'x' }, at(x), values);
      kind.expectSame({ ...what, output: 'residual' }, at(residual), residualValues);
      kind.expectSame({ ...what, output: 'residualOut' }, at(residualOut), sum);
      kind.expectSame(what, at(out), normalize(op, sum, common));
      const between = kind.on(buffer, 0, 430).filter((_, i) => i % 107 === 0 || i % 107 === 106 || i > 427);
      expect([...new Set(between)]).toEqual([7]);
    });

    test('a sum that is infinite or NaN fills its own row with NaN', () => {
      const half = kind.largest / 2 + kind.largest * kind.machineEpsilon;
      const x = kind.make([half, 1, 2, NaN, 1, 2, -Infinity, 1, 2, 4, 1, 2]);
      const residual = kind.make([half, 1, 2, 1, 1, 2, Infinity, 1, 2, 4, 1, 2]);
      const residualOut = kind.blank(12);
      const y = normalize(op, x, { shape: [4, 3], ...given, residual, residualOut });
      const expected = kind.make([Infinity, 2, 4, NaN, 2, 4, NaN, 2, 4, 8, 2, 4]);
      kind.expectSame({ op, shape: [4, 3], data: dtype, output: 'residualOut' }, residualOut, expected);
      const last = normalize(op, kind.make([8, 2, 4]), given);
      const rows = kind.blank(12).map((_, i) => (i < 9 ? (kind.make([NaN])[0] as number) : (last[i - 9] as number)));
      kind.expectSame({ op, shape: [4, 3], data: dtype }, y, rows);
    });

    test('the largest and smallest sums, halves of the last bit and signed zeros are rounded as IEEE says', () => {
      const { machineEpsilon, largest, smallest } = kind;
      const pairs: [number, number, number][] = [
        [largest / 2, largest / 2, largest],
        [largest, -largest, 0],
        [largest, (largest * machineEpsilon) / 8, largest],
        [smallest, smallest, 2 * smallest],
        [smallest, -smallest, 0],
        [1, machineEpsilon / 2, 1],
        [1 + machineEpsilon, machineEpsilon / 2, 1 + 2 * machineEpsilon],
        [-1, -machineEpsilon / 2, -1],
        [-0, -0, -0],
        [-0, 0, 0],
        [1, -1, 0],
      ];
      const x = kind.make(pairs.map(([value]) => value));
      const residual = kind.make(pairs.map(([, value]) => value));
      const residualOut = kind.blank(pairs.length);
      normalize(op, x, { ...given, residual, residualOut });
      const expected = kind.make(pairs.map(([, , value]) => value));
      kind.expectSame({ op, shape: [pairs.length], data: dtype, output: 'residualOut' }, residualOut, expected);
    });

    test('no rows: an empty result', () => {
      const empty = kind.blank(0);
      const options = { shape: [0, 4], ...given, residual: empty, residualOut: kind.blank(0) };
      expect(normalize(op, empty, options)).toHaveLength(0);
    });
  });
});

test.each(kinds)('layerNorm of $dtype normalizes the sum as it was rounded, not as it was', (kind) => {
  // Less than half of 1's last bit is lost in the sum. Kept, it would be all that is left after the mean.
  const x = kind.make(new Array(8).fill(1));
  const residual = kind.make(Array.from({ length: 8 }, (_, i) => (i * kind.machineEpsilon) / 16));
  expect(new Set(residual).size).toBe(8);
  const y = normalize('layerNorm', x, { ...kind.given, residual, epsilon: 1e-37 });
  kind.expectSame({ op: 'layerNorm', shape: [8], data: kind.dtype }, y, kind.blank(8));
});

describe('errors', () => {
  function expectError(op: string, code: ErrorCode, run: () => unknown, ...says: string[]): void {
    let failure: unknown;
    try {
      run();
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    const { message, ...rest } = failure as NormError;
    expect({ code: rest.code, op: rest.op, message }).toEqual({ code, op, message });
    expect(message.startsWith(`${op}: `)).toBe(true);
    for (const part of says) expect(message).toContain(part);
  }

  const shape = [3, 4];

  describe.each(ops)('%s', (op) => {
    test.each(kinds)('of $dtype: another length is ERR_SHAPE, another type ERR_TYPE', (kind) => {
      const x = drawMixed(kind, 12, 1);
      const residual = drawMixed(kind, 12, 2);
      const out = kind.blank(12).fill(7);
      const residualOut = kind.blank(12).fill(7);
      const options = { shape, ...kind.given, residual, residualOut, out };
      for (const name of ['residual', 'residualOut'] as const) {
        for (const length of [0, 1, 4, 11, 13, 24]) {
          const wrong = { ...options, [name]: kind.blank(length) };
          expectError(op, 'ERR_SHAPE', () => normalize(op, x, wrong), name, String(length), '12');
        }
        const others = [new Float32Array(12), new Float64Array(12), new Uint16Array(12)].filter(
          (each) => each.constructor !== x.constructor,
        );
        const strangers = [new Int32Array(12), new Int16Array(12), [...residual], '12', 12, true, {}];
        for (const value of [...others, ...strangers]) {
          const wrong = { ...options, [name]: value } as never;
          expectError(op, 'ERR_TYPE', () => normalize(op, x, wrong), name);
        }
      }
      expect(new Set([...out, ...residualOut])).toEqual(new Set([7]));
    });

    test.each(kinds)('of $dtype: what is written overlaps nothing else', (kind) => {
      const buffer = new ArrayBuffer(60 * kind.bytes);
      const all = kind.on(buffer, 0, 60);
      all.set(drawMixed(kind, 60, 1));
      const before = all.slice();
      const at = (element: number, length = 12) => kind.on(buffer, element * kind.bytes, length);
      const [x, residual] = [at(0), at(12)];
      const common = { shape, ...kind.given, residual };
      const wrong: [string, Options, ...string[]][] = [
        ['residualOut in x and beyond', { residualOut: at(1) }, 'residualOut'],
        ['residualOut in the residual and beyond', { residualOut: at(20) }, 'residualOut', 'residual'],
        ['residualOut in both', { residualOut: at(6) }, 'residualOut'],
        ['out is the residual', { out: residual }, 'out', 'residual'],
        ['out in the residual and beyond', { out: at(17) }, 'out', 'residual'],
        ['out in x and the residual', { out: at(3) }, 'out'],
        ['out is residualOut', { out: at(30), residualOut: at(30) }, 'out', 'residualOut'],
        ['out and residualOut in part', { out: at(30), residualOut: at(35) }, 'out', 'residualOut'],
        ['both are x', { out: x, residualOut: x }, 'out', 'residualOut'],
      ];
      if (kind.dtype !== 'float16') {
        wrong.push(
          ['residualOut in scale', { residualOut: at(30), scale: at(40, 4) }, 'residualOut', 'scale'],
          ['scale in x, which is residualOut', { residualOut: x, scale: at(4, 4) }, 'residualOut', 'scale'],
          ['scale in the residual, residualOut', { residualOut: residual, scale: at(13, 4) }, 'residualOut', 'scale'],
          ['invStdOut in the residual', { invStdOut: at(15, 3) }, 'invStdOut', 'residual'],
          ['invStdOut in residualOut', { residualOut: at(30), invStdOut: at(35, 3) }, 'invStdOut', 'residualOut'],
        );
      }
      for (const [title, options, ...says] of wrong) {
        expectError(op, 'ERR_OVERLAP', () => normalize(op, x, { ...common, ...options }), ...says);
        kind.expectSame({ op, shape, data: `${kind.dtype}, ${title}` }, all, before);
      }
    });
  });

  test('operations without a residual say so', () => {
    const x = draw(12, 1);
    for (const name of ['residual', 'residualOut']) {
      const o = { shape, [name]: draw(12, 2) };
      const calls: Record<string, () => unknown> = {
        batchNorm: () => sn.batchNorm(x, { ...o, mean: [0, 0, 0, 0], variance: [1, 1, 1, 1] }),
        batchNormTraining: () => sn.batchNormTraining(x, o),
        instanceNorm: () => sn.instanceNorm(x, o),
        groupNorm: () => sn.groupNorm(x, { ...o, groups: 2 }),
        lpNormalize: () => sn.lpNormalize(x, o),
        localResponseNorm: () => sn.localResponseNorm(x, { ...o, size: 3 }),
        moments: () => sn.moments(x, o),
      };
      for (const [op, call] of Object.entries(calls)) expectError(op, 'ERR_TYPE', call, `'${name}'`);
    }
  });
});
