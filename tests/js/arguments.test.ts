import { createContext, runInContext } from 'node:vm';
import { load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  arrays,
  call,
  dtypes,
  type Floats,
  fingerprint,
  isOverAxes,
  normalizations,
  numbersOf,
  type Op,
  type Options,
  ofType,
  ops,
  type Results,
  ragged,
  required,
  results,
  shapes,
  valid,
  vectors,
  written,
} from './calls.ts';
import { detach, draw, drawVariance, resizableBuffer } from './data.ts';
import { narrow } from './float16-conversion.ts';
import { expectBits } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

/** y, or what moments has in its place. */
function firstOf(got: Results): Float64Array {
  return numbersOf((got.y ?? got.mean) as Floats);
}

/** A plain call of an operation. */
function plain(op: Op): Options {
  return { ...required[op], shape: shapes[op] };
}

describe('what looks wrong and is right', () => {
  test('unknown options that are undefined or null, and options that are null', () => {
    for (const op of ops) {
      const a = arrays();
      const nothing = { stranger: undefined, interpolation: null, eps: undefined, gamma: null, momentum: undefined };
      call(sn, op, a.x, { ...valid[op](a), ...nothing });
    }
    const a = arrays();
    expect(sn.layerNorm(a.x, null as never)).toHaveLength(12);
    for (const op of ['layerNorm', 'rmsNorm', 'lpNormalize', 'moments'] as const) {
      for (const options of [null, undefined, {}]) {
        expectBits({ op, shape: [12] }, firstOf(results(sn, op, a.x, options)), firstOf(results(sn, op, a.x)));
      }
    }
  });

  test.each(ops)('options of %s that are null or undefined are absent', (op) => {
    const { x } = arrays();
    const expected = results(sn, op, x, plain(op));
    for (const name of Object.keys(valid[op](arrays()))) {
      if (name in plain(op)) continue;
      for (const absent of [undefined, null]) {
        expect(results(sn, op, x, { ...plain(op), [name]: absent })).toEqual(expected);
      }
    }
    expect(results(sn, op, x, { ...plain(op), dtype: null })).toEqual(expected);
  });

  test('options without a prototype, frozen, of a class, with symbols', () => {
    const { x } = arrays();
    for (const op of ops) {
      class Given {
        constructor() {
          Object.assign(this, plain(op));
        }
      }
      const expected = results(sn, op, x, plain(op));
      const bare = Object.assign(Object.create(null), new Given());
      const inherited = Object.create(plain(op));
      const frozen = Object.freeze({ ...plain(op), shape: Object.freeze([...shapes[op]]), [Symbol('mine')]: 1 });
      const sealed = new Proxy(plain(op), {});
      for (const options of [bare, inherited, frozen, sealed, new Given()]) {
        expect(results(sn, op, x, options as Options)).toEqual(expected);
      }
    }
  });

  test('arrays of another realm', () => {
    const context = createContext({});
    const foreign = (values: ArrayLike<number>, kind = 'Float32Array') =>
      runInContext(`${kind}.from([${Array.from(values, String)}])`, context);
    for (const op of ops) {
      const a = arrays();
      const options = valid[op](a);
      const foreigners: Options = { shape: foreign(shapes[op], 'Array') };
      for (const name of vectors[op]) {
        foreigners[name] = foreign(a[name], name === 'bias' ? 'Array' : name === 'mean' ? 'Float64Array' : undefined);
      }
      if ('residual' in options) foreigners.residual = foreign(a.residual);
      if ('lengths' in options) foreigners.lengths = foreign(a.lengths, 'Int32Array');
      for (const [name, length] of Object.entries(written[op])) foreigners[name] = foreign(new Float32Array(length));
      const expected = results(sn, op, a.x, options);
      const got = results(sn, op, foreign(a.x), { ...options, ...foreigners });
      expectBits({ op, shape: shapes[op] }, firstOf(got), firstOf(expected));
      expect(got.count).toEqual(expected.count);
      for (const name of Object.keys(written[op])) {
        expect(foreigners[name]).not.toBeInstanceOf(Float32Array);
        expect([...(foreigners[name] as Float32Array)]).toEqual([...(options[name] as Float32Array)]);
      }
      expect(() => call(sn, op, foreign(a.x, 'Int32Array'), options)).toThrow('a Int32Array');
      const wide = results(sn, op, Float64Array.from(a.x), plain(op));
      expect(firstOf(results(sn, op, foreign(a.x, 'Float64Array'), plain(op)))).toEqual(firstOf(wide));
    }
    const options = runInContext('({ shape: [3, 4], axes: [1] })', context);
    const { x } = arrays();
    expect(sn.moments(foreign(x), options)).toEqual(sn.moments(x, { shape: [3, 4] }));
  });

  test('subclasses of Float32Array and Float64Array', () => {
    class Column extends Float32Array {}
    class Wide extends Float64Array {}
    const { x } = arrays();
    for (const op of normalizations) {
      const out = new Column(12);
      expect(results(sn, op, Column.from(x), { ...plain(op), out }).y).toBe(out);
      expect([...out]).toEqual([...firstOf(results(sn, op, x, plain(op)))]);
      const y = results(sn, op, Column.from(x), plain(op)).y;
      expect(y).toEqual(results(sn, op, x, plain(op)).y);
      expect(y?.constructor).toBe(Float32Array);
      expect(results(sn, op, Wide.from(x), plain(op)).y?.constructor).toBe(Float64Array);
    }
  });

  test('16 extents, and -0 as a number', () => {
    const { x } = arrays();
    for (const op of ops) {
      const [first, ...rest] = shapes[op];
      const ones = Array.from({ length: 16 - shapes[op].length }, () => 1);
      // Between the first axis and the others, so that a channel axis counted from the end stays what it was.
      const shape = [first, ...ones, ...rest];
      const place = isOverAxes(op) ? {} : { axis: 1 - shapes[op].length };
      const expected = firstOf(results(sn, op, x, plain(op)));
      expectBits({ op, shape }, firstOf(results(sn, op, x, { ...plain(op), shape, ...place })), expected);
    }
    const shape = [3, ...Array.from({ length: 14 }, () => 1), 4];
    expect(sn.moments(x, { shape, axes: -0 })).toEqual(sn.moments(x, { shape: [3, 4], axes: 0 }));
    expect(sn.moments(x, { shape, axes: [15, -0] })).toEqual(sn.moments(x, { shape: [3, 4], axes: [0, 1] }));
    expect(sn.layerNorm(x, { epsilon: -0 })).toEqual(sn.layerNorm(x, { epsilon: 0 }));
    expect(sn.layerNorm(x.subarray(0, 0), { shape: [-0, 4] })).toHaveLength(0);
    expect(sn.moments(x, { shape: [3, 4], lengths: [-0, 4, 4] }).count).toEqual(Int32Array.of(0, 4, 4));
  });

  test('beta is an option of localResponseNorm, and no misspelt bias', () => {
    const { x } = arrays();
    const at = (beta: number) => [...sn.localResponseNorm(x, { shape: [3, 4], size: 3, beta, alpha: 1 })];
    expect(at(1)).not.toEqual(at(0.5));
    expect(at(0)).toEqual([...x]);
    expect(
      at(-1)
        .map(Math.abs)
        .every((value, i) => value > Math.abs(x[i] as number)),
    ).toBe(true);
  });

  test.each(ops)('%s can be taken off the instance', (op) => {
    const a = arrays();
    const { [op]: method } = sn as unknown as Record<Op, (x: unknown, options: Options) => unknown>;
    const expected = call(sn, op, a.x, plain(op));
    expect(method(a.x, plain(op))).toEqual(expected);
  });

  test.each(ragged)('lengths of %s are an Int32Array or numbers, which are left alone', (op) => {
    const { x } = arrays();
    const given = { shape: [2, 3, 2], ...(isOverAxes(op) ? { axes: [2] } : { axis: 2 }) };
    const [numbers, integers] = [[2, 3], Int32Array.of(2, 3)];
    const expected = results(sn, op, x, { ...given, lengths: numbers });
    expect(results(sn, op, x, { ...given, lengths: integers })).toEqual(expected);
    expect(results(sn, op, x, { ...given, lengths: Object.freeze([2, 3]) })).toEqual(expected);
    expect([numbers, [...integers]]).toEqual([
      [2, 3],
      [2, 3],
    ]);
    expect(results(sn, op, x, { ...given, lengths: [3, 2] })).not.toEqual(expected);
  });

  test.each(ops.filter((op) => vectors[op].length > 0))('a parameter of %s is of any dtype, and of its own', (op) => {
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, draw(12, 1));
      // What a float16 holds, so that all are equal.
      const floats = drawVariance(4, 2).map((value) => Math.round(value * 8) / 8 + 0.5);
      const given = { ...plain(op), ...options };
      const all = (values: unknown) => Object.fromEntries(vectors[op].map((name) => [name, values]));
      const expected = firstOf(results(sn, op, x, { ...given, ...all(floats) }));
      const kinds: unknown[] = [Float64Array.from(floats), Array.from(floats), Object.freeze(Array.from(floats))];
      if (dtype === 'float16') kinds.push(narrow(floats));
      for (const kind of kinds) {
        const got = firstOf(results(sn, op, x, { ...given, ...all(kind) }));
        expectBits({ op, shape: shapes[op], data: dtype }, got, expected);
      }
    }
  });

  test('doubles are rounded to float32 for float32, and are used as they are for float64', () => {
    const thirds = [1 / 3, 2 / 3, 5 / 3, 7 / 3];
    const rounded = Float32Array.from(thirds);
    for (const op of ops.filter((each) => vectors[each].length > 0)) {
      const all = (values: unknown) => Object.fromEntries(vectors[op].map((name) => [name, values]));
      const { x } = arrays();
      const of32 = (values: unknown) => [...firstOf(results(sn, op, x, { ...plain(op), ...all(values) }))];
      const of64 = (values: unknown) => [
        ...firstOf(results(sn, op, Float64Array.from(x), { ...plain(op), ...all(values) })),
      ];
      expect(of32(thirds)).toEqual(of32(rounded));
      expect(of32(Float64Array.from(thirds))).toEqual(of32(rounded));
      expect(of64(thirds)).not.toEqual(of64(rounded));
      expect(of64(Float64Array.from(thirds))).toEqual(of64(thirds));
    }
  });

  test.each(ops)('%s takes arrays on resizable and shared buffers', (op) => {
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, draw(12, 1));
      const Kind = x.constructor as { new (buffer: ArrayBufferLike): Floats };
      const expected = firstOf(results(sn, op, x, { ...plain(op), ...options }));
      const buffers = () => [
        resizableBuffer(x.byteLength, 2 * x.byteLength),
        new SharedArrayBuffer(x.byteLength),
        new ArrayBuffer(x.byteLength),
      ];
      for (const buffer of buffers()) {
        const placed = new Kind(buffer);
        placed.set(x);
        const got = results(sn, op, placed, { ...plain(op), ...options });
        expectBits({ op, shape: shapes[op], data: dtype }, firstOf(got), expected);
        if (op === 'moments') continue;
        expect(got.y?.buffer).toBeInstanceOf(ArrayBuffer);
        expect(results(sn, op, placed, { ...plain(op), ...options, out: placed }).y).toBe(placed);
        expectBits({ op, shape: shapes[op], data: dtype }, numbersOf(placed), expected);
      }
    }
  });

  test('a view that follows its buffer has the length that it has now', () => {
    const buffer = resizableBuffer(16, 48);
    const x = new Float32Array(buffer);
    buffer.resize(48);
    x.set(draw(12, 1));
    for (const op of ops) {
      const expected = firstOf(results(sn, op, draw(12, 1), plain(op)));
      expectBits({ op, shape: shapes[op] }, firstOf(results(sn, op, x, plain(op))), expected);
    }
  });

  // The contract: residualOut may be x or residual, and out may be x, each exactly.
  test.each(['layerNorm', 'rmsNorm'] as const)('residualOut of %s is x, residual, or another view of one', (op) => {
    const given = { shape: [3, 4] };
    const { x, residual } = arrays();
    const sum = x.map((value, i) => value + (residual[i] as number));
    const expected = firstOf(results(sn, op, sum, given));
    for (const receiver of ['x', 'residual', 'a view of x', 'a view of residual']) {
      const a = arrays();
      const array = receiver.endsWith('x') ? a.x : a.residual;
      const residualOut = receiver.startsWith('a view') ? new Float32Array(array.buffer) : array;
      const y = firstOf(results(sn, op, a.x, { ...given, residual: a.residual, residualOut }));
      expectBits({ op, shape: [3, 4], data: receiver }, y, expected);
      expectBits({ op, shape: [3, 4], data: receiver, output: 'residualOut' }, residualOut, sum);
      expectBits(
        { op, shape: [3, 4], data: receiver },
        receiver.endsWith('x') ? a.residual : a.x,
        receiver.endsWith('x') ? residual : x,
      );
    }
    const a = arrays();
    const y = results(sn, op, a.x, { ...given, residual: a.residual, residualOut: a.residual, out: a.x }).y as Floats;
    expect(y).toBe(a.x);
    expectBits({ op, shape: [3, 4] }, numbersOf(y), expected);
    expectBits({ op, shape: [3, 4], output: 'residualOut' }, a.residual, sum);
  });

  test('what is only read may overlap: x, residual and parameters', () => {
    for (const op of normalizations) {
      const memory = draw(16, 1).map(Math.abs);
      const x = memory.subarray(0, 12);
      const given: Options = { ...plain(op) };
      for (const [i, name] of vectors[op].entries()) given[name] = memory.subarray(2 + i, 6 + i);
      const copies = Object.fromEntries(vectors[op].map((name) => [name, (given[name] as Float32Array).slice()]));
      const hasResidual = op === 'layerNorm' || op === 'rmsNorm';
      if (hasResidual) Object.assign(given, { residual: memory.subarray(4, 16) });
      if (hasResidual) Object.assign(copies, { residual: memory.slice(4, 16) });
      const expected = firstOf(results(sn, op, x.slice(), { ...given, ...copies }));
      expectBits({ op, shape: shapes[op] }, firstOf(results(sn, op, x, given)), expected);
    }
  });
});

