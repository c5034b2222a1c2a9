import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

const emptyStyle = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";

/** Says where the reference is too. */
const printReference: Plugin = {
  name: 'print-reference',
  configurePreviewServer(server) {
    const { printUrls } = server;
    server.printUrls = () => {
      printUrls();
      const [page] = server.resolvedUrls?.local ?? [];
      if (page) server.config.logger.info(`  ➜  Reference: ${new URL('api/modules.html', page)}`);
    };
  },
};

export default defineConfig({
  root: here('.'),
  plugins: [printReference],
  // Relative, so that the built folder works under any path of any host.
  base: './',
  resolve: { alias: { simdnorm: here('../dist/index.js') } },
  build: {
    outDir: here('../build/web'),
    emptyOutDir: true,
    // A data: URL would need an exception in the policy below.
    assetsInlineLimit: 0,
  },
  server: { headers: isolation, fs: { allow: [here('..')] } },
  preview: {
    headers: {
      ...isolation,
      // As strict as a page with WebAssembly can be. The development server cannot live under it: it injects styles. The
      // hash is that of an empty style, which the reference's script adds.
      'Content-Security-Policy': `default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' ${emptyStyle}`,
    },
  },
});
