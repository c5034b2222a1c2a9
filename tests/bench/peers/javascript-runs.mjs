// Batch norm of channels first, [items, channels, inner], in plain JavaScript: of each channel a run of values in every
// item.

export function statisticsOfRuns(x, { items, channels, inner }) {
  const mean = new Float64Array(channels);
  const variance = new Float64Array(channels);
  for (let run = 0, i = 0; run < items * channels; ++run) {
    let sum = 0;
    for (const end = i + inner; i < end; ++i) sum += x[i];
    mean[run % channels] += sum / (items * inner);
  }
  for (let run = 0, i = 0; run < items * channels; ++run) {
    const channelMean = mean[run % channels];
    let squares = 0;
    for (const end = i + inner; i < end; ++i) {
      const deviation = x[i] - channelMean;
      squares += deviation * deviation;
    }
    variance[run % channels] += squares / (items * inner);
  }
  return { mean, variance };
}

export function normalizeRuns(x, out, { items, channels, inner }, { mean, variance, scale, bias, epsilon }) {
  for (let run = 0, i = 0; run < items * channels; ++run) {
    const channel = run % channels;
    const channelMean = mean[channel];
    const factor = scale[channel] / Math.sqrt(variance[channel] + epsilon);
    const summand = bias[channel];
    for (const end = i + inner; i < end; ++i) out[i] = (x[i] - channelMean) * factor + summand;
  }
}

/** Of statistics that are given, and with isTraining of those of the batch, through which the gradient passes as well. */
export function gradientOfRuns(dy, x, dx, layout, { mean, variance, scale, epsilon, isTraining }) {
  const { items, channels, inner } = layout;
  const dScale = new Float64Array(channels);
  const dBias = new Float64Array(channels);
  for (let run = 0, i = 0; run < items * channels; ++run) {
    const channel = run % channels;
    const channelMean = mean[channel];
    let sum = 0;
    let sumOfProducts = 0;
    for (const end = i + inner; i < end; ++i) {
      sum += dy[i];
      sumOfProducts += dy[i] * (x[i] - channelMean);
    }
    dBias[channel] += sum;
    dScale[channel] += sumOfProducts / Math.sqrt(variance[channel] + epsilon);
  }
  const count = isTraining ? items * inner : Number.POSITIVE_INFINITY;
  for (let run = 0, i = 0; run < items * channels; ++run) {
    const channel = run % channels;
    const channelMean = mean[channel];
    const invStd = 1 / Math.sqrt(variance[channel] + epsilon);
    const factor = scale[channel] * invStd;
    const meanSlope = dBias[channel] / count;
    const share = (dScale[channel] / count) * invStd;
    for (const end = i + inner; i < end; ++i) dx[i] = factor * (dy[i] - meanSlope - (x[i] - channelMean) * share);
  }
  return { dScale, dBias };
}
