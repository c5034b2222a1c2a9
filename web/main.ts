import { load, NormError, type Simdnorm } from 'simdnorm';
import { downloadResult } from './download';
import { epsilonHints, example, words, zeroByZero } from './explanation';
import { shortest, shortTime } from './format-number';
import { checkEpsilon, divisors, measure, type Norm, type Normalized, normalize, norms } from './normalization';
import { drawPlot } from './plot';
import { type DecimalSign, readTable } from './read-table';
import { drawTable } from './result-table';
import { irisText, irisTitle } from './sample-data';
import { count, type Delimiter, type HeaderChoice, quoted, type Table, TableError } from './table';

const separators: Record<Delimiter, string> = { ',': 'commas', ';': 'semicolons', '\t': 'tabs', ' ': 'spaces' };

// Above this a textarea takes seconds to show what was pasted into it.
const shownPaste = 200_000;

function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const paste = byId<HTMLTextAreaElement>('paste');
const fileInput = byId<HTMLInputElement>('file-input');
const headerChoice = byId<HTMLSelectElement>('header');
const decimalSign = byId<HTMLSelectElement>('decimal-sign');
const epsilonInput = byId<HTMLInputElement>('epsilon');
const groupsChoice = byId<HTMLSelectElement>('groups');
const normInputs = [...document.querySelectorAll<HTMLInputElement>('input[name=norm]')];
const formulas = [...document.querySelectorAll<HTMLElement>('[data-norms]')];

let simdnorm: Simdnorm | undefined;
let source: { text: Blob; title: string } | undefined;
let table: Table | undefined;
let result: Normalized | undefined;
let reading = new AbortController();
/** The default of what epsilon means now; its field holds this unless something was typed. */
let epsilonDefault = norms[chosenNorm()].epsilon;
const typedEpsilons = new Map<string, string>();
/** Chosen by hand, for as long as it divides the columns. */
let wantedGroups = Number.NaN;
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
    const choices = { header: headerChoice.value as HeaderChoice, decimalSign: decimalSign.value as DecimalSign };
    const onProgress = (fraction: number) => {
      if (fraction < 1) status.textContent = `Reading ${title}: ${Math.round(fraction * 100)} %`;
    };
    const next = await readTable(text, { ...choices, title, signal, onProgress });
    if (signal.aborted) return;
    table = next;
    show('data-error', '');
    describe(next);
    offerGroups(next.cols);
    recompute();
  } catch (error) {
    if (signal.aborted) return;
    table = undefined;
    status.textContent = '';
    show('data-error', `${title}: ${error instanceof TableError ? error.message : `cannot be read (${error})`}`);
    recompute();
  }
  const failed = byId('data-error').hidden === false;
  paste.setAttribute('aria-invalid', String(failed && paste.value !== ''));
  byId('iris-source').hidden = title !== irisTitle;
}

function describe({ title, rows, cols, hasHeader, leftOut, format }: Table): void {
  const separated = cols + leftOut.length > 1 ? ` separated by ${separators[format.delimiter]}` : '';
  const parts = [
    `${title}: ${count(rows, 'row')} × ${count(cols, 'column')}${separated}`,
    hasHeader ? 'the first row is column names' : 'without column names',
  ];
  if (format.decimalComma) parts.push('commas read as decimal points');
  const names = leftOut.map(({ name, example }) => `${name} (${example === '' ? 'empty' : `“${example}”`})`);
  if (names.length > 0) parts.push(`left out, not numbers: ${names.slice(0, 5).join(', ')}`);
  if (names.length > 5) parts.push(`and ${names.length - 5} more`);
  if (names.length > 0) parts.push('the download has them as they are');
  byId('data-status').textContent = `${parts.join('; ')}.`;
}

/** An emptied box is no mistake, so it gets an invitation. */
function readNothing(): void {
  reading.abort();
  source = undefined;
  table = undefined;
  show('data-error', '');
  paste.setAttribute('aria-invalid', 'false');
  byId('iris-source').hidden = true;
  byId('data-status').textContent = 'No numbers yet: paste some, choose a file, or take Fisher’s Iris.';
  recompute();
}

function readAgain(): void {
  if (source) void read(source.text, source.title);
}

function readFile(file: File | undefined): void {
  if (!file) return;
  clearPaste();
  void read(file, file.name);
}

// ---------------------------------------------------------------- choice

function chosenNorm(): Norm {
  return normInputs.find((input) => input.checked)?.value as Norm;
}

function offerGroups(cols: number): void {
  const offered = divisors(cols);
  groupsChoice.replaceChildren(
    ...offered.map(
      (groups) => new Option(`${count(groups, 'group')} of ${(cols / groups).toLocaleString('en')}`, `${groups}`),
    ),
  );
  // The extremes are layer norm and all 0: what lies between them shows what group norm is.
  const between = offered.find((groups) => groups > 1 && groups < cols);
  groupsChoice.value = String(offered.includes(wantedGroups) ? wantedGroups : (between ?? 1));
}

