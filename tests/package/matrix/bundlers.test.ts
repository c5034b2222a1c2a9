import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Consumers, chosen, createConsumers, expectedHash } from './consumer.ts';
import { chromium, type Engine } from './engines.ts';
import { html } from './serve.ts';
import { bundlers, entries } from './targets.ts';

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
  test.each(chosen(bundlers))('with $name', async ({ command, script, streaming, open }) => {
    const { folder, write, run } = await consumers.create(entry, 'name');
    await write('index.html', html(script ?? '<script src="./page.js" type="module"></script>'));
    if (streaming && entry === 'simdnorm/streaming') await run(streaming);
    if (command) await run(command);
    const site = await open(folder);
    try {
      expect(await browser.titleOf(site.url)).toBe(hash);
    } finally {
      await site.close();
    }
  });
});
