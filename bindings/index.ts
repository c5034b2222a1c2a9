// The entry `simdnorm`: the module's bytes are in it, so that there is no file to lose.

import { embedded } from './embedded.js';
import { loaderOf } from './load.js';
import type { LoadOptions, Simdnorm } from './types.js';

export { type ErrorCode, NormError } from './errors.js';
export type * from './types.js';

/**
 * Compiles and starts the module: the one inside of `simdnorm`, the file beside it of `simdnorm/streaming`.
 *
 * Without options all callers share one instance; with any options object a new one is made. After a failure, and after
 * dispose(), the next call starts afresh. Installs no process or window handlers and keeps no event loop alive;
 * importing the package does nothing at all.
 *
 * **Errors**: ERR_LOAD, ERR_UNSUPPORTED, ERR_MEMORY, ERR_TYPE, ERR_RANGE (the promise rejects with it).
 *
 * @function
 * @category Loading
 *
 * @example
 * ```ts
 * import { load } from 'simdnorm';
 * const sn = await load();
 * sn.layerNorm(new Float32Array([1, 2, 3, 4])); // [-1.3416355, -0.4472118, 0.4472118, 1.3416355]
 * ```
 */
export const load: (options?: LoadOptions) => Promise<Simdnorm> = loaderOf(embedded);
