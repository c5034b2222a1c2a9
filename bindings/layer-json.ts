// Layers as JSON: arrays as base64 of little-endian bytes, so that -0, NaN and infinity survive.

import { isArray, kindOf, typeError } from './check.js';
import type { Numbers } from './dtype.js';
import { NormError } from './errors.js';
import { resultArray } from './heap.js';

export function arrayToJSON(values: Numbers): string {
  const size = values.BYTES_PER_ELEMENT;
  const view = new DataView(new ArrayBuffer(size * values.length));
  values.forEach((value, i) => {
    if (size === 4) view.setFloat32(4 * i, value, true);
    else view.setFloat64(8 * i, value, true);
  });
  let text = '';
  for (let i = 0; i < view.byteLength; ++i) text += String.fromCharCode(view.getUint8(i));
  return btoa(text);
}

interface Kind<A> {
  new (length: number): A;
  readonly BYTES_PER_ELEMENT: number;
}

/** An array of a length, which is made once the JSON is known to have as many values. */
export function arrayFromJSON<A extends Numbers>(
  op: string,
  name: string,
  json: unknown,
  length: number,
  Kind: Kind<A>,
): A {
  if (typeof json !== 'string') {
    throw typeError(op, name, 'a base64 string in the JSON of a layer', json);
  }
  let text: string;
  try {
    text = atob(json);
  } catch (cause) {
    throw new NormError('ERR_TYPE', op, `${name} is not base64: ${kindOf(json)}`, { cause });
  }
  const size = Kind.BYTES_PER_ELEMENT;
  if (text.length !== size * length) {
    throw new NormError('ERR_SHAPE', op, `${name} has ${text.length / size} values, expected ${length}`);
  }
  return resultArray(op, text.length, () => {
    const view = new DataView(Uint8Array.from(text, (character) => character.charCodeAt(0)).buffer);
    return new Kind(length).map((_, i) => {
      return size === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true);
    }) as A;
  });
}

/** The fields of a layer's JSON. */
export function fieldsOf(op: string, json: unknown, name?: string): Record<string, unknown> {
  const what = name ? `${name} of a layer's JSON` : 'the JSON of a layer';
  if (typeof json !== 'object' || json === null || isArray(json) !== false) {
    const hint = typeof json === 'string' ? ': use JSON.parse' : '';
    throw typeError(op, what, 'an object, as toJSON makes it', json, hint);
  }
  const fields = json as Record<string, unknown>;
  if (!name && fields.layer !== op) {
    throw new NormError('ERR_TYPE', op, `the JSON is not that of a ${op}: its layer is ${kindOf(fields.layer)}`);
  }
  return fields;
}
