// The same cases in Debian's Chromium, in a page that Vite's development server hands out as it is.

import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';

const root = fileURLToPath(new URL('../..', import.meta.url));

function startServer() {
  return createServer({
    configFile: false,
    root,
    cacheDir: 'build/bench',
    logLevel: 'error',
    // The peer without what WebGPU needs, which the entry of the main name downloads too.
    resolve: { alias: { 'onnxruntime-web': 'onnxruntime-web/wasm' } },
    optimizeDeps: {
      // What is found only when the page asks for it makes Vite load the page anew.
      entries: [],
      include: ['@tensorflow/tfjs-backend-wasm', '@tensorflow/tfjs-core', 'onnx-proto'],
      // It looks for its wasm file beside itself.
      exclude: ['onnxruntime-web'],
    },
    server: {
      host: '127.0.0.1',
      port: 0,
      hmr: false,
      watch: null,
      // Clocks have 5 microseconds where pages are isolated, and 100 elsewhere.
      headers: { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' },
    },
  });
}

/** { version, measure(case, limits), close() } */
export async function openBrowser() {
  const server = await startServer();
  let browser;
  const close = async () => {
    await browser?.close();
    await server.close();
  };
  try {
    await server.listen();
    const { launchChromium } = await server.ssrLoadModule('/tests/browser/chromium.ts');
    browser = await launchChromium();
    const page = await browser.newPage();
    const problems = [];
    page.on('pageerror', (error) => problems.push(error));
    await page.goto(`${server.resolvedUrls.local[0]}tests/bench/page.html`);
    await page
      .waitForFunction(() => 'measure' in globalThis)
      .catch((error) => {
        throw problems[0] ?? error;
      });
    return {
      version: await browser.version(),
      measure: (each, limits) => page.evaluate((...given) => globalThis.measure(...given), each, limits),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
