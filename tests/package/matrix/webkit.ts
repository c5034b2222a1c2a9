// WebKit as Debian builds it: MiniBrowser, which speaks WebDriver and needs a display.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Engine, settled } from './engines.ts';

async function miniBrowser(): Promise<string> {
  for (const triplet of await readdir('/usr/lib')) {
    const files: string[] = await readdir(`/usr/lib/${triplet}/webkit2gtk-4.1`).catch(() => []);
    if (files.includes('MiniBrowser')) return `/usr/lib/${triplet}/webkit2gtk-4.1/MiniBrowser`;
  }
  throw new Error('no MiniBrowser in /usr/lib: .ci/setup matrix installs it');
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a display that nobody sees, which writes its number when it is ready, and the driver on it. */
async function startDriver(port: number): Promise<ChildProcess[]> {
  const display = spawn('Xvfb', ['-displayfd', '3', '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  const [number] = await once(display.stdio[3] as Readable, 'data');
  const env = { ...process.env, DISPLAY: `:${String(number).trim()}` };
  return [display, spawn('WebKitWebDriver', [`--port=${port}`], { env, stdio: 'ignore' })];
}

/** A request of the kind that https://www.w3.org/TR/webdriver2 has. */
async function ask(url: string, method: string, body?: object): Promise<unknown> {
  const response = await fetch(url, { method, body: body && JSON.stringify(body) });
  const { value } = (await response.json()) as { value: unknown };
  if (!response.ok) throw new Error(`${method} ${url}: ${JSON.stringify(value)}`);
  return value;
}

/** Starts a session as soon as the driver answers. */
async function startSession(url: string, capabilities: object): Promise<string> {
  for (let tries = 200; ; --tries) {
    const answer = await fetch(`${url}/status`).catch(() => undefined);
    if (answer) break;
    if (tries === 0) throw new Error('WebKitWebDriver does not answer');
    await sleep(50);
  }
  const { sessionId } = (await ask(`${url}/session`, 'POST', { capabilities })) as { sessionId: string };
  return `${url}/session/${sessionId}`;
}

export async function webKit(): Promise<Engine> {
  const options = { binary: await miniBrowser(), args: ['--automation'] };
  const port = await freePort();
  const processes = await startDriver(port);
  const stop = () => processes.map((child) => child.kill());
  try {
    const capabilities = { alwaysMatch: { 'webkitgtk:browserOptions': options } };
    const session = await startSession(`http://127.0.0.1:${port}`, capabilities);
    return {
      async titleOf(url) {
        await ask(`${session}/url`, 'POST', { url });
        const title = async () => String(await ask(`${session}/title`, 'GET'));
        return settled(title, () => 'WebDriver does not say');
      },
      async close() {
        await ask(session, 'DELETE');
        stop();
      },
    };
  } catch (error) {
    stop();
    throw error;
  }
}
