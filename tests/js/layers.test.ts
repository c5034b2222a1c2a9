import {
  type BatchNormLayer,
  type ErrorCode,
  type FloatArray,
  type Layer,
  type LayerOptions,
  load,
  NormError,
  type Simdnorm,
} from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { type DType, dtypes, type Floats, numbersOf, type Op, ofType, results } from './calls.ts';
import { canary, detach, draw, drawScale, drawVariance, product, Random, revoked } from './data.ts';
import { type Layout, layoutOptions, parameterLength, placesAlong, statisticsFor } from './layouts.ts';
import { expectBits, expectNear, machineEpsilon } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

const classes = ['LayerNorm', 'RmsNorm', 'GroupNorm', 'InstanceNorm', 'BatchNorm'] as const;
type ClassName = (typeof classes)[number];
type LayerOp = 'layerNorm' | 'rmsNorm' | 'groupNorm' | 'instanceNorm' | 'batchNormTraining';

interface Kind {
  readonly title: string;
  readonly className: ClassName;
  readonly make: (instance: Simdnorm, options?: LayerOptions) => Layer;
  /** The operation that the layer is while training, and an x for it. */
  readonly layout: Layout & { readonly op: LayerOp };
  /** An x of another shape, that fits as well. */
  readonly otherShape: readonly number[];
  /** The shape of an x of 24 values whose shape isn't given. */
  readonly defaultShape: readonly number[];
}

const nowhere = { axes: [], axis: 1, groups: 1 };
const kinds: readonly Kind[] = [
  {
    title: 'LayerNorm(4)',
    className: 'LayerNorm',
    make: (instance, options) => new instance.LayerNorm(4, options),
    layout: { ...nowhere, op: 'layerNorm', shape: [3, 4], axes: [1] },
    otherShape: [2, 3, 4],
    defaultShape: [6, 4],
  },
  {
    title: 'LayerNorm([2, 3])',
    className: 'LayerNorm',
    make: (instance, options) => new instance.LayerNorm([2, 3], options),
    layout: { ...nowhere, op: 'layerNorm', shape: [5, 2, 3], axes: [1, 2] },
    otherShape: [2, 1, 2, 3],
    defaultShape: [4, 2, 3],
  },
  {
    title: 'RmsNorm(4)',
    className: 'RmsNorm',
    make: (instance, options) => new instance.RmsNorm(4, options),
    layout: { ...nowhere, op: 'rmsNorm', shape: [3, 4], axes: [1] },
    otherShape: [2, 3, 4],
    defaultShape: [6, 4],
  },
  {
    title: 'RmsNorm([3, 2, 2])',
    className: 'RmsNorm',
    make: (instance, options) => new instance.RmsNorm([3, 2, 2], options),
    layout: { ...nowhere, op: 'rmsNorm', shape: [2, 3, 2, 2], axes: [1, 2, 3] },
    otherShape: [3, 2, 2],
    defaultShape: [2, 3, 2, 2],
  },
  {
    title: 'GroupNorm(2, 4)',
    className: 'GroupNorm',
    make: (instance, options) => new instance.GroupNorm(2, 4, options),
    layout: { ...nowhere, op: 'groupNorm', shape: [2, 4, 3], groups: 2 },
    otherShape: [1, 4, 2, 2],
    defaultShape: [6, 4],
  },
  {
    title: 'GroupNorm(3, 6, { axis: -1 })',
    className: 'GroupNorm',
    make: (instance, options) => new instance.GroupNorm(3, 6, { ...options, axis: -1 }),
    layout: { ...nowhere, op: 'groupNorm', shape: [2, 5, 6], axis: 2, groups: 3 },
    otherShape: [2, 2, 3, 6],
    defaultShape: [4, 6],
  },
  {
    title: 'InstanceNorm(4)',
    className: 'InstanceNorm',
    make: (instance, options) => new instance.InstanceNorm(4, options),
    layout: { ...nowhere, op: 'instanceNorm', shape: [2, 4, 5] },
    otherShape: [1, 4, 3, 2],
    defaultShape: [6, 4],
  },
  {
    title: 'InstanceNorm(3, { axis: 2 })',
    className: 'InstanceNorm',
    make: (instance, options) => new instance.InstanceNorm(3, { ...options, axis: -1 }),
    layout: { ...nowhere, op: 'instanceNorm', shape: [2, 5, 3], axis: 2 },
    otherShape: [1, 7, 3],
    defaultShape: [8, 3],
  },
  {
    title: 'BatchNorm(4)',
    className: 'BatchNorm',
    make: (instance, options) => new instance.BatchNorm(4, options),
    layout: { ...nowhere, op: 'batchNormTraining', shape: [5, 4] },
    otherShape: [2, 4, 3],
    defaultShape: [6, 4],
  },
  {
    title: 'BatchNorm(3, { axis: -1 })',
    className: 'BatchNorm',
    make: (instance, options) => new instance.BatchNorm(3, { ...options, axis: -1 }),
    layout: { ...nowhere, op: 'batchNormTraining', shape: [2, 4, 3], axis: 2 },
    otherShape: [7, 3],
    defaultShape: [8, 3],
  },
];

/** The same place, counted from the end of another rank. */
function layoutFor({ layout }: Kind, shape: readonly number[]): Kind['layout'] {
  const later = shape.length - layout.shape.length;
  const isFromTheEnd = layout.axis === layout.shape.length - 1 && layout.axis > 1;
  return {
    ...layout,
    shape,
    axes: layout.axes.map((axis) => axis + later),
    axis: isFromTheEnd ? layout.axis + later : layout.axis,
  };
}

/** Away from 1 and 0, where a forgotten parameter would not be seen. */
function fillParameters(layer: Layer, seed: number): void {
  for (const { name, value } of layer.parameters) {
    value.set(name === 'scale' ? drawScale(value.length, seed) : draw(value.length, seed + 1));
  }
}

function parameterOf(layer: Layer, wanted: 'scale' | 'bias'): Float32Array | undefined {
  return layer.parameters.find(({ name }) => name === wanted)?.value;
}

function gradientOf(layer: Layer, wanted: 'scale' | 'bias'): Float32Array | undefined {
  return layer.parameters.find(({ name }) => name === wanted)?.gradient;
}

interface Gradients {
  readonly dx: Floats;
  readonly dScale: Float32Array | Float64Array;
  readonly dBias?: Float32Array | Float64Array;
}

/** What the operations make of a layer's parameters, x and dy. */
function operations(layout: Kind['layout'], x: Floats, dy: Floats, layer: Layer, epsilon = 1e-5) {
  const { op } = layout;
  const dtype: DType = x instanceof Float64Array ? 'float64' : x instanceof Uint16Array ? 'float16' : 'float32';
  const scale = parameterOf(layer, 'scale');
  const bias = parameterOf(layer, 'bias');
  const options = { ...layoutOptions(layout), ...(dtype === 'float16' && { dtype }), scale, epsilon };
  const { y, mean, invStd } = results(sn, op, x, { ...options, bias, ...statisticsFor(layout, dtype) });
  const backward = sn[`${op}Backward`] as (dy: Floats, x: Floats, options: object) => Gradients;
  return { y: y as Floats, ...backward(dy, x, { ...options, mean: op === 'rmsNorm' ? undefined : mean, invStd }) };
}

function forward(layer: Layer, x: Floats, options?: object): Floats {
  return layer.forward(x, options) as Floats;
}

function backward(layer: Layer, dy: Floats, options?: object): Floats {
  return layer.backward(dy, options) as Floats;
}

/** To the bit, of any type. */
function expectSame(kind: Kind, shape: readonly number[], output: string, got: Floats, expected: Floats): void {
  expect(got.constructor).toBe(expected.constructor);
  expectBits({ op: kind.title, shape, output }, numbersOf(got), numbersOf(expected));
}

/** As a gradient that was 0 before: of -0 that is 0. */
function addedToZero(gradient: ArrayLike<number> | undefined): Float32Array {
  return Float32Array.from(gradient ?? [], (value) => 0 + value);
}

