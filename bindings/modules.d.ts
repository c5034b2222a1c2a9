// What the build brings in.

declare module '*/simdnorm.js' {
  export type Glue = import('./heap.js').Kernels;
  export default function createModule(options: {
    wasmMemory: WebAssembly.Memory;
    instantiateWasm(
      imports: WebAssembly.Imports,
      receive: (instance: WebAssembly.Instance, module: WebAssembly.Module) => void,
    ): object;
  }): Promise<Glue>;
}

/** What build.mjs makes of the module for those who embed it. */
declare module '*/bindings/simdnorm.wasm' {
  /** decode.cpp, compiled. */
  export const decoder: readonly number[];
  /** Where it puts the bytes. */
  export const begin: number;
  /** What it makes them of. */
  export const text: string;
}

/** The file beside the built entries, where the engine imports it. */
declare module '*.wasm' {
  const module: WebAssembly.Module;
  export default module;
}
