import { once } from 'node:events';
import { createContext, runInContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type AnyOp,
  allOps,
  arrays,
  backwardOps,
  call,
  dtypes,
  type Floats,
  fingerprint,
  isBackward,
  isOverAxes,
  normalizations,
  numbersOf,
  type Options,
  ofType,
  overAxes,
  type Results,
  ragged,
  required,
  results,
  shapes,
  slopeOf,
  valid,
  vectorLength,
  vectors,
  withBackward,
  written,
} from './calls.ts';
import { detach, draw, drawVariance, outOfBounds, resizableBuffer } from './data.ts';
import { narrow } from './float16-conversion.ts';
import { expectBits } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

/** y, or dx of a gradient: what goes to `out`. */
function resultOf(got: Results): Floats {
  return (got.y ?? got.dx) as Floats;
}

/** That, or what moments has in its place. */
function firstOf(got: Results): Float64Array {
  return numbersOf(resultOf(got) ?? got.mean);
}

/** Everything that a call returns is, to the bit, what another one does. */
function expectSame(op: AnyOp, got: Results, expected: Results, data?: string): void {
  expect(Object.keys(got)).toEqual(Object.keys(expected));
  for (const [name, values] of Object.entries(expected)) {
    const gotten = got[name as keyof Results];
    if (!ArrayBuffer.isView(values) || !ArrayBuffer.isView(gotten)) expect(gotten).toEqual(values);
    else {
      const what = { op, shape: shapes[op], output: name, ...(data ? { data } : {}) };
      expectBits(what, numbersOf(gotten as Floats), numbersOf(values as Floats));
    }
  }
}

/** Every parameter of an operation, from the same values. */
function parametersFrom<V extends { slice(begin: number, end: number): unknown }>(op: AnyOp, values: V): Options {
  return Object.fromEntries(vectors[op].map((name) => [name, values.slice(0, vectorLength(op, name))]));
}

const parameterized = allOps.filter((op) => vectors[op].length > 0);

/** A plain call of an operation. */
function plain(op: AnyOp): Options {
  return { ...required[op], shape: shapes[op] };
}