function choose(): void {
  const norm = chosenNorm();
  groupsChoice.disabled = norms[norm].shares !== 'group';
  if (norms[norm].epsilon !== epsilonDefault) {
    // Where it means something else, what was typed is kept for when it means the same again.
    typedEpsilons.set(epsilonDefault, epsilonInput.value);
    epsilonDefault = norms[norm].epsilon;
    epsilonInput.value = typedEpsilons.get(epsilonDefault) ?? epsilonDefault;
  }
  byId('formula-words').textContent = words[norm];
  byId('epsilon-hint').textContent = epsilonHints[norm];
  for (const formula of formulas) formula.hidden = !formula.dataset.norms?.split(' ').includes(norm);
  recompute();
}

/** Why epsilon is refused, or nothing. */
function epsilonRefusal(norm: Norm, epsilon: number): string {
  if (Number.isFinite(epsilon)) return refusal(() => checkEpsilon(simdnorm as Simdnorm, norm, epsilon));
  const typed = epsilonInput.value.trim();
  return `${norms[norm].operation}: epsilon must be a finite number, got ${typed === '' ? 'nothing' : quoted(typed)}`;
}

// ---------------------------------------------------------------- result

function recompute(): void {
  if (!simdnorm) return;
  const norm = chosenNorm();
  // Number('') is 0, which nobody means by it. A comma is a decimal sign, as it may be in tables.
  const epsilon = epsilonInput.value.trim() === '' ? Number.NaN : Number(epsilonInput.value.replace(',', '.'));

  // Apart from the rest, as the answer belongs to that field whatever else is wrong.
  const epsilonMessage = epsilonRefusal(norm, epsilon);
  show('epsilon-error', epsilonMessage);
  epsilonInput.setAttribute('aria-invalid', String(epsilonMessage !== ''));
  if (epsilonMessage) {
    show('norm-error', '');
    markStale('epsilon is not valid');
    return;
  }
  if (!table) {
    show('norm-error', '');
    markStale(source ? 'the numbers could not be read' : 'there are no numbers');
    return;
  }

  let next: Normalized | undefined;
  const groups = norms[norm].shares === 'group' ? Number(groupsChoice.value) : 1;
  const message = refusal(() => {
    next = normalize(simdnorm as Simdnorm, table as Table, { norm, groups, epsilon });
  });
  const advice =
    norm === 'batch' && table.rows === 1 ? 'Batch norm needs at least two rows, layer norm does with one. ' : '';
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
    `Not recomputed: ${reason}. Below is the last good result: ${old.title}, ${norms[norm].name}, epsilon ${shortest(epsilon)}.`,
  );
}

function draw(next: Normalized): void {
  const { rows, cols, title } = next.table;
  const { name, shares } = norms[next.norm];
  const inGroups = shares === 'group' ? ` in ${count(next.groups, 'group')}` : '';
  byId('result').hidden = false;
  byId('result').classList.remove('is-stale');
  byId<HTMLButtonElement>('download').disabled = false;
  show('stale', '');
  byId('result-summary').textContent =
    `${name[0]?.toUpperCase()}${name.slice(1)} of ${title}, ${count(rows, 'row')} × ${count(cols, 'column')}${inGroups}, epsilon ${shortest(next.epsilon)}.`;
  show('not-finite', notFinite(next));
  show('alone', alone(next));
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

function notFinite({ y, norm }: Normalized): string {
  let n = 0;
  for (const value of y) if (!Number.isFinite(value)) n++;
  return n === 0 ? '' : `${count(n, 'value')} of y are not finite: with epsilon 0, ${zeroByZero(norm)} give 0 / 0.`;
}

/** One number per line is pasted by those who mean a column. */
function alone({ shared, norm, y }: Normalized): string {
  if (shared.size > 1) return '';
  const { shares, spread } = norms[norm];
  const results = spread === 'standard deviation' ? '0' : '1 or -1, or 0 where x is';
  return `Each ${shares} has a single value, so that y is ${results}${y.length > 1 ? '. Batch norm normalizes columns' : ''}.`;
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
  typing = setTimeout(() => {
    if (paste.value.trim() === '') readNothing();
    else void read(new Blob([paste.value]), 'pasted numbers');
  }, 200);
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
  // What was said of another table need not be so of this one.
  headerChoice.value = 'detect';
  decimalSign.value = 'detect';
  void read(irisText, irisTitle);
});
fileInput.addEventListener('change', () => {
  readFile(fileInput.files?.[0]);
  // Choosing the same file again, perhaps edited, must count as a change.
  fileInput.value = '';
});
for (const select of [headerChoice, decimalSign]) select.addEventListener('change', readAgain);
for (const input of normInputs) input.addEventListener('change', choose);
groupsChoice.addEventListener('change', () => {
  wantedGroups = Number(groupsChoice.value);
  recompute();
});
epsilonInput.addEventListener('input', recompute);
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

// The browser may have kept a choice over a reload.
choose();
void read(irisText, irisTitle);
try {
  simdnorm = await load();
  recompute();
} catch (error) {
  const code = error instanceof NormError ? ` (${error.code})` : '';
  show('load-error', `simdnorm could not be loaded, so nothing can be computed: ${(error as Error).message}${code}`);
}
