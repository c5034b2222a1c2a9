import { inspect } from 'node:util';
import { type ErrorCode, load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  type AnyOp,
  type Arrays,
  allOps,
  arrays,
  backwardOps,
  byChannel,
  call,
  dtypes,
  type Floats,
  fingerprint,
  isBackward,
  isOverAxes,
  normalizations,
  type Options,
  ofType,
  overAxes,
  ragged,
  required,
  results,
  shapes,
  slopeOf,
  valid,
  vectorLength,
  vectors,
  withBackward,
  withEpsilon,
  written,
} from './calls.ts';
import { canary, detach, draw, resizableBuffer, revoked } from './data.ts';
import { expectBits } from './reference.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Bad {
  readonly title: string;
  readonly op: AnyOp;
  readonly code: ErrorCode;
  /** Parts of the message: what was given, what was expected. */
  readonly says: readonly (string | RegExp)[];
  /** What differs from the valid options; or the call itself. */
  readonly options?: (a: Arrays) => Options;
  readonly x?: (a: Arrays) => unknown;
  readonly dy?: (a: Arrays) => unknown;
  readonly instead?: (a: Arrays) => unknown;
}
type Says = Bad['says'];

const bad: Bad[] = [];

function add(op: AnyOp, code: ErrorCode, title: string, options: (a: Arrays) => Options, ...says: Says): void {
  bad.push({ title, op, code, options, says });
}

/** As messages write it. */
function list(values: readonly number[]): string {
  return `[${values.join(', ')}]`;
}

/** A number by itself, not as a part of another one. */
function number(value: number): RegExp {
  return new RegExp(`(?<![\\d.])${value}(?![\\d.]*\\d)`);
}

function without(options: Options, ...names: string[]): Options {
  return { ...options, ...Object.fromEntries(names.map((name) => [name, undefined])) };
}

const hasLengths = (op: AnyOp) => withBackward(ragged).includes(op);

/** What is no array of floats. */
function notFloats(): [string, (a: Arrays) => unknown, ...Says][] {
  return [
    ['an Array', (a) => [...a.x], 'an Array', 'Float32Array.from'],
    [
      'an Array of arrays',
      () => [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10, 11, 12],
      ],
      'Float32Array.from(x.flat(Infinity)) and shape',
    ],
    ['an Array of Float32Arrays', (a) => [a.x.subarray(0, 4), a.x.subarray(4, 8)], 'x.flatMap((row) => [...row])'],
    ['an Int32Array', (a) => Int32Array.from(a.x), 'an Int32Array'],
    ['an Int16Array', (a) => Int16Array.from(a.x), 'an Int16Array'],
    ['a Uint8Array', (a) => new Uint8Array(a.x.buffer), 'a Uint8Array'],
    ['a BigInt64Array', () => new BigInt64Array(12), 'a BigInt64Array'],
    ['a Uint16Array without dtype', () => new Uint16Array(12), 'Uint16Array', 'dtype', 'float16'],
    ['a DataView', (a) => new DataView(a.x.buffer), 'DataView'],
    ['an ArrayBuffer', (a) => a.x.buffer, 'ArrayBuffer'],
    ['null', () => null, 'null'],
    ['undefined', () => undefined, 'undefined'],
    ['a string', () => '1,2,3', '"1,2,3"'],
    ['a number', () => 12, '12'],
    ['an object', () => ({ length: 12 }), 'Object'],
    ['a function', () => () => 1, 'function'],
    ['a symbol', () => Symbol('x'), 'symbol'],
    ['a false Float32Array', () => Object.create(Float32Array.prototype), 'x must be'],
    [
      'a false Tensor',
      () => ({ dtype: 'float32', shape: [3, 4], length: 12, data: new Float32Array(12), freed: false }),
    ],
  ];
}

// What x is.
for (const op of allOps) {
  for (const [title, x, ...says] of notFloats()) {
    bad.push({ title: `x ${title}`, op, code: 'ERR_TYPE', x, says: ['x', 'Float32Array', ...says] });
  }
  for (const kind of [Float32Array, Float64Array, Uint16Array]) {
    const instead = (a: Arrays) => {
      const x = kind.from(a.x);
      detach(x);
      const dtype = kind === Uint16Array ? 'float16' : undefined;
      return call(sn, op, x, { ...required[op], shape: shapes[op], dtype });
    };
    bad.push({ title: `x a detached ${kind.name}`, op, code: 'ERR_TYPE', instead, says: ['x', 'detached'] });
  }
  const stale = (a: Arrays) => {
    const tensor = sn.tensor([12]);
    const { data } = tensor;
    sn.tensor([sn.memory.capacity / 4]).free();
    tensor.free();
    return call(sn, op, data, { ...required[op], shape: shapes[op] }, a.dy);
  };
  const says = ['x', 'detached', 'the memory grew', 'tensor.data again'];
  bad.push({ title: 'x a view from before the memory grew', op, code: 'ERR_TYPE', instead: stale, says });
  bad.push({ title: 'nothing at all', op, code: 'ERR_TYPE', instead: () => call(sn, op, undefined), says: ['x'] });
}

// What dy is: an array as x is.
for (const op of backwardOps) {
  for (const [title, dy] of notFloats()) {
    const says = [/\bdy\b/, 'Float32Array', 'as x is'];
    const instead = (a: Arrays) =>
      (sn[op] as (dy: unknown, x: unknown, options: Options) => unknown)(dy(a), a.x, valid[op](a));
    bad.push({ title: `dy ${title}`, op, code: 'ERR_TYPE', instead, says });
  }
  for (const length of [0, 4, 11, 13, 24]) {
    const dy = () => new Float32Array(length);
    bad.push({ title: `dy of ${length}`, op, code: 'ERR_SHAPE', dy, says: [/\bdy\b/, number(length), number(12)] });
  }
  for (const dtype of dtypes) {
    const { x, options } = ofType(dtype, new Float32Array(12));
    const given = { ...required[op], shape: shapes[op], ...options };
    const own = x.constructor as Float32ArrayConstructor;
    for (const kind of [Float32Array, Float64Array, Uint16Array]) {
      if (kind !== own) {
        const instead = () => call(sn, op, x, given, new kind(12));
        const says = [/\bdy\b/, own.name, kind.name];
        bad.push({ title: `dy a ${kind.name} of ${dtype}`, op, code: 'ERR_TYPE', instead, says });
      }
    }
    const detached = () => {
      const dy = slopeOf(x);
      detach(dy);
      return call(sn, op, x, given, dy);
    };
    const says = [/\bdy\b/, 'detached'];
    bad.push({ title: `dy detached, of ${dtype}`, op, code: 'ERR_TYPE', instead: detached, says });
  }
  const shrunk = () => {
    const buffer = resizableBuffer(48, 48);
    const dy = new Float32Array(buffer, 0, 12);
    buffer.resize(44);
    return dy;
  };
  const says = [/\bdy\b/, number(0), number(12)];
  bad.push({ title: "dy out of its buffer's bounds", op, code: 'ERR_SHAPE', dy: shrunk, says });
  const alone = (a: Arrays) => (sn[op] as (dy: unknown) => unknown)(a.dy);
  bad.push({ title: 'dy alone', op, code: 'ERR_TYPE', instead: alone, says: [/\bx\b/, 'undefined'] });
}

