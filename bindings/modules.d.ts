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

declare module '*.wasm' {
  /** How many bytes there are. */
  export const length: number;
  /** Those that occur, in hexadecimal digits, the most frequent first. */
  export const order: string;
  /** The bytes by their places in the order: see build.mjs. */
  export const text: string;
}
