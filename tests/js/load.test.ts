import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { type ErrorCode, type LoadOptions, load, NormError, type Simdnorm } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { entry, runModule } from './child.ts';
import { draw, revoked } from './data.ts';
import { expectBits } from './reference.ts';

const wasmUrl = new URL('../../dist/simdnorm.wasm', import.meta.url);
const x = draw(1000, 1);
const { version }: { version: string } = JSON.parse(
  await readFile(new URL('../../package.json', import.meta.url), 'utf8'),
);
let bytes: Uint8Array<ArrayBuffer>;
let expected: Float32Array;

beforeAll(async () => {
  bytes = new Uint8Array(await readFile(wasmUrl));
  expected = (await load({})).layerNorm(x);
});

function isWorking(sn: Simdnorm): boolean {
  return Buffer.compare(Buffer.from(sn.layerNorm(x).buffer), Buffer.from(expected.buffer)) === 0;
}

async function failureOf(promise: Promise<unknown>): Promise<NormError> {
  // A promise that never settles is the failure that is hardest to find; it gets a name here.
  const late = new Promise<never>((_, reject) => setTimeout(reject, 5000, new Error('it never settles')).unref());
  const settled = promise.then(
    () => {
      throw new Error('it should have failed');
    },
    (error: unknown) => error,
  );
  const failure = await Promise.race([settled, late]);
  expect(failure).toBeInstanceOf(NormError);
  expect((failure as NormError).op).toBe('load');
  return failure as NormError;
}

