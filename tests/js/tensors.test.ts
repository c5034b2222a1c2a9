// Tensors: they give what arrays give, to the bit, live as long as they are said to, and are not copied.

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { freemem } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, load, NormError, type Simdnorm, type Tensor } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type AnyOp,
  allOps,
  arrays,
  call,
  type DType,
  dtypes,
  type Floats,
  fingerprint,
  isBackward,
  type Options,
  ofType,
  required,
  shapes,
  valid,
  vectors,
  written,
} from './calls.ts';
import { entry, runModule } from './child.ts';
import { canary, detach, draw, drawVariance, Random, revoked } from './data.ts';
import { fromBits, narrow, toBits, widen } from './float16-conversion.ts';
import {
  Argument,
  bytesOf,
  type Case,
  caseOf,
  casesOf,
  compute,
  type Data,
  expectSame,
  type Form,
  forms,
  isTensor,
  pick,
  plain,
  randomPlan,
  resultOf,
  valuesOf,
} from './forms.ts';
import { expectBits } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load({});
});

/** The failure of a call that must fail. */
function failureOf(fail: () => unknown): NormError {
  try {
    fail();
  } catch (error) {
    expect(error).toBeInstanceOf(NormError);
    return error as NormError;
  }
  throw new Error('it should have failed');
}

describe('what arrays give, to the bit', () => {
  for (const op of allOps) {
    test.each(dtypes)(`${op} of %s`, (dtype) => {
      const { used } = sn.memory;
      const random = new Random(allOps.indexOf(op));
      for (const c of casesOf(op, dtype)) {
        const expected = compute(sn, c, plain);
        expect(Object.keys(expected).length).toBeGreaterThan(0);
        // Each argument by itself, and all alike.
        for (const form of forms) {
          for (const name of [...Object.keys(c.inputs), ...Object.keys(c.outputs)]) {
            const one = (each: string): Form => (each === name ? form : 'array');
            expectSame(c, compute(sn, c, { ...plain, form: one }), expected);
          }
          for (const type of dtypes)
            expectSame(c, compute(sn, c, { ...plain, form: () => form, type: () => type }), expected);
        }
        for (let i = 0; i < 40; ++i) expectSame(c, compute(sn, c, randomPlan(c, random)), expected);
      }
      expect(sn.memory.used).toBe(used);
    });
  }
});

describe('what arrays give, in particular cases', () => {
  test('parameters of another type are converted', () => {
    for (const op of allOps) {
      for (const dtype of dtypes) {
        const a = arrays();
        const { x, options } = ofType(dtype, a.x);
        for (const name of vectors[op]) {
          // Thirds, which every type rounds in its own way.
          const thirds = Float64Array.from(
            a.variance.subarray(0, shapes[op].length + 9),
            (value) => Math.abs(value) / 3,
          );
          const given = valid[op](a)[name] as Float32Array;
          for (const type of dtypes) {
            const values = ofType(type, thirds.subarray(0, given.length)).x;
            const parameter = sn.tensor([given.length], values, type);
            const common = { ...required[op], shape: shapes[op], ...options };
            const numbers = type === 'float16' ? widen(values) : values;
            const expected = resultOf(call(sn, op, x, { ...common, [name]: numbers }));
            for (const form of [parameter, parameter.subarray()]) {
              const got = resultOf(call(sn, op, x, { ...common, [name]: form }));
              expectBits({ op, shape: shapes[op] }, got as Floats, expected as Floats);
            }
            parameter.free();
          }
        }
      }
    }
  });

  test("a Tensor's shape is that of the call, unless another is given", () => {
    const x = sn.tensor([3, 4], draw(12, 1));
    const by = (shape: number[]) => sn.layerNorm(draw(12, 1), { shape });
    expect(sn.layerNorm(x).data).toEqual(by([3, 4]));
    const reshaped = sn.layerNorm(x, { shape: [2, 6] });
    expect(reshaped.data).toEqual(by([2, 6]));
    expect(reshaped.shape).toEqual([2, 6]);
    expect(sn.layerNorm(x, { shape: null as never }).shape).toEqual([3, 4]);
    // Windows are flat.
    expect(sn.layerNorm(x.subarray()).data).toEqual(by([12]));
    // The gradient's is that of x.
    const dy = sn.tensor([12], draw(12, 2));
    const { dx } = sn.layerNormBackward(dy, x);
    expect(dx.shape).toEqual([3, 4]);
    expect(dx.data).toEqual(sn.layerNormBackward(draw(12, 2), draw(12, 1), { shape: [3, 4] }).dx);
    const out = sn.tensor([4, 3]);
    expect(sn.layerNorm(x, { out })).toBe(out);
    expect(out.shape).toEqual([4, 3]);
    expect(out.data).toEqual(by([3, 4]));
  });

  test('an array out of a Tensor x, and a Tensor out of an array x', () => {
    for (const dtype of dtypes) {
      const { x, options } = ofType(dtype, draw(12, 1));
      const given = { shape: [3, 4], ...options };
      const expected = call(sn, 'layerNorm', x, given) as Floats;
      const tensor = sn.tensor([3, 4], x, dtype);
      const array = ofType(dtype, new Float32Array(12)).x;
      expect(call(sn, 'layerNorm', tensor, { out: array })).toBe(array);
      expect(array).toEqual(expected);
      expect(valuesOf(tensor)).toEqual(x);
      const out = sn.tensor([12], null, dtype);
      expect(call(sn, 'layerNorm', x, { ...given, out })).toBe(out);
      expect(valuesOf(out)).toEqual(expected);
    }
  });

  test('statistics and gradients are arrays, unless Tensors are given', () => {
    for (const dtype of dtypes) {
      const x = sn.tensor([6, 2], ofType(dtype, draw(12, 1)).x, dtype);
      const kind = dtype === 'float64' ? Float64Array : Float32Array;
      const { y, mean, variance, invStd } = sn.batchNormTraining(x);
      expect(isTensor(y)).toBe(true);
      const { dx, dScale, dBias } = sn.batchNormTrainingBackward(x, x);
      expect(isTensor(dx)).toBe(true);
      const { mean: alone } = sn.moments(x, { axes: 0 });
      for (const values of [mean, variance, invStd, dScale, dBias, alone]) expect(values).toBeInstanceOf(kind);
    }
  });

  test('empty ones', () => {
    for (const dtype of dtypes) {
      const x = sn.tensor([0, 4], null, dtype);
      const scale = sn.tensor([4], [1, 2, 3, 4]);
      const out = sn.tensor([0], [], dtype);
      const statistics = dtype === 'float64' ? 'float64' : 'float32';
      const meanOut = sn.tensor([0], null, statistics);
      const y = sn.layerNorm(x, { scale, meanOut });
      expect([y.length, ...y.shape]).toEqual([0, 0, 4]);
      expect(sn.layerNorm(x, { out: x, scale })).toBe(x);
      expect(sn.layerNorm(x, { out, meanOut: meanOut.subarray(0, 0) })).toBe(out);
      expect(sn.layerNorm(x.subarray(0, 0), { shape: [0, 3] })).toHaveLength(0);
    }
  });
});