// What can hardly be looked at: the message must not make another error of it.
const wouldThrow = Object.defineProperty({}, 'constructor', {
  get() {
    throw new TypeError('asked');
  },
});
const oddities: [string, unknown][] = [
  ['a revoked proxy', revoked()],
  ['a revoked proxy of an array', revoked([])],
  ['a proxy of a revoked proxy', new Proxy(revoked(), {})],
  ['a constructor that throws', wouldThrow],
  ['a class whose name is a symbol', Object.defineProperty({}, 'constructor', { value: { name: Symbol('A') } })],
  [
    'a class whose name is an object',
    Object.defineProperty({}, 'constructor', { value: { name: Object.create(null) } }),
  ],
  ['without a prototype', Object.create(null)],
  ['a symbol', Symbol('odd')],
];
for (const op of allOps) {
  for (const [title, odd] of oddities) {
    bad.push({ title: `x ${title}, odd`, op, code: 'ERR_TYPE', x: () => odd, says: ['x must be'] });
    if (isBackward(op)) {
      const says = ['dy must be'];
      bad.push({ title: `dy ${title}, odd`, op, code: 'ERR_TYPE', dy: () => odd, says });
    }
  }
  for (const [title, odd] of oddities.slice(0, 4)) {
    for (const name of ['dtype', ...Object.keys(valid[op](arrays()))]) {
      add(op, 'ERR_TYPE', `${name} ${title}, odd`, () => ({ [name]: odd }), name);
      const isList = ['shape', 'axes', 'lengths', ...vectors[op]].includes(name);
      const list = () => {
        const given = valid[op](arrays())[name] as number[];
        return { [name]: Array.from(given, (each, i) => (i === 0 ? odd : each)) };
      };
      if (isList) add(op, 'ERR_TYPE', `${name} that begins with ${title}, odd`, list, `${name}[0]`);
    }
  }
  for (const [title, options] of oddities.slice(0, 3)) {
    const instead = (a: Arrays) => call(sn, op, a.x, options);
    bad.push({ title: `options ${title}`, op, code: 'ERR_TYPE', instead, says: ['options', 'object'] });
  }
  // Far longer than can be right, and so none to copy; or as long as a proxy says.
  for (const name of ['shape', 'axes', 'lengths', ...vectors[op]]) {
    if (!(name in valid[op](arrays()))) continue;
    const code = name === 'axes' ? 'ERR_AXIS' : 'ERR_SHAPE';
    add(op, code, `${name} of 5e8 holes`, () => ({ [name]: new Array(5e8) }), name, '500000000');
    for (const length of [Infinity, NaN, 2 ** 53, Symbol('length'), Object.create(null)]) {
      const lie = new Proxy([1], { get: (target, key) => (key === 'length' ? length : Reflect.get(target, key)) });
      add(op, code, `${name} whose length is ${inspect(length)}`, () => ({ [name]: lie }), name);
    }
    const endless = () => {
      const values = [1, 2, 3, 4, 5, 6, 7];
      values[Symbol.iterator] = function* () {
        for (;;) yield 1;
      } as never;
      return { [name]: values };
    };
    bad.push({
      title: `${name} that iterate endlessly`,
      op,
      code: name === 'axes' ? 'ERR_AXIS' : 'ERR_SHAPE',
      options: endless,
      says: [name],
    });
  }
  const letters = 'e'.repeat(1e6);
  add(op, 'ERR_TYPE', 'an option of a million letters', () => ({ [letters]: 1 }), "'eeee");
  for (const length of [3, 5e8]) {
    const x = () => Object.assign(new Array(length), { some: 5 });
    bad.push({ title: `x an Array of ${length} holes`, op, code: 'ERR_TYPE', x, says: ['x must be', 'an Array'] });
  }
}

// dtype says what 16 bits are, and nothing else.
for (const op of allOps) {
  for (const dtype of ['float16', 'float32', 'float64']) {
    const of32 = (a: Arrays) => call(sn, op, a.x, { ...valid[op](a), dtype });
    const of64 = (a: Arrays) => call(sn, op, Float64Array.from(a.x), { ...required[op], shape: shapes[op], dtype });
    bad.push({
      title: `dtype ${dtype} of a Float32Array`,
      op,
      code: 'ERR_TYPE',
      instead: of32,
      says: ['dtype', dtype],
    });
    bad.push({
      title: `dtype ${dtype} of a Float64Array`,
      op,
      code: 'ERR_TYPE',
      instead: of64,
      says: ['dtype', dtype],
    });
  }
  for (const dtype of ['float32', 'float64', 'bfloat16', 'Float16', '', 16, true, ['float16'], Uint16Array]) {
    const instead = (a: Arrays) =>
      call(sn, op, ofType('float16', a.x).x, { ...required[op], shape: shapes[op], dtype });
    const title = `dtype ${inspect(dtype)} of a Uint16Array`;
    bad.push({ title, op, code: 'ERR_TYPE', instead, says: ['dtype', 'float16'] });
  }
}

// What options are.
for (const op of allOps) {
  const wrong: [string, unknown, string][] = [
    ['a number', 5, '5'],
    ['an array', [3, 4], 'an Array'],
    ['a string', 'shape', '"shape"'],
    ['a boolean', true, 'true'],
    ['a typed array', new Float32Array(4), 'a Float32Array'],
    ['a function', () => ({}), 'a function'],
    ['a bigint', 1n, 'a bigint'],
  ];
  for (const [title, options, says] of wrong) {
    const instead = (a: Arrays) => call(sn, op, a.x, options);
    bad.push({ title: `options ${title}`, op, code: 'ERR_TYPE', instead, says: ['options', says] });
  }
  add(op, 'ERR_TYPE', "option 'shap'", () => ({ shap: [3, 4] }), "'shap'", "did you mean 'shape'?");
  add(op, 'ERR_TYPE', "option 'Shape'", () => ({ Shape: [3, 4] }), "'Shape'", "did you mean 'shape'?");
  const own = isOverAxes(op) ? 'axes' : 'axis';
  add(op, 'ERR_TYPE', 'a stranger', () => ({ interpolation: 1 }), "'interpolation'", 'shape', own);
  for (const name of ['scale', 'momentum'].filter(
    (other) => !(other in valid[op](arrays())) && !op.includes('Backward'),
  )) {
    add(op, 'ERR_TYPE', `'${name}', of others`, () => ({ [name]: new Float32Array(4) }), `'${name}': there are shape`);
  }
  add(op, 'ERR_TYPE', 'a falsy stranger', () => ({ interpolation: 0 }), "'interpolation'");
  if (isOverAxes(op)) {
    for (const name of ['normalized_shape', 'normalizedShape']) {
      add(op, 'ERR_TYPE', `option '${name}'`, () => ({ [name]: [4] }), `'${name}'`, 'give shape', 'axes', '[-2, -1]');
    }
  }
  if (op === 'batchNorm') {
    add(op, 'ERR_TYPE', 'training', () => ({ training: true }), "'training'", 'batchNormTraining');
  }
  add(op, 'ERR_TYPE', 'an inherited stranger', () => Object.create({ interpolation: 1 }), "'interpolation'");
}

