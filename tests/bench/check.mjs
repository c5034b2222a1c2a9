// Whether a way is right, before it is timed: against plain JavaScript, whose sums are double. Free of Node's API.

import { layoutOf } from './cases.mjs';

/** Half of a unit in the last place of float32, relatively: what one rounding costs. */
const rounding = 2 ** -24;
/** What simdnorm promises of y before scale and bias, times max(1, |y|). */
const promise = 6e-7;

function largest(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

/** How many values are summed for one result of a kind. */
function summed(each, name) {
  const { size, rows, units, items, channels, groups, inner, parameters } = layoutOf(each);
  if (name === 'dScale' || name === 'dBias') return size / parameters;
  if (rows) return units;
  return each.operation.startsWith('batchNorm') ? items * inner : (channels / groups) * inner;
}

/** What errors of a kind of result are in proportion to. */
function magnitudeOf(each, name, data, expected) {
  if (name === 'copy') return () => 0;
  if (name === 'y') {
    const [scale, bias] = [largest(data.scale), largest(data.bias)];
    return (value) => Math.max(scale, Math.abs(value) + bias) + Math.abs(value) + bias;
  }
  // The terms of dx can be thrice as large as what is left of them. The others are sums of dy * h and of dy, where |h| is
  // less than 2, of values that are uniform.
  const sums = 2 * largest(data.dy) * summed(each, name);
  const magnitude = name === 'dx' ? 3 * Math.max(1, largest(expected)) : sums;
  return () => magnitude;
}

/** { error, bound } in proportion to magnitudes, the worst error of all results; throws where one is beyond its bound. */
export function checkResults(each, wayName, data, got, expected) {
  let worst = { error: 0, bound: 0 };
  for (const [name, values] of Object.entries(got)) {
    const right = name === 'copy' ? data.x : expected[name];
    if (values.length !== right.length) throw new Error(`${wayName}: ${values.length} values of ${name}`);
    const magnitude = magnitudeOf(each, name, data, right);
    // Of a peer, whose float32 sums are as bad as sums can be.
    const bound = wayName.startsWith('simdnorm') ? promise : promise + rounding * summed(each, name);
    for (let i = 0; i < right.length; ++i) {
      const difference = Math.abs(values[i] - right[i]);
      const most = magnitude(right[i]);
      if (!(difference <= bound * most)) {
        throw new Error(`${wayName}: ${name}[${i}] is ${values[i]}, not ${right[i]}, beyond ${bound} * ${most}`);
      }
      if (difference > worst.error * most) worst = { error: difference / most, bound };
    }
  }
  return worst;
}
