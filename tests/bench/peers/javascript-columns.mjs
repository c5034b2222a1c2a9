// Batch norm of channels last, [items, channels], in plain JavaScript: in memory's order, one sum for each channel.

export function statisticsOfColumns(x, { items, channels }) {
  const mean = new Float64Array(channels);
  const variance = new Float64Array(channels);
  for (let item = 0, i = 0; item < items; ++item) {
    for (let channel = 0; channel < channels; ++channel, ++i) mean[channel] += x[i];
  }
  for (let channel = 0; channel < channels; ++channel) mean[channel] /= items;
  for (let item = 0, i = 0; item < items; ++item) {
    for (let channel = 0; channel < channels; ++channel, ++i) {
      const deviation = x[i] - mean[channel];
      variance[channel] += deviation * deviation;
    }
  }
  for (let channel = 0; channel < channels; ++channel) variance[channel] /= items;
  return { mean, variance };
}

export function normalizeColumns(x, out, { items, channels }, { mean, variance, scale, bias, epsilon }) {
  const factor = variance.map((each, channel) => scale[channel] / Math.sqrt(each + epsilon));
  for (let item = 0, i = 0; item < items; ++item) {
    for (let channel = 0; channel < channels; ++channel, ++i) {
      out[i] = (x[i] - mean[channel]) * factor[channel] + bias[channel];
    }
  }
}

/** As gradientOfRuns. */
export function gradientOfColumns(dy, x, dx, { items, channels }, { mean, variance, scale, epsilon, isTraining }) {
  const invStd = variance.map((each) => 1 / Math.sqrt(each + epsilon));
  const dScale = new Float64Array(channels);
  const dBias = new Float64Array(channels);
  for (let item = 0, i = 0; item < items; ++item) {
    for (let channel = 0; channel < channels; ++channel, ++i) {
      dBias[channel] += dy[i];
      dScale[channel] += dy[i] * (x[i] - mean[channel]) * invStd[channel];
    }
  }
  const count = isTraining ? items : Number.POSITIVE_INFINITY;
  const factor = invStd.map((each, channel) => each * scale[channel]);
  const meanSlope = dBias.map((sum) => sum / count);
  const share = dScale.map((sum, channel) => (sum / count) * invStd[channel]);
  for (let item = 0, i = 0; item < items; ++item) {
    for (let channel = 0; channel < channels; ++channel, ++i) {
      dx[i] = factor[channel] * (dy[i] - meanSlope[channel] - (x[i] - mean[channel]) * share[channel]);
    }
  }
  return { dScale, dBias };
}
