function inPowersOfTen(value: number, decimals?: number): string {
  return value.toExponential(decimals).replace('e+', 'e');
}

/** Short, for reading: about five digits. */
export function shortNumber(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '-∞';
  if (value !== 0 && (size < 1e-3 || size >= 1e6)) return inPowersOfTen(value, 2);
  return size >= 1000 ? value.toFixed(1) : value.toFixed(4);
}

/** Columns that are read together, all with the same number of decimals: the largest number says how many. */
export function shortColumns(columns: number[][]): string[][] {
  const largest = Math.max(0, ...columns.flat().map(Math.abs).filter(Number.isFinite));
  const far = largest !== 0 && (largest < 1e-3 || largest >= 1e6);
  const format = (value: number) => {
    if (!Number.isFinite(value)) return shortNumber(value);
    if (far) return inPowersOfTen(value, 2);
    // A mean that is -1e-8 by rounding is no negative number to a reader.
    return value.toFixed(4).replace(/^-(?=[0.]+$)/, '');
  };
  return columns.map((values) => values.map(format));
}

/** A column as it was typed, with the decimals of the value that has most of them, unless that is long. */
export function readableColumn(values: number[]): string[] {
  const exact = values.map(exactNumber);
  if (exact.some((text) => text.length > 9 || text.includes('e'))) return shortColumns([values])[0] as string[];
  const decimals = Math.max(...exact.map((text) => text.split('.')[1]?.length ?? 0));
  return exact.map((text) => Number(text).toFixed(decimals));
}

/** All digits, as people write it: 1e-5 where String() says 0.00001. */
export function shortest(value: number): string {
  const plain = String(value);
  const exponential = inPowersOfTen(value);
  return exponential.length < plain.length - 1 ? exponential : plain;
}

/** The shortest decimal that reads back as the same float32. */
export function exactNumber(value: number): string {
  if (Object.is(value, -0)) return '-0';
  // Nine digits identify any float32, and most need eight or nine: from there down.
  let text = value.toPrecision(9);
  for (let digits = 8; digits >= 6; digits--) {
    const shorter = value.toPrecision(digits);
    if (Math.fround(Number(shorter)) !== value) break;
    text = shorter;
  }
  return String(Number(text));
}

/** As it was typed, unless that is long. */
export function readableNumber(value: number): string {
  const exact = exactNumber(value).replace('e+', 'e');
  return exact.length > 9 ? shortNumber(value) : exact;
}

export function shortTime(milliseconds: number): string {
  if (milliseconds < 1e-3) return `${(milliseconds * 1e6).toFixed(0)} ns`;
  if (milliseconds < 1) return `${(milliseconds * 1e3).toPrecision(3)} µs`;
  return milliseconds < 1000 ? `${milliseconds.toPrecision(3)} ms` : `${(milliseconds / 1000).toPrecision(3)} s`;
}
