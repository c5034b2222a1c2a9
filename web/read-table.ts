import Papa from 'papaparse';
import { type HeaderChoice, type Table, TableBuilder, TableError } from './table';

// Small enough that the page answers between two chunks, large enough that reading them costs little.
const chunkSize = 1 << 20;

// No row of numbers is that long: a quotation mark was not closed, and each further chunk would be parsed from there again.
const chunksWithoutRow = 16;

interface ReadOptions {
  title: string;
  header: HeaderChoice;
  signal: AbortSignal;
  onProgress: (fraction: number) => void;
}

/** Reads delimited text piece by piece, so that a file of 100 MB neither blocks the page nor exists twice. */
export async function readTable(text: Blob, { title, header, signal, onProgress }: ReadOptions): Promise<Table> {
  const sample = await text.slice(0, 1 << 16).text();
  const format = detectFormat(sample);
  const builder = new TableBuilder(header, format.decimalComma);
  let fruitless = 0;

  await new Promise<void>((resolve, reject) => {
    Papa.parse<string[]>(text as File, {
      delimiter: format.delimiter,
      newline: format.newline,
      chunkSize,
      chunk(results, parser) {
        // An exception would not leave papaparse's event handler.
        try {
          signal.throwIfAborted();
          fruitless = results.data.length === 0 ? fruitless + 1 : 0;
          const unclosed = results.errors.find((error) => error.code === 'MissingQuotes');
          if (unclosed || fruitless > chunksWithoutRow) {
            throw new TableError('A quotation mark (") opens a value and is never closed.');
          }
          for (const cells of results.data) {
            // Numbers in aligned columns have several spaces between them.
            builder.add(format.delimiter === ' ' ? cells.filter((cell) => cell !== '') : cells);
          }
          onProgress(Math.min(1, results.meta.cursor / text.size));
        } catch (error) {
          // In this order, as abort() calls complete.
          reject(error);
          parser.abort();
        }
      },
      complete: () => resolve(),
      error: reject,
    });
  });
  return builder.finish(title);
}

interface Format {
  delimiter: string;
  newline: '\n' | '\r';
  decimalComma: boolean;
}

function detectFormat(sample: string): Format {
  const unquoted = sample.replace(/"[^"]*"/g, '');
  const newline = sample.includes('\n') || !sample.includes('\r') ? '\n' : '\r';
  const lines = unquoted.split(newline).filter((line) => line.trim() !== '');
  const candidates = ['\t', ';', ','];
  const delimiter =
    candidates.find((candidate) => lines.slice(0, 20).every((line) => line.trim().includes(candidate))) ??
    candidates.find((candidate) => unquoted.includes(candidate)) ??
    ' ';
  // Spreadsheets write 1,5 for 1.5 in half of the world, and then separate by semicolons.
  const values = unquoted.split(newline).flatMap((line) => (delimiter === ';' ? line.split(';') : []));
  const decimalComma =
    values.some((value) => /^\s*[+-]?\d*,\d+\s*$/.test(value)) &&
    !values.some((value) => /^\s*[+-]?\d*\.\d+\s*$/.test(value));
  return { delimiter, newline, decimalComma };
}
