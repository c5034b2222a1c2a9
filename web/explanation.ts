import { readableNumber, shortest, shortNumber } from './format-number';
import { type Norm, type Normalized, norms } from './normalization';

const zeroStays = 'No mean is subtracted: 0 stays 0.';

export const words: Record<Norm, string> = {
  layer: 'Layer norm: mean and variance are those of the row that x is in, over its columns.',
  rms: `RMS norm: the mean of x² is that of the row that x is in. ${zeroStays}`,
  l2: `L2 normalization: the sum of x² is that of the row that x is in, which gets length 1. ${zeroStays}`,
  l1: `L1 normalization: the sum of |x| is that of the row that x is in, whose |y| add up to 1. ${zeroStays}`,
  max: `Max normalization: the largest |x| is that of the row that x is in. ${zeroStays}`,
  group: 'Group norm: mean and variance are those of the neighbouring columns that x is grouped with, in its row.',
  batch: 'Batch norm, as in training: mean and variance are those of the column that x is in, over all rows.',
};

const leastDivisor =
  'The least that x is divided by, in units of x. It keeps rows of almost only zeros from blowing up.';
const addedToVariance = (what: string) =>
  `Added to the variance, in units of x squared. It keeps ${what} that hardly vary from blowing up.`;

export const epsilonHints: Record<Norm, string> = {
  layer: addedToVariance('rows'),
  rms: 'Added to the mean of x², in units of x squared. It keeps rows of almost only zeros from blowing up.',
  l2: leastDivisor,
  l1: leastDivisor,
  max: leastDivisor,
  group: addedToVariance('groups'),
  batch: addedToVariance('columns'),
};

/** The formula with the numbers of the first value, which is in the first group of any norm. */
export function example({ table: { x, names }, norm, y, before, epsilon }: Normalized): string {
  const first = x[0] as number;
  const spread = before.spread[0] as number;
  const mean = before.mean && shortNumber(before.mean[0] as number);
  const dividend = mean
    ? `(${readableNumber(first)} − ${mean.startsWith('-') ? `(${mean})` : mean})`
    : readableNumber(first);
  const divisor =
    norms[norm].operation === 'lpNormalize'
      ? `max(${shortNumber(spread)}, ${shortest(epsilon)})`
      : `√(${shortNumber(spread ** 2)} + ${shortest(epsilon)})`;
  return `Row 1, ${names[0]}: ${dividend} / ${divisor} = ${shortNumber(y[0] as number)}`;
}

/** Why there can be NaN: what is divided by 0. */
export function zeroByZero(norm: Norm): string {
  return norms[norm].spread === 'standard deviation' ? 'values that are all the same' : 'rows of zeros';
}
