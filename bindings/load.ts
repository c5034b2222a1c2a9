// From a compiled module to a running instance, and who shares it.

import createModule, { type Glue } from '../build/wasm/bindings/simdnorm.js';
import { backward } from './backward.js';
import { isArray, kindOf, optionNames, rangeError, typeError } from './check.js';
import { compile, messageOf, type OwnModule, simdProbe } from './compile.js';
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

function checkEngine(): void {
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(simdProbe)) {
    const since = 'Chrome 91, Firefox 89, Safari 16.4 and Node 16.4 have it';
    throw new NormError('ERR_UNSUPPORTED', 'load', `this engine has no WebAssembly SIMD (${since})`);
  }
}

function pagesOf(name: 'initialMemory' | 'maximumMemory', bytes: unknown): number | undefined {
  if (bytes === undefined || bytes === null) return undefined;
  if (typeof bytes !== 'number') {
    throw typeError('load', name, 'a number of bytes', bytes);
  }
  if (!(bytes >= 0 && bytes <= mostPages * page)) {
    throw rangeError('load', name, `from 0 to 4 GiB (${mostPages * page})`, bytes);
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

async function instantiate(memory: WebAssembly.Memory, options: LoadOptions, own: OwnModule): Promise<Glue> {
  try {
    return await new Promise<Glue>((resolve, reject) => {
      // The glue's own JavaScript, which is a third as long, runs meanwhile.
      const compiling = compile(options.wasm, () => own(memory));
      createModule({
        wasmMemory: memory,
        instantiateWasm(imports, receive) {
          compiling
            .then(async (module) => receive(await WebAssembly.instantiate(module, imports), module))
            .catch(reject);
          return {};
        },
      }).then(resolve, reject);
    });
  } catch (cause) {
    if (isArray(cause) === false && cause instanceof NormError) throw cause;
    throw new NormError('ERR_LOAD', 'load', `the WebAssembly module can't be loaded: ${messageOf(cause)}`, { cause });
  }
}

/** Compiles and starts an instance with a memory of its own. `ended` is called when it can't be used any more. */
async function start(options: LoadOptions, own: OwnModule, ended: () => void): Promise<Simdnorm> {
  checkEngine();
  // Neither of these is in a closure here, which would keep it as long as the instance.
  const { memory, limit } = createMemory(options);
  const glue = await instantiate(memory, options, own);
  const heap = new Heap(glue, memory, limit, ended);
  const bound: Record<string, unknown> = {};
  for (const [name, run] of Object.entries({ ...forward, ...backward })) {
    // Beside the memory x, options and lengths; or dy, x and options.
    const hasThird = name in backward || name === 'batchNorm';
    bound[name] = (first: unknown, second?: unknown, third?: unknown) => {
      if (!hasThird && third !== undefined && third !== null) {
        const why = 'scale and all else go into the options, { shape, scale, ... }';
        throw new NormError('ERR_TYPE', name, `there is no third argument, got ${kindOf(third)}: ${why}`);
      }
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

const optionsOfLoad = new Set(['wasm', 'initialMemory', 'maximumMemory']);

/** The `load` of an entry, which has a module of its own. */
export function loaderOf(own: OwnModule): (options?: LoadOptions) => Promise<Simdnorm> {
  let shared: Promise<Simdnorm> | undefined;
  return async (options) => {
    if (options !== undefined && options !== null) {
      optionNames('load', options, optionsOfLoad);
      return start(options, own, () => {});
    }
    if (!shared) {
      const forget = () => {
        if (shared === starting) shared = undefined;
      };
      const starting: Promise<Simdnorm> = start({}, own, forget);
      starting.catch(forget);
      shared = starting;
    }
    return shared;
  };
}
