// The floors: as many bytes as x has, read and written once.

import { wayNames } from '../cases.mjs';

const page = 65536;

/** In the memory of a module of its own, which is garbage afterwards. */
async function openSimdCopy(module, values) {
  const { exports } = await WebAssembly.instantiate(module);
  const from = exports.memory.buffer.byteLength;
  const bytes = Math.ceil((4 * values.length) / page) * page;
  exports.memory.grow((2 * bytes) / page);
  const copy = new Float32Array(exports.memory.buffer, from + bytes, values.length);
  new Float32Array(exports.memory.buffer, from, values.length).set(values);
  const vectors = Math.ceil(values.length / 4);
  return { name: wayNames.simdCopy, call: () => exports.copy(from, from + bytes, vectors), result: () => ({ copy }) };
}

export async function openCopies(sn, copyModule, { x }) {
  const simdCopy = await openSimdCopy(copyModule, x);
  const [from, to] = [sn.tensor([x.length], x), sn.tensor([x.length])];
  const out = new Float32Array(x.length);
  return {
    ways: [
      simdCopy,
      { name: wayNames.engineCopy, call: () => to.data.set(from.data), result: () => ({ copy: to.data }) },
      { name: wayNames.set, call: () => out.set(x), result: () => ({ copy: out }) },
    ],
    close() {
      from.free();
      to.free();
    },
  };
}
