// Norms of rows and their gradients as a careful engineer writes them in plain JavaScript: passes over typed arrays, sums
// in double.

function meanOfRow(x, begin, units) {
  let sum = 0;
  for (let i = begin; i < begin + units; ++i) sum += x[i];
  return sum / units;
}

function invStdOfRow(x, begin, units, mean, epsilon) {
  let squares = 0;
  for (let i = begin; i < begin + units; ++i) {
    const deviation = x[i] - mean;
    squares += deviation * deviation;
  }
  return 1 / Math.sqrt(squares / units + epsilon);
}

function squaresOfRow(x, begin, units) {
  let squares = 0;
  for (let i = begin; i < begin + units; ++i) squares += x[i] * x[i];
  return squares;
}

export function layerNorm(x, out, { rows, units }, { scale, bias, epsilon }) {
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const mean = meanOfRow(x, begin, units);
    const invStd = invStdOfRow(x, begin, units, mean, epsilon);
    for (let unit = 0, i = begin; unit < units; ++unit, ++i) out[i] = (x[i] - mean) * invStd * scale[unit] + bias[unit];
  }
}

export function rmsNorm(x, out, { rows, units }, { scale, epsilon }) {
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const factor = 1 / Math.sqrt(squaresOfRow(x, begin, units) / units + epsilon);
    for (let unit = 0, i = begin; unit < units; ++unit, ++i) out[i] = x[i] * factor * scale[unit];
  }
}

export function lpNormalize(x, out, { rows, units }) {
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const factor = 1 / Math.max(Math.sqrt(squaresOfRow(x, begin, units)), 1e-12);
    for (let i = begin; i < begin + units; ++i) out[i] = x[i] * factor;
  }
}

export function layerNormBackward(dy, x, dx, { rows, units }, { scale, epsilon }) {
  const dScale = new Float64Array(units);
  const dBias = new Float64Array(units);
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const mean = meanOfRow(x, begin, units);
    const invStd = invStdOfRow(x, begin, units, mean, epsilon);
    let sumG = 0;
    let sumGH = 0;
    for (let unit = 0, i = begin; unit < units; ++unit, ++i) {
      const h = (x[i] - mean) * invStd;
      const g = dy[i] * scale[unit];
      sumG += g;
      sumGH += g * h;
      dScale[unit] += dy[i] * h;
      dBias[unit] += dy[i];
    }
    const meanG = sumG / units;
    const meanGH = sumGH / units;
    for (let unit = 0, i = begin; unit < units; ++unit, ++i) {
      const h = (x[i] - mean) * invStd;
      dx[i] = invStd * (dy[i] * scale[unit] - meanG - h * meanGH);
    }
  }
  return { dScale, dBias };
}

export function rmsNormBackward(dy, x, dx, { rows, units }, { scale, epsilon }) {
  const dScale = new Float64Array(units);
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const factor = 1 / Math.sqrt(squaresOfRow(x, begin, units) / units + epsilon);
    let sumGH = 0;
    for (let unit = 0, i = begin; unit < units; ++unit, ++i) {
      const slope = dy[i] * x[i] * factor;
      sumGH += slope * scale[unit];
      dScale[unit] += slope;
    }
    const meanGH = sumGH / units;
    for (let unit = 0, i = begin; unit < units; ++unit, ++i) {
      dx[i] = factor * (dy[i] * scale[unit] - x[i] * factor * meanGH);
    }
  }
  return { dScale };
}

export function lpNormalizeBackward(dy, x, dx, { rows, units }) {
  for (let row = 0; row < rows; ++row) {
    const begin = row * units;
    const factor = 1 / Math.max(Math.sqrt(squaresOfRow(x, begin, units)), 1e-12);
    let product = 0;
    for (let i = begin; i < begin + units; ++i) product += dy[i] * x[i];
    const share = product * factor * factor;
    for (let i = begin; i < begin + units; ++i) dx[i] = (dy[i] - x[i] * share) * factor;
  }
  return {};
}
