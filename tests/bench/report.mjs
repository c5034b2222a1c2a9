// Tables of a run, as Markdown.

import { scanCurves } from './scan.mjs';
import { judge } from './targets.mjs';

function table([head, ...rows]) {
  const row = (cells) => `| ${cells.join(' | ')} |`;
  return [row(head), row(head.map((_, i) => (i === 0 ? '---' : '--:'))), ...rows.map(row)].join('\n');
}

function digits(value, count = 3) {
  return value >= 10 ** (count - 1) ? String(Math.round(value)) : String(Number(value.toPrecision(count)));
}

export function wayNamesOf(results) {
  return [...new Set(results.flatMap(({ ways }) => ways.map(({ name }) => name)))];
}

/** Microseconds a call of results, a row for each, and how often the first way's time is in them. */
export function timesTable(results, names = wayNamesOf(results)) {
  const rows = results.map(({ operation, label, ways }) => {
    const first = ways.find((way) => way.name === names[0]);
    const cells = names.map((name) => {
      const way = ways.find((each) => each.name === name);
      if (!way) return '';
      const { microseconds } = way;
      return `${digits(microseconds)}${first ? ` (${digits(microseconds / first.microseconds)})` : ''}`;
    });
    return [`${operation} ${label}`, ...cells];
  });
  return table([['', ...names], ...rows]);
}

/** Spread, bandwidth and error of each way of each result. */
function detailsTable(results) {
  const rows = results.flatMap(({ operation, label, ways }) => {
    return ways.map(({ name, microseconds, quartiles, gigabytesPerSecond, error, bound }) => [
      `${operation} ${label}: ${name}`,
      digits(microseconds),
      quartiles.map((each) => digits(each)).join(' to '),
      digits(gigabytesPerSecond),
      error === 0 ? 'none' : `${error.toExponential(1)} of ${bound.toExponential(1)}`,
    ]);
  });
  return table([['', 'µs', 'quartiles', 'GB/s', 'error, of its bound'], ...rows]);
}

export function startTable({ small, large, libraries }) {
  const head = [
    '',
    'import, ms',
    `to the first result, [${small.join(', ')}], ms`,
    `memory, [${large.join(', ')}], MB`,
    'download, gzipped, kB',
  ];
  const rows = libraries.map(({ library, importMilliseconds, firstResultMilliseconds, megabytes, kilobytes }) => {
    return [
      library,
      ...[importMilliseconds, firstResultMilliseconds, megabytes, kilobytes].map((each) => digits(each)),
    ];
  });
  return table([head, ...rows]);
}

function scanTable(results) {
  const rows = scanCurves(results).flatMap(({ name, points }) => {
    return points.map(([size, nanoseconds]) => [`${name}, ${size} values`, digits(nanoseconds)]);
  });
  return table([['', 'ns a value'], ...rows]);
}

function targetsTable(targets) {
  const rows = targets.map(({ text, goal, isLeast, measured, isReached }) => {
    return [text, `${isLeast ? 'at least' : 'at most'} ${goal}`, digits(measured), isReached ? 'yes' : 'no'];
  });
  return table([['', 'goal', 'measured', 'reached'], ...rows]);
}

export function versionsOf({ node, browser, cpu, onnxruntimeWeb, tfjs }) {
  return [
    `Node ${node}`,
    ...(browser ? [browser] : []),
    cpu,
    `onnxruntime-web ${onnxruntimeWeb}`,
    `tfjs ${tfjs}`,
    'one thread',
  ].join(', ');
}

export function report(run) {
  const { node, browser } = run.results;
  const sections = [
    ['Microseconds a call, medians; in brackets how often the first way fits into them. Node', node, timesTable],
    ['The same in the browser', browser, timesTable],
    ['Spread, bytes read and written once, and errors. Node', node, detailsTable],
    ['The same in the browser', browser, detailsTable],
    ['Cost of a value, layer norm', run.scan, scanTable],
    ['Before it works', run.start && [run.start], ([start]) => startTable(start)],
    ['A small call', run.smallCall && [run.smallCall], ([each]) => JSON.stringify(each)],
    ['Targets', judge(run), targetsTable],
  ];
  const texts = sections
    .filter(([, values]) => values && values.length > 0)
    .map(([title, values, write]) => `${title}:\n\n${write(values)}`);
  return [versionsOf(run.versions), ...texts].join('\n\n');
}
