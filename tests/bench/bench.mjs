// Operations against their peers, in one run: `npm run bench`; with `-- --json` as JSON, with `-- --readme` into README.md.
//
// The ways take turns, so that a machine whose speed drifts is as fast for one as for the other. Times are medians over
// the rounds, each round the mean over as many calls as fill a few milliseconds.

import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { load } from '../../dist/index.js';
import { javascriptAdd, javascriptLayerNorm, javascriptLayerNormBackward } from './javascript-peer.mjs';
import { onnxLayerNorm, onnxVersion } from './onnx-peer.mjs';

const rounds = 41;
const roundMilliseconds = 4;
const epsilon = 1e-5;

async function time(call, calls) {
  const begin = performance.now();
  for (let i = 0; i < calls; ++i) await call();
  return ((performance.now() - begin) * 1000) / calls;
}

function timeSync(call, calls) {
  const begin = performance.now();
  for (let i = 0; i < calls; ++i) call();
  return ((performance.now() - begin) * 1000) / calls;
}

/** Microseconds a call of each way: medians and quartiles. */
async function compare(ways) {
  for (const way of ways) {
    const clock = way.isAsync ? time : timeSync;
    // Warm: V8 needs a few thousand loops before its best code runs.
    await clock(way.call, 20);
    const once = await clock(way.call, 20);
    await clock(way.call, Math.min(3000, Math.ceil(200_000 / once)));
    way.calls = Math.max(1, Math.round((roundMilliseconds * 1000) / (await clock(way.call, 20))));
    way.times = [];
  }
  for (let round = 0; round < rounds; ++round) {
    for (const way of ways) way.times.push(await (way.isAsync ? time : timeSync)(way.call, way.calls));
  }
  for (const way of ways) {
    const sorted = way.times.sort((a, b) => a - b);
    way.median = sorted[Math.floor(rounds / 2)];
    way.low = sorted[Math.floor(rounds / 4)];
    way.high = sorted[Math.floor((3 * rounds) / 4)];
  }
}

function largestDifference(a, b) {
  return a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - b[i])), 0);
}

const sn = await load();
const results = [];

/** Compares ways, of which those with a result must agree with the first. */
async function add(operation, shape, ways) {
  const expected = ways[0].result(await ways[0].call());
  for (const { name, call, result } of ways) {
    if (!result) continue;
    const difference = largestDifference(expected, result(await call()));
    if (!(difference < 1e-5)) throw new Error(`${operation} of ${name} differs by ${difference} at [${shape}]`);
  }
  await compare(ways);
  for (const { name, median: microseconds, low, high } of ways) {
    results.push({ operation, shape, name, microseconds, low, high });
  }
}

const asIs = (y) => y;
for (const shape of [
  [1, 64],
  [1, 768],
  [16, 768],
  [128, 768],
  [512, 768],
  [1024, 4096],
]) {
  const [rows, units] = shape;
  const x = Float32Array.from({ length: rows * units }, () => Math.random() * 2 - 1);
  const scale = Float32Array.from({ length: units }, () => Math.random() + 0.5);
  const bias = Float32Array.from({ length: units }, () => Math.random() - 0.5);
  const out = new Float32Array(x.length);
  const options = { shape, scale, bias, epsilon, out };
  const javascriptOut = new Float32Array(x.length);
  const copy = new Float32Array(x.length);
  const [tensor, tensorOut] = [sn.tensor(shape, x), sn.tensor(shape)];
  const tensorOptions = { scale: sn.tensor([units], scale), bias: sn.tensor([units], bias), epsilon, out: tensorOut };
  await add('layerNorm', shape, [
    { name: 'simdnorm, out', result: asIs, call: () => sn.layerNorm(x, options) },
    { name: 'simdnorm, Tensors', result: ({ data }) => data, call: () => sn.layerNorm(tensor, tensorOptions) },
    { name: 'simdnorm, new array', result: asIs, call: () => sn.layerNorm(x, { shape, scale, bias, epsilon }) },
    {
      name: 'plain JavaScript',
      result: asIs,
      call: () => javascriptLayerNorm(x, javascriptOut, shape, scale, bias, epsilon),
    },
    {
      name: `onnxruntime-web ${onnxVersion}`,
      result: asIs,
      isAsync: true,
      call: await onnxLayerNorm(x, shape, scale, bias, epsilon),
    },
    { name: 'Float32Array.set', call: () => copy.set(x) },
  ]);
}

