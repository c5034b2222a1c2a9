import { load, NormError, type Simdnorm } from 'simdnorm';
import { downloadResult } from './download';
import { readableNumber, shortest, shortNumber, shortTime } from './format-number';
import { measure, type Norm, type Normalized, normalize, parseEpsilon } from './normalization';
import { drawPlot } from './plot';
import { readTable } from './read-table';
import { drawTable } from './result-table';
import { irisText, irisTitle } from './sample-data';
import { count, type HeaderChoice, type Table, TableError } from './table';

// Above this a textarea takes seconds to show what was pasted into it.
const shownPaste = 200_000;

function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const paste = byId<HTMLTextAreaElement>('paste');
const fileInput = byId<HTMLInputElement>('file-input');
const headerChoice = byId<HTMLSelectElement>('header');
const epsilonInput = byId<HTMLInputElement>('epsilon');
const norms = [...document.querySelectorAll<HTMLInputElement>('input[name=norm]')];

let simdnorm: Simdnorm | undefined;
let source = { text: irisText, title: irisTitle };
let table: Table | undefined;
let result: Normalized | undefined;
let reading = new AbortController();
let timer: ReturnType<typeof setTimeout> | undefined;

function show(id: string, message: string): void {
  const element = byId(id);
  element.textContent = message;
  element.hidden = message === '';
}

// ---------------------------------------------------------------- numbers

async function read(text: Blob, title: string): Promise<void> {
  source = { text, title };
  reading.abort();
  reading = new AbortController();
  const { signal } = reading;
  const status = byId('data-status');
  try {
    const header = headerChoice.value as HeaderChoice;
    const onProgress = (fraction: number) => {
      if (fraction < 1) status.textContent = `Reading ${title}: ${Math.round(fraction * 100)} %`;
    };
    const next = await readTable(text, { title, header, signal, onProgress });
    if (signal.aborted) return;
    table = next;
    show('data-error', '');
    describe(next);
    recompute();
  } catch (error) {
    if (signal.aborted) return;
    table = undefined;
    status.textContent = '';
    show('data-error', `${title}: ${error instanceof TableError ? error.message : `cannot be read (${error})`}`);
    markStale('the numbers could not be read');
  }
  const failed = byId('data-error').hidden === false;
  paste.setAttribute('aria-invalid', String(failed && paste.value !== ''));
  byId('iris-source').hidden = title !== irisTitle;
}

function describe({ title, rows, cols, hasHeader, leftOut, decimalComma }: Table): void {
  const parts = [
    `${title}: ${count(rows, 'row')} × ${count(cols, 'column')}`,
    hasHeader ? 'the first row is column names' : 'without column names',
  ];
  if (decimalComma) parts.push('commas read as decimal points');
  const names = leftOut.map(({ name, example }) => `${name} (${example === '' ? 'empty' : `“${example}”`})`);
  if (names.length > 0) parts.push(`left out, not numbers: ${names.slice(0, 5).join(', ')}`);
  if (names.length > 5) parts.push(`and ${names.length - 5} more`);
  byId('data-status').textContent = `${parts.join('; ')}.`;
}

function readFile(file: File | undefined): void {
  if (!file) return;
  clearPaste();
  void read(file, file.name);
}

// ---------------------------------------------------------------- result

function recompute(): void {
  if (!simdnorm) return;
  const norm = norms.find((input) => input.checked)?.value as Norm;
  const epsilon = parseEpsilon(epsilonInput.value);
  explain(norm);

  // Asked about epsilon alone, the library's answer belongs to that field whatever else is wrong.
  const epsilonMessage = refusal(() => simdnorm?.layerNorm(new Float32Array(1), { epsilon }));
  show('epsilon-error', epsilonMessage);
  epsilonInput.setAttribute('aria-invalid', String(epsilonMessage !== ''));
  if (epsilonMessage) {
    show('norm-error', '');
    markStale('epsilon is not valid');
    return;
  }
  if (!table) return;

  let next: Normalized | undefined;
  const { rows } = table;
  const message = refusal(() => {
    next = normalize(simdnorm as Simdnorm, table as Table, norm, epsilon);
  });
  const advice = norm === 'batch' && rows === 1 ? 'Batch norm needs at least two rows, layer norm does with one. ' : '';
  show('norm-error', message && `${advice}${message}`);
  if (!next) {
    markStale('this normalization is not possible');
    return;
  }
  result = next;
  draw(next);
}

/** The library's words for why it refuses, or nothing. */
function refusal(call: () => void): string {
  try {
    call();
    return '';
  } catch (error) {
    if (error instanceof NormError) return `${error.message} (${error.code})`;
    // The engine's own refusal, such as for an array that is too large.
    return String(error);
  }
}

function markStale(reason: string): void {
  byId('result').classList.add('is-stale');
  show('formula-example', '');
  byId<HTMLButtonElement>('download').disabled = true;
  if (!result) return;
  const { table: old, norm, epsilon } = result;
  show(
    'stale',
    `Not recomputed: ${reason}. Below is the last good result: ${old.title}, ${norm} norm, epsilon ${shortest(epsilon)}.`,
  );
}

