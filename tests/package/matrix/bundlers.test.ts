import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Consumers, createConsumers, expectedHash } from './consumer.ts';
import { chromium, type Engine } from './engines.ts';
import { html } from './serve.ts';
import { type Bundler, bundlers, chosen, entries } from './targets.ts';

let consumers: Consumers;
let hash: string;
let browser: Engine;

beforeAll(async () => {
  consumers = await createConsumers();
  hash = await expectedHash();
  browser = await chromium();
});

afterAll(async () => {
  await browser?.close();
  await consumers?.remove();
});

describe.each(entries)('%s', (entry) => {
  async function expectHash(program: string, { command, script, streaming, open }: Bundler) {
    const { folder, write, run } = await consumers.create(entry, 'name');
    await rename(join(folder, program), join(folder, 'page.js'));
    await write('index.html', html(script ?? '<script src="./page.js" type="module"></script>'));
    if (streaming && entry === 'simdnorm/streaming') await run(streaming);
    if (command) await run(command);
    const site = await open(folder);
    try {
      expect(await browser.titleOf(site.url)).toBe(hash);
    } finally {
      await site.close();
    }
  }

  test.each(chosen(bundlers))('a page with $name', (bundler) => expectHash('page.js', bundler));

  const withWorkers = chosen(bundlers).filter(({ workers }) => workers);
  test.each(withWorkers)('a worker with $name', (bundler) => expectHash('start-worker.js', bundler));
});
