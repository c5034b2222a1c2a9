import { inspect } from 'node:util';
import { type ErrorCode, load, NormError, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Arrays, arrays, call, fingerprint, normalizations, type Op, type Options, ops, valid } from './calls.ts';
import { detach } from './data.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

interface Bad {
  readonly title: string;
  readonly op: Op;
  readonly code: ErrorCode;
  /** Parts of the message: what was given, what was expected. */
  readonly says: readonly string[];
  /** What differs from the valid options; or the call itself. */
  readonly options?: (a: Arrays) => Options;
  readonly x?: (a: Arrays) => unknown;
  readonly instead?: (a: Arrays) => unknown;
}

const bad: Bad[] = [];

function add(op: Op, code: ErrorCode, title: string, options: (a: Arrays) => Options, ...says: string[]): void {
  bad.push({ title, op, code, options, says });
}

// What x is.
for (const op of ops) {
  const wrong: [string, (a: Arrays) => unknown, ...string[]][] = [
    ['an Array', (a) => [...a.x], 'an Array', 'Float32Array.from'],
    ['a Float64Array', (a) => Float64Array.from(a.x), 'a Float64Array'],
    ['an Int32Array', (a) => Int32Array.from(a.x), 'a Int32Array'],
    ['a Uint8Array', (a) => new Uint8Array(a.x.buffer), 'a Uint8Array'],
    ['a DataView', (a) => new DataView(a.x.buffer), 'DataView'],
    ['an ArrayBuffer', (a) => a.x.buffer, 'ArrayBuffer'],
    ['null', () => null, 'null'],
    ['undefined', () => undefined, 'undefined'],
    ['a string', () => '1,2,3', '"1,2,3"'],
    ['a number', () => 12, '12'],
    ['an object', () => ({ length: 12 }), 'Object'],
    ['a function', () => () => 1, 'function'],
    ['a symbol', () => Symbol('x'), 'symbol'],
    ['a false Float32Array', () => Object.create(Float32Array.prototype), 'x must be a Float32Array'],
  ];
  for (const [title, x, ...says] of wrong) {
    bad.push({ title: `x ${title}`, op, code: 'ERR_TYPE', x, says: ['x', 'Float32Array', ...says] });
  }
  bad.push({
    title: 'x detached',
    op,
    code: 'ERR_TYPE',
    x: ({ x }) => {
      detach(x);
      return x;
    },
    says: ['x', 'detached'],
  });
  bad.push({ title: 'nothing at all', op, code: 'ERR_TYPE', instead: () => call(sn, op, undefined), says: ['x'] });
}

// What options are.
for (const op of ops) {
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
  add(op, 'ERR_TYPE', 'a stranger', () => ({ interpolation: 1 }), "'interpolation'", 'shape, ax');
  add(op, 'ERR_TYPE', 'a falsy stranger', () => ({ interpolation: 0 }), "'interpolation'");
  add(op, 'ERR_TYPE', 'an inherited stranger', () => Object.create({ interpolation: 1 }), "'interpolation'");
}
for (const op of normalizations) {
  add(op, 'ERR_TYPE', "option 'epsilom'", () => ({ epsilom: 1 }), "'epsilom'", "did you mean 'epsilon'?");
  add(op, 'ERR_TYPE', "option 'scales'", (a) => ({ scales: a.scale }), "'scales'", "did you mean 'scale'?");
  add(op, 'ERR_TYPE', "option 'gamma'", (a) => ({ gamma: a.scale }), "'gamma'", 'scale', 'bias');
  // Three letters of which all three are wrong are no misspelling of another option.
  add(op, 'ERR_TYPE', "option 'eps'", () => ({ eps: 1 }), "'eps'", 'epsilon');
}
add('layerNorm', 'ERR_TYPE', 'axis', () => ({ axis: 1 }), "'axis'", "did you mean 'axes'?");
add('layerNorm', 'ERR_TYPE', 'varianceOut', (a) => ({ varianceOut: a.meanOfRows }), "'varianceOut'");
add('batchNorm', 'ERR_TYPE', 'axes', () => ({ axes: 1 }), "'axes'", "did you mean 'axis'?");
add('batchNorm', 'ERR_TYPE', 'meanOut', (a) => ({ meanOut: a.meanOfChannels }), "'meanOut'");
add('batchNormTraining', 'ERR_TYPE', 'momentum', () => ({ momentum: 0.1 }), "'momentum'");
add('moments', 'ERR_TYPE', 'epsilon', () => ({ epsilon: 1 }), "'epsilon'");
add('moments', 'ERR_TYPE', 'out', (a) => ({ out: a.out }), "'out'");

