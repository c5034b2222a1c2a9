// Whether cost grows in proportion: layer norm from 64 values to 16 million, in one row and in rows of 768. A cliff is a
// size from which on each value takes longer.

import * as echarts from 'echarts';
import { wayNames } from './cases.mjs';

const ways = [wayNames.out, wayNames.tensors, wayNames.simdCopy];
const units = 768;

function doubling(first, most) {
  const values = [];
  for (let value = first; value <= most; value *= 2) values.push(value);
  return values;
}

export function scanCases(most) {
  const shapes = [
    ...doubling(64, most).map((size) => [1, size]),
    ...doubling(1, most / units).map((rows) => [rows, units]),
  ];
  return shapes.map((shape) => ({ operation: 'layerNorm', shape, ways }));
}

/** { name, points: [[values, nanoseconds a value]] } of each way, in one row and in rows of 768. */
export function scanCurves(results) {
  const kinds = [
    { kind: 'one row', own: results.filter(({ shape }) => shape[0] === 1 && Math.log2(shape[1]) % 1 === 0) },
    { kind: `rows of ${units}`, own: results.filter(({ shape }) => shape[1] === units) },
  ];
  return kinds.flatMap(({ kind, own }) => {
    return ways.map((name) => ({
      name: `${name}, ${kind}`,
      points: own.map((result) => {
        const { microseconds } = result.ways.find((way) => way.name === name);
        return [result.size, (1000 * microseconds) / result.size];
      }),
    }));
  });
}

/** The curves as an SVG, both axes logarithmic. */
export function plotScan(results) {
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: 900, height: 560 });
  chart.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    title: { text: 'Layer norm: nanoseconds a value', left: 'center' },
    legend: { bottom: 0, itemGap: 40 },
    grid: { left: 70, right: 30, top: 50, bottom: 110 },
    xAxis: { type: 'log', logBase: 2, min: 64, max: 2 ** 24, name: 'values', nameLocation: 'middle', nameGap: 30 },
    yAxis: { type: 'log', name: 'ns a value' },
    series: scanCurves(results).map(({ name, points }) => ({ type: 'line', name, data: points })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
