// A call that is given what one of the calls before it was given isn't checked again. Whatever is then changed, it must
// give, write and refuse what an instance does that has been given other things.

import { load, type Simdnorm } from 'simdnorm';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { call, type Op, type Options, required, shapes } from './calls.ts';
import { detach, draw, drawScale, drawVariance, growableBuffer, Random } from './data.ts';
import { type Data, isTensor, valuesOf } from './forms.ts';

let sn: Simdnorm;
let other: Simdnorm;

beforeAll(async () => {
  sn = await load({});
  other = await load({});
});

const ops = ['layerNorm', 'rmsNorm', 'instanceNorm', 'groupNorm', 'batchNorm', 'lpNormalize'] as const;
const withScale: readonly Op[] = ops.filter((op) => op !== 'lpNormalize');
const withBias: readonly Op[] = withScale.filter((op) => op !== 'rmsNorm');

interface Given {
  readonly instance: Simdnorm;
  readonly op: Op;
  x: Data;
  options: Options & { shape?: number[] | undefined };
}

const ways = ['arrays', 'a new array', 'Tensors', 'a new Tensor', 'Tensors but out', 'a Tensor as out'] as const;

function given(instance: Simdnorm, op: Op, way: (typeof ways)[number]): Given {
  const shape = [...shapes[op]];
  const parameters: Record<string, Float32Array> = {
    ...(withScale.includes(op) && { scale: drawScale(4, 2) }),
    ...(withBias.includes(op) && { bias: draw(4, 3) }),
    ...(op === 'batchNorm' && { mean: draw(4, 4), variance: drawVariance(4, 5) }),
  };
  const usual = { ...(op === 'groupNorm' && required.groupNorm), epsilon: 1e-3 };
  const tensorOf = (values: Float32Array) => instance.tensor([values.length], values);
  const areTensors = way.startsWith('Tensors') || way === 'a new Tensor';
  const named = Object.entries(parameters).map(([name, each]) => [name, areTensors ? tensorOf(each) : each]);
  const x = areTensors ? instance.tensor(shape, draw(12, 1)) : draw(12, 1);
  const options: Given['options'] = { ...usual, ...Object.fromEntries(named) };
  if (way !== 'Tensors' && way !== 'a new Tensor') options.shape = shape;
  if (way === 'Tensors' || way === 'a Tensor as out') options.out = instance.tensor(shape);
  else if (!way.startsWith('a new')) options.out = new Float32Array(12).fill(7);
  return { instance, op, x, options };
}

function dataIn({ x, options }: Given): Record<string, Data> {
  const all = Object.entries({ x, ...options }).filter(([, each]) => ArrayBuffer.isView(each) || isTensor(each));
  return Object.fromEntries(all) as Record<string, Data>;
}

function bitsOf(data: Data): string {
  if (isTensor(data) && data.freed) return 'freed';
  const values = valuesOf(data);
  // What has been detached has no values to go through.
  return values.length === 0 ? '' : Array.from(values, String).join();
}

/** What a call returns or throws, and what is in all arrays then. */
function outcome(each: Given): unknown {
  let result: unknown;
  try {
    const y = call(each.instance, each.op, each.x, each.options) as Data;
    const name = Object.entries(dataIn(each)).find(([, data]) => data === y)?.[0];
    result = name ?? [y.constructor.name, bitsOf(y)];
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    result = { code, message };
  }
  return [result, Object.entries(dataIn(each)).map(([name, data]) => [name, bitsOf(data)])];
}

function free(each: Given): void {
  for (const data of Object.values(dataIn(each))) if (isTensor(data)) data.free();
}

function giveSomethingElse(instance: Simdnorm, op: Op, epsilon: number): void {
  call(instance, op, draw(20, 9), { ...required[op], shape: [1, 4, 5], epsilon });
}

/** More calls than an instance remembers. */
function forget(instance: Simdnorm, op: Op): void {
  for (let i = 0; i < 20; ++i) giveSomethingElse(instance, op, i);
}

function repeat(each: Given): void {
  const first = JSON.stringify(outcome(each));
  for (let i = 0; i < 3; ++i) expect(JSON.stringify(outcome(each))).toBe(first);
}