describe('options that do things when they are read', () => {
  const names = [...new Set(ops.flatMap((op) => Object.keys(valid[op](arrays()))))];

  test.each(ops)("%s lets the user's own error through", (op) => {
    const before = fingerprint(sn);
    for (const name of [...names, 'dtype', 'momentum']) {
      const a = arrays();
      const mine = new Error('mine');
      const options = Object.defineProperty(valid[op](a), name, {
        enumerable: true,
        get() {
          throw mine;
        },
      });
      let failure: unknown;
      try {
        call(sn, op, a.x, options);
      } catch (error) {
        failure = error;
      }
      // What the operation doesn't have may be refused before it is read.
      const isOwn = name in valid[op](arrays()) || name === 'dtype';
      if (isOwn || !(failure instanceof NormError)) expect(failure).toBe(mine);
      expect(a.isUntouched()).toBe(true);
    }
    expect(fingerprint(sn)).toBe(before);
  });

  test("elements let the user's own error through", () => {
    const before = fingerprint(sn);
    for (const op of ops) {
      for (const name of ['shape', 'axes', 'lengths', ...vectors[op]]) {
        if (!(name in valid[op](arrays()))) continue;
        const a = arrays();
        const mine = new Error('mine');
        const elements = Object.defineProperty(Array.from(valid[op](a)[name] as number[]), 0, {
          get() {
            throw mine;
          },
        });
        expect(() => call(sn, op, a.x, { ...valid[op](a), [name]: elements })).toThrow(mine);
        expect(a.isUntouched()).toBe(true);
      }
    }
    expect(fingerprint(sn)).toBe(before);
  });

  test('each option is read once', () => {
    for (const op of ops) {
      for (const dtype of ['float32', 'float16'] as const) {
        const a = arrays();
        const { x, options: type } = ofType(dtype, a.x);
        const given = dtype === 'float32' ? valid[op](a) : { ...plain(op), ...type };
        const reads: Record<string, number> = {};
        const options = {};
        for (const [name, value] of Object.entries(given)) {
          const get = () => {
            reads[name] = (reads[name] ?? 0) + 1;
            return value;
          };
          Object.defineProperty(options, name, { enumerable: true, get });
        }
        call(sn, op, x, options);
        expect(reads).toEqual(Object.fromEntries(Object.keys(given).map((name) => [name, 1])));
      }
    }
  });

  test.each(ops.flatMap((op) => ['detaches', 'shrinks'].map((change) => [op, change] as const)))(
    'a getter of %s that %s x harms nothing but its own call',
    async (op, change) => {
      const instance = await load({});
      const before = fingerprint(instance);
      for (const name of ['shape', isOverAxes(op) ? 'axes' : 'axis', ...vectors[op], 'epsilon', 'out']) {
        if (!(name in valid[op](arrays()))) continue;
        // More than the memory that the instance starts with: a kernel that believed the old length would leave it.
        const buffer = resizableBuffer(4e6, 4e6);
        const x = new Float32Array(buffer);
        const options: Options = { ...required[op], shape: [250_000, 4] };
        const value = options[name];
        Object.defineProperty(options, name, {
          enumerable: true,
          get() {
            if (change === 'shrinks') buffer.resize(16);
            else detach(x);
            return value;
          },
        });
        let failure: unknown;
        try {
          call(instance, op, x, options);
        } catch (error) {
          failure = error;
        }
        expect(failure).toBeInstanceOf(NormError);
        expect(['ERR_TYPE', 'ERR_SHAPE']).toContain((failure as NormError).code);
        expect(fingerprint(instance)).toBe(before);
      }
      instance.dispose();
    },
  );

  test.each(ops)('an element that detaches x of %s when it is read is read before x is checked', (op) => {
    for (const name of ['shape', 'axes', 'lengths', ...vectors[op]]) {
      const a = arrays();
      const given = valid[op](a);
      if (!(name in given)) continue;
      const elements = Array.from(given[name] as number[]);
      const last = elements.at(-1);
      Object.defineProperty(elements, elements.length - 1, {
        get() {
          detach(a.x);
          return last;
        },
      });
      const failure = expect.objectContaining({ code: 'ERR_TYPE' });
      expect(() => call(sn, op, a.x, { ...given, [name]: elements })).toThrow(failure);
    }
  });

  test.each(ops)('what a getter of %s detaches is noticed, whatever it is', (op) => {
    const given = valid[op](arrays());
    for (const name of Object.keys(given).filter((each) => ArrayBuffer.isView(given[each]))) {
      const a = arrays();
      const options = valid[op](a);
      const victim = options[name] as Float32Array;
      // The option that is named last is read last, if they are read in the order of the object.
      const { shape, ...others } = options;
      for (const order of [{ ...others }, { shape, ...others }]) {
        const trap = Object.defineProperty(order, 'shape', {
          enumerable: true,
          configurable: true,
          get() {
            if (victim.length > 0) detach(victim);
            return shape;
          },
        });
        const failure = expect.objectContaining({ code: 'ERR_TYPE', op });
        expect(() => call(sn, op, a.x, trap)).toThrow(failure);
        expect(a.isUntouched()).toBe(true);
      }
    }
  });
});

