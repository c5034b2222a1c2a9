// Layers as JSON: arrays as base64 of little-endian bytes, so that -0, NaN and infinity survive.

import { kindOf } from './check.js';
import type { Numbers } from './dtype.js';
import { NormError } from './errors.js';

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

/** Values for an array like another one. */
export function arrayFromJSON<A extends Numbers>(op: string, name: string, json: unknown, like: A): A {
  if (typeof json !== 'string') {
    throw new NormError('ERR_TYPE', op, `${name} must be a base64 string in the JSON of a layer, got ${kindOf(json)}`);
  }
  let text: string;
  try {
    text = atob(json);
  } catch (cause) {
    throw new NormError('ERR_TYPE', op, `${name} is not base64: ${kindOf(json)}`, { cause });
  }
  const size = like.BYTES_PER_ELEMENT;
  if (text.length !== size * like.length) {
    throw new NormError('ERR_SHAPE', op, `${name} has ${text.length / size} values, expected ${like.length}`);
  }
  const view = new DataView(Uint8Array.from(text, (character) => character.charCodeAt(0)).buffer);
  return like.map((_, i) => (size === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true))) as A;
}

/** The fields of a layer's JSON. */
export function fieldsOf(op: string, json: unknown, name?: string): Record<string, unknown> {
  const what = name ? `${name} of a layer's JSON` : 'the JSON of a layer';
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    const hint = typeof json === 'string' ? ': use JSON.parse' : '';
    throw new NormError('ERR_TYPE', op, `${what} must be an object, as toJSON makes it, got ${kindOf(json)}${hint}`);
  }
  const fields = json as Record<string, unknown>;
  if (!name && fields.layer !== op) {
    throw new NormError('ERR_TYPE', op, `the JSON is not that of a ${op}: its layer is ${kindOf(fields.layer)}`);
  }
  return fields;
}
