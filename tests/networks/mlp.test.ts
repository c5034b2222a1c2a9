import { load, NormError, type Simdnorm } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { draw, Random } from '../js/data.ts';
import { expectBits } from '../js/reference.ts';
import { expectDerivatives, roundToStep } from './differences.ts';
import { type Images, pick, pixels, readDigits } from './digits.ts';
import { crossEntropy, type Parameter } from './network.ts';
import { accuracy, digitsSize, type Kind, Perceptron, predict, train } from './perceptron.ts';

const depth = 12;
const width = 48;
const epochs = 10;
const batch = 32;
const rates = [0.005, 0.02, 0.1];
const seed = 1;
/** After so many the loss is below that of all epochs without normalization. */
const few = 3;

let sn: Simdnorm;
let digits: ReturnType<typeof readDigits>;

beforeAll(async () => {
  sn = await load();
  digits = readDigits(1);
});

const nothing: Kind = { name: 'nothing', make: () => null, restore: () => null };

function kindsOf(units: number, groups: number): readonly Kind[] {
  return [
    { name: 'BatchNorm', make: () => new sn.BatchNorm(units), restore: (json) => sn.BatchNorm.fromJSON(json) },
    { name: 'LayerNorm', make: () => new sn.LayerNorm(units), restore: (json) => sn.LayerNorm.fromJSON(json) },
    { name: 'RmsNorm', make: () => new sn.RmsNorm(units), restore: (json) => sn.RmsNorm.fromJSON(json) },
    { name: 'GroupNorm', make: () => new sn.GroupNorm(groups, units), restore: (json) => sn.GroupNorm.fromJSON(json) },
  ];
}

const kinds = kindsOf(width, 4);
const size = digitsSize(depth, width);

function percent(part: number): string {
  return `${(100 * part).toFixed(1)} %`;
}

interface Result {
  readonly network: Perceptron;
  readonly kind: Kind;
  readonly rate: number;
  /** The mean of each epoch. */
  readonly losses: readonly number[];
  readonly validated: number;
  readonly heldOut: number;
}

describe(`a perceptron of ${depth} hidden layers of ${width} units, after ${epochs} epochs`, () => {
  const results: Result[] = [];

  beforeAll(() => {
    for (const kind of [nothing, ...kinds]) {
      for (const rate of rates) {
        const network = new Perceptron(size, kind, seed);
        const losses = train(network, digits.training, { rate, epochs, batch, seed });
        const validated = accuracy(network, digits.validation);
        results.push({ network, kind, rate, losses, validated, heldOut: accuracy(network, digits.heldOut) });
      }
    }
  }, 600_000);

  const resultsOf = (kind: Kind) => results.filter((result) => result.kind === kind);
  /** With the learning rate that the digits for choosing it are for. */
  const bestOf = (kind: Kind) =>
    resultsOf(kind).reduce((best, other) => (other.validated > best.validated ? other : best));
  const lossOf = ({ losses }: Result, epoch: number) => losses.at(epoch) as number;

  test.each(kinds)('with $name it reads 95 % of the digits that it has not seen', (kind) => {
    expect(bestOf(kind).heldOut).toBeGreaterThanOrEqual(0.95);
  });

  test('without normalization it reads less than 80 % of them at any rate', () => {
    for (const { heldOut } of resultsOf(nothing)) expect(heldOut).toBeLessThan(0.8);
  });

  test.each(kinds)(`with $name ${few} epochs bring it further than ${epochs} without`, (kind) => {
    const all = Math.min(...resultsOf(nothing).map((result) => lossOf(result, epochs - 1)));
    expect(lossOf(bestOf(kind), few - 1)).toBeLessThan(all);
  });

  test.each(kinds)('with $name a digit alone is read as in company', (kind) => {
    const { network } = bestOf(kind);
    const images = pick(digits.heldOut, Uint32Array.of(7, 0, 359));
    const together = predict(network, images);
    for (let i = 0; i < images.count; ++i) {
      const alone = predict(network, pick(images, Uint32Array.of(i)));
      expectBits({ op: kind.name, shape: [1, width] }, alone, together.subarray(10 * i, 10 * (i + 1)));
    }
  });

  test.each(kinds)('with $name it reads the same when it was saved and restored, and learns the same', (kind) => {
    const { network } = bestOf(kind);
    const restored = network.restored(JSON.stringify(network));
    const compare = () => {
      const [got, right] = [restored, network].map((each) => predict(each, digits.heldOut));
      expectBits({ op: kind.name, shape: [digits.heldOut.count, 10] }, got as Float32Array, right as Float32Array);
    };
    compare();
    const before = predict(network, digits.heldOut);
    for (const each of [restored, network]) {
      train(each, firstOf(digits.training, 5 * batch), { rate: 0.005, epochs: 1, batch, seed });
    }
    compare();
    expect(predict(network, digits.heldOut)).not.toEqual(before);
  });

  afterAll(() => {
    console.table(
      results.map((result) => ({
        normalization: result.kind.name,
        rate: result.rate,
        'loss, first epoch': lossOf(result, 0).toFixed(3),
        [`epoch ${few}`]: lossOf(result, few - 1).toFixed(3),
        'last epoch': lossOf(result, epochs - 1).toFixed(3),
        validation: percent(result.validated),
        'held out': percent(result.heldOut),
        '': result === bestOf(result.kind) ? 'chosen' : '',
      })),
    );
  });
});

