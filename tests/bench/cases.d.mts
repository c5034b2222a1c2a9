// cases.mjs is JavaScript because the benchmark runs it without a build, in Node and in the browser.

export interface Case {
  readonly operation:
    | 'layerNorm'
    | 'rmsNorm'
    | 'lpNormalize'
    | 'groupNorm'
    | 'instanceNorm'
    | 'batchNorm'
    | 'batchNormTraining';
  readonly shape: readonly number[];
  readonly axis?: number;
  readonly groups?: number;
  readonly isBackward?: boolean;
  readonly isOffset?: boolean;
  /** Names of the ways that are wanted: all without it. */
  readonly ways?: readonly string[];
}

export interface Data {
  readonly x: Float32Array;
  readonly dy: Float32Array | undefined;
  readonly scale: Float32Array;
  readonly bias: Float32Array;
  readonly mean: Float32Array;
  readonly variance: Float32Array;
  readonly epsilon: number;
}

export declare const cases: readonly Case[];
export declare const wayNames: Readonly<Record<string, string>>;
export declare function dataOf(each: Case): Data;
export declare function describe(each: Case): string;
export declare function nameOf(each: Case): string;
