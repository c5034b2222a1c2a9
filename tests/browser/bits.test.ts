import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { Browser } from 'puppeteer-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from './chromium.ts';

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/** Plain files and nothing else: what a page needs is dist/index.js as it is, under a policy without eval. */
const files: Record<string, { type: string; content: string | Uint8Array }> = {};
let server: Server;
let browser: Browser;

beforeAll(async () => {
  const bits = await build({ entryPoints: [path('../bits/bits.ts')], bundle: true, format: 'esm', write: false });
  const javascript = 'text/javascript';
  files['/bits.js'] = { type: javascript, content: bits.outputFiles[0]?.contents as Uint8Array };
  files['/simdnorm.js'] = { type: javascript, content: await readFile(path('../../dist/index.js')) };
  const hash = `import { load } from '/simdnorm.js'; import { bitHash } from '/bits.js'; const hash = bitHash(await load());`;
  files['/page.js'] = { type: javascript, content: `${hash} document.title = hash;` };
  files['/worker.js'] = { type: javascript, content: `${hash} postMessage(hash);` };
  files['/start-worker.js'] = {
    type: javascript,
    content: `const worker = new Worker('/worker.js', { type: 'module' });
              worker.onmessage = ({ data }) => { document.title = data; };
              worker.onerror = ({ message }) => { document.title = 'error: ' + message; };`,
  };
  for (const [page, script] of [
    ['/page', '/page.js'],
    ['/worker', '/start-worker.js'],
  ] as const) {
    const content = `<!doctype html><title>waiting</title><script type="module" src="${script}"></script>`;
    files[page] = { type: 'text/html', content };
  }
  server = createServer((request, response) => {
    const file = files[request.url ?? ''];
    response.writeHead(file ? 200 : 404, {
      'Content-Type': file?.type ?? 'text/plain',
      'Content-Security-Policy': "script-src 'self' 'wasm-unsafe-eval'",
    });
    response.end(file?.content);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  browser = await launchChromium();
});

afterAll(async () => {
  await browser?.close();
  server?.close();
});

test.each(['page', 'worker'])('the hash of all bits is the one constant in a %s', async (name) => {
  const expected = (await readFile(path('../bits/hash.txt'), 'utf8')).trim();
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${name}`);
  await page.waitForFunction(() => document.title !== 'waiting');
  expect(problems).toEqual([]);
  expect(await page.title()).toBe(expected);
  await page.close();
});