describe('overlap is by address, as that of arrays', () => {
  const memoryOf = () => drawVariance(64, 6);
  type View = (memory: Tensor, begin: number, end: number) => Data;
  const window: View = (memory, begin, end) => memory.subarray(begin, end);
  const view: View = (memory, begin, end) => (memory.data as Float32Array).subarray(begin, end);
  const pairs = [window, view].flatMap((one) => [window, view].map((other) => [one, other] as const));

  /** What comes of a call of which two arguments lie in one memory. */
  function outcomeOf(op: AnyOp, given: (a: Options) => Options, memory: () => Float32Array): string {
    const a = arrays();
    const { x = a.x, dy = a.dy, ...options } = { ...valid[op](a), ...given(valid[op](a)) };
    let failure = 'none';
    try {
      call(sn, op, x, options, dy);
    } catch (error) {
      failure = (error as NormError).message;
    }
    const all = [memory(), ...Object.values(a).filter((value) => ArrayBuffer.isView(value))];
    return [failure, ...all.map((values) => Buffer.from(bytesOf(values)).toString('hex'))].join();
  }

  for (const op of allOps.filter((each) => each !== 'moments')) {
    test(op, () => {
      const lengthOf: Record<string, number> = { x: 12, ...(isBackward(op) ? { dy: 12 } : {}) };
      for (const [name, value] of Object.entries(valid[op](arrays()))) {
        if (value instanceof Float32Array) lengthOf[name] = value.length;
      }
      const memory = sn.tensor([64]);
      const seen = { none: 0, shared: 0 };
      for (const name of Object.keys(written[op])) {
        for (const [other, otherLength] of Object.entries(lengthOf)) {
          if (other === name) continue;
          const length = lengthOf[name] as number;
          for (const by of [0, 1, -1, length - 1, 1 - otherLength, length, -otherLength]) {
            const places = [30, 30 + length, 30 + by, 30 + by + otherLength] as const;
            const array = memoryOf();
            const given = {
              [name]: array.subarray(places[0], places[1]),
              [other]: array.subarray(places[2], places[3]),
            };
            const expected = outcomeOf(
              op,
              () => given,
              () => array,
            );
            if (expected.startsWith('none')) ++seen.none;
            if (expected.includes('shares memory')) ++seen.shared;
            for (const [one, another] of pairs) {
              (memory.data as Float32Array).set(memoryOf());
              const inTensor = () => ({
                [name]: one(memory, places[0], places[1]),
                [other]: another(memory, places[2], places[3]),
              });
              const got = outcomeOf(op, inTensor, () => memory.data as Float32Array);
              if (got === expected) continue;
              throw new Error(
                `${name} and ${other}, ${by} further: ${got.slice(0, 200)}, not ${expected.slice(0, 200)}`,
              );
            }
          }
        }
      }
      expect(seen.none).toBeGreaterThan(0);
      expect(seen.shared).toBeGreaterThan(0);
      memory.free();
    });
  }

  test('out, dy and x in one place', () => {
    for (const op of allOps.filter(isBackward)) {
      for (const dtype of dtypes) {
        const { x, options } = ofType(dtype, draw(12, 1));
        const given = { ...required[op], shape: shapes[op], ...options };
        const expected = resultOf(call(sn, op, x, given, x)) as Floats;
        const one = sn.tensor(shapes[op], x, dtype);
        call(sn, op, one, { ...given, out: one.subarray() }, one.data);
        expectBits({ op, shape: shapes[op] }, valuesOf(one), expected);
        one.free();
      }
    }
  });

  test('x, residual and residualOut in one place, and parameters in one', () => {
    for (const op of ['layerNorm', 'rmsNorm'] as const) {
      for (const dtype of dtypes) {
        const { x, options } = ofType(dtype, draw(12, 1));
        const residualOut = x.slice();
        const expected = call(sn, op, x, { shape: [3, 4], ...options, residual: x, residualOut }) as Floats;
        const one = sn.tensor([3, 4], x, dtype);
        const y = call(sn, op, one, { residual: one, residualOut: one }) as Tensor;
        expectBits({ op, shape: [3, 4] }, valuesOf(y), expected);
        expectBits({ op, shape: [3, 4], output: 'residualOut' }, valuesOf(one), residualOut);
        const failure = failureOf(() => call(sn, op, one, { residual: one, residualOut: one, out: one }));
        expect(failure.code).toBe('ERR_OVERLAP');
      }
    }
    const all = drawVariance(4, 1);
    const one = sn.tensor([4], all);
    const shape = [1, 4];
    const { data } = sn.batchNorm(one, { shape, scale: one, bias: one, mean: one.subarray(), variance: one.data });
    expect(data).toEqual(sn.batchNorm(all, { shape, scale: all, bias: all, mean: all, variance: all }));
  });

  test('parameters that are converted may not be in what is written either', () => {
    for (const op of allOps.filter((each) => vectors[each].length > 0)) {
      for (const name of vectors[op]) {
        const { length } = valid[op](arrays())[name] as Float32Array;
        const memory = sn.tensor([64], drawVariance(64, 1), 'float64');
        const parameter = memory.subarray(1, 1 + length);
        const out = new Float32Array((memory.data as Float64Array).buffer, parameter.data.byteOffset, 12);
        for (const given of [parameter, parameter.data]) {
          const failure = failureOf(() =>
            call(sn, op, draw(12, 1), { ...required[op], shape: shapes[op], out, [name]: given }),
          );
          expect(failure).toMatchObject({
            code: 'ERR_OVERLAP',
            message: expect.stringContaining(`out shares memory with ${name}`),
          });
        }
        memory.free();
      }
    }
  });
});

describe('layers', () => {
  const make = (instance: Simdnorm) => ({
    LayerNorm: new instance.LayerNorm(6),
    RmsNorm: new instance.RmsNorm([6]),
    GroupNorm: new instance.GroupNorm(2, 4),
    InstanceNorm: new instance.InstanceNorm(4),
    BatchNorm: new instance.BatchNorm(4),
  });
  const shape = [2, 4, 6];
  const names = ['LayerNorm', 'RmsNorm', 'GroupNorm', 'InstanceNorm', 'BatchNorm'] as const;
  const stateOf = (layer: { toJSON(): object; parameters: readonly { gradient: Float32Array }[] }) =>
    JSON.stringify([layer, layer.parameters.map(({ gradient }) => [...gradient])]);

  test.each(names)('%s: Tensors, arrays and mixtures of them give the same bits', (name) => {
    for (const dtype of dtypes) {
      const values = [1, 2, 3].map((seed) => ofType(dtype, draw(48, seed)));
      const slopes = [4, 5, 6].map((seed) => ofType(dtype, draw(48, seed)).x);
      const options = { shape, ...(values[0]?.options as { dtype?: 'float16' }) };
      const draws = (layer: ReturnType<typeof make>[typeof name], kinds: readonly Form[], outs: readonly string[]) => {
        const bits: Floats[] = [];
        const made: Argument[] = [];
        const put = (each: ArrayLike<number>, i: number, begin: number) => {
          const argument = new Argument(
            sn,
            kinds[i % kinds.length] as Form,
            dtype === 'float16' ? widen(each) : each,
            dtype,
            shape,
            begin,
          );
          made.push(argument);
          return argument.given() as Float32Array;
        };
        const keep = (result: unknown) => bits.push(valuesOf(result as Data).slice());
        const outOf = (i: number) =>
          outs[i % outs.length] === 'absent' ? {} : { out: put(new Float32Array(48), i, 3) };
        const inputs = values.map(({ x }, i) => put(x, i, 1));
        // Uint16Arrays need to be told what they are, Tensors may be.
        for (const [i, x] of inputs.entries()) keep(layer.forward(x, { ...options, ...outOf(i + 1) }));
        for (const [i, dy] of slopes.entries()) keep(layer.backward(put(dy, i + 1, 5), outOf(i)));
        layer.eval();
        keep(layer.forward(inputs[0] as Float32Array, { ...options, ...outOf(0) }));
        for (const argument of made) argument.free();
        return { bits, state: stateOf(layer) };
      };
      const expected = draws(make(sn)[name], ['array'], ['absent']);
      for (const kinds of [
        ['tensor'],
        ['tensorWindow'],
        ['data'],
        ['tensor', 'array'],
        ['dataWindow', 'tensor', 'window'],
      ] as const) {
        for (const outs of [['absent'], ['own'], ['own', 'absent']]) {
          const got = draws(make(sn)[name], kinds, outs);
          for (const [i, each] of got.bits.entries()) expectBits({ op: name, shape }, each, expected.bits[i] as Floats);
          expect(got.state).toBe(expected.state);
        }
      }
    }
  });

  test.each(names)('%s: an x that is freed before its backward call', (name) => {
    const layer = make(sn)[name];
    const twin = make(sn)[name];
    const x = [draw(48, 1), draw(48, 2)] as const;
    const dy = draw(48, 3);
    for (const each of x) twin.forward(each, { shape });
    const first = sn.tensor(shape, x[0]);
    const second = sn.tensor(shape, x[1]);
    layer.forward(first);
    layer.forward(second);
    second.free();
    const before = stateOf(layer);
    for (let i = 0; i < 2; ++i) {
      for (const out of [undefined, new Float32Array(48).fill(canary)]) {
        const failure = failureOf(() => layer.backward(dy, { out }));
        expect(failure).toMatchObject({ code: 'ERR_FREED', op: name, message: expect.stringMatching(/\bx\b.*freed/) });
        expect(out?.every((value) => value === Math.fround(canary))).not.toBe(false);
      }
      expect(stateOf(layer)).toBe(before);
    }
    expect(before).toBe(stateOf(twin));
    first.free();
  });

  test.each(names)('%s: freed Tensors and those of another instance change nothing', async (name) => {
    const other = await load({});
    const layer = make(sn)[name];
    const x = sn.tensor(shape, draw(48, 1));
    layer.forward(x);
    const before = stateOf(layer);
    const freed = sn.tensor(shape, draw(48, 2));
    freed.free();
    const foreign = other.tensor(shape, draw(48, 2));
    for (const [code, wrong] of [
      ['ERR_FREED', freed],
      ['ERR_TYPE', foreign],
    ] as const) {
      const calls = [
        () => layer.forward(wrong),
        () => layer.forward(draw(48, 1), { shape, out: wrong as never }),
        () => layer.backward(wrong),
        () => layer.backward(draw(48, 2), { out: wrong as never }),
      ];
      for (const wrongCall of calls) expect(failureOf(wrongCall)).toMatchObject({ code, op: name });
      expect(stateOf(layer)).toBe(before);
    }
    // The one forward call waits still.
    layer.backward(draw(48, 3));
    expect(failureOf(() => layer.backward(draw(48, 3))).code).toBe('ERR_STATE');
    x.free();
    other.dispose();
  });

  test('a freed out lies nowhere, whatever waits where it was', () => {
    const layer = new sn.LayerNorm(6);
    const freed = sn.tensor([6]);
    freed.free();
    const x = sn.tensor([6], draw(6, 1));
    layer.forward(x);
    for (const fail of [
      () => layer.forward(draw(6, 2), { out: freed as never }),
      () => layer.forward(x, { out: freed }),
      () => layer.backward(draw(6, 2), { out: freed as never }),
    ]) {
      expect(failureOf(fail)).toMatchObject({ code: 'ERR_FREED', op: 'LayerNorm' });
    }
    x.free();
  });

  test('out may not be an x that waits, by address', () => {
    const layer = new sn.LayerNorm(6);
    const x = sn.tensor([8, 6], draw(48, 1));
    layer.forward(x);
    const windows = [x, x.data, x.subarray(47), x.data.subarray(0, 1)];
    for (const out of windows) {
      const { length } = out;
      const given = { shape: [length / 6, 6], out: out as never };
      if (length === 48) expect(failureOf(() => layer.forward(draw(48, 2), given)).code).toBe('ERR_OVERLAP');
    }
    expect(failureOf(() => layer.forward(x, { out: x })).code).toBe('ERR_OVERLAP');
    const memory = sn.tensor([90]);
    layer.forward(memory.subarray(0, 48), { shape: [8, 6] });
    expect(failureOf(() => layer.forward(x, { out: memory.subarray(42) })).code).toBe('ERR_OVERLAP');
    expect(failureOf(() => layer.forward(x, { out: memory.data.subarray(42) as never })).code).toBe('ERR_OVERLAP');
    // The x that a backward call answers is its own.
    layer.backward(sn.tensor([48]), { out: memory.subarray(0, 48) });
    const dx = layer.backward(draw(48, 3), { out: x as never });
    expect(dx).toBe(x);
  });
});