function expectError(code: ErrorCode | readonly ErrorCode[], run: () => unknown, ...says: (string | RegExp)[]) {
  let thrown: unknown;
  try {
    run();
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(NormError);
  const { code: got, message, op } = thrown as NormError;
  expect([code].flat(), message).toContain(got);
  expect(message.startsWith(`${op}: `), message).toBe(true);
  for (const part of says) expect(message).toMatch(part);
  return thrown as NormError;
}

/** Everything of a layer that a failed call must leave alone. */
function stateOf(layer: Layer): string {
  const parameters = layer.parameters.map(({ value, gradient }) => [[...value], [...gradient]]);
  return JSON.stringify([parameters, JSON.stringify(layer), layer.training]);
}

describe.each(kinds)('$title', (kind) => {
  const { layout, make, className } = kind;
  const { op, shape } = layout;
  const size = product(shape);
  const channels = parameterLength(layout);
  const names = op === 'rmsNorm' ? ['scale'] : ['scale', 'bias'];
  const xOf = (seed: number, of = shape) => draw(product(of), seed, 0.7, 3);
  const dyOf = (seed: number, of = shape) => draw(product(of), seed, -0.3, 1.5);

  test.each(dtypes.flatMap((dtype) => [true, false].map((affine) => ({ dtype, affine }))))(
    'is its operation to the bit, forward and backward: $dtype, affine $affine',
    ({ dtype, affine }) => {
      for (const epsilon of [undefined, 0.5, 0]) {
        for (const given of [shape, kind.otherShape]) {
          const layer = make(sn, { affine, epsilon });
          fillParameters(layer, 5);
          const { x, options } = ofType(dtype, xOf(1, given));
          const { x: dy } = ofType(dtype, dyOf(2, given));
          const expected = operations(layoutFor(kind, given), x, dy, layer, epsilon);
          expectSame(kind, given, 'y', forward(layer, x, { shape: given, ...options }), expected.y);
          expectSame(kind, given, 'dx', backward(layer, dy), expected.dx);
          if (!affine) continue;
          for (const [name, gradient] of [
            ['scale', expected.dScale],
            ['bias', expected.dBias],
          ] as const) {
            if (!names.includes(name)) continue;
            const what = { op: kind.title, shape: given, output: `gradient of ${name}` };
            expectBits(what, gradientOf(layer, name) as Float32Array, addedToZero(gradient));
          }
        }
      }
    },
  );

  test('its parameters are a scale of 1 and a bias of 0, with gradients of 0, its own', () => {
    const [layer, other] = [make(sn), make(sn, {})];
    expect(layer.parameters.map(({ name }) => name)).toEqual(names);
    for (const { name, value, gradient } of layer.parameters) {
      expect(value).toEqual(new Float32Array(channels).fill(name === 'scale' ? 1 : 0));
      expect(gradient).toEqual(new Float32Array(channels));
    }
    fillParameters(layer, 3);
    for (const { name, value, gradient } of other.parameters) {
      expect(value).toEqual(new Float32Array(channels).fill(name === 'scale' ? 1 : 0));
      expect(gradient.buffer).not.toBe(value.buffer);
    }
  });

  test('without affine it has no parameters', () => {
    const layer = make(sn, { affine: false });
    expect(layer.parameters).toEqual([]);
    forward(layer, xOf(1), { shape });
    backward(layer, dyOf(2));
    layer.zeroGradients();
    expect(layer.parameters).toEqual([]);
    expect(make(sn, { affine: true }).parameters).toHaveLength(names.length);
    expect(make(sn, { affine: undefined, epsilon: null as never }).parameters).toHaveLength(names.length);
  });

  test('an optimizer changes its parameters in place', () => {
    const layer = make(sn);
    const x = xOf(1);
    const before = layer.parameters.map(({ value }) => value);
    const losses: number[] = [];
    // Towards y = 2: the loss is the mean of (y - 2)^2 / 2.
    for (let step = 0; step < 30; ++step) {
      const y = numbersOf(forward(layer, x, { shape }));
      const rest = y.map((value) => value - 2);
      losses.push(rest.reduce((sum, value) => sum + value ** 2 / 2, 0) / size);
      backward(
        layer,
        Float32Array.from(rest, (value) => value / size),
      );
      for (const { value, gradient } of layer.parameters) {
        for (let i = 0; i < value.length; ++i) value[i] = (value[i] as number) - 0.3 * (gradient[i] as number);
      }
      layer.zeroGradients();
    }
    for (let step = 1; step < losses.length; ++step) expect(losses[step]).toBeLessThan(losses[step - 1] as number);
    expect(layer.parameters.map(({ value }) => value)).toEqual(before);
    expect(layer.parameters.every(({ value }, i) => value === before[i])).toBe(true);
    expect(layer.parameters).toBe(layer.parameters);
  });

  test('train() and eval() return it and say which it is', () => {
    const layer = make(sn);
    expect(layer.training).toBe(true);
    expect(layer.eval()).toBe(layer);
    expect(layer.training).toBe(false);
    expect(layer.eval().training).toBe(false);
    expect(layer.train()).toBe(layer);
    expect(layer.training).toBe(true);
    layer.training = false;
    forward(layer, xOf(1), { shape });
    expectError('ERR_STATE', () => backward(layer, dyOf(2)));
  });

  test('gradients are sums over backward calls until zeroGradients', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const arrays = layer.parameters.map(({ gradient }) => gradient);
    for (let round = 0; round < 2; ++round) {
      const sums = arrays.map(() => new Float32Array(channels));
      for (let seed = 1; seed <= 4; ++seed) {
        const given = seed % 2 ? shape : kind.otherShape;
        const [x, dy] = [xOf(seed, given), dyOf(seed + 10, given)];
        forward(layer, x, { shape: given });
        backward(layer, dy);
        const { dScale, dBias } = operations(layoutFor(kind, given), x, dy, layer);
        for (const [i, added] of [dScale, dBias].entries()) {
          const sum = sums[i];
          if (sum && added) for (let c = 0; c < channels; ++c) sum[c] = (sum[c] as number) + (added[c] as number);
        }
        for (const [i, sum] of sums.entries()) {
          const what = { op: kind.title, shape: given, output: `gradient ${i}`, data: `${seed} calls` };
          expectBits(what, arrays[i] as Float32Array, sum);
        }
      }
      layer.zeroGradients();
      for (const [i, { gradient }] of layer.parameters.entries()) {
        expect(gradient).toBe(arrays[i]);
        expect(gradient).toEqual(new Float32Array(channels));
      }
    }
  });

  test('backward answers as many forward calls as there were, in reverse', () => {
    const layer = make(sn, { epsilon: 0.25 });
    fillParameters(layer, 5);
    const steps = [1, 2, 3, 4, 5].map((seed) => {
      const given = seed % 2 ? shape : kind.otherShape;
      const dtype = dtypes[seed % 3] as DType;
      const { x, options } = ofType(dtype, xOf(seed, given));
      const { x: dy } = ofType(dtype, dyOf(seed + 10, given));
      return { given, x, dy, options };
    });
    const answer = ({ given, x, dy }: (typeof steps)[number]) => {
      const { dx } = operations(layoutFor(kind, given), x, dy, layer, 0.25);
      expectSame(kind, given, 'dx', backward(layer, dy), dx);
    };
    for (const { given, x, options } of steps.slice(0, 4)) forward(layer, x, { shape: given, ...options });
    const [first, second, third, fourth, fifth] = steps as [never, never, never, never, never];
    answer(fourth);
    answer(third);
    const { x, given, options } = fifth as (typeof steps)[number];
    forward(layer, x, { shape: given, ...options });
    // A forward call in between that isn't training's is not answered.
    forward(layer.eval(), xOf(9), { shape });
    answer(fifth);
    layer.train();
    answer(second);
    answer(first);
    expectError('ERR_STATE', () => backward(layer, dyOf(1)));
  });

  test('backward without a forward call to answer is ERR_STATE', () => {
    const layer = make(sn);
    const dy = dyOf(2);
    expectError('ERR_STATE', () => backward(layer, dy), /forward/);
    forward(layer.eval(), xOf(1), { shape });
    expectError('ERR_STATE', () => backward(layer, dy), /forward/);
    expectError('ERR_STATE', () => backward(layer.train(), dy), /forward/);
    forward(layer, xOf(1), { shape });
    backward(layer, dy);
    const state = stateOf(layer);
    expectError('ERR_STATE', () => backward(layer, dy), /forward/);
    expectError('ERR_TYPE', () => forward(layer, xOf(1), { shape, size: 3 }), /size/);
    expectError('ERR_STATE', () => backward(layer, dy), /forward/);
    expect(stateOf(layer)).toBe(state);
  });

  test('out may not be x while training, in eval it may', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const x = xOf(1);
    const kept = Float32Array.from(x);
    const state = stateOf(layer);
    expectError('ERR_OVERLAP', () => forward(layer, x, { shape, out: x }), /\bout\b/, /\bx\b/);
    const memory = new Float32Array(size + 4);
    memory.set(x);
    const overlapping = { shape, out: memory.subarray(4) };
    expectError('ERR_OVERLAP', () => forward(layer, memory.subarray(0, size), overlapping), /\bout\b/);
    expect(x).toEqual(kept);
    expect(stateOf(layer)).toBe(state);
    expectError('ERR_STATE', () => backward(layer, dyOf(2)));

    layer.eval();
    const expected = forward(layer, kept, { shape });
    expect(forward(layer, x, { shape, out: x })).toBe(x);
    expectSame(kind, shape, 'y', x, expected);
    expectError('ERR_OVERLAP', () => forward(layer, memory.subarray(0, size), overlapping), /\bout\b/);
  });

  test('out may not be an x that an earlier forward call has kept, until its backward call', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const [first, second, dy] = [xOf(1), xOf(2), dyOf(3)];
    const expected = operations(layout, first, dy, layer);
    forward(layer, first, { shape });
    const state = stateOf(layer);
    const out = new Float32Array(first.buffer);
    expectError('ERR_OVERLAP', () => forward(layer, second, { shape, out }), /\bout\b/, /backward/);
    layer.eval();
    expectError('ERR_OVERLAP', () => forward(layer, second, { shape, out }), /\bout\b/, /backward/);
    expectError('ERR_OVERLAP', () => forward(layer, first, { shape, out }), /\bout\b/, /backward/);
    layer.train();
    expect(stateOf(layer)).toBe(state);
    forward(layer, second, { shape });
    expectError('ERR_OVERLAP', () => backward(layer, dy, { out }), /\bout\b/, /backward/);
    // Its own x nobody needs any more.
    expect(backward(layer, dy, { out: second })).toBe(second);
    expect(first).toEqual(xOf(1));
    expect(backward(layer, dy, { out })).toBe(out);
    expectSame(kind, shape, 'dx', out, expected.dx);
    // Of the same x twice, the one that is left is read again.
    const twice = xOf(4);
    forward(layer, twice, { shape });
    forward(layer, twice, { shape });
    expectError('ERR_OVERLAP', () => backward(layer, dy, { out: twice }), /\bout\b/);
    backward(layer, dy);
    expect(backward(layer, dy, { out: twice })).toBe(twice);
  });

  test('errors are in the name of the layer, whatever finds them', async () => {
    const own = await load({});
    const layer = make(own);
    const x = xOf(1);
    const [detached, dy] = [dyOf(1), dyOf(2)];
    detach(detached);
    const memory = new Float32Array(size + 1);
    const attempts: (() => unknown)[] = [
      () => layer.forward(new Float32Array(0)),
      () => layer.forward(new Float32Array(0), { shape: [0, ...shape.slice(1, -1), 0] }),
      () => layer.eval().forward(memory.subarray(0, size), { shape, out: memory.subarray(1) }),
      () => layer.backward(detached),
      () => layer.backward(dy, { out: detached }),
      () => layer.backward(dy.subarray(1)),
      () => layer.backward(dy, { out: parameterOf(layer, 'scale') }),
      () => own.dispose() ?? layer.backward(dy),
      () => layer.train().forward(x, { shape }),
      () => layer.eval().forward(x, { shape }),
    ];
    layer.forward(x, { shape });
    for (const attempt of attempts) {
      try {
        attempt();
      } catch (error) {
        expect(error).toMatchObject({ name: 'NormError', op: className });
        expect((error as Error).message.startsWith(`${className}: `)).toBe(true);
        expect((error as Error).message.slice(className.length + 2)).not.toMatch(/^\w+(Norm|Training|Backward): /);
      }
    }
    expect(expectError('ERR_FREED', attempts.at(-1) as () => unknown).op).toBe(className);
  });

  test('out receives y and dx and is returned', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const [x, dy] = [xOf(1), dyOf(2)];
    const expected = operations(layout, x, dy, layer);
    const out = new Float32Array(size).fill(canary);
    expect(forward(layer, x, { shape, out })).toBe(out);
    expectSame(kind, shape, 'y', out, expected.y);
    const dx = new Float32Array(size).fill(canary);
    expect(backward(layer, dy, { out: dx })).toBe(dx);
    expectSame(kind, shape, 'dx', dx, expected.dx);
    // dy, and x, which nobody needs any more.
    for (const which of ['dy', 'x']) {
      const given = { x: Float32Array.from(x), dy: Float32Array.from(dy) };
      forward(layer, given.x, { shape });
      const place = which === 'x' ? given.x : given.dy;
      expect(backward(layer, given.dy, { out: place })).toBe(place);
      expectSame(kind, shape, 'dx', place, expected.dx);
    }
  });

  test('neither x nor dy is changed', () => {
    const layer = make(sn);
    const [x, dy] = [xOf(1), dyOf(2)];
    const y = forward(layer, x, { shape });
    const dx = backward(layer, dy);
    expect(x).toEqual(xOf(1));
    expect(dy).toEqual(dyOf(2));
    for (const result of [y, dx]) expect([x.buffer, dy.buffer]).not.toContain(result.buffer);
  });

  test('x is kept by reference: what is in it when backward is called is what counts', () => {
    const layer = make(sn, { affine: false });
    const x = xOf(1);
    forward(layer, x, { shape });
    const undisturbed = backward(layer, dyOf(2));
    forward(layer, x, { shape });
    x.set(xOf(3));
    expect([...backward(layer, dyOf(2))]).not.toEqual([...undisturbed]);
  });

  test('what it kept of the shape and the options is a copy', () => {
    const layer = make(sn);
    const [x, dy] = [xOf(1), dyOf(2)];
    const mutable = [...shape];
    const options = { shape: mutable };
    const { dx } = operations(layout, x, dy, layer);
    forward(layer, x, options);
    mutable.fill(1);
    options.shape = [];
    expectSame(kind, shape, 'dx', backward(layer, dy), dx);
  });

  test('without a shape x is as many rows or items as fit', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const [x, dy] = [draw(24, 1), draw(24, 2)];
    const expected = operations(layoutFor(kind, kind.defaultShape), x, dy, layer);
    for (const options of [undefined, null as never, {}, { shape: undefined }, { shape: null }]) {
      expectSame(kind, kind.defaultShape, 'y', forward(layer, x, options), expected.y);
      expectSame(kind, kind.defaultShape, 'dx', backward(layer, dy), expected.dx);
    }
    expectError('ERR_SHAPE', () => forward(layer, draw(25, 1)), /\b25\b/);
    expectError('ERR_STATE', () => backward(layer, dy));
  });

  test('a shape that the layer does not have is ERR_SHAPE, and nothing is kept', () => {
    const layer = make(sn);
    const state = stateOf(layer);
    const wrong = shape.map((extent) => extent + 1);
    for (const given of [wrong, [1], [size + 1]]) {
      const x = xOf(1, given);
      expectError(['ERR_SHAPE', 'ERR_AXIS'], () => forward(layer, x, { shape: given }), /shape|axis/);
      expectError(['ERR_SHAPE', 'ERR_AXIS'], () => forward(layer.eval(), x, { shape: given }), /shape|axis/);
      layer.train();
    }
    expectError('ERR_SHAPE', () => forward(layer, xOf(1), { shape: wrong }), String(size));
    expect(stateOf(layer)).toBe(state);
    expectError('ERR_STATE', () => backward(layer, dyOf(2)));
  });

  test('a failed forward call leaves out and the layer as they were', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const out = new Float32Array(size + 1).fill(canary);
    const detached = xOf(1);
    detach(detached);
    const state = stateOf(layer);
    const failures: readonly [ErrorCode, unknown, object][] = [
      ['ERR_TYPE', [...xOf(1)], { shape }],
      ['ERR_TYPE', undefined, { shape }],
      ['ERR_TYPE', new Uint16Array(size), { shape }],
      ['ERR_TYPE', xOf(1), { shape, dtype: 'float16' }],
      ['ERR_TYPE', detached, { shape }],
      ['ERR_TYPE', xOf(1), { shape, axes: [0] }],
      ['ERR_TYPE', xOf(1), { shape, axis: 1 }],
      ['ERR_TYPE', xOf(1), { shape, epsilon: 1 }],
      ['ERR_TYPE', xOf(1), { shape, scale: [1] }],
      ['ERR_TYPE', xOf(1), { shape: '2' }],
      ['ERR_TYPE', xOf(1), { shape, out: [] }],
      ['ERR_TYPE', xOf(1), { shape, out: new Float64Array(size) }],
      ['ERR_SHAPE', xOf(1), { shape, out }],
      ['ERR_SHAPE', xOf(1), { shape: [...shape, 2] }],
      ['ERR_SHAPE', xOf(1).subarray(1), { shape }],
    ];
    for (const [code, x, options] of failures) {
      expectError(code, () => layer.forward(x as Floats, { ...options }));
      expectError(code, () => layer.eval().forward(x as Floats, { ...options }));
      layer.train();
      expectError('ERR_STATE', () => backward(layer, dyOf(2)));
      expect(stateOf(layer)).toBe(state);
    }
    expect(out.every((value) => value === Math.fround(canary))).toBe(true);
  });

  test('a failed backward call leaves the stack, the gradients and out as they were', () => {
    const layer = make(sn);
    fillParameters(layer, 5);
    const [x, dy] = [xOf(1), dyOf(2)];
    const expected = operations(layout, x, dy, layer);
    forward(layer, xOf(3), { shape });
    forward(layer, x, { shape });
    const out = new Float32Array(size).fill(canary);
    const state = stateOf(layer);
    const memory = new Float32Array(size + 1);
    const failures: readonly [ErrorCode, unknown, object][] = [
      ['ERR_SHAPE', dy.subarray(1), { out }],
      ['ERR_SHAPE', draw(size + 1, 1), { out }],
      ['ERR_SHAPE', new Float32Array(0), { out }],
      ['ERR_SHAPE', dy, { out: memory }],
      ['ERR_TYPE', Float64Array.from(dy), { out }],
      ['ERR_TYPE', [...dy], { out }],
      ['ERR_TYPE', undefined, { out }],
      ['ERR_TYPE', dy, { out: new Float64Array(size) }],
      ['ERR_TYPE', dy, { out, shape: [...shape] }],
      ['ERR_TYPE', dy, { out, scale: [1] }],
      ['ERR_TYPE', dy, 3 as never],
      ['ERR_OVERLAP', memory.subarray(0, size), { out: memory.subarray(1) }],
    ];
    for (const [code, given, options] of failures) {
      expectError(code, () => layer.backward(given as Floats, options));
      expect(stateOf(layer)).toBe(state);
      expect(out.every((value) => value === Math.fround(canary))).toBe(true);
    }
    expectSame(kind, shape, 'dx', backward(layer, dy), expected.dx);
    const before = operations(layout, xOf(3), dy, layer);
    expectSame(kind, shape, 'dx', backward(layer, dy), before.dx);
    expectError('ERR_STATE', () => backward(layer, dy));
  });

  test('two layers of a class do not mix', () => {
    const [one, two] = [make(sn), make(sn, { epsilon: 2 })];
    fillParameters(one, 5);
    fillParameters(two, 7);
    const [x, dy] = [xOf(1), dyOf(2)];
    const expected = [operations(layout, x, dy, one), operations(layout, x, dy, two, 2)] as const;
    forward(one, x, { shape });
    forward(two, x, { shape });
    two.eval();
    expectSame(kind, shape, 'dx', backward(one, dy), expected[0].dx);
    for (const { gradient } of two.parameters) expect(gradient).toEqual(new Float32Array(channels));
    expect(one.training).toBe(true);
    expectSame(kind, shape, 'dx', backward(two, dy), expected[1].dx);
    one.zeroGradients();
    expect([...(gradientOf(two, 'scale') as Float32Array)]).not.toEqual([...new Float32Array(channels)]);
  });

  describe('as JSON', () => {
    const specials = [-0, NaN, Infinity, -Infinity, 2 ** -149, -(2 ** -140), 3.4028234663852886e38, Math.fround(0.1)];
    const withSpecials = () => {
      const layer = make(sn, { epsilon: 0.1 + 0.2 });
      for (const [offset, { value }] of layer.parameters.entries()) {
        for (let i = 0; i < value.length; ++i) value[i] = specials[(i + 4 * offset) % specials.length] as number;
      }
      return layer;
    };
    const again = (layer: Layer): Layer => sn[className].fromJSON(JSON.parse(JSON.stringify(layer)));

    test('its parameters survive to the bit', () => {
      const layer = withSpecials();
      const restored = again(layer);
      expect(restored).not.toBe(layer);
      expect(restored).toBeInstanceOf(sn[className]);
      expect(restored.parameters.map(({ name }) => name)).toEqual(names);
      for (const [i, { name, value }] of layer.parameters.entries()) {
        const other = restored.parameters[i] as (typeof layer.parameters)[number];
        expectBits({ op: kind.title, shape: [channels], output: name }, other.value, value);
        expect(other.value.buffer).not.toBe(value.buffer);
        expect(other.gradient).toEqual(new Float32Array(channels));
      }
      expect(JSON.stringify(restored)).toBe(JSON.stringify(layer));
      expect(sn[className].fromJSON(layer.toJSON()).toJSON()).toEqual(layer.toJSON());
    });

    test('its numbers are base64 of little-endian bytes', () => {
      const layer = make(sn);
      fillParameters(layer, 5);
      const text = JSON.stringify(layer);
      for (const { value } of layer.parameters) {
        const bytes = new DataView(new ArrayBuffer(4 * value.length));
        for (let i = 0; i < value.length; ++i) bytes.setFloat32(4 * i, value[i] as number, true);
        expect(text).toContain(JSON.stringify(Buffer.from(bytes.buffer).toString('base64')));
      }
    });

    test.each([
      { epsilon: undefined, affine: undefined },
      { epsilon: 0.1 + 0.2, affine: true },
      { epsilon: 0, affine: false },
      { epsilon: 5e-324, affine: false },
    ])('options, groups, axis and mode survive: epsilon $epsilon, affine $affine', (options) => {
      for (const training of [true, false]) {
        const layer = make(sn, options);
        fillParameters(layer, 5);
        layer.training = training;
        const restored = again(layer);
        expect(restored.training).toBe(training);
        expect(restored.parameters).toHaveLength(options.affine === false ? 0 : names.length);
        for (const given of [shape, kind.otherShape]) {
          const [x, dy] = [xOf(1, given), dyOf(2, given)];
          const y = forward(layer, x, { shape: given });
          expectSame(kind, given, 'y', forward(restored, x, { shape: given }), y);
          if (training) expectSame(kind, given, 'dx', backward(restored, dy), backward(layer, dy));
        }
      }
    });

    test('gradients and forward calls that wait for an answer are not in it', () => {
      const layer = make(sn);
      forward(layer, xOf(1), { shape });
      forward(layer, xOf(1), { shape });
      backward(layer, dyOf(2));
      const restored = again(layer);
      for (const { gradient } of restored.parameters) expect(gradient).toEqual(new Float32Array(channels));
      expectError('ERR_STATE', () => backward(restored, dyOf(2)));
      backward(layer, dyOf(2));
    });

    test('what is no JSON of it is a NormError that says why', () => {
      const json = JSON.parse(JSON.stringify(withSpecials())) as Record<string, unknown>;
      const type: ErrorCode = 'ERR_TYPE';
      const fromJSON = (value: unknown) => () => sn[className].fromJSON(value);
      const wrong: readonly [unknown, RegExp][] = [
        [undefined, /undefined/],
        [null, /null/],
        [3, /3/],
        ['', /string/],
        [JSON.stringify(json), /string/],
        [true, /true/],
        [[], /Array/],
        [[json], /Array/],
        [() => json, /function/],
        [new Float32Array(3), /Float32Array|layer/],
        [{}, new RegExp(className)],
        [{ ...json, scale: undefined }, /scale/],
        [{ ...json, scale: null }, /scale/],
        [{ ...json, scale: [1, 2, 3, 4] }, /scale/],
        [{ ...json, scale: 'no base64!' }, /scale/],
        [{ ...json, epsilon: 'a' }, /epsilon/],
        [{ ...json, affine: 'true' }, /affine/],
        [{ ...json, training: 1 }, /training/],
      ];
      for (const [value, says] of wrong) {
        const error = expectError(type, fromJSON(value), says);
        expect(error.op).toContain(className);
      }
      const scale = json.scale as string;
      const oneMore = Buffer.concat([Buffer.from(scale, 'base64'), Buffer.alloc(4)]).toString('base64');
      expectError('ERR_SHAPE', fromJSON({ ...json, scale: oneMore }), /scale/, String(channels), String(channels + 1));
      expectError(['ERR_SHAPE', 'ERR_TYPE'], fromJSON({ ...json, scale: scale.slice(4) }), /scale/);
      expectError(['ERR_SHAPE', 'ERR_TYPE'], fromJSON({ ...json, scale: '' }), /scale/);
      expectError('ERR_RANGE', fromJSON({ ...json, epsilon: -1 }), /epsilon/, /-1/);
    });

    test('an array is made once the JSON is known to have as many values', async () => {
      const json = JSON.parse(JSON.stringify(make(sn))) as Record<string, unknown>;
      const large = 'shape' in json ? { shape: [2 ** 28] } : { channels: 2 ** 28 };
      const made: number[] = [];
      const { Float32Array: own } = globalThis;
      globalThis.Float32Array = new Proxy(own, {
        construct(target, given, newTarget) {
          if (typeof given[0] === 'number') made.push(given[0]);
          return Reflect.construct(target, given, newTarget);
        },
      });
      try {
        expectError('ERR_SHAPE', () => sn[className].fromJSON({ ...json, ...large }), /scale/, String(2 ** 28));
      } finally {
        globalThis.Float32Array = own;
      }
      expect(made).toEqual([]);
    });

    test('what has no JSON in it, or too much, is a NormError', () => {
      const json = JSON.parse(JSON.stringify(make(sn))) as Record<string, unknown>;
      const values = [revoked(), revoked([]), Object.create(null), Symbol('json'), new Array(5e8), 5n, NaN];
      for (const value of values) {
        expect(() => sn[className].fromJSON(value)).toThrow(NormError);
        for (const name of Object.keys(json)) {
          expect(() => sn[className].fromJSON({ ...json, [name]: value }), name).toThrow(NormError);
        }
      }
    });

    test('another class does not take it', () => {
      const json = JSON.parse(JSON.stringify(make(sn)));
      for (const other of classes.filter((each) => each !== className)) {
        const error = expectError('ERR_TYPE', () => sn[other].fromJSON(json), className);
        expect(error.op).toContain(other);
      }
    });
  });
});

