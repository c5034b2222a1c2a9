/** Rows of numbers as they are shown and normalized. */
export interface Table {
  /** What the page calls it: a file's name, "pasted numbers". */
  title: string;
  /** One name for each column of x; made up ("column 2") where the text has none. */
  names: string[];
  /** Whether the names came from the text, and so belong into the download. */
  hasHeader: boolean;
  rows: number;
  cols: number;
  /** Row-major. */
  x: Float32Array;
  leftOut: TextColumn[];
  format: Format;
}

/** A column that is not numbers: it isn't normalized, but it is downloaded with them. */
export interface TextColumn {
  name: string;
  /** Counted from 0, in the text that was read. */
  place: number;
  example: string;
  cells: string[];
}

export type Delimiter = ',' | ';' | '\t' | ' ';

export interface Format {
  delimiter: Delimiter;
  newline: '\n' | '\r';
  decimalComma: boolean;
}

export type HeaderChoice = 'detect' | 'names' | 'values';

/** A text that cannot be read as rows of numbers; the message says where and is meant for the reader. */
export class TableError extends Error {}

// Columns are judged by this many rows, so that one "n/a" at the top is reported, not taken for a text column.
const judgedRows = 50;

// U+2212 is the minus of typesetters and of some spreadsheets.
const withPoint = /^[+−-]?(\d+\.?\d*|\.\d+)(e[+−-]?\d+)?$/i;
export const withComma = /^[+−-]?(\d+,?\d*|,\d+)(e[+−-]?\d+)?$/i;

interface Row {
  line: number;
  cells: string[];
}

/** Turns rows of text, given one after another, into a Table. */
export class TableBuilder {
  private line = 0;
  private rows = 0;
  private width = 0;
  private names: string[] = [];
  private hasHeader = false;
  private waiting: Row[] | null = [];
  private numeric: number[] = [];
  private leftOut: TextColumn[] = [];
  private x = new Float32Array(1024);

  constructor(
    private readonly header: HeaderChoice,
    private readonly format: Format,
  ) {}

  add(raw: string[]): void {
    this.line++;
    const cells = raw.map((cell) => cell.trim());
    if (cells.every((cell) => cell === '')) return;
    const row = { line: this.line, cells };
    if (!this.waiting) this.store(row);
    else if (this.waiting.push(row) > judgedRows) this.judge();
  }

  /** Counted from 1, as readers do. */
  get nextLine(): number {
    return this.line + 1;
  }

  finish(title: string): Table {
    this.judge();
    const { names, hasHeader, rows, leftOut, format } = this;
    const cols = this.numeric.length;
    if (rows === 0) throw new TableError('There is a row of column names, but no row of numbers under it.');
    return {
      title,
      names: this.numeric.map((column) => names[column] as string),
      hasHeader,
      rows,
      cols,
      x: this.x.slice(0, rows * cols),
      leftOut,
      format,
    };
  }

  private isNumber(cell: string | undefined): boolean {
    return cell !== undefined && (this.format.decimalComma ? withComma : withPoint).test(cell);
  }

  private judge(): void {
    if (!this.waiting) return;
    const rows = this.waiting;
    this.waiting = null;
    const first = rows[0];
    if (!first) throw new TableError('There is nothing to read: the text is empty.');
    this.width = first.cells.length;
    const hasNumber = ({ cells }: Row) => cells.some((cell) => this.isNumber(cell));
    this.hasHeader =
      this.header === 'detect' ? !hasNumber(first) && rows.slice(1).some(hasNumber) : this.header === 'names';
    const values = this.hasHeader ? rows.slice(1) : rows;
    this.names = first.cells.map((cell, column) => (this.hasHeader && cell) || `column ${column + 1}`);

    for (let column = 0; column < this.width; column++) {
      const bad = values.filter(({ cells }) => !this.isNumber(cells[column]));
      if (values.length === 0 || bad.length <= values.length / 2) this.numeric.push(column);
      else {
        const example = bad[0]?.cells[column] ?? '';
        this.leftOut.push({ name: this.nameOf(column), place: column, example, cells: [] });
      }
    }
    if (this.numeric.length === 0) {
      throw new TableError(`No column of numbers found. Row 1 starts with ${quoted(values[0]?.cells[0] ?? '')}.`);
    }
    for (const row of values) this.store(row);
  }

  private store({ line, cells }: Row): void {
    if (cells.length !== this.width) {
      throw new TableError(`${this.place(line)} has ${count(cells.length, 'value')}, the first row has ${this.width}.`);
    }
    let next = this.rows * this.numeric.length;
    if (next + this.numeric.length > this.x.length) this.grow(next + this.numeric.length);
    for (const column of this.numeric) {
      const cell = cells[column] as string;
      if (!this.isNumber(cell)) {
        const problem = cell === '' ? 'the value is missing' : `${quoted(cell)} is not a number`;
        throw new TableError(`${this.place(line, column)}: ${problem}.`);
      }
      const plain = cell.replaceAll('−', '-');
      const value = Math.fround(Number(this.format.decimalComma ? plain.replace(',', '.') : plain));
      if (!Number.isFinite(value)) {
        throw new TableError(`${this.place(line, column)}: ${quoted(cell)} is too large for a float32.`);
      }
      this.x[next++] = value;
    }
    for (const column of this.leftOut) column.cells.push(cells[column.place] as string);
    this.rows++;
  }

  /** Rows count values, lines count everything: a reader may look for either. */
  private place(line: number, column?: number): string {
    const row = this.rows + 1;
    const place = line === row ? `Row ${row}` : `Row ${row} (line ${line})`;
    if (column === undefined) return place;
    return `${place}, column ${column + 1}${this.hasHeader ? ` (${this.nameOf(column)})` : ''}`;
  }

  private nameOf(column: number): string {
    return this.names[column] as string;
  }

  private grow(length: number): void {
    const larger = new Float32Array(Math.max(length, this.x.length * 2));
    larger.set(this.x);
    this.x = larger;
  }
}

export function count(n: number, noun: string): string {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;
}

export function quoted(cell: string): string {
  return `“${cell.length > 30 ? `${cell.slice(0, 30)}…` : cell}”`;
}
