// From bytes to a running instance.

import createModule, { type Glue } from '../build/wasm/bindings/simdnorm.js';
import { backward } from './backward.js';
import { isArray, kindOf } from './check.js';
import { NormError } from './errors.js';
import { foldBatchNorm } from './fold.js';
import { forward } from './forward.js';
import { Heap } from './heap.js';
import { createLayers } from './layers.js';
import { makeTensor } from './make-tensor.js';
import { finish } from './operation.js';
import type { LoadOptions, Operations, Simdnorm } from './types.js';

declare const SIMDNORM_VERSION: string;

const page = 65536;
/** What the module starts with at least (-sINITIAL_MEMORY), and what wasm32 can have at most. */
const leastPages = 16;
const mostPages = 65536;

/** (module (func (result v128) i32.const 0 i8x16.splat)): compiles only where the engine has SIMD. */
const simdProbe = new Uint8Array([
  ...[0, 97, 115, 109, 1, 0, 0, 0],
  ...[1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11],
]);

function checkEngine(): void {
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(simdProbe)) {
    const since = 'Chrome 91, Firefox 89, Safari 16.4 and Node 16.4 have it';
    throw new NormError('ERR_UNSUPPORTED', 'load', `this engine has no WebAssembly SIMD (${since})`);
  }
}

function pagesOf(name: 'initialMemory' | 'maximumMemory', bytes: unknown): number | undefined {
  if (bytes === undefined || bytes === null) return undefined;
  if (typeof bytes !== 'number') {
    throw new NormError('ERR_TYPE', 'load', `${name} must be a number of bytes, got ${kindOf(bytes)}`);
  }
  if (!(bytes >= 0 && bytes <= mostPages * page)) {
    throw new NormError('ERR_RANGE', 'load', `${name} must be from 0 to 4 GiB (${mostPages * page}), got ${bytes}`);
  }
  return Math.ceil(bytes / page);
}

function createMemory({ initialMemory, maximumMemory }: LoadOptions): { memory: WebAssembly.Memory; limit: number } {
  const initial = Math.max(leastPages, pagesOf('initialMemory', initialMemory) ?? leastPages);
  const given = pagesOf('maximumMemory', maximumMemory);
  if (given !== undefined && given < initial) {
    const numbers = `maximumMemory ${maximumMemory} is less than the ${initial * page} bytes to start with`;
    throw new NormError('ERR_RANGE', 'load', numbers);
  }
  // Of all 4 GiB the module would take the size, whose 32 bits are 0, for none.
  const least = Math.min(initial, mostPages - 1);
  // Engines reserve addresses for the maximum. Those that are short of them get half, and half again.
  for (let maximum = given ?? mostPages; ; maximum = Math.ceil(maximum / 2)) {
    try {
      return { memory: new WebAssembly.Memory({ initial: least, maximum }), limit: maximum * page };
    } catch (cause) {
      if (given !== undefined || maximum / 2 < initial) {
        const size = `${initial * page} bytes to start with, ${maximum * page} at most`;
        throw new NormError('ERR_MEMORY', 'load', `the engine refuses a memory of ${size}`, { cause });
      }
    }
  }
}

/** Bytes from a URL; in Node from the disk, which its fetch can't read. */
async function fetchBytes(url: string): Promise<ArrayBuffer | ArrayBufferView> {
  const fs =
    url.startsWith('file:') && typeof process === 'object'
      ? // Unlike an import of 'node:fs', this leaves nothing for bundlers to resolve.
        process.getBuiltinModule?.('node:fs')
      : undefined;
  if (fs) return fs.promises.readFile(new URL(url));
  return responseBytes(await fetch(url));
}

async function responseBytes(response: Response): Promise<ArrayBuffer> {
  if (!response.ok) throw new Error(`${response.url || 'the response'} has status ${response.status}`);
  return response.arrayBuffer();
}

function isBytes(value: object): value is ArrayBuffer | ArrayBufferView {
  return ArrayBuffer.isView(value) || Object.prototype.toString.call(value) === '[object ArrayBuffer]';
}

async function compile(wasm: LoadOptions['wasm'], embedded: () => Uint8Array): Promise<WebAssembly.Module> {
  let source: unknown = await wasm;
  if (source === undefined || source === null) source = embedded();
  if (Object.prototype.toString.call(source) === '[object WebAssembly.Module]') return source as WebAssembly.Module;
  let bytes: ArrayBuffer | ArrayBufferView;
  if (typeof source === 'string') {
    bytes = await fetchBytes(source);
  } else if (typeof source === 'object' && source !== null && isBytes(source)) {
    // A DataView is bytes as well, but Node 20 does not compile it.
    bytes = ArrayBuffer.isView(source) ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength) : source;
  } else if (typeof source === 'object' && source !== null && 'href' in source) {
    bytes = await fetchBytes(String(source.href));
  } else if (typeof source === 'object' && source !== null && 'arrayBuffer' in source) {
    bytes = await responseBytes(source as Response);
  } else {
    const expected = 'a URL, bytes, a Response or a WebAssembly.Module';
    throw new NormError('ERR_TYPE', 'load', `wasm must be ${expected}, got ${kindOf(source)}`);
  }
  return WebAssembly.compile(bytes as BufferSource);
}

/** The message of whatever was thrown. */
function messageOf(cause: unknown): string {
  try {
    return String(cause instanceof Error ? cause.message : cause);
  } catch {
    return kindOf(cause);
  }
}

/** Compiles and starts an instance with a memory of its own. `ended` is called when it can't be used any more. */
export async function start(options: LoadOptions, embedded: () => Uint8Array, ended: () => void): Promise<Simdnorm> {
  checkEngine();
  const { memory, limit } = createMemory(options);
  let glue: Glue;
  try {
    const module = await compile(options.wasm, embedded);
    glue = await new Promise<Glue>((resolve, reject) => {
      createModule({
        wasmMemory: memory,
        instantiateWasm(imports, receive) {
          WebAssembly.instantiate(module, imports)
            .then((instance) => receive(instance, module))
            .catch(reject);
          return {};
        },
      }).then(resolve, reject);
    });
  } catch (cause) {
    if (isArray(cause) === false && cause instanceof NormError) throw cause;
    throw new NormError('ERR_LOAD', 'load', `the WebAssembly module can't be loaded: ${messageOf(cause)}`, { cause });
  }
  const heap = new Heap(glue, memory, limit, ended);
  const bound: Record<string, unknown> = {};
  for (const [name, run] of Object.entries({ ...forward, ...backward })) {
    // x, options and lengths; or dy, x and options.
    bound[name] = (first: unknown, second?: unknown, third?: unknown) => {
      try {
        return run(heap, first, second, third);
      } finally {
        finish();
      }
    };
  }
  const operations = bound as unknown as Operations;
  return Object.freeze({
    ...operations,
    ...createLayers(operations),
    foldBatchNorm,
    tensor: ((...given: [unknown, unknown, unknown]) => makeTensor(heap, ...given)) as unknown as Simdnorm['tensor'],
    // Not one of numbers, so that it can be taken off the instance and stays true.
    memory: Object.freeze({
      get used() {
        return heap.used;
      },
      get capacity() {
        return heap.bytes;
      },
      limit: heap.limit,
    }),
    version: SIMDNORM_VERSION,
    dispose: () => heap.end('disposed'),
  });
}