/** An option that another operation or library has: what is offered in its place, if something is. */
function addUnknown(op: AnyOp, name: string, value: unknown, offered?: string): void {
  const says = offered ? [`'${name}'`, `'${offered}'`] : [`'${name}'`];
  add(op, 'ERR_TYPE', `option '${name}'`, () => ({ [name]: value }), ...says);
}
for (const op of allOps) {
  const has = (name: string) => name in valid[op](arrays());
  for (const [name, offered] of [
    ['epsilom', 'epsilon'],
    ['eps', 'epsilon'],
    ['Epsilon', 'epsilon'],
    ['scales', 'scale'],
    ['gamma', 'scale'],
    ['weight', 'scale'],
    ['biases', 'bias'],
    ['beta', 'bias'],
    ['dim', 'axes'],
    ['dims', 'axes'],
    ['num_groups', 'groups'],
    ['numGroups', 'groups'],
    ['group', 'groups'],
    ['meanout', 'meanOut'],
    ['invstdOut', 'invStdOut'],
    ['length', 'lengths'],
    ['residuals', 'residual'],
    ['output', 'out'],
    ['invstd', 'invStd'],
    ['dScaleout', 'dScaleOut'],
  ] as const) {
    if (has(offered)) addUnknown(op, name, 1, offered);
  }
  // Each of these belongs to some other operation.
  const others: [name: string, value: unknown][] = [
    ['scale', [1, 1, 1, 1]],
    ['bias', [1, 1, 1, 1]],
    ['epsilon', 1],
    ['mean', [1, 1, 1, 1]],
    ['variance', [1, 1, 1, 1]],
    ['groups', 2],
    ['p', 2],
    ['size', 3],
    ['alpha', 1],
    ['k', 1],
    ['residual', new Float32Array(12)],
    ['residualOut', new Float32Array(12)],
    ['out', new Float32Array(12)],
    ['meanOut', new Float32Array(4)],
    ['varianceOut', new Float32Array(4)],
    ['invStdOut', new Float32Array(4)],
    ['invStd', [1, 1, 1, 1]],
    ['dScaleOut', new Float32Array(4)],
    ['dBiasOut', new Float32Array(4)],
    ['dy', new Float32Array(12)],
    ['dxOut', new Float32Array(12)],
    ['momentum', 0.1],
    ['unbiased', false],
  ];
  for (const [name, value] of others) if (!has(name)) addUnknown(op, name, value);
  if (!hasLengths(op)) addUnknown(op, 'lengths', [4, 4, 4]);
  if (isOverAxes(op)) addUnknown(op, 'axis', 1, 'axes');
  else addUnknown(op, 'axes', 1, 'axis');
}

// What is beside the options. (The third argument of batchNorm is for layers.)
for (const op of allOps.filter((each) => !isBackward(each) && each !== 'batchNorm')) {
  for (const [title, third, says] of [
    ['scale', new Float32Array(4), 'a Float32Array'],
    ['false', false, 'false'],
    ['options', {}, 'an object'],
  ] as const) {
    const instead = (a: Arrays) =>
      (sn[op] as (x: unknown, options: Options, third: unknown) => unknown)(a.x, valid[op](a), third);
    const parts = ['third argument', says, 'options'];
    bad.push({ title: `a third argument, ${title}`, op, code: 'ERR_TYPE', instead, says: parts });
  }
}

// shape
for (const op of allOps) {
  const wrong: [ErrorCode, unknown, ...string[]][] = [
    ['ERR_SHAPE', [3, 5], '[3, 5]', '15', '12'],
    ['ERR_SHAPE', [12, 0], '[12, 0]', '0', '12'],
    ['ERR_SHAPE', [], '[]', '1', '12'],
    ['ERR_SHAPE', [-3, -4], 'shape[0]', '-3'],
    ['ERR_SHAPE', [3, -4], 'shape[1]', '-4'],
    ['ERR_SHAPE', [1.5, 8], 'shape[0]', '1.5'],
    ['ERR_SHAPE', [3, NaN], 'shape[1]', 'NaN'],
    ['ERR_SHAPE', [3, Infinity], 'shape[1]', 'Infinity'],
    ['ERR_SHAPE', [2 ** 40, 2 ** 40], '12'],
    ['ERR_SHAPE', [3, 4, ...Array.from({ length: 15 }, () => 1)], '17', '16'],
    ['ERR_TYPE', [3, '4'], 'shape[1]', '"4"'],
    ['ERR_TYPE', [[3, 4]], 'shape[0]', 'an Array'],
    ['ERR_TYPE', [3, null], 'shape[1]', 'null'],
    // biome-ignore lint/suspicious/noSparseArray: holes are what is tested.
    ['ERR_TYPE', [3, , 4], 'shape[1]', 'undefined'],
    ['ERR_TYPE', [3n, 4n], 'shape[0]', 'bigint'],
    ['ERR_TYPE', 12, 'shape', '12'],
    ['ERR_TYPE', '3,4', 'shape', '"3,4"'],
    ['ERR_TYPE', Int32Array.of(3, 4), 'shape', 'an Int32Array'],
    ['ERR_TYPE', { 0: 3, 1: 4, length: 2 }, 'shape', 'Object'],
    ['ERR_TYPE', false, 'shape', 'false'],
  ];
  for (const [code, shape, ...says] of wrong) {
    add(op, code, `shape ${inspect(shape)}`, () => ({ shape }), ...says);
  }
  for (const shape of [
    [0, 2 ** 32],
    [2 ** 53, 0, 4],
    [1e308, 1e308, 0],
  ]) {
    const instead = () => call(sn, op, new Float32Array(0), { ...required[op], shape });
    bad.push({ title: `shape [${shape}]`, op, code: 'ERR_SHAPE', instead, says: [list(shape)] });
  }
  // The shape is of values, not of their bytes.
  for (const kind of ['float64', 'float16'] as const) {
    const instead = (a: Arrays) => {
      const { x, options } = ofType(kind, a.x);
      return call(sn, op, x, { ...required[op], shape: [3, 5], ...options });
    };
    bad.push({
      title: `shape [3, 5] of ${kind}`,
      op,
      code: 'ERR_SHAPE',
      instead,
      says: ['[3, 5]', number(15), number(12)],
    });
  }
}

// Nothing to normalize over, or too little.
const empty = (op: AnyOp, code: ErrorCode, options: Options, ...says: string[]) =>
  bad.push({
    title: `nothing in [${options.shape}]`,
    op,
    code,
    instead: () => call(sn, op, new Float32Array(0), { ...required[op], ...options }),
    says,
  });
