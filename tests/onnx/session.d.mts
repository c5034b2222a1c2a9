// session.mjs is JavaScript because the benchmark runs it without a build.

import type { InferenceSession, Tensor } from 'onnxruntime-web';

export interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export interface Node<Input> {
  readonly opType: string;
  readonly opset: number;
  readonly attributes?: Readonly<Record<string, number | readonly number[]>>;
  /** By name, in the operator's order. */
  readonly inputs: Readonly<Record<string, Input>>;
  /** Behind the inputs. */
  readonly constants?: Readonly<Record<string, Values>>;
  readonly outputs?: readonly string[];
}

export declare const onnxVersion: string;
export declare function encodeModel(node: Node<readonly number[]>): Uint8Array;
export declare function openSession(node: Node<readonly number[]>): Promise<InferenceSession>;
export declare function tensor(values: Values): Tensor;
export declare function runNode(node: Node<Values>): Promise<Record<string, Float32Array>>;
