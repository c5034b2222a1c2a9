#pragma once
// The definitions, written from the papers: in double, with a loop for each axis that they name.
//
// This file shares nothing with the library, so that a mistake in how the library reads memory can't be here
// too.

#include <cmath>
#include <cstddef>
#include <vector>

namespace reference {

using Shape = std::vector<std::size_t>;

struct Moments {
  double mean, variance;
};

/// Of the population. The mean is corrected by the mean of what is left, because at mean/std 1e7 even a
/// double's rounding of a long sum would be seen.
inline Moments moments(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  double sum = 0;
  for (double value : values) sum += value;
  double mean = sum / n;
  double rest = 0;
  for (double value : values) rest += value - mean;
  mean += rest / n;
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  return {mean, squares / n};
}

struct Result {
  /// y before scale and bias, and after.
  std::vector<double> normalized, y;
  /// One for each row or channel.
  std::vector<double> mean, variance, inv_std;
};

inline void add_statistics(Result& result, Moments moments, double epsilon) {
  result.mean.push_back(moments.mean);
  result.variance.push_back(moments.variance);
  result.inv_std.push_back(1 / std::sqrt(moments.variance + epsilon));
}

/// Ba, Kiros, Hinton 2016, eq. 4: each row over its units. Empty scale or bias: absent.
inline Result layer_norm(const std::vector<float>& x, std::size_t rows, std::size_t units,
                         const std::vector<float>& scale, const std::vector<float>& bias, double epsilon) {
  Result result;
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<double> values;
    for (std::size_t unit = 0; unit < units; ++unit) values.push_back(x[row * units + unit]);
    add_statistics(result, moments(values), epsilon);
    for (std::size_t unit = 0; unit < units; ++unit) {
      const double normalized = (values[unit] - result.mean[row]) * result.inv_std[row];
      result.normalized.push_back(normalized);
      result.y.push_back(normalized * (scale.empty() ? 1 : scale[unit]) + (bias.empty() ? 0 : bias[unit]));
    }
  }
  return result;
}

/// What a batch is made of: n cases of c channels of h x w places.
struct Batch {
  std::size_t n, c, h, w;

  std::size_t at(std::size_t in, std::size_t ic, std::size_t ih, std::size_t iw) const {
    return ((in * c + ic) * h + ih) * w + iw;
  }
};

/// Ioffe, Szegedy 2015, algorithm 2, last step: each channel by the statistics in `result`.
inline void normalize_channels(Result& result, const std::vector<float>& x, const Batch& batch,
                               const std::vector<float>& scale, const std::vector<float>& bias) {
  result.normalized.resize(x.size());
  result.y.resize(x.size());
  for (std::size_t n = 0; n < batch.n; ++n) {
    for (std::size_t c = 0; c < batch.c; ++c) {
      for (std::size_t h = 0; h < batch.h; ++h) {
        for (std::size_t w = 0; w < batch.w; ++w) {
          const std::size_t i = batch.at(n, c, h, w);
          result.normalized[i] = (x[i] - result.mean[c]) * result.inv_std[c];
          result.y[i] = result.normalized[i] * (scale.empty() ? 1 : scale[c]) + (bias.empty() ? 0 : bias[c]);
        }
      }
    }
  }
}

inline Result batch_norm(const std::vector<float>& x, const Batch& batch, const std::vector<float>& mean,
                         const std::vector<float>& variance, const std::vector<float>& scale,
                         const std::vector<float>& bias, double epsilon) {
  Result result;
  for (std::size_t c = 0; c < batch.c; ++c) add_statistics(result, {mean[c], variance[c]}, epsilon);
  normalize_channels(result, x, batch, scale, bias);
  return result;
}

/// Ioffe, Szegedy 2015, algorithm 1: each channel by its own statistics over n, h and w.
inline Result batch_norm_training(const std::vector<float>& x, const Batch& batch,
                                  const std::vector<float>& scale, const std::vector<float>& bias,
                                  double epsilon) {
  Result result;
  for (std::size_t c = 0; c < batch.c; ++c) {
    std::vector<double> values;
    for (std::size_t n = 0; n < batch.n; ++n) {
      for (std::size_t h = 0; h < batch.h; ++h) {
        for (std::size_t w = 0; w < batch.w; ++w) values.push_back(x[batch.at(n, c, h, w)]);
      }
    }
    add_statistics(result, moments(values), epsilon);
  }
  normalize_channels(result, x, batch, scale, bias);
  return result;
}

/// The place of flat element e along each axis.
inline Shape places(const Shape& shape, std::size_t e) {
  Shape result(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    result[axis] = e % shape[axis];
    e /= shape[axis];
  }
  return result;
}

/// The flat index of what is left of element e when only some axes are looked at, row-major.
inline std::size_t index_along(const Shape& shape, const std::vector<bool>& axes, std::size_t e) {
  const Shape place = places(shape, e);
  std::size_t index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axes[axis]) index = index * shape[axis] + place[axis];
  }
  return index;
}

/// Population mean and variance over the axes that are `reduced`, for each place along the others.
inline std::vector<Moments> moments(const std::vector<float>& x, const Shape& shape,
                                    const std::vector<bool>& reduced) {
  std::vector<bool> kept(reduced);
  kept.flip();
  std::size_t places = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) places *= kept[axis] ? shape[axis] : 1;
  std::vector<std::vector<double>> values(places);
  for (std::size_t e = 0; e < x.size(); ++e) values[index_along(shape, kept, e)].push_back(x[e]);
  std::vector<Moments> result;
  for (const auto& group : values) result.push_back(moments(group));
  return result;
}

}  // namespace reference
