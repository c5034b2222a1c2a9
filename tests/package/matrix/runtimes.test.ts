import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Consumers, createConsumers, expectedHash } from './consumer.ts';
import { chosen, entries, runtimes } from './targets.ts';

let consumers: Consumers;
let hash: string;

beforeAll(async () => {
  consumers = await createConsumers();
  hash = await expectedHash();
});

afterAll(() => consumers?.remove());

describe.each(entries)('%s', (entry) => {
  test.each(chosen(runtimes))('in $name', async ({ command }) => {
    const consumer = await consumers.create(entry, 'name');
    expect((await consumer.run(command)).split('\n').at(-1)).toBe(hash);
  });
});