for (const op of withBackward(overAxes)) {
  empty(op, 'ERR_SHAPE', { shape: [3, 0] }, '[3, 0]');
  empty(op, 'ERR_SHAPE', {}, '[0]');
  empty(op, 'ERR_SHAPE', { shape: [3, 0, 4], axes: [1, 2] }, '[3, 0, 4]');
  empty(op, 'ERR_SHAPE', { shape: [0, 3, 4], axes: [2, 0] }, '[0, 3, 4]');
  empty(op, 'ERR_SHAPE', { shape: [0, 3], axes: 0 }, '[0, 3]');
}
for (const op of withBackward(['instanceNorm'])) {
  empty(op, 'ERR_SHAPE', { shape: [2, 3, 0] }, '[2, 3, 0]');
  empty(op, 'ERR_SHAPE', { shape: [2, 0, 3], axis: 2 }, '[2, 0, 3]');
}
for (const op of withBackward(['groupNorm'])) empty(op, 'ERR_SHAPE', { shape: [2, 4, 0] }, '[2, 4, 0]');
for (const op of withBackward(['batchNormTraining'])) {
  empty(op, 'ERR_SHAPE', { shape: [0, 3] }, '[0, 3]');
  empty(op, 'ERR_SHAPE', { shape: [2, 3, 0] }, '[2, 3, 0]');
  for (const [shape, axis] of [
    [[1, 12], 1],
    [[12, 1], 0],
    [[1, 12, 1], 1],
    [[12], 0],
  ] as const) {
    const instead = (a: Arrays) => call(sn, op, a.x, { shape, axis, out: a.out }, a.dy);
    const title = `one value per channel, [${shape}] by axis ${axis}`;
    bad.push({ title, op, code: 'ERR_RANGE', instead, says: [list(shape), 'one value'] });
  }
  for (const lengths of [
    [1, 0],
    [0, 1],
  ]) {
    const options = { shape: [2, 2, 3], axis: 2, lengths };
    const instead = (a: Arrays) => call(sn, op, a.x, { ...options, out: a.out }, a.dy);
    const title = `one valid value per channel, lengths [${lengths}]`;
    bad.push({ title, op, code: 'ERR_RANGE', instead, says: ['one value'] });
  }
}
for (const op of allOps) {
  const instead = (a: Arrays) => call(sn, op, a.x.subarray(0, 1), { ...required[op], shape: [] });
  bad.push({ title: 'rank 0', op, code: 'ERR_AXIS', instead, says: ['[]', 'no axes'] });
}

// epsilon
for (const op of withBackward(withEpsilon)) {
  for (const epsilon of [-1, -1e-30, NaN, Infinity, -Infinity]) {
    add(op, 'ERR_RANGE', `epsilon ${epsilon}`, () => ({ epsilon }), 'epsilon', String(epsilon));
  }
  for (const epsilon of ['1e-5', '', {}, [1e-5], true, 1n]) {
    add(op, 'ERR_TYPE', `epsilon ${inspect(epsilon)}`, () => ({ epsilon }), 'epsilon', 'a number');
  }
}

// The numbers of single operations.
for (const groups of [0, -1, -2, 1.5, NaN, Infinity, 3, 5, 8, 2 ** 32]) {
  const says =
    Number.isInteger(groups) && groups > 0 ? ['groups', number(groups), number(4)] : ['groups', String(groups)];
  for (const op of withBackward(['groupNorm'])) {
    add(op, 'ERR_RANGE', `groups ${groups}`, () => ({ groups }), ...says);
  }
}
for (const groups of [undefined, null, '2', [2], {}, true, 2n]) {
  for (const op of withBackward(['groupNorm'])) {
    add(op, 'ERR_TYPE', `groups ${inspect(groups)}`, () => ({ groups }), 'groups');
  }
}
for (const size of [0, -1, 1.5, NaN, Infinity]) {
  add('localResponseNorm', 'ERR_RANGE', `size ${size}`, () => ({ size }), 'size', String(size));
}
for (const size of [undefined, null, '3', [3], {}, true, 3n]) {
  add('localResponseNorm', 'ERR_TYPE', `size ${inspect(size)}`, () => ({ size }), 'size');
}
for (const name of ['alpha', 'beta', 'k']) {
  for (const value of [NaN, Infinity, -Infinity]) {
    add('localResponseNorm', 'ERR_RANGE', `${name} ${value}`, () => ({ [name]: value }), name, String(value));
  }
  for (const value of ['1', {}, [1], true, 1n]) {
    add('localResponseNorm', 'ERR_TYPE', `${name} ${inspect(value)}`, () => ({ [name]: value }), name, 'number');
  }
}
for (const op of withBackward(['lpNormalize'])) {
  for (const p of [0, 3, 0.5, 1.5, -1, -2, NaN, -Infinity]) {
    add(op, 'ERR_RANGE', `p ${p}`, () => ({ p }), /\bp\b/, String(p), number(1), number(2), 'Infinity');
  }
  for (const p of ['2', [2], {}, true, 2n, 'Infinity']) {
    add(op, 'ERR_TYPE', `p ${inspect(p)}`, () => ({ p }), /\bp\b/);
  }
}

// axis and axes
for (const op of withBackward(byChannel)) {
  const shape = shapes[op];
  const rank = shape.length;
  for (const axis of [rank, -rank - 1, 1.5, NaN, Infinity, 2 ** 32]) {
    add(op, 'ERR_AXIS', `axis ${axis}`, () => ({ axis }), `axis ${axis}`, list(shape), `-${rank} to ${rank - 1}`);
  }
  for (const axis of ['1', [1], {}, true, 1n]) {
    add(op, 'ERR_TYPE', `axis ${inspect(axis)}`, () => ({ axis }), 'axis', 'integer');
  }
  const instead = (a: Arrays) => call(sn, op, a.x, without(valid[op](a), 'shape', 'axis'));
  bad.push({ title: 'no shape', op, code: 'ERR_AXIS', instead, says: ['axis 1', '[12]', 'pass shape'] });
}
// Axis 0 is that of the items.
for (const op of withBackward(['instanceNorm', 'groupNorm'])) {
  for (const [shape, axis] of [
    [[4, 3, 1], 0],
    [[4, 3, 1], -3],
    [[4, 3], -0],
    [[12], 0],
  ] as const) {
    const instead = (a: Arrays) => call(sn, op, a.x, { ...required[op], shape, axis, out: a.out });
    const title = `axis ${Object.is(axis, -0) ? '-0' : axis} of [${shape}]`;
    bad.push({ title, op, code: 'ERR_AXIS', instead, says: [/axis (-3|0)/] });
  }
}
for (const op of withBackward(overAxes)) {
  for (const axes of [2, -3, 1.5, NaN]) {
    add(op, 'ERR_AXIS', `axes ${axes}`, () => ({ axes }), `axes ${axes}`, '[3, 4]', '-2 to 1');
    add(op, 'ERR_AXIS', `axes [0, ${axes}]`, () => ({ axes: [0, axes] }), `axes[1] ${axes}`, '[3, 4]', '-2 to 1');
  }
  add(op, 'ERR_AXIS', 'axes [1, 1]', () => ({ axes: [1, 1] }), '[1, 1]', 'axis 1');
  add(op, 'ERR_AXIS', 'axes [1, -1]', () => ({ axes: [1, -1] }), '[1, -1]', 'axis 1');
  add(op, 'ERR_AXIS', 'axes [0, 1, -2]', () => ({ axes: [0, 1, -2] }), '[0, 1, -2]', 'axis 0');
  for (const axes of ['1', {}, true, Int32Array.of(1), 1n]) {
    add(op, 'ERR_TYPE', `axes ${inspect(axes)}`, () => ({ axes }), 'axes', 'integer');
  }
  for (const odd of [Symbol('axis'), Object.create(null), 1n]) {
    const says = ['axes [0, 0]', 'axis 0'];
    add(op, 'ERR_AXIS', `axes repeated before ${typeof odd}`, () => ({ axes: [0, 0, odd] }), ...says);
  }
  for (const axis of ['1', null, undefined, [1]]) {
    add(op, 'ERR_TYPE', `axes ${inspect([axis])}`, () => ({ axes: [axis] }), 'axes[0]', 'integer');
  }
  // biome-ignore lint/suspicious/noSparseArray: holes are what is tested.
  add(op, 'ERR_TYPE', 'axes with a hole', () => ({ axes: [, 1] }), 'axes[0]', 'undefined');
}