describe('lengths', () => {
  const lengths = [4, 0, 2];
  const shape = [3, 4, 5];
  const x = draw(60, 1);
  const dy = draw(60, 2);
  const ragged = [
    ['LayerNorm', 'layerNorm', () => new sn.LayerNorm(5), [2]],
    ['LayerNorm', 'layerNorm', () => new sn.LayerNorm([4, 5]), [1, 2]],
    ['RmsNorm', 'rmsNorm', () => new sn.RmsNorm(5), [2]],
    ['RmsNorm', 'rmsNorm', () => new sn.RmsNorm([4, 5]), [1, 2]],
    ['BatchNorm', 'batchNormTraining', () => new sn.BatchNorm(5, { axis: 2 }), []],
  ] as const;

  test.each(ragged)('%s is its operation to the bit', (name, op, make, axes) => {
    const layer = make();
    fillParameters(layer, 5);
    const layout: Kind['layout'] = { op, shape, axes, axis: 2, groups: 1 };
    const [scale, bias] = [parameterOf(layer, 'scale'), parameterOf(layer, 'bias')];
    const options = { ...layoutOptions(layout), scale, lengths };
    const expected = results(sn, op, x, { ...options, bias, ...statisticsFor(layout, 'float32') });
    const given = Int32Array.from(lengths);
    const y = forward(layer, x, { shape, lengths: given });
    expectBits({ op: name, shape }, y, expected.y as Float32Array);
    // What backward needs of them has been copied.
    given.fill(1);
    const { invStd } = expected;
    const gradients = (sn[`${op}Backward`] as (dy: Floats, x: Floats, options: object) => Gradients)(dy, x, {
      ...options,
      invStd,
    });
    const dx = backward(layer, dy);
    expectBits({ op: name, shape, output: 'dx' }, dx, gradients.dx as Float32Array);
    expectBits(
      { op: name, shape, output: 'dScale' },
      gradientOf(layer, 'scale') as Float32Array,
      addedToZero(gradients.dScale),
    );
    expect([...y.subarray(10, 20)]).not.toContain(0);
    expect([...dx.subarray(20, 40)]).toEqual(Array(20).fill(0));
    expect([...y.subarray(20, 40)]).toEqual(Array(20).fill(0));
  });

  test.each(ragged)('of %s past the end in eval, 0 as well', (name, op, make, axes) => {
    const layer = make().eval();
    fillParameters(layer, 5);
    const padded = forward(layer, x, { shape, lengths });
    if (op === 'batchNormTraining') {
      const whole = forward(layer, x, { shape });
      const steps = placesAlong(shape, [0]).map((item) => lengths[item] as number);
      const places = placesAlong(shape, [1]);
      const expected = whole.map((value, i) => ((places[i] as number) < (steps[i] as number) ? value : 0));
      expectBits({ op: name, shape }, padded, expected);
    } else {
      const [scale, bias] = [parameterOf(layer, 'scale'), parameterOf(layer, 'bias')];
      const { y } = results(sn, op, x, { shape, axes, lengths, scale, bias });
      expectBits({ op: name, shape }, padded, y as Float32Array);
    }
    expect(forward(layer, Float32Array.from(x), { shape, lengths })).toEqual(padded);
  });

  test('along the channel axis they are ERR_AXIS, while training and in eval', () => {
    const layer = new sn.BatchNorm(4);
    expectError('ERR_AXIS', () => layer.forward(x, { shape, lengths }), /axis/);
    expectError('ERR_AXIS', () => layer.eval().forward(x, { shape, lengths }), /axis/);
  });

  test('that are wrong are refused, while training and in eval', () => {
    for (const [, , make] of ragged) {
      const layer = make();
      for (const each of [layer, layer.eval()]) {
        const given = (value: unknown) => () => each.forward(x, { shape, lengths: value as number[] });
        expectError('ERR_SHAPE', given([1, 2]), /lengths/);
        expectError('ERR_RANGE', given([1, 2, 5]), /lengths/);
        expectError('ERR_RANGE', given([1, 2, -1]), /lengths/);
        expectError('ERR_TYPE', given('abc'), /lengths/);
        expectError('ERR_STATE', () => layer.backward(dy));
      }
    }
  });

  test('may not be part of out', () => {
    const buffer = new ArrayBuffer(64);
    const out = new Float32Array(buffer, 0, 12);
    const lengths = new Int32Array(buffer, 44, 2).fill(2);
    for (const layer of [new sn.LayerNorm(2), new sn.RmsNorm(2), new sn.BatchNorm(2, { axis: 2 })]) {
      const run = () => layer.forward(draw(12, 1), { shape: [2, 3, 2], lengths, out });
      expectError('ERR_OVERLAP', run, /out/, /lengths/);
      layer.eval();
      expectError('ERR_OVERLAP', run, /out/, /lengths/);
      expect([...new Uint32Array(buffer)]).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0]);
    }
  });

  test('are none of group and instance norm', () => {
    const options = { shape: [3, 4, 5], lengths };
    expectError('ERR_TYPE', () => new sn.GroupNorm(2, 4).forward(x, options), /lengths/);
    expectError('ERR_TYPE', () => new sn.InstanceNorm(4).forward(x, options), /lengths/);
  });
});

