import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'puppeteer-core';
import { type PreviewServer, preview } from 'vite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { load } from '../../dist/index.js';
import { launchChromium } from './chromium.ts';

const webFolder = fileURLToPath(new URL('../../web', import.meta.url));

let server: PreviewServer;
let browser: Browser;
let url: string;
let folder: string;
let page: Page;
let problems: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-page-'));
  server = await preview({
    configFile: join(webFolder, 'vite.config.ts'),
    preview: { port: 0, host: '127.0.0.1' },
  });
  url = server.resolvedUrls?.local[0] as string;
  browser = await launchChromium();
}, 30_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  if (folder) await rm(folder, { recursive: true });
});

async function open(prepare?: (page: Page) => Promise<unknown>): Promise<void> {
  problems = [];
  page = await browser.newPage();
  // A "not modified" answer comes without the headers that are looked at below.
  await page.setCacheEnabled(false);
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    // Chromium reports what the policy blocks as a console error, so this covers violations too.
    if (['error', 'warn'].includes(message.type())) problems.push(message.text());
  });
  page.on('request', (request) => {
    const { origin } = new URL(request.url());
    if (origin !== new URL(url).origin && !request.url().startsWith('blob:')) problems.push(`asks ${request.url()}`);
  });
  await prepare?.(page);
  const response = await page.goto(url);
  expect(response?.headers()['content-security-policy']).toContain("script-src 'self' 'wasm-unsafe-eval'");
}

afterEach(async () => {
  await page.close();
  expect(problems).toEqual([]);
});

async function textOf(selector: string): Promise<string> {
  return page.$eval(selector, (element) => ((element as HTMLElement).hidden ? '' : (element.textContent ?? '')));
}

/** Waits for a text, and says what was there instead. */
async function expectText(selector: string, text: string | RegExp): Promise<void> {
  await expect.poll(() => textOf(selector), { timeout: 3000, interval: 20 }).toMatch(text);
}

async function enter(selector: string, text: string): Promise<void> {
  await page.$eval(
    selector,
    (element, value) => {
      (element as HTMLInputElement | HTMLTextAreaElement).value = value;
      element.dispatchEvent(new Event('input', { bubbles: true }));
    },
    text,
  );
}

async function upload(name: string, text: string): Promise<void> {
  const path = join(folder, name);
  await writeFile(path, text);
  const input = await page.$('input[type=file]');
  await input?.uploadFile(path);
}

/** The cells of the table's body, row headers left out. */
async function tableRow(row: number): Promise<string[]> {
  return page.$eval(`#table tbody tr:nth-child(${row})`, (element) =>
    [...element.querySelectorAll('td')].map((cell) => cell.textContent ?? ''),
  );
}

async function download(): Promise<{ names: string[]; y: Float32Array }> {
  const downloads = await mkdtemp(join(folder, 'download-'));
  const session = await page.createCDPSession();
  await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: downloads });
  await page.click('#download');
  await expect.poll(() => readdir(downloads), { timeout: 5000 }).toEqual([expect.stringMatching(/\.csv$/)]);
  const [name] = await readdir(downloads);
  const lines = (await readFile(join(downloads, name as string), 'utf8')).trimEnd().split('\n');
  const names = /^[-\d]/.test(lines[0] as string) ? [] : (lines.shift() as string).split(',');
  return { names, y: Float32Array.from(lines.flatMap((line) => line.split(',').map(Number))) };
}

/** Not toEqual: for one wrong value in a large array it prints them all. */
function expectSameBits(got: Float32Array, expected: Float32Array): void {
  expect(got.length).toBe(expected.length);
  const wrong = expected.findIndex((value, i) => !Object.is(value, got[i]));
  expect(wrong, `index ${wrong}: expected ${expected[wrong]}, got ${got[wrong]}`).toBe(-1);
}