// Parameters and statistics that are given.
for (const op of allOps) {
  for (const name of vectors[op]) {
    const expected = vectorLength(op, name);
    const isSaved = isBackward(op) && (name === 'mean' || name === 'invStd') && op !== 'batchNormBackward';
    for (const length of [0, 1, 2, 3, 4, 5, 12].filter((each) => each !== expected)) {
      for (const [kind, values] of [
        ['Float32Array', new Float32Array(length)],
        ['Float64Array', new Float64Array(length)],
        ['number[]', Array.from({ length }, () => 1)],
      ] as const) {
        const title = `${name} a ${kind} of ${length}`;
        const says = [name, `${length} values`, `expected ${expected}`];
        // Of what was saved there is one for each group, which is no extent of the shape.
        if (!isSaved) says.push(list(shapes[op]));
        add(op, 'ERR_SHAPE', title, () => ({ [name]: values }), ...says);
      }
    }
    const last = expected - 1;
    const numbers = (place: number, value: unknown) =>
      Array.from({ length: expected }, (_, i) => (i === place ? value : 1));
    const hole = numbers(last, 1);
    delete hole[last];
    const wrong: [unknown, ...string[]][] = [
      ['1234', '"1234"'],
      [1, '1'],
      [true, 'true'],
      [new Int32Array(expected), 'an Int32Array'],
      [new Uint16Array(expected), 'Uint16Array'],
      [new DataView(new ArrayBuffer(16)), 'DataView'],
      [{ 0: 1, length: expected }, 'Object'],
      [new Set([1, 2, 3, 4]), 'Set'],
      [numbers(1, '2'), `${name}[1]`, '"2"'],
      [numbers(last, null), `${name}[${last}]`, 'null'],
      [hole, `${name}[${last}]`, 'undefined'],
      [numbers(last, 4n), `${name}[${last}]`, 'bigint'],
      [numbers(0, [1]), `${name}[0]`, 'an Array', `${name}.flat(Infinity)`],
      [[[1, 1, 1, 1]], `${name}[0]`, 'an Array', `${name}.flat(Infinity)`],
      [[Float32Array.of(1, 1)], `${name}[0]`, 'a Float32Array', `${name}.flatMap((row) => [...row])`],
    ];
    for (const [value, ...says] of wrong) {
      const title = `${name} of a wrong type: ${inspect(value)} ${says.at(-1)}`;
      add(op, 'ERR_TYPE', title, () => ({ [name]: value }), name, ...says);
    }
    for (const kind of [Float32Array, Float64Array]) {
      const options = () => {
        const values = new kind(expected);
        detach(values);
        return { [name]: values };
      };
      add(op, 'ERR_TYPE', `${name} a detached ${kind.name}`, options, name, 'detached');
    }
  }
}
for (const op of withBackward(['batchNorm'])) {
  for (const name of ['mean', 'variance']) {
    for (const value of [undefined, null]) {
      add(op, 'ERR_TYPE', `${name} ${value}`, () => ({ [name]: value }), name, String(value));
    }
  }
}
// Over several axes, scale and bias have the extents of all of them.
for (const name of ['scale', 'bias'] as const) {
  const options = (a: Arrays) => ({
    ...without(valid.layerNorm(a), 'scale', 'bias', 'meanOut', 'invStdOut'),
    axes: [1, 0],
  });
  add(
    'layerNorm',
    'ERR_SHAPE',
    `${name} of one of two axes`,
    (a) => ({ ...options(a), [name]: a[name] }),
    name,
    '4 values',
    'expected 12',
  );
}
for (const name of ['scale', 'dScaleOut', 'dBiasOut'] as const) {
  const options = (a: Arrays) => ({
    ...without(valid.layerNormBackward(a), 'scale', 'mean', 'invStd', 'dScaleOut', 'dBiasOut'),
    axes: [1, 0],
    [name]: a[name],
  });
  add('layerNormBackward', 'ERR_SHAPE', `${name} of one of two axes`, options, name, '4 values', 'expected 12');
}
add(
  'rmsNorm',
  'ERR_SHAPE',
  'scale where no axes are reduced',
  (a) => ({ axes: [], invStdOut: undefined, scale: a.scale }),
  '4 values',
  'expected 1',
);
for (const op of withBackward(['batchNorm'])) {
  for (const options of [undefined, null, {}]) {
    const instead = (a: Arrays) => call(sn, op, a.x, options && { shape: [3, 4], ...options }, a.dy);
    const code = options ? 'ERR_TYPE' : 'ERR_AXIS';
    bad.push({ title: `only x and ${options}`, op, code, instead, says: [options ? 'mean' : 'axis 1'] });
  }
}

// lengths
for (const op of withBackward(ragged)) {
  const affine = { scale: [1, 1, 1], ...(isBackward(op) ? {} : { bias: [1, 1, 1] }) };
  const axis = isOverAxes(op) ? {} : { axis: 0, ...affine };
  const perGroup = ['meanOut', 'varianceOut', 'invStdOut', 'mean', 'invStd', 'dScaleOut', 'dBiasOut'];
  const given = (lengths: unknown) => (a: Arrays) => ({ ...without(valid[op](a), ...perGroup), ...axis, lengths });
  for (const lengths of [[], [4, 4], [4, 4, 4, 4], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]) {
    const says = ['lengths', number(lengths.length), number(3)];
    add(op, 'ERR_SHAPE', `${lengths.length} lengths`, given(lengths), ...says);
    add(op, 'ERR_SHAPE', `an Int32Array of ${lengths.length} lengths`, given(Int32Array.from(lengths)), ...says);
  }
  for (const length of [-1, 5, 1.5, NaN, Infinity, 2 ** 32, -(2 ** 32) + 1]) {
    add(op, 'ERR_RANGE', `a length ${length}`, given([4, length, 4]), 'lengths[1]', String(length), number(4));
    const held = Int32Array.of(4, 4, length)[2] as number;
    // Int32Array made others of some.
    if (held === length)
      add(
        op,
        'ERR_RANGE',
        `an Int32Array with ${length}`,
        given(Int32Array.of(4, 4, length)),
        'lengths[2]',
        String(length),
      );
  }
  for (const length of ['2', null, undefined, [2], true, 2n]) {
    add(op, 'ERR_TYPE', `a length ${inspect(length)}`, given([4, length, 4]), 'lengths[1]');
  }
  // biome-ignore lint/suspicious/noSparseArray: holes are what is tested.
  add(op, 'ERR_TYPE', 'lengths with a hole', given([4, , 4]), 'lengths[1]', 'undefined');
  const wrong: [unknown, string][] = [
    [4, '4'],
    ['4,4,4', '"4,4,4"'],
    [true, 'true'],
    [{ 0: 4, 1: 4, 2: 4, length: 3 }, 'Object'],
    [new Set([4, 2, 3]), 'Set'],
    [Float32Array.of(4, 4, 4), 'a Float32Array'],
    [Uint8Array.of(4, 4, 4), 'a Uint8Array'],
    [BigInt64Array.of(4n, 4n, 4n), 'a BigInt64Array'],
    [new ArrayBuffer(12), 'ArrayBuffer'],
  ];
  for (const [lengths, says] of wrong) {
    add(op, 'ERR_TYPE', `lengths: ${says}`, given(lengths), 'lengths', 'Int32Array', says);
  }
  const detached = (a: Arrays) => {
    const lengths = Int32Array.of(4, 4, 4);
    detach(lengths);
    return given(lengths)(a);
  };
  add(op, 'ERR_TYPE', 'lengths detached', detached, 'lengths', 'detached');
  const instead = (a: Arrays) =>
    call(sn, op, a.x, { shape: [12], ...(isOverAxes(op) ? {} : { axis: 0 }), lengths: [12] });
  bad.push({ title: 'lengths of rank 1', op, code: 'ERR_SHAPE', instead, says: ['lengths', '[12]'] });
}
for (const op of withBackward(['batchNormTraining'])) {
  for (const axis of [undefined, 1, -1]) {
    const options = (a: Arrays) => ({ axis, lengths: a.lengths });
    add(op, 'ERR_AXIS', `lengths by axis ${axis}`, options, 'lengths', 'axis', number(1));
  }
}

