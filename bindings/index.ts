// The package's main entry: the module's bytes are in it, so that there is no file to lose.

import { length, order, text } from '../build/wasm/bindings/simdnorm.wasm';
import { optionNames } from './check.js';
import { start } from './load.js';
import type { LoadOptions, Simdnorm } from './types.js';

export { type ErrorCode, NormError } from './errors.js';
export type * from './types.js';

/** As build.mjs has encoded them: one character for a frequent byte, and one of two others before it for the rest. */
function embedded(): Uint8Array {
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

let shared: Promise<Simdnorm> | undefined;

/**
 * Compiles and starts the module.
 *
 * Without options all callers share one instance; with any options object a new one is made. After a failure, and after
 * dispose(), the next call starts afresh. Installs no process or window handlers and keeps no event loop alive;
 * importing the package does nothing at all.
 *
 * @throws NormError ERR_LOAD, ERR_UNSUPPORTED, ERR_MEMORY, ERR_TYPE, ERR_RANGE (the promise rejects with it)
 *
 * @example
 * ```ts
 * import { load } from 'simdnorm';
 * const sn = await load();
 * sn.layerNorm(new Float32Array([1, 2, 3, 4])); // [-1.3416355, -0.4472118, 0.4472118, 1.3416355]
 * ```
 */
export async function load(options?: LoadOptions): Promise<Simdnorm> {
  if (options !== undefined && options !== null) {
    optionNames('load', options, new Set(['wasm', 'initialMemory', 'maximumMemory']));
    return start(options, embedded, () => {});
  }
  if (!shared) {
    const forget = () => {
      if (shared === starting) shared = undefined;
    };
    const starting: Promise<Simdnorm> = start({}, embedded, forget);
    starting.catch(forget);
    shared = starting;
  }
  return shared;
}
