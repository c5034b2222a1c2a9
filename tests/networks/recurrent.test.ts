import { type Layer, load, type Simdnorm } from 'simdnorm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Random } from '../js/data.ts';
import { layerNorm, rmsNorm } from '../js/reference.ts';
import { expectDerivatives, roundToStep } from './differences.ts';
import { crossEntropy, Descent, Linear, type Parameter } from './network.ts';
import { Recurrent } from './recurrent.ts';

let sn: Simdnorm;

beforeAll(async () => {
  sn = await load();
});

describe('the adding problem of Hochreiter and Schmidhuber 1997', () => {
  const units = 24;
  const batch = 32;
  const batches = 800;
  const rate = 0.1;
  const shortest = 4;
  const longest = 10;

  interface Sequences {
    readonly lengths: readonly number[];
    /** [count, longest, 2]: a number from 0 to 1, and a mark at two of the numbers. */
    readonly x: Float32Array;
    /** The sums of the two. */
    readonly sums: readonly number[];
  }

  function drawSequences(count: number, random: Random): Sequences {
    const below = (limit: number) => Math.floor(random.unit() * limit);
    const lengths = Array.from({ length: count }, () => shortest + below(longest - shortest + 1)).sort((a, b) => b - a);
    const x = new Float32Array(count * longest * 2);
    const sums = lengths.map((length, i) => {
      const own = x.subarray(i * longest * 2, (i + 1) * longest * 2);
      for (let step = 0; step < length; ++step) own[2 * step] = random.unit();
      const first = below(length);
      const second = (first + 1 + below(length - 1)) % length;
      own[2 * first + 1] = 1;
      own[2 * second + 1] = 1;
      return (own[2 * first] as number) + (own[2 * second] as number);
    });
    return { lengths, x, sums };
  }

  class Adder {
    readonly input: Linear;
    readonly recurrent: Recurrent<Float32Array>;
    readonly output: Linear;

    constructor(norm: Layer | null, seed: number) {
      const random = new Random(seed);
      this.input = new Linear(2, units, 1, random);
      this.recurrent = new Recurrent(units, norm, random, new Float32Array());
      this.output = new Linear(units, 1, 1 / Math.sqrt(units), random);
    }

    get parameters(): readonly Parameter[] {
      return [this.input, this.recurrent, this.output].flatMap((each) => each.parameters);
    }

    set training(value: boolean) {
      for (const each of [this.input, this.recurrent, this.output]) each.training = value;
    }

    forward({ x, lengths }: Sequences): Float32Array {
      return this.output.forward(this.recurrent.forward(this.input.forward(x), longest, lengths));
    }

    backward(dy: Float32Array): void {
      this.input.backward(this.recurrent.backward(this.output.backward(dy)));
    }
  }

  /** The mean square of the errors, of sequences of one length or of all. */
  function errorOf(adder: Adder, sequences: Sequences, length?: number): number {
    adder.training = false;
    const y = adder.forward(sequences);
    return meanOf(sequences, length, (sum, i) => ((y[i] as number) - sum) ** 2);
  }

  function meanOf({ sums, lengths }: Sequences, length: number | undefined, of: (sum: number, i: number) => number) {
    const chosen = sums.flatMap((sum, i) => (length === undefined || lengths[i] === length ? [of(sum, i)] : []));
    return chosen.reduce((total, each) => total + each, 0) / chosen.length;
  }

  /** The error of the best answer that doesn't look at the sequence: the variance of the sums. */
  function chanceOf(sequences: Sequences): number {
    const mean = meanOf(sequences, undefined, (sum) => sum);
    return meanOf(sequences, undefined, (sum) => (sum - mean) ** 2);
  }

  function train(adder: Adder): void {
    const random = new Random(2);
    const descent = new Descent(adder.parameters, rate);
    adder.training = true;
    for (let i = 0; i < batches; ++i) {
      const sequences = drawSequences(batch, random);
      const dy = adder.forward(sequences).map((y, k) => (2 * (y - (sequences.sums[k] as number))) / batch);
      adder.backward(dy);
      descent.step(1 - i / batches, 1);
    }
  }

  const heldOut = drawSequences(1000, new Random(3));
  const chance = chanceOf(heldOut);
  const rows: Record<string, string>[] = [];
  const makers: [string, () => Layer | null][] = [
    ['nothing', () => null],
    ['LayerNorm', () => new sn.LayerNorm(units)],
    ['RmsNorm', () => new sn.RmsNorm(units)],
  ];

  test('a guess is wrong by the variance of two uniform numbers', () => {
    // Its own deviation from 1/6 is about 0.0062 for 1000 of them.
    expect(Math.abs(chance - 1 / 6)).toBeLessThan(4 * 0.0062);
  });

  test.each(makers)('%s in the recurrence: it is learned', (name, makeNorm) => {
    const adder = new Adder(makeNorm(), 1);
    const untrained = errorOf(adder, heldOut);
    train(adder);
    const trained = errorOf(adder, heldOut);
    const ofLength = (length: number) => errorOf(adder, heldOut, length);
    rows.push({
      normalization: name,
      guess: chance.toFixed(4),
      untrained: untrained.toFixed(4),
      trained: trained.toFixed(4),
      ...Object.fromEntries([4, 6, 8, 10].map((length) => [`length ${length}`, ofLength(length).toFixed(4)])),
    });
    expect(untrained).toBeGreaterThan(chance / 2);
    expect(trained).toBeLessThan(chance / 10);
    for (let length = shortest; length <= longest; ++length) expect(ofLength(length)).toBeLessThan(chance / 5);
  });

  test('backward has answered every forward', () => {
    for (const [name, makeNorm] of makers) {
      const norm = makeNorm();
      if (!norm) continue;
      const adder = new Adder(norm, 1);
      const sequences = drawSequences(batch, new Random(4));
      const y = adder.forward(sequences);
      adder.backward(y);
      const unanswered = () => norm.backward(new Float32Array(batch * units));
      expect(unanswered, name).toThrow(expect.objectContaining({ code: 'ERR_STATE' }));
    }
  });

  afterAll(() => console.table(rows));
});

