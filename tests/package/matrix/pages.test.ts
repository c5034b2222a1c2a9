import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Consumers, createConsumers, expectedHash } from './consumer.ts';
import type { Engine } from './engines.ts';
import { html, serve } from './serve.ts';
import { chosen, engines, entries, pages } from './targets.ts';

let consumers: Consumers;
let hash: string;

beforeAll(async () => {
  consumers = await createConsumers();
  hash = await expectedHash();
});

afterAll(() => consumers?.remove());

describe.each(chosen(engines))('$name', ({ launch }) => {
  let browser: Engine;
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  describe.each(entries)('%s', (entry) => {
    test.each(chosen(pages))('in $name', async ({ script, imports, policy, refusal }) => {
      const { folder, write } = await consumers.create(entry, imports);
      const map = imports === 'name' ? `<script type="importmap">${consumers.importMap}</script>` : '';
      await write('index.html', html(`${map}<script src="./${script}" type="module"></script>`));
      const site = await serve(folder, policy);
      try {
        expect(await browser.titleOf(site.url)).toEqual(refusal ? expect.stringMatching(refusal) : hash);
      } finally {
        await site.close();
      }
    });
  });
});
