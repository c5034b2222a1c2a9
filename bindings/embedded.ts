// The module as text in the program.

import { begin, decoder, text } from '../build/wasm/bindings/simdnorm.wasm';

type Decode = (begin: number, end: number) => number;

/** As build.mjs has encoded them, in a memory of their own. Throws where nothing can be compiled. */
export function embedded(): Uint8Array<ArrayBuffer> {
  const module = new WebAssembly.Module(new Uint8Array(decoder));
  const memory = new WebAssembly.Memory({ initial: Math.ceil(text.length / 65536) });
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  const bytes = new Uint8Array(memory.buffer);
  // Audio worklets have none.
  if (typeof TextEncoder === 'function') {
    bytes.set(new TextEncoder().encode(text));
  } else {
    for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  }
  return bytes.subarray(begin, (exports.decode as Decode)(0, text.length));
}
