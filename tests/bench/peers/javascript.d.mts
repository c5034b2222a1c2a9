import type { Case, Data } from '../cases.mjs';

/** y of an operation; dx, dScale and dBias, those that it has, of a gradient. */
export type Results = Readonly<Record<string, Float32Array | Float64Array>>;
export declare function openJavaScript(each: Case, data: Data): { readonly call: () => Results };
