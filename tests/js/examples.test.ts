// Every example in the documentation is run, and where it says a value in a comment behind a statement, has it:
//
//   y; // [1, 2, 3]

import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { transform } from 'esbuild';
import { load } from 'simdnorm';
import ts from 'typescript';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chromium } from '../package/matrix/engines.ts';
import { html, serve } from '../package/matrix/serve.ts';
import { repository, runNode } from './child.ts';

interface Block {
  /** Where it is, for people. */
  readonly title: string;
  readonly language: string;
  readonly source: string;
}

const fence = /^```(\w+)[^\n]*\n([\s\S]*?)^```/gm;

function blocksOf(markdown: string, file: string, languages: readonly string[]): Block[] {
  return [...markdown.matchAll(fence)]
    .filter(([, language]) => languages.includes(language as string))
    .map(([, language, source], i) => ({ title: `${file} ${i + 1}`, language, source }) as Block);
}

/** The code blocks behind `@example`, and how often that is written. */
function examplesOf(file: string): { blocks: Block[]; tags: number } {
  const comments = readFileSync(join(repository, file), 'utf8').match(/\/\*\*[\s\S]*?\*\//g) ?? [];
  const examples = comments
    .map((comment) => comment.replaceAll(/^\s*\*( |$)/gm, ''))
    .flatMap((comment) => comment.split('@example').slice(1))
    .join('\n');
  const tags = comments.join('').split('@example').length - 1;
  return { blocks: blocksOf(examples, file, ['ts', 'js', 'tsx', 'typescript', 'javascript']), tags };
}

const bindings = readdirSync(join(repository, 'bindings'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => examplesOf(join('bindings', file)));
const documented = bindings.flatMap(({ blocks }) => blocks);

function readmeBlocks(): Block[] {
  try {
    const readme = readFileSync(join(repository, 'README.md'), 'utf8');
    return blocksOf(readme, 'README.md', ['js', 'ts', 'mjs', 'javascript', 'typescript']);
  } catch {
    // A test below says that it is missing.
    return [];
  }
}
const readme = readmeBlocks();

/** The name of a file of a page, which says it in its first line: `// page.js`. Other blocks are programs. */
function fileOfPage({ source }: Block): string | undefined {
  return source.match(/^\/\/ (\S+\.js)\n/)?.[1];
}
const programs = readme.filter((block) => !fileOfPage(block));
const pageFiles = readme.filter(fileOfPage);

/** The JSON in a comment, if it is meant to be some. */
function claimIn(comment: string): string | undefined {
  const text = comment
    .replace(/^\/\/\s*/, '')
    .replace(/^Float(32|64)Array(\(\d+\))? /, '')
    .trim();
  try {
    JSON.parse(text);
    return text;
  } catch {
    // Otherwise a slip of the pen would turn a claim into prose that nobody checks.
    if (/^[[{]/.test(text)) throw new Error(`this comment is no JSON: ${comment}`);
    return undefined;
  }
}

/** The example with its claims made calls of `claim(line, value, expected)`. */
function withClaims(source: string): { source: string; claims: number } {
  const file = ts.createSourceFile('example.ts', source, ts.ScriptTarget.ES2022, true);
  const edits: [start: number, end: number, text: string][] = [];
  let claims = 0;
  const visit = (node: ts.Node): void => {
    ts.forEachChild(node, visit);
    if (!ts.isExpressionStatement(node) && !ts.isVariableStatement(node)) return;
    const comment = ts.getTrailingCommentRanges(source, node.end)?.[0];
    const json = comment && claimIn(source.slice(comment.pos, comment.end));
    if (json === undefined) return;
    const number = claims++;
    if (ts.isVariableStatement(node)) {
      const name = node.declarationList.declarations.at(-1)?.name.getText(file);
      edits.push([node.end, node.end, ` claim(${number}, ${name}, ${json});`]);
      return;
    }
    const { expression } = node;
    const isLog = ts.isCallExpression(expression) && expression.expression.getText(file) === 'console.log';
    const value = isLog ? expression.arguments.map((each) => each.getText(file)).join() : expression.getText(file);
    edits.push([expression.getStart(file), expression.end, `claim(${number}, (${value}), ${json})`]);
  };
  visit(file);
  edits.sort(([a], [b]) => b - a);
  let result = source;
  for (const [start, end, text] of edits) result = result.slice(0, start) + text + result.slice(end);
  return { source: result, claims };
}

/** Numbers to 1e-6, relatively; typed arrays as arrays. */
const claimFunction = `
const claimed = new Set();
process.on('exit', () => process.stdout.write('\\nclaims: ' + claimed.size));
function isClose(got, expected) {
  if (typeof expected === 'number') {
    return typeof got === 'number' && Math.abs(got - expected) <= 1e-6 * Math.abs(expected);
  }
  if (typeof expected !== 'object' || expected === null) return got === expected;
  if (typeof got !== 'object' || got === null) return false;
  if (Array.isArray(expected) && !(Array.isArray(got) || ArrayBuffer.isView(got))) return false;
  const names = Object.keys(expected);
  return Object.keys(got).length === names.length && names.every((name) => isClose(got[name], expected[name]));
}
function claim(number, got, expected) {
  claimed.add(number);
  if (!isClose(got, expected)) {
    const values = ArrayBuffer.isView(got) ? [...got] : got;
    throw new Error('it says ' + JSON.stringify(expected) + ', but it is ' + JSON.stringify(values));
  }
}
`;

let next = 0;
/** Inside the repository, where the package's name stands for itself. */
const modules = join(repository, 'build', `examples-${process.pid}`);
let folder: string;

beforeAll(async () => {
  mkdirSync(modules, { recursive: true });
  folder = await mkdtemp(join(tmpdir(), 'simdnorm-examples-'));
  await copyFile(join(repository, 'web', 'iris.csv'), join(folder, 'iris.csv'));
});

afterAll(async () => {
  rmSync(modules, { recursive: true, force: true });
  await rm(folder, { recursive: true, force: true });
});

/** Runs it and returns how many claims were made and held. */
async function run(block: Block): Promise<number> {
  const { source, claims } = withClaims(block.source);
  const { code } = await transform(source, { loader: 'ts', format: 'esm', target: 'es2022' });
  const file = join(modules, `example-${next++}.mjs`);
  await writeFile(file, claimFunction + code);
  const output = await runNode([file], folder);
  expect(output).toMatch(new RegExp(`\nclaims: ${claims}$`));
  return claims;
}

function typeErrors(blocks: readonly Block[]): string[] {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    types: ['node'],
    typeRoots: [join(repository, 'node_modules', '@types')],
  };
  const host = ts.createCompilerHost(options);
  const sources = new Map(blocks.map(({ source }, i) => [join(modules, `example-${i}.mts`), source]));
  const { readFile, fileExists } = host;
  host.readFile = (name) => sources.get(name) ?? readFile(name);
  host.fileExists = (name) => sources.has(name) || fileExists(name);
  const program = ts.createProgram([...sources.keys()], options, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    const i = [...sources.keys()].indexOf(file?.fileName ?? '');
    return `${blocks[i]?.title ?? file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
  });
}

describe('in the documentation of the functions', () => {
  test.each(documented)('$title', async (block) => {
    expect(await run(block)).toBeGreaterThan(0);
  });

  test('each has one, in a code block', async () => {
    for (const { blocks, tags } of bindings) expect(blocks).toHaveLength(tags);
    const methods = Object.entries(await load()).filter(([, value]) => typeof value === 'function');
    const names = ['load', ...methods.map(([name]) => name)].filter((name) => name !== 'dispose');
    expect(names.length).toBeGreaterThanOrEqual(5);
    const called = (name: string) => documented.some(({ source }) => new RegExp(`\\b${name}\\(`).test(source));
    expect(names.filter((name) => !called(name))).toEqual([]);
  });
});

describe('in README.md', () => {
  test.each(programs)('$title', async (block) => {
    await run(block);
  });

  test('the page and its worker, built by Vite, in Chromium', async () => {
    const site = join(modules, 'page');
    mkdirSync(join(site, 'node_modules'), { recursive: true });
    symlinkSync(repository, join(site, 'node_modules', 'simdnorm'));
    for (const block of pageFiles) await writeFile(join(site, fileOfPage(block) as string), block.source);
    await writeFile(join(site, 'index.html'), html('<script src="./page.js" type="module"></script>'));
    await build({ root: site, configFile: false, logLevel: 'error' });
    const claims = pageFiles.flatMap(({ source }) => [...source.matchAll(/document\.title = .*; \/\/ (.*)/g)]);
    expect(claims).toHaveLength(1);
    const server = await serve(join(site, 'dist'));
    const browser = await chromium();
    try {
      expect(await browser.titleOf(server.url)).toBe(JSON.parse(claims[0]?.[1] as string));
    } finally {
      await browser.close();
      await server.close();
    }
  });

  test('there are no others, but commands and the files of tests/consumer', () => {
    const text = readFileSync(join(repository, 'README.md'), 'utf8');
    const others = blocksOf(text, 'README.md', ['sh', 'cmake', 'cpp']);
    expect(text.match(/^\s*(```|~~~)/gm)).toHaveLength(2 * (readme.length + others.length));
    for (const { language, source } of others) {
      if (language === 'sh') continue;
      const file = language === 'cpp' ? 'block.cpp' : 'CMakeLists.txt';
      expect(source).toBe(readFileSync(join(repository, 'tests', 'consumer', file), 'utf8'));
    }
  });

  test('there are some, and some say values', () => {
    expect(readFileSync(join(repository, 'README.md'), 'utf8').length).toBeGreaterThan(0);
    expect(readme.length).toBeGreaterThanOrEqual(1);
    expect(readme.filter(({ source }) => withClaims(source).claims > 0).length).toBeGreaterThanOrEqual(1);
  });
});

