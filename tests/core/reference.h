#pragma once
// The definitions, written from the papers: in long double, with a loop for each axis that they name.
//
// This file shares nothing with the library, so that a mistake in how the library reads memory can't be here
// too.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace reference {

using Shape = std::vector<std::size_t>;
/// 80 bits on x86, 128 in WebAssembly. Where it is no longer than double, there is nothing here to measure doubles by.
using Real = long double;
using Reals = std::vector<Real>;
static_assert(std::numeric_limits<Real>::digits >= 64);

template <class T>
Reals exact(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

/// A sum of sums over blocks, which loses less than one sum over all.
class Sum {
 public:
  void add(Real value) {
    block_ += value;
    if (++count_ % 64 != 0) return;
    sum_ += block_;
    block_ = 0;
  }
  Real value() const { return sum_ + block_; }

 private:
  Real sum_ = 0, block_ = 0;
  std::size_t count_ = 0;
};

/// The mean is pivot + rest: at mean/std 1e15 one long double's rounding of it would be seen. x - pivot is exact
/// where it matters, because the pivot is a double.
struct Moments {
  Real pivot, rest, variance;
  Real mean() const { return pivot + rest; }
};

/// Of the population. NaN without values, and where one is NaN or infinite.
inline Moments moments(const Reals& values) {
  const Real n = static_cast<Real>(values.size());
  Sum sum;
  for (Real value : values) sum.add(value);
  const Real pivot = static_cast<double>(sum.value() / n);
  Sum rest;
  for (Real value : values) rest.add(value - pivot);
  const Real mean = rest.value() / n;
  Sum squares;
  for (Real value : values) squares.add((value - pivot - mean) * (value - pivot - mean));
  return {pivot, mean, squares.value() / n};
}

/// How a group's values become what is subtracted from them and what they are divided by.
enum class Definition { kDeviation, kRootMeanSquare, kNorm1, kNorm2, kNormInfinity };

/// (x - mean) / divisor.
struct Statistic {
  Moments moments;
  Real divisor;
  bool is_norm = false;

  Real normalized(Real x) const {
    const Real d = (x - moments.pivot) - moments.rest;
    // Zeros divided by a norm of 0 are zeros: max(norm, epsilon) is above 0 in the papers.
    return d == 0 && divisor == 0 && is_norm ? 0 : d / divisor;
  }
};

inline Statistic statistic_of(Definition definition, const Reals& values, Real epsilon) {
  if (definition == Definition::kDeviation) {
    const Moments own = moments(values);
    return {own, std::sqrt(own.variance + epsilon)};
  }
  Sum squares, magnitudes;
  Real largest = 0;
  bool finite = true;
  for (Real value : values) {
    squares.add(value * value);
    magnitudes.add(std::fabs(value));
    largest = std::max(largest, std::fabs(value));
    finite = finite && std::isfinite(value);
  }
  // Not what arithmetic says of infinity, but what is promised.
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  if (!finite) return {{nan, nan, nan}, nan};
  if (definition == Definition::kRootMeanSquare) {
    const Real square = squares.value() / static_cast<Real>(values.size());
    return {{0, 0, square}, std::sqrt(square + epsilon)};
  }
  const Real norm = definition == Definition::kNorm1   ? magnitudes.value()
                    : definition == Definition::kNorm2 ? std::sqrt(squares.value())
                                                       : largest;
  return {{0, 0, 0}, std::max(norm, epsilon), true};
}

struct Result {
  /// y before scale and bias, and after.
  Reals normalized, y;
  /// |scale| * max(1, |normalized|) + |bias|: what roundings of y are measured by.
  Reals magnitude;
  /// One for each group.
  Reals mean, variance, inv_std;

  void add_statistic(const Statistic& statistic) {
    mean.push_back(statistic.moments.mean());
    variance.push_back(statistic.moments.variance);
    inv_std.push_back(1 / statistic.divisor);
  }
  void set_size(std::size_t count) {
    for (Reals* values : {&normalized, &y, &magnitude}) values->assign(count, 0);
  }
  void set(std::size_t i, Real value, Real scale, Real bias) {
    normalized[i] = value;
    y[i] = value * scale + bias;
    magnitude[i] = std::fabs(scale) * std::max(Real{1}, std::fabs(value)) + std::fabs(bias);
  }
};

/// Of parameters that may be absent.
inline Real scale_at(const Reals& scale, std::size_t i) { return scale.empty() ? 1 : scale[i]; }
inline Real bias_at(const Reals& bias, std::size_t i) { return bias.empty() ? 0 : bias[i]; }

/// Ba, Kiros, Hinton 2016, eq. 4, and its kin: each row over its units. Empty scale or bias: absent.
inline Result normalize_rows(Definition definition, const Reals& x, std::size_t rows, std::size_t units,
                             const Reals& scale, const Reals& bias, Real epsilon) {
  Result result;
  result.set_size(x.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const Reals values(x.begin() + row * units, x.begin() + (row + 1) * units);
    const Statistic statistic = statistic_of(definition, values, epsilon);
    result.add_statistic(statistic);
    for (std::size_t unit = 0; unit < units; ++unit) {
      result.set(row * units + unit, statistic.normalized(values[unit]), scale_at(scale, unit),
                 bias_at(bias, unit));
    }
  }
  return result;
}

template <class T>
Result layer_norm(const std::vector<T>& x, std::size_t rows, std::size_t units, const std::vector<T>& scale,
                  const std::vector<T>& bias, double epsilon) {
  return normalize_rows(Definition::kDeviation, exact(x), rows, units, exact(scale), exact(bias), epsilon);
}

/// What a batch is made of: n cases of c channels of h x w places.
struct Batch {
  std::size_t n, c, h, w;

  std::size_t at(std::size_t in, std::size_t ic, std::size_t ih, std::size_t iw) const {
    return ((in * c + ic) * h + ih) * w + iw;
  }
};

/// Ioffe, Szegedy 2015, algorithm 2, last step: each channel by its statistic.
inline Result normalize_channels(const Reals& x, const Batch& batch, const std::vector<Statistic>& statistics,
                                 const Reals& scale, const Reals& bias) {
  Result result;
  result.set_size(x.size());
  for (const Statistic& statistic : statistics) result.add_statistic(statistic);
  for (std::size_t n = 0; n < batch.n; ++n) {
    for (std::size_t c = 0; c < batch.c; ++c) {
      for (std::size_t h = 0; h < batch.h; ++h) {
        for (std::size_t w = 0; w < batch.w; ++w) {
          const std::size_t i = batch.at(n, c, h, w);
          result.set(i, statistics[c].normalized(x[i]), scale_at(scale, c), bias_at(bias, c));
        }
      }
    }
  }
  return result;
}

template <class T>
Result batch_norm(const std::vector<T>& x, const Batch& batch, const std::vector<T>& mean,
                  const std::vector<T>& variance, const std::vector<T>& scale, const std::vector<T>& bias,
                  double epsilon) {
  std::vector<Statistic> statistics;
  for (std::size_t c = 0; c < batch.c; ++c) {
    statistics.push_back({{mean[c], 0, variance[c]}, std::sqrt(Real{variance[c]} + Real{epsilon})});
  }
  return normalize_channels(exact(x), batch, statistics, exact(scale), exact(bias));
}

/// Ioffe, Szegedy 2015, algorithm 1: each channel by its own statistics over n, h and w.
template <class T>
Result batch_norm_training(const std::vector<T>& x, const Batch& batch, const std::vector<T>& scale,
                           const std::vector<T>& bias, double epsilon) {
  std::vector<Statistic> statistics;
  for (std::size_t c = 0; c < batch.c; ++c) {
    Reals values;
    for (std::size_t n = 0; n < batch.n; ++n) {
      for (std::size_t h = 0; h < batch.h; ++h) {
        for (std::size_t w = 0; w < batch.w; ++w) values.push_back(x[batch.at(n, c, h, w)]);
      }
    }
    statistics.push_back(statistic_of(Definition::kDeviation, values, epsilon));
  }
  return normalize_channels(exact(x), batch, statistics, exact(scale), exact(bias));
}

/// Items of channels with places before and after the channel axis.
struct Channels {
  std::size_t items, before, channels, after;

  std::size_t at(std::size_t item, std::size_t b, std::size_t channel, std::size_t a) const {
    return ((item * before + b) * channels + channel) * after + a;
  }
};

/// Wu, He 2018, eq. 7: each item's groups of neighbouring channels, over their channels and all places.
template <class T>
Result group_norm(const std::vector<T>& x, const Channels& c, std::size_t groups, const std::vector<T>& scale,
                  const std::vector<T>& bias, double epsilon) {
  Result result;
  result.set_size(x.size());
  const std::size_t channels = c.channels / groups;
  const Reals scales = exact(scale), biases = exact(bias);
  for (std::size_t item = 0; item < c.items; ++item) {
    for (std::size_t group = 0; group < groups; ++group) {
      const auto each_value = [&](auto body) {
        for (std::size_t channel = group * channels; channel < (group + 1) * channels; ++channel) {
          for (std::size_t b = 0; b < c.before; ++b) {
            for (std::size_t a = 0; a < c.after; ++a) body(channel, c.at(item, b, channel, a));
          }
        }
      };
      Reals values;
      each_value([&](std::size_t, std::size_t i) { values.push_back(x[i]); });
      const Statistic statistic = statistic_of(Definition::kDeviation, values, epsilon);
      result.add_statistic(statistic);
      each_value([&](std::size_t channel, std::size_t i) {
        result.set(i, statistic.normalized(x[i]), scale_at(scales, channel), bias_at(biases, channel));
      });
    }
  }
  return result;
}

/// Krizhevsky, Sutskever, Hinton 2012, section 3.3, with ONNX's window and its alpha / size.
template <class T>
Reals local_response_norm(const std::vector<T>& x, const Channels& c, std::size_t size, double alpha,
                          double beta, double k) {
  Reals y(x.size());
  const auto channels = static_cast<std::int64_t>(c.channels);
  const std::int64_t before = static_cast<std::int64_t>((size - 1) / 2),
                     after = static_cast<std::int64_t>(size / 2);
  for (std::size_t item = 0; item < c.items; ++item) {
    for (std::size_t b = 0; b < c.before; ++b) {
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        for (std::size_t a = 0; a < c.after; ++a) {
          const auto value = [&](std::int64_t at) {
            return Real{x[c.at(item, b, static_cast<std::size_t>(at), a)]};
          };
          Sum squares;
          const std::int64_t first = std::max<std::int64_t>(0, channel - before),
                             last = std::min(channels - 1, channel + after);
          for (std::int64_t other = first; other <= last; ++other) squares.add(value(other) * value(other));
          const Real base = k + Real{alpha} / static_cast<Real>(size) * squares.value();
          y[c.at(item, b, static_cast<std::size_t>(channel), a)] =
              value(channel) / std::pow(base, Real{beta});
        }
      }
    }
  }
  return y;
}