describe('instances', () => {
  test('without options all callers share one', async () => {
    const [first, second] = await Promise.all([load(), load()]);
    expect(first).toBe(second);
    expect(await load()).toBe(first);
    expect(await load(undefined)).toBe(first);
    expect(isWorking(first)).toBe(true);
  });

  test('with options each has its own', async () => {
    const shared = await load();
    const all = await Promise.all([load({}), load({}), load({ wasm: undefined }), load({ initialMemory: 2 ** 21 })]);
    expect(new Set([shared, ...all]).size).toBe(5);
    expect(all.every(isWorking)).toBe(true);
    expect(await load()).toBe(shared);
  });

  test('side by side', async () => {
    const [one, other] = await Promise.all([load({}), load({ initialMemory: 4 * 2 ** 20 })]);
    for (const length of [10, 100_000, 500, 1_000_000, 10]) {
      const values = draw(length, length);
      const y = one.layerNorm(values);
      expect(isWorking(other)).toBe(true);
      expectBits({ op: 'layerNorm', shape: [length] }, other.layerNorm(values), y);
      expect(isWorking(one)).toBe(true);
    }
    one.dispose();
    expect(isWorking(other)).toBe(true);
  });

  test('methods can be taken off', async () => {
    const { layerNorm, batchNorm, batchNormTraining, moments, dispose } = await load({});
    expect(layerNorm(x)).toEqual(expected);
    const shape = [10, 100];
    const { mean, variance } = batchNormTraining(x, { shape });
    expect(batchNorm(x, { shape, mean, variance })).toHaveLength(1000);
    expect(moments(x, { shape, axes: 0 }).mean).toEqual(mean);
    dispose();
    expect(() => layerNorm(x)).toThrow(NormError);
  });

  test('version and memory', async () => {
    const sn = await load({ initialMemory: 3 * 2 ** 20, maximumMemory: 5 * 2 ** 20 });
    expect(sn.version).toBe(version);
    expect(sn.memory).toEqual({ used: 0, capacity: 3 * 2 ** 20, limit: 5 * 2 ** 20 });
    const { memory } = await load({});
    expect(memory.capacity).toBe(2 ** 20);
    expect(memory.limit).toBeGreaterThanOrEqual(2 ** 30);
    expect(Reflect.set(sn, 'version', '0')).toBe(false);
  });

  test('dispose', async () => {
    const shared = await load();
    const own = await load({});
    own.dispose();
    own.dispose();
    const shape = [10, 100];
    const channels = new Float32Array(100);
    const out = new Float32Array(1000);
    const calls: [string, () => unknown][] = [
      ['layerNorm', () => own.layerNorm(x, { out })],
      ['layerNorm', () => own.layerNorm(x.subarray(0, 0), { shape: [0, 3] })],
      ['batchNorm', () => own.batchNorm(x, { shape, mean: channels, variance: channels, out })],
      ['batchNormTraining', () => own.batchNormTraining(x, { shape, out })],
      ['moments', () => own.moments(x)],
    ];
    for (const [op, call] of calls) {
      expect(call).toThrow(expect.objectContaining({ name: 'NormError', code: 'ERR_FREED', op }));
    }
    expect(out.every((value) => value === 0)).toBe(true);
    expect(isWorking(shared)).toBe(true);
    expect(await load()).toBe(shared);

    shared.dispose();
    expect(() => shared.layerNorm(x)).toThrow(expect.objectContaining({ code: 'ERR_FREED' }));
    const next = await load();
    expect(next).not.toBe(shared);
    expect(isWorking(next)).toBe(true);
    shared.dispose();
    expect(await load()).toBe(next);
  });

  test('one disposed of while it starts leaves the next one alone', async () => {
    const starting = load();
    (await starting).dispose();
    const [first, second] = await Promise.all([load(), load()]);
    expect(first).toBe(second);
    expect(isWorking(first)).toBe(true);
  });

  test('a trap makes the shared instance unusable, and load() then starts another', async () => {
    // No checked call traps, so the functions that the glue takes from the module's table are made to.
    const result = await runModule(`
      const { get } = WebAssembly.Table.prototype;
      let trapping = false;
      WebAssembly.Table.prototype.get = function (index) {
        const callee = get.call(this, index);
        return (...values) => {
          if (trapping) throw new WebAssembly.RuntimeError('unreachable');
          return callee(...values);
        };
      };
      const { load } = await import(entry);
      const outcomes = [];
      const attempt = (sn, out) => {
        try {
          outcomes.push([...sn.layerNorm(new Float32Array([1, -1]), { epsilon: 0, out })]);
        } catch (error) {
          outcomes.push(error.code);
        }
      };
      const first = await load();
      attempt(first);
      trapping = true;
      const out = new Float32Array([7, 8]);
      attempt(first, out);
      trapping = false;
      attempt(first, out);
      outcomes.push([...out]);
      const next = await load();
      attempt(next);
      outcomes.push(next === first, next === await load());
      first.dispose();
      attempt(first);
      outcomes.push(next === await load());
      console.log(JSON.stringify(outcomes));
    `);
    expect(result).toEqual([[1, -1], 'ERR_STATE', 'ERR_STATE', [7, 8], [1, -1], false, true, 'ERR_FREED', true]);
  });
});

