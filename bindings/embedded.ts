// The module as text in the program.

import { begin, decoder, text } from '../build/wasm/bindings/simdnorm.wasm';

type Decode = (begin: number, end: number) => number;

/**
 * As build.mjs has encoded them. They are decoded in a memory that nothing else is in yet, which is empty again then: for one
 * of its own engines would reserve another 10 GiB of addresses. Throws where nothing can be compiled.
 */
export function embedded(memory: WebAssembly.Memory): Uint8Array<ArrayBuffer> {
  const module = new WebAssembly.Module(new Uint8Array(decoder));
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  const room = new Uint8Array(memory.buffer);
  // Audio worklets have no TextEncoder.
  const codes = typeof TextEncoder === 'function' ? new TextEncoder().encode(text) : undefined;
  if (codes?.length === text.length) {
    room.set(codes);
  } else {
    for (let i = 0; i < text.length; ++i) room[i] = text.charCodeAt(i);
  }
  const bytes = room.slice(begin, (exports.decode as Decode)(0, text.length));
  room.fill(0, 0, text.length);
  return bytes;
}