// ---------------------------------------------------------------- what is made

/** Every float16, the numbers half way between neighbours, and those next to them on either side. */
function aroundHalves(): Float64Array {
  const numbers: number[] = [
    5e-324,
    1e-300,
    2 ** -26,
    65519.999,
    65520,
    65535,
    1e5,
    1e300,
    Number.MAX_VALUE,
    Infinity,
    NaN,
  ];
  for (let bits = 0; bits < 0x7c00; ++bits) {
    const half = fromBits(bits);
    const middle = bits === 0x7bff ? 65520 : (half + fromBits(bits + 1)) / 2;
    numbers.push(half, middle, middle * (1 - 2 ** -52), middle * (1 + 2 ** -52));
  }
  return Float64Array.from([...numbers, ...numbers.map((number) => -number)]);
}

describe('tensor()', () => {
  const fresh = [1, -0, 1 / 3, -65504, 2 ** -24, NaN, -Infinity, 0.1];
  /** The values by the definition of each type. */
  const rounded = (dtype: DType, values: ArrayLike<number>) => ofType(dtype, values).x;

  test.each(dtypes)('%s of values of every kind', async (dtype) => {
    const other = await load({});
    const { used } = sn.memory;
    const kinds: [string, ArrayLike<number>, () => unknown][] = [
      ['numbers', fresh, () => [...fresh]],
      ['float32', Float32Array.from(fresh), () => Float32Array.from(fresh)],
      ['float64', fresh, () => Float64Array.from(fresh)],
      ['a window', fresh, () => Float64Array.from([7, ...fresh, 7]).subarray(1, 9)],
      [
        'shared memory',
        Float32Array.from(fresh),
        () => {
          const shared = new Float32Array(new SharedArrayBuffer(32));
          shared.set(fresh);
          return shared;
        },
      ],
    ];
    for (const instance of [sn, other]) {
      for (const type of dtypes) {
        const values = rounded(type, fresh);
        const numbers = type === 'float16' ? widen(values) : values;
        const make = () => instance.tensor([8], values, type);
        kinds.push([`a Tensor of ${type}`, numbers, make]);
        kinds.push([
          `a window of a Tensor of ${type}`,
          numbers,
          () => instance.tensor([10], [7, ...fresh, 7], type).subarray(1, 9),
        ]);
        if (type !== 'float16') kinds.push([`the data of a Tensor of ${type}`, numbers, () => make().data]);
      }
    }
    if (dtype === 'float16') kinds.push(['bits', widen(narrow(fresh)), () => narrow(fresh)]);
    if (dtype === 'float16')
      kinds.push(['its own data', widen(narrow(fresh)), () => sn.tensor([8], fresh, 'float16').data]);
    for (const [title, numbers, make] of kinds) {
      const given = make();
      const tensor = sn.tensor([2, 4], given as number[], dtype);
      expectBits({ op: title, shape: [2, 4] }, valuesOf(tensor), rounded(dtype, numbers));
      expect([tensor.dtype, tensor.length, ...tensor.shape]).toEqual([dtype, 8, 2, 4]);
      // A copy.
      valuesOf(tensor).fill(5);
      if (isTensor(given)) expectBits({ op: title, shape: [8] }, valuesOf(given), rounded(given.dtype, fresh));
      tensor.free();
      if (isTensor(given)) given.free();
    }
    for (const nothing of [null, undefined]) {
      // Where others have been, zeros are none by themselves.
      sn.tensor([64], new Float64Array(64).fill(7)).free();
      const zeros = sn.tensor([2, 4], nothing, dtype);
      expectBits({ op: 'zeros', shape: [2, 4] }, valuesOf(zeros), rounded(dtype, new Float64Array(8)));
      zeros.free();
    }
    expect(sn.memory.used).toBeLessThan(used + 5000);
    other.dispose();
  });

  test('float16 is rounded once, to nearest even', () => {
    const numbers = aroundHalves();
    const shape = [numbers.length];
    const floats = Float32Array.from(numbers);
    const floatTensor = sn.tensor(shape, floats);
    const doubleTensor = sn.tensor(shape, numbers, 'float64');
    const of = (values: Float32Array | Float64Array | number[] | Tensor) => {
      const tensor = sn.tensor(shape, values, 'float16');
      const bits = valuesOf(tensor).slice();
      tensor.free();
      return bits;
    };
    const what = { op: 'tensor', shape };
    for (const values of [numbers, doubleTensor, [...numbers]]) expectBits(what, of(values), narrow(numbers));
    for (const values of [floats, floatTensor]) expectBits(what, of(values), narrow(floats));
    expect([0.5, 1.5, 2.5].map((steps) => of(new Float64Array(shape[0] as number).fill(steps * 2 ** -24))[0])).toEqual([
      0, 2, 2,
    ]);
    // By the tables of the definition, not by another function.
    const few = [1, 65504, 65519, 65520, 2 ** -14, 2 ** -24, 2 ** -25, -0, 1 + 2 ** -11, 1 + 3 * 2 ** -11];
    const bits = [0x3c00, 0x7bff, 0x7bff, 0x7c00, 0x0400, 0x0001, 0, 0x8000, 0x3c00, 0x3c02];
    const tensor = sn.tensor([10], few, 'float16');
    expect([...valuesOf(tensor)]).toEqual(bits);
    expect(few.map(toBits)).toEqual(bits);
    for (const each of [tensor, floatTensor, doubleTensor]) each.free();
  });

  test('bits stay as they are, and every float16 is what it says', () => {
    const bits = Uint16Array.from({ length: 65536 }, (_, i) => i);
    const tensor = sn.tensor([256, 256], bits, 'float16');
    expect(valuesOf(tensor)).toEqual(bits);
    const wide = sn.tensor([65536], tensor);
    expectBits({ op: 'tensor', shape: [65536] }, wide.data, widen(bits));
    const wider = sn.tensor([65536], tensor, 'float64');
    expectBits({ op: 'tensor', shape: [65536] }, wider.data, widen(bits));
    for (const each of [tensor, wide, wider]) each.free();
  });

  test('what it is', () => {
    const shape = [2, 3];
    const tensor = sn.tensor(shape, [1, 2, 3, 4, 5, 6]);
    shape[0] = 9;
    expect(tensor.shape).toEqual([2, 3]);
    expect(Reflect.set(tensor.shape, 0, 9)).toBe(false);
    expect(tensor.data).toBeInstanceOf(Float32Array);
    expect([...tensor.data]).toEqual([1, 2, 3, 4, 5, 6]);
    tensor.data[1] = 7;
    expect(tensor.data[1]).toBe(7);
    expect(tensor.freed).toBe(false);
    expect(sn.tensor([]).length).toBe(1);
    expect(sn.tensor([], [3]).data[0]).toBe(3);
    expect(sn.tensor(Array(16).fill(1)).length).toBe(1);
    expect(sn.tensor([0, 2 ** 32 - 1]).length).toBe(0);
    expect(sn.tensor([2 ** 32 - 1, 2 ** 32 - 1, 0]).shape).toEqual([2 ** 32 - 1, 2 ** 32 - 1, 0]);
    const { data } = sn.tensor([2], [1, 2], 'float16');
    expect(data.constructor.name).toBe('Float16Array' in globalThis ? 'Float16Array' : 'Uint16Array');
  });

  test('its shape, type and length are its own', () => {
    const tensor = sn.tensor([4], [1, 2, 3, 4]);
    for (const [name, value] of [
      ['length', 5],
      ['shape', [5]],
      ['dtype', 'float64'],
    ] as const) {
      Reflect.set(tensor, name, value);
      Reflect.defineProperty(tensor, name, { get: () => value });
    }
    expect([tensor.dtype, tensor.length, ...tensor.shape]).toEqual(['float32', 4, 4]);
  });

  test('subarray() counts as that of arrays does', () => {
    const array = draw(10, 1);
    for (const dtype of dtypes) {
      const { x } = ofType(dtype, array);
      const tensor = sn.tensor([2, 5], x, dtype);
      const ends = [undefined, 0, 3, 9, 10, 11, -1, -9, -10, -11, 2 ** 40, -(2 ** 40)];
      for (const begin of ends) {
        for (const end of ends) {
          const window = tensor.subarray(begin, end);
          expect(valuesOf(window)).toEqual(x.subarray(begin, end));
          expect(window.shape).toEqual([x.subarray(begin, end).length]);
          expect(valuesOf(tensor.subarray(1, 9).subarray(begin, end))).toEqual(x.subarray(1, 9).subarray(begin, end));
        }
      }
      tensor.subarray(2, 4).data[0] = 9;
      expect(tensor.data[2]).toBe(9);
    }
  });

  const wrongPlaces: unknown[] = [1.5, NaN, '1', 1n, Symbol('1'), {}, Object.create(null), revoked(), true, [1]];

  test.each(wrongPlaces.map((value) => [typeof value, value]))('subarray() with %s', (_, value) => {
    const tensor = sn.tensor([4]);
    for (const given of [[value], [0, value]] as [number, number][]) {
      const failure = failureOf(() => tensor.subarray(...given));
      expect(failure).toMatchObject({
        code: 'ERR_TYPE',
        op: 'subarray',
        message: expect.stringContaining('must be an integer'),
      });
    }
  });

  test('subarray() with null is that without', () => {
    const tensor = sn.tensor([4], [1, 2, 3, 4]);
    expect([...tensor.subarray(null as never, null as never).data]).toEqual([1, 2, 3, 4]);
  });

  const detached = (values: Float32Array | Float64Array | Uint16Array) => {
    detach(values);
    return values;
  };
  const getters = (length: number, at: number, get: () => unknown) =>
    Object.defineProperty(Array(length).fill(1), at, { get });
  type Wrong = [title: string, code: ErrorCode, given: () => unknown[], ...says: string[]];
  const wrong: Wrong[] = [
    ['no shape', 'ERR_TYPE', () => [], 'shape', 'undefined'],
    ['shape null', 'ERR_TYPE', () => [null], 'shape', 'null'],
    ['shape a number', 'ERR_TYPE', () => [3], 'shape', '3'],
    ['shape a string', 'ERR_TYPE', () => ['3'], 'shape', '"3"'],
    ['shape an Int32Array', 'ERR_TYPE', () => [Int32Array.of(3)], 'shape', 'an Int32Array'],
    ['shape an object', 'ERR_TYPE', () => [{ length: 1, 0: 3 }], 'shape', 'Object'],
    ['shape a revoked proxy', 'ERR_TYPE', () => [revoked([])], 'shape'],
    ['shape of strings', 'ERR_TYPE', () => [['3']], 'shape[0]', '"3"'],
    ['shape of bigints', 'ERR_TYPE', () => [[2, 3n]], 'shape[1]', 'bigint'],
    ['shape with a hole', 'ERR_TYPE', () => [Object.assign(Array(3), { 0: 2, 2: 3 })], 'shape[1]', 'undefined'],
    ['shape negative', 'ERR_SHAPE', () => [[2, -3]], 'shape[1]', '-3'],
    [
      'two negatives',
      'ERR_SHAPE',
      () => [
        [-2, -3],
        [1, 2, 3, 4, 5, 6],
      ],
      'shape[0]',
      '-2',
    ],
    [
      'shape broken',
      'ERR_SHAPE',
      () => [
        [1.5, 2],
        [1, 2, 3],
      ],
      'shape[0]',
      '1.5',
    ],
    ['shape NaN', 'ERR_SHAPE', () => [[NaN]], 'shape[0]', 'NaN'],
    ['shape infinite', 'ERR_SHAPE', () => [[Infinity]], 'shape[0]', 'Infinity'],
    ['17 axes', 'ERR_SHAPE', () => [Array(17).fill(1)], 'shape', '16', '17'],
    ['an extent of 2^32', 'ERR_SHAPE', () => [[2 ** 32]], '4294967296'],
    ['an extent of 2^32 beside 0', 'ERR_SHAPE', () => [[0, 2 ** 32]], '4294967296'],
    ['an extent of 2^53', 'ERR_SHAPE', () => [[2 ** 53]]],
    ['extents whose product is no number', 'ERR_SHAPE', () => [[1e308, 1e308, 0]]],
    ['2^31 floats', 'ERR_MEMORY', () => [[2 ** 31]], '8192.0 MiB', '4096.0 MiB'],
    ['2^31 halves', 'ERR_MEMORY', () => [[2 ** 31], null, 'float16'], '4096.0 MiB'],
    ['2^30 floats', 'ERR_MEMORY', () => [[2 ** 30]], '4096.0 MiB'],
    ['2^32 - 1 floats', 'ERR_MEMORY', () => [[2 ** 32 - 1]], '16384.0 MiB'],
    ['2^32 floats', 'ERR_MEMORY', () => [[65536, 65536]], '16384.0 MiB', '4096.0 MiB'],
    ['2^29 doubles', 'ERR_MEMORY', () => [[2 ** 29], null, 'float64'], '4096.0 MiB'],
    ['2^40 floats', 'ERR_MEMORY', () => [[2 ** 20, 2 ** 20]], '4194304.0 MiB'],
    ['2^64 + 4 floats', 'ERR_MEMORY', () => [[2 ** 31, 2 ** 31, 4, 2 ** 31]]],
    ['2^32 floats, of 0 values', 'ERR_SHAPE', () => [[65536, 65536], new Float32Array(0)], '0 values', '4294967296'],
    [
      '2^32 + 4 floats, of 4 values',
      'ERR_SHAPE',
      () => [
        [2 ** 30 + 1, 4],
        [1, 2, 3, 4],
      ],
      '4 values',
      '4294967300',
    ],
    ['too few values', 'ERR_SHAPE', () => [[2, 3], new Float32Array(5)], '5 values', '6', '[2, 3]'],
    ['too many values', 'ERR_SHAPE', () => [[2, 3], new Float64Array(7)], '7 values', '6'],
    ['too few numbers', 'ERR_SHAPE', () => [[2, 3], [1]], '1', '6'],
    ['too many numbers', 'ERR_SHAPE', () => [[2], [1, 2, 3]], '2', '3'],
    ['too few bits', 'ERR_SHAPE', () => [[4], new Uint16Array(3), 'float16'], '3 values', '4'],
    ['a Tensor of another length', 'ERR_SHAPE', () => [[4], sn.tensor([0])], '0 values', '4'],
    ['bits without float16', 'ERR_TYPE', () => [[4], new Uint16Array(4)], 'values', 'Uint16Array'],
    ['bits for float64', 'ERR_TYPE', () => [[4], new Uint16Array(4), 'float64'], 'values', 'Uint16Array'],
    ['integers', 'ERR_TYPE', () => [[4], new Int32Array(4)], 'values', 'an Int32Array'],
    ['bytes', 'ERR_TYPE', () => [[4], new Uint8Array(4), 'float16'], 'values', 'a Uint8Array'],
    ['a buffer', 'ERR_TYPE', () => [[4], new ArrayBuffer(16)], 'values', 'ArrayBuffer'],
    ['a number for all', 'ERR_TYPE', () => [[4], 0], 'values', '0'],
    ['false', 'ERR_TYPE', () => [[4], false], 'values', 'false'],
    ['a string', 'ERR_TYPE', () => [[4], '1234'], 'values', '"1234"'],
    [
      'nested arrays',
      'ERR_TYPE',
      () => [
        [2, 1],
        [[1], [2]],
      ],
      'values[0]',
      'an Array',
      'values.flat(Infinity)',
    ],
    ['numbers with a hole', 'ERR_TYPE', () => [[2], Object.assign(Array(2), { 0: 1 })], 'values[1]', 'undefined'],
    ['numbers with null', 'ERR_TYPE', () => [[2], [1, null]], 'values[1]', 'null'],
    ['numbers as strings', 'ERR_TYPE', () => [[1], ['1'], 'float16'], 'values[0]', '"1"'],
    ['a false Tensor', 'ERR_TYPE', () => [[1], Object.create(sn.tensor([0]))], 'values'],
    ['detached floats', 'ERR_TYPE', () => [[4], detached(new Float32Array(4))], 'values', 'detached'],
    ['detached doubles, none wanted', 'ERR_TYPE', () => [[0], detached(new Float64Array(4))], 'values', 'detached'],
    ['detached bits', 'ERR_TYPE', () => [[4], detached(new Uint16Array(4)), 'float16'], 'values', 'detached'],
    [
      'detached bits, none wanted',
      'ERR_TYPE',
      () => [[0], detached(new Uint16Array(4)), 'float16'],
      'values',
      'detached',
    ],
    [
      'floats that a getter detaches',
      'ERR_TYPE',
      () => {
        const values = new Float32Array(4);
        return [getters(2, 0, () => detach(values) ?? 4), values];
      },
      'detached',
    ],
    [
      'a getter that changes its mind',
      'ERR_TYPE',
      () => {
        let reads = 0;
        return [[2], getters(2, 1, () => (reads++ === 0 ? 'x' : 1))];
      },
      'values[1]',
      '"x"',
    ],
    ['a dtype of no kind', 'ERR_TYPE', () => [[4], null, 'int8'], 'dtype', "'float16'", '"int8"'],
    ['a dtype in capitals', 'ERR_TYPE', () => [[4], null, 'Float32'], 'dtype', '"Float32"'],
    ['a dtype a class', 'ERR_TYPE', () => [[4], null, Float32Array], 'dtype', 'function'],
    ['a dtype a symbol', 'ERR_TYPE', () => [[4], null, Symbol('float32')], 'dtype', 'symbol'],
    ['a dtype in an object', 'ERR_TYPE', () => [[4], null, { dtype: 'float32' }], 'dtype', 'Object'],
  ];

  test.each(wrong)('%s: %s, and nothing is allocated', (_, code, make, ...says) => {
    const given = make() as Parameters<Simdnorm['tensor']>;
    const { used, capacity } = sn.memory;
    const failure = failureOf(() => sn.tensor(...given));
    expect(failure).toMatchObject({ code, op: 'tensor' });
    for (const part of says) expect(failure.message).toContain(part);
    expect(failure.message).toMatch(/^tensor: /);
    expect(sn.memory).toMatchObject({ used, capacity });
  });

  test('dtype null is absent, and an option of 32 bits', () => {
    expect(sn.tensor([1], [0.1], null as never).data).toEqual(Float32Array.of(0.1));
  });

  test('a freed Tensor as values', () => {
    const owner = sn.tensor([4]);
    const window = owner.subarray(1, 3);
    owner.free();
    const { used } = sn.memory;
    for (const [given, length] of [
      [owner, 4],
      [window, 2],
    ] as const) {
      const failure = failureOf(() => sn.tensor([length], given));
      expect(failure).toMatchObject({ code: 'ERR_FREED', op: 'tensor', message: expect.stringContaining('values') });
    }
    expect(sn.memory.used).toBe(used);
  });

  test('a getter that throws, or that makes and frees Tensors itself', () => {
    const { used } = sn.memory;
    const mine = new Error('mine');
    const throws = () => {
      throw mine;
    };
    expect(() => sn.tensor([2], getters(2, 1, throws) as number[])).toThrow(mine);
    expect(() => sn.tensor(getters(2, 1, throws) as number[])).toThrow(mine);
    const inner: Tensor[] = [];
    const makes = () => inner.push(sn.tensor([1000], draw(1000, 1)));
    const tensor = sn.tensor([3], getters(3, 1, makes) as number[]);
    expect([...tensor.data]).toEqual([1, 1, 1]);
    expect(inner).toHaveLength(1);
    expect(inner[0]?.data).toEqual(draw(1000, 1));
    for (const each of [tensor, ...inner]) each.free();
    expect(sn.memory.used).toBe(used);
  });

  test('of arrays in the memory, too, nothing is believed that they say themselves', () => {
    let runs = 0;
    const spy = (values: Floats) => {
      for (const name of ['slice', 'subarray', 'set', 'constructor', 'length', 'buffer', Symbol.iterator]) {
        const get = () => {
          ++runs;
          return undefined;
        };
        Object.defineProperty(values, name, { get });
      }
      return values;
    };
    const x = draw(4, 1);
    const numbers = [1, 2, 3, 4];
    const viewOf = (type: DType) => spy(sn.tensor([4], numbers, type).data as Floats);
    const calls: [string, () => void][] = [];
    for (const type of dtypes) {
      const options = type === 'float16' ? { dtype: 'float16' as const } : {};
      calls.push([
        `scale of ${type}`,
        () => {
          const expected = sn.layerNorm(x, { scale: sn.tensor([4], numbers, type) });
          expect(call(sn, 'layerNorm', x, { ...options, scale: viewOf(type) })).toEqual(expected);
        },
      ]);
      calls.push([
        `x and out of ${type}`,
        () => {
          const out = sn.tensor([4], x, type);
          const expected = valuesOf(sn.layerNorm(out)).slice();
          const view = spy(out.data as Floats);
          expect(call(sn, 'layerNorm', view, { ...options, out: view }) === view).toBe(true);
          expect(valuesOf(out)).toEqual(expected);
        },
      ]);
      calls.push([
        `values of ${type}`,
        () => expect(valuesOf(sn.tensor([4], viewOf(type), type))).toEqual(ofType(type, numbers).x),
      ]);
    }
    const failures = calls.flatMap(([title, run]) => {
      runs = 0;
      try {
        run();
      } catch {
        return [`${title} fails`];
      }
      return runs > 0 ? [`${title} runs code of the user's`] : [];
    });
    expect(failures).toEqual([]);
  });
});

