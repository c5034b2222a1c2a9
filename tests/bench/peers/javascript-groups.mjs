// Group norm and instance norm, which is as many groups as channels, of [items, channels, inner] in plain JavaScript: the
// values of a group lie together.

function statisticsOf(x, begin, size, epsilon) {
  let sum = 0;
  for (let i = begin; i < begin + size; ++i) sum += x[i];
  const mean = sum / size;
  let squares = 0;
  for (let i = begin; i < begin + size; ++i) {
    const deviation = x[i] - mean;
    squares += deviation * deviation;
  }
  return { mean, invStd: 1 / Math.sqrt(squares / size + epsilon) };
}

export function groupNorm(x, out, { items, channels, inner, groups }, { scale, bias, epsilon }) {
  const width = channels / groups;
  for (let group = 0, i = 0; group < items * groups; ++group) {
    const { mean, invStd } = statisticsOf(x, i, width * inner, epsilon);
    const first = (group % groups) * width;
    for (let channel = first; channel < first + width; ++channel) {
      const factor = invStd * scale[channel];
      const summand = bias[channel];
      for (const end = i + inner; i < end; ++i) out[i] = (x[i] - mean) * factor + summand;
    }
  }
}

export function groupNormBackward(dy, x, dx, { items, channels, inner, groups }, { scale, epsilon }) {
  const dScale = new Float64Array(channels);
  const dBias = new Float64Array(channels);
  const width = channels / groups;
  const size = width * inner;
  for (let group = 0; group < items * groups; ++group) {
    const begin = group * size;
    const { mean, invStd } = statisticsOf(x, begin, size, epsilon);
    const first = (group % groups) * width;
    let sumG = 0;
    let sumGH = 0;
    for (let channel = first, i = begin; channel < first + width; ++channel) {
      let sum = 0;
      let sumH = 0;
      for (const end = i + inner; i < end; ++i) {
        sum += dy[i];
        sumH += dy[i] * (x[i] - mean) * invStd;
      }
      dBias[channel] += sum;
      dScale[channel] += sumH;
      sumG += sum * scale[channel];
      sumGH += sumH * scale[channel];
    }
    const meanG = sumG / size;
    const share = (sumGH / size) * invStd;
    for (let channel = first, i = begin; channel < first + width; ++channel) {
      const factor = scale[channel];
      for (const end = i + inner; i < end; ++i) dx[i] = invStd * (dy[i] * factor - meanG - (x[i] - mean) * share);
    }
  }
  return { dScale, dBias };
}
