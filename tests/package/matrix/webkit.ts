// WebKit as Debian builds it: MiniBrowser, which speaks WebDriver and needs a display.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Engine, settled } from './engines.ts';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a display that nobody sees, which writes its number when it is ready. */
async function startDisplay(processes: ChildProcess[]): Promise<string> {
  const display = spawn('Xvfb', ['-displayfd', '3', '-nolisten', 'tcp'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  processes.push(display);
  await once(display, 'spawn');
  const [number] = await once(display.stdio[3] as Readable, 'data');
  return `:${String(number).trim()}`;
}

async function startDriver(processes: ChildProcess[], DISPLAY: string): Promise<string> {
  const port = await freePort();
  const env = { ...process.env, DISPLAY };
  const driver = spawn('WebKitWebDriver', [`--port=${port}`], { env, stdio: 'ignore' });
  processes.push(driver);
  await once(driver, 'spawn');
  return `http://127.0.0.1:${port}`;
}

/** A request of the kind that https://www.w3.org/TR/webdriver2 has. */
async function ask(url: string, method: string, body?: object): Promise<unknown> {
  const response = await fetch(url, { method, body: body && JSON.stringify(body) });
  const { value } = (await response.json()) as { value: unknown };
  if (!response.ok) throw new Error(`${method} ${url}: ${JSON.stringify(value)}`);
  return value;
}

/** Starts a session as soon as the driver answers. */
async function startSession(url: string): Promise<string> {
  for (let tries = 200; ; --tries) {
    const answer = await fetch(`${url}/status`).catch(() => undefined);
    if (answer) break;
    if (tries === 0) throw new Error('WebKitWebDriver does not answer');
    await sleep(50);
  }
  const { sessionId } = (await ask(`${url}/session`, 'POST', { capabilities: {} })) as { sessionId: string };
  return `${url}/session/${sessionId}`;
}

export async function webKit(): Promise<Engine> {
  const processes: ChildProcess[] = [];
  const stop = () => processes.map((child) => child.kill());
  try {
    const display = await startDisplay(processes);
    const session = await startSession(await startDriver(processes, display));
    return {
      async titleOf(url) {
        await ask(`${session}/url`, 'POST', { url });
        const title = async () => String(await ask(`${session}/title`, 'GET'));
        return settled(title, () => 'WebDriver does not say');
      },
      close: () => ask(session, 'DELETE').finally(stop),
    };
  } catch (error) {
    stop();
    throw error;
  }
}