// shape
for (const op of ops) {
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
    ['ERR_TYPE', Int32Array.of(3, 4), 'shape', 'a Int32Array'],
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
    const instead = (a: Arrays) => call(sn, op, new Float32Array(0), { ...valid[op](a), shape, out: undefined });
    bad.push({ title: `shape [${shape}]`, op, code: 'ERR_SHAPE', instead, says: [`[${shape.join(', ')}]`] });
  }
}

// Nothing to normalize over, or too little.
const empty = (op: Op, code: ErrorCode, options: Options, ...says: string[]) =>
  bad.push({
    title: `nothing in [${options.shape}]`,
    op,
    code,
    instead: () => call(sn, op, new Float32Array(0), options),
    says,
  });
empty('layerNorm', 'ERR_SHAPE', { shape: [3, 0] }, '[3, 0]', '[1]');
empty('layerNorm', 'ERR_SHAPE', { shape: [0] }, '[0]');
empty('layerNorm', 'ERR_SHAPE', { shape: [3, 0, 4], axes: [1, 2] }, '[3, 0, 4]', '[1, 2]');
empty('batchNormTraining', 'ERR_SHAPE', { shape: [0, 3] }, '[0, 3]');
empty('batchNormTraining', 'ERR_SHAPE', { shape: [2, 3, 0] }, '[2, 3, 0]');
empty('moments', 'ERR_SHAPE', { shape: [0, 3], axes: 0 }, '[0, 3]', '[0]');
empty('moments', 'ERR_SHAPE', {}, '[0]');
for (const [shape, axis] of [
  [[1, 12], 1],
  [[12, 1], 0],
  [[1, 12, 1], 1],
  [[12], 0],
] as const) {
  const instead = (a: Arrays) => sn.batchNormTraining(a.x, { shape, axis, out: a.out });
  const title = `one value per channel, [${shape}] by axis ${axis}`;
  bad.push({
    title,
    op: 'batchNormTraining',
    code: 'ERR_RANGE',
    instead,
    says: [`[${shape.join(', ')}]`, 'one value'],
  });
}
for (const op of ops) {
  const instead = (a: Arrays) => call(sn, op, a.x.subarray(0, 1), { shape: [], mean: undefined });
  bad.push({ title: 'rank 0', op, code: 'ERR_AXIS', instead, says: ['[]', 'no axes'] });
}

// epsilon
for (const op of normalizations) {
  for (const epsilon of [-1, -1e-30, NaN, Infinity, -Infinity]) {
    add(op, 'ERR_RANGE', `epsilon ${epsilon}`, () => ({ epsilon }), 'epsilon', String(epsilon));
  }
  for (const epsilon of ['1e-5', '', {}, [1e-5], true, 1n]) {
    add(op, 'ERR_TYPE', `epsilon ${inspect(epsilon)}`, () => ({ epsilon }), 'epsilon', 'a number');
  }
}

