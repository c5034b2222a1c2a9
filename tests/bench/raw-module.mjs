// The module without the package around it: kernels on values that lie in its memory, called as the package calls them.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import createModule from '../../build/wasm/bindings/simdnorm.js';

const mostParameters = 65536;

/** The layout of struct Call of bindings/embind.cpp. */
async function importOffsets() {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('../../bindings/block.ts', import.meta.url))],
    bundle: true,
    format: 'esm',
    write: false,
  });
  const { Offset } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
  // An enum has the names of its numbers as well.
  return Object.fromEntries(Object.entries(Offset).filter(([, offset]) => typeof offset === 'number'));
}

/** Of at most so many values: { kernels, x, y, prepare }, of which x and y are arrays. */
export async function openRawModule(most) {
  const offsets = await importOffsets();
  const file = new URL('../../build/wasm/bindings/simdnorm.wasm', import.meta.url);
  const module = new WebAssembly.Module(readFileSync(file));
  const memory = new WebAssembly.Memory({ initial: 4096, maximum: 65536 });
  const kernels = await createModule({
    wasmMemory: memory,
    instantiateWasm(imports, receive) {
      const instance = new WebAssembly.Instance(module, imports);
      receive(instance, module);
      return instance.exports;
    },
  });

  let next = kernels.begin();
  const allocate = (values) => {
    const address = Math.ceil(next / 64) * 64;
    next = address + 4 * values;
    return address;
  };
  const call = kernels.block() >>> 0;
  const [x, y] = [allocate(most), allocate(most)];
  const [scale, bias, mean, variance] = Array.from({ length: 4 }, () => allocate(mostParameters));
  const uint32 = new Uint32Array(memory.buffer);
  const arrayAt = (address, length) => new Float32Array(memory.buffer, address, length);
  arrayAt(scale, mostParameters).fill(1.1);
  arrayAt(bias, mostParameters).fill(0.1);
  arrayAt(variance, mostParameters).fill(1);

  return {
    kernels,
    x: arrayAt(x, most),
    y: arrayAt(y, most),
    /** Writes the arguments of calls that follow. */
    prepare(operation, shape, axes) {
      const word = (name, value) => {
        uint32[(call + offsets[name]) / 4] = value;
      };
      for (const name of Object.keys(offsets)) word(name, 0);
      new Float64Array(memory.buffer, call, 1)[offsets.epsilon / 8] = 1e-5;
      for (const [name, address] of Object.entries({ x, y, scale, bias })) word(name, address);
      if (operation === 'batchNorm') {
        for (const [name, address] of Object.entries({ mean, variance })) word(name, address);
      }
      word('groups', 32);
      new Float64Array(memory.buffer, call, 2)[offsets.p / 8] = 2;
      word('rank', shape.length);
      word('axisCount', axes.length);
      uint32.set(shape, (call + offsets.shape) / 4);
      uint32.set(axes, (call + offsets.axes) / 4);
    },
  };
}