describe('what constructors refuse', () => {
  type Args = readonly unknown[];
  const construct = (className: ClassName, args: Args) => {
    const Class = sn[className] as { new (...args: unknown[]): Layer };
    return new Class(...args);
  };
  /** Right first arguments of each. */
  const right: Record<ClassName, Args> = {
    LayerNorm: [[2, 3]],
    RmsNorm: [[2, 3]],
    GroupNorm: [2, 4],
    InstanceNorm: [4],
    BatchNorm: [4],
  };
  type Bad = readonly [className: ClassName, args: Args, codes: ErrorCode | readonly ErrorCode[], says: RegExp];
  const bad: Bad[] = [];
  for (const className of classes) {
    const args = right[className];
    const withOptions = (options: unknown): Args => [...args, options];
    bad.push(
      [className, [], 'ERR_TYPE', /undefined/],
      [className, withOptions(3), 'ERR_TYPE', /3/],
      [className, withOptions('affine'), 'ERR_TYPE', /affine/],
      [className, withOptions([]), 'ERR_TYPE', /Array/],
      [className, withOptions(new Float32Array(4)), 'ERR_TYPE', /Float32Array/],
      [className, withOptions({ eps: 1e-3 }), 'ERR_TYPE', /'eps'.*'epsilon'/],
      [className, withOptions({ afine: false }), 'ERR_TYPE', /'afine'.*'affine'/],
      [className, withOptions({ scale: [1, 2, 3, 4] }), 'ERR_TYPE', /scale/],
      [className, withOptions({ epsilon: -1e-5 }), 'ERR_RANGE', /epsilon.*-0\.00001|epsilon.*-1e-5/],
      [className, withOptions({ epsilon: NaN }), 'ERR_RANGE', /epsilon.*NaN/],
      [className, withOptions({ epsilon: Infinity }), 'ERR_RANGE', /epsilon.*Infinity/],
      [className, withOptions({ epsilon: '1e-5' }), 'ERR_TYPE', /epsilon/],
      [className, withOptions({ affine: 1 }), 'ERR_TYPE', /affine.*1/],
      [className, withOptions({ affine: 'false' }), 'ERR_TYPE', /affine.*false/],
    );
  }
  for (const className of ['LayerNorm', 'RmsNorm'] as const) {
    bad.push(
      [className, [null], 'ERR_TYPE', /null/],
      [className, ['4'], 'ERR_TYPE', /4/],
      [className, [{}], 'ERR_TYPE', /object/],
      [className, [[]], ['ERR_SHAPE', 'ERR_RANGE'], /\[\]|0/],
      [className, [0], ['ERR_SHAPE', 'ERR_RANGE'], /0/],
      [className, [-4], ['ERR_SHAPE', 'ERR_RANGE'], /-4/],
      [className, [1.5], ['ERR_SHAPE', 'ERR_RANGE'], /1\.5/],
      [className, [NaN], ['ERR_SHAPE', 'ERR_RANGE'], /NaN/],
      [className, [[3, 0]], ['ERR_SHAPE', 'ERR_RANGE'], /0/],
      [className, [[3, '2']], 'ERR_TYPE', /2/],
      [className, [[3, undefined]], 'ERR_TYPE', /undefined/],
      [className, [4, { axis: 1 }], 'ERR_TYPE', /axis/],
      [className, [4, { axes: [1] }], 'ERR_TYPE', /axes/],
      [className, [2 ** 50], ['ERR_MEMORY', 'ERR_RANGE', 'ERR_SHAPE'], /\d/],
      [className, [[2 ** 20, 2 ** 20]], ['ERR_MEMORY', 'ERR_RANGE', 'ERR_SHAPE'], /\d/],
    );
  }
  for (const className of ['InstanceNorm', 'BatchNorm'] as const) {
    bad.push(
      [className, [0], ['ERR_SHAPE', 'ERR_RANGE'], /channels.*0/],
      [className, [-1], ['ERR_SHAPE', 'ERR_RANGE'], /channels.*-1/],
      [className, [2.5], ['ERR_SHAPE', 'ERR_RANGE'], /channels.*2\.5/],
      [className, ['4'], 'ERR_TYPE', /channels/],
      [className, [[4]], 'ERR_TYPE', /channels/],
      [className, [4, { axis: '1' }], 'ERR_TYPE', /axis/],
      [className, [4, { axis: 0.5 }], ['ERR_TYPE', 'ERR_AXIS'], /axis.*0\.5/],
      [className, [4, { axes: 1 }], 'ERR_TYPE', /axes/],
      [className, [2 ** 50], ['ERR_MEMORY', 'ERR_RANGE', 'ERR_SHAPE'], /\d/],
    );
  }
  bad.push(
    ['GroupNorm', [2], 'ERR_TYPE', /channels.*undefined/],
    ['GroupNorm', [3, 4], 'ERR_RANGE', /groups.*4.*3|3.*4/],
    ['GroupNorm', [8, 4], 'ERR_RANGE', /8/],
    ['GroupNorm', [0, 4], 'ERR_RANGE', /groups.*0/],
    ['GroupNorm', [-2, 4], 'ERR_RANGE', /groups.*-2/],
    ['GroupNorm', [1.5, 3], 'ERR_RANGE', /groups.*1\.5/],
    ['GroupNorm', ['2', 4], 'ERR_TYPE', /groups/],
    ['GroupNorm', [2, '4'], 'ERR_TYPE', /channels/],
    ['GroupNorm', [2, 0], ['ERR_RANGE', 'ERR_SHAPE'], /channels.*0/],
    ['GroupNorm', [2, 4, { axis: '1' }], 'ERR_TYPE', /axis/],
    ['GroupNorm', [2, 4, { momentum: 0.1 }], 'ERR_TYPE', /momentum/],
    ['InstanceNorm', [4, { groups: 2 }], 'ERR_TYPE', /groups/],
    ['InstanceNorm', [4, { momentum: 0.1 }], 'ERR_TYPE', /momentum/],
    ['BatchNorm', [4, { momentum: -0.1 }], 'ERR_RANGE', /momentum.*-0\.1/],
    ['BatchNorm', [4, { momentum: 1.1 }], 'ERR_RANGE', /momentum.*1\.1/],
    ['BatchNorm', [4, { momentum: NaN }], 'ERR_RANGE', /momentum.*NaN/],
    ['BatchNorm', [4, { momentum: '0.1' }], 'ERR_TYPE', /momentum/],
    ['BatchNorm', [4, { unbiased: 0 }], 'ERR_TYPE', /unbiased.*0/],
    ['BatchNorm', [4, { momentun: 0.1 }], 'ERR_TYPE', /'momentun'.*'momentum'/],
    ['LayerNorm', [4, { elementwise_affine: false }], 'ERR_TYPE', /'elementwise_affine'.*'affine'/],
    ['RmsNorm', [4, { elementwiseAffine: false }], 'ERR_TYPE', /'elementwiseAffine'.*'affine'/],
  );

  test.each(bad.map(([className, args, codes, says]) => ({ className, args, codes, says })))(
    'new $className: $args',
    ({ className, args, codes, says }) => {
      const error = expectError(codes, () => construct(className, args), says);
      expect(error.op).toBe(className);
    },
  );

  test('nothing that is right, absent options included', () => {
    for (const className of classes) {
      const args = right[className];
      for (const options of [undefined, null, {}, { epsilon: undefined, affine: null }, { epsilon: 0 }]) {
        expect(construct(className, [...args, options])).toBeInstanceOf(sn[className]);
      }
    }
    expect(construct('BatchNorm', [4, { momentum: undefined, unbiased: undefined, axis: undefined }])).toBeTruthy();
    for (const momentum of [0, 1, null, 1e-9]) expect(construct('BatchNorm', [4, { momentum }])).toBeTruthy();
  });
});