const floats = (name: string, change: (values: Float32Array, each: Given) => unknown) => (each: Given) => {
  const data = dataIn(each)[name];
  if (data === undefined || isTensor(data)) return;
  const changed = change(data as Float32Array, each);
  if (name === 'x') each.x = changed as Data;
  else each.options[name] = changed;
};
const option = (name: string, value: unknown) => (each: Given) => {
  each.options[name] = value;
};
/** Of a call that has succeeded without it. */
const insteadOfAbsent = (name: string) => (each: Given) => {
  delete each.options[name];
  for (let i = 0; i < 2; ++i) outcome(each);
  each.options[name] = -Infinity;
};
const shared = (values: Float32Array) => {
  const copy = new Float32Array(new SharedArrayBuffer(4 * values.length));
  copy.set(values);
  return copy;
};
/** Of the module's memory. */
const inMemory = (values: Float32Array, { instance }: Given) => instance.tensor([values.length], values).data;
const inPlace = (change: (values: Float32Array) => unknown) => (values: Float32Array) => {
  change(values);
  return values;
};
const arraysAndLists = ['x', 'out', 'scale', 'bias', 'mean', 'variance'] as const;

const changes: Record<string, (each: Given) => unknown> = {
  nothing: () => {},
  ...Object.fromEntries(
    arraysAndLists.flatMap((name) => [
      [
        `other values in ${name}`,
        floats(
          name,
          inPlace((values) => values.fill(0.5, 1, 3)),
        ),
      ],
      [`another array as ${name}`, floats(name, (values) => values.map((value) => 2 * value))],
      [`a longer ${name}`, floats(name, (values) => Float32Array.of(...values, 1))],
      [`a shorter ${name}`, floats(name, (values) => values.slice(1))],
      [`an empty ${name}`, floats(name, () => new Float32Array(0))],
      [
        `a window as ${name}`,
        floats(name, (values) => Float32Array.of(1, ...values, 2).subarray(1, values.length + 1)),
      ],
      [`doubles as ${name}`, floats(name, (values) => Float64Array.from(values))],
      [`a list as ${name}`, floats(name, (values) => Array.from(values))],
      [`null as ${name}`, floats(name, () => null)],
      [`shared memory as ${name}`, floats(name, shared)],
      [`the module's memory as ${name}`, floats(name, inMemory)],
      [`${name} detached`, floats(name, inPlace(detach))],
      [`bytes as ${name}`, floats(name, (values) => new Uint8Array(values.buffer))],
    ]),
  ),
  'x as out': (each) => option('out', each.x)(each),
  'out that begins in x': (each) => {
    if (isTensor(each.x)) return;
    const all = Float32Array.of(...(each.x as Float32Array), 1, 2);
    each.x = all.subarray(0, 12);
    each.options.out = all.subarray(2, 14);
  },
  'another view of x as out': (each) => {
    if (!isTensor(each.x)) each.options.out = (each.x as Float32Array).subarray();
  },
  'out in one buffer with scale': (each) => {
    const all = new Float32Array(20);
    if (withScale.includes(each.op)) each.options.scale = all.subarray(0, 4);
    each.options.out = all.subarray(4, 16);
  },
  'out over scale': (each) => {
    if (withScale.includes(each.op)) each.options.out = new Float32Array(12);
    if (withScale.includes(each.op)) each.options.scale = (each.options.out as Float32Array).subarray(0, 4);
  },
  'another extent in the same list': ({ options }) => options.shape?.fill(2),
  'the same extents in another order': ({ options }) => options.shape?.reverse(),
  'one more extent': ({ options }) => options.shape?.push(1),
  'no shape': option('shape', undefined),
  'a shape of strings': option('shape', ['3', '4']),
  'other axes': option('axes', [0]),
  'axes as a number': option('axes', 0),
  'axes as text': option('axes', '0'),
  'another axis': option('axis', 0),
  'another number of groups': option('groups', 4),
  'another p': option('p', 1),
  'a larger epsilon': option('epsilon', 0.5),
  'no epsilon': option('epsilon', undefined),
  'epsilon NaN': option('epsilon', Number.NaN),
  'epsilon less than 0': option('epsilon', -1),
  'no epsilon, and then -Infinity': insteadOfAbsent('epsilon'),
  'no axes, and then -Infinity': insteadOfAbsent('axes'),
  'no axis, and then -Infinity': insteadOfAbsent('axis'),
  'no p, and then -Infinity': insteadOfAbsent('p'),
  'no shape, and then -Infinity': insteadOfAbsent('shape'),
  'epsilon as text': option('epsilon', '1e-3'),
  'an unknown option': option('epsilom', 1),
  'dtype float16': option('dtype', 'float16'),
  'dtype null': option('dtype', null),
  lengths: option('lengths', Int32Array.of(1, 2, 3)),
  residual: option('residual', draw(12, 8)),
  meanOut: option('meanOut', new Float32Array(3)),
  invStdOut: option('invStdOut', new Float32Array(3)),
  'options that are hidden': (each) => {
    const { options } = each;
    each.options = Object.defineProperty({ ...options }, 'epsilon', { value: 0.25, enumerable: false });
  },
  'options that a proxy makes up': (each) => {
    each.options = new Proxy(each.options, { get: (o, name) => (name === 'epsilon' ? 0.125 : Reflect.get(o, name)) });
  },
  'an option that detaches out': (each) => {
    const { out } = each.options;
    const get = () => {
      if (ArrayBuffer.isView(out)) detach(out);
      return 1e-3;
    };
    each.options = Object.defineProperty({ ...each.options }, 'epsilon', { get, enumerable: true });
  },
  'an option that calls the operation': (each) => {
    const get = () => {
      giveSomethingElse(each.instance, each.op, 0.5);
      return 1e-3;
    };
    each.options = Object.defineProperty({ ...each.options }, 'epsilon', { get, enumerable: true });
  },
  'another call between': ({ instance }) => instance.layerNorm(draw(4000, 3), { shape: [2, 2000], epsilon: 1 }),
  'a large call between': ({ instance }) => instance.rmsNorm(draw(2 ** 19, 3), { axes: [0] }),
  'x freed': ({ x }) => isTensor(x) && x.free(),
  'out freed': ({ options: { out } }) => isTensor(out) && out.free(),
  'scale freed': ({ options: { scale } }) => isTensor(scale) && scale.free(),
  'a Tensor of another instance': (each) => {
    const stranger = each.instance === sn ? other : sn;
    if (isTensor(each.x)) each.x = stranger.tensor(each.x.shape, draw(12, 1));
  },
  'other Tensors': (each) => {
    for (const [name, data] of Object.entries(dataIn(each))) {
      if (!isTensor(data)) continue;
      const another = each.instance.tensor(
        data.shape,
        Array.from(data.data, (value) => 3 * value),
      );
      if (name === 'x') each.x = another;
      else each.options[name] = another;
    }
  },
  'one Tensor as x and out': (each) => {
    if (isTensor(each.x) && isTensor(each.options.out)) each.options.out = each.x;
  },
  'a part of out as scale': ({ options }) => {
    if (options.scale && isTensor(options.out)) options.scale = options.out.subarray(1, 5);
  },
  'what is before out as scale': ({ options, instance }) => {
    const all = instance.tensor([16], draw(16, 5));
    if (options.scale) options.scale = all.subarray(0, 4);
    if (isTensor(options.out)) options.out = all.subarray(4, 16);
  },
  'another shape at the same address': (each) => {
    if (isTensor(each.x)) each.x = each.x.subarray(0, 12);
  },
  'less at the same address': (each) => {
    if (!isTensor(each.x) || !isTensor(each.options.out)) return;
    each.x = each.x.subarray(0, 8);
    each.options.out = each.options.out.subarray(0, 8);
    each.options.shape = [2, 4];
  },
  'Tensors that overlap': (each) => {
    if (!isTensor(each.x)) return;
    const all = each.instance.tensor([16], draw(16, 4));
    each.x = all.subarray(0, 12);
    each.options = { ...each.options, shape: [...shapes[each.op]], out: all.subarray(2, 14) };
  },
  'less of scale at the same address': ({ options }) => {
    if (isTensor(options.scale)) options.scale = options.scale.subarray(0, 3);
  },
  'the memory of out as scale': ({ options }) => {
    if (options.scale && isTensor(options.out)) options.scale = options.out.data.subarray(0, 4);
  },
  'no out': option('out', undefined),
};