// ---------------------------------------------------------------- how long it lives

/** Every array that a call may have, as it is called in calls.ts, by its name. */
function argumentsOf(op: AnyOp): Record<string, Float32Array> {
  const a = arrays();
  const given = Object.entries({ x: a.x, ...(isBackward(op) ? { dy: a.dy } : {}), ...valid[op](a) });
  return Object.fromEntries(given.filter(([, value]) => value instanceof Float32Array)) as Record<string, Float32Array>;
}

describe('lifetime', () => {
  test('free, twice, and by its symbol', async () => {
    const own = await load({});
    expect(own.memory.used).toBe(0);
    const a = own.tensor([100]);
    const b = own.tensor([100], null, 'float64');
    const c = own.tensor([3], null, 'float16');
    expect(own.memory.used).toBe(400 + 800 + 6);
    a.free();
    expect(a.freed).toBe(true);
    expect(own.memory.used).toBe(806);
    // Twice would free what is there by then.
    const d = own.tensor([100], draw(100, 1));
    a.free();
    a[Symbol.dispose]();
    expect(own.memory.used).toBe(1206);
    const e = own.tensor([100], draw(100, 2));
    expect(d.data).toEqual(draw(100, 1));
    expect(e.data).toEqual(draw(100, 2));
    b[Symbol.dispose]();
    expect(b.freed).toBe(true);
    for (const each of [c, d, e]) each.free();
    expect(own.memory.used).toBe(0);
    own.dispose();
  });

  test('using', async () => {
    const own = await load({});
    {
      using x = own.tensor([3], [1, 2, 4]);
      using y = own.layerNorm(x);
      expect(y.data[0]).toBeLessThan(0);
      expect(own.memory.used).toBe(24);
    }
    expect(own.memory.used).toBe(0);
    own.dispose();
  });

  test('what is asked of a freed one', () => {
    const owner = sn.tensor([2, 5], draw(10, 1));
    const window = owner.subarray(2, 8);
    const inner = window.subarray(1, 3);
    owner.free();
    for (const freed of [owner, window, inner]) {
      expect(freed.freed).toBe(true);
      expect(failureOf(() => freed.data)).toMatchObject({ code: 'ERR_FREED', op: 'data' });
      expect(failureOf(() => freed.subarray(0, 1))).toMatchObject({ code: 'ERR_FREED', op: 'subarray' });
      freed.free();
    }
    expect([owner.length, owner.dtype, ...owner.shape]).toEqual([10, 'float32', 2, 5]);
  });

  test('a window that is freed leaves its owner, and other windows', () => {
    const { used } = sn.memory;
    const owner = sn.tensor([10], draw(10, 1));
    const window = owner.subarray(2, 8);
    const inner = window.subarray(1, 3);
    const other = owner.subarray(2, 8);
    expect(sn.memory.used).toBe(used + 40);
    window.free();
    window.free();
    expect([window.freed, owner.freed, other.freed, inner.freed]).toEqual([true, false, false, false]);
    expect(failureOf(() => sn.layerNorm(window)).code).toBe('ERR_FREED');
    expect(sn.memory.used).toBe(used + 40);
    expect(owner.data).toEqual(draw(10, 1));
    const out = new Float32Array(6);
    sn.layerNorm(other, { out: out as never });
    expect(out).toEqual(sn.layerNorm(draw(10, 1).subarray(2, 8)));
    owner.free();
    expect(sn.memory.used).toBe(used);
    expect([other.freed, inner.freed]).toEqual([true, true]);
  });

  for (const op of allOps) {
    test(`${op} with a freed Tensor, or with one of another instance`, async () => {
      const other = await load({});
      const before = fingerprint(sn, [op]);
      const { used } = sn.memory;
      const lengths = argumentsOf(op);
      for (const [name, values] of Object.entries(lengths)) {
        const owner = sn.tensor([values.length + 1]);
        const freedWindow = owner.subarray(1);
        const window = freedWindow.subarray();
        owner.free();
        const freed = sn.tensor([values.length], values);
        freed.free();
        const freedAlone = sn.tensor([values.length + 1]);
        const alone = freedAlone.subarray(1);
        alone.free();
        // What lies where it was must not be written either.
        const heir = sn.tensor([values.length], draw(values.length, 1));
        const foreign = other.tensor([values.length + 1], draw(values.length + 1, 1));
        const wrong: [ErrorCode, Tensor][] = [
          ['ERR_FREED', freed],
          ['ERR_FREED', freedWindow],
          ['ERR_FREED', window],
          ['ERR_FREED', alone],
          ['ERR_TYPE', foreign.subarray(1)],
        ];
        for (const [code, tensor] of wrong) {
          for (const othersAreTensors of [false, true]) {
            const a = arrays();
            const rest = { ...valid[op](a), x: a.x, dy: a.dy, [name]: tensor } as Options;
            const made: Tensor[] = [];
            if (othersAreTensors) {
              for (const [each, given] of Object.entries(rest)) {
                if (each === name || !(given instanceof Float32Array)) continue;
                made.push(sn.tensor([given.length], given));
                rest[each] = made.at(-1);
              }
            }
            const copies = made.map(({ data }) => data.slice());
            const { x, dy, ...options } = rest;
            const failure = failureOf(() => call(sn, op, x, options, dy));
            expect(failure).toMatchObject({ code, op });
            expect(failure.message).toMatch(new RegExp(`: ${name} (has been freed|is a Tensor of another instance)`));
            expect(a.isUntouched()).toBe(true);
            for (const [i, each] of made.entries()) {
              expect(Buffer.compare(bytesOf(each.data), bytesOf(copies[i] as Float32Array))).toBe(0);
              each.free();
            }
          }
        }
        expect(heir.data).toEqual(draw(values.length, 1));
        expect(foreign.data).toEqual(draw(values.length + 1, 1));
        heir.free();
        freedAlone.free();
        expect(fingerprint(sn, [op])).toBe(before);
      }
      expect(sn.memory.used).toBe(used);
      other.dispose();
    });
  }

  test('foldBatchNorm with Tensors, also freed ones', () => {
    const norm = { mean: [1, 2], variance: [4, 1], scale: [3, 4], bias: [5, 6] };
    const weight = draw(6, 1);
    const expected = sn.foldBatchNorm(weight, null, norm, { shape: [2, 3] });
    for (const name of Object.keys(norm) as (keyof typeof norm)[]) {
      for (const dtype of dtypes) {
        const tensor = sn.tensor([2], norm[name], dtype);
        expect(sn.foldBatchNorm(weight, null, { ...norm, [name]: tensor }, { shape: [2, 3] })).toEqual(expected);
        tensor.free();
        const failure = failureOf(() => sn.foldBatchNorm(weight, null, { ...norm, [name]: tensor }, { shape: [2, 3] }));
        expect(failure).toMatchObject({
          code: 'ERR_FREED',
          op: 'foldBatchNorm',
          message: expect.stringContaining(name),
        });
      }
    }
  });

  test('the data of another instance is an array like any other', async () => {
    const other = await load({});
    for (const op of allOps) {
      const given = argumentsOf(op);
      const { x, dy, ...options } = Object.fromEntries(
        Object.entries(given).map(([name, values]) => [
          name,
          other.tensor([values.length], values).data as Float32Array,
        ]),
      );
      const a = arrays();
      const expected = valid[op](a);
      call(sn, op, a.x, expected, a.dy);
      call(sn, op, x, { ...expected, ...options }, dy);
      for (const name of Object.keys(written[op])) expect(options[name]).toEqual(expected[name]);
    }
    other.dispose();
  });

  test('dispose', async () => {
    const own = await load({});
    const x = own.tensor([2, 3], draw(6, 1));
    const window = x.subarray(1, 4);
    const view = x.data;
    const norm = new own.LayerNorm(3);
    norm.forward(x);
    own.dispose();
    expect([x.freed, window.freed]).toEqual([true, true]);
    const uses: [op: string, () => unknown][] = [
      ['data', () => x.data],
      ['data', () => window.data],
      ['subarray', () => x.subarray(0, 1)],
      ['layerNorm', () => own.layerNorm(x)],
      ['layerNorm', () => own.layerNorm(draw(3, 1), { scale: window })],
      ['layerNorm', () => own.layerNorm(draw(6, 1), { out: x as never })],
      ['layerNorm', () => own.layerNorm(view)],
      ['moments', () => own.moments(window)],
      ['rmsNormBackward', () => own.rmsNormBackward(x, x)],
      ['LayerNorm', () => norm.forward(x)],
      ['LayerNorm', () => norm.backward(x)],
      ['LayerNorm', () => norm.backward(draw(6, 1))],
      ['tensor', () => own.tensor([2])],
    ];
    for (const [op, use] of uses) expect(failureOf(use)).toMatchObject({ code: 'ERR_FREED', op });
    for (const each of [x, window]) each.free();
    // Of another instance it is first of all.
    expect(failureOf(() => sn.layerNorm(x)).code).toMatch(/ERR_TYPE|ERR_FREED/);
    own.dispose();
  });

  test('after dispose nothing is used, and a layer knows its Tensors no more', async () => {
    const own = await load({});
    const x = own.tensor([6], draw(6, 1));
    const norm = new own.LayerNorm(3);
    norm.forward(x, { shape: [2, 3] });
    own.dispose();
    expect(failureOf(() => norm.forward(draw(6, 1), { out: x as never })).code).toBe('ERR_FREED');
    expect(failureOf(() => norm.backward(draw(6, 1), { out: x as never })).code).toBe('ERR_FREED');
    expect(own.memory.used).toBe(0);
  });

  test('used is exact whatever is made, kept and freed', async () => {
    const own = await load({});
    const random = new Random(3);
    const live = new Map<Tensor, { bytes: number; values: Float32Array }>();
    let expected = 0;
    for (let i = 0; i < 1500; ++i) {
      if (live.size > 30 || (live.size > 0 && random.next() % 3 === 0)) {
        const tensor = pick(random, [...live.keys()]);
        const { bytes, values } = live.get(tensor) as { bytes: number; values: Float32Array };
        expectBits({ op: 'tensor', shape: tensor.shape }, valuesOf(tensor), ofType(tensor.dtype, values).x);
        tensor.free();
        live.delete(tensor);
        expected -= bytes;
      } else {
        const length = random.next() % 10 ** (random.next() % 5);
        const dtype = pick(random, dtypes);
        const values = widen(narrow(draw(length, i)));
        const tensor = own.tensor([length], values, dtype);
        const bytes = length * valuesOf(tensor).BYTES_PER_ELEMENT;
        live.set(tensor, { bytes, values });
        expected += bytes;
        if (i % 5 === 0) own.layerNorm(new Float32Array(1 + (random.next() % 50_000)));
      }
      expect(own.memory.used).toBe(expected);
    }
    // What has been freed is used again: the memory isn't much more than the most that was used at once.
    for (const tensor of live.keys()) tensor.free();
    expect(own.memory.used).toBe(0);
    expect(own.memory.capacity).toBeLessThan(4 * 2 ** 20);
    own.dispose();
  });

  test('errors of a call leave no Tensor behind', async () => {
    const own = await load({ maximumMemory: 2 ** 20 });
    const x = own.tensor([100_000]);
    const { used } = own.memory;
    expect(used).toBe(400_000);
    // Its result is a new Tensor, for which there is no room.
    for (let i = 0; i < 3; ++i) {
      const failure = failureOf(() => own.layerNorm(x));
      expect(failure).toMatchObject({ code: 'ERR_MEMORY', op: 'layerNorm' });
      expect(own.memory.used).toBe(used);
    }
    const small = own.tensor([1000]);
    const calls = [
      () => own.layerNorm(small, { scale: [1] }),
      () => own.layerNorm(small, { axes: 5 }),
      () => own.layerNormBackward(small, small, { dScaleOut: small }),
      () => own.layerNormBackward(draw(1000, 1) as never, small, { dBiasOut: new Float64Array(1000) }),
    ];
    for (const each of calls) expect(failureOf(each)).toBeInstanceOf(NormError);
    expect(own.memory.used).toBe(used + 4000);
    x.free();
    // There is room for the result, and then none for the copies.
    const medium = own.tensor([50_000]);
    const copied = new Float32Array(50_000);
    for (let i = 0; i < 3; ++i) {
      const failure = failureOf(() =>
        own.layerNorm(medium, { residual: copied as never, scale: copied, bias: copied }),
      );
      expect(failure).toMatchObject({ code: 'ERR_MEMORY', message: expect.stringContaining('this call needs') });
      expect(own.memory.used).toBe(204_000);
    }
    own.dispose();
  });

  test('a forgotten one is freed once it has been collected, but not while a view of it is kept', async () => {
    const result = await runModule(
      `
      const { load } = await import(entry);
      const sn = await load({});
      const collect = async () => {
        for (let i = 0; i < 10; ++i) {
          gc();
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      };
      const states = [];
      const kept = sn.tensor([10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      (() => { for (let i = 0; i < 100; ++i) sn.tensor([1000]); })();
      (() => { for (let i = 0; i < 100; ++i) sn.layerNorm(sn.tensor([1000])); })();
      states.push(sn.memory.used);
      await collect();
      states.push(sn.memory.used);
      let view = (() => sn.tensor([1000]).data)();
      let window = (() => sn.tensor([500]).subarray(1, 2))();
      let windowView = (() => sn.tensor([250]).subarray(1, 2).data)();
      await collect();
      states.push(sn.memory.used, window.freed);
      view.fill(7);
      // What is made now must not be where the views are.
      const others = Array.from({ length: 20 }, () => sn.tensor([1000]));
      states.push(view.every((value) => value === 7));
      for (const other of others) other.free();
      view = window = windowView = undefined;
      await collect();
      states.push(sn.memory.used);
      // An x that waits for its backward call is kept.
      let norm = new sn.LayerNorm(10);
      (() => norm.forward(sn.tensor([10], kept)).free())();
      await collect();
      states.push(sn.memory.used, [...norm.backward(kept).data].some(Number.isNaN));
      norm = undefined;
      await collect();
      states.push(sn.memory.used, [...kept.data].join());
      // Freed by hand, and then collected.
      (() => { for (let i = 0; i < 50; ++i) sn.tensor([1000]).free(); })();
      await collect();
      states.push(sn.memory.used);
      // Collected when the instance is no more.
      (() => { for (let i = 0; i < 50; ++i) sn.tensor([1000]); })();
      sn.dispose();
      await collect();
      console.log(JSON.stringify(states));
    `,
      ['--expose-gc'],
    );
    expect(result).toEqual([1_200_040, 40, 40 + 7000, false, true, 40, 80, false, 40, '0,1,2,3,4,5,6,7,8,9', 40]);
  });
});

