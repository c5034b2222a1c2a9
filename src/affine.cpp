#include "affine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "scaled.h"
#include "simd.h"

namespace simdnorm {
namespace {

/// Factors outside of these leave too little room: products could overflow or lose bits as subnormals.
template <class T>
constexpr double kLargeFactor = std::is_same_v<T, float> ? 1e30 : 1e290;
/// Beyond it x - mean may overflow. (A mean that was given; where the mean is the group's own, so large a
/// difference makes inv_std small.)
template <class T>
constexpr double kLargeMean = kLargeFactor<T>;

/// Whether there are kernels that do not subtract a low part of 0. They give the same bits; of doubles there are
/// too few to pay for their size.
template <class T>
constexpr bool kSkipsNoLow = std::is_same_v<T, float>;

/// Whether rows with a scale and no bias, as in RMS norm, have a kernel. It gives the same bits as a bias of -0.
template <class T>
constexpr bool kHasRowsWithoutBias = std::is_same_v<T, float>;

/// False for NaN, which floats carry as well as doubles do.
template <class T>
bool needs_wide(double factor) {
  const double size = std::fabs(factor);
  return size < 1 / kLargeFactor<T> || size > kLargeFactor<T>;
}

/// Where nothing is subtracted x keeps its own unit: in one that leaves squares room, a value far smaller than the
/// group's largest would lose bits, or be 0.
SIMDNORM_ONCE double normalize_wide(double x, const Statistic& statistic, double scale) {
  const bool is_centered = statistic.mean != 0 || statistic.low != 0;
  const double per_unit = 1 / statistic.unit;
  const double d = (x * (is_centered ? per_unit : 1) - statistic.mean) - statistic.low;
  const Scaled normalized = Scaled(d) * Scaled(statistic.inv_std) * Scaled(is_centered ? 1 : per_unit);
  return (normalized * Scaled(scale)).value();
}

template <class T>
T apply_wide(T x, const Statistic& statistic, T scale, T bias) {
  return static_cast<T>(normalize_wide(x, statistic, scale) + bias);
}

template <bool kBias, class T>
SIMDNORM_ONCE void apply_row(const Factors<T>& factors, const T* scale, const T* bias, const T* x, T* y,
                             std::size_t count) {
  using V = Vector<T>;
  constexpr std::size_t kVector = kLanes<T>;
  const V mean = V::splat(factors.mean), low = V::splat(factors.low), inv_std = V::splat(factors.inv_std);
  const auto normalize = [&](V values) { return ((values - mean) - low) * inv_std; };
  const auto apply = [&](std::size_t i) {
    V result = normalize(load(x + i)) * load(scale + i);
    if (kBias) result = result + load(bias + i);
    store(y + i, result);
  };
  const auto advance = [&](std::size_t by) {
    x += by;
    y += by;
    scale += by;
    if (kBias) bias += by;
    count -= by;
  };
  while (count >= 4 * kVector) {
    apply(0);
    apply(kVector);
    apply(2 * kVector);
    apply(3 * kVector);
    advance(4 * kVector);
  }
  while (count >= kVector) {
    apply(0);
    advance(kVector);
  }
  if (count > 0) {
    const auto rest = [&](const T* p) { return load_partial(p, count, V::splat(0)); };
    V result = normalize(rest(x)) * rest(scale);
    if (kBias) result = result + rest(bias);
    store_partial(y, count, result);
  }
}

template <bool kLow, class T>
SIMDNORM_ONCE void apply_run(const Run<T>& run, const T* x, T* y, std::size_t count) {
  using V = Vector<T>;
  constexpr std::size_t kVector = kLanes<T>;
  const V mean = V::splat(run.mean), low = V::splat(run.low);
  const V factor = V::splat(run.factor), bias = V::splat(run.bias);
  const auto apply = [&](V values) {
    V d = values - mean;
    if (kLow) d = d - low;
    return d * factor + bias;
  };
  while (count >= 4 * kVector) {
    store(y, apply(load(x)));
    store(y + kVector, apply(load(x + kVector)));
    store(y + 2 * kVector, apply(load(x + 2 * kVector)));
    store(y + 3 * kVector, apply(load(x + 3 * kVector)));
    x += 4 * kVector;
    y += 4 * kVector;
    count -= 4 * kVector;
  }
  for (; count >= kVector; x += kVector, y += kVector, count -= kVector) store(y, apply(load(x)));
  if (count > 0) store_partial(y, count, apply(load_partial(x, count, mean)));
}

}  // namespace

template <class T>
bool needs_wide(const Statistic& statistic) {
  return statistic.unit != 1 || needs_wide<T>(statistic.inv_std);
}

Statistic given_statistic(double mean, double variance, double epsilon) {
  // In quarters x - mean can't overflow.
  const double unit = std::fabs(mean) > kLargeMean<double> ? 4 : 1;
  return {mean / unit, 0, 1 / std::sqrt(variance + epsilon) * unit, unit};
}

Statistic norm_statistic(const Moments& moments, Norm norm, double epsilon) {
  const double size = norm == Norm::kSquared ? std::sqrt(moments.m2) : moments.m2;
  const double least = epsilon / moments.unit;
  // An epsilon that overflows in these units is larger than all norms in them.
  if (least > std::numeric_limits<double>::max()) return {0, 0, 1 / epsilon, 1};
  // Negated, so that NaN stays NaN.
  const double divisor = !(size <= least) ? size : least;
  // Zeros stay zeros, also beside an epsilon of next to nothing.
  const double inverse = 1 / divisor;
  return {0, 0, size > 0 || std::isfinite(inverse) || std::isnan(size) ? inverse : 0, moments.unit};
}

template <class T>
Run<T>::Run(const Statistic& statistic, T scale, T bias)
    : statistic(statistic),
      scale(scale),
      bias(bias),
      mean(static_cast<T>(statistic.mean)),
      low(visible_low(statistic, mean)),
      factor(static_cast<T>(statistic.inv_std * scale)),
      wide(needs_wide<T>(statistic) || (scale != 0 && needs_wide<T>(statistic.inv_std * scale)) ||
           std::fabs(statistic.mean) > kLargeMean<T>) {}

template <class T>
SIMDNORM_ONCE void apply_run(const Run<T>& run, const T* x, T* y, std::size_t count) {
  if (run.wide) {
    for (std::size_t i = 0; i < count; ++i) y[i] = apply_wide(x[i], run.statistic, run.scale, run.bias);
    return;
  }
  if (kSkipsNoLow<T> && run.low == 0) return apply_run<false>(run, x, y, count);
  apply_run<true>(run, x, y, count);
}

template <class T>
void apply_row(const Statistic& statistic, const T* scale, const T* bias, const T* x, T* y,
               std::size_t count) {
  if (needs_wide<T>(statistic)) {
    for (std::size_t i = 0; i < count; ++i) {
      y[i] = apply_wide(x[i], statistic, scale ? scale[i] : 1, bias ? bias[i] : kNoBias<T>);
    }
    return;
  }
  apply_row(Factors<T>(statistic), scale, bias, x, y, count);
}

template <class T>
void apply_row(const Factors<T>& factors, const T* scale, const T* bias, const T* x, T* y,
               std::size_t count) {
  if constexpr (kHasRowsWithoutBias<T>) {
    if (scale && !bias) return apply_row<false>(factors, scale, bias, x, y, count);
  }
  if (scale && bias) return apply_row<true>(factors, scale, bias, x, y, count);
  // What is absent is spelled out, which has the same bits.
  constexpr std::size_t kPiece = 256;
  T ones[kPiece], zeros[kPiece];
  std::fill_n(ones, kPiece, T{1});
  std::fill_n(zeros, kPiece, kNoBias<T>);
  for (std::size_t i = 0; i < count; i += kPiece) {
    apply_row<true>(factors, scale ? scale + i : ones, bias ? bias + i : zeros, x + i, y + i,
                    std::min(count - i, kPiece));
  }
}

template <class T>
void Columns<T>::set(std::size_t column, const Run<T>& run) {
  runs_[column] = run;
  mean_[column] = run.mean;
  low_[column] = run.low;
  factor_[column] = run.factor;
  bias_[column] = run.bias;
  any_low_ = any_low_ || run.low != 0;
  any_wide_ = any_wide_ || run.wide;
}

template <class T>
SIMDNORM_ONCE void Columns<T>::apply(const T* x, T* y, std::size_t rows, std::size_t columns,
                                     std::size_t stride) const {
  using V = Vector<T>;
  if (any_wide_) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        apply_run(runs_[c], x + r * stride + c, y + r * stride + c, 1);
      }
    }
    return;
  }
  const auto apply_rows = [&]<bool kLow, std::size_t kRows>() {
    const auto apply_at = [&](std::size_t c, auto load_at, auto store_at) {
      const V mean = load_at(mean_ + c), factor = load_at(factor_ + c), bias = load_at(bias_ + c);
      const V low = kLow ? load_at(low_ + c) : V::splat(0);
      const auto apply_one = [&](std::size_t r) {
        V d = load_at(x + r * stride + c) - mean;
        if (kLow) d = d - low;
        store_at(y + r * stride + c, d * factor + bias);
      };
      apply_one(0);
      if constexpr (kRows == 2) apply_one(1);
    };
    std::size_t c = 0;
    for (; c + kLanes<T> <= columns; c += kLanes<T>) {
      apply_at(
          c, [](const T* p) { return load(p); }, [](T* p, V v) { store(p, v); });
    }
    if (const std::size_t left = columns - c) {
      apply_at(
          c, [left](const T* p) { return load_partial(p, left, V::splat(0)); },
          [left](T* p, V v) { store_partial(p, left, v); });
    }
    x += kRows * stride;
    y += kRows * stride;
    rows -= kRows;
  };
  if (kSkipsNoLow<T> && !any_low_) {
    while (rows >= 2) apply_rows.template operator()<false, 2>();
  }
  while (rows >= 2) apply_rows.template operator()<true, 2>();
  if (rows == 1) apply_rows.template operator()<true, 1>();
}

#define SIMDNORM_INSTANTIATE(T)                                                              \
  template bool needs_wide<T>(const Statistic&);                                             \
  template struct Run<T>;                                                                    \
  template void apply_run(const Run<T>&, const T*, T*, std::size_t);                         \
  template void apply_row(const Statistic&, const T*, const T*, const T*, T*, std::size_t);  \
  template void apply_row(const Factors<T>&, const T*, const T*, const T*, T*, std::size_t); \
  template class Columns<T>;
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE

}  // namespace simdnorm