describe.each(ops)('%s', (op) => {
  describe.each(ways)('given %s, and then', (way) => {
    test.each(Object.keys(changes))('%s', (name) => {
      const change = changes[name] as (each: Given) => unknown;
      const again = given(sn, op, way);
      repeat(again);
      change(again);
      const once = given(other, op, way);
      call(other, op, once.x, once.options);
      change(once);
      forget(other, op);
      expect(outcome(again)).toEqual(outcome(once));
      // And what was refused or new leaves nothing.
      forget(other, op);
      expect(outcome(again)).toEqual(outcome(once));
      free(again);
      free(once);
      const usual = given(sn, op, way);
      repeat(usual);
      const asUsual = given(other, op, way);
      forget(other, op);
      expect(outcome(usual)).toEqual(outcome(asUsual));
      free(usual);
      free(asUsual);
    });
  });
});

describe.each(ways)('given %s', (way) => {
  test('after the memory has grown', async () => {
    const instance = await load({});
    const each = given(instance, 'layerNorm', way);
    repeat(each);
    const before = outcome(each);
    instance.tensor([instance.memory.capacity / 4]);
    expect(outcome(each)).toEqual(before);
  });

  test('after the place of what is copied has become a Tensor', async () => {
    const instance = await load({ initialMemory: 2 ** 26 });
    const each = given(instance, 'layerNorm', way);
    repeat(each);
    const before = outcome(each);
    // Behind it, so that what a larger call needs is elsewhere.
    instance.tensor([16]);
    instance.lpNormalize(draw(2 ** 16, 1), { axes: [0] });
    const tensors = Array.from({ length: 20 }, () => instance.tensor([16], new Float32Array(16).fill(5)));
    expect(outcome(each)).toEqual(before);
    for (const tensor of tensors) expect(tensor.data).toEqual(new Float32Array(16).fill(5));
  });
});

