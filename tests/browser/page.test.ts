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
async function expectText(selector: string, text: string | RegExp, timeout = 3000): Promise<void> {
  await expect.poll(() => textOf(selector), { timeout, interval: 20 }).toMatch(text);
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

async function choose(norm: string): Promise<void> {
  await page.click(`input[name=norm][value=${norm}]`);
}

async function fieldOf(selector: string): Promise<string> {
  return page.$eval(selector, (element) => (element as HTMLInputElement | HTMLSelectElement).value);
}

async function upload(name: string, text: string | Buffer): Promise<void> {
  const path = join(folder, name);
  await writeFile(path, text);
  const input = await page.$('input[type=file]');
  await input?.uploadFile(path);
}

/** What the plot says about its first strip: before and after. */
async function firstStrips(): Promise<string[]> {
  return page.$$eval('#plot svg.panel', (panels) =>
    panels.map((panel) => panel.querySelector('.hover title')?.textContent ?? ''),
  );
}

/** The cells of the table's body, row headers left out. */
async function tableRow(row: number): Promise<string[]> {
  return page.$eval(`#table tbody tr:nth-child(${row})`, (element) =>
    [...element.querySelectorAll('td')].map((cell) => cell.textContent ?? ''),
  );
}

/** The file that is downloaded. */
async function downloadText(): Promise<string> {
  const downloads = await mkdtemp(join(folder, 'download-'));
  const session = await page.createCDPSession();
  await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: downloads });
  await page.click('#download');
  await expect.poll(() => readdir(downloads), { timeout: 5000 }).toEqual([expect.stringMatching(/\.csv$/)]);
  const [name] = await readdir(downloads);
  return readFile(join(downloads, name as string), 'utf8');
}

/** What is downloaded, where only the last columns may be text. */
async function download(): Promise<{ names: string[]; y: Float32Array }> {
  const lines = (await downloadText()).trimEnd().split('\n');
  const names = /^[-\d]/.test(lines[0] as string) ? [] : (lines.shift() as string).split(',');
  const cells = lines.flatMap((line) => line.split(','));
  return {
    names,
    y: Float32Array.from(
      cells.filter((cell) => /^[-\d]/.test(cell)),
      Number,
    ),
  };
}

/** Not toEqual: for one wrong value in a large array it prints them all. */
function expectSameBits(got: Float32Array, expected: Float32Array): void {
  expect(got.length).toBe(expected.length);
  const wrong = expected.findIndex((value, i) => !Object.is(value, got[i]));
  expect(wrong, `index ${wrong}: expected ${expected[wrong]}, got ${got[wrong]}`).toBe(-1);
}