describe('instances', () => {
  test('have classes of their own, which can be taken off', async () => {
    const other = await load({});
    const { LayerNorm, RmsNorm, GroupNorm, InstanceNorm, BatchNorm, foldBatchNorm } = other;
    for (const className of classes) expect(other[className]).not.toBe(sn[className]);
    for (const className of classes) expect(sn[className].name).toBe(className);
    const x = draw(24, 1);
    const shape = [2, 4, 3];
    const layers: readonly [Layer, Layer][] = [
      [new LayerNorm(3), new sn.LayerNorm(3)],
      [new RmsNorm(3), new sn.RmsNorm(3)],
      [new GroupNorm(2, 4), new sn.GroupNorm(2, 4)],
      [new InstanceNorm(4), new sn.InstanceNorm(4)],
      [new BatchNorm(4), new sn.BatchNorm(4)],
    ];
    for (const [one, two] of layers) {
      expect(one).not.toBeInstanceOf(two.constructor);
      const y = two.forward(x, { shape });
      expectBits({ op: two.constructor.name, shape }, one.forward(x, { shape }), y);
    }
    other.dispose();
    for (const [one, two] of layers) {
      const state = stateOf(one);
      expectError('ERR_FREED', () => one.forward(x, { shape }));
      expectError('ERR_FREED', () => one.eval().forward(x, { shape }));
      expectError('ERR_FREED', () => one.train().backward(x));
      expect(stateOf(one)).toBe(state);
      // What is no work of the module is still possible.
      expect(sn[one.constructor.name as ClassName].fromJSON(one.toJSON()).toJSON()).toEqual(one.toJSON());
      two.backward(x);
    }
    expect(foldBatchNorm).toBeTypeOf('function');
  });

  test('a memory that is too small is ERR_MEMORY, and the layer is as before', async () => {
    const small = await load({ maximumMemory: 2 ** 20 });
    const x = draw(2 ** 19, 1);
    // None of them in pieces.
    const layers = [
      [new small.LayerNorm(4), { shape: [1, 2 ** 17, 4], lengths: [2 ** 17] }],
      [new small.BatchNorm(4), {}],
      [new small.GroupNorm(2, 4), { shape: [1, 4, 2 ** 17] }],
    ] as const;
    for (const [layer, options] of layers) {
      const state = stateOf(layer);
      expectError('ERR_MEMORY', () => layer.forward(x, options));
      expect(stateOf(layer)).toBe(state);
      expectError('ERR_STATE', () => layer.backward(x));
      layer.forward(x.subarray(0, 64));
      layer.backward(x.subarray(0, 64));
    }
  });

  test('out may not be what a layer reads', () => {
    for (const layer of [new sn.LayerNorm(4), new sn.RmsNorm([2, 2])]) {
      for (const { value } of layer.parameters) {
        const state = stateOf(layer);
        expectError('ERR_OVERLAP', () => layer.forward(draw(4, 1), { out: value }), /\bout\b/);
        expectError('ERR_OVERLAP', () => layer.eval().forward(draw(4, 1), { out: value }), /\bout\b/);
        layer.train();
        expect(stateOf(layer)).toBe(state);
        expectError('ERR_STATE', () => layer.backward(draw(4, 1)));
      }
      const scale = parameterOf(layer, 'scale') as Float32Array;
      layer.forward(draw(4, 1));
      expectError('ERR_OVERLAP', () => layer.backward(draw(4, 1), { out: scale }), /\bout\b/);
      expect([...scale]).toEqual([1, 1, 1, 1]);
      // What dx would be written over is what is added to afterwards.
      const gradient = gradientOf(layer, 'scale') as Float32Array;
      expectError('ERR_OVERLAP', () => layer.backward(draw(4, 1), { out: gradient }), /\bout\b/);
      expect([...gradient]).toEqual([0, 0, 0, 0]);
      layer.backward(draw(4, 1));
    }
  });

  test('out may not be what a layer keeps between calls', () => {
    for (const layer of [new sn.LayerNorm(4), new sn.RmsNorm(4), new sn.InstanceNorm(4), new sn.BatchNorm(4)]) {
      const shape = layer instanceof sn.InstanceNorm ? [1, 4, 3] : [3, 4];
      const small = layer instanceof sn.InstanceNorm ? [1, 4, 1] : [1, 4];
      layer.forward(draw(12, 1), { shape });
      const own = layer.parameters.flatMap(({ value, gradient }) => [value, gradient]);
      if (layer instanceof sn.BatchNorm) own.push(layer.runningMean, layer.runningVariance);
      const state = stateOf(layer);
      for (const out of own) {
        expectError('ERR_OVERLAP', () => layer.eval().forward(draw(4, 1), { shape: small, out }), /\bout\b/);
        expectError('ERR_OVERLAP', () => layer.train().forward(draw(4, 1), { shape: small, out }), /\bout\b/);
        expect(stateOf(layer)).toBe(state);
      }
      layer.backward(draw(12, 1));
    }
  });

  test('more groups than an array has places for are a NormError', () => {
    const norm = new sn.InstanceNorm(1000);
    const x = new Float32Array(0);
    const shape = [2 ** 32 - 1, 1000, 0];
    const error = expectError(['ERR_MEMORY', 'ERR_SHAPE'], () => norm.forward(x, { shape }));
    expect(error.op).toBe('InstanceNorm');
  });

  test('lengths are copied, and out past them is 0, whatever methods it has', () => {
    class Refusing extends Float32Array {
      override fill(): never {
        throw new RangeError('called');
      }
    }
    class Counted extends Int32Array {
      static get [Symbol.species](): never {
        throw new RangeError('asked');
      }
    }
    const norm = new sn.BatchNorm(2, { axis: 2 });
    const lengths = Counted.of(1, 2) as Int32Array;
    const given = { shape: [2, 2, 2], lengths };
    const x = draw(8, 1);
    const expected = norm.forward(x, given);
    expect([...expected.subarray(2, 4)]).toEqual([0, 0]);
    for (const dtype of dtypes) {
      const { x: values, options } = ofType(dtype, x);
      const [y, again] = [0, 1].map(() => norm.eval().forward(values, { ...given, ...options } as object) as Floats);
      expect([...(y as Floats)]).toEqual([...(again as Floats)]);
      expect([...numbersOf(y as Floats).subarray(2, 4)]).toEqual([0, 0]);
      expect([...numbersOf(y as Floats).subarray(4)].every((value) => value !== 0)).toBe(true);
    }
    const out = new Refusing(new ArrayBuffer(32)).map((value) => value) as Float32Array;
    norm.eval().forward(x, { ...given, out });
    expect([...out.subarray(2, 4)]).toEqual([0, 0]);
  });

  test('group and instance norm refuse channels where the items are', () => {
    const x = draw(24, 1);
    expectError('ERR_AXIS', () => new sn.GroupNorm(2, 4, { axis: 0 }).forward(x, { shape: [4, 6] }), /axis 0/);
    expectError('ERR_AXIS', () => new sn.InstanceNorm(4, { axis: 0 }).forward(x, { shape: [4, 6] }), /axis 0/);
    expectError('ERR_AXIS', () => new sn.InstanceNorm(4, { axis: 3 }).forward(x, { shape: [4, 6] }), /axis/);
    const y = new sn.BatchNorm(4, { axis: 0 }).forward(x, { shape: [4, 6] });
    expectBits({ op: 'BatchNorm', shape: [4, 6] }, y, sn.batchNormTraining(x, { shape: [4, 6], axis: 0 }).y);
  });
});

