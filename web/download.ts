import Papa from 'papaparse';
import { exactNumber } from './format-number';
import { type Normalized, norms } from './normalization';

/** y as CSV, with the input's column names where it had some. */
async function resultAsCsv({ table, y }: Normalized, onProgress: (fraction: number) => void): Promise<Blob> {
  const { names, hasHeader, rows, cols } = table;
  // One string of a large result would be longer than engines allow; a Blob joins the pieces outside of their heap.
  const pieces: string[] = hasHeader ? [`${Papa.unparse([names], { newline: '\n' })}\n`] : [];
  const rowsEach = Math.max(1, Math.floor(50_000 / cols));
  for (let first = 0; first < rows; first += rowsEach) {
    let piece = '';
    for (let row = first; row < Math.min(rows, first + rowsEach); row++) {
      piece += `${Array.from(y.subarray(row * cols, (row + 1) * cols), exactNumber).join(',')}\n`;
    }
    pieces.push(piece);
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
