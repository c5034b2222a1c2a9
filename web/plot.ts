import { shortNumber } from './format-number';
import { type Normalized, norms, type Spread, type Statistics } from './normalization';
import { count } from './table';

const shownGroups = 16;
const dotsPerStrip = 300;
const colors = 8;
const labelWidth = { row: 66, group: 118, column: 118 };
const margin = { top: 30, right: 14, bottom: 40 };

// A deviation or root mean square is as wide as values are apart, and drawn as a bar. Other norms grow with the number
// of values, which such bars would squeeze into nothing: they are written at the strip's end instead.
const bars: Partial<Record<Spread, { bar: string; unit: string }>> = {
  'standard deviation': {
    bar: 'the shaded bar is mean ± standard deviation, the line its mean',
    unit: 'y, in standard deviations',
  },
  'root mean square': {
    bar: 'the shaded bar is the root mean square, from 0 to the line',
    unit: 'y, in root mean squares',
  },
};
const writtenWidth = 72;

const stripNames = { row: 'row', group: 'group of columns in a row', column: 'column' };

const namespace = 'http://www.w3.org/2000/svg';

function svg(name: string, attributes: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** The groups that share statistics, as strips of dots: before with their own places and widths, after all alike. */
export function drawPlot(container: HTMLElement, note: HTMLElement, result: Normalized): void {
  const { table, norm, shared, y, before, after } = result;
  const { shares, spread } = norms[norm];
  const shown = Math.min(shared.count, shownGroups);
  const width = container.clientWidth;
  const panelWidth = width >= 720 ? (width - 24) / 2 : width;
  const panel = (title: string, values: Float32Array, statistics: Statistics, unit: string) =>
    drawPanel({ title, unit, values, statistics, result, shown, width: panelWidth });

  container.replaceChildren(
    panel('Before: x', table.x, before, 'x'),
    panel('After: y', y, after, bars[spread]?.unit ?? `y, as a part of the ${spread}`),
  );
  if (shares !== 'column' && table.cols <= colors) container.append(legend(table.names));

  const parts = [
    `A strip is one ${stripNames[shares]}: ${bars[spread]?.bar ?? `the number at its end is its ${spread}`}`,
  ];
  parts.push(`the thin line reaches from the least to the greatest value, and a dot is a value`);
  if (shown < shared.count) parts.push(`shown are the first ${shown} of ${count(shared.count, shares)}`);
  if (shared.size > dotsPerStrip) {
    parts.push(`dots are ${dotsPerStrip} of each ${count(shared.size, 'value')}, evenly picked`);
  }
  note.textContent = `${parts.join('; ')}.`;
}

interface Panel {
  title: string;
  unit: string;
  values: Float32Array;
  statistics: Statistics;
  result: Normalized;
  shown: number;
  width: number;
}

function drawPanel({ title, unit, values, statistics, result, shown, width }: Panel): SVGElement {
  const { shared, norm } = result;
  const { shares, spread } = norms[norm];
  const hasBar = spread in bars;
  const value = (group: number, i: number) => values[shared.at(group, i)] as number;
  const marks = Array.from({ length: shown }, (_, group) => markOf(statistics, spread, group));

  const ranges = Array.from({ length: shown }, (_, group) => finiteRange(shared.size, (i) => value(group, i)));
  const reaches = [...ranges, ...marks.map(({ bar }) => (hasBar ? bar : [0]))].flat().filter(Number.isFinite);
  const ticks = niceTicks(Math.min(...reaches), Math.max(...reaches), width < 480 ? 4 : 7);
  const low = ticks[0] as number;
  const high = ticks[ticks.length - 1] as number;

  const stripHeight = shown <= 5 ? 48 : shown <= 10 ? 30 : 22;
  const bottom = margin.top + shown * stripHeight;
  const left = labelWidth[shares];
  const right = width - (hasBar ? margin.right : writtenWidth);
  const scale = (v: number) => left + ((v - low) / (high - low)) * (right - left);

  const root = svg('svg', {
    class: 'panel',
    width,
    height: bottom + margin.bottom,
    role: 'img',
    'aria-label': title,
  });
  root.append(svg('text', { class: 'panel-title', x: 0, y: 16 }, title));
  if (!hasBar) root.append(svg('text', { class: 'written', x: width, y: 16 }, spread));
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
    const name = groupName(result, group);
    const { bar, line, stated } = marks[group] as Mark;
    const [least, greatest] = ranges[group] as [number, number];
    root.append(label(name, left - 10, middle));
    if (!bar.every(Number.isFinite) || least > greatest) continue;

    const half = stripHeight * 0.36;
    root.append(svg('line', { class: 'range', x1: scale(least), x2: scale(greatest), y1: middle, y2: middle }));
    if (hasBar) {
      const [start, end] = bar;
      root.append(
        svg('rect', {
          class: 'deviation',
          x: scale(start),
          width: Math.max(1, scale(end) - scale(start)),
          y: middle - half,
          height: 2 * half,
          rx: 3,
        }),
      );
    } else {
      root.append(svg('text', { class: 'written', x: width, y: middle + 4 }, shortNumber(line)));
    }
    for (const [color, path] of dots(result, group, middle, half, (i) => scale(value(group, i)))) {
      root.append(svg('path', { class: `dots ${color}${shared.size > 12 ? '' : ' few'}`, d: path }));
    }
    if (hasBar) {
      root.append(
        svg('line', { class: 'mean', x1: scale(line), x2: scale(line), y1: middle - half, y2: middle + half }),
      );
    }
    root.append(
      svg(
        'rect',
        { class: 'hover', x: 0, width, y: middle - stripHeight / 2, height: stripHeight },
        svg('title', {}, `${name}: ${stated}`),
      ),
    );
  }
  return root;
}

