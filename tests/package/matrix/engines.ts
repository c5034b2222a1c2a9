// Browsers that open a page and wait for its title.

import { setTimeout as sleep } from 'node:timers/promises';
import puppeteer, { type Browser } from 'puppeteer-core';
import { launchChromium } from '../../browser/chromium.ts';

export interface Engine {
  /** Opens a page, and waits for a title other than 'waiting'. */
  titleOf(url: string): Promise<string>;
  close(): Promise<unknown>;
}

/** Asks for the title until it is no longer 'waiting'. */
export async function settled(title: () => Promise<string>, problems: () => string): Promise<string> {
  const end = Date.now() + 20_000;
  for (;;) {
    const text = await title();
    if (text !== 'waiting') return text;
    if (Date.now() > end) throw new Error(`the page said nothing; in its console: ${problems()}`);
    await sleep(20);
  }
}

function throughPuppeteer(browser: Browser): Engine {
  return {
    async titleOf(url) {
      const page = await browser.newPage();
      const problems: string[] = [];
      page.on('pageerror', (error) => problems.push(String(error)));
      page.on('console', (message) => problems.push(message.text()));
      await page.goto(url);
      const title = await settled(
        () => page.title(),
        () => problems.join('\n'),
      );
      await page.close();
      return title;
    },
    close: () => browser.close(),
  };
}

export async function chromium(): Promise<Engine> {
  return throughPuppeteer(await launchChromium());
}

export async function firefox(): Promise<Engine> {
  const executablePath = process.env.FIREFOX ?? '/usr/bin/firefox-esr';
  return throughPuppeteer(await puppeteer.launch({ browser: 'firefox', executablePath }));
}