describe('what looks wrong and is right', () => {
  test('unknown options that are undefined or null, and options that are null', () => {
    for (const op of allOps) {
      const a = arrays();
      const nothing = { stranger: undefined, interpolation: null, eps: undefined, gamma: null, momentum: undefined };
      call(sn, op, a.x, { ...valid[op](a), ...nothing }, a.dy);
    }
    const a = arrays();
    expect(sn.layerNorm(a.x, null as never)).toHaveLength(12);
    for (const op of withBackward(overAxes)) {
      for (const options of [null, undefined, {}]) {
        expectSame(op, results(sn, op, a.x, options), results(sn, op, a.x));
      }
    }
  });

  test.each(allOps)('options of %s that are null or undefined are absent', (op) => {
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

  test('options without a prototype, frozen, of a class, with its getters, with symbols', () => {
    const { x } = arrays();
    for (const op of allOps) {
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
      class Getters {}
      for (const [name, value] of Object.entries(plain(op))) {
        Object.defineProperty(Getters.prototype, name, { get: () => value });
      }
      for (const options of [bare, inherited, frozen, sealed, new Given(), new Getters()]) {
        expect(results(sn, op, x, options as Options)).toEqual(expected);
      }
    }
  });

  test('options that a loop over names does not meet: hidden ones, and those that a proxy makes up', () => {
    const { x } = arrays();
    for (const op of allOps) {
      const given = plain(op);
      const hidden = Object.create(
        Object.prototype,
        Object.fromEntries(Object.entries(given).map(([name, value]) => [name, { value }])),
      );
      const madeUp = new Proxy({}, { get: (target, name) => Reflect.get(name in given ? given : target, name) });
      for (const options of [hidden, Object.create(hidden), madeUp]) {
        expect(results(sn, op, x, options)).toEqual(results(sn, op, x, given));
      }
    }
  });

  test('arrays of another realm', () => {
    const context = createContext({});
    const foreign = (values: ArrayLike<number>, kind = 'Float32Array') =>
      runInContext(`${kind}.from([${Array.from(values, String)}])`, context);
    for (const op of allOps) {
      const a = arrays();
      const options = valid[op](a);
      const foreigners: Options = { shape: foreign(shapes[op], 'Array') };
      for (const name of vectors[op]) {
        const kind = name === 'bias' || name === 'invStd' ? 'Array' : name === 'mean' ? 'Float64Array' : undefined;
        foreigners[name] = foreign(options[name] as Float32Array, kind);
      }
      if ('residual' in options) foreigners.residual = foreign(a.residual);
      if ('lengths' in options) foreigners.lengths = foreign(a.lengths, 'Int32Array');
      for (const [name, length] of Object.entries(written[op])) foreigners[name] = foreign(new Float32Array(length));
      const expected = results(sn, op, a.x, options, a.dy);
      const got = results(sn, op, foreign(a.x), { ...options, ...foreigners }, foreign(a.dy));
      expectBits({ op, shape: shapes[op] }, firstOf(got), firstOf(expected));
      expect(got.count).toEqual(expected.count);
      for (const name of Object.keys(written[op])) {
        expect(foreigners[name]).not.toBeInstanceOf(Float32Array);
        expect([...(foreigners[name] as Float32Array)]).toEqual([...(options[name] as Float32Array)]);
      }
      expect(() => call(sn, op, foreign(a.x, 'Int32Array'), options, a.dy)).toThrow('an Int32Array');
      const wide = results(sn, op, Float64Array.from(a.x), plain(op), Float64Array.from(a.dy));
      const foreignDy = foreign(a.dy, 'Float64Array');
      expectSame(op, results(sn, op, foreign(a.x, 'Float64Array'), plain(op), foreignDy), wide);
    }
    const options = runInContext('({ shape: [3, 4], axes: [1] })', context);
    const { x } = arrays();
    expect(sn.moments(foreign(x), options)).toEqual(sn.moments(x, { shape: [3, 4] }));
  });

  test('subclasses of Float32Array and Float64Array', () => {
    class Column extends Float32Array {}
    class Wide extends Float64Array {}
    const { x } = arrays();
    for (const op of withBackward(normalizations)) {
      const out = new Column(12);
      const dy = Column.from(slopeOf(x));
      const expected = results(sn, op, x, plain(op));
      expect(resultOf(results(sn, op, Column.from(x), { ...plain(op), out }, dy))).toBe(out);
      expect([...out]).toEqual([...firstOf(expected)]);
      const got = results(sn, op, Column.from(x), plain(op), dy);
      expect(got).toEqual(expected);
      expect(resultOf(got).constructor).toBe(Float32Array);
      const wide = results(sn, op, Wide.from(x), plain(op), Wide.from(dy));
      expect(resultOf(wide).constructor).toBe(Float64Array);
      expect([wide.dScale ?? wide.y, wide.dBias ?? wide.dx ?? wide.y].map((each) => each?.constructor)).toEqual([
        op === 'lpNormalizeBackward' ? undefined : Float64Array,
        Float64Array,
      ]);
    }
  });

  test('16 extents, and -0 as a number', () => {
    const { x } = arrays();
    for (const op of allOps) {
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

  test.each(allOps)('%s can be taken off the instance', (op) => {
    const a = arrays();
    const method: (...given: never[]) => unknown = sn[op];
    const expected = call(sn, op, a.x, plain(op), a.dy);
    const given: unknown[] = isBackward(op) ? [a.dy, a.x, plain(op)] : [a.x, plain(op)];
    expect(method(...(given as never[]))).toEqual(expected);
  });

  test.each(withBackward(ragged))('lengths of %s are an Int32Array or numbers, which are left alone', (op) => {
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

  test.each(parameterized)('a parameter of %s is of any dtype, and of its own', (op) => {
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, draw(12, 1));
      // What a float16 holds, so that all are equal.
      const floats = drawVariance(4, 2).map((value) => Math.round(value * 8) / 8 + 0.5);
      const given = { ...plain(op), ...options };
      const expected = results(sn, op, x, { ...given, ...parametersFrom(op, floats) });
      const kinds: Options[] = [Float64Array.from(floats), Array.from(floats)].map((kind) => parametersFrom(op, kind));
      kinds.push(
        Object.fromEntries(Object.entries(kinds[1] as Options).map(([name, kind]) => [name, Object.freeze(kind)])),
      );
      if (dtype === 'float16') kinds.push(parametersFrom(op, narrow(floats)));
      for (const kind of kinds) expectSame(op, results(sn, op, x, { ...given, ...kind }), expected, dtype);
    }
  });

  test('doubles are rounded to float32 for float32, and are used as they are for float64', () => {
    const thirds = [1 / 3, 2 / 3, 5 / 3, 7 / 3];
    const rounded = Float32Array.from(thirds);
    for (const op of parameterized) {
      const { x } = arrays();
      const run = (of: Floats, values: number[] | Float32Array | Float64Array) => [
        ...firstOf(results(sn, op, of, { ...plain(op), ...parametersFrom(op, values) })),
      ];
      const of32 = (values: number[] | Float32Array | Float64Array) => run(x, values);
      const of64 = (values: number[] | Float32Array | Float64Array) => run(Float64Array.from(x), values);
      expect(of32(thirds)).toEqual(of32(rounded));
      expect(of32(Float64Array.from(thirds))).toEqual(of32(rounded));
      expect(of64(thirds)).not.toEqual(of64(rounded));
      expect(of64(Float64Array.from(thirds))).toEqual(of64(thirds));
    }
  });

  test.each(allOps)('%s takes arrays on resizable and shared buffers', (op) => {
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, draw(12, 1));
      const Kind = x.constructor as { new (buffer: ArrayBufferLike): Floats };
      const given = { ...plain(op), ...options };
      const expected = results(sn, op, x, given);
      const buffers = () => [
        resizableBuffer(x.byteLength, 2 * x.byteLength),
        new SharedArrayBuffer(x.byteLength),
        new ArrayBuffer(x.byteLength),
      ];
      const placeIn = (buffer: ArrayBufferLike, values: Floats) => {
        const placed = new Kind(buffer);
        placed.set(values);
        return placed;
      };
      buffers().forEach((buffer, i) => {
        const placed = placeIn(buffer, x);
        const dy = placeIn(buffers()[i] as ArrayBufferLike, slopeOf(x));
        const got = results(sn, op, placed, given, dy);
        expectSame(op, got, expected, dtype);
        if (op === 'moments') return;
        expect(resultOf(got).buffer).toBeInstanceOf(ArrayBuffer);
        for (const out of isBackward(op) ? [dy, placed] : [placed]) {
          placed.set(x);
          dy.set(slopeOf(x));
          expect(resultOf(results(sn, op, placed, { ...given, out }, dy))).toBe(out);
          expectBits({ op, shape: shapes[op], data: dtype }, numbersOf(out), firstOf(expected));
        }
      });
    }
  });

  test('a view that follows its buffer has the length that it has now', () => {
    const buffer = resizableBuffer(16, 48);
    const x = new Float32Array(buffer);
    buffer.resize(48);
    x.set(draw(12, 1));
    for (const op of allOps) {
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
    for (const op of withBackward(normalizations)) {
      const memory = draw(16, 1).map(Math.abs);
      const x = memory.subarray(0, 12);
      const given: Options = { ...plain(op) };
      for (const [i, name] of vectors[op].entries())
        given[name] = memory.subarray(2 + i, 2 + i + vectorLength(op, name));
      const copies = Object.fromEntries(vectors[op].map((name) => [name, (given[name] as Float32Array).slice()]));
      const hasResidual = op === 'layerNorm' || op === 'rmsNorm';
      if (hasResidual) Object.assign(given, { residual: memory.subarray(4, 16) });
      if (hasResidual) Object.assign(copies, { residual: memory.slice(4, 16) });
      const dy = memory.subarray(4, 16);
      const expected = results(sn, op, x.slice(), { ...given, ...copies }, dy.slice());
      expectSame(op, results(sn, op, x, given, dy), expected);
    }
    // x may be its own gradient's dy, and be written over then.
    for (const op of backwardOps) {
      const { x } = arrays();
      const expected = results(sn, op, x, plain(op), x.slice());
      expectSame(op, results(sn, op, x, plain(op), x), expected);
      expect(resultOf(results(sn, op, x, { ...plain(op), out: x }, x))).toBe(x);
      expectBits({ op, shape: shapes[op] }, x, firstOf(expected));
    }
  });

  test.each(backwardOps)('%s writes what it returns into dScaleOut and dBiasOut, of any buffer', (op) => {
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, draw(12, 1));
      const expected = results(sn, op, x, { ...plain(op), ...options });
      const { out: _, ...sizes } = written[op];
      for (const make of [
        (bytes: number) => new ArrayBuffer(bytes),
        (bytes: number) => new SharedArrayBuffer(bytes),
        (bytes: number) => resizableBuffer(bytes, 2 * bytes),
      ]) {
        const receivers = Object.fromEntries(
          Object.entries(sizes).map(([name, length]) => {
            if (dtype === 'float64') return [name, new Float64Array(make(8 * length)).fill(7)];
            return [name, new Float32Array(make(4 * length)).fill(7)];
          }),
        );
        const got = results(sn, op, x, { ...plain(op), ...options, ...receivers });
        expectSame(op, got, expected, dtype);
        expect(got.dScale).toBe(receivers.dScaleOut);
        expect(got.dBias).toBe(receivers.dBiasOut);
      }
    }
  });
});

describe('options that do things when they are read', () => {
  const names = [...new Set(allOps.flatMap((op) => Object.keys(valid[op](arrays()))))];

  test.each(allOps)("%s lets the user's own error through", (op) => {
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
        call(sn, op, a.x, options, a.dy);
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
    for (const op of allOps) {
      for (const name of ['shape', 'axes', 'lengths', ...vectors[op]]) {
        if (!(name in valid[op](arrays()))) continue;
        const a = arrays();
        const mine = new Error('mine');
        const elements = Object.defineProperty(Array.from(valid[op](a)[name] as number[]), 0, {
          get() {
            throw mine;
          },
        });
        expect(() => call(sn, op, a.x, { ...valid[op](a), [name]: elements }, a.dy)).toThrow(mine);
        expect(a.isUntouched()).toBe(true);
      }
    }
    expect(fingerprint(sn)).toBe(before);
  });

  test('each option is read once', () => {
    for (const op of allOps) {
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

  test.each(allOps.flatMap((op) => ['detaches', 'shrinks'].map((change) => [op, change] as const)))(
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

  test.each(backwardOps)('a getter of %s that detaches dy harms nothing but its own call', (op) => {
    const before = fingerprint(sn, [op]);
    for (const name of Object.keys(valid[op](arrays()))) {
      const a = arrays();
      const options = valid[op](a);
      const value = options[name];
      Object.defineProperty(options, name, {
        enumerable: true,
        get() {
          if (a.dy.length > 0) detach(a.dy);
          return value;
        },
      });
      const failure = expect.objectContaining({ code: 'ERR_TYPE', op, message: expect.stringContaining('dy') });
      expect(() => call(sn, op, a.x, options, a.dy)).toThrow(failure);
      expect(a.isUntouched()).toBe(true);
      expect(fingerprint(sn, [op])).toBe(before);
    }
  });

  test.each(allOps)('an element that detaches x of %s when it is read is read before x is checked', (op) => {
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
      expect(() => call(sn, op, a.x, { ...given, [name]: elements }, a.dy)).toThrow(failure);
    }
  });

  test.each(allOps)('what a getter of %s detaches is noticed, whatever it is', (op) => {
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
        expect(() => call(sn, op, a.x, trap, a.dy)).toThrow(failure);
        expect(a.isUntouched()).toBe(true);
      }
    }
  });
});

describe('arrays of classes that lie', () => {
  const properties = ['length', 'byteLength', 'byteOffset', 'buffer'] as const;

  /** An array of the same values in the middle of a buffer, whose own properties say something else, and do something. */
  function lying<A extends ArrayBufferView & ArrayLike<number>>(values: A, onRead: (lie: A) => void): A {
    const kind = values.constructor as new (buffer: ArrayBuffer, offset: number, length: number) => A;
    const lie = new kind(new ArrayBuffer(values.byteLength + 64), 16, values.length);
    (lie as unknown as Float32Array).set(values);
    const false_: Record<(typeof properties)[number], unknown> = {
      length: 1e6,
      byteLength: 0,
      byteOffset: 0,
      buffer: new ArrayBuffer(8),
    };
    for (const name of properties) {
      Object.defineProperty(lie, name, {
        get() {
          onRead(lie);
          return false_[name];
        },
      });
    }
    return lie;
  }

  test.each(allOps)('what an array of %s says of itself is neither believed nor asked', (op) => {
    for (const dtype of dtypes) {
      // As many values as there are, whoever asks; read as a getter would after they have been checked.
      let reads = 0;
      const lie = <A extends ArrayBufferView & ArrayLike<number>>(values: A) =>
        lying(values, (each) => {
          reads += 1;
          if (each instanceof Int32Array) each.fill(1e9);
        });
      const { x, options } = ofType(dtype, draw(12, 1));
      const given = dtype === 'float32' ? valid[op](arrays()) : { ...plain(op), ...options };
      const lies = (of: Options) => {
        const views = Object.entries(of).filter(([, value]) => ArrayBuffer.isView(value));
        return { ...of, ...Object.fromEntries(views.map(([name, value]) => [name, lie(value as Float32Array)])) };
      };
      const expected = results(sn, op, x, given);
      const liars = lies(given);
      const got = results(sn, op, lie(x), liars, lie(slopeOf(x)));
      expect(reads).toBe(0);
      expect(Object.keys(got)).toEqual(Object.keys(expected));
      for (const [name, values] of Object.entries(expected)) {
        if (!ArrayBuffer.isView(values)) continue;
        const floats = got[name as keyof Results] as Floats;
        const plainly = Array.from({ length: (values as Floats).length }, (_, i) => floats[i] as number);
        expect(plainly).toEqual([...(values as Floats)]);
      }
    }
  });

  test('an overlap that an array says it does not have is one', () => {
    for (const op of withBackward(normalizations)) {
      const memory = draw(16, 1);
      const out = memory.subarray(4);
      for (const name of properties) Object.defineProperty(out, name, { value: name === 'buffer' ? {} : 0 });
      const failure = expect.objectContaining({ code: 'ERR_OVERLAP', op });
      expect(() => call(sn, op, memory.subarray(0, 12), { ...plain(op), out }, draw(12, 2))).toThrow(failure);
      expect(memory).toEqual(draw(16, 1));
    }
  });

  test('an array out of the bounds of its buffer has no values, which are enough for an empty shape', () => {
    for (const op of allOps.filter((each) => each !== 'batchNormTraining' && each !== 'batchNormTrainingBackward')) {
      const shape = [0, ...shapes[op].slice(1)];
      for (const kind of [Float32Array, Float64Array, Uint16Array] as unknown as Float32ArrayConstructor[]) {
        const given = { ...plain(op), shape, ...(kind.BYTES_PER_ELEMENT === 2 && { dtype: 'float16' }) };
        const expected = results(sn, op, new kind(0), given, new kind(0));
        expect(results(sn, op, outOfBounds(kind), given, outOfBounds(kind))).toEqual(expected);
        if (op === 'moments') continue;
        const out = outOfBounds(kind);
        expect(resultOf(results(sn, op, new kind(0), { ...given, out }, new kind(0)))).toBe(out);
      }
    }
    const lengths = outOfBounds(Int32Array);
    const meanOut = outOfBounds(Float32Array);
    expect(sn.layerNorm(new Float32Array(0), { shape: [0, 4], lengths, meanOut })).toHaveLength(0);
    const scale = outOfBounds(Uint16Array);
    const failure = expect.objectContaining({ code: 'ERR_SHAPE' });
    expect(() => sn.layerNorm(new Uint16Array(4), { dtype: 'float16', scale })).toThrow(failure);
  });

  test('lengths that a worker changes meanwhile harm nobody', async () => {
    const shared = new Int32Array(new SharedArrayBuffer(12)).fill(2);
    const code = `
      const { shared, done } = require('node:worker_threads').workerData;
      require('node:worker_threads').parentPort.postMessage('ready');
      while (!Atomics.load(done, 0)) { shared[1] = 1e9; shared[1] = 2; }
    `;
    const done = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(code, { eval: true, workerData: { shared, done } });
    await once(worker, 'message');
    const instance = await load({});
    const before = fingerprint(instance);
    const x = draw(12, 1);
    for (let i = 0; i < 20_000; ++i) {
      try {
        instance.layerNorm(x, { shape: [3, 4], lengths: shared });
      } catch (error) {
        // Wrong when they were read.
        expect(error).toMatchObject({ name: 'NormError', code: 'ERR_RANGE' });
      }
    }
    Atomics.store(done, 0, 1);
    await once(worker, 'exit');
    expect(fingerprint(instance)).toBe(before);
    instance.dispose();
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
    for (const op of withBackward(normalizations)) {
      const expected = firstOf(results(sn, op, x, plain(op)));
      const out = new Refusing(12);
      const dy = new Refusing((slopeOf(x) as Float32Array<ArrayBuffer>).buffer);
      results(sn, op, new Refusing(x.slice().buffer), { ...plain(op), out }, dy);
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
    for (const op of allOps) {
      const column = new Column(x.slice().buffer);
      const dy = new Column((slopeOf(x) as Float32Array<ArrayBuffer>).buffer);
      expectSame(op, results(sn, op, column, plain(op), dy), results(sn, op, x, plain(op)));
    }
  });
});
