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
  /** The bytes as hexadecimal digits: see build.mjs. */
  const digits: string;
  export default digits;
}
