// The digits in three parts, in an order that a seed shuffles.

import { readFileSync } from 'node:fs';
import { Random } from '../js/data.ts';

export const pixels = 64;
export const classes = 10;

export interface Images {
  readonly count: number;
  /** [count, pixels], each -1 to 1. */
  readonly values: Float32Array<ArrayBuffer>;
  readonly labels: Uint8Array;
}

export function shuffled(count: number, random: Random): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; --i) {
    const other = Math.floor(random.unit() * (i + 1));
    [order[i], order[other]] = [order[other] as number, order[i] as number];
  }
  return order;
}

/** Those that an order names. */
export function pick(images: Images, order: Uint32Array): Images {
  const values = new Float32Array(order.length * pixels);
  const labels = new Uint8Array(order.length);
  for (const [place, i] of order.entries()) {
    values.set(images.values.subarray(i * pixels, (i + 1) * pixels), place * pixels);
    labels[place] = images.labels[i] as number;
  }
  return { count: order.length, values, labels };
}

function readAll(): Images {
  const text = readFileSync(new URL('digits.txt', import.meta.url), 'ascii');
  const lines = text.trimEnd().split('\n');
  const values = Float32Array.from(lines.flatMap((line) => Array.from(line.slice(0, pixels), grey)));
  return { count: lines.length, values, labels: Uint8Array.from(lines, (line) => Number(line.slice(pixels))) };
}

/** 0 to g, which is 16. */
function grey(digit: string): number {
  return Number.parseInt(digit, 17) / 8 - 1;
}

/** 1197 to learn from, 240 to choose the learning rate by, and 360 that decide nothing. */
export function readDigits(seed: number): { training: Images; validation: Images; heldOut: Images } {
  const all = readAll();
  const order = shuffled(all.count, new Random(seed));
  return {
    training: pick(all, order.subarray(0, 1197)),
    validation: pick(all, order.subarray(1197, 1437)),
    heldOut: pick(all, order.subarray(1437)),
  };
}
