// A test of the tests: `npm run test:faults`, or `npm run test:faults -- 'a regular expression for names'`.
//
// Each fault of list.mjs is made in a copy of the sources, and the suite must fail. The hash of all bits is left out:
// it would notice nearly everything, and would say nothing about the tests that know what is right.

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bindingFaults, coreFaults, gradientFaults } from './list.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const copy = mkdtempSync(join(tmpdir(), 'simdnorm-faults-'));
const wanted = new RegExp(process.argv[2] ?? '');

function copySources() {
  const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  for (const file of files.split('\n').filter(Boolean)) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(root, file), join(copy, file));
  }
  // A fault may leave something unused, which is not what is to be noticed.
  for (const file of ['CMakeLists.txt', 'bindings/CMakeLists.txt', 'tests/core/CMakeLists.txt']) {
    writeFileSync(join(copy, file), readFileSync(join(copy, file), 'utf8').replaceAll('-Werror', ''));
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
}

/** Runs a command in the copy; its output if it failed, undefined if it passed. */
function failureOf(command) {
  const { status, stdout, stderr } = spawnSync('bash', ['-c', command], {
    cwd: copy,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
    maxBuffer: 2 ** 28,
  });
  return status === 0 ? undefined : `${stdout}\n${stderr}`;
}

const builds = {
  core: 'cmake --preset native >/dev/null && cmake --build --preset native',
  wasm: 'cmake --preset wasm -DSIMDNORM_TESTS=OFF >/dev/null && cmake --build --preset wasm',
  dist: 'node bindings/build.mjs',
};

function must(command) {
  const failure = failureOf(command);
  if (failure !== undefined) throw new Error(`${command} fails:\n${failure.slice(-3000)}`);
}

/** The name of the first test that fails, if one does. */
const suites = {
  core() {
    const failure = failureOf('ctest --preset native -E bits --output-on-failure');
    return failure?.match(/-{70,}\n([^\n]+)\n(?:[^\n]*\n)?-{70,}/)?.[1] ?? (failure && 'ctest');
  },
  bindings() {
    const failure = failureOf(
      'npx vitest run --config tests/vitest.config.ts tests/js --exclude "**/bits.test.ts" --bail 1',
    );
    return failure?.match(/FAIL {2}([^\n]+)/)?.[1] ?? (failure && 'vitest');
  },
};

function tryFault([name, file, text, instead], suite, build) {
  const path = join(copy, file);
  const source = readFileSync(path, 'utf8');
  if (source.split(text).length !== 2)
    throw new Error(`'${name}' no longer applies: its text must occur once in ${file}`);
  writeFileSync(
    path,
    source.replace(text, () => instead),
  );
  // A fault that does not compile proves nothing.
  must(build);
  const noticedBy = suites[suite]();
  writeFileSync(path, source);
  console.log(`| ${name} | ${file} | ${noticedBy?.trim() ?? 'NOTHING'} |`);
  return noticedBy !== undefined;
}

try {
  copySources();
  for (const build of [builds.core, builds.wasm, builds.dist]) must(build);
  for (const [suite, run] of Object.entries(suites)) {
    const failing = run();
    if (failing !== undefined) throw new Error(`without a fault, ${suite} fails: ${failing}`);
  }
  console.log('| fault | in | noticed first by |\n| --- | --- | --- |');
  const isWanted = ([name]) => wanted.test(name);
  const noticed = [
    ...coreFaults.filter(isWanted).map((fault) => tryFault(fault, 'core', builds.core)),
    ...gradientFaults.filter(isWanted).map((fault) => tryFault(fault, 'bindings', `${builds.wasm} && ${builds.dist}`)),
    ...bindingFaults.filter(isWanted).map((fault) => tryFault(fault, 'bindings', builds.dist)),
  ];
  const unnoticed = noticed.filter((is) => !is).length;
  console.log(`\n${noticed.length - unnoticed} noticed, ${unnoticed} not noticed`);
  process.exitCode = unnoticed === 0 ? 0 : 1;
} finally {
  rmSync(copy, { recursive: true, force: true });
}
