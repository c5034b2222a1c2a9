// Makes dist/ from the TypeScript here and from the module and glue that CMake has built.

import { execFileSync } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const { version } = JSON.parse(readFileSync(path('../package.json'), 'utf8'));

/**
 * The module as a string, not as bytes: importing the package must do nothing, not even decode. Each byte is one
 * character, the less frequent ones two, so that compression finds in it what it finds in the bytes: gzipped it is as
 * small as they are (hexadecimal digits are a tenth more, base64 is half as much again), and no tool has to escape
 * anything in it. index.ts reads it.
 */
function encode(bytes) {
  const counts = new Map();
  for (const byte of bytes) counts.set(byte, (counts.get(byte) ?? 0) + 1);
  const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || a - b);
  const characters = Array.from({ length: 90 }, (_, i) => String.fromCharCode(37 + i)).filter(
    (c) => !"'\\`".includes(c),
  );
  const size = characters.length;
  const codes = new Map(order.map((byte, i) => [byte, ['', ' ', '!'][Math.floor(i / size)] + characters[i % size]]));
  const text = Array.from(bytes, (byte) => codes.get(byte)).join('');
  return { length: bytes.length, order: Buffer.from(order).toString('hex'), text };
}
const embeddedWasm = {
  name: 'embedded wasm',
  setup({ onLoad }) {
    onLoad({ filter: /\.wasm$/ }, ({ path }) => ({
      contents: JSON.stringify(encode(readFileSync(path))),
      loader: 'json',
    }));
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
  minify: false,
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