for (const shape of [
  [16, 768],
  [128, 768],
  [512, 768],
]) {
  const [rows, units] = shape;
  const x = Float32Array.from({ length: rows * units }, () => Math.random() * 2 - 1);
  const dy = Float32Array.from(x, () => Math.random() * 2 - 1);
  const scale = Float32Array.from({ length: units }, () => Math.random() + 0.5);
  const bias = Float32Array.from({ length: units }, () => Math.random() - 0.5);
  const [out, dScaleOut, dBiasOut] = [new Float32Array(x.length), new Float32Array(units), new Float32Array(units)];
  const options = { shape, scale, epsilon, out, dScaleOut, dBiasOut };
  const javascriptOut = new Float32Array(x.length);
  const gradients = ({ dx, dScale, dBias }) => [
    ...dx,
    ...Array.from(dScale, (d) => d / rows),
    ...Array.from(dBias, (d) => d / rows),
  ];
  await add('layerNormBackward', shape, [
    { name: 'simdnorm, out', result: gradients, call: () => sn.layerNormBackward(dy, x, options) },
    {
      name: 'plain JavaScript',
      result: gradients,
      call: () => javascriptLayerNormBackward(dy, x, javascriptOut, shape, scale, epsilon),
    },
  ]);

  const sum = new Float32Array(x.length);
  await add('layerNorm of x + residual', shape, [
    {
      name: 'simdnorm, residual and residualOut',
      result: asIs,
      call: () => sn.layerNorm(x, { shape, scale, bias, epsilon, out, residual: dy, residualOut: sum }),
    },
    {
      name: 'an addition, then simdnorm',
      result: asIs,
      call: () => sn.layerNorm(javascriptAdd(x, dy, sum), { shape, scale, bias, epsilon, out }),
    },
  ]);
}

/** Rows of shapes, columns of ways, as Markdown. */
function table(operation) {
  const own = results.filter((result) => result.operation === operation);
  const names = [...new Set(own.map(({ name }) => name))];
  const shapes = [...new Set(own.map(({ shape }) => shape))];
  const row = (cells) => `| ${cells.join(' | ')} |`;
  const cell = ({ microseconds }, least) => {
    return `${Number(microseconds.toPrecision(3))} (${(microseconds / least).toFixed(2)})`;
  };
  return [
    row([operation, ...names]),
    row(['---', ...names.map(() => '--:')]),
    ...shapes.map((shape) => {
      const ofShape = own.filter((result) => result.shape === shape);
      return row([`[${shape.join(', ')}]`, ...ofShape.map((result) => cell(result, ofShape[0].microseconds))]);
    }),
  ].join('\n');
}

const tables = [...new Set(results.map(({ operation }) => operation))].map(table).join('\n\n');
if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ node: process.version, cpu: cpus()[0]?.model, results }, null, 2));
} else {
  console.log(`With scale and bias, Node ${process.version}, ${cpus()[0]?.model}`);
  console.log('Microseconds a call, medians; in brackets how often simdnorm with out fits into them.\n');
  console.log(tables);
}
if (process.argv.includes('--readme')) {
  const readme = new URL('../../README.md', import.meta.url);
  const between = /(<!-- bench -->)[\s\S]*(<!-- \/bench -->)/;
  writeFileSync(readme, readFileSync(readme, 'utf8').replace(between, `$1\n\n${tables}\n\n$2`));
}