describe('where the module comes from', () => {
  const copy = () => Uint8Array.from(bytes);
  const padded = () => {
    const larger = new Uint8Array(bytes.length + 20);
    larger.set(bytes, 7);
    return larger.subarray(7, 7 + bytes.length);
  };
  const wasmResponse = () => new Response(copy(), { headers: { 'Content-Type': 'application/wasm' } });
  const sources: [string, () => unknown][] = [
    ['a Buffer, as readFile gives it', () => Buffer.from(bytes)],
    ['a Uint8Array', copy],
    ['a subarray', padded],
    ['a DataView', () => new DataView(copy().buffer)],
    ['an ArrayBuffer', () => copy().buffer],
    ['a promise of bytes', () => readFile(wasmUrl)],
    ['a Module', () => WebAssembly.compile(bytes)],
    ['a Module, compiled', () => new WebAssembly.Module(bytes)],
    ['a Response', wasmResponse],
    ['a Response of another type', () => new Response(copy(), { headers: { 'Content-Type': 'text/plain' } })],
    [
      'a Response of the type in capitals',
      () => new Response(copy(), { headers: { 'Content-Type': 'Application/WASM' } }),
    ],
    [
      'a Response of the type and more',
      () => new Response(copy(), { headers: { 'Content-Type': 'application/wasm; a=b' } }),
    ],
    ['a promise of a Response', async () => wasmResponse()],
    ['a file: URL', () => wasmUrl],
    ['a file: URL as a string', () => wasmUrl.href],
    ['what looks like a URL', () => ({ href: wasmUrl.href })],
    ['a data: URL', () => `data:application/wasm;base64,${Buffer.from(bytes).toString('base64')}`],
    ['null, which is nothing', () => null],
  ];

  test.each(sources)('%s', async (_, source) => {
    const sn = await load({ wasm: source() as LoadOptions['wasm'] });
    expect(isWorking(sn)).toBe(true);
    expect(sn).not.toBe(await load());
  });

  test('a Module can be used again', async () => {
    const wasm = await WebAssembly.compile(bytes);
    const all = await Promise.all([load({ wasm }), load({ wasm })]);
    expect(all.every(isWorking)).toBe(true);
  });

  test('bytes stay as they are', async () => {
    const wasm = copy();
    await load({ wasm });
    expect(Buffer.compare(wasm, bytes)).toBe(0);
  });

  describe('over http', () => {
    let server: Server;
    let origin: string;

    beforeAll(async () => {
      server = createServer((request, response) => {
        const types: Record<string, string> = {
          '/right.wasm': 'application/wasm',
          '/capitals.wasm': 'Application/WASM',
          '/wrong.wasm': 'application/octet-stream',
          '/text.wasm': 'text/html',
        };
        const type = types[request.url ?? ''];
        const ending = request.url?.endsWith('.wasm') ? { 'Content-Type': 'application/wasm' } : {};
        if (type) response.writeHead(200, { 'Content-Type': type }).end(bytes);
        else if (request.url === '/page')
          response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html>');
        else if (request.url?.startsWith('/cut')) {
          response.writeHead(200, ending).end(bytes.subarray(0, bytes.length / 2));
        } else if (request.url?.startsWith('/broken')) {
          // The connection dies in the middle.
          response.writeHead(200, { ...ending, 'Content-Length': bytes.length });
          response.write(bytes.subarray(0, 1000), () => response.destroy());
        } else response.writeHead(404, { 'Content-Type': 'application/wasm' }).end(bytes);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    });

    afterAll(() => {
      server.closeAllConnections();
      server.close();
    });

    test.each(['right.wasm', 'capitals.wasm', 'wrong.wasm', 'text.wasm'])('%s', async (name) => {
      expect(isWorking(await load({ wasm: `${origin}/${name}` }))).toBe(true);
      expect(isWorking(await load({ wasm: new URL(name, origin) }))).toBe(true);
      expect(isWorking(await load({ wasm: fetch(`${origin}/${name}`) }))).toBe(true);
    });

    test.each([
      ['missing.wasm', 'status 404'],
      ['page', '"<!doctype html>"'],
      ['cut', 'no complete WebAssembly module'],
      ['cut.wasm', 'no complete WebAssembly module'],
      ['broken', "can't be read"],
      ['broken.wasm', "can't be read"],
    ])('%s: ERR_LOAD, and where it was', async (name, says) => {
      for (const wasm of [`${origin}/${name}`, fetch(`${origin}/${name}`)]) {
        const failure = await failureOf(load({ wasm }));
        expect(failure.code).toBe('ERR_LOAD');
        expect(failure.message).toContain(`${origin}/${name}`);
        expect(failure.message).toContain(says);
      }
      expect(isWorking(await load({ wasm: `${origin}/right.wasm` }))).toBe(true);
      expect(isWorking(await load())).toBe(true);
    });

    test('nobody listens', async () => {
      const failure = await failureOf(load({ wasm: 'http://127.0.0.1:1/simdnorm.wasm' }));
      expect(failure.code).toBe('ERR_LOAD');
      expect(failure.message).toContain("http://127.0.0.1:1/simdnorm.wasm can't be read");
      expect(failure.cause).toBeInstanceOf(Error);
    });
  });
});

describe('what can go wrong', () => {
  const cut = (length: number) => () => bytes.slice(0, length);
  const html = '<!doctype html><title>Not found</title>';
  const wasmType = { headers: { 'Content-Type': 'application/wasm' } };
  const used = async () => {
    const response = new Response(bytes);
    await response.arrayBuffer();
    return response;
  };
  const ofVersion = (version: string) => {
    const other = Buffer.from(bytes);
    other.write(version, other.length - version.length, 'latin1');
    return other;
  };
  const broken: [string, () => unknown, ...string[]][] = [
    ['no bytes', () => new Uint8Array(0), 'wasm is empty'],
    ['garbage', () => Uint8Array.from({ length: 1000 }, (_, i) => (i * 37) % 256), 'is no WebAssembly'],
    [
      'HTML',
      () => new TextEncoder().encode(html),
      'begins with "<!doctype html>',
      'with a page where a file is missing',
    ],
    ['text', () => new TextEncoder().encode('version https://git-lfs'), 'begins with "version https://git-lfs"'],
    ['a truncated header', cut(6), 'no complete WebAssembly module'],
    ['a truncated module', () => bytes.slice(0, bytes.length - 100), 'no complete WebAssembly module'],
    ['half a module', () => bytes.slice(0, bytes.length / 2), 'no complete WebAssembly module'],
    [
      'a Response of half a module',
      () => new Response(bytes.slice(0, 9999), wasmType),
      'no complete WebAssembly module',
    ],
    ['a Response of HTML', () => new Response(html), 'the Response', 'a page where a file is missing'],
    ['a Response of HTML that claims to be a module', () => new Response(html, wasmType), 'no complete WebAssembly'],
    ['an empty Response', () => new Response(null), 'the Response is empty'],
    ['a Response that was read', used, 'read already'],
    ['a Response with status 404', () => new Response(bytes, { status: 404 }), 'the Response', 'status 404'],
    ['a Response with status 500', () => new Response(null, { status: 500 }), 'status 500'],
    ['a promise of a Response with status 404', async () => new Response(bytes, { status: 404 }), 'status 404'],
    ['a missing file', () => new URL('no-such.wasm', wasmUrl), new URL('no-such.wasm', wasmUrl).href, 'ENOENT'],
    ['a missing file, as a string', () => new URL('no-such.wasm', wasmUrl).href, 'no-such.wasm', 'ENOENT'],
    [
      'a relative URL',
      () => './simdnorm.wasm',
      '"./simdnorm.wasm" is no whole URL',
      'pathToFileURL("./simdnorm.wasm")',
    ],
    ['an absolute path', () => '/simdnorm.wasm', '"/simdnorm.wasm" is no whole URL', 'pathToFileURL("/simdnorm.wasm")'],
    ['a path of Windows', () => 'C:\\simdnorm.wasm', 'C:\\\\simdnorm.wasm', 'pathToFileURL'],
    ['an empty string', () => '', '"" is no whole URL'],
    ['a scheme that nobody knows', () => 'nobody:simdnorm.wasm', "nobody:simdnorm.wasm can't be read", 'scheme'],
    ['a promise that fails', () => Promise.reject(new Error('mine')), 'mine'],
    ['a module without anything', () => bytes.slice(0, 8), 'another WebAssembly module'],
    [
      'a module that imports something else',
      () => Buffer.from('AGFzbQEAAAABBAFgAAACBwEBYQF6AAA=', 'base64'),
      'another WebAssembly module',
    ],
    ['a Module of another', () => new WebAssembly.Module(bytes.slice(0, 8)), 'another WebAssembly module'],
    ['another version', () => ofVersion('9.9.9'), 'of version 9.9.9', `this JavaScript of ${version}`],
    ['a Module of another version', () => WebAssembly.compile(ofVersion('9.9.9')), 'of version 9.9.9', version],
  ];

  test.each(broken)('%s: ERR_LOAD, and the next load works', async (_, source, ...says) => {
    const failure = await failureOf(load({ wasm: source() as LoadOptions['wasm'] }));
    expect(failure.code).toBe('ERR_LOAD');
    expect(failure.message).toMatch(/^load: ./);
    for (const part of says) expect(failure.message).toContain(part);
    expect(isWorking(await load())).toBe(true);
    expect(isWorking(await load({ wasm: bytes }))).toBe(true);
  });

  // In a process of its own, which an error that nobody catches would end.
  test.each([
    ['a module without exports', [0, 97, 115, 109, 1, 0, 0, 0]],
    // (module (func (export "x")))
    [
      'a module that exports something else',
      [...[0, 97, 115, 109, 1, 0, 0, 0], ...[1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 120, 0, 0, 10, 4, 1, 2, 0, 11]],
    ],
  ])('%s: ERR_LOAD, and nothing is left uncaught', async (_, wasm) => {
    const result = await runModule(`
      const uncaught = [];
      process.on('uncaughtException', (error) => uncaught.push(error.message));
      const { load } = await import(entry);
      const settled = load({ wasm: Uint8Array.from(${JSON.stringify(wasm)}) }).then(() => 'works', (error) => error.code);
      let timer;
      const never = new Promise((resolve) => { timer = setTimeout(resolve, 500, 'never settles'); });
      const code = await Promise.race([settled, never]);
      clearTimeout(timer);
      const y = (await load()).layerNorm(new Float32Array([1, 1]));
      console.log(JSON.stringify({ code, uncaught, y: [...y] }));
    `);
    expect(result).toEqual({ code: 'ERR_LOAD', uncaught: [], y: [0, 0] });
  });

  test("a cause is the user's own error", async () => {
    const mine = new Error('mine');
    const failure = await failureOf(load({ wasm: Promise.reject(mine) }));
    expect(failure.cause).toBe(mine);
    expect(failure.message).toContain('mine');
  });

  test.each([
    ['an object without a prototype', Object.create(null)],
    ['a revoked proxy', revoked()],
    ['an Error whose message is a symbol', Object.assign(new Error('mine'), { message: Symbol('mine') })],
  ])('whatever a promise is rejected with: %s', async (_, reason) => {
    const failure = await failureOf(load({ wasm: Promise.reject(reason) }));
    expect(failure.code).toBe('ERR_LOAD');
    expect(failure.cause).toBe(reason);
  });

  test('an option is read once', async () => {
    let reads = 0;
    const options = {
      maximumMemory: 0,
      get initialMemory() {
        reads += 1;
        return 2 ** 21;
      },
    };
    expect((await failureOf(load(options))).code).toBe('ERR_RANGE');
    expect(reads).toBe(1);
  });

  const wrong: [string, unknown, ErrorCode, ...string[]][] = [
    ['options a revoked proxy', revoked(), 'ERR_TYPE', 'options'],
    ['options a revoked proxy of an array', revoked([]), 'ERR_TYPE', 'options'],
    ['initialMemory a revoked proxy', { initialMemory: revoked() }, 'ERR_TYPE', 'initialMemory'],
    ['wasm a revoked proxy', { wasm: revoked() }, 'ERR_LOAD'],
    ['wasm a number', { wasm: 5 }, 'ERR_TYPE', 'wasm', 'number'],
    ['wasm a boolean', { wasm: true }, 'ERR_TYPE', 'wasm', 'boolean'],
    ['wasm a function', { wasm: () => bytes }, 'ERR_TYPE', 'wasm', 'function'],
    ['wasm a plain object', { wasm: {} }, 'ERR_TYPE', 'wasm', 'object'],
    ['wasm an Array', { wasm: [0, 97, 115, 109] }, 'ERR_TYPE', 'wasm'],
    ['wasm a symbol', { wasm: Symbol('wasm') }, 'ERR_TYPE', 'wasm', 'symbol'],
    ['wasm a promise of a number', { wasm: Promise.resolve(5) }, 'ERR_TYPE', 'wasm', 'number'],
    ['a misspelled option', { wsam: 1 }, 'ERR_TYPE', "'wsam'", "did you mean 'wasm'?"],
    ['a stranger', { interpolation: 1 }, 'ERR_TYPE', "'interpolation'", 'initialMemory'],
    ['options a string', 'simdnorm.wasm', 'ERR_TYPE', 'options', '"simdnorm.wasm"'],
    ['options bytes', new Uint8Array(8), 'ERR_TYPE', 'options', 'a Uint8Array'],
    ['options a number', 3, 'ERR_TYPE', 'options', '3'],
    ['options a function', () => 1, 'ERR_TYPE', 'options', 'function'],
    ['initialMemory a string', { initialMemory: '1' }, 'ERR_TYPE', 'initialMemory', 'string'],
    ['maximumMemory a bigint', { maximumMemory: 2n ** 21n }, 'ERR_TYPE', 'maximumMemory', 'bigint'],
    ['initialMemory negative', { initialMemory: -1 }, 'ERR_RANGE', 'initialMemory', '-1'],
    ['initialMemory NaN', { initialMemory: NaN }, 'ERR_RANGE', 'initialMemory', 'NaN'],
    [
      'initialMemory above 4 GiB',
      { initialMemory: 2 ** 32 + 1 },
      'ERR_RANGE',
      'initialMemory',
      '4294967297',
      '4294967296',
    ],
    ['maximumMemory above 4 GiB', { maximumMemory: 2 ** 33 }, 'ERR_RANGE', 'maximumMemory', '8589934592'],
    ['maximumMemory Infinity', { maximumMemory: Infinity }, 'ERR_RANGE', 'maximumMemory', 'Infinity'],
    ['maximumMemory below the least', { maximumMemory: 65536 }, 'ERR_RANGE', '65536', '1048576'],
    ['maximumMemory 0', { maximumMemory: 0 }, 'ERR_RANGE', '0', '1048576'],
    [
      'maximumMemory below initialMemory',
      { initialMemory: 2 ** 22, maximumMemory: 2 ** 21 },
      'ERR_RANGE',
      '4194304',
      '2097152',
    ],
  ];

  test.each(wrong)('%s', async (_, options, code, ...says) => {
    const failure = await failureOf(load(options as LoadOptions));
    expect(failure.code).toBe(code);
    for (const part of says) expect(failure.message).toContain(part);
    expect(failure.message).not.toMatch(/\ba [aeio]/);
    expect(isWorking(await load())).toBe(true);
  });

  test('memory limits are rounded to pages, and null is absent', async () => {
    const odd = await load({ initialMemory: 2 ** 20 + 1, maximumMemory: 2 ** 21 + 1 });
    expect(odd.memory).toEqual({ used: 0, capacity: 2 ** 20 + 65536, limit: 2 ** 21 + 65536 });
    const small = await load({ initialMemory: 10, maximumMemory: null as never });
    expect(small.memory.capacity).toBe(2 ** 20);
    expect(isWorking(odd) && isWorking(small)).toBe(true);
    expect((await load({ maximumMemory: 2 ** 20 })).memory).toEqual({ used: 0, capacity: 2 ** 20, limit: 2 ** 20 });
  });

  // All 4 GiB at once are a number of bytes that 32 bits take for 0.
  test.each([0, 1, 65535, 65536, 65537, 2 ** 31])('4 GiB less %i bytes to start with', async (less) => {
    const sn = await load({ initialMemory: 2 ** 32 - less });
    expect(isWorking(sn)).toBe(true);
    expect(sn.layerNorm(draw(1e6, 2))).toHaveLength(1e6);
    expect(sn.memory.capacity).toBe(Math.min(2 ** 32 - 65536, Math.ceil((2 ** 32 - less) / 65536) * 65536));
    expect(sn.memory.limit).toBe(2 ** 32);
    sn.dispose();
  });

  test('an engine that refuses the memory: less is asked for, down to an error', async () => {
    const result = await runModule(`
      const { load } = await import(entry);
      const { Memory } = WebAssembly;
      const outcomes = [];
      const limitTo = (pages) => {
        WebAssembly.Memory = function (descriptor) {
          if (descriptor.maximum > pages) throw new RangeError('could not allocate memory');
          return new Memory(descriptor);
        };
      };
      const attempt = async (options) => {
        try {
          const sn = await load(options);
          outcomes.push(sn.memory.limit, sn.layerNorm(new Float32Array([3, 3]))[0]);
        } catch (error) {
          outcomes.push(error.code);
        }
      };
      limitTo(20000);
      await attempt({});
      await attempt({ maximumMemory: 2 ** 32 });
      limitTo(0);
      await attempt(undefined);
      WebAssembly.Memory = Memory;
      await attempt(undefined);
      console.log(JSON.stringify(outcomes));
    `);
    expect(result).toEqual([16384 * 65536, 0, 'ERR_MEMORY', 'ERR_MEMORY', 2 ** 32, 0]);
  });

  test('a shared start that fails is forgotten', async () => {
    const result = await runModule(`
      const { load } = await import(entry);
      const { compile } = WebAssembly;
      WebAssembly.compile = () => Promise.reject(new WebAssembly.CompileError('out of code space'));
      const failures = await Promise.all([load(), load()].map((each) => each.catch((error) => error)));
      WebAssembly.compile = compile;
      const [first, second] = await Promise.all([load(), load()]);
      console.log(JSON.stringify({
        codes: failures.map(({ code }) => code),
        says: failures[0].message,
        same: first === second,
        y: [...first.layerNorm(new Float32Array([2, 2]))],
      }));
    `);
    expect(result).toEqual({
      codes: ['ERR_LOAD', 'ERR_LOAD'],
      says: expect.stringMatching(/nothing can be compiled here .*'wasm-unsafe-eval'.*out of code space/),
      same: true,
      y: [0, 0],
    });
  });

  test('where nothing can be compiled, also not what the embedded module is decoded with', async () => {
    const result = await runModule(`
      const { load } = await import(entry);
      const forbid = () => { throw new WebAssembly.CompileError('forbidden'); };
      WebAssembly.compile = async () => forbid();
      WebAssembly.Module = function () { forbid(); };
      const failure = await load().catch((error) => error);
      console.log(JSON.stringify([failure.code, failure.message]));
    `);
    const says = /^load: nothing can be compiled here .*'wasm-unsafe-eval'.*forbidden$/;
    expect(result).toEqual(['ERR_LOAD', expect.stringMatching(says)]);
  });

  test.each([
    ['WebAssembly', 'delete globalThis.WebAssembly'],
    ['SIMD', 'WebAssembly.validate = () => false'],
  ])('an engine without %s: ERR_UNSUPPORTED', async (_, change) => {
    const result = await runModule(`
      ${change};
      const { load, NormError } = await import(entry);
      const failures = [];
      for (const options of [undefined, {}]) {
        try { await load(options); } catch (error) { failures.push(error); }
      }
      console.log(JSON.stringify(failures.map((error) => [error instanceof NormError, error.code, error.message])));
    `);
    const failure = [true, 'ERR_UNSUPPORTED', expect.stringContaining('SIMD')];
    expect(result).toEqual([failure, failure]);
  });
});

describe('what it leaves alone', () => {
  test('no process handlers, no global names, after load and after calls', async () => {
    const result = await runModule(`
      const state = () => JSON.stringify([
        process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
        Reflect.ownKeys(globalThis).map(String),
      ]);
      const { load, NormError } = await import(entry);
      const states = [state()];
      const sn = await load();
      states.push(state());
      sn.layerNorm(new Float32Array(1000));
      await load({}).then((own) => own.dispose());
      try { sn.layerNorm(new Float32Array(3), { shape: [2] }); } catch {}
      await load({ wasm: new Uint8Array(3) }).catch(() => {});
      states.push(state());
      console.log(JSON.stringify(states));
    `);
    const [imported, ...later] = result as string[];
    expect(later).toEqual([imported, imported]);
  });

  test('a program that loads and computes ends by itself', async () => {
    const result = await runModule(`
      const { load } = await import(entry);
      const sn = await load();
      console.log(JSON.stringify([...sn.layerNorm(new Float32Array([1, -1]), { epsilon: 0 })]));
    `);
    expect(result).toEqual([1, -1]);
  });

  test('nothing is printed, not even by a failure that is caught', async () => {
    const result = await runModule(`
      const { load } = await import(entry);
      const code = await load({ wasm: new Uint8Array(3) }).catch((error) => error.code);
      console.log(JSON.stringify(code));
    `);
    expect(result).toBe('ERR_LOAD');
  });
});

describe('where it runs', () => {
  const source = `
    const { load } = await import(entry);
    const sn = await load();
    console.log(JSON.stringify([...sn.layerNorm(new Float32Array([1, -1]), { epsilon: 0 })]));
  `;

  test('where code from strings is forbidden', async () => {
    expect(await runModule(source, ['--disallow-code-generation-from-strings'])).toEqual([1, -1]);
    // That the flag does what it says.
    const check = "let code; try { new Function('1'); code = 'allowed' } catch { code = 'forbidden' }";
    const flags = ['--disallow-code-generation-from-strings'];
    expect(await runModule(`${check} console.log(JSON.stringify(code))`, flags)).toBe('forbidden');
  });

  test.each([
    // What a page has and Node hasn't, which must not mislead the glue.
    ['a false window', 'globalThis.window = globalThis; globalThis.document = {};'],
    [
      'a false worker',
      'globalThis.importScripts = () => { throw 1 }; globalThis.self = globalThis; globalThis.location = { href: "/" };',
    ],
    ['without process', 'delete globalThis.process;'],
    ['without fetch', 'delete globalThis.fetch; delete globalThis.Response;'],
    [
      'frozen built-ins',
      'for (const each of [Object, Array, Float32Array, Function, Promise]) { Object.freeze(each); Object.freeze(each.prototype); }',
    ],
    ['a Module global', 'globalThis.Module = { instantiateWasm() { throw new Error("no") } };'],
  ])('%s', async (_, change) => {
    expect(await runModule(change + source)).toEqual([1, -1]);
  });

  // Audio worklets have no TextEncoder.
  test.each([
    ['with a', ''],
    ['without a', 'delete globalThis.TextEncoder;'],
    ['with a wrong', 'globalThis.TextEncoder = class { encode() { return new Uint8Array(3); } };'],
  ])('the embedded module is the file, and has one memory, %s TextEncoder', async (_, change) => {
    const [embedded, memories] = (await runModule(`
      ${change}
      const { load } = await import(entry);
      const { compile, Memory } = WebAssembly;
      let base64;
      let memories = 0;
      // Each takes 10 GiB of addresses.
      WebAssembly.Memory = class extends Memory {
        constructor(...given) {
          super(...given);
          ++memories;
        }
      };
      WebAssembly.compile = (bytes) => {
        base64 = Buffer.from(bytes).toString('base64');
        return compile(bytes);
      };
      await load();
      console.log(JSON.stringify([base64, memories]));
    `)) as [string, number];
    expect(Buffer.from(embedded, 'base64').equals(bytes)).toBe(true);
    expect(memories).toBe(1);
  });

  test('in worker threads, each with an instance of its own', async () => {
    const code = `
      import('node:worker_threads').then(async ({ parentPort, workerData }) => {
        const { load } = await import(workerData.entry);
        const sn = await load();
        const shared = new Float32Array(workerData.shared);
        sn.layerNorm(shared.subarray(0, 1000), { out: shared.subarray(1000) });
        parentPort.postMessage(sn.layerNorm(workerData.x));
      });
    `;
    const shared = Array.from({ length: 2 }, () => {
      const values = new Float32Array(new SharedArrayBuffer(8000));
      values.set(x);
      return values;
    });
    const workers = shared.map(
      ({ buffer }) => new Worker(code, { eval: true, workerData: { entry, x, shared: buffer } }),
    );
    // Listening to all before waiting for one: a message that nobody hears is lost.
    const ends = workers.map((worker) => Promise.all([once(worker, 'message'), once(worker, 'exit')]));
    for (const [i, [[y], [exitCode]]] of (await Promise.all(ends)).entries()) {
      expect(exitCode).toBe(0);
      expect(y).toEqual(expected);
      expect([...(shared[i] as Float32Array).subarray(1000)]).toEqual([...expected]);
    }
  });
});
