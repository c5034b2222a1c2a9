import { readFileSync } from 'node:fs';
import { load } from 'simdnorm';
import { expect, test } from 'vitest';
import { bitHash } from '../bits/bits.ts';

test('the hash of all bits is the one constant', async () => {
  const expected = readFileSync(new URL('../bits/hash.txt', import.meta.url), 'utf8').trim();
  expect(bitHash(await load())).toBe(expected);
});