describe('foldBatchNorm', () => {
  const outputs = 5;
  const inputs = 7;
  const norm = {
    mean: draw(outputs, 1),
    variance: drawVariance(outputs, 2),
    scale: drawScale(outputs, 3),
    bias: draw(outputs, 4),
    epsilon: 1e-3,
  };

  /** A layer of the same numbers, after a batch that shall not count. */
  function layerOf(given: Partial<typeof norm> = norm): BatchNormLayer {
    const layer = new sn.BatchNorm(outputs, { epsilon: given.epsilon, affine: given.scale !== undefined });
    layer.forward(draw(4 * outputs, 9));
    layer.runningMean.set(norm.mean);
    layer.runningVariance.set(norm.variance);
    for (const { name, value } of layer.parameters) value.set(norm[name]);
    return layer;
  }

  type Linear = (x: Float64Array, weight: Float32Array, bias: ArrayLike<number> | null, magnitude: boolean) => number[];

  /** Rows of x times weight [outputs, inputs], or [inputs, outputs]: values [rows, outputs]. Or how large its parts are. */
  const linear =
    (isTransposed: boolean): Linear =>
    (x, weight, bias, isMagnitude) => {
      const y: number[] = [];
      for (let row = 0; row < x.length / inputs; ++row) {
        for (let output = 0; output < outputs; ++output) {
          let sum = bias ? (bias[output] as number) : 0;
          if (isMagnitude) sum = Math.abs(sum);
          for (let input = 0; input < inputs; ++input) {
            const place = isTransposed ? input * outputs + output : output * inputs + input;
            const part = (x[row * inputs + input] as number) * (weight[place] as number);
            sum += isMagnitude ? Math.abs(part) : part;
          }
          y.push(sum);
        }
      }
      return y;
    };

  const [planes, height, width, kernel] = [2, 6, 5, 3] as const;

  /** Images [planes, height, width] by kernels, each place's values side by side: values [places, outputs]. */
  const convolution =
    (isLast: boolean): Linear =>
    (x, weight, bias, isMagnitude) => {
      const y: number[] = [];
      for (let row = 0; row + kernel <= height; ++row) {
        for (let column = 0; column + kernel <= width; ++column) {
          for (let output = 0; output < outputs; ++output) {
            let sum = bias ? (bias[output] as number) : 0;
            if (isMagnitude) sum = Math.abs(sum);
            for (let plane = 0; plane < planes; ++plane) {
              for (let i = 0; i < kernel; ++i) {
                for (let j = 0; j < kernel; ++j) {
                  const place = isLast
                    ? ((i * kernel + j) * planes + plane) * outputs + output
                    : ((output * planes + plane) * kernel + i) * kernel + j;
                  const value = x[(plane * height + row + i) * width + column + j] as number;
                  const part = value * (weight[place] as number);
                  sum += isMagnitude ? Math.abs(part) : part;
                }
              }
            }
            y.push(sum);
          }
        }
      }
      return y;
    };

  const layouts: readonly [string, readonly number[], number | undefined, number, Linear][] = [
    ['linear weights [outputs, inputs]', [outputs, inputs], undefined, 3 * inputs, linear(false)],
    ['linear weights [inputs, outputs]', [inputs, outputs], 1, 3 * inputs, linear(true)],
    [
      'a convolution [outputs, planes, height, width]',
      [outputs, planes, kernel, kernel],
      0,
      planes * height * width,
      convolution(false),
    ],
    [
      'a convolution [height, width, planes, outputs]',
      [kernel, kernel, planes, outputs],
      -1,
      planes * height * width,
      convolution(true),
    ],
  ];

  test.each(layouts)('%s: folding changes nothing', (title, shape, axis, length, apply) => {
    const weight = draw(product(shape), 5, 0.1, 1);
    const x = Float64Array.from(draw(length, 6));
    for (const bias of [null, draw(outputs, 7)]) {
      const norms: readonly [string, BatchNormLayer | Parameters<Simdnorm['batchNorm']>[1]][] = [
        ['options', norm],
        ['options without parameters', { mean: norm.mean, variance: norm.variance, epsilon: 1e-3 }],
        ['options with the default epsilon', { ...norm, epsilon: undefined }],
        ['options of plain numbers', { ...norm, mean: [...norm.mean], scale: [...norm.scale] }],
        ['a layer', layerOf()],
        ['a layer without parameters', layerOf({ epsilon: 1e-3 })],
        ['a layer in eval', layerOf().eval()],
      ];
      for (const [data, given] of norms) {
        const before = Float32Array.from(weight);
        const folded = sn.foldBatchNorm(weight, bias, given, { shape, ...(axis !== undefined && { axis }) });
        expect(weight).toEqual(before);
        const y = apply(x, weight, bias, false);
        const wanted = { shape: [y.length / outputs, outputs] };
        const options = 'forward' in given ? null : { ...given, ...wanted };
        const layer = 'forward' in given ? given.eval() : null;
        const doubles = Float64Array.from(y);
        const normalized = options
          ? sn.batchNorm(doubles, options)
          : (layer as BatchNormLayer).forward(doubles, wanted);
        const expected = normalized as Float64Array;
        const got = apply(x, folded.weight, folded.bias, false);
        // Weights are rounded, so it is their products that the error is relative to.
        const magnitude = apply(x, folded.weight, folded.bias, true);
        const what = { op: `foldBatchNorm, ${title}`, shape, data: `${data}, ${bias ? 'with' : 'without'} a bias` };
        expectNear(what, got, expected, machineEpsilon, magnitude);
        const close = magnitude.map(() => Math.max(1, ...magnitude));
        expectNear(what, got, expected, 1e-6, close);
      }
    }
  });

  test('it is the formula, rounded once', () => {
    const shape = [outputs, 100];
    const weight = draw(product(shape), 5);
    const bias = draw(outputs, 6);
    const folded = sn.foldBatchNorm(weight, bias, norm, { shape });
    expect(folded.weight).toBeInstanceOf(Float32Array);
    expect(folded.bias).toBeInstanceOf(Float32Array);
    const factors = Array.from(norm.scale, (scale, c) => scale / Math.sqrt((norm.variance[c] as number) + 1e-3));
    const rightWeight = Array.from(weight, (value, i) => value * (factors[Math.floor(i / 100)] as number));
    const rightBias = Array.from(bias, (value, c) => {
      return (value - (norm.mean[c] as number)) * (factors[c] as number) + (norm.bias[c] as number);
    });
    // Half of the step between floats, and a little of what doubles lose.
    const bound = (machineEpsilon / 2) * (1 + 2 ** -20);
    const steps = (values: readonly number[]) => values.map((value) => 2 ** Math.floor(Math.log2(Math.abs(value))));
    const what = { op: 'foldBatchNorm', shape };
    expectNear({ ...what, output: 'weight' }, folded.weight, rightWeight, bound, steps(rightWeight));
    expectNear({ ...what, output: 'bias' }, folded.bias, rightBias, bound, steps(rightBias));
  });

  test('double and 16-bit weights are taken as what they are', () => {
    const weight = Float64Array.from(draw(outputs * inputs, 5), (value) => value / 3);
    const bias = Float64Array.from(draw(outputs, 6), (value) => value / 3);
    const shape = [outputs, inputs];
    const { weight: folded, bias: foldedBias } = sn.foldBatchNorm(weight, bias, norm, { shape });
    const asFloats = sn.foldBatchNorm(Float32Array.from(weight), Float32Array.from(bias), norm, { shape });
    expectNear({ op: 'foldBatchNorm', shape }, folded, asFloats.weight, 2 * machineEpsilon);
    expectNear({ op: 'foldBatchNorm', shape: [outputs] }, foldedBias, asFloats.bias, 8 * machineEpsilon);
    expectError('ERR_TYPE', () => sn.foldBatchNorm(new Uint16Array(35), null, norm, { shape }), /weight/);
  });

  test('what is wrong is refused', () => {
    const weight = draw(35, 5);
    const shape = [5, 7];
    const fold = (...args: unknown[]) => {
      return () => (sn.foldBatchNorm as (...args: unknown[]) => unknown)(...args);
    };
    expectError('ERR_TYPE', fold([...weight], null, norm, { shape }), /weight.*Float32Array\.from\(\.\.\.\)/);
    expectError('ERR_TYPE', fold([[...weight]], null, norm, { shape }), /weight.*weight\.flat\(Infinity\)/);
    expectError('ERR_TYPE', fold(undefined, null, norm, { shape }), /weight/);
    expectError('ERR_TYPE', fold(weight, [1, 2, 3, 4, 'a'], norm, { shape }), /bias/);
    expectError('ERR_SHAPE', fold(weight, new Float32Array(4), norm, { shape }), /bias/, /4/, /5/);
    expectError('ERR_SHAPE', fold(weight, new Float32Array(7), norm, { shape }), /bias/);
    expectError('ERR_SHAPE', fold(weight, null, norm, { shape: [5, 6] }), /30/, /35/, /weight/);
    expectError('ERR_SHAPE', fold(weight, null, norm, { shape, axis: 1 }), /mean/, /5/, /7/);
    expectError('ERR_AXIS', fold(weight, null, norm, { shape, axis: 2 }), /axis/);
    expectError('ERR_AXIS', fold(weight, null, norm, { shape, axis: -3 }), /axis/);
    expectError('ERR_TYPE', fold(weight, null, norm, { shape, axis: '0' }), /axis/);
    expectError('ERR_TYPE', fold(weight, null, norm, { shape, axes: 0 }), /axes/);
    expectError('ERR_TYPE', fold(weight, null, null, { shape }), /norm/);
    expectError('ERR_TYPE', fold(weight, null, 'norm', { shape }), /norm/);
    expectError('ERR_TYPE', fold(weight, null, {}, { shape }), /mean/);
    expectError('ERR_TYPE', fold(weight, null, new sn.LayerNorm(5), { shape }), /mean|BatchNorm/);
    expectError('ERR_TYPE', fold(weight, null, { mean: norm.mean }, { shape }), /variance/);
    expectError('ERR_TYPE', fold(weight, null, { ...norm, gamma: norm.scale }, { shape }), /'gamma'.*'scale'/);
    expectError('ERR_SHAPE', fold(weight, null, { ...norm, variance: [1, 2] }, { shape }), /variance/, /2/, /5/);
    expectError('ERR_SHAPE', fold(weight, null, { ...norm, scale: [1, 2] }, { shape }), /scale/);
    expectError('ERR_RANGE', fold(weight, null, { ...norm, epsilon: -1 }, { shape }), /epsilon/);
    expectError('ERR_SHAPE', fold(weight, null, new sn.BatchNorm(7), { shape }), /5/, /7/);
    const error = expectError('ERR_TYPE', fold(weight, null, norm, { shap: shape }), /'shap'.*'shape'/);
    expect(error.op).toBe('foldBatchNorm');
  });

  test('what can hardly be looked at is refused', () => {
    const weight = draw(35, 5);
    const shape = [5, 7];
    const fold = sn.foldBatchNorm as (...args: unknown[]) => unknown;
    const layer = { runningMean: norm.mean, runningVariance: norm.variance };
    for (const odd of [revoked(), revoked([]), Symbol('odd'), Object.create(null), 5n, new Array(5e8), 'a']) {
      expectError('ERR_TYPE', () => fold(odd, null, norm, { shape }), /weight/);
      expectError('ERR_TYPE', () => fold(weight, odd, norm, { shape }), /bias/);
      expectError('ERR_TYPE', () => fold(weight, null, odd, { shape }), /norm|mean/);
      expectError('ERR_TYPE', () => fold(weight, null, norm, odd), /options|shape/);
      expectError(['ERR_TYPE', 'ERR_SHAPE'], () => fold(weight, null, norm, { shape: odd }), /shape/);
      for (const name of Object.keys(norm)) {
        expectError(['ERR_TYPE', 'ERR_SHAPE'], () => fold(weight, null, { ...norm, [name]: odd }, { shape }), name);
      }
      expectError('ERR_TYPE', () => fold(weight, null, { ...layer, parameters: odd }, { shape }), /norm/);
    }
    for (const parameters of [5, [null], [undefined], null, [revoked()], { find: 5 }]) {
      expectError('ERR_TYPE', () => fold(weight, null, { ...layer, parameters }, { shape }), /norm/);
    }
  });

  test('what a getter of the norm detaches is noticed, whatever it is', () => {
    const shape = [5, 7];
    for (const name of Object.keys(norm) as (keyof typeof norm)[]) {
      for (const victim of ['weight', 'bias', 'mean', 'scale'] as const) {
        const arrays = { weight: draw(35, 5), bias: draw(5, 6), mean: norm.mean.slice(), scale: norm.scale.slice() };
        const given = { ...norm, mean: arrays.mean, scale: arrays.scale };
        const value = given[name];
        const trap = Object.defineProperty(given, name, {
          enumerable: true,
          get() {
            if (arrays[victim].length > 0) detach(arrays[victim]);
            return value;
          },
        });
        expectError('ERR_TYPE', () => sn.foldBatchNorm(arrays.weight, arrays.bias, trap, { shape }), /detached/);
      }
    }
  });
});

