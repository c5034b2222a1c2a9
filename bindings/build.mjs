// Makes dist/ from the TypeScript here and from the module and glue that CMake has built.

import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const { version } = JSON.parse(readFileSync(path('../package.json'), 'utf8'));

/**
 * The module as a string, not as bytes: importing the package must do nothing, not even decode. In hexadecimal digits,
 * of which compression finds what repeats in bytes: a quarter less, gzipped, than of base64.
 */
const embeddedWasm = {
  name: 'embedded wasm',
  setup({ onLoad }) {
    onLoad({ filter: /\.wasm$/ }, ({ path }) => ({ contents: readFileSync(path, 'hex'), loader: 'text' }));
  },
};

rmSync(path('../dist'), { recursive: true, force: true });
await build({
  entryPoints: [path('index.ts')],
  outfile: path('../dist/index.js'),
  bundle: true,
  format: 'esm',
  platform: 'neutral',
  target: 'es2022',
  plugins: [embeddedWasm],
  minify: true,
  sourcemap: 'linked',
  define: { SIMDNORM_VERSION: JSON.stringify(version) },
  legalComments: 'inline',
  logLevel: 'warning',
});
// For debuggers: the TypeScript's own text, not that of the module and its glue.
const map = JSON.parse(readFileSync(path('../dist/index.js.map'), 'utf8'));
map.sourcesContent = map.sourcesContent.map((text, i) => (map.sources[i].endsWith('.ts') ? text : null));
writeFileSync(path('../dist/index.js.map'), JSON.stringify(map));
execFileSync(process.execPath, [path('../node_modules/typescript/bin/tsc'), '-p', path('tsconfig.json')], {
  stdio: 'inherit',
});
// Declarations of what the entry's own can't reach are nobody's business.
const published = ['index.d.ts', 'types.d.ts', 'errors.d.ts', 'index.js', 'index.js.map'];
for (const file of readdirSync(path('../dist'))) if (!published.includes(file)) rmSync(path(`../dist/${file}`));
copyFileSync(path('../build/wasm/bindings/simdnorm.wasm'), path('../dist/simdnorm.wasm'));