describe('arrays of classes that lie', () => {
  test('a length that is not the true one is refused', () => {
    for (const op of ops) {
      for (const length of [2, 1e9, -1, '12']) {
        const x = new Float32Array(12);
        Object.defineProperty(x, 'length', { value: length });
        expect(() => call(sn, op, x, plain(op))).toThrowError(expect.objectContaining({ code: 'ERR_TYPE' }));
      }
      for (const name of [...vectors[op], ...Object.keys(written[op]), 'lengths', 'residual']) {
        const a = arrays();
        const options = valid[op](a);
        if (!(name in options)) continue;
        // True where it counts and false where it is asked for, and the other way round.
        const values = options[name] as Float32Array;
        Object.defineProperty(values, 'length', { value: 1e6 });
        expect(() => call(sn, op, a.x, options)).toThrowError(NormError);
        const longer = values instanceof Int32Array ? new Int32Array(100) : new Float32Array(100);
        Object.defineProperty(longer, 'length', { value: (valid[op](arrays())[name] as Float32Array).length });
        expect(() => call(sn, op, a.x, { ...valid[op](arrays()), [name]: longer })).toThrowError(NormError);
      }
    }
  });

  test('a method of a subclass is not called', () => {
    const called: string[] = [];
    class Refusing extends Float32Array {
      override set(): void {
        called.push('set');
      }
      override subarray(): never {
        called.push('subarray');
        throw new RangeError('called');
      }
      override slice(): never {
        called.push('slice');
        throw new RangeError('called');
      }
      [Symbol.iterator](): never {
        called.push('iterator');
        throw new RangeError('called');
      }
    }
    const { x } = arrays();
    for (const op of normalizations) {
      const expected = firstOf(results(sn, op, x, plain(op)));
      const out = new Refusing(12);
      results(sn, op, new Refusing(x.slice().buffer), { ...plain(op), out });
      expectBits({ op, shape: shapes[op] }, new Float32Array(out.buffer), expected);
    }
    expect(called).toEqual([]);
  });

  test('Symbol.species of a subclass is not asked', () => {
    class Column extends Float32Array {
      static get [Symbol.species](): never {
        throw new RangeError('asked');
      }
    }
    const { x } = arrays();
    for (const op of ops) {
      const column = new Column(x.slice().buffer);
      expectBits(
        { op, shape: shapes[op] },
        firstOf(results(sn, op, column, plain(op))),
        firstOf(results(sn, op, x, plain(op))),
      );
    }
  });
});
