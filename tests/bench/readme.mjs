// The README's tables from a run that has been saved: `node tests/bench/readme.mjs run.json`.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { wayNames } from './cases.mjs';
import { startTable, timesTable, versionsOf } from './report.mjs';

const { out, tensors, newArray, javascript, onnxruntime, tfjsResident, simdCopy } = wayNames;
const ways = [out, tensors, newArray, javascript, onnxruntime, tfjsResident, simdCopy];

const run = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const centered = run.results.node.filter(({ label }) => !label.includes('mean/std'));
const forward = centered.filter(({ operation }) => !operation.endsWith('Backward'));
const backward = centered.filter(({ operation }) => operation.endsWith('Backward'));
const text = [
  `${versionsOf(run.versions)}.`,
  timesTable(forward, ways),
  timesTable(backward, [out, tensors, javascript]),
  startTable(run.start),
].join('\n\n');

const readme = fileURLToPath(new URL('../../README.md', import.meta.url));
const between = /(<!-- bench -->)[\s\S]*(<!-- \/bench -->)/;
writeFileSync(
  readme,
  readFileSync(readme, 'utf8').replace(between, (_, begin, end) => `${begin}\n\n${text}\n\n${end}`),
);
execFileSync('npx', ['biome', 'format', '--write', readme], { stdio: 'inherit' });
