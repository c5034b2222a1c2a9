// The reference as its readers find it: from the page, in Chromium, under the page's policy.

import { join } from 'node:path';
import type { Browser, Page } from 'puppeteer-core';
import ts from 'typescript';
import { type PreviewServer, preview } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { repository } from '../js/child.ts';
import { launchChromium } from './chromium.ts';

let server: PreviewServer;
let browser: Browser;
let page: Page;
const problems: string[] = [];

beforeAll(async () => {
  server = await preview({
    configFile: join(repository, 'web', 'vite.config.ts'),
    preview: { port: 0, host: '127.0.0.1' },
  });
  browser = await launchChromium();
  page = await browser.newPage();
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (['error', 'warn'].includes(message.type())) problems.push(`${page.url()}: ${message.text()}`);
  });
  await page.goto(server.resolvedUrls?.local[0] as string);
  await Promise.all([page.waitForNavigation(), page.click('.page-header a')]);
  await page.waitForSelector('#tsd-nav-container details a');
}, 30_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
});

/** What the package exports, and what load() gives. */
function documented(): { exports: string[]; members: string[] } {
  const file = join(repository, 'dist', 'index.d.ts');
  const program = ts.createProgram([file], { target: ts.ScriptTarget.ES2022, moduleResolution: 100 });
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(file) as ts.SourceFile;
  const symbols = checker.getExportsOfModule(checker.getSymbolAtLocation(source) as ts.Symbol);
  const instance = symbols.find(({ name }) => name === 'Simdnorm') as ts.Symbol;
  const nameOf = ({ name }: ts.Symbol) => name;
  return {
    exports: symbols.map(nameOf),
    members: checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(instance)).map(nameOf),
  };
}

/** The names in the navigation, and where they lead, by category. */
async function navigation(): Promise<Record<string, Record<string, string>>> {
  return page.$$eval('#tsd-nav-container details', (categories) =>
    Object.fromEntries(
      categories.map((category) => [
        category.querySelector('summary')?.textContent?.trim(),
        Object.fromEntries([...category.querySelectorAll('a')].map((link) => [link.textContent?.trim(), link.href])),
      ]),
    ),
  );
}

test('its first page is the README, whose links lead somewhere', async () => {
  expect(await page.$eval('.col-content', (element) => element.textContent)).toContain('npm install simdnorm');
  const broken = await page.$$eval('.col-content a[href^="#"]', (links) =>
    links
      .map((link) => (link.getAttribute('href') as string).slice(1))
      .filter((place) => place && !document.getElementById(place)),
  );
  expect(broken).toEqual([]);
  // Its tables are wide, the page is not.
  const excess = await page.$eval('html', ({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  expect(excess).toBe(0);
});

test('the list of all functions says what each is, in a sentence', async () => {
  const { members } = documented();
  await page.goto(new URL('modules.html', page.url()).href);
  const summaries = await page.$$eval('.tsd-member-summaries dt a:first-of-type', (links) =>
    links.map((link) => [link.textContent, link.closest('dt')?.nextElementSibling?.textContent?.trim()]),
  );
  const sentences = Object.fromEntries(summaries);
  const functions = members.filter((name) => !['memory', 'version', 'dispose'].includes(name));
  expect(functions.length).toBeGreaterThan(20);
  for (const name of functions) expect(sentences[name], name).toMatch(/^[A-Z].{15,}\.$/s);
});

/** Of the functions: what their documentation has, in this order, and behind it an example. */
const contents = ['Shapes', 'Buffers', 'Errors', 'Accuracy', 'Cost', 'Edge cases', 'Source'];

test('everything that is exported is in the navigation, in its category', async () => {
  const found = await navigation();
  expect(Object.keys(found)).toEqual(['Loading', 'Operations', 'Gradients', 'Layers', 'Tensors', 'Errors', 'Types']);
  const { exports, members } = documented();
  const names = Object.values(found).flatMap((category) => Object.keys(category));
  // These two are what Simdnorm consists of, and these three are on its own page.
  const expected = [...exports, ...members].filter((name) => !['Operations', 'Layers'].includes(name));
  const own = ['memory', 'version', 'dispose'];
  expect(names.sort()).toEqual(expected.filter((name) => !own.includes(name)).sort());
  expect(Object.keys(found.Operations as object).sort()).toEqual(
    members
      .filter((name) => /^[a-z].*(Norm|Training|Normalize)$|^moments$/.test(name) && name !== 'foldBatchNorm')
      .sort(),
  );
  expect(Object.keys(found.Gradients as object).sort()).toEqual(
    members.filter((name) => name.endsWith('Backward')).sort(),
  );
});

test('each has a page, and those of functions and layers say all that is to be known', async () => {
  for (const [category, pages] of Object.entries(await navigation())) {
    for (const [name, url] of Object.entries(pages)) {
      const response = await page.goto(url);
      expect(response?.status(), name).toBe(200);
      expect(await page.$eval('h1', (heading) => heading.textContent)).toContain(name);
      const isDescribed =
        ['Operations', 'Gradients', 'Layers'].includes(category) && !/^(Batch\w*|)Layer|^LayerClass/.test(name);
      if (!isDescribed) continue;
      const text = await page.$eval('.col-content', (element) => element.textContent ?? '');
      const places = contents.map((title) => text.search(new RegExp(title, 'i')));
      expect(places, name).toEqual([...places].sort((a, b) => a - b));
      expect(places, name).not.toContain(-1);
      const [formula, example] = await page.$$eval('.col-content pre code', (codes) => [
        codes[0]?.textContent,
        codes.at(-1)?.textContent,
      ]);
      expect(formula, name).toContain(' = ');
      expect(example, name).toContain("import { load } from 'simdnorm'");
    }
  }
});

test('it leads back to the page, and nothing was refused on the way', async () => {
  await Promise.all([page.waitForNavigation(), page.click('.site-menu > a')]);
  expect(await page.$eval('h1', (heading) => heading.textContent)).toBe('simdnorm');
  expect(problems).toEqual([]);
});
