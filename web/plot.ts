import { shortNumber } from './format-number';
import type { Normalized, Statistics } from './normalization';
import { count, type Table } from './table';

const shownGroups = 16;
const dotsPerStrip = 300;
const colors = 8;
const labelWidth = { layer: 66, batch: 118 };
const margin = { top: 30, right: 14, bottom: 40 };

const namespace = 'http://www.w3.org/2000/svg';

function svg(name: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** The groups that share a mean and variance, as strips of dots: before with their own places and widths, after all alike. */
export function drawPlot(container: HTMLElement, note: HTMLElement, result: Normalized): void {
  const { table, norm, y, before, after } = result;
  const groups = norm === 'layer' ? table.rows : table.cols;
  const shown = Math.min(groups, shownGroups);
  const width = container.clientWidth;
  const panelWidth = width >= 720 ? (width - 24) / 2 : width;
  const panel = (title: string, values: Float32Array, statistics: Statistics, unit: string) =>
    drawPanel({ title, unit, values, statistics, table, norm, shown, width: panelWidth });

  container.replaceChildren(
    panel('Before: x', table.x, before, 'x'),
    panel('After: y', y, after, 'y, in standard deviations'),
  );
  if (norm === 'layer' && table.cols <= colors) container.append(legend(table.names));

  const group = norm === 'layer' ? 'row' : 'column';
  const size = norm === 'layer' ? table.cols : table.rows;
  const parts = [`A strip is one ${group}: the shaded bar is mean ± standard deviation, the line its mean`];
  parts.push(`the thin line reaches from the least to the greatest value, and a dot is a value`);
  if (shown < groups) parts.push(`shown are the first ${shown} of ${count(groups, group)}`);
  if (size > dotsPerStrip) parts.push(`dots are ${dotsPerStrip} of each ${count(size, 'value')}, evenly picked`);
  note.textContent = `${parts.join('; ')}.`;
}

interface Panel {
  title: string;
  unit: string;
  values: Float32Array;
  statistics: Statistics;
  table: Table;
  norm: Normalized['norm'];
  shown: number;
  width: number;
}

function drawPanel({ title, unit, values, statistics, table, norm, shown, width }: Panel): SVGElement {
  const { rows, cols, names } = table;
  const size = norm === 'layer' ? cols : rows;
  const at = (group: number, i: number) => (norm === 'layer' ? group * cols + i : i * cols + group);
  const value = (group: number, i: number) => values[at(group, i)] as number;

  const ranges = Array.from({ length: shown }, (_, group) => finiteRange(size, (i) => value(group, i)));
  const reaches = ranges.flatMap((range, group) => {
    const mean = statistics.mean[group] as number;
    const deviation = Math.sqrt(statistics.variance[group] as number);
    return [...range, mean - deviation, mean + deviation].filter(Number.isFinite);
  });
  const ticks = niceTicks(Math.min(...reaches), Math.max(...reaches), width < 480 ? 4 : 7);
  const low = ticks[0] as number;
  const high = ticks[ticks.length - 1] as number;

  const stripHeight = shown <= 5 ? 48 : shown <= 10 ? 30 : 22;
  const bottom = margin.top + shown * stripHeight;
  const left = labelWidth[norm];
  const right = width - margin.right;
  const scale = (v: number) => left + ((v - low) / (high - low)) * (right - left);

  const root = svg('svg', {
    class: 'panel',
    width,
    height: bottom + margin.bottom,
    role: 'img',
    'aria-label': title,
  });
  root.append(svg('text', { class: 'panel-title', x: 0, y: 16 }, title));
  for (const tick of ticks) {
    const x = scale(tick);
    root.append(
      svg('line', { class: tick === 0 ? 'grid zero' : 'grid', x1: x, x2: x, y1: margin.top, y2: bottom }),
      svg('text', { class: 'tick', x, y: bottom + 15 }, tickLabel(tick)),
    );
  }
  root.append(svg('text', { class: 'axis', x: (left + right) / 2, y: bottom + 33 }, unit));

  for (let group = 0; group < shown; group++) {
    const middle = margin.top + (group + 0.5) * stripHeight;
    const name = norm === 'layer' ? `row ${group + 1}` : (names[group] as string);
    const mean = statistics.mean[group] as number;
    const deviation = Math.sqrt(statistics.variance[group] as number);
    const [least, greatest] = ranges[group] as [number, number];
    root.append(label(name, left - 10, middle));
    if (!Number.isFinite(mean) || !Number.isFinite(deviation) || least > greatest) continue;

    const half = stripHeight * 0.36;
    root.append(
      svg('line', { class: 'range', x1: scale(least), x2: scale(greatest), y1: middle, y2: middle }),
      svg('rect', {
        class: 'deviation',
        x: scale(mean - deviation),
        width: Math.max(1, scale(mean + deviation) - scale(mean - deviation)),
        y: middle - half,
        height: 2 * half,
        rx: 3,
      }),
    );
    for (const [color, path] of dots(size, norm, group, cols, middle, half, (i) => scale(value(group, i)))) {
      root.append(svg('path', { class: `dots ${color}${size > 12 ? '' : ' few'}`, d: path }));
    }
    root.append(
      svg('line', { class: 'mean', x1: scale(mean), x2: scale(mean), y1: middle - half, y2: middle + half }),
      svg(
        'rect',
        { class: 'hover', x: 0, width, y: middle - stripHeight / 2, height: stripHeight },
        svg('title', {}, `${name}: mean ${shortNumber(mean)}, standard deviation ${shortNumber(deviation)}`),
      ),
    );
  }
  return root;
}

/** One path for each colour: thousands of circle elements would make the page slow. */
function dots(
  size: number,
  norm: Normalized['norm'],
  group: number,
  cols: number,
  middle: number,
  half: number,
  position: (i: number) => number,
): Map<string, string> {
  const paths = new Map<string, string>();
  const drawn = Math.min(size, dotsPerStrip);
  for (let k = 0; k < drawn; k++) {
    const i = Math.floor((k * size) / drawn);
    const x = position(i);
    if (!Number.isFinite(x)) continue;
    // Multiples of the golden ratio spread equal values apart, and always in the same way.
    const spread = drawn > 12 ? (((k * 0.618034) % 1) - 0.5) * 1.7 * half : 0;
    const color = colorOf(norm === 'layer' ? i : group, cols);
    paths.set(color, `${paths.get(color) ?? ''}M${x.toFixed(1)} ${(middle + spread).toFixed(1)}h0`);
  }
  return paths;
}

function colorOf(column: number, cols: number): string {
  return cols <= colors ? `color-${column}` : 'color-0';
}

function label(name: string, end: number, middle: number): SVGElement {
  const fits = 17;
  const text = name.length > fits ? `${name.slice(0, fits - 1)}…` : name;
  return svg('text', { class: 'strip-label', x: end, y: middle + 4 }, text, svg('title', {}, name));
}

function legend(names: string[]): HTMLElement {
  const list = document.createElement('ul');
  list.className = 'legend';
  names.forEach((name, column) => {
    const item = document.createElement('li');
    const dot = svg('svg', { width: 12, height: 12, 'aria-hidden': 'true' });
    dot.append(svg('path', { class: `dots ${colorOf(column, names.length)}`, d: 'M6 6h0' }));
    item.append(dot, name);
    list.append(item);
  });
  return list;
}

function finiteRange(size: number, value: (i: number) => number): [least: number, greatest: number] {
  let least = Infinity;
  let greatest = -Infinity;
  for (let i = 0; i < size; i++) {
    const v = value(i);
    if (!Number.isFinite(v)) continue;
    if (v < least) least = v;
    if (v > greatest) greatest = v;
  }
  return [least, greatest];
}

/** Round values that enclose the range. */
function niceTicks(least: number, greatest: number, wanted: number): number[] {
  if (!(least <= greatest)) return [-1, 0, 1];
  // Values that are all alike still need an axis around them, wide enough that its ticks differ.
  const padding = greatest === least ? Math.max(Math.abs(least) * 1e-3, 1e-30) : 0;
  const rough = (greatest - least + 2 * padding) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) as number);
  const first = Math.floor((least - padding) / step);
  const last = Math.max(first + 1, Math.ceil((greatest + padding) / step));
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function tickLabel(tick: number): string {
  const text = String(Number(tick.toPrecision(8)));
  return text.length > 8 ? tick.toExponential(1).replace('e+', 'e') : text;
}
