import Papa from 'papaparse';
import { exactNumber } from './format-number';
import { type Normalized, norms } from './normalization';
import type { TextColumn } from './table';

/** The columns that were read, with y in x's place. It has the decimal sign that was read, too. */
async function resultAsCsv({ table, y }: Normalized, onProgress: (fraction: number) => void): Promise<Blob> {
  const { names, hasHeader, rows, cols, leftOut, format } = table;
  const number = format.decimalComma ? (value: number) => exactNumber(value).replace('.', ',') : exactNumber;
  const csv = (lines: string[][]) =>
    // Semicolons are what spreadsheets expect between decimal commas.
    `${Papa.unparse(lines, { delimiter: format.decimalComma ? ';' : ',', newline: '\n' })}\n`;
  const withTexts = (line: string[], textOf: (column: TextColumn) => string) => {
    for (const column of leftOut) line.splice(column.place, 0, textOf(column));
    return line;
  };

  // One string of a large result would be longer than engines allow; a Blob joins the pieces outside of their heap.
  const pieces = hasHeader ? [csv([withTexts([...names], ({ name }) => name)])] : [];
  const rowsEach = Math.max(1, Math.floor(50_000 / (cols + leftOut.length)));
  for (let first = 0; first < rows; first += rowsEach) {
    const lines: string[][] = [];
    for (let row = first; row < Math.min(rows, first + rowsEach); row++) {
      const line = Array.from(y.subarray(row * cols, (row + 1) * cols), number);
      lines.push(withTexts(line, ({ cells }) => cells[row] as string));
    }
    pieces.push(csv(lines));
    if (first + rowsEach < rows) {
      onProgress((first + rowsEach) / rows);
      // The page goes on answering meanwhile: ten million values take seconds.
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  return new Blob(pieces, { type: 'text/csv' });
}

export async function downloadResult(result: Normalized, onProgress: (fraction: number) => void): Promise<void> {
  const csv = await resultAsCsv(result, onProgress);
  const url = URL.createObjectURL(csv);
  const link = document.createElement('a');
  link.href = url;
  const title = result.table.title.replace(/\.\w+$/, '').replace(/[^\p{L}\p{N}]+/gu, '-');
  link.download = `${title}-${norms[result.norm].name.toLowerCase().replace(' ', '-')}.csv`;
  link.click();
  // Not at once: Firefox and Safari start the download later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