// axis and axes
for (const op of ['batchNorm', 'batchNormTraining'] as const) {
  for (const axis of [2, -3, 1.5, NaN, Infinity, 2 ** 32]) {
    add(op, 'ERR_AXIS', `axis ${axis}`, () => ({ axis }), `axis ${axis}`, '[3, 4]', '-2 to 1');
  }
  for (const axis of ['1', [1], {}, true])
    add(op, 'ERR_TYPE', `axis ${inspect(axis)}`, () => ({ axis }), 'axis', 'integer');
  const instead = (a: Arrays) => call(sn, op, a.x, { ...valid[op](a), shape: undefined });
  bad.push({ title: 'no shape', op, code: 'ERR_AXIS', instead, says: ['axis 1', '[12]', '-1 to 0'] });
}
for (const op of ['layerNorm', 'moments'] as const) {
  for (const axes of [2, -3, 1.5, NaN]) {
    add(op, 'ERR_AXIS', `axes ${axes}`, () => ({ axes }), `axes ${axes}`, '[3, 4]', '-2 to 1');
    add(op, 'ERR_AXIS', `axes [0, ${axes}]`, () => ({ axes: [0, axes] }), `axes[1] ${axes}`, '[3, 4]', '-2 to 1');
  }
  add(op, 'ERR_AXIS', 'axes [1, 1]', () => ({ axes: [1, 1] }), '[1, 1]', 'axis 1');
  add(op, 'ERR_AXIS', 'axes [1, -1]', () => ({ axes: [1, -1] }), '[1, -1]', 'axis 1');
  for (const axes of ['1', {}, true, Int32Array.of(1)]) {
    add(op, 'ERR_TYPE', `axes ${inspect(axes)}`, () => ({ axes }), 'axes', 'integer');
  }
  for (const axis of ['1', null, undefined, [1]]) {
    add(op, 'ERR_TYPE', `axes ${inspect([axis])}`, () => ({ axes: [axis] }), 'axes[0]', 'integer');
  }
  // biome-ignore lint/suspicious/noSparseArray: holes are what is tested.
  add(op, 'ERR_TYPE', 'axes with a hole', () => ({ axes: [, 1] }), 'axes[0]', 'undefined');
}
add('layerNorm', 'ERR_AXIS', 'axes not the last', () => ({ axes: 0 }), '[1]', '[0]');
add(
  'layerNorm',
  'ERR_AXIS',
  'axes not the last in rank 3',
  () => ({ shape: [3, 2, 2], axes: [0, 2] }),
  '[1, 2]',
  '[0, 2]',
);
add('layerNorm', 'ERR_AXIS', 'axes descending', () => ({ axes: [1, 0] }), '[0, 1]', '[1, 0]');
add('layerNorm', 'ERR_AXIS', 'axes descending from the end', () => ({ axes: [-1, -2] }), '[0, 1]', '[1, 0]');
bad.push({
  title: 'axes that alternate with the others',
  op: 'moments',
  code: 'ERR_AXIS',
  instead: (a) => sn.moments(a.memory.subarray(0, 16), { shape: [2, 2, 2, 2], axes: [2, 0] }),
  says: ['[0, 2]', '4'],
});

