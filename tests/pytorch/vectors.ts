// The vectors of make_vectors.py, which says how they come about.

import { readFileSync } from 'node:fs';

export type Op =
  | 'layerNorm'
  | 'rmsNorm'
  | 'groupNorm'
  | 'instanceNorm'
  | 'batchNorm'
  | 'batchNormTraining'
  | 'lpNormalize'
  | 'localResponseNorm';

type Numbers = readonly number[];

/** Inputs, and what PyTorch gives for them. */
export interface OperationCase {
  readonly op: Op;
  readonly what: string;
  /** Whether float32 holds the inputs. */
  readonly exact: boolean;
  readonly shape: Numbers;
  readonly options: Readonly<Record<string, unknown>>;
  readonly lengths?: Numbers;
  readonly scale?: Numbers;
  readonly bias?: Numbers;
  readonly mean?: Numbers;
  readonly variance?: Numbers;
  readonly x: Numbers;
  readonly y: Numbers;
  /** With gradients alone. */
  readonly dy?: Numbers;
  readonly dx?: Numbers;
  readonly dScale?: Numbers;
  readonly dBias?: Numbers;
}

export interface RunningCase {
  readonly layer: 'BatchNorm';
  readonly what: string;
  readonly channels: number;
  readonly options: {
    readonly momentum: number | null;
    readonly epsilon: number;
    readonly affine?: boolean;
  };
  readonly scale?: Numbers;
  readonly bias?: Numbers;
  /** In their order, with the statistics after each one. */
  readonly batches: readonly {
    readonly shape: Numbers;
    readonly x: Numbers;
    readonly y: Numbers;
    readonly dy: Numbers;
    readonly dx: Numbers;
    readonly runningMean: Numbers;
    readonly runningVariance: Numbers;
  }[];
  readonly batchesSeen: number;
  /** Of all batches together. */
  readonly dScale?: Numbers;
  readonly dBias?: Numbers;
  /** Afterwards, by the running statistics. */
  readonly evaluated: { readonly shape: Numbers; readonly x: Numbers; readonly y: Numbers };
}

interface Header {
  readonly torch: string;
  readonly computed: 'float64';
}

const text = readFileSync(new URL('vectors.jsonl', import.meta.url), 'utf8');
const [header, ...cases] = text
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Header | OperationCase | RunningCase);

export const torchVersion = (header as Header).torch;
export const operationCases = cases.filter((each): each is OperationCase => 'op' in each);
export const runningCases = cases.filter((each): each is RunningCase => 'layer' in each);
