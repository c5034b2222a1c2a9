// Both entries where code may only be compiled when it is deployed: there an import of a .wasm is a compiled module.

import { loaderOf } from './load.js';
import module from './simdnorm.wasm';

export { NormError } from './errors.js';

export const load = loaderOf(() => module);