// residual
for (const op of ['layerNorm', 'rmsNorm'] as const) {
  for (const length of [0, 4, 11, 13, 24]) {
    const options = () => ({ residual: new Float32Array(length) });
    add(op, 'ERR_SHAPE', `residual of ${length}`, options, 'residual', number(length), number(12));
  }
  const wrong: [unknown, string][] = [
    [new Float64Array(12), 'a Float64Array'],
    [new Uint16Array(12), 'a Uint16Array'],
    [new Int32Array(12), 'an Int32Array'],
    [Array.from({ length: 12 }, () => 0), 'an Array'],
    [1, '1'],
    [true, 'true'],
    ['x', '"x"'],
    [{ length: 12 }, 'Object'],
  ];
  for (const [residual, says] of wrong) {
    add(op, 'ERR_TYPE', `residual: ${says}`, () => ({ residual }), 'residual', 'Float32Array', says);
  }
  const options = () => {
    const residual = new Float32Array(12);
    detach(residual);
    return { residual };
  };
  add(op, 'ERR_TYPE', 'residual detached', options, 'residual', 'detached');
  const alone = () => ({ residual: undefined });
  add(op, 'ERR_TYPE', 'residualOut without residual', alone, 'residualOut', 'without residual');
}

// What is written.
for (const op of allOps) {
  for (const [name, expected] of Object.entries(written[op])) {
    for (const length of [0, expected - 1, expected + 1, 100]) {
      const options = () => ({ [name]: new Float32Array(length) });
      add(op, 'ERR_SHAPE', `${name} of ${length}`, options, name, `${length} values`, `expected ${expected}`);
    }
    const wrong: [unknown, string][] = [
      [new Float64Array(expected), 'a Float64Array'],
      [new Uint16Array(expected), 'a Uint16Array'],
      [new Uint8Array(expected), 'a Uint8Array'],
      [Array.from({ length: expected }, () => 0), 'an Array'],
      ['out', '"out"'],
      [expected, String(expected)],
      [true, 'true'],
      [new ArrayBuffer(4 * expected), 'ArrayBuffer'],
    ];
    for (const [value, says] of wrong) {
      add(op, 'ERR_TYPE', `${name}: ${says}`, () => ({ [name]: value }), name, 'Float32Array', says);
    }
    const options = () => {
      const values = new Float32Array(expected);
      detach(values);
      return { [name]: values };
    };
    add(op, 'ERR_TYPE', `${name} detached`, options, name, 'detached');
  }
}
// Of another dtype than x has, or than its statistics have.
for (const op of allOps) {
  for (const [name, length] of Object.entries(written[op])) {
    const isStatistic = !['out', 'residualOut'].includes(name);
    for (const [dtype, wrong, says] of [
      ['float64', new Float32Array(length), 'Float64Array'],
      ['float64', new Uint16Array(length), 'Float64Array'],
      [
        'float16',
        isStatistic ? new Uint16Array(length) : new Float32Array(length),
        isStatistic ? 'Float32Array' : 'Uint16Array',
      ],
      ['float16', new Float64Array(length), isStatistic ? 'Float32Array' : 'Uint16Array'],
    ] as const) {
      const instead = (a: Arrays) => {
        const { x, options } = ofType(dtype, a.x);
        const residual = name === 'residualOut' ? { residual: x.slice() } : {};
        return call(sn, op, x, { ...required[op], shape: shapes[op], ...options, ...residual, [name]: wrong });
      };
      const title = `${name} a ${wrong.constructor.name} of ${dtype}`;
      bad.push({ title, op, code: 'ERR_TYPE', instead, says: [name, says, wrong.constructor.name] });
    }
  }
  if (!('residualOut' in written[op])) continue;
  for (const dtype of ['float64', 'float16'] as const) {
    const instead = (a: Arrays) => {
      const { x, options } = ofType(dtype, a.x);
      return call(sn, op, x, { ...required[op], shape: shapes[op], ...options, residual: a.residual });
    };
    const says = ['residual', 'Float32Array', dtype === 'float64' ? 'Float64Array' : 'Uint16Array'];
    bad.push({ title: `residual a Float32Array of ${dtype}`, op, code: 'ERR_TYPE', instead, says });
  }
}

// A buffer that has shrunk beneath its view, which has no values then.
for (const op of allOps) {
  const given = valid[op](arrays());
  const views = Object.entries(given).filter(([, value]) => ArrayBuffer.isView(value)) as [
    string,
    Float32Array | Int32Array,
  ][];
  for (const [name, { length }] of [['x', { length: 12 }] as const, ...views]) {
    const shrunk = () => {
      const buffer = resizableBuffer(4 * length, 4 * length);
      const values = name === 'lengths' ? new Int32Array(buffer, 0, length) : new Float32Array(buffer, 0, length);
      buffer.resize(4 * length - 4);
      return values;
    };
    const says = [name, number(0), number(length)];
    const title = `${name} out of its buffer's bounds`;
    if (name === 'x') bad.push({ title, op, code: 'ERR_SHAPE', x: shrunk, says });
    else add(op, 'ERR_SHAPE', title, () => ({ [name]: shrunk() }), ...says);
  }
}

// What overlaps.
function addOverlap(
  op: AnyOp,
  title: string,
  options: (a: Arrays) => Options & { x?: Float32Array; dy?: Float32Array },
  ...says: Says
) {
  const instead = (a: Arrays) => {
    const { x = a.x, dy = a.dy, ...rest } = options(a);
    return call(sn, op, x, { ...valid[op](a), ...rest }, dy);
  };
  bad.push({ title, op, code: 'ERR_OVERLAP', instead, says: ['shares memory', ...says] });
}
const part = (a: Arrays, begin: number, length: number) => a.memory.subarray(begin, begin + length);