function firstOf(images: Images, count: number): Images {
  return pick(
    images,
    Uint32Array.from({ length: count }, (_, i) => i),
  );
}

describe('one digit at a time', () => {
  const small = digitsSize(4, width);

  test('layer norm learns', () => {
    const kind = kinds[1] as Kind;
    const network = new Perceptron(small, kind, seed);
    const untrained = accuracy(network, digits.heldOut);
    const losses = train(network, digits.training, { rate: 0.01, epochs: 2, batch: 1, seed, momentum: 0 });
    const trained = accuracy(network, digits.heldOut);
    console.log(
      `${kind.name}, one digit at a time: loss ${losses.map((loss) => loss.toFixed(3)).join(', ')}, ` +
        `held out ${percent(untrained)} before, ${percent(trained)} after ${losses.length} epochs`,
    );
    expect(untrained).toBeLessThan(0.3);
    expect(trained).toBeGreaterThanOrEqual(0.8);
  });

  test('batch norm says why it cannot learn, and is as it was', () => {
    const kind = kinds[0] as Kind;
    const network = new Perceptron(small, kind, seed);
    train(network, firstOf(digits.training, 2 * batch), { rate: 0.005, epochs: 1, batch, seed });
    const before = JSON.stringify(network);
    const step = () => train(network, firstOf(digits.training, 1), { rate: 0.005, epochs: 1, batch: 1, seed });
    expect(step).toThrow(NormError);
    expect(step).toThrow(expect.objectContaining({ code: 'ERR_RANGE', message: expect.stringMatching(/one value/) }));
    expect(JSON.stringify(network)).toBe(before);
    expect(predict(network, firstOf(digits.heldOut, 1)).every(Number.isFinite)).toBe(true);
  });
});

describe('gradients of a whole perceptron are those of differences', () => {
  const units = 6;
  const rows = 5;
  const labels = [2, 0, 1, 1, 0];

  test.each([nothing, ...kindsOf(units, 2)])('with $name', (kind) => {
    const network = new Perceptron({ inputs: 4, depth: 3, width: units, outputs: 3 }, kind, 5, new Float64Array());
    const random = new Random(6);
    for (const { value } of network.parameters) {
      for (let i = 0; i < value.length; ++i) {
        // A scale other than 1 as well.
        value[i] = roundToStep((value[i] as number) + 0.3 * random.bell());
      }
    }
    const x = Float64Array.from(draw(4 * rows, 7), roundToStep);
    // Batch norm's loss is of the batch, so it stays in training; what forward keeps meanwhile is never asked for.
    const lossOf = () => crossEntropy(network.forward(x.slice()), labels).loss;
    const logits = network.forward(x.slice());
    crossEntropy(logits, labels);
    const dx = network.backward(logits);
    const pairs: [string, Parameter][] = network.parameters.map((each, n) => [`parameters[${n}]`, each]);
    const worst = expectDerivatives(kind.name, [['x', { value: x, gradient: dx }], ...pairs], lossOf);
    console.log(
      `${kind.name}: the gradients of a whole perceptron are within ${worst.toExponential(1)} of differences`,
    );
  });
});

test('the digits are those of the archive', () => {
  const all = Object.values(digits);
  expect(all.map(({ count }) => count)).toEqual([1197, 240, 360]);
  const counts = new Array<number>(10).fill(0);
  for (const { labels } of all) for (const label of labels) counts[label] = (counts[label] as number) + 1;
  // UCI, "Class: No of examples in testing set".
  expect(counts).toEqual([178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
  for (const { values, count } of all) {
    expect(values.length).toBe(count * pixels);
    expect(values.every((value) => value >= -1 && value <= 1 && Number.isInteger(8 * value))).toBe(true);
  }
});