async function irisValues(): Promise<{ names: string[]; x: Float32Array }> {
  const lines = (await readFile(join(webFolder, 'iris.csv'), 'utf8')).trimEnd().split('\n');
  const cells = lines.map((line) => line.split(',').slice(0, 4));
  return { names: cells[0] as string[], x: Float32Array.from(cells.slice(1).flat().map(Number)) };
}

describe('the page', { timeout: 20_000 }, () => {
  beforeEach(async () => {
    await open();
    await expectText('#result-summary', 'Layer norm of Fisher’s Iris, 150 rows × 4 columns');
  });

  it('starts with Iris, normalized row by row', async () => {
    const { layerNorm } = await load();
    const first = layerNorm(Float32Array.of(5.1, 3.5, 1.4, 0.2));
    expect((await tableRow(1)).slice(0, 4)).toEqual(['5.1', '3.5', '1.4', '0.2']);
    expect((await tableRow(1)).slice(6, 10)).toEqual(Array.from(first, (value) => value.toFixed(4)));
    await expectText('#data-status', /left out, not numbers: Species/);
    await expectText('#iris-source', 'Annals of Eugenics');
    await expectText('#timing', /median of .*600 values, [\d,]+ million values per second/);
    expect(await page.$$eval('#plot svg.panel', (panels) => panels.length)).toBe(2);
    expect(await page.evaluate(() => crossOriginIsolated)).toBe(true);
  });

  it('downloads what Node computes, to the bit', async () => {
    const { layerNorm, batchNormTraining } = await load();
    const { names, x } = await irisValues();
    const layer = await download();
    expect(layer.names).toEqual(names);
    expectSameBits(layer.y, layerNorm(x, { shape: [150, 4] }));

    await page.click('input[value=batch]');
    await expectText('#result-summary', 'Batch norm of Fisher’s Iris');
    await enter('#epsilon', '0.25');
    await expectText('#result-summary', 'epsilon 0.25');
    const batch = await download();
    expectSameBits(batch.y, batchNormTraining(x, { shape: [150, 4], epsilon: 0.25 }).y);
  });

  it('refuses an epsilon in the library’s words', async () => {
    for (const epsilon of ['-1', '', 'small', 'Infinity']) {
      await enter('#epsilon', epsilon);
      await expectText('#epsilon-error', /epsilon.*ERR_RANGE/s);
      await expectText('#stale', /last good result: Fisher’s Iris, layer norm, epsilon/);
      expect(await page.$eval('#download', (button) => (button as HTMLButtonElement).disabled)).toBe(true);
      await enter('#epsilon', '0.001');
      await expectText('#result-summary', 'epsilon 0.001');
      expect((await textOf('#epsilon-error')) + (await textOf('#stale'))).toBe('');
    }
  });

  it('takes pasted numbers, whatever separates them', async () => {
    const { batchNormTraining } = await load();
    const y = batchNormTraining(Float32Array.of(1, 2, 4, 3, 5, 9), { shape: [2, 3] }).y;
    await page.click('input[value=batch]');
    for (const text of [
      '1,2,4\n3,5,9',
      '1\t2\t4\r\n3\t5\t9\r\n',
      ' 1   2  4\n\n 3   5  9\n',
      '1,0;2,0;4,0\n3,0;5,0;9,0',
    ]) {
      await enter('#paste', text);
      await expectText('#result-summary', 'Batch norm of pasted numbers, 2 rows × 3 columns');
      expect((await tableRow(2)).slice(0, 3), text).toEqual(['3', '5', '9']);
      await page.click('#iris-button');
      await expectText('#result-summary', 'Iris');
    }
    await enter('#paste', '1 2 4\n3 5 9');
    await expectText('#result-summary', 'pasted numbers');
    const pasted = await download();
    expect(pasted.names).toEqual([]);
    expectSameBits(pasted.y, y);
  });

  it('says what is wrong with a text, and where', async () => {
    for (const [text, message] of [
      ['no numbers here', /No column of numbers/],
      [' \n\n', /empty/],
      ['a,b', /No column of numbers/],
      ['a,b\n1,2\n3,x\n5,6', /Row 2 \(line 3\), column 2 \(b\): “x” is not a number/],
      ['1,2\n3,\n5,6', /Row 2, column 2: the value is missing/],
      ['1,2\n3,4\n5', /Row 3 has 1 value, the first row has 2/],
      ['1,2\n3,1e39', /Row 2, column 2: “1e39” is too large/],
      ['1,2\n"3,4\n5,6', /quotation mark/],
      ['0x10,2\n1,2', /Row 1, column 1: “0x10” is not a number/],
      [`${'1,2\n'.repeat(70)}3,n/a\n`, /Row 71, column 2: “n\/a” is not a number/],
    ] as const) {
      await enter('#paste', text);
      await expectText('#data-error', message);
      await expectText('#stale', /last good result: Fisher’s Iris/);
    }
    await page.click('#iris-button');
    await expect.poll(() => textOf('#data-error')).toBe('');
    await expect.poll(() => textOf('#stale')).toBe('');
  });

  it('explains that batch norm needs two rows', async () => {
    await page.click('input[value=batch]');
    await enter('#paste', '1 2 3');
    await expectText('#norm-error', /at least two rows.*ERR_RANGE/s);
    await page.click('input[value=layer]');
    await expectText('#result-summary', 'Layer norm of pasted numbers, 1 row × 3 columns');
  });

  it('reads an uploaded file, however it names its columns', async () => {
    await upload('people.csv', '"height, m",name,weight\n1.62,Ada,58.1\n1.80,Bob,77.4\n');
    await expectText('#result-summary', 'people.csv, 2 rows × 2 columns');
    await expectText('#data-status', /left out, not numbers: name \(“Ada”\)/);
    expect(await page.$$eval('#table th.before[scope=col]', (cells) => cells.map((cell) => cell.textContent))).toEqual([
      'height, m',
      'weight',
    ]);
  });

  it('reads a file that is dropped anywhere', async () => {
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['1;2\n3;4\n'], 'dropped.csv'));
      document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }));
    });
    await expectText('#result-summary', 'dropped.csv, 2 rows × 2 columns');
  });

  it('states deviations whose squares are no float32', async () => {
    await enter('#paste', '1e30 -1e30\n1e-30 3e-30\n5 5');
    await expectText('#result-summary', '3 rows × 2 columns');
    expect([(await tableRow(1))[3], (await tableRow(2))[3], (await tableRow(3))[3]]).toEqual([
      '1.00e30',
      '1.00e-30',
      '0.0000',
    ]);
  });

  it('shows the first rows of a large file', async () => {
    const rows = 60_000;
    await upload('large.csv', Array.from({ length: rows }, (_, i) => `${i},${(i * 7919) % 1000},${i % 7}\n`).join(''));
    await expectText('#result-summary', 'large.csv, 60,000 rows × 3 columns');
    await expectText('#table-note', 'the first 150 of 60,000 rows');
    await page.click('input[value=batch]');
    await expectText('#result-summary', 'Batch norm');
    const x = Float32Array.from({ length: rows * 3 }, (_, k) => {
      const i = Math.floor(k / 3);
      return [i, (i * 7919) % 1000, i % 7][k % 3] as number;
    });
    const { batchNormTraining } = await load();
    expectSameBits((await download()).y, batchNormTraining(x, { shape: [rows, 3] }).y);
  });

  it('fits a phone', async () => {
    await page.setViewport({ width: 400, height: 800 });
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(400);
  });
});

it('says so when the module cannot be loaded', async () => {
  await open((page) => page.evaluateOnNewDocument(() => Reflect.deleteProperty(globalThis, 'WebAssembly')));
  await expectText('#load-error', /could not be loaded.*ERR_(LOAD|UNSUPPORTED)/s);
});