// Parameters and statistics that are given.
for (const [op, names] of [
  ['layerNorm', ['scale', 'bias']],
  ['batchNorm', ['scale', 'bias', 'mean', 'variance']],
  ['batchNormTraining', ['scale', 'bias']],
] as const) {
  for (const name of names) {
    for (const length of [0, 1, 3, 5, 12]) {
      for (const [kind, values] of [
        ['Float32Array', new Float32Array(length)],
        ['Float64Array', new Float64Array(length)],
        ['number[]', Array.from({ length }, () => 1)],
      ] as const) {
        const title = `${name} a ${kind} of ${length}`;
        add(op, 'ERR_SHAPE', title, () => ({ [name]: values }), name, `${length} values`, 'expected 4', '[3, 4]');
      }
    }
    const wrong: [unknown, ...string[]][] = [
      ['1234', '"1234"'],
      [1, '1'],
      [true, 'true'],
      [Int32Array.of(1, 2, 3, 4), 'a Int32Array'],
      [new DataView(new ArrayBuffer(16)), 'DataView'],
      [{ 0: 1, length: 4 }, 'Object'],
      [new Set([1, 2, 3, 4]), 'Set'],
      [[1, '2', 3, 4], `${name}[1]`, '"2"'],
      [[1, 2, null, 4], `${name}[2]`, 'null'],
      // biome-ignore lint/suspicious/noSparseArray: holes are what is tested.
      [[1, 2, , 4], `${name}[2]`, 'undefined'],
      [[1, 2, 3, 4n], `${name}[3]`, 'bigint'],
    ];
    for (const [value, ...says] of wrong) {
      const title = `${name} of a wrong type: ${Object.prototype.toString.call(value)} ${says.at(-1)}`;
      add(op, 'ERR_TYPE', title, () => ({ [name]: value }), name, ...says);
    }
    for (const kind of [Float32Array, Float64Array]) {
      const options = () => {
        const values = new kind(4);
        detach(values);
        return { [name]: values };
      };
      add(op, 'ERR_TYPE', `${name} a detached ${kind.name}`, options, name, 'detached');
    }
  }
}
for (const name of ['mean', 'variance']) {
  for (const value of [undefined, null]) {
    add('batchNorm', 'ERR_TYPE', `${name} ${value}`, () => ({ [name]: value }), name, String(value));
  }
}
for (const options of [undefined, null, {}]) {
  const instead = (a: Arrays) => call(sn, 'batchNorm', a.x, options && { shape: [3, 4], ...options });
  const code = options ? 'ERR_TYPE' : 'ERR_AXIS';
  bad.push({ title: `only x and ${options}`, op: 'batchNorm', code, instead, says: [options ? 'mean' : 'axis 1'] });
}