async function irisValues(): Promise<{ names: string[]; x: Float32Array }> {
  const lines = (await readFile(join(webFolder, 'iris.csv'), 'utf8')).trimEnd().split('\n');
  const [names = [], ...rows] = lines.map((line) => line.split(','));
  return { names, x: Float32Array.from(rows.flatMap((cells) => cells.slice(0, 4).map(Number))) };
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
    await expectText('#timing', /median of .*600 values, [\d.,]+ million values per second/);
    expect(await page.$$eval('#plot svg.panel', (panels) => panels.length)).toBe(2);
    expect(await page.evaluate(() => crossOriginIsolated)).toBe(true);
  });

  it('downloads what Node computes, to the bit', async () => {
    const { layerNorm, rmsNorm, lpNormalize, groupNorm, batchNormTraining } = await load();
    const { names, x } = await irisValues();
    const shape = [150, 4];
    for (const [norm, summary, y] of [
      ['layer', 'Layer norm of Fisher’s Iris, 150 rows × 4 columns, epsilon 1e-5.', layerNorm(x, { shape })],
      ['rms', 'RMS norm of Fisher’s Iris, 150 rows × 4 columns, epsilon 1e-5.', rmsNorm(x, { shape })],
      ['l2', 'L2 normalization of Fisher’s Iris, 150 rows × 4 columns, epsilon 1e-12.', lpNormalize(x, { shape })],
      ['l1', 'L1 normalization of Fisher’s Iris', lpNormalize(x, { shape, p: 1 })],
      ['max', 'Max normalization of Fisher’s Iris', lpNormalize(x, { shape, p: Infinity })],
      [
        'group',
        'Group norm of Fisher’s Iris, 150 rows × 4 columns in 2 groups, epsilon 1e-5.',
        groupNorm(x, { shape, groups: 2 }),
      ],
      ['batch', 'Batch norm of Fisher’s Iris', batchNormTraining(x, { shape }).y],
    ] as const) {
      await choose(norm);
      await expectText('#result-summary', summary);
      await expectText('#timing', /median of .*600 values, [\d,.]+ million values per second/);
      const downloaded = await download();
      expect(downloaded.names).toEqual(names);
      expectSameBits(downloaded.y, y);
    }
  });

  it('gives epsilon to the operation that is chosen', async () => {
    const { rmsNorm, lpNormalize, groupNorm, batchNormTraining } = await load();
    const { x } = await irisValues();
    const shape = [150, 4];
    for (const [norm, epsilon, y] of [
      ['rms', 0.25, rmsNorm(x, { shape, epsilon: 0.25 })],
      ['l1', 12, lpNormalize(x, { shape, p: 1, epsilon: 12 })],
      ['group', 0.5, groupNorm(x, { shape, groups: 2, epsilon: 0.5 })],
      ['batch', 0.75, batchNormTraining(x, { shape, epsilon: 0.75 }).y],
    ] as const) {
      await choose(norm);
      await enter('#epsilon', String(epsilon));
      await expectText('#result-summary', `epsilon ${epsilon}.`);
      expectSameBits((await download()).y, y);
    }
  });

  it('has the default epsilon of each meaning, and keeps what was typed for it', async () => {
    expect(await fieldOf('#epsilon')).toBe('1e-5');
    await expectText('#epsilon-hint', /variance.*rows that hardly vary/);
    await choose('l2');
    expect(await fieldOf('#epsilon')).toBe('1e-12');
    await expectText('#epsilon-hint', /least that x is divided by/);
    await choose('rms');
    expect(await fieldOf('#epsilon')).toBe('1e-5');
    await expectText('#epsilon-hint', /mean of x²/);
    await enter('#epsilon', '0.125');
    await choose('max');
    expect(await fieldOf('#epsilon')).toBe('1e-12');
    await enter('#epsilon', '2');
    await choose('group');
    expect(await fieldOf('#epsilon')).toBe('0.125');
    await expectText('#result-summary', /Group norm.*epsilon 0\.125/);
    await choose('l1');
    await expectText('#result-summary', /L1 normalization.*epsilon 2\./);
  });

  it('reads a decimal comma in epsilon as well', async () => {
    for (const [typed, epsilon] of [
      ['0,25', '0.25'],
      [' ,5 ', '0.5'],
      ['1,5e-3', '0.0015'],
    ] as const) {
      await enter('#epsilon', typed);
      await expectText('#result-summary', `epsilon ${epsilon}.`);
      expect(await fieldOf('#epsilon')).toBe(typed);
    }
  });

  it('refuses an epsilon in the name of the operation that is chosen', async () => {
    for (const [norm, operation] of [
      ['layer', 'layerNorm'],
      ['rms', 'rmsNorm'],
      ['l2', 'lpNormalize'],
      ['group', 'groupNorm'],
      ['batch', 'batchNormTraining'],
    ] as const) {
      await choose(norm);
      await enter('#epsilon', '-1');
      await expectText('#epsilon-error', `${operation}: epsilon must be finite and at least 0, got -1 (ERR_RANGE)`);
    }
    for (const [epsilon, message] of [
      ['', 'got nothing'],
      ['small', 'got “small”'],
      ['1,000,000', 'got “1,000,000”'],
      ['1e999', 'got “1e999”'],
    ] as const) {
      await enter('#epsilon', epsilon);
      await expectText('#epsilon-error', `batchNormTraining: epsilon must be a finite number, ${message}`);
      await expectText('#stale', /last good result: Fisher’s Iris, .*epsilon/);
      expect(await page.$eval('#download', (button) => (button as HTMLButtonElement).disabled)).toBe(true);
      await enter('#epsilon', '0.001');
      await expectText('#result-summary', 'epsilon 0.001');
      expect((await textOf('#epsilon-error')) + (await textOf('#stale'))).toBe('');
    }
  });

  it('offers the numbers of groups that the columns can be divided into', async () => {
    const { groupNorm } = await load();
    const isDisabled = () => page.$eval('#groups', (select) => (select as HTMLSelectElement).disabled);
    const offered = () => page.$$eval('#groups option', (options) => options.map((option) => option.textContent));
    expect(await offered()).toEqual(['1 group of 4', '2 groups of 2', '4 groups of 1']);
    expect(await isDisabled()).toBe(true);
    await choose('group');
    expect(await isDisabled()).toBe(false);

    await enter('#paste', '1 2 4 8 16 32\n3 5 9 -1 0 7');
    await expectText('#result-summary', 'Group norm of pasted numbers, 2 rows × 6 columns in 2 groups');
    expect(await offered()).toEqual(['1 group of 6', '2 groups of 3', '3 groups of 2', '6 groups of 1']);
    await page.select('#groups', '3');
    await expectText('#result-summary', '2 rows × 6 columns in 3 groups');
    const x = Float32Array.of(1, 2, 4, 8, 16, 32, 3, 5, 9, -1, 0, 7);
    expectSameBits((await download()).y, groupNorm(x, { shape: [2, 6], groups: 3 }));

    await enter('#paste', '1 2 3 4 5\n6 7 8 9 0');
    await expectText('#result-summary', '2 rows × 5 columns in 1 group,');
    await enter('#paste', '1 2 3 4 5 6 7 8 9');
    await expectText('#result-summary', '1 row × 9 columns in 3 groups');
  });

  it('states what each choice computes with', async () => {
    await enter('#paste', '5 -3 9 -7\n1 2 3 4');
    await expectText('#result-summary', 'Layer norm of pasted numbers');
    const x = ['5', '-3', '9', '-7'];
    for (const { norm, row, strips, example, note } of [
      {
        norm: 'layer',
        row: [...x, '1.0000', '6.3246', '0.6325', '-0.6325', '1.2649', '-1.2649', '0.0000', '1.0000'],
        strips: ['row 1: mean 1.0000, standard deviation 6.3246', 'row 1: mean 0.0000, standard deviation 1.0000'],
        example: '(5 − 1.0000) / √(40.0000 + 1e-5) = 0.6325',
        note: 'mean and standard deviation (of the population: divided by n) of each row',
      },
      {
        norm: 'rms',
        row: [...x, '6.4031', '0.7809', '-0.4685', '1.4056', '-1.0932', '1.0000'],
        strips: ['row 1: root mean square 6.4031', 'row 1: root mean square 1.0000'],
        example: '5 / √(41.0000 + 1e-5) = 0.7809',
        note: 'root mean square of each row',
      },
      {
        norm: 'l2',
        row: [...x, '12.8062', '0.3904', '-0.2343', '0.7028', '-0.5466', '1.0000'],
        strips: ['row 1: L2 norm 12.8062', 'row 1: L2 norm 1.0000'],
        example: '5 / max(12.8062, 1e-12) = 0.3904',
        note: 'L2 norm of each row',
      },
      {
        norm: 'l1',
        row: [...x, '24.0000', '0.2083', '-0.1250', '0.3750', '-0.2917', '1.0000'],
        strips: ['row 1: L1 norm 24.0000', 'row 1: L1 norm 1.0000'],
        example: '5 / max(24.0000, 1e-12) = 0.2083',
        note: 'L1 norm of each row',
      },
      {
        norm: 'max',
        row: [...x, '9.0000', '0.5556', '-0.3333', '1.0000', '-0.7778', '1.0000'],
        strips: ['row 1: max norm 9.0000', 'row 1: max norm 1.0000'],
        example: '5 / max(9.0000, 1e-12) = 0.5556',
        note: 'max norm of each row',
      },
      {
        norm: 'group',
        row: [
          ...['5', '-3', '1.0000', '4.0000', '9', '-7', '1.0000', '8.0000'],
          ...['1.0000', '-1.0000', '0.0000', '1.0000', '1.0000', '-1.0000', '0.0000', '1.0000'],
        ],
        strips: [
          'row 1, group 1: mean 1.0000, standard deviation 4.0000',
          'row 1, group 1: mean 0.0000, standard deviation 1.0000',
        ],
        example: '(5 − 1.0000) / √(16.0000 + 1e-5) = 1.0000',
        note: 'of each group of columns',
      },
      {
        norm: 'batch',
        row: [...x, '1.0000', '-1.0000', '1.0000', '-1.0000'],
        strips: [
          'column 1: mean 3.0000, standard deviation 2.0000',
          'column 1: mean 0.0000, standard deviation 1.0000',
        ],
        example: '(5 − 3.0000) / √(4.0000 + 1e-5) = 1.0000',
        note: 'of each column',
      },
    ]) {
      await choose(norm);
      await expectText('#formula-example', /./);
      expect(await textOf('#formula-example')).toBe(`Row 1, column 1: ${example}`);
      expect(await tableRow(1)).toEqual(row);
      expect(await firstStrips()).toEqual(strips);
      expect(await textOf('#table-note')).toContain(note);
      const formulas = await page.$$eval('[data-norms]', (elements) =>
        elements
          .filter((element) => !(element as HTMLElement).hidden)
          .map((element) => element.getAttribute('data-norms')),
      );
      expect(formulas).toEqual([expect.stringMatching(`\\b${norm}\\b`)]);
    }
    expect(await page.$$eval('#table thead td', (cells) => cells.map((cell) => cell.textContent))).toEqual([
      ...['3.0000', '-0.5000', '6.0000', '-1.5000', '0.0000', '0.0000', '0.0000', '0.0000'],
      ...['2.0000', '2.5000', '3.0000', '5.5000', '1.0000', '1.0000', '1.0000', '1.0000'],
    ]);
  });

  it('says where 0 / 0 comes from', async () => {
    await enter('#paste', '0 0\n5 5');
    await enter('#epsilon', '0');
    await expectText(
      '#not-finite',
      '4 values of y are not finite: with epsilon 0, values that are all the same give 0 / 0',
    );
    await choose('rms');
    await expectText('#not-finite', '2 values of y are not finite: with epsilon 0, rows of zeros give 0 / 0');
    await choose('l2');
    await enter('#epsilon', '0');
    await expectText('#result-summary', 'L2 normalization of pasted numbers, 2 rows × 2 columns, epsilon 0.');
    await expectText('#not-finite', /^$/);
  });

  it('takes pasted numbers, whatever separates them', async () => {
    const { batchNormTraining } = await load();
    const y = batchNormTraining(Float32Array.of(1, 2, 4, 3, 5, 9), { shape: [2, 3] }).y;
    await choose('batch');
    for (const text of [
      '1,2,4\n3,5,9',
      '1\t2\t4\r\n3\t5\t9\r\n',
      ' 1   2  4\n\n 3   5  9\n',
      '1,0;2,0;4,0\n3,0;5,0;9,0',
      '1,0\t2,0\t4\n3,0\t5,0\t9',
      '"1,0";"2,0";"4,0"\n"3,0";"5,0";"9,0"',
      '1 20e−1 4\n+3 5 9',
    ]) {
      await enter('#paste', text);
      await expectText('#result-summary', 'Batch norm of pasted numbers, 2 rows × 3 columns');
      expect((await tableRow(2)).slice(0, 3), text).toEqual(['3', '5', '9']);
      await page.click('#iris-button');
      await expectText('#result-summary', 'Iris');
    }
    await enter('#paste', '−1,5;2\n3;−4');
    await expectText('#data-status', 'commas read as decimal points');
    expect([...(await tableRow(1)).slice(0, 2), ...(await tableRow(2)).slice(0, 2)]).toEqual([
      '-1.5',
      '2',
      '3.0',
      '-4',
    ]);
    await enter('#paste', '1 2 4\n3 5 9');
    await expectText('#result-summary', '2 rows × 3 columns');
    const pasted = await download();
    expect(pasted.names).toEqual([]);
    expectSameBits(pasted.y, y);
  });

  it('says how it read the numbers', async () => {
    for (const [text, status] of [
      ['1,2\n3,4', '2 rows × 2 columns separated by commas; without column names.'],
      ['a;b\n1,5;2\n3,25;4', '2 rows × 2 columns separated by semicolons; .*; commas read as decimal points.'],
      ['1,5\t2\n3\t,5', '2 rows × 2 columns separated by tabs; without column names; commas read as decimal points.'],
      ['1.5\t2\n3\t4', '2 rows × 2 columns separated by tabs; without column names.'],
      ['1 2\n3 4', '2 rows × 2 columns separated by spaces; without column names.'],
      ['1\n2', '2 rows × 1 column; without column names.'],
      ['a name\n1,5\n2\n3,5', '3 rows × 1 column; the first row is column names; commas read as decimal points.'],
    ] as const) {
      await enter('#paste', text);
      await expectText('#data-status', new RegExp(`^pasted numbers: ${status}$`));
    }
    expect([(await tableRow(1))[0], (await tableRow(2))[0], (await tableRow(3))[0]]).toEqual(['1.5', '2.0', '3.5']);
  });

  it('reads a comma as told where it may separate or be decimal', async () => {
    await enter('#paste', '1,5\n2,5\n3,25');
    await expectText('#data-status', '3 rows × 2 columns separated by commas');
    await page.select('#decimal-sign', 'comma');
    await expectText('#data-status', '3 rows × 1 column; without column names; commas read as decimal points');
    expect((await tableRow(3))[0]).toBe('3.25');
    await enter('#paste', '1,5 2\n3 4,5');
    await expectText('#data-status', '2 rows × 2 columns separated by spaces');
    await enter('#paste', '"1,5","2"\n"3","4,5"');
    await expectText('#data-status', '2 rows × 2 columns separated by commas; without column names; commas read');
    expect((await tableRow(2)).slice(0, 2)).toEqual(['3.0', '4.5']);
    await page.select('#decimal-sign', 'point');
    await enter('#paste', '1,5;2\n3,5;4');
    await expectText('#data-status', 'left out, not numbers: column 1 (“1,5”)');
  });

  it('reads the sample as it is, whatever was said of another table', async () => {
    await page.select('#decimal-sign', 'comma');
    await page.select('#header', 'values');
    await page.click('#iris-button');
    await expectText('#data-status', /150 rows × 4 columns.*left out, not numbers: Species/);
  });

  it('reads lines that end in CR alone', async () => {
    const { layerNorm } = await load();
    const y = layerNorm(Float32Array.of(1, 2, 4, 3, 5, 9), { shape: [2, 3] });
    for (const [name, text] of [
      ['cr.csv', '1,2,4\r3,5,9\r'],
      ['cr-lf.csv', '1,2,4\r3,5,9\n'],
      ['cr-crlf.csv', '1,2,4\r3,5,9\r\n'],
      ['cr-quoted-lf.csv', '"a\n\n\n",b,c\r1,2,4\r3,5,9\r'],
    ] as const) {
      await upload(name, text);
      await expectText('#result-summary', `${name}, 2 rows × 3 columns`);
      expectSameBits(Float32Array.from((await tableRow(2)).slice(0, 3), Number), Float32Array.of(3, 5, 9));
    }
    await upload('cr.csv', '1,2,4\r3,5,9\n');
    await expectText('#result-summary', 'of cr.csv, 2 rows × 3 columns');
    expectSameBits((await download()).y, y);
  });

  it('invites when the box is emptied', async () => {
    for (const before of ['1 2\n3 4', 'no numbers']) {
      await enter('#paste', before);
      await expectText(before === 'no numbers' ? '#data-error' : '#data-status', 'pasted numbers: ');
      for (const empty of ['', ' \n\n']) {
        await enter('#paste', empty);
        await expectText('#data-status', /^No numbers yet: paste some, choose a file, or take Fisher’s Iris\.$/);
        expect(await textOf('#data-error')).toBe('');
        expect(await page.$eval('#paste', (box) => box.getAttribute('aria-invalid'))).toBe('false');
        await expectText('#stale', /there are no numbers.*last good result: pasted numbers/);
      }
    }
    await page.click('#iris-button');
    await expectText('#result-summary', 'Iris');
    expect(await textOf('#stale')).toBe('');
  });

  it('says that a line is too long', async () => {
    // Over several of the pieces that a file is read in, but not too many.
    await upload('long.csv', '1,2,'.repeat(3 << 17));
    await expectText('#result-summary', 'long.csv, 1 row × 786,432 columns', 10_000);
    await upload('too-long.csv', `1,2\n${'1,2,'.repeat(9 << 19)}`);
    await expectText(
      '#data-error',
      /^too-long\.csv: Line 2 is longer than 16 MiB.*: line breaks are missing, or a quotation mark/,
      10_000,
    );
  });

  it('says what is wrong with a text, and where', async () => {
    await upload('empty.csv', ' \n\n');
    await expectText('#data-error', 'empty.csv: There is nothing to read: the text is empty.');
    for (const [text, message] of [
      ['no numbers here', /No column of numbers/],
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
    await choose('batch');
    await enter('#paste', '1 2 3');
    await expectText('#norm-error', /at least two rows.*ERR_RANGE/s);
    await choose('layer');
    await expectText('#result-summary', 'Layer norm of pasted numbers, 1 row × 3 columns');
  });

  it('says why y is nothing but 0 or 1', async () => {
    expect(await textOf('#alone')).toBe('');
    await enter('#paste', '1\n2\n4');
    await expectText('#alone', 'Each row has a single value, so that y is 0. Batch norm normalizes columns.');
    const ticks = await page.$$eval('#plot svg:last-of-type .tick', (texts) => texts.map((text) => text.textContent));
    expect([ticks[0], ticks[ticks.length - 1]]).toEqual(['-1', '1']);
    await choose('l2');
    await expectText('#alone', 'so that y is 1 or -1, or 0 where x is. Batch norm');
    await choose('group');
    await expectText('#alone', 'Each group has a single value, so that y is 0.');
    await choose('batch');
    await expect.poll(() => textOf('#alone')).toBe('');
  });

  it('reads an uploaded file, however it names its columns', async () => {
    await upload('people.csv', '"height, m",name,weight\n1.62,Ada,58.1\n1.80,Bob,77.4\n');
    await expectText('#result-summary', 'people.csv, 2 rows × 2 columns');
    await expectText('#data-status', /left out, not numbers: name \(“Ada”\); the download has them as they are\.$/);
    expect(await page.$$eval('#table th.before[scope=col]', (cells) => cells.map((cell) => cell.textContent))).toEqual([
      'height, m',
      'weight',
    ]);
  });

  it('downloads texts where they were, beside what became of the numbers', async () => {
    await choose('max');
    for (const [text, csv] of [
      [
        'name,height,"where, when",weight,note\nAda,1,"Ulm, 1620",-2,\n"Bo ""b""",3,x,1.5,y',
        'name,height,"where, when",weight,note\nAda,0.5,"Ulm, 1620",-1,\n"Bo ""b""",1,x,0.5,y\n',
      ],
      ['a;1,5;-3\n"b;c";8;1', 'a;0,5;-1\n"b;c";1;0,125\n'],
    ] as const) {
      await enter('#paste', text);
      await expectText('#result-summary', 'Max normalization of pasted numbers, 2 rows × 2 columns');
      expect(await downloadText()).toBe(csv);
      await page.click('#iris-button');
      await expectText('#result-summary', 'Iris');
    }
    const texts = (await downloadText()).split('\n').map((line) => line.split(',')[4]);
    expect([texts[0], texts[1], texts[150]]).toEqual(['Species', 'setosa', 'virginica']);
  });

  it('reads the encodings that spreadsheets write', async () => {
    const text = 'Höhe;Name\r\n1,5;Jörg\r\n3,0;Zoë\r\n';
    await choose('batch');
    for (const [name, bytes] of [
      ['utf-8.csv', Buffer.from(text)],
      ['utf-8-bom.csv', Buffer.from(`\ufeff${text}`)],
      ['utf-16.csv', Buffer.from(`\ufeff${text}`, 'utf16le')],
      ['windows-1252.csv', Buffer.from(text, 'latin1')],
    ] as const) {
      await upload(name, bytes);
      await expectText('#result-summary', `of ${name}, 2 rows × 1 column`);
      await expectText('#data-status', 'commas read as decimal points; left out, not numbers: Name (“Jörg”)');
      expect((await downloadText()).replace(/[-\d,]+/g, 'y')).toBe('Höhe;Name\ny;Jörg\ny;Zoë\n');
    }
    await upload('book.xlsx', Buffer.from('PK\x03\x04\x14\x00\x06\x00\x08\x00', 'latin1'));
    await expectText('#data-error', 'book.xlsx: This is not a text. In a spreadsheet program, save it as CSV.');
  });

  it('keeps texts where the pieces of a file meet', async () => {
    // Characters of three bytes, in lines whose length is no divisor of a piece's: pieces end in all places of them.
    const lines = Array.from({ length: 60_000 }, (_, i) => `${i % 9},${'€'.repeat(20)}${i % 7 === 0 ? 'x' : ''}\n`);
    await choose('max');
    await upload('long.csv', lines.join(''));
    await expectText('#result-summary', 'long.csv, 60,000 rows × 1 column', 10_000);
    // Not toEqual: for one wrong line it prints them all.
    const got = (await downloadText()).split(/(?<=\n)/);
    expect(got.length).toBe(lines.length);
    expect(got.findIndex((line, i) => line !== lines[i]?.replace(/^[1-9]/, '1'))).toBe(-1);
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
      '0.00e0',
    ]);
  });

  it('writes the numbers of a column with the same number of decimals', async () => {
    /** Of all rows, and how the browser sets them. */
    const column = (number: number) =>
      page.$$eval(`#table tbody td:nth-of-type(${number})`, (cells) => cells.map((cell) => cell.textContent ?? ''));
    const decimals = async (number: number) => [
      ...new Set((await column(number)).map((text) => text.split('.')[1]?.length)),
    ];
    // Sepals and petals, mean and deviation, before and after.
    const ofColumns = [];
    for (let number = 1; number <= 12; number++) ofColumns.push(await decimals(number));
    expect(ofColumns).toEqual([1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4].map((n) => [n]));
    // Rounding leaves means of about 1e-8, of both signs.
    expect(new Set(await column(11))).toEqual(new Set(['0.0000']));
    const styles = await page.$$eval('#table tbody td', (cells) =>
      cells.map((cell) => `${getComputedStyle(cell).textAlign} ${getComputedStyle(cell).fontVariantNumeric}`),
    );
    expect(new Set(styles)).toEqual(new Set(['right tabular-nums']));

    await choose('max');
    await enter('#paste', '5 1234567 0.12345678 1e-7\n-0.25 2 12345.5 2e-5\n1 3 1 3e-7');
    await expectText('#result-summary', '3 rows × 4 columns');
    expect(await column(1)).toEqual(['5.00', '-0.25', '1.00']);
    expect(await column(2)).toEqual(['1234567', '2', '3']);
    expect(await column(3)).toEqual(['0.1235', '12345.5000', '1.0000']);
    expect(await column(4)).toEqual(['1.00e-7', '2.00e-5', '3.00e-7']);
    expect(await column(5)).toEqual(['1.23e6', '1.23e4', '3.00e0']);
    expect(await column(6)).toEqual(['0.0000', '0.0000', '0.3333']);
  });

  it('shows the first rows of a large file', async () => {
    const rows = 60_000;
    await upload('large.csv', Array.from({ length: rows }, (_, i) => `${i},${(i * 7919) % 1000},${i % 7}\n`).join(''));
    await expectText('#result-summary', 'large.csv, 60,000 rows × 3 columns');
    await expectText('#table-note', 'the first 150 of 60,000 rows');
    await choose('batch');
    await expectText('#result-summary', 'Batch norm');
    const x = Float32Array.from({ length: rows * 3 }, (_, k) => {
      const i = Math.floor(k / 3);
      return [i, (i * 7919) % 1000, i % 7][k % 3] as number;
    });
    const { batchNormTraining } = await load();
    expectSameBits((await download()).y, batchNormTraining(x, { shape: [rows, 3] }).y);
  });

  it('fits a phone', async () => {
    await page.setViewport({ width: 390, height: 844 });
    for (const norm of ['layer', 'rms', 'l2', 'l1', 'max', 'group', 'batch']) {
      await choose(norm);
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
    }
  });
});

it('says so when the module cannot be loaded', async () => {
  await open((page) => page.evaluateOnNewDocument(() => Reflect.deleteProperty(globalThis, 'WebAssembly')));
  await expectText('#load-error', /could not be loaded.*ERR_(LOAD|UNSUPPORTED)/s);
});
