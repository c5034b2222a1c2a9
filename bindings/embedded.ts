// The module as text in the program.

import { length, order, text } from '../build/wasm/bindings/simdnorm.wasm';

/** As build.mjs has encoded them: one character for a frequent byte, and one of two others before it for the rest. */
export function embedded(): Uint8Array {
  const byteAt = Uint8Array.from({ length: order.length / 2 }, (_, i) =>
    Number.parseInt(order.slice(2 * i, 2 * i + 2), 16),
  );
  const bytes = new Uint8Array(length);
  let size = 0;
  let first = 0;
  for (let i = 0; i < text.length; ++i) {
    const code = text.charCodeAt(i);
    if (code < 37) {
      first = 87 * (code - 31);
      continue;
    }
    // Three characters are left out, which strings would need to escape.
    bytes[size++] = byteAt[first + code - 37 - +(code > 39) - +(code > 92) - +(code > 96)] as number;
    first = 0;
  }
  return bytes;
}
