import { readableColumn, shortColumns } from './format-number';
import { type Normalized, norms, type Statistics } from './normalization';
import { count } from './table';

// A browser lays out a few thousand cells at once without a pause, and nobody reads more of them.
const shownRows = 150;
const shownColumns = 12;

/** Names of the statistics, as they head a column. */
function statisticNames({ norm }: Normalized): string[] {
  const { spread } = norms[norm];
  return spread === 'standard deviation' ? ['mean', 'std. dev.'] : [spread];
}

/** In the order of the names. */
function statisticsOf({ mean, spread }: Statistics, group: number): number[] {
  const values = [spread[group] as number];
  return mean ? [mean[group] as number, ...values] : values;
}

interface Column {
  name: string;
  className: string;
  /** One for each row that is shown. */
  texts: string[];
}

/** x and y side by side. Statistics stand where they were taken: after each row or group, or under each column's name. */
export function drawTable(container: HTMLElement, note: HTMLElement, result: Normalized): void {
  const { table, norm, groups, y, before, after } = result;
  const rows = Math.min(table.rows, shownRows);
  const cols = Math.min(table.cols, shownColumns);
  const { shares, spread } = norms[norm];
  const underNames = shares === 'column';
  const statistics = statisticNames(result);
  const groupSize = table.cols / groups;
  const isLastOfGroup = (col: number) => !underNames && (col === cols - 1 || (col + 1) % groupSize === 0);
  const down = (value: (row: number) => number) => Array.from({ length: rows }, (_, row) => value(row));
  const columnsOf = (values: Float32Array, of: Statistics, side: 'before' | 'after') => {
    const columns: Column[] = [];
    for (let col = 0; col < cols; col++) {
      const numbers = down((row) => values[row * table.cols + col] as number);
      // What was typed is read as it was typed; what was computed has no such number of decimals.
      const texts = side === 'before' ? readableColumn(numbers) : (shortColumns([numbers])[0] as string[]);
      columns.push({ name: table.names[col] as string, className: side, texts });
      if (!isLastOfGroup(col)) continue;
      const group = Math.floor(col / groupSize);
      const beside = shares === 'group' ? `group ${group + 1} ` : '';
      shortColumns(
        statistics.map((_, which) => down((row) => statisticsOf(of, row * groups + group)[which] as number)),
      ).forEach((texts, which) => {
        columns.push({ name: `${beside}${statistics[which]}`, className: 'statistic', texts });
      });
    }
    return columns;
  };
  const sides = [
    { title: 'Before: x', side: 'before', of: before, columns: columnsOf(table.x, before, 'before') },
    { title: 'After: y', side: 'after', of: after, columns: columnsOf(y, after, 'after') },
  ];
  const all = sides.flatMap(({ columns }) => columns);

  const head = document.createElement('thead');
  const titles = head.insertRow();
  titles.append(header('', { className: 'corner' }));
  for (const { title, side, columns } of sides) {
    titles.append(header(title, { scope: 'colgroup', className: side, colSpan: columns.length }));
  }
  const names = head.insertRow();
  names.append(header('row', { scope: 'col', className: 'corner' }));
  for (const { name, className } of all) names.append(header(name, { scope: 'col', className }));
  if (underNames) {
    const texts = sides.flatMap(({ of }) =>
      Array.from({ length: cols }, (_, col) => shortColumns([statisticsOf(of, col)])[0] as string[]),
    );
    statistics.forEach((name, which) => {
      const line = head.insertRow();
      line.className = 'statistic';
      line.append(header(name, { scope: 'row', className: 'corner' }));
      for (const text of texts) cell(line, text[which] as string, 'statistic');
    });
  }

  const body = document.createElement('tbody');
  for (let row = 0; row < rows; row++) {
    const line = body.insertRow();
    line.append(header(String(row + 1), { scope: 'row', className: 'corner' }));
    for (const { texts, className } of all) cell(line, texts[row] as string, className);
  }

  const element = document.createElement('table');
  element.append(head, body);
  container.replaceChildren(element);
  container.scrollTop = 0;

  const parts = [];
  if (rows < table.rows) parts.push(`the first ${rows} of ${count(table.rows, 'row')}`);
  if (cols < table.cols) parts.push(`the first ${cols} of ${count(table.cols, 'column')}`);
  const limits = parts.length > 0 ? `Shown are ${parts.join(' and ')}; the download has all. ` : '';
  const places = {
    row: 'of each row, beside it',
    group: 'of each group of columns, beside it in each row',
    column: 'of each column, under its name',
  };
  const what =
    spread === 'standard deviation' ? 'mean and standard deviation (of the population: divided by n)' : spread;
  note.textContent = `${limits}In italics: the ${what} ${places[shares]}.`;
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