// Everything that is written with everything else, by one value and by many.
for (const op of allOps) {
  const lengthOf: Record<string, number> = { x: 12, ...(isBackward(op) ? { dy: 12 } : {}) };
  for (const [name, value] of Object.entries(valid[op](arrays()))) {
    if (ArrayBuffer.isView(value)) lengthOf[name] = (value as Float32Array).length;
  }
  const names = Object.keys(lengthOf);
  const view = (a: Arrays, name: string, begin: number, usesIntegers: boolean) => {
    const { buffer } = usesIntegers ? a.integers : a.memory;
    const kind = name === 'lengths' ? Int32Array : Float32Array;
    return new kind(buffer, 4 * begin, lengthOf[name] as number);
  };
  for (const name of Object.keys(written[op])) {
    for (const other of names) {
      // A pair that is written both ways is here once.
      if (other === name || (other in written[op] && names.indexOf(other) < names.indexOf(name))) continue;
      const [length, otherLength] = [lengthOf[name] as number, lengthOf[other] as number];
      for (const [how, by] of [
        ['ends in', 1 - otherLength],
        ['begins in', length - 1],
        ['lies on', length === otherLength ? 1 : 0],
      ] as const) {
        const options = (a: Arrays) => ({
          [name]: view(a, name, 30, other === 'lengths'),
          [other]: view(a, other, 30 + by, other === 'lengths'),
        });
        addOverlap(op, `${other} ${how} ${name}`, options, name, other);
      }
    }
  }
}

for (const op of withBackward(normalizations)) {
  for (const input of isBackward(op) ? (['x', 'dy'] as const) : (['x'] as const)) {
    for (const by of [1, 4, 11, -1]) {
      const options = (a: Arrays) => ({ [input]: part(a, 20, 12), out: part(a, 20 + by, 12) });
      addOverlap(op, `out is ${input}, ${by} further`, options, 'out', input, 'in part');
    }
    // It may be out itself, but then a parameter may not be part of it.
    for (const name of vectors[op]) {
      const end = 4 + vectorLength(op, name);
      const isOut = (a: Arrays) => ({ out: a[input], [name]: a[input].subarray(4, end) });
      addOverlap(op, `${name} in ${input}, which is out`, isOut, 'out', name);
      const isViewed = (a: Arrays) => ({ ...isOut(a), out: new Float32Array(a[input].buffer) });
      addOverlap(op, `${name} in ${input}, another view of which is out`, isViewed, 'out', name);
    }
  }
  for (const name of vectors[op]) {
    const length = vectorLength(op, name);
    for (const begin of [21 - length, 20, 24, 31]) {
      const options = (a: Arrays) => ({ out: part(a, 20, 12), [name]: part(a, begin, length) });
      addOverlap(op, `${name} in out, from ${begin}`, options, 'out', name);
    }
    addOverlap(
      op,
      `${name} a Float64Array in out`,
      (a) => ({ out: new Float32Array(a.doubles.buffer, 8, 12), [name]: a.doubles.subarray(2, 2 + length) }),
      'out',
      name,
    );
  }
}
// Parameters that are bits are converted, but what is written must not be theirs.
for (const op of allOps) {
  for (const name of vectors[op]) {
    const length = vectorLength(op, name);
    const instead = (a: Arrays) => {
      const bits = ofType('float16', a.memory).x;
      const out = bits.subarray(12, 24);
      const given = {
        ...required[op],
        shape: shapes[op],
        dtype: 'float16',
        out,
        [name]: bits.subarray(23, 23 + length),
      };
      return call(sn, op, bits.subarray(0, 12), given, bits.subarray(36, 48));
    };
    bad.push({
      title: `${name} of bits in out`,
      op,
      code: 'ERR_OVERLAP',
      instead,
      says: ['out', name, 'shares memory'],
    });
  }
}
for (const op of backwardOps) {
  // out may be dy or x, but not reach into the other one.
  addOverlap(
    op,
    'out is dy, which x overlaps',
    (a) => ({ dy: part(a, 20, 12), x: part(a, 24, 12), out: part(a, 20, 12) }),
    'out',
    /\bx\b/,
    'in part',
  );
  addOverlap(
    op,
    'out is x, which dy overlaps',
    (a) => ({ dy: part(a, 20, 12), x: part(a, 24, 12), out: part(a, 24, 12) }),
    'out',
    'dy',
    'in part',
  );
  for (const name of Object.keys(written[op]).filter((each) => each !== 'out')) {
    for (const input of ['x', 'dy'] as const) {
      const inside = (a: Arrays) => ({ out: undefined, [name]: a[input].subarray(5, 9) });
      addOverlap(op, `${name} in ${input}, without out`, inside, name, input);
      const isOut = (a: Arrays) => ({ out: a[input], [name]: a[input].subarray(0, 4) });
      addOverlap(op, `${name} in ${input}, which is out`, isOut, name);
    }
    for (const parameter of vectors[op].filter((each) => vectorLength(op, each) === 4)) {
      const same = (a: Arrays) => ({ [name]: a.invStd, [parameter]: a.invStd });
      addOverlap(op, `${name} is ${parameter}`, same, name, parameter);
    }
  }
  if ('dBiasOut' in written[op]) {
    addOverlap(op, 'dScaleOut is dBiasOut', (a) => ({ dScaleOut: a.dBiasOut }), 'dScaleOut', 'dBiasOut');
  }
}
// The checks of what is written must not depend on which statistics are asked for.
for (const name of ['scale', 'bias'] as const) {
  const alone = (a: Arrays) => without(valid.layerNorm(a), ...Object.keys(valid.layerNorm(a)).slice(1));
  addOverlap(
    'layerNorm',
    `${name} in x, which is out, without statistics`,
    (a) => ({ ...alone(a), out: a.x, [name]: a.x.subarray(4, 8) }),
    'out',
    name,
  );
  addOverlap(
    'layerNorm',
    `${name} is x is out`,
    (a) => {
      const x = part(a, 0, 4);
      return { ...alone(a), shape: [1, 4], x, out: x, [name]: x };
    },
    'out',
    name,
  );
  addOverlap(
    'layerNorm',
    `${name} is x is out, with statistics`,
    (a) => {
      const x = part(a, 0, 4);
      return { ...alone(a), shape: [1, 4], x, out: x, [name]: x, meanOut: a.meanOfRows.subarray(0, 1) };
    },
    'out',
    name,
  );
}
for (const op of ['layerNorm', 'rmsNorm', 'instanceNorm', 'groupNorm', 'batchNormTraining'] as const) {
  for (const [name, length] of Object.entries(written[op])) {
    if (name === 'out' || name === 'residualOut') continue;
    addOverlap(
      op,
      `${name} in x, without out`,
      (a) => ({ out: undefined, [name]: a.x.subarray(5, 5 + length) }),
      name,
      'x',
    );
    addOverlap(op, `${name} in x, which is out`, (a) => ({ out: a.x, [name]: a.x.subarray(0, length) }), name);
  }
}
// residualOut may be x or residual, and out may be x; no two that are written may be one.
for (const op of ['layerNorm', 'rmsNorm'] as const) {
  addOverlap(op, 'residual is out', (a) => ({ out: a.residual }), 'out', 'residual');
  addOverlap(op, 'residual is out is x', (a) => ({ out: a.x, residual: a.x }), 'out', 'residual');
  addOverlap(op, 'residualOut is out', (a) => ({ residualOut: a.out }), 'out', 'residualOut');
  addOverlap(op, 'residualOut is out is x', (a) => ({ out: a.x, residualOut: a.x }), 'out', 'residualOut');
  addOverlap(
    op,
    'residualOut is out is residual',
    (a) => ({ out: a.residual, residualOut: a.residual }),
    'out',
    /residual/,
  );
  addOverlap(
    op,
    'residualOut is residual, which x overlaps',
    (a) => {
      return { x: part(a, 20, 12), residual: part(a, 24, 12), residualOut: part(a, 24, 12) };
    },
    'residualOut',
    'x',
  );
  addOverlap(
    op,
    'residualOut is x, which residual overlaps',
    (a) => {
      return { x: part(a, 20, 12), residual: part(a, 24, 12), residualOut: part(a, 20, 12) };
    },
    'residualOut',
    'residual',
  );
  addOverlap(
    op,
    'scale in residual, which is residualOut',
    (a) => {
      return { residualOut: a.residual, scale: a.residual.subarray(4, 8) };
    },
    'residualOut',
    'scale',
  );
}

