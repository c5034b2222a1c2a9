// What the package is tried in. A row is a target; CONTRIBUTING.md says how to add one.

import { join } from 'node:path';
import { chromium, type Engine, firefox } from './engines.ts';
import { develop, type Site, serve } from './serve.ts';
import { webKit } from './webkit.ts';

/** The entries of the package. */
export const entries = ['simdnorm', 'simdnorm/streaming'];

/** `quick`: `npm test` has it too. `npm run test:matrix` has everything. */
interface Target {
  name: string;
  quick?: boolean;
}

export interface Runtime extends Target {
  /** Prints the hash of all bits in its last line. */
  command: string;
}

// Node is in package.test.ts.
export const runtimes: readonly Runtime[] = [
  { name: 'Bun', quick: true, command: 'bun print.js' },
  { name: 'Deno', quick: true, command: 'deno run --allow-read=. print.js' },
  {
    name: 'workerd',
    // As wrangler, which deploys to Cloudflare, does it: the WebAssembly stays a module of its own.
    command:
      'esbuild workerd.js --bundle --format=esm --conditions=workerd --loader:.wasm=copy --asset-names=[name] ' +
      '--outdir=dist --log-level=warning && workerd test workerd.capnp',
  },
];

export interface Bundler extends Target {
  /** In a folder with page.js, and an index.html that has it as its script. */
  command?: string;
  /** Of bundlers that know no pages: the script tag for what they make. */
  script?: string;
  /** What it takes beforehand to find simdnorm/streaming, or the .wasm that belongs beside it. */
  streaming?: string;
  open(folder: string): Promise<Site>;
}

const dist = (folder: string) => serve(join(folder, 'dist'));
const classic = { script: '<script src="dist/main.js" defer></script>', open: serve };
const modern = {
  script: '<script src="dist/page.js" type="module"></script>',
  streaming: 'mkdir dist && cp node_modules/simdnorm/dist/simdnorm.wasm dist',
  open: serve,
};

// With their default settings; each makes `dist`.
export const bundlers: readonly Bundler[] = [
  { name: 'Vite', quick: true, command: 'vite build', open: dist },
  { name: "Vite's development server", open: develop },
  { name: 'webpack', command: 'webpack --entry ./page.js', ...classic },
  { name: 'Rspack', command: 'rspack build --entry ./page.js', ...classic },
  { name: 'Rollup', command: 'rollup page.js --dir dist --plugin node-resolve', ...modern },
  { name: 'esbuild', command: 'esbuild page.js --bundle --format=esm --outdir=dist', ...modern },
  {
    name: 'Parcel',
    command: 'parcel build index.html',
    // By default it does not look at a package's exports.
    streaming: "npm pkg set --json '@parcel/resolver-default.packageExports=true'",
    open: dist,
  },
];

export interface Page extends Target {
  script: string;
  imports: 'name' | 'path';
  policy?: string;
}

/** As strict as a page with WebAssembly can be. */
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";

export const pages: readonly Page[] = [
  { name: 'a page', quick: true, script: 'page.js', imports: 'path' },
  { name: 'a page with an import map', script: 'page.js', imports: 'name' },
  { name: 'a page under a strict policy', script: 'page.js', imports: 'path', policy },
  { name: 'a module worker', script: 'start-worker.js', imports: 'path', policy },
  { name: 'a service worker', script: 'start-service-worker.js', imports: 'path', policy },
];

export interface Browser extends Target {
  launch(): Promise<Engine>;
}

export const engines: readonly Browser[] = [
  { name: 'Chromium', quick: true, launch: chromium },
  { name: 'Firefox', launch: firefox },
  { name: 'WebKit', launch: webKit },
];
