import { load, type Simdnorm } from 'simdnorm';
import { beforeAll, describe, expect, test } from 'vitest';
import { call, fingerprint, type Op, type Options } from './calls.ts';
import { canary, draw } from './data.ts';
import * as reference from './reference.ts';
import { affinePromise, expectBits, expectNear } from './reference.ts';

const op = 'layerNorm';
let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

describe('growth', () => {
  test('results stay right while the memory grows again and again', async () => {
    const growing = await load({});
    const small = draw(100, 5);
    const expectedSmall = growing.layerNorm(small);
    const kept: [x: Float32Array, y: Float32Array][] = [];
    const capacities = new Set<number>();
    for (const units of [10, 1000, 100_000, 300_000, 500_000, 800_000, 1_300_000, 2_000_000]) {
      const x = draw(units, units, 10, 2);
      const y = growing.layerNorm(x, { scale: x, bias: x });
      kept.push([x, y]);
      capacities.add(growing.memory.capacity);
      expectBits({ op, shape: [100] }, growing.layerNorm(small), expectedSmall);
    }
    expect(capacities.size).toBeGreaterThanOrEqual(5);
    for (const [x, y] of kept) {
      const expected = reference.layerNorm(x, [x.length], 1, { scale: x, bias: x });
      expectNear({ op, shape: [x.length] }, y, expected.y, affinePromise, expected.magnitude);
    }
    growing.dispose();
  });

  test('repeated calls do not leak', async () => {
    const one = await load({});
    const x = draw(50_000, 1);
    one.layerNorm(x);
    const { capacity } = one.memory;
    for (let i = 0; i < 300; ++i)
      one.layerNorm(x.subarray(0, 50_000 - 97 * i), { out: x.subarray(0, 50_000 - 97 * i) });
    expect(one.memory.capacity).toBe(capacity);
    let length = 1000;
    for (; length < 2e6; length = Math.ceil(length * 1.3)) one.layerNorm(new Float32Array(length));
    // What was too small may lie idle beside what replaced it, but not all that ever was.
    expect(one.memory.capacity).toBeLessThan(2.5 * 4 * length);
    one.dispose();
  });
});

describe('memory that does not suffice', () => {
  test('ERR_MEMORY with both numbers, and then small calls work as before', async () => {
    const small = await load({ maximumMemory: 2 * 2 ** 20 });
    const before = fingerprint(small);
    const x = draw(1e6, 1);
    // More than the zeros and constants at the start of the memory, where a lost workspace would be.
    const middling = x.subarray(0, 60_000);
    const y = sn.layerNorm(middling);
    const out = new Float32Array(1e6).fill(canary);
    const calls: [Op, Options][] = [
      ['layerNorm', { out }],
      ['batchNorm', { out, shape: [1, 4, 250_000], mean: [1, 2, 3, 4], variance: [1, 2, 3, 4] }],
      ['batchNormTraining', { out, shape: [250_000, 4] }],
      ['moments', {}],
    ];
    for (let i = 0; i < 5; ++i) {
      for (const [each, options] of calls) {
        const message = expect.stringMatching(/3\.8 MiB.* 2\.0 MiB/);
        const failure = { name: 'NormError', code: 'ERR_MEMORY', op: each, message };
        expect(() => call(small, each, x, options)).toThrow(expect.objectContaining(failure));
        expect(out.every((value) => value === Math.fround(canary))).toBe(true);
        expectBits({ op, shape: [60_000] }, small.layerNorm(middling), y);
        expect(fingerprint(small)).toBe(before);
      }
    }
    expect(small.memory.capacity).toBeLessThanOrEqual(2 * 2 ** 20);
    small.dispose();
  });

  test('what just fits works, also after what did not', async () => {
    const small = await load({ maximumMemory: 2 * 2 ** 20 });
    const x = draw(250_000, 1);
    const expected = sn.layerNorm(x);
    for (let i = 0; i < 2; ++i) {
      expect(() => small.layerNorm(draw(500_000, 1))).toThrow('MiB');
      expectBits({ op, shape: [250_000] }, small.layerNorm(x), expected);
    }
    small.dispose();
  });

  test('what just fits works where the usual allowance for more does not', async () => {
    const small = await load({ maximumMemory: 34 * 65536 });
    for (const length of [230_000, 240_000]) {
      const x = draw(length, 1);
      expectBits({ op, shape: [length] }, small.layerNorm(x), sn.layerNorm(x));
    }
    small.dispose();
  });

  test('more than 32 bits can address', async () => {
    const instance = await load({});
    const before = fingerprint(instance);
    // Its pages are never touched: neither side has got as far as to copy it.
    const x = new Float32Array(2 ** 30 / 5 + 1000);
    const options = { shape: [1, x.length], scale: x, bias: x, mean: x, variance: x };
    const failure = { code: 'ERR_MEMORY', message: expect.stringContaining('4096.') };
    expect(() => instance.batchNorm(x, options)).toThrow(expect.objectContaining(failure));
    expect(fingerprint(instance)).toBe(before);
    instance.dispose();
  });
});

describe('memory that does suffice', () => {
  test('16 MiB of rows go through 1 MiB', async () => {
    const small = await load({ maximumMemory: 2 ** 20 });
    const shape = [4096, 1024];
    const x = draw(2 ** 22, 1);
    const residual = draw(2 ** 22, 2);
    const scale = draw(1024, 3);
    const tensor = sn.tensor(shape, x);
    const expected = sn.layerNorm(tensor, { residual, scale, out: tensor });
    expectBits({ op, shape }, small.layerNorm(x, { shape, residual, scale }), expected.data);
    expect(small.layerNorm(x, { shape, residual, scale, out: x })).toBe(x);
    expectBits({ op, shape }, x, expected.data);
    tensor.free();
    small.dispose();
  });

  test.each([1e5, 1e6, 4e6])('%i floats take about their size, not twice', async (length) => {
    const instance = await load({});
    const before = instance.memory.capacity;
    const x = new Float32Array(length);
    instance.layerNorm(x, { out: x });
    // A quarter more is the workspace's own allowance, and engines grow by pages.
    expect(instance.memory.capacity).toBeLessThanOrEqual(before + 1.25 * 4 * length + 65536);
    instance.dispose();
  });
});