// ---------------------------------------------------------------- the memory

describe('growth', () => {
  test('live Tensors keep their values, views die and are made anew', async () => {
    const own = await load({});
    const live: [Tensor, Float32Array][] = [];
    const small = draw(100, 5);
    const expected = own.layerNorm(small);
    const capacities = new Set<number>();
    const views: Float32Array[] = [];
    for (let length = 1000; length < 2e6; length *= 2) {
      const values = draw(Math.min(length, 20_000), length);
      const tensor = own.tensor([length]);
      tensor.data.set(values, length - values.length);
      live.push([tensor, values]);
      const view = tensor.data as Float32Array;
      expect(view).toHaveLength(length);
      views.push(view);
      const { capacity } = own.memory;
      own.layerNorm(new Float32Array(1.5 * length));
      if (own.memory.capacity > capacity) {
        expect(view).toHaveLength(0);
        expect(failureOf(() => own.layerNorm(view))).toMatchObject({
          code: 'ERR_TYPE',
          message: expect.stringContaining('detached'),
        });
      }
      capacities.add(own.memory.capacity);
      expectBits({ op: 'layerNorm', shape: [100] }, own.layerNorm(small), expected);
      for (const [each, at] of live) {
        expectBits({ op: 'tensor', shape: [each.length] }, each.data.subarray(each.length - at.length), at);
      }
    }
    expect(capacities.size).toBeGreaterThan(5);
    expect(views.some((view) => view.length === 0)).toBe(true);
    own.dispose();
  });

  /** Fills the memory up to less than 3 KiB: not enough for what a call copies. Returns what does, not to be collected. */
  function fill(own: Simdnorm): Tensor[] {
    const fillers: Tensor[] = [];
    const room = () => own.memory.capacity - ((fillers.at(-1) as Tensor).data as Floats).byteOffset;
    do fillers.push(own.tensor([256]));
    while (room() > 3 * 2 ** 10);
    return fillers;
  }

  // Detached between the checks and the kernel.
  test.each(allOps)('%s of views that die while it runs', async (op) => {
    const shape = shapes[op].length === 3 ? [2, 4, 240] : op === 'moments' ? [960, 2] : [48, 40];
    for (const [i, dtype] of dtypes.entries()) {
      const c = caseOf(op, dtype, { shape, axes: [1], axis: 1, groups: 2 });
      const expected = compute(sn, c, plain);
      for (const type of [dtype, dtypes[(i + 1) % 3] as DType]) {
        const own = await load({});
        let before = 0;
        let fillers: Tensor[] = [];
        const prepare = () => {
          fillers = fill(own);
          before = own.memory.capacity;
        };
        // What isn't in the memory, the result and here the residual, has no room there.
        const form = (name: string): Form => (name === 'residual' ? 'array' : 'data');
        const place = (name: string) => (name === 'out' ? 'absent' : 'own');
        const isParameter = (name: string) => c.inputs[name]?.isParameter;
        const typeOf = (name: string) => (isParameter(name) ? type : dtype);
        expectSame(c, compute(own, c, { ...plain, form, place, type: typeOf, prepare }), expected);
        expect(own.memory.capacity).toBeGreaterThan(before);
        expect(fillers.some(({ freed }) => freed)).toBe(false);
        own.dispose();
      }
    }
  });

  test('out a view that dies while the call runs: it is returned, and its Tensor has the result', async () => {
    const own = await load({});
    const x = draw(4800, 1);
    const out = own.tensor([4800]);
    const fillers = fill(own);
    const view = out.data as Float32Array;
    const y = own.layerNorm(x, { out: view });
    expect(y === view).toBe(true);
    expect(view).toHaveLength(0);
    expectBits({ op: 'layerNorm', shape: [4800] }, out.data, sn.layerNorm(x));
    const failure = failureOf(() => own.layerNorm(x, { out: view }));
    expect(failure).toMatchObject({ code: 'ERR_TYPE', message: expect.stringMatching(/\bout\b.*detached/) });
    expect(fillers.some(({ freed }) => freed)).toBe(false);
    own.dispose();
  });

  test('a batch norm layer that clears the padding in a view that has died', async () => {
    const own = await load({});
    const shape = [2, 100_000, 2];
    const lengths = [3, 5];
    const x = draw(400_000, 1);
    const out = own.tensor(shape);
    const expected = new sn.BatchNorm(2, { axis: 2 }).eval().forward(x, { shape, lengths });
    const { capacity } = own.memory;
    new own.BatchNorm(2, { axis: 2 }).eval().forward(x, { shape, lengths, out: out.data as Float32Array });
    expect(own.memory.capacity).toBeGreaterThan(capacity);
    expectBits({ op: 'BatchNorm', shape }, out.data, expected);
    own.dispose();
  });

  test('values that are views of the memory that grows for their copy', async () => {
    for (const dtype of dtypes) {
      const own = await load({});
      const { x } = ofType(dtype, draw(100_000, 1));
      let last = own.tensor([100_000], x, dtype);
      const capacities = new Set<number>();
      for (let i = 0; i < 8; ++i) {
        last = own.tensor([100_000], i % 2 ? (last.data as Float32Array) : last, dtype);
        capacities.add(own.memory.capacity);
        expectBits({ op: 'tensor', shape: [100_000] }, valuesOf(last), x);
      }
      expect(capacities.size).toBeGreaterThan(1);
      own.dispose();
    }
  });
});