function draw(next: Normalized): void {
  const { rows, cols, title } = next.table;
  byId('result').hidden = false;
  byId('result').classList.remove('is-stale');
  byId<HTMLButtonElement>('download').disabled = false;
  show('stale', '');
  byId('result-summary').textContent =
    `${next.norm === 'layer' ? 'Layer' : 'Batch'} norm of ${title}, ${count(rows, 'row')} × ${count(cols, 'column')}, epsilon ${shortest(next.epsilon)}.`;
  show('not-finite', notFinite(next));
  show('formula-example', example(next));
  drawPlot(byId('plot'), byId('plot-note'), next);
  drawTable(byId('table'), byId('table-note'), next);

  // After the browser has painted, as the repetitions take longer than everything else.
  byId('timing').textContent = 'Measuring…';
  clearTimeout(timer);
  timer = setTimeout(() => time(next), 50);
}

function time(of: Normalized): void {
  const { medianMilliseconds, timings, callsEach } = measure(simdnorm as Simdnorm, of);
  const values = of.y.length;
  const calls = callsEach === 1 ? count(timings, 'call') : `${timings} timings of ${count(callsEach, 'call')} each`;
  const rate = values / medianMilliseconds / 1000;
  const digits = { maximumFractionDigits: rate < 10 ? 2 : 0 };
  const strong = document.createElement('strong');
  strong.textContent = shortTime(medianMilliseconds);
  byId('timing').replaceChildren(
    strong,
    ` for one call: median of ${calls}, ${count(values, 'value')}, ${rate.toLocaleString('en', digits)} million values per second.`,
  );
}

function notFinite({ y }: Normalized): string {
  let n = 0;
  for (const value of y) if (!Number.isFinite(value)) n++;
  return n === 0
    ? ''
    : `${count(n, 'value')} of y are not finite: with epsilon 0, values that are all the same give 0 / 0.`;
}

function explain(norm: Norm): void {
  byId('formula-words').textContent =
    norm === 'layer'
      ? 'Layer norm: mean and variance are those of the row that x is in, over its columns.'
      : 'Batch norm, as in training: mean and variance are those of the column that x is in, over all rows.';
}

/** The formula with the numbers of the first value, which is in the first group of either norm. */
function example({ table: { x, names }, y, before, epsilon }: Normalized): string {
  const first = (values: Float32Array | Float64Array) => shortNumber(values[0] as number);
  const mean = first(before.mean);
  const difference = `${readableNumber(x[0] as number)} − ${mean.startsWith('-') ? `(${mean})` : mean}`;
  return `Row 1, ${names[0]}: (${difference}) / √(${first(before.variance)} + ${shortest(epsilon)}) = ${first(y)}`;
}

// ---------------------------------------------------------------- events

let typing: ReturnType<typeof setTimeout> | undefined;
/** Also forgets what was typed a moment ago, which would replace what is asked for now. */
function clearPaste(): void {
  clearTimeout(typing);
  paste.value = '';
}
paste.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => read(new Blob([paste.value]), 'pasted numbers'), 200);
});
paste.addEventListener('paste', (event) => {
  const text = event.clipboardData?.getData('text/plain') ?? '';
  if (text.length <= shownPaste) return;
  event.preventDefault();
  clearPaste();
  void read(new Blob([text]), 'pasted numbers');
});
byId('iris-button').addEventListener('click', () => {
  clearPaste();
  void read(irisText, irisTitle);
});
fileInput.addEventListener('change', () => {
  readFile(fileInput.files?.[0]);
  // Choosing the same file again, perhaps edited, must count as a change.
  fileInput.value = '';
});
headerChoice.addEventListener('change', () => void read(source.text, source.title));
epsilonInput.addEventListener('input', recompute);
for (const input of norms) input.addEventListener('change', recompute);
byId('download').addEventListener('click', async () => {
  if (!result) return;
  const status = byId('download-status');
  await downloadResult(result, (fraction) => {
    status.textContent = `Writing the CSV: ${Math.round(fraction * 100)} %`;
  });
  status.textContent = '';
});

// On the whole page: a file that misses the zone would otherwise replace the page.
addEventListener('dragover', (event) => {
  event.preventDefault();
  byId('drop-zone').classList.add('is-over');
});
for (const type of ['dragleave', 'drop']) addEventListener(type, () => byId('drop-zone').classList.remove('is-over'));
addEventListener('drop', (event) => {
  event.preventDefault();
  const file = event.dataTransfer?.files[0];
  if (file) readFile(file);
  else void read(new Blob([event.dataTransfer?.getData('text/plain') ?? '']), 'dropped text');
});

let plotWidth = 0;
new ResizeObserver(() => {
  const width = byId('plot').clientWidth;
  if (!result || width === plotWidth || width === 0) return;
  plotWidth = width;
  drawPlot(byId('plot'), byId('plot-note'), result);
}).observe(byId('plot'));

// ---------------------------------------------------------------- start

void read(irisText, irisTitle);
try {
  simdnorm = await load();
  recompute();
} catch (error) {
  const code = error instanceof NormError ? ` (${error.code})` : '';
  show('load-error', `simdnorm could not be loaded, so nothing can be computed: ${(error as Error).message}${code}`);
}
