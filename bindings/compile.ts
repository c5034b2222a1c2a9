// From what `load` is given to a compiled module of this version. What goes wrong here goes wrong on somebody else's
// server, so the messages say where the module was looked for, what was there, and what to do.

import { kindOf, typeError } from './check.js';
import { isOfClass } from './dtype.js';
import { NormError } from './errors.js';

declare const SIMDNORM_VERSION: string;

/** What an entry has where the caller gives nothing, and the memory that it will be for. Only called by `load`: importing does nothing. */
export type OwnModule = (memory: WebAssembly.Memory) => URL | Uint8Array | WebAssembly.Module;

/** (module (func (result v128) i32.const 0 i8x16.splat)): compiles only where the engine has SIMD. */
export const simdProbe = new Uint8Array([
  ...[0, 97, 115, 109, 1, 0, 0, 0],
  ...[1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 15, 11],
]);

/** The message of whatever was thrown. That of fetch is in its cause. */
export function messageOf(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return String(thrown);
    return thrown.cause instanceof Error ? `${thrown.message} (${thrown.cause.message})` : String(thrown.message);
  } catch {
    return kindOf(thrown);
  }
}

function failure(what: string, cause?: unknown): NormError {
  const text = `${what} (\`import { load } from 'simdnorm'\` without the option wasm needs no file)`;
  return new NormError('ERR_LOAD', 'load', text, cause === undefined ? undefined : { cause });
}

function unreadable(name: string, cause: unknown): NormError {
  return failure(`${name} can't be read: ${messageOf(cause)}`, cause);
}

/** Finds out why a compilation failed: the bytes, or somebody who forbids it. */
async function refusal(name: string, cause: unknown): Promise<NormError> {
  const isAllowed = await WebAssembly.compile(simdProbe).catch(() => false);
  if (!isAllowed) {
    const allow = "a page allows it by 'wasm-unsafe-eval' in the script-src of its Content Security Policy";
    const why = `${allow}; else pass a compiled module as wasm): ${messageOf(cause)}`;
    return new NormError('ERR_LOAD', 'load', `nothing can be compiled here (${why}`, { cause });
  }
  // While it is compiled a module may still arrive.
  if (!(cause instanceof WebAssembly.CompileError)) return unreadable(name, cause);
  return failure(`${name} is no complete WebAssembly module: ${messageOf(cause)}`, cause);
}

async function compiled(name: string, compilation: Promise<WebAssembly.Module>): Promise<WebAssembly.Module> {
  try {
    return await compilation;
  } catch (cause) {
    throw await refusal(name, cause);
  }
}

async function compileBytes(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<WebAssembly.Module> {
  const start = String.fromCharCode(...bytes.subarray(0, 30));
  if (start === '') throw failure(`${name} is empty`);
  if (!start.startsWith('\0asm')) {
    const why = /^\s*</.test(start) ? ': many servers answer with a page where a file is missing' : '';
    throw failure(`${name} is no WebAssembly, it begins with ${JSON.stringify(start)}${why}`);
  }
  return compiled(name, WebAssembly.compile(bytes));
}

async function compileResponse(name: string, response: Response): Promise<WebAssembly.Module> {
  if (!response.ok) throw failure(`${name} was answered with status ${response.status}: is simdnorm.wasm there?`);
  if (response.bodyUsed) throw failure(`${name} has been read already: pass a Response that nobody has read`);
  // Of another type it would be refused, in Node also of this one in capitals; and older versions of Bun can't.
  const streams = response instanceof Response && 'compileStreaming' in WebAssembly;
  if (streams && response.headers.get('Content-Type') === 'application/wasm') {
    return compiled(name, WebAssembly.compileStreaming(response));
  }
  const bytes = await response.arrayBuffer().catch((cause) => {
    throw unreadable(name, cause);
  });
  return compileBytes(name, new Uint8Array(bytes));
}

async function compileUrl(url: string): Promise<WebAssembly.Module> {
  if (!/^[a-z][a-z\d+.-]+:/i.test(url) && typeof location === 'undefined') {
    const quoted = JSON.stringify(url);
    const why = 'no whole URL, and there is no page that it could be relative to';
    throw failure(`${quoted} is ${why}: for a file pass pathToFileURL(${quoted}) of node:url`);
  }
  // Unlike an import of 'node:fs', this leaves nothing for bundlers to resolve. Fetch of Node can't read the disk.
  const fs = /^file:/i.test(url) && typeof process === 'object' ? process.getBuiltinModule?.('node:fs') : undefined;
  if (fs) {
    const bytes = await fs.promises.readFile(new URL(url)).catch((cause) => {
      throw unreadable(url, cause);
    });
    return compileBytes(url, bytes);
  }
  const response = await fetch(url).catch((cause) => {
    throw unreadable(url, cause);
  });
  // Where it was in the end: a page's relative URL made a whole one, redirections followed.
  return compileResponse(response.url || url, response);
}

function isBytes(value: object): value is ArrayBuffer | ArrayBufferView<ArrayBuffer> {
  return ArrayBuffer.isView(value) || isOfClass(value, 'ArrayBuffer');
}

/** The module that it is, and what messages call it. */
async function moduleOf(source: unknown): Promise<[name: string, module: WebAssembly.Module]> {
  if (isOfClass(source, 'WebAssembly.Module')) return ['wasm', source as WebAssembly.Module];
  if (typeof source === 'string') return [source, await compileUrl(source)];
  if (typeof source === 'object' && source !== null) {
    if (isBytes(source)) {
      // A DataView is bytes as well, but Node 20 does not compile it.
      const bytes = ArrayBuffer.isView(source)
        ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
        : new Uint8Array(source);
      return ['wasm', await compileBytes('wasm', bytes)];
    }
    if ('href' in source) return [String(source.href), await compileUrl(String(source.href))];
    if ('arrayBuffer' in source) {
      const response = source as Response;
      const name = response.url || 'the Response';
      return [name, await compileResponse(name, response)];
    }
  }
  const expected = 'a URL, bytes, a Response or a WebAssembly.Module';
  throw typeError('load', 'wasm', expected, source);
}

/** Compiles what the caller has given, else the entry's own module, and sees that it belongs to this JavaScript. */
export async function compile(given: unknown, own: () => ReturnType<OwnModule>): Promise<WebAssembly.Module> {
  // Where nothing is given this doesn't wait, so that the compilation has begun when it returns.
  let source = given && (await given);
  try {
    source ??= own();
  } catch (cause) {
    throw await refusal('wasm', cause);
  }
  const [name, module] = await moduleOf(source);
  const [section] = WebAssembly.Module.customSections(module, 'simdnorm');
  if (!section) throw failure(`${name} is another WebAssembly module than simdnorm.wasm`);
  const version = String.fromCharCode(...new Uint8Array(section));
  if (version !== SIMDNORM_VERSION) {
    const versions = `${name} is of version ${version}, but this JavaScript of ${SIMDNORM_VERSION}`;
    throw failure(`${versions}: take both from one package, and clear what caches keep`);
  }
  return module;
}