describe('errors', () => {
  test('titles are different, so that a failure can be found', () => {
    const titles = bad.map(({ op, title }) => `${op}: ${title}`);
    expect(titles.filter((title, i) => titles.indexOf(title) !== i)).toEqual([]);
    for (const op of allOps) expect(bad.filter((each) => each.op === op).length).toBeGreaterThan(100);
  });

  // Of the instance before any error. An operation's own is asked for after each one, so that the first that breaks
  // something is seen.
  let before = '';
  const own: Partial<Record<AnyOp, string>> = {};
  beforeAll(() => {
    before = fingerprint(sn);
    for (const op of allOps) own[op] = fingerprint(sn, [op]);
  });

  test.each(bad)('$op: $title', ({ op, code, says, options, x, dy, instead }) => {
    const a = arrays();
    let failure: unknown;
    let given: Options = {};
    if (!instead) {
      const changes = options?.(a) ?? {};
      // Inherited options count as well.
      given = Object.assign(Object.create(Object.getPrototypeOf(changes)), valid[op](a), changes);
    }
    try {
      if (instead) instead(a);
      else call(sn, op, x ? x(a) : a.x, given, dy ? dy(a) : a.dy);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    const { message, name, ...rest } = failure as NormError;
    expect({ code: rest.code, op: rest.op, name, message }).toEqual({ code, op, name: 'NormError', message });
    expect(message.startsWith(`${op}: `)).toBe(true);
    for (const part of says) {
      if (typeof part === 'string') expect(message).toContain(part);
      else expect(message).toMatch(part);
    }
    expect(a.isUntouched()).toBe(true);
    expect(fingerprint(sn, [op])).toBe(own[op]);
  });

  test('after all of them every operation gives what it gave before', () => {
    expect(fingerprint(sn)).toBe(before);
  });

  test('what the table calls valid is', () => {
    for (const op of allOps) {
      const a = arrays();
      call(sn, op, a.x, valid[op](a), a.dy);
      expect(a.isUntouched()).toBe(op === 'moments');
    }
  });

  test('the fingerprint of an instance is of every operation', () => {
    const before = fingerprint(sn);
    for (const op of allOps) {
      const changed = {
        ...sn,
        [op]: (...given: unknown[]) => {
          const [options, x, dy] = given.reverse() as [Options, unknown, unknown];
          return call(sn, op, x, { ...options, shape: [6, 2, 1] }, dy);
        },
      };
      let after = '';
      try {
        after = fingerprint(changed);
      } catch (error) {
        after = String(error);
      }
      expect(after).not.toBe(before);
    }
  });
});

describe('instances', () => {
  test.each(allOps)('%s of one that is disposed of is ERR_FREED', async (op) => {
    const own = await load({});
    const a = arrays();
    call(own, op, a.x, { ...required[op], shape: shapes[op] }, a.dy);
    own.dispose();
    const failure = expect.objectContaining({ name: 'NormError', code: 'ERR_FREED', op });
    expect(() => call(own, op, a.x, valid[op](a), a.dy)).toThrow(failure);
    expect(a.isUntouched()).toBe(true);
  });

  test.each(['localResponseNorm', 'moments'] as const)(
    'the scratch of %s is measured before there is any data: that may take most of the memory',
    async (op) => {
      const small = await load({ maximumMemory: 8 * 2 ** 20 });
      // moments need some for axes in another order, and the windows of one item twice as much as it.
      const x = draw(op === 'moments' ? 1_500_000 : 400_000, 1);
      const options = op === 'moments' ? { shape: [1000, 4, 375], axes: [2, 0] } : { shape: [1, 4, 100_000], size: 3 };
      const expected = results(sn, op, x, options);
      // (toEqual takes seconds for as many values.)
      const got = results(small, op, x, options) as Record<string, unknown>;
      for (const [output, values] of Object.entries(expected)) {
        if (ArrayBuffer.isView(values)) {
          expectBits({ op, shape: options.shape, output }, got[output] as Floats, values as Floats);
        }
      }
      small.dispose();
    },
  );

  // 1e6 values are too many by themselves, 200,000 with what gradients need beside them.
  const tooMany = (op: AnyOp) => (isBackward(op) ? [1_000_000, 200_000] : [1_000_000]);
  test.each(allOps.flatMap((op) => tooMany(op).map((size) => [op, size] as const)))(
    '%s that needs more memory than there is, for %i values, is ERR_MEMORY, and changes nothing',
    async (op, size) => {
      const small = await load({ maximumMemory: 2 * 2 ** 20 });
      const before = fingerprint(small);
      const x = draw(size, 1);
      const dy = draw(size, 2);
      const out = new Float32Array(size).fill(canary);
      const dScaleOut = new Float32Array(4).fill(canary);
      const options = {
        ...required[op],
        // One item, which can't be divided.
        shape: [1, 4, size / 4],
        ...(isOverAxes(op) && { axes: 1 }),
        ...('p' in valid[op](arrays()) && { p: 1 }),
        ...('scale' in valid[op](arrays()) && { scale: [1, 2, 3, 4] }),
        ...('dScaleOut' in written[op] && { dScaleOut }),
        ...('out' in written[op] && { out }),
      };
      for (let i = 0; i < 3; ++i) {
        const failure = { name: 'NormError', code: 'ERR_MEMORY', op, message: expect.stringContaining('2.0 MiB') };
        expect(() => call(small, op, x, options, dy)).toThrow(expect.objectContaining(failure));
        expect([...new Set(out), ...new Set(dScaleOut)]).toEqual([Math.fround(canary), Math.fround(canary)]);
        expect(fingerprint(small)).toBe(before);
      }
      small.dispose();
    },
  );
});

describe('NormError', () => {
  test('is an Error with a name, a code, an operation and a stack', () => {
    const { x } = arrays();
    let failure: unknown;
    try {
      sn.layerNorm(x, { epsilon: -1 });
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(Error);
    expect(String(failure)).toBe('NormError: layerNorm: epsilon must be finite and at least 0, got -1');
    expect((failure as Error).stack).toContain('errors.test.ts');
    expect('cause' in (failure as Error)).toBe(false);
  });
});
