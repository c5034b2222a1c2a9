// Layer norm as a careful engineer writes it in plain JavaScript: two passes over typed arrays.

export function javascriptLayerNorm(x, out, [rows, units], scale, bias, epsilon) {
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const end = begin + units;
    let sum = 0;
    for (let i = begin; i < end; ++i) sum += x[i];
    const mean = sum / units;
    let squares = 0;
    for (let i = begin; i < end; ++i) {
      const deviation = x[i] - mean;
      squares += deviation * deviation;
    }
    const invStd = 1 / Math.sqrt(squares / units + epsilon);
    for (let i = begin, unit = 0; i < end; ++i, ++unit) out[i] = (x[i] - mean) * invStd * scale[unit] + bias[unit];
  }
  return out;
}