/// For each element, row-major, its flat index when only some axes are looked at, in the order given.
inline std::vector<std::size_t> indices_along(const Shape& shape, const Shape& axes) {
  Shape strides(shape.size());
  std::size_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    strides[axes[i]] = stride;
    stride *= shape[axes[i]];
  }
  std::vector<std::size_t> result = {0};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<std::size_t> next;
    for (const std::size_t index : result) {
      for (std::size_t place = 0; place < shape[axis]; ++place) next.push_back(index + place * strides[axis]);
    }
    result = next;
  }
  return result;
}

/// The axes of a shape that are not among the given, in ascending order.
inline Shape others(const Shape& shape, const Shape& axes) {
  Shape result;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) result.push_back(axis);
  }
  return result;
}

/// For each element, whether it lies within the length of its item; all do where there are no lengths.
inline std::vector<bool> valid_elements(const Shape& shape, const std::vector<std::int32_t>& lengths) {
  if (lengths.empty()) return std::vector<bool>(indices_along(shape, {}).size(), true);
  const std::vector<std::size_t> items = indices_along(shape, {0}), places = indices_along(shape, {1});
  std::vector<bool> result;
  for (std::size_t e = 0; e < items.size(); ++e) {
    result.push_back(places[e] < static_cast<std::size_t>(lengths[items[e]]));
  }
  return result;
}

