// The `tensor` of an instance.

import * as check from './check.js';
import { bitsOf, bufferOf, copyOf, type DType, halvesOfNumbers, isBits } from './dtype.js';
import type { Heap } from './heap.js';
import { type Data, lengthOf, newTensor, numbersOf, Tensor } from './tensor.js';

const op = 'tensor';

function dtypeFrom(value: unknown): DType {
  if (value === undefined || value === null) return 'float32';
  if (value === 'float32' || value === 'float64' || value === 'float16') return value;
  throw check.typeError(op, 'dtype', "'float32', 'float64' or 'float16'", value);
}

/** Floats of any type or plain numbers, converted; bits where the Tensor's are. */
export function makeTensor(heap: Heap, shapeGiven: unknown, given: unknown, dtypeGiven: unknown): Tensor {
  const dtype = dtypeFrom(dtypeGiven);
  const settled = check.settled(op, 'shape', shapeGiven, check.maxRank);
  const length = check.sizeOf(op, settled);
  const shape = settled as number[];
  check.fitsWords(op, shape);
  // Its elements may be getters, which run here.
  let values = check.settled(op, 'values', given, length) as Data | undefined;
  const hasBits = dtype === 'float16' && isBits(values);
  const why = () => `shape ${check.list(shape)}`;
  if (hasBits)
    check.sameLength(op, 'values', lengthOf(check.values(op, 'values', values, dtype)), length, why, undefined);
  else values = check.optionalVector({ op, dtype, hasHalves: false }, 'values', values, length, why);
  // What is in the memory is detached where the memory grows for this one.
  if (Tensor.is(values)) values = copyOf(numbersOf(values as Tensor, op, 'values'));
  else if (values && bufferOf(values) === heap.buffer) values = copyOf(values);

  const tensor = newTensor(heap, op, shape, length, dtype);
  const { data } = tensor;
  if (!values) data.fill(0);
  else if (dtype !== 'float16') data.set(values);
  else bitsOf(data).set(hasBits ? values : halvesOfNumbers(values));
  return tensor;
}