test('a network of two layers has the gradients of its loss', () => {
  // The loss is sum(w * z), z = RMS norm(2 * layer norm(x)), in double, against differences.
  const random = new Random(3);
  const shape = [3, 6];
  const x = Float64Array.from({ length: 18 }, () => 2 * random.bell() + 0.3);
  const weights = Float64Array.from({ length: 18 }, () => random.bell());
  const [inner, outer] = [new sn.LayerNorm(6), new sn.RmsNorm(6)];
  fillParameters(inner, 5);
  fillParameters(outer, 7);
  const loss = (input: Float64Array): number => {
    const hidden = inner
      .eval()
      .forward(input)
      .map((value) => 2 * value);
    return outer
      .eval()
      .forward(hidden)
      .reduce((sum, value, i) => sum + value * (weights[i] as number), 0);
  };
  inner.train();
  outer.train();
  const hidden = inner.forward(x).map((value) => 2 * value);
  outer.forward(hidden);
  const dx = inner.backward(outer.backward(weights).map((value) => 2 * value));
  const step = 2 ** -17;
  const expected = x.map((_, i) => {
    const moved = (by: number) => loss(x.map((value, j) => (j === i ? value + by : value)));
    return (moved(step) - moved(-step)) / (2 * step);
  });
  // The differences' own errors: step^2 of the third derivative, and epsilon / step of the loss.
  const magnitude = expected.map(() => Math.max(1, ...expected.map(Math.abs)));
  expectNear({ op: 'LayerNorm, RmsNorm', shape, output: 'dx' }, dx, expected, 64 * step ** 2, magnitude);
});

/** Only its type: what a layer returns is what it is given. */
test('types follow x', () => {
  const layer = new sn.LayerNorm(4);
  const floats: Float32Array = layer.forward(draw(4, 1));
  const doubles: Float64Array = layer.forward(new Float64Array(4));
  const halves: FloatArray = layer.forward(new Uint16Array(4), { dtype: 'float16' });
  const ops: readonly Op[] = ['layerNorm'];
  expect([floats, doubles, halves, ops].map(({ length }) => length)).toEqual([4, 4, 4, 1]);
});