interface Mark {
  bar: [start: number, end: number];
  line: number;
  stated: string;
}

function markOf({ mean, spread }: Statistics, kind: Spread, group: number): Mark {
  const width = spread[group] as number;
  const stated = `${kind} ${shortNumber(width)}`;
  if (!mean) return { bar: [0, width], line: width, stated };
  const middle = mean[group] as number;
  return { bar: [middle - width, middle + width], line: middle, stated: `mean ${shortNumber(middle)}, ${stated}` };
}

function groupName({ table, norm, groups }: Normalized, group: number): string {
  const { shares } = norms[norm];
  if (shares === 'column') return table.names[group] as string;
  const row = `row ${Math.floor(group / groups) + 1}`;
  return shares === 'row' ? row : `${row}, group ${(group % groups) + 1}`;
}

/** One path for each colour: thousands of circle elements would make the page slow. */
function dots(
  { shared, table: { cols } }: Normalized,
  group: number,
  middle: number,
  half: number,
  position: (i: number) => number,
): Map<string, string> {
  const { size, at } = shared;
  const paths = new Map<string, string>();
  const drawn = Math.min(size, dotsPerStrip);
  for (let k = 0; k < drawn; k++) {
    const i = Math.floor((k * size) / drawn);
    const x = position(i);
    if (!Number.isFinite(x)) continue;
    // Multiples of the golden ratio spread equal values apart, and always in the same way.
    const spread = drawn > 12 ? (((k * 0.618034) % 1) - 0.5) * 1.7 * half : 0;
    const color = colorOf(at(group, i) % cols, cols);
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
  // Values that are all alike still need an axis around them, wide enough that its ticks differ: around 0, to 1.
  const padding = greatest === least ? Math.max(Math.abs(least || 1000) * 1e-3, 1e-30) : 0;
  const rough = (greatest - least + 2 * padding) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) as number);
  const first = Math.floor((least - padding) / step);
  const last = Math.max(first + 1, Math.ceil((greatest + padding) / step));
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function tickLabel(tick: number): string {
  const text = String(Number(tick.toPrecision(8)));
  return (text.length > 8 ? tick.toExponential(1) : text).replace('e+', 'e');
}
