// Makes dist/ from the TypeScript here and from the module and glue that CMake has built.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { rolldown } from 'rolldown';

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const { version } = JSON.parse(readFileSync(path('../package.json'), 'utf8'));

/**
 * The module with a custom section that says its version, which compile.ts compares with its own. It is the last one: of
 * a file that was cut short it is missing.
 */
function versioned(bytes) {
  const section = Buffer.from(`\x08simdnorm${version}`);
  return Buffer.concat([bytes, Buffer.from([0, section.length]), section]);
}
const wasm = versioned(readFileSync(path('../build/wasm/bindings/simdnorm.wasm')));

/**
 * The module as a string, not as bytes: importing the package must do nothing, not even decode. Each byte is one
 * character, the less frequent ones two, so that compression finds in it what it finds in the bytes: gzipped it is as
 * small as they are (hexadecimal digits are a tenth more, base64 is half as much again), and no tool has to escape
 * anything in it. In front is a table of the bytes that the characters stand for, by two letters each. decode.cpp, which
 * comes as the list of its bytes, reads both.
 */
function encode(bytes) {
  const counts = new Map();
  for (const byte of bytes) counts.set(byte, (counts.get(byte) ?? 0) + 1);
  const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || a - b);
  const letters = (number) => String.fromCharCode(97 + (number >> 4), 97 + (number & 15));
  const codes = new Map();
  let table = '';
  for (const first of ['', ' ', '!']) {
    for (let i = 37; i < 127; ++i) {
      const second = String.fromCharCode(i);
      const byte = "'\\`".includes(second) ? undefined : order.shift();
      if (byte !== undefined) codes.set(byte, first + second);
      table += letters(byte ?? 0);
    }
  }
  const text = table + Array.from(bytes, (byte) => codes.get(byte)).join('');
  const decoder = [...readFileSync(path('../build/wasm/bindings/decode.wasm'))];
  return { decoder, begin: table.length, text };
}
const wasmImports = {
  name: 'wasm imports',
  resolveId: (id) => (id === './simdnorm.wasm' ? { id, external: true } : null),
  load: (id) => (id.endsWith('.wasm') ? { code: JSON.stringify(encode(wasm)), moduleType: 'json' } : null),
};

/** Entries that are built together share a file. Rolldown leaves constants constant, of which V8 makes faster calls. */
async function bundle(...names) {
  const program = await rolldown({
    input: names.map((name) => path(`${name}.ts`)),
    platform: 'neutral',
    plugins: [wasmImports],
    transform: { target: 'es2022', define: { SIMDNORM_VERSION: JSON.stringify(version) } },
  });
  const { output } = await program.generate({ dir: path('../dist'), chunkFileNames: 'core.js', sourcemap: 'inline' });
  for (const { fileName, code } of output) {
    const minified = await transform(code, {
      target: 'es2022',
      minify: true,
      // Node prints the whole line in which an uncaught error was thrown. Shorter ones would cut the module's text in more
      // pieces, which compress worse.
      lineLimit: 2000,
      sourcemap: true,
      legalComments: 'inline',
    });
    writeFileSync(path(`../dist/${fileName}`), `${minified.code}//# sourceMappingURL=${fileName}.map\n`);
    writeFileSync(path(`../dist/${fileName}.map`), minified.map);
  }
}

rmSync(path('../dist'), { recursive: true, force: true });
mkdirSync(path('../dist'));
// The main entry is one file, which nothing can go missing from.
await bundle('index');
await bundle('streaming', 'workerd');
execFileSync(process.execPath, [path('../node_modules/typescript/bin/tsc'), '-p', path('tsconfig.json')], {
  stdio: 'inherit',
});
writeFileSync(path('../dist/simdnorm.wasm'), wasm);

// Declarations of what the entries' own can't reach are nobody's business.
const declarations = ['index.d.ts', 'types.d.ts', 'errors.d.ts'];
for (const name of readdirSync(path('../dist'))) {
  const file = path(`../dist/${name}`);
  if (name.endsWith('.d.ts') && !declarations.includes(name)) rmSync(file);
  if (!name.endsWith('.map')) continue;
  // For debuggers: the TypeScript's own text, not that of the module and its glue.
  const map = JSON.parse(readFileSync(file, 'utf8'));
  map.sourcesContent = map.sourcesContent.map((text, i) => (map.sources[i].endsWith('.ts') ? text : null));
  writeFileSync(file, JSON.stringify(map));
}
