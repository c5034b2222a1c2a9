/**
 * What is wrong, for programs.
 *
 * @category Errors
 */
export type ErrorCode =
  /** An argument of the wrong kind, or an option that the operation doesn't have. */
  | 'ERR_TYPE'
  /** Lengths and shapes that do not agree. */
  | 'ERR_SHAPE'
  /** An axis that is out of range, repeated, or not possible for the operation. */
  | 'ERR_AXIS'
  /** A number outside of its range. */
  | 'ERR_RANGE'
  /** Something that is written overlaps something else that it may not. */
  | 'ERR_OVERLAP'
  /** A layer's backward without a forward that waits for it; or a trap has made the instance unusable. */
  | 'ERR_STATE'
  /** The Tensor has been freed, or the instance disposed of. */
  | 'ERR_FREED'
  /** The module's memory, or the engine, has no room. */
  | 'ERR_MEMORY'
  /** The WebAssembly module could not be fetched or compiled, or belongs to another version. */
  | 'ERR_LOAD'
  /** The engine has no WebAssembly SIMD. */
  | 'ERR_UNSUPPORTED';

const brand = Symbol.for('simdnorm.NormError');

/**
 * Thrown before anything is written: after an error, `out` is as it was. An Error, whose message says
 * which operation was given what, and what it takes instead.
 *
 * @category Errors
 */
export class NormError extends Error {
  /** 'NormError'. */
  override readonly name = 'NormError';

  static {
    // Where an error is printed the class has this name too, although the package is minified.
    Object.defineProperty(NormError, 'name', { value: 'NormError' });
    // A program may have both entries of the package, or two copies: `instanceof` knows the errors of all.
    Object.defineProperty(NormError.prototype, brand, { value: true });
    Object.defineProperty(NormError, Symbol.hasInstance, {
      value(this: unknown, value: object | null) {
        const isOwn = Function.prototype[Symbol.hasInstance].call(this, value);
        return isOwn || (this === NormError && brand in Object(value));
      },
    });
  }

  constructor(
    /** What is wrong, for programs: the message is for people. */
    readonly code: ErrorCode,
    /** The operation that was called: 'layerNorm', 'load', ... */
    readonly op: string,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(`${op}: ${message}`);
    if (options && 'cause' in options) this.cause = options.cause;
  }

  /** What made it fail, where something else did. */
  declare cause?: unknown;
}
