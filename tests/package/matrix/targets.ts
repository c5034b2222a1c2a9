// What the package is tried in. A row is a target; CONTRIBUTING.md says how to add one.

import { join } from 'node:path';
import { chromium, type Engine, firefox } from './engines.ts';
import { develop, type Site, serve } from './serve.ts';
import { webKit } from './webkit.ts';

/** The entries of the package. */
export const entries = ['simdnorm', 'simdnorm/streaming'];

interface Target {
  name: string;
  /** `npm test` tries it too. `npm run test:matrix` tries everything. */
  quick?: boolean;
}

/** With SIMDNORM_MATRIX=whole all targets, else those that are quick. */
export function chosen<T extends Target>(targets: readonly T[]): readonly T[] {
  return process.env.SIMDNORM_MATRIX === 'whole' ? targets : targets.filter(({ quick }) => quick);
}

export interface Runtime extends Target {
  /** Prints the hash of all bits in its last line. */
  command: string;
}

// Node is in node.test.ts.
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
  /** Whether it brings along a worker that the page starts. */
  workers?: boolean;
  open(folder: string): Promise<Site>;
}

const dist = (folder: string) => serve(join(folder, 'dist'));
const classic = { script: '<script src="dist/main.js" defer></script>', workers: true, open: serve };
const modern = {
  script: '<script src="dist/page.js" type="module"></script>',
  streaming: 'mkdir dist && cp node_modules/simdnorm/dist/simdnorm.wasm dist',
  open: serve,
};

// With their default settings; each makes `dist`.
export const bundlers: readonly Bundler[] = [
  { name: 'Vite', quick: true, command: 'vite build', workers: true, open: dist },
  { name: "Vite's development server", workers: true, open: develop },
  { name: 'webpack', command: 'webpack --entry ./page.js', ...classic },
  { name: 'Rspack', command: 'rspack build --entry ./page.js', ...classic },
  { name: 'Rollup', command: 'rollup page.js --dir dist --plugin node-resolve', ...modern },
  { name: 'esbuild', command: 'esbuild page.js --bundle --format=esm --outdir=dist', ...modern },
  {
    name: 'Parcel',
    command: 'parcel build index.html',
    // By default it does not look at a package's exports.
    streaming: "npm pkg set --json '@parcel/resolver-default.packageExports=true'",
    workers: true,
    open: dist,
  },
];

export interface Page extends Target {
  script: string;
  imports: 'name' | 'path';
  policy?: string;
  /** The error that is right, where the page must not compute. */
  refusal?: RegExp;
}

/** As strict as a page with WebAssembly can be. */
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'";

export const pages: readonly Page[] = [
  { name: 'a page', script: 'page.js', imports: 'path' },
  { name: 'a page with an import map', script: 'page.js', imports: 'name' },
  { name: 'a page under a strict policy', quick: true, script: 'page.js', imports: 'path', policy },
  {
    name: 'a page whose policy forbids WebAssembly',
    script: 'page.js',
    imports: 'path',
    policy: "script-src 'self'",
    refusal: /^error: NormError: .*'wasm-unsafe-eval'/,
  },
  { name: 'a module worker', quick: true, script: 'start-worker.js', imports: 'path', policy },
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