describe('memory that does not suffice', () => {
  test('ERR_MEMORY with the numbers, nothing written, and then all works', async () => {
    const own = await load({ maximumMemory: 4 << 20 });
    const before = fingerprint(own);
    const values = draw(2 ** 18, 1);
    const kept = own.tensor([2 ** 18], values);
    const norm = new own.LayerNorm(2 ** 10);
    const ragged = { shape: [1, 2 ** 10, 2 ** 10], lengths: [2 ** 10] };
    const large = draw(2 ** 20, 2);
    const canaries = new Float32Array(2 ** 20).fill(canary);
    const out = canaries.slice();
    for (let i = 0; i < 3; ++i) {
      const { used } = own.memory;
      const refused: [op: string, RegExp, () => unknown][] = [
        ['tensor', /4\.0 MiB.*limit is 4\.0 MiB.*1\.0 MiB/, () => own.tensor([2 ** 20])],
        ['tensor', /4\.0 MiB.*limit is 4\.0 MiB.*1\.0 MiB/, () => own.tensor([2 ** 20], large)],
        ['tensor', /8\.0 MiB.*limit is 4\.0 MiB.*1\.0 MiB/, () => own.tensor([2 ** 20], large, 'float64')],
        ['layerNorm', /4\.0 MiB.*limit is 4\.0 MiB.*1\.0 MiB/, () => own.layerNorm(large, { out })],
        ['LayerNorm', /4\.0 MiB.*limit is 4\.0 MiB.*1\.0 MiB/, () => norm.forward(large, { ...ragged, out })],
      ];
      for (const [op, message, fail] of refused) {
        expect(failureOf(fail)).toMatchObject({ code: 'ERR_MEMORY', op, message: expect.stringMatching(message) });
        expect(own.memory.used).toBe(used);
        expect(Buffer.compare(bytesOf(out), bytesOf(canaries))).toBe(0);
      }
      expectBits({ op: 'tensor', shape: [2 ** 18] }, kept.data, values);
      expect(fingerprint(own)).toBe(before);
      // There is room for the result, in the workspace's place.
      const y = own.layerNorm(kept);
      expectBits({ op: 'layerNorm', shape: [2 ** 18] }, y.data, sn.layerNorm(values));
      y.free();
    }
    expect(own.memory.capacity).toBeLessThanOrEqual(4 << 20);
    own.dispose();
  });

  test('larger calls after smaller ones, up to nearly the limit', async () => {
    for (const lengths of [
      [500_000, 700_000],
      [100_000, 300_000, 500_000, 700_000, 900_000],
      [900_000, 100, 900_000],
      [460_000, 930_000],
    ]) {
      const own = await load({ maximumMemory: 4 << 20 });
      for (const length of lengths) {
        const x = draw(length, length);
        expectBits({ op: 'layerNorm', shape: [length] }, own.layerNorm(x), sn.layerNorm(x));
      }
      own.dispose();
    }
  });

  test('Tensors and calls take turns in nearly all of it', async () => {
    const own = await load({ maximumMemory: 4 << 20 });
    const x = draw(800_000, 1);
    const expected = sn.layerNorm(x);
    const kept = own.tensor([1000], draw(1000, 2));
    for (let i = 0; i < 5; ++i) {
      expectBits({ op: 'layerNorm', shape: [800_000] }, own.layerNorm(x), expected);
      const tensor = own.tensor([800_000], x);
      expect(failureOf(() => own.layerNorm(x)).code).toBe('ERR_MEMORY');
      own.layerNorm(tensor, { out: tensor });
      expectBits({ op: 'layerNorm', shape: [800_000] }, tensor.data, expected);
      expect(failureOf(() => own.layerNorm(tensor))).toMatchObject({ code: 'ERR_MEMORY', op: 'layerNorm' });
      expectBits({ op: 'layerNorm', shape: [800_000] }, tensor.data, expected);
      tensor.free();
      expect(kept.data).toEqual(draw(1000, 2));
    }
    expect(own.memory.used).toBe(4000);
    own.dispose();
  });

  /** Of 2 GiB and a little more, in an instance of its own, for both of the tests that follow: it takes a second. */
  let made: Promise<{ own: Simdnorm; large: Tensor }> | undefined;
  const large16 = 2 ** 30 + 2 ** 20;
  async function makeLarge(skip: (why: string) => never): Promise<{ own: Simdnorm; large: Tensor }> {
    const room = freemem() / 2 ** 30;
    if (!made && room < 4) skip(`it takes 2.1 GiB, and only ${room.toFixed(1)} GiB are free`);
    made ??= load({}).then((own) => ({ own, large: own.tensor([large16], null, 'float16') }));
    return made;
  }

  afterAll(async () => (await made)?.own.dispose());

  test('addresses above 2^31', async ({ skip }) => {
    const { own, large } = await makeLarge(skip);
    const end = large.subarray(-1000);
    expect(own.memory.used).toBe(2 * large16);
    expect((end.data as Floats).byteOffset).toBeGreaterThan(2 ** 31);
    const { x } = ofType('float16', draw(1000, 1));
    valuesOf(end).set(x);
    const expected = call(sn, 'layerNorm', x, { dtype: 'float16' }) as Floats;
    own.layerNorm(end, { out: end });
    expectBits({ op: 'layerNorm', shape: [1000] }, valuesOf(end), expected);
    // What is below is filled, so that all that follows is above: Tensors, copies and the workspace.
    const fillers: Tensor[] = [];
    for (const bytes of [65536, 4096, 256, 64]) {
      do fillers.push(own.tensor([bytes / 4]));
      while (((fillers.at(-1) as Tensor).data as Floats).byteOffset < 2 ** 31);
    }
    const { used } = own.memory;
    own.layerNorm(new Float32Array(3e5));
    expect(fingerprint(own)).toBe(fingerprint(sn));
    const random = new Random(1);
    for (const op of allOps) {
      for (const dtype of dtypes) {
        const c = casesOf(op, dtype)[1] as Case;
        const right = compute(sn, c, plain);
        for (let i = 0; i < 5; ++i) expectSame(c, compute(own, c, randomPlan(c, random)), right);
      }
    }
    expect(own.memory.used).toBe(used);
    expect(valuesOf(end.subarray(0, 1000))).toEqual(expected);
    for (const filler of fillers) filler.free();
    expect(own.memory.used).toBe(2 * large16);
  });

  test('more than 4 GiB of Tensors', async ({ skip }) => {
    const { own, large } = await makeLarge(skip);
    // A sum of addresses that wraps looks as if it were within.
    const refused = [
      () => own.tensor([large16], null, 'float16'),
      () => own.tensor([2 ** 29], null, 'float32'),
      () => own.layerNorm(new Float32Array(2 ** 29 + 2 ** 20)),
    ];
    for (const fail of refused) {
      const { used } = own.memory;
      const message = expect.stringMatching(/20\d\d\.\d MiB.*limit is 4096\.0 MiB.*2050\.0 MiB/);
      expect(failureOf(fail)).toMatchObject({ code: 'ERR_MEMORY', message });
      expect(own.memory.used).toBe(used);
      expect(fingerprint(own)).toBe(fingerprint(sn));
    }
    large.free();
    expect(own.memory.used).toBe(0);
  });
});