// What is written.
for (const [op, names] of [
  ['layerNorm', { out: 12, meanOut: 3, invStdOut: 3 }],
  ['batchNorm', { out: 12 }],
  ['batchNormTraining', { out: 12, meanOut: 4, varianceOut: 4, invStdOut: 4 }],
] as const) {
  for (const [name, expected] of Object.entries(names)) {
    for (const length of [0, expected - 1, expected + 1, 100]) {
      const options = () => ({ [name]: new Float32Array(length) });
      add(op, 'ERR_SHAPE', `${name} of ${length}`, options, name, `${length} values`, `expected ${expected}`);
    }
    const wrong: [unknown, string][] = [
      [new Float64Array(expected), 'a Float64Array'],
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

// What overlaps.
function addOverlap(op: Op, title: string, options: (a: Arrays) => Options & { x?: Float32Array }, ...says: string[]) {
  const instead = (a: Arrays) => {
    const { x = a.x, ...rest } = options(a);
    return call(sn, op, x, { ...valid[op](a), ...rest });
  };
  bad.push({ title, op, code: 'ERR_OVERLAP', instead, says: ['shares memory', ...says] });
}
const part = (a: Arrays, begin: number, length: number) => a.memory.subarray(begin, begin + length);
for (const op of normalizations) {
  for (const by of [1, 4, 11, -1]) {
    const options = (a: Arrays) => ({ x: part(a, 20, 12), out: part(a, 20 + by, 12) });
    addOverlap(op, `out is x, ${by} further`, options, 'out', 'x', 'in part');
  }
  const names = op === 'batchNorm' ? ['scale', 'bias', 'mean', 'variance'] : ['scale', 'bias'];
  for (const name of names) {
    for (const begin of [17, 20, 24, 31]) {
      const options = (a: Arrays) => ({ out: part(a, 20, 12), [name]: part(a, begin, 4) });
      addOverlap(op, `${name} in out, from ${begin}`, options, 'out', name);
    }
    addOverlap(
      op,
      `${name} a Float64Array in out`,
      (a) => ({ out: new Float32Array(a.doubles.buffer, 8, 12), [name]: a.doubles.subarray(2, 6) }),
      'out',
      name,
    );
    // x itself may be out, but then a parameter may not be part of it.
    addOverlap(op, `${name} in x, which is out`, (a) => ({ out: a.x, [name]: a.x.subarray(4, 8) }), 'out', name);
    addOverlap(
      op,
      `${name} in x, another view of which is out`,
      (a) => ({ out: new Float32Array(a.x.buffer), [name]: a.x.subarray(4, 8) }),
      'out',
      name,
    );
  }
}
// The checks of what is written must not depend on which statistics are asked for.
for (const name of ['scale', 'bias'] as const) {
  const alone = { scale: undefined, bias: undefined, meanOut: undefined, invStdOut: undefined };
  addOverlap(
    'layerNorm',
    `${name} in x, which is out, without statistics`,
    (a) => ({ ...alone, out: a.x, [name]: a.x.subarray(4, 8) }),
    'out',
    name,
  );
  addOverlap(
    'layerNorm',
    `${name} is x is out`,
    (a) => {
      const x = part(a, 0, 4);
      return { ...alone, shape: [1, 4], x, out: x, [name]: x };
    },
    'out',
    name,
  );
  addOverlap(
    'layerNorm',
    `${name} is x is out, with statistics`,
    (a) => {
      const x = part(a, 0, 4);
      return { ...alone, shape: [1, 4], x, out: x, [name]: x, meanOut: a.meanOfRows.subarray(0, 1) };
    },
    'out',
    name,
  );
}
for (const [op, length, statistics] of [
  ['layerNorm', 3, ['meanOut', 'invStdOut']],
  ['batchNormTraining', 4, ['meanOut', 'varianceOut', 'invStdOut']],
] as const) {
  for (const name of statistics) {
    addOverlap(op, `${name} in x`, (a) => ({ [name]: a.x.subarray(0, length) }), name, 'x');
    addOverlap(
      op,
      `${name} in x, without out`,
      (a) => ({ out: undefined, [name]: a.x.subarray(5, 5 + length) }),
      name,
      'x',
    );
    addOverlap(op, `${name} in x, which is out`, (a) => ({ out: a.x, [name]: a.x.subarray(0, length) }), name);
    addOverlap(op, `${name} in out`, (a) => ({ [name]: a.out.subarray(9 - length, 9) }), name, 'out');
    for (const parameter of ['scale', 'bias'] as const) {
      const options = (a: Arrays) => ({ [parameter]: part(a, 8, 4), [name]: part(a, 10, length) });
      addOverlap(op, `${name} in ${parameter}`, options, name, parameter);
    }
    for (const other of statistics) {
      if (other === name) continue;
      const options = (a: Arrays) => ({ [name]: part(a, 8, length), [other]: part(a, 10, length) });
      addOverlap(op, `${name} in ${other}`, options, name, other);
    }
  }
}

describe('errors', () => {
  test('titles are different, so that a failure can be found', () => {
    const titles = bad.map(({ op, title }) => `${op}: ${title}`);
    expect(titles.filter((title, i) => titles.indexOf(title) !== i)).toEqual([]);
    expect(bad.length).toBeGreaterThan(500);
  });

  test.each(bad)('$op: $title', ({ op, code, says, options, x, instead }) => {
    const before = fingerprint(sn);
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
      else call(sn, op, x ? x(a) : a.x, given);
    } catch (error) {
      failure = error;
    }
    expect(failure).toBeInstanceOf(NormError);
    const { message, name, ...rest } = failure as NormError;
    expect({ code: rest.code, op: rest.op, name }).toEqual({ code, op, name: 'NormError' });
    expect(message.startsWith(`${op}: `)).toBe(true);
    for (const part of says) expect(message).toContain(part);
    expect(a.isUntouched()).toBe(true);
    expect(fingerprint(sn)).toBe(before);
  });

  test('what the table calls valid is', () => {
    for (const op of ops) {
      const a = arrays();
      call(sn, op, a.x, valid[op](a));
      expect(a.isUntouched()).toBe(op === 'moments');
    }
  });
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
