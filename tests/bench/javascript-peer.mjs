// Layer norm and its gradient as a careful engineer writes them in plain JavaScript: passes over typed arrays.

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

/** Sums of dScale and dBias are doubles in JavaScript arrays of them, as they are in a careful engineer's program. */
export function javascriptLayerNormBackward(dy, x, dx, [rows, units], scale, epsilon) {
  const dScale = new Float64Array(units);
  const dBias = new Float64Array(units);
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
    let sumG = 0;
    let sumGH = 0;
    for (let i = begin, unit = 0; i < end; ++i, ++unit) {
      const h = (x[i] - mean) * invStd;
      const g = dy[i] * scale[unit];
      sumG += g;
      sumGH += g * h;
      dScale[unit] += dy[i] * h;
      dBias[unit] += dy[i];
    }
    const meanG = sumG / units;
    const meanGH = sumGH / units;
    for (let i = begin, unit = 0; i < end; ++i, ++unit) {
      const h = (x[i] - mean) * invStd;
      dx[i] = invStd * (dy[i] * scale[unit] - meanG - h * meanGH);
    }
  }
  return { dx, dScale, dBias };
}

export function javascriptAdd(x, residual, sum) {
  for (let i = 0; i < x.length; ++i) sum[i] = x[i] + residual[i];
  return sum;
}
