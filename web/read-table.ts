import Papa from 'papaparse';
import {
  type Delimiter,
  type Format,
  type HeaderChoice,
  type Table,
  TableBuilder,
  TableError,
  withComma,
} from './table';

// Small enough that the page answers between two chunks, large enough that reading them costs little.
const chunkSize = 1 << 20;

// Each further chunk is parsed from the start of its row again: the time grows with the square of a row's length.
const chunksWithoutRow = 16;

export type DecimalSign = 'detect' | 'point' | 'comma';

interface ReadOptions {
  title: string;
  header: HeaderChoice;
  decimalSign: DecimalSign;
  signal: AbortSignal;
  onProgress: (fraction: number) => void;
}

/** Reads delimited text piece by piece, so that a file of 100 MB neither blocks the page nor exists twice. */
export async function readTable(text: Blob, options: ReadOptions): Promise<Table> {
  const { title, header, decimalSign, signal, onProgress } = options;
  const sample = await text.slice(0, 1 << 16).text();
  const format = detectFormat(sample, decimalSign);
  const builder = new TableBuilder(header, format);
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
          if (results.errors.some((error) => error.code === 'MissingQuotes')) {
            throw new TableError('A quotation mark (") opens a value and is never closed.');
          }
          if (fruitless > chunksWithoutRow) {
            const causes = 'line breaks are missing, or a quotation mark (") is not closed';
            throw new TableError(
              `Line ${builder.nextLine} is longer than 16 MiB, the most that can be read: ${causes}.`,
            );
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

function detectFormat(sample: string, decimalSign: DecimalSign): Format {
  // What is quoted may hold separators and line breaks that separate nothing.
  const unquoted = sample.replace(/"[^"]*"/g, '""');
  const newline = detectNewline(unquoted);
  const lines = unquoted.split(newline).filter((line) => line.trim() !== '');
  const isOneColumn = decimalSign !== 'point' && isNamedColumn(lines.slice(0, 20));
  // A comma after a quoted value separates, also where commas within values are decimal.
  const areDecimal = isOneColumn || (decimalSign === 'comma' && !unquoted.includes('"",'));
  const candidates: Delimiter[] = areDecimal ? ['\t', ';'] : ['\t', ';', ','];
  const delimiter =
    candidates.find((candidate) => lines.slice(0, 20).every((line) => line.trim().includes(candidate))) ??
    candidates.find((candidate) => unquoted.includes(candidate)) ??
    // A name may consist of several words.
    (isOneColumn ? ';' : ' ');
  const decimalComma =
    decimalSign === 'comma' ||
    (decimalSign === 'detect' && delimiter !== ',' && hasDecimalCommas(sample, delimiter, newline));
  return { delimiter, newline, decimalComma };
}

/** Old Macs end lines with CR alone; a tool that has been there since may have added one LF. */
function detectNewline(unquoted: string): '\n' | '\r' {
  const text = unquoted.trimEnd();
  const bare = text.match(/\r(?!\n)/g)?.length ?? 0;
  const feeds = text.match(/\n/g)?.length ?? 0;
  return bare > feeds ? '\r' : '\n';
}

/** Numbers such as 1,5 on lines of their own, under a line without a comma: as two columns they would lack a name. */
function isNamedColumn([first = '', ...rest]: string[]): boolean {
  return (
    !/[,;\t]/.test(first) &&
    rest.some((line) => line.includes(',')) &&
    rest.every((line) => withComma.test(line.trim()))
  );
}

/** Spreadsheets write 1,5 for 1.5 in half of the world, and then separate by something else. */
function hasDecimalCommas(sample: string, delimiter: Delimiter, newline: '\n' | '\r'): boolean {
  const values = Papa.parse<string[]>(sample, { delimiter, newline }).data.flat();
  return (
    values.some((value) => value.includes(',') && withComma.test(value.trim())) &&
    !values.some((value) => /^\s*[+-]?\d*\.\d+\s*$/.test(value))
  );
}
