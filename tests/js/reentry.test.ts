// What one call leaves to the next: nothing, however it has ended, and whatever code of the user's ran meanwhile.

import { load } from 'simdnorm';
import { describe, expect, test } from 'vitest';
import { runModule } from './child.ts';

test('a call whose kernel meets the end of the stack ends the instance at once; others before it leave nothing', async () => {
  // Where it meets it there is no room for a handler either. A call that went on with such an instance would trap.
  const found = await runModule(
    `const { load } = await import(entry);
    const sn = await load({});
    const x = new Float32Array([1, 2, 3, 4]);
    const expected = sn.layerNorm(x).join();
    const at = (depth) => (depth > 0 ? at(depth - 1) : sn.layerNorm(x));
    const found = { full: 0, wrong: 0, end: '' };
    for (let depth = 16000; depth > 0 && !found.end; ) {
      try {
        at(depth);
        depth = 16000;
      } catch (error) {
        if (error.code) found.end = error.message;
        ++found.full;
        --depth;
      }
      try {
        if (!found.end && sn.layerNorm(x).join() !== expected) ++found.wrong;
      } catch (error) {
        found.end = error.message;
      }
    }
    console.log(JSON.stringify(found));`,
    ['--stack-size=400'],
  );
  const { full, wrong, end } = found as { full: number; wrong: number; end: string };
  expect(full).toBeGreaterThan(100);
  expect(wrong).toBe(0);
  expect(end).toMatch(/an earlier call trapped|the stack was full within the module/);
});

test.each([
  ['that is no longer used', 'sn = layer = undefined;'],
  ['that is disposed of and kept', ''],
])('an instance %s keeps no memory', async (_, forget) => {
  const bytes = await runModule(
    `const { load } = await import(entry);
    let sn = await load({});
    let layer = new sn.LayerNorm(4).eval();
    const x = new Float32Array(8);
    for (let i = 0; i < 4; ++i) layer.forward(x);
    sn.layerNorm(sn.tensor([2 ** 24]));
    sn.dispose();
    ${forget}
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 10; ++i) {
      gc();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const { external } = process.memoryUsage();
    console.log(JSON.stringify([before, external, sn?.memory.capacity, layer?.training]));`,
    ['--expose-gc'],
  );
  expect((bytes as number[])[1]).toBeLessThan(2 ** 24);
});

describe('options that an operation does not have, where for…in does not show them', async () => {
  const sn = await load();
  const x = new Float32Array([3, 4]);
  const hidden = (name: string, value: unknown) => Object.defineProperty({ epsilon: 0 }, name, { value });

  test('are ignored, also where they are x or freed', () => {
    const freed = sn.tensor([2]);
    freed.free();
    for (const [name, value] of [
      ['scale', x],
      ['scale', freed],
      ['meanOut', x],
      ['residual', freed],
    ] as const) {
      expect(sn.lpNormalize(x, { ...hidden(name, value), out: x.slice() })).toEqual(new Float32Array([0.6, 0.8]));
      expect(sn.lpNormalize(x, hidden(name, value))).toEqual(new Float32Array([0.6, 0.8]));
    }
  });

  test('run no code in the middle of a call', () => {
    let traps = 0;
    const scale = new Proxy(
      {},
      {
        getPrototypeOf() {
          ++traps;
          sn.layerNorm(new Float32Array([1, 2, 3]));
          return null;
        },
      },
    );
    expect(sn.lpNormalize(x, hidden('scale', scale))).toEqual(new Float32Array([0.6, 0.8]));
    expect(traps).toBe(0);
  });
});

test('rows of -0 stay -0 in RMS and Lp norm, among others and alone', async () => {
  const sn = await load();
  const zeros = new Float32Array(120).fill(-0);
  const scale = new Float32Array(40).fill(1);
  for (const row of [
    sn.rmsNorm(zeros, { shape: [3, 40], scale }),
    sn.rmsNorm(zeros, { shape: [3, 40] }),
    sn.rmsNorm(zeros.subarray(40), { shape: [2, 40], scale }),
    sn.rmsNorm(zeros.subarray(80), { scale }),
    sn.lpNormalize(zeros, { shape: [3, 40] }),
  ]) {
    expect([...row].filter((value) => !Object.is(value, -0))).toEqual([]);
  }
});
