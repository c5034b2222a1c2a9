import { createContext, runInContext } from 'node:vm';
import { load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { arrays, call, fingerprint, normalizations, type Options, ops, valid } from './calls.ts';
import { detach, resizableBuffer } from './data.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

describe('what looks wrong and is right', () => {
  test('unknown options that are undefined or null, and options that are null', () => {
    for (const op of ops) {
      const a = arrays();
      const nothing = { stranger: undefined, interpolation: null, eps: undefined };
      call(sn, op, a.x, { ...valid[op](a), ...nothing });
    }
    const a = arrays();
    expect(sn.layerNorm(a.x, null as never)).toHaveLength(12);
  });

  test('options without a prototype, frozen, of a class, with symbols', () => {
    const { x } = arrays();
    class Options {
      shape = [3, 4];
      epsilon = 1;
    }
    const expected = sn.layerNorm(x, { shape: [3, 4], epsilon: 1 });
    const bare = Object.assign(Object.create(null), new Options());
    const inherited = Object.create({ shape: [3, 4], epsilon: 1 });
    const frozen = Object.freeze({ shape: Object.freeze([3, 4]), epsilon: 1, [Symbol('mine')]: 1 });
    for (const options of [bare, inherited, frozen, new Options()]) expect(sn.layerNorm(x, options)).toEqual(expected);
  });

  test('arrays of another realm', () => {
    const a = arrays();
    const context = createContext({});
    const foreign = (values: Float32Array, kind = 'Float32Array') =>
      runInContext(`${kind}.from([${[...values].map(String)}])`, context);
    for (const op of normalizations) {
      const options = valid[op](a);
      const foreigners: Options = { shape: runInContext('[3, 4]', context) };
      for (const name of ['scale', 'bias', 'mean', 'variance'] as const) {
        if (!(name in options)) continue;
        foreigners[name] = foreign(a[name], name === 'bias' ? 'Array' : name === 'mean' ? 'Float64Array' : undefined);
      }
      const out = foreign(a.out);
      expect(out).not.toBeInstanceOf(Float32Array);
      call(sn, op, a.x, options);
      call(sn, op, foreign(a.x), { ...options, ...foreigners, out });
      expect([...out]).toEqual([...a.out]);
    }
    const options = runInContext('({ shape: [3, 4], axes: [1] })', context);
    expect(sn.moments(foreign(a.x), options)).toEqual(sn.moments(a.x, { shape: [3, 4] }));
    expect(() => sn.moments(foreign(a.x, 'Float64Array'))).toThrow('a Float64Array');
  });

  test('subclasses of Float32Array', () => {
    class Column extends Float32Array {}
    const { x } = arrays();
    const out = new Column(12);
    expect(sn.layerNorm(Column.from(x), { out })).toBe(out);
    expect([...out]).toEqual([...sn.layerNorm(x)]);
    expect(sn.layerNorm(Column.from(x))).toEqual(sn.layerNorm(x));
  });

  test('16 extents, and -0 as a number', () => {
    const { x } = arrays();
    const shape = [3, ...Array.from({ length: 14 }, () => 1), 4];
    expect(sn.layerNorm(x, { shape })).toEqual(sn.layerNorm(x, { shape: [3, 4] }));
    expect(sn.moments(x, { shape, axes: -0 })).toEqual(sn.moments(x, { shape: [3, 4], axes: 0 }));
    expect(sn.layerNorm(x, { epsilon: -0 })).toEqual(sn.layerNorm(x, { epsilon: 0 }));
    expect(sn.layerNorm(x.subarray(0, 0), { shape: [-0, 4] })).toHaveLength(0);
  });
});

describe('options that do things when they are read', () => {
  test.each(ops)("%s lets the user's own error through", (op) => {
    const before = fingerprint(sn);
    for (const name of [...Object.keys(valid[op](arrays())), 'epsilon', 'axis', 'axes']) {
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
      const known = !(['epsilon', 'axis', 'axes'].includes(name) && failure instanceof NormError);
      if (known) expect(failure).toBe(mine);
      expect(a.isUntouched()).toBe(true);
    }
    expect(fingerprint(sn)).toBe(before);
  });

  test('each option is read once', () => {
    for (const op of ops) {
      const a = arrays();
      const reads: Record<string, number> = {};
      const options = {};
      for (const [name, value] of Object.entries(valid[op](a))) {
        const get = () => {
          reads[name] = (reads[name] ?? 0) + 1;
          return value;
        };
        Object.defineProperty(options, name, { enumerable: true, get });
      }
      call(sn, op, a.x, options);
      expect(reads).toEqual(Object.fromEntries(Object.keys(valid[op](a)).map((name) => [name, 1])));
    }
  });

  test.each(['detaches', 'shrinks'])('a getter that %s x harms nothing but its own call', async (change) => {
    const instance = await load({});
    const before = fingerprint(instance);
    // More than the memory that the instance starts with: a kernel that believed the old length would leave it.
    const buffer = resizableBuffer(4e6, 4e6);
    const x = new Float32Array(buffer);
    const options = {
      shape: [x.length],
      get bias() {
        if (change === 'shrinks') buffer.resize(16);
        else detach(x);
        return undefined;
      },
    };
    let failure: unknown;
    try {
      instance.layerNorm(x, options);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    expect(['ERR_TYPE', 'ERR_SHAPE']).toContain((failure as NormError).code);
    expect(fingerprint(instance)).toBe(before);
    instance.dispose();
  });

  test('an element that detaches x when it is read is read before x is checked', () => {
    const { x, bias } = arrays();
    const detaching = Object.defineProperty([...bias], 3, {
      get() {
        detach(x);
        return 1;
      },
    });
    const failure = expect.objectContaining({ code: 'ERR_TYPE' });
    expect(() => sn.layerNorm(x, { shape: [3, 4], bias: detaching })).toThrow(failure);
  });
});

describe('arrays of classes that lie', () => {
  test('a length that is not the true one is refused', () => {
    const x = new Float32Array(19);
    Object.defineProperty(x, 'length', { value: 2 });
    expect(() => sn.layerNorm(x)).toThrowError(expect.objectContaining({ code: 'ERR_TYPE' }));
  });

  test('a method of a subclass is not called to write out', () => {
    class Refusing extends Float32Array {
      override set(): void {
        throw new RangeError('called');
      }
    }
    const out = new Refusing(2);
    sn.layerNorm(new Float32Array([1, 3]), { out, epsilon: 0 });
    expect([...out]).toEqual([-1, 1]);
  });
});