test('their types are right, and wrong ones are found', () => {
  const typed = [...documented, ...readme.filter(({ language }) => language.startsWith('t'))];
  const wrong = "import { load } from 'simdnorm';\n(await load()).layerNorm([1, 2]);\n";
  const errors = typeErrors([...typed, { title: 'a wrong one', language: 'ts', source: wrong }]);
  expect(errors).toEqual([expect.stringMatching(/^a wrong one: /)]);
});

describe('these tests can fail', () => {
  const block = (source: string): Block => ({ title: 'example', language: 'ts', source });
  const prelude = "import { load } from 'simdnorm';\nconst { layerNorm } = await load();\n";

  test.each([
    ['layerNorm(Float32Array.of(1, -1), { epsilon: 0 }); // [1, -1]', 1],
    ['const y = layerNorm(Float32Array.of(1, -1), { epsilon: 0 }); // Float32Array(2) [1, -1]', 1],
    ['console.log(\n  layerNorm(Float32Array.of(1, -1), { epsilon: 0 }),\n); // [1, -1]', 1],
    ['const url = "https://x"; // "https://x"\nurl.length; // 9\nurl.length; // nine', 2],
    ['const o: object = { a: [1.0000001], b: "c" };\no; // {"a": [1], "b": "c"}', 1],
  ])('%s: holds', async (source, claims) => {
    expect(await run(block(prelude + source))).toBe(claims);
  });

  test.each([
    'layerNorm(Float32Array.of(1, -1), { epsilon: 0 }); // [1, -1.00001]',
    'layerNorm(Float32Array.of(1, -1), { epsilon: 0 }); // [1]',
    'layerNorm(Float32Array.of(1, -1), { epsilon: 0 }); // [1, -1, 0]',
    'layerNorm(Float32Array.of(5, 5), { epsilon: 0 }); // [0, 0]',
    'layerNorm(Float32Array.of(5, 5)); // [0, 0',
    'const count = 3; // 4',
    'const never = () => {\n  1; // 1\n};',
    'layerNorm([1, 2]);',
    'throw new Error();',
  ])('%s: fails', async (source) => {
    await expect(run(block(prelude + source))).rejects.toThrow();
  });
});