describe('gradients of a whole recurrent network, through lengths, are those of differences', () => {
  const steps = 5;
  const inputs = 3;
  const units = 6;
  const classes = 3;
  /** Longest first; one has no steps at all. */
  const lengths = [5, 3, 2, 2, 0];
  const labels = [2, 0, 1, 2, 1];
  const items = lengths.length;
  const shape = [items, steps, units];

  type Op = 'layerNorm' | 'rmsNorm';
  interface Case {
    readonly op: Op;
    readonly axes: readonly number[];
  }
  const cases: Case[] = (['layerNorm', 'rmsNorm'] as const).flatMap((op) =>
    [[2], [1, 2], [-1, -2]].map((axes) => ({ op, axes })),
  );

  function parameterOf(length: number, around: number, random: Random): Parameter {
    const value = Float64Array.from({ length }, () => around + 0.4 * random.bell());
    return { value, gradient: new Float64Array(length) };
  }

  /** linear, normalization over `axes` with lengths, recurrence with normalization at each step, linear. */
  class Network {
    readonly x: Float64Array<ArrayBuffer>;
    readonly first: Linear;
    readonly scale: Parameter;
    readonly bias: Parameter;
    readonly recurrent: Recurrent<Float64Array>;
    readonly last: Linear;

    constructor(readonly kind: Case) {
      const random = new Random(8);
      const double = new Float64Array();
      this.x = Float64Array.from({ length: items * steps * inputs }, () => roundToStep(2 * random.bell() + 0.3));
      this.first = new Linear(inputs, units, 1, random, double);
      const size = kind.axes.length === 1 ? units : units * steps;
      this.scale = parameterOf(size, 1, random);
      this.bias = parameterOf(size, 0, random);
      const norm = kind.op === 'layerNorm' ? new sn.LayerNorm(units) : new sn.RmsNorm(units);
      this.recurrent = new Recurrent(units, norm, random, double);
      this.last = new Linear(units, classes, 1, random, double);
      for (const { value } of this.parameters) {
        for (let i = 0; i < value.length; ++i) value[i] = roundToStep((value[i] as number) + 0.2 * random.bell());
      }
    }

    get parameters(): readonly Parameter[] {
      const own = this.kind.op === 'layerNorm' ? [this.scale, this.bias] : [this.scale];
      return [...this.first.parameters, ...own, ...this.recurrent.parameters, ...this.last.parameters];
    }

    /** What is past a length is NaN on the way there and back: it must have no effect. */
    lossAndBackward(): { loss: number; dx: Float64Array } {
      const u = this.first.forward(this.x);
      for (const [item, length] of lengths.entries()) {
        u.fill(NaN, (item * steps + length) * units, (item + 1) * steps * units);
      }
      const { op, axes } = this.kind;
      const o = { shape, axes, lengths, scale: this.scale.value };
      const isLayer = op === 'layerNorm';
      const drive = isLayer ? sn.layerNorm(u, { ...o, bias: this.bias.value }) : sn.rmsNorm(u, o);
      const logits = this.last.forward(this.recurrent.forward(drive, steps, lengths));
      const { loss } = crossEntropy(logits, labels);
      const dDrive = this.recurrent.backward(this.last.backward(logits), NaN);
      if (isLayer) {
        const { dx, dScale, dBias } = sn.layerNormBackward(dDrive, u, o);
        this.scale.gradient.set(dScale);
        this.bias.gradient.set(dBias);
        return { loss, dx: this.first.backward(dx) };
      }
      const { dx, dScale } = sn.rmsNormBackward(dDrive, u, o);
      this.scale.gradient.set(dScale);
      return { loss, dx: this.first.backward(dx) };
    }

    /** The same item by item, without anything of the package. */
    lossByDefinition(): number {
      const { op, axes } = this.kind;
      const [inScale, inBias] = this.recurrent.norm?.parameters.map(({ value }) => value) ?? [];
      let loss = 0;
      for (const [item, length] of lengths.entries()) {
        const places = Array.from({ length: length * units }, (_, i) => [Math.floor(i / units), i % units] as const);
        const u: number[] = [];
        for (let step = 0; step < length; ++step) {
          const at = (item * steps + step) * inputs;
          u.push(...linearByDefinition(this.first, this.x.subarray(at, at + inputs)));
        }
        const ofPlaces = ({ value }: Parameter) =>
          places.map(([step, unit]) => {
            if (axes.length === 1) return value[unit] as number;
            return value[axes[0] === 1 ? step * units + unit : unit * steps + step] as number;
          });
        const scale = ofPlaces(this.scale);
        const bias = ofPlaces(this.bias);
        const group = axes.length === 1 ? units : length * units;
        const drive: number[] = [];
        for (let i = 0; i < u.length; i += group) {
          const own = (values: number[]) => values.slice(i, i + group);
          drive.push(...normByDefinition(op, own(u), own(scale), own(bias)));
        }
        let state = new Array<number>(units).fill(0);
        for (let step = 0; step < length; ++step) {
          const sum = linearByDefinition(this.recurrent.hidden, state).map(
            (value, unit) => value + (drive[step * units + unit] as number),
          );
          state = normByDefinition(op, sum, inScale, inBias).map(Math.tanh);
        }
        const logits = linearByDefinition(this.last, state);
        const total = logits.reduce((exponentials, logit) => exponentials + Math.exp(logit), 0);
        loss += Math.log(total) - (logits[labels[item] as number] as number);
      }
      return loss / items;
    }
  }

  function linearByDefinition({ weight, bias, inputs, outputs }: Linear, x: ArrayLike<number>): number[] {
    return Array.from({ length: outputs }, (_, output) => {
      let sum = bias.value[output] as number;
      for (let i = 0; i < inputs; ++i) sum += (weight.value[i * outputs + output] as number) * (x[i] as number);
      return sum;
    });
  }

  function normByDefinition(op: Op, x: number[], scale?: ArrayLike<number>, bias?: ArrayLike<number>): number[] {
    const definition = op === 'layerNorm' ? layerNorm : rmsNorm;
    return Array.from(definition(x, [x.length], [0], { scale, bias }).y);
  }

  test.each(cases)('$op over axes $axes of [items, steps, units]', (kind) => {
    const network = new Network(kind);
    const { loss, dx } = network.lossAndBackward();
    const right = network.lossByDefinition();
    // Some ten sums of at most 30 terms about 1.
    expect(Math.abs(loss - right)).toBeLessThanOrEqual(300 * Number.EPSILON);
    const pairs: [string, Parameter][] = network.parameters.map((each, n) => [`parameters[${n}]`, each]);
    const gradients: typeof pairs = [['x', { value: network.x, gradient: dx }], ...pairs];
    const worst = expectDerivatives(kind.op, gradients, () => network.lossByDefinition(), steps);
    console.log(`${kind.op} over axes ${kind.axes}: gradients are within ${worst.toExponential(1)} of differences`);
  });
});