describe('no copies', () => {
  test('and next to no garbage, over 1e5 calls with the same options', async () => {
    const bytes = await runModule(
      `
      const { load } = await import(entry);
      const sn = await load({});
      const x = sn.tensor([1, 64], Float32Array.from({ length: 64 }, (_, i) => Math.sin(i)));
      const options = { out: sn.tensor([1, 64]), scale: sn.tensor([64]), bias: sn.tensor([64]) };
      const run = (calls) => { for (let i = 0; i < calls; ++i) sn.layerNorm(x, options); };
      const { capacity } = sn.memory;
      run(3e4);
      gc();
      const before = process.memoryUsage().heapUsed;
      run(1e5);
      console.log(JSON.stringify([(process.memoryUsage().heapUsed - before) / 1e5, sn.memory.capacity - capacity]));
    `,
      // Room for all of it, so that nothing is collected meanwhile.
      ['--expose-gc', '--min-semi-space-size=64', '--max-semi-space-size=64'],
    );
    expect(bytes).toEqual([expect.any(Number), 0]);
    // 45 with Emscripten 3.1.6, 96 with 3.1.69: nearly all is embind's.
    expect((bytes as number[])[0]).toBeLessThan(112);
    expect((bytes as number[])[0]).toBeGreaterThan(-1);
  });

  test('40 MiB are normalized where they are, in 48 MiB', async () => {
    const own = await load({ maximumMemory: 48 << 20 });
    const shape = [10_240, 1024];
    const x = own.tensor(shape);
    const row = draw(1024, 1);
    for (let i = 0; i < 10_240; ++i) x.data.set(row, 1024 * i);
    const scale = own.tensor([1024], draw(1024, 2));
    const { capacity } = own.memory;
    const workspace = capacity - own.memory.used;
    expect(workspace).toBeLessThan(2 ** 20 + 2 ** 17);
    expect(own.layerNorm(x, { out: x, scale, bias: scale })).toBe(x);
    const expected = sn.layerNorm(row, { scale: scale.data.slice(), bias: scale.data.slice() });
    for (const at of [0, 5000, 10_239]) {
      expectBits({ op: 'layerNorm', shape }, x.data.subarray(1024 * at, 1024 * (at + 1)), expected);
    }
    own.rmsNorm(x, { out: x, scale });
    own.lpNormalize(x, { out: x });
    own.batchNormTraining(x, { out: x, scale, bias: scale });
    own.batchNorm(x, { out: x, mean: scale, variance: scale, scale, bias: scale });
    own.groupNorm(x, { out: x, groups: 4, scale });
    const norm = new own.LayerNorm(1024);
    norm.eval().forward(x, { out: x });
    expect(own.memory.capacity).toBe(capacity);
    own.dispose();
  });

  test.each(allOps)("%s of Tensors takes less memory, by all that isn't copied", async (op) => {
    // One item, which can't be divided.
    const c = caseOf(op, 'float32', { shape: [1, 4, 50_000], axes: [1, 2], axis: 1, groups: 2 });
    const inputs = Object.entries(c.inputs).map(([name, { values }]) => [name, values] as const);
    const outputs = Object.entries(c.outputs).map(([name, { length }]) => [name, new Float32Array(length)] as const);
    const given: [string, Float32Array][] = [...inputs, ...outputs] as [string, Float32Array][];
    /** What can be allocated before the memory grows. */
    const roomOf = async (make: (own: Simdnorm, values: Float32Array) => Data, calls: number) => {
      const own = await load({ initialMemory: 16 << 20 });
      const { x, dy, ...options } = Object.fromEntries(
        given.map(([name, values]) => [name, make(own, values)]),
      ) as Options;
      const { capacity, used } = own.memory;
      for (let i = 0; i < calls; ++i) call(own, op, x, { ...c.options, ...options }, dy);
      expect(own.memory).toMatchObject({ capacity, used });
      const fillers: Tensor[] = [];
      while (own.memory.capacity === capacity) fillers.push(own.tensor([2 ** 12]));
      own.dispose();
      return fillers.length * 2 ** 14;
    };
    const arraysAsThey = (_: Simdnorm, values: Float32Array) => values;
    const asTensors = (own: Simdnorm, values: Float32Array) => own.tensor([values.length], values);
    const ofArrays = (await roomOf(arraysAsThey, 0)) - (await roomOf(arraysAsThey, 3));
    const ofTensors = (await roomOf(asTensors, 0)) - (await roomOf(asTensors, 3));
    // The copies of x, and of dy or the residual; the results share their places.
    const copied = inputs.filter(([, { length }]) => length === 200_000).length * 800_000;
    expect(ofArrays - ofTensors).toBeGreaterThan(copied - 2 ** 16);
    // Gradients, and windows of channels, are worked out in memory of their own.
    if (!isBackward(op) && op !== 'localResponseNorm') expect(ofTensors).toBeLessThanOrEqual(2 ** 16);
  });
});

