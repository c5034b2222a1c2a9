import { readableNumber, shortNumber } from './format-number';
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
  const shownGroups = Math.ceil(cols / groupSize);
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
    const colSpan = cols + (underNames ? 0 : shownGroups * statistics.length);
    titles.append(header(title, { scope: 'colgroup', className: side, colSpan }));
    for (let col = 0; col < cols; col++) {
      names.append(header(table.names[col] as string, { scope: 'col', className: side }));
      if (!isLastOfGroup(col)) continue;
      const of = shares === 'group' ? `group ${Math.floor(col / groupSize) + 1} ` : '';
      for (const name of statistics) names.append(header(`${of}${name}`, { scope: 'col', className: 'statistic' }));
    }
  }
  if (underNames) {
    statistics.forEach((name, which) => {
      const line = head.insertRow();
      line.className = 'statistic';
      line.append(header(name, { scope: 'row', className: 'corner' }));
      for (const { statistics: of } of sides) {
        for (let col = 0; col < cols; col++)
          cell(line, shortNumber(statisticsOf(of, col)[which] as number), 'statistic');
      }
    });
  }

  const body = document.createElement('tbody');
  for (let row = 0; row < rows; row++) {
    const line = body.insertRow();
    line.append(header(String(row + 1), { scope: 'row', className: 'corner' }));
    for (const { values, statistics: of, format, side } of sides) {
      for (let col = 0; col < cols; col++) {
        cell(line, format(values[row * table.cols + col] as number), side);
        if (!isLastOfGroup(col)) continue;
        const group = row * groups + Math.floor(col / groupSize);
        for (const value of statisticsOf(of, group)) cell(line, shortNumber(value), 'statistic');
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
