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

/** Reads delimited text piece by piece, so that 100 MB of numbers neither block the page nor exist twice. */
export async function readTable(text: Blob, options: ReadOptions): Promise<Table> {
  const { title, header, decimalSign, signal, onProgress } = options;
  const encoding = await detectEncoding(text);
  const sample = new TextDecoder(encoding).decode(await text.slice(0, 1 << 16).arrayBuffer());
  if (sample.includes('\0')) throw new TableError('This is not a text. In a spreadsheet program, save it as CSV.');
  const format = detectFormat(sample, decimalSign);
  const builder = new TableBuilder(header, format);
  const pieces = encoding === 'utf-8' ? await cutBetweenCharacters(text) : text;
  let fruitless = 0;

  await new Promise<void>((resolve, reject) => {
    Papa.parse<string[]>(pieces as File, {
      encoding,
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

/** Spreadsheets also write UTF-16, and without being asked windows-1252. What isn't UTF-8 can only be the latter. */
async function detectEncoding(text: Blob): Promise<'utf-8' | 'utf-16le' | 'windows-1252'> {
  const [first, second] = new Uint8Array(await text.slice(0, 2).arrayBuffer());
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    await text.stream().pipeTo(new WritableStream({ write: (bytes) => void decoder.decode(bytes, { stream: true }) }));
    return 'utf-8';
  } catch {
    return 'windows-1252';
  }
}

/** papaparse decodes each chunk by itself, so that a character of several bytes must not begin in one and end in the next. */
async function cutBetweenCharacters(text: Blob): Promise<Pick<Blob, 'size' | 'slice'>> {
  const cuts = new Map<number, number>();
  for (let end = chunkSize; end < text.size; end += chunkSize) {
    const bytes = new Uint8Array(await text.slice(end, end + 4).arrayBuffer());
    // Bytes 10xxxxxx continue a character, at most three of them.
    const rest = bytes.findIndex((byte) => byte >> 6 !== 0b10);
    cuts.set(end, end + Math.max(0, rest));
  }
  const cut = (place = 0) => cuts.get(place) ?? place;
  return { size: text.size, slice: (start, end) => text.slice(cut(start), cut(end)) };
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
    !values.some((value) => /^\s*[+−-]?\d*\.\d+\s*$/.test(value))
  );
}