test('rows in pieces are the whole, to the bit', () => {
  for (const op of ['layerNorm', 'rmsNorm', 'lpNormalize'] as const) {
    for (const dtype of dtypes) {
      for (const units of [5, 33, 128]) {
        const { x, options } = ofType(dtype, draw(100 * units, 1));
        const scale = sn.tensor([units], draw(units, 2));
        const parameters = op === 'lpNormalize' ? {} : { scale };
        const expected = call(sn, op, x, { shape: [100, units], ...parameters, ...options }) as Floats;
        const whole = sn.tensor([100, units], x, dtype);
        const out = sn.tensor([100, units], null, dtype);
        const slopes = sn.tensor([100, units], ofType(dtype, draw(100 * units, 3)).x, dtype);
        const right = resultOf(call(sn, `${op}Backward`, whole, parameters, slopes)) as Tensor;
        const backward = sn.tensor([100, units], null, dtype);
        for (const rows of [1, 7, 50]) {
          for (let row = 0; row < 100; row += rows) {
            const piece = (of: Tensor) => of.subarray(row * units, Math.min(row + rows, 100) * units);
            const shape = [Math.min(rows, 100 - row), units];
            call(sn, op, piece(whole), { shape, ...parameters, out: piece(out) });
            call(sn, `${op}Backward`, piece(whole), { shape, ...parameters, out: piece(backward) }, piece(slopes));
          }
          expectBits({ op, shape: [100, units] }, valuesOf(out), expected);
          expectBits({ op: `${op}Backward`, shape: [100, units] }, valuesOf(backward), valuesOf(right));
          valuesOf(out).fill(1);
        }
        for (const each of [scale, whole, out, slopes, right, backward]) each.free();
      }
    }
  }
});

test('a module that is passed to a worker makes an instance there', async () => {
  const code = `
    import('node:worker_threads').then(async ({ parentPort, workerData }) => {
      const { load } = await import(workerData.entry);
      parentPort.once('message', async ({ module, x }) => {
        const sn = await load({ wasm: module });
        const tensor = sn.tensor([10, 100], x);
        sn.layerNorm(tensor, { out: tensor });
        parentPort.postMessage({ y: tensor.data.slice(), used: sn.memory.used });
      });
    });
  `;
  const module = await WebAssembly.compile(await readFile(new URL('../../dist/simdnorm.wasm', import.meta.url)));
  const x = draw(1000, 1);
  const workers = [0, 1].map(() => new Worker(code, { eval: true, workerData: { entry } }));
  const ends = workers.map((worker) => Promise.all([once(worker, 'message'), once(worker, 'exit')]));
  for (const worker of workers) worker.postMessage({ module, x });
  const expected = sn.layerNorm(x, { shape: [10, 100] });
  for (const [[{ y, used }], [exitCode]] of await Promise.all(ends)) {
    expectBits({ op: 'layerNorm', shape: [10, 100] }, y, expected);
    expect([used, exitCode]).toEqual([4000, 0]);
  }
  // And here.
  const here = await load({ wasm: module });
  expectBits({ op: 'layerNorm', shape: [10, 100] }, here.layerNorm(here.tensor([10, 100], x)).data, expected);
  here.dispose();
});