test('after a part of the place of what is copied has become a Tensor', async () => {
  const limit = 2 ** 21;
  const instance = await load({ initialMemory: limit, maximumMemory: limit });
  const x = draw(6000, 1);
  for (let i = 0; i < 3; ++i) instance.layerNorm(x);
  const before = instance.layerNorm(x);
  // There is room for the first only where nothing is left for calls.
  for (let size = limit / 4, isThere = false; !isThere; size -= 1024) {
    try {
      instance.tensor([size]).free();
      isThere = true;
    } catch (error) {
      expect(error).toMatchObject({ code: 'ERR_MEMORY' });
    }
  }
  instance.lpNormalize(draw(20, 1));
  const tensor = instance.tensor([10_000], new Float32Array(10_000).fill(5));
  expect(instance.layerNorm(x)).toEqual(before);
  expect(tensor.data).toEqual(new Float32Array(10_000).fill(5));
});

test.each(ops)('several calls of %s in any order', (op) => {
  const sizes = Array.from({ length: 11 }, (_, i) => 4 * i + 4);
  const run = (instance: Simdnorm, size: number) => {
    const scale = withScale.includes(op) && { scale: drawScale(size, 2) };
    const statistics = op === 'batchNorm' && { mean: draw(size, 4), variance: drawVariance(size, 5) };
    const axes = op === 'batchNorm' || op.match(/group|instance/) ? {} : { axes: [1] };
    const options = { ...required[op], shape: [3, size, 1], ...axes, ...scale, ...statistics };
    return call(instance, op, draw(3 * size, size), options);
  };
  const expected = sizes.map((size) => {
    forget(other, op);
    return run(other, size);
  });
  const random = new Random(1);
  for (const most of [3, 8, 9, sizes.length]) {
    for (let i = 0; i < 200; ++i) {
      const which = random.next() % most;
      expect(run(sn, sizes[which] as number)).toEqual(expected[which]);
    }
  }
});

test('an instance that has been disposed of refuses what it has done before', async () => {
  const instance = await load({});
  const each = given(instance, 'layerNorm', 'arrays');
  repeat(each);
  instance.dispose();
  expect(() => call(instance, 'layerNorm', each.x, each.options)).toThrow(/disposed/);
});

test('lengths that only layers have', () => {
  const layer = new sn.BatchNorm(4, { axis: 2 });
  layer.eval();
  const x = draw(24, 1);
  const shape = [2, 3, 4];
  const whole = layer.forward(x, { shape }) as Float32Array;
  for (let i = 0; i < 3; ++i) expect(layer.forward(x, { shape })).toEqual(whole);
  const ragged = layer.forward(x, { shape, lengths: [1, 3] }) as Float32Array;
  expect(ragged.subarray(4, 12)).toEqual(new Float32Array(8));
  expect(layer.forward(x, { shape })).toEqual(whole);
});

