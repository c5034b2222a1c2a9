// Operations against their peers and against copies, in one run: `npm run bench -- [options]`.
//
//   --only layerNorm    an operation by its name, or one of `scan`, `start` and `smallCall`; may be repeated
//   --shape 128x768     cases of this shape; may be repeated
//   --in node           or browser; both without it
//   --quick             few rounds, to see that it works
//   --json run.json     all times, to a file
//   --plot scan.svg     the scan as curves, to a file

import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { load } from '../../dist/index.js';
import { openBrowser } from './browser.mjs';
import { cases, describe, nameOf, offsetCases } from './cases.mjs';
import { onnxVersion } from './peers/onnxruntime.mjs';
import { startTfjs, tfjsVersion } from './peers/tfjs.mjs';
import { report } from './report.mjs';
import { runCase } from './run.mjs';
import { plotScan, scanCases } from './scan.mjs';
import { measureSmallCall } from './small-call.mjs';
import { measureStart } from './start.mjs';
import { quickSettings, settings } from './timing.mjs';

const { values: options } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    shape: { type: 'string', multiple: true },
    in: { type: 'string' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
    plot: { type: 'string' },
  },
});

const sections = ['scan', 'start', 'smallCall'];
const limits = options.quick ? quickSettings : settings;
const wants = (name) => (options.only ? options.only.includes(name) : !options.shape);
const wantsCase = (each) => {
  if (options.only && !options.only.includes(nameOf(each))) return false;
  return !options.shape || options.shape.includes(each.shape.join('x'));
};
const wantsIn = (place) => (options.in ?? place) === place;
const selected = [...cases, ...offsetCases].filter(wantsCase);
if (selected.length === 0 && !sections.some(wants)) throw new Error('No case and no section is called that');

/** Of each case, one after the other; what is said on the way is no result. */
async function measureAll(title, list, measure) {
  const results = [];
  for (const [i, each] of list.entries()) {
    console.error(`${title} ${i + 1}/${list.length}: ${nameOf(each)} ${describe(each)}`);
    results.push(await measure(each));
  }
  return results;
}

const sn = await load();
await startTfjs();
const copyFile = new URL('../../build/wasm/tests/bench/copy.wasm', import.meta.url);
const copyModule = new WebAssembly.Module(readFileSync(copyFile));
const measureHere = (each) => runCase(each, { sn, copyModule }, limits);

const run = {
  versions: { node: process.version, cpu: cpus()[0]?.model, onnxruntimeWeb: onnxVersion, tfjs: tfjsVersion },
  results: { node: [], browser: [] },
};
if (wants('smallCall') && wantsIn('node')) run.smallCall = await measureSmallCall(sn, limits);
if (wants('start') && wantsIn('node')) run.start = await measureStart(options.quick ? 1 : 7);
if (wantsIn('node')) run.results.node = await measureAll('Node', selected, measureHere);
if (wants('scan') && wantsIn('node')) {
  run.scan = await measureAll('Scan', scanCases(options.quick ? 2 ** 12 : 2 ** 24), measureHere);
}
if (wantsIn('browser') && selected.length > 0) {
  const browser = await openBrowser();
  try {
    run.versions.browser = browser.version;
    run.results.browser = await measureAll('Browser', selected, (each) => browser.measure(each, limits));
  } finally {
    await browser.close();
  }
}

console.log(report(run));
if (options.json) writeFileSync(options.json, JSON.stringify(run));
if (options.plot && run.scan) writeFileSync(options.plot, plotScan(run.scan));
