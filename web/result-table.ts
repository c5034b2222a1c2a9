import { readableNumber, shortNumber } from './format-number';
import type { Normalized, Statistics } from './normalization';
import { count } from './table';

// A browser lays out a few thousand cells at once without a pause, and nobody reads more of them.
const shownRows = 150;
const shownColumns = 12;

/** x and y side by side. Statistics stand where they were taken: beside each row, or under each column's name. */
export function drawTable(container: HTMLElement, note: HTMLElement, result: Normalized): void {
  const { table, norm, y, before, after } = result;
  const rows = Math.min(table.rows, shownRows);
  const cols = Math.min(table.cols, shownColumns);
  const byRow = norm === 'layer';
  const sides = [
    { title: 'Before: x', values: table.x, statistics: before, format: readableNumber, side: 'before' },
    { title: 'After: y', values: y, statistics: after, format: shortNumber, side: 'after' },
  ];

  const head = document.createElement('thead');
  const titles = head.insertRow();
  titles.append(header('', { className: 'corner' }));
  const names = head.insertRow();
  names.append(header('row', { scope: 'col', className: 'corner' }));
  for (const { title, side } of sides) {
    titles.append(header(title, { scope: 'colgroup', className: side, colSpan: cols + (byRow ? 2 : 0) }));
    for (const name of table.names.slice(0, cols)) names.append(header(name, { scope: 'col', className: side }));
    if (byRow) {
      for (const name of ['mean', 'std. dev.']) names.append(header(name, { scope: 'col', className: 'statistic' }));
    }
  }
  if (!byRow) {
    for (const [name, pick] of [['mean', meanOf] as const, ['std. dev.', deviationOf] as const]) {
      const line = head.insertRow();
      line.className = 'statistic';
      line.append(header(name, { scope: 'row', className: 'corner' }));
      for (const { statistics } of sides) {
        for (let col = 0; col < cols; col++) cell(line, shortNumber(pick(statistics, col)), 'statistic');
      }
    }
  }

  const body = document.createElement('tbody');
  for (let row = 0; row < rows; row++) {
    const line = body.insertRow();
    line.append(header(String(row + 1), { scope: 'row', className: 'corner' }));
    for (const { values, statistics, format, side } of sides) {
      for (let col = 0; col < cols; col++) cell(line, format(values[row * table.cols + col] as number), side);
      if (byRow) {
        cell(line, shortNumber(meanOf(statistics, row)), 'statistic');
        cell(line, shortNumber(deviationOf(statistics, row)), 'statistic');
      }
    }
  }

  const element = document.createElement('table');
  element.append(head, body);
  container.replaceChildren(element);
  container.scrollTop = 0;

  const parts = [];
  if (rows < table.rows) parts.push(`the first ${rows} of ${count(table.rows, 'row')}`);
  if (cols < table.cols) parts.push(`the first ${cols} of ${count(table.cols, 'column')}`);
  const limits = parts.length > 0 ? `Shown are ${parts.join(' and ')}; the download has all. ` : '';
  note.textContent = `${limits}Mean and standard deviation (of the population: divided by n) ${
    byRow ? 'of each row stand beside it' : 'of each column stand under its name'
  }.`;
}

function meanOf({ mean }: Statistics, group: number): number {
  return mean[group] as number;
}

function deviationOf({ variance }: Statistics, group: number): number {
  return Math.sqrt(variance[group] as number);
}

function header(text: string, properties: Partial<HTMLTableCellElement>): HTMLTableCellElement {
  const element = document.createElement('th');
  element.textContent = text;
  return Object.assign(element, properties);
}

function cell(row: HTMLTableRowElement, text: string, className: string): void {
  const element = row.insertCell();
  element.textContent = text;
  element.className = className;
}