test('a variance and an epsilon of -0', () => {
  const x = draw(12, 1);
  const options = { mean: new Float32Array(4), variance: new Float32Array(4).fill(-0), shape: [3, 4] };
  const once = other.batchNorm(x, { ...options, epsilon: -0 });
  for (let i = 0; i < 3; ++i) sn.batchNorm(x, { ...options, epsilon: 0 });
  expect(sn.batchNorm(x, { ...options, epsilon: -0 })).toEqual(once);
});

// Accessors of classes can't be enumerated, so that one object may have the parameters of several operations.
describe.each([
  ['layerNorm', ['mean', 'variance']],
  ['rmsNorm', ['mean', 'variance']],
  ['instanceNorm', ['mean', 'variance']],
  ['groupNorm', ['mean', 'variance']],
  ['lpNormalize', ['mean', 'variance', 'scale', 'bias']],
] as const)('%s with hidden options of other operations', (op, names) => {
  test.each(names)('%s is written nowhere', async (name) => {
    const instance = await load({});
    const each = given(instance, op, 'arrays');
    const tensor = instance.tensor([4]);
    const first = outcome(each);
    // What is there depends on no call: it is in front of everything that the module has.
    const bytes = () => Array.from(new Uint8Array(tensor.data.buffer, 0, 1024));
    const before = bytes();
    Object.defineProperty(each.options, name, { value: new Float32Array(256).fill(7), enumerable: false });
    for (let i = 0; i < 4; ++i) expect(outcome(each)).toEqual(first);
    expect(bytes()).toEqual(before);
  });
});

test('a hidden varianceOut receives it each time, and nothing else does', async () => {
  const instance = await load({});
  const x = draw(12, 1);
  const hide = (value: unknown) => Object.defineProperty({}, 'varianceOut', { value, enumerable: false });
  const variance = new Float32Array(1);
  instance.layerNorm(x, hide(variance));
  const expected = variance[0];
  for (let i = 0; i < 3; ++i) {
    variance[0] = 0;
    instance.layerNorm(x, hide(variance));
    expect(variance[0]).toBe(expected);
  }
  const freed = instance.tensor([1]);
  for (let i = 0; i < 2; ++i) instance.layerNorm(x, hide(freed));
  freed.free();
  const another = instance.tensor([1], [42]);
  instance.layerNorm(x);
  expect(another.data[0]).toBe(42);
});

describe('an array that another thread makes longer', () => {
  const { isArray } = Array;
  const { set } = Float32Array.prototype;
  const values = draw(4, 1);

  function makeGrowing(): { growing: Float32Array; grow: () => void } {
    const buffer = growableBuffer(16, 32);
    const growing = new Float32Array(buffer);
    growing.set(values);
    return { growing, grow: () => buffer.grow(32) };
  }

  afterEach(() => {
    Array.isArray = isArray;
    Float32Array.prototype.set = set;
  });

  // Between what is described and what is checked, among others: the options, shape and axes are asked whether they are
  // lists at every step.
  test('while a call is checked', async () => {
    for (let step = 1; step < 20; ++step) {
      const instance = await load({});
      const expected = instance.layerNorm(values);
      const { growing, grow } = makeGrowing();
      let lists = 0;
      Array.isArray = ((value: unknown) => {
        if (++lists === step) grow();
        return isArray(value);
      }) as typeof isArray;
      instance.layerNorm(growing);
      Array.isArray = isArray;
      for (let i = 0; i < 3; ++i) expect(instance.layerNorm(values)).toEqual(expected);
    }
  });

  test('before a call that is not checked copies it', async () => {
    const instance = await load({});
    const expected = instance.layerNorm(values);
    for (let i = 0; i < 2; ++i) instance.layerNorm(values);
    const { growing, grow } = makeGrowing();
    Float32Array.prototype.set = function (from, offset) {
      if (growing.length === 4) grow();
      set.call(this, from, offset);
    };
    expect(instance.layerNorm(growing)).toHaveLength(8);
    Float32Array.prototype.set = set;
    for (let i = 0; i < 3; ++i) expect(instance.layerNorm(values)).toEqual(expected);
  });
});
