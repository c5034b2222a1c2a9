// The entry `simdnorm/streaming`: the module is the file beside it, compiled while it arrives. Its types are index.ts's.

import { loaderOf } from './load.js';

export { NormError } from './errors.js';

// Bundlers know this expression, written like this, and bring the file along.
export const load = loaderOf(() => new URL('./simdnorm.wasm', import.meta.url));