/// Any axes in any order: statistics for each place along the others, parameters along `parameters`, which are
/// axes in any order too. What is past the lengths belongs to no group and is 0.
template <class T>
Result normalize(Definition definition, const std::vector<T>& x, const Shape& shape, const Shape& axes,
                 const Shape& parameters, const std::vector<std::int32_t>& lengths,
                 const std::vector<T>& scale, const std::vector<T>& bias, double epsilon) {
  const Shape kept = others(shape, axes);
  const std::vector<std::size_t> group = indices_along(shape, kept),
                                 parameter = indices_along(shape, parameters);
  const std::vector<bool> valid = valid_elements(shape, lengths);
  std::size_t groups = 1;
  for (const std::size_t axis : kept) groups *= shape[axis];
  std::vector<Reals> values(groups);
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (valid[e]) values[group[e]].push_back(x[e]);
  }
  Result result;
  std::vector<Statistic> statistics;
  for (const Reals& of_group : values) {
    statistics.push_back(statistic_of(definition, of_group, epsilon));
    result.add_statistic(statistics.back());
  }
  result.set_size(x.size());
  const Reals scales = exact(scale), biases = exact(bias);
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (!valid[e]) continue;
    result.set(e, statistics[group[e]].normalized(x[e]), scale_at(scales, parameter[e]),
               bias_at(biases, parameter[e]));
  }
  return result;
}

}  // namespace reference
