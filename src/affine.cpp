#include "affine.h"

#include <cmath>

#include "simd.h"

namespace simdnorm {
namespace {

constexpr std::size_t kLanes = f32x4::kLanes;
/// |low| * inv_std up to which the mean's low part is not subtracted: it would move y by less than a float's
/// own rounding does at 1, and no error can be measured.
constexpr double kVisibleLow = 1e-7;
/// Factors outside of these leave floats too little room: products could overflow or lose bits as subnormals.
constexpr double kSmallFactor = 1e-30, kLargeFactor = 1e30;

/// Beyond it x - mean may overflow. (A mean that was given; where the mean is the group's own, so large a
/// difference makes inv_std small.)
constexpr double kLargeMean = 1e30;

/// False for NaN, which floats carry as well as doubles do.
bool needs_wide(double factor) {
  const double size = std::fabs(factor);
  return size < kSmallFactor || size > kLargeFactor;
}

float visible_low(Statistic statistic, float mean) {
  const double low = statistic.mean - mean;
  return std::fabs(low) * statistic.inv_std > kVisibleLow ? static_cast<float>(low) : 0;
}

float apply_wide(float x, Statistic statistic, float scale, float bias) {
  return static_cast<float>((x - statistic.mean) * statistic.inv_std * scale + bias);
}

template <bool kLow, bool kScale, bool kBias>
void apply_row(Statistic statistic, float mean_value, float low_value, const float* scale, const float* bias,
               const float* x, float* y, std::size_t count) {
  const f32x4 mean = f32x4::splat(mean_value), low = f32x4::splat(low_value);
  const f32x4 inv_std = f32x4::splat(static_cast<float>(statistic.inv_std));
  const auto normalize = [&](f32x4 values) {
    f32x4 d = values - mean;
    if (kLow) d = d - low;
    return d * inv_std;
  };
  const auto apply = [&](std::size_t i) {
    f32x4 result = normalize(load(x + i));
    if (kScale) result = result * load(scale + i);
    if (kBias) result = result + load(bias + i);
    store(y + i, result);
  };
  const auto advance = [&](std::size_t by) {
    x += by;
    y += by;
    if (kScale) scale += by;
    if (kBias) bias += by;
    count -= by;
  };
  while (count >= 2 * kLanes) {
    apply(0);
    apply(kLanes);
    advance(2 * kLanes);
  }
  if (count >= kLanes) {
    apply(0);
    advance(kLanes);
  }
  if (count > 0) {
    const auto rest = [&](const float* p) { return load_partial(p, count, f32x4::splat(0)); };
    f32x4 result = normalize(rest(x));
    if (kScale) result = result * rest(scale);
    if (kBias) result = result + rest(bias);
    store_partial(y, count, result);
  }
}

}  // namespace

Statistic statistic_of(double mean, double variance, double epsilon) {
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

Run::Run(Statistic statistic, float scale, float bias)
    : statistic(statistic),
      scale(scale),
      bias(bias),
      mean(static_cast<float>(statistic.mean)),
      low(visible_low(statistic, mean)),
      factor(static_cast<float>(statistic.inv_std * scale)),
      wide(needs_wide(statistic.inv_std) || (scale != 0 && needs_wide(statistic.inv_std * scale)) ||
           std::fabs(statistic.mean) > kLargeMean) {}

void apply_run(const Run& run, const float* x, float* y, std::size_t count) {
  if (run.wide) {
    for (std::size_t i = 0; i < count; ++i) y[i] = apply_wide(x[i], run.statistic, run.scale, run.bias);
    return;
  }
  const f32x4 mean = f32x4::splat(run.mean), low = f32x4::splat(run.low);
  const f32x4 factor = f32x4::splat(run.factor), bias = f32x4::splat(run.bias);
  const auto apply = [&](f32x4 values) { return ((values - mean) - low) * factor + bias; };
  while (count >= 4 * kLanes) {
    store(y, apply(load(x)));
    store(y + kLanes, apply(load(x + kLanes)));
    store(y + 2 * kLanes, apply(load(x + 2 * kLanes)));
    store(y + 3 * kLanes, apply(load(x + 3 * kLanes)));
    x += 4 * kLanes;
    y += 4 * kLanes;
    count -= 4 * kLanes;
  }
  for (; count >= kLanes; x += kLanes, y += kLanes, count -= kLanes) store(y, apply(load(x)));
  if (count > 0) store_partial(y, count, apply(load_partial(x, count, mean)));
}

void apply_row(Statistic statistic, const float* scale, const float* bias, const float* x, float* y,
               std::size_t count) {
  if (needs_wide(statistic.inv_std)) {
    for (std::size_t i = 0; i < count; ++i) {
      y[i] = apply_wide(x[i], statistic, scale ? scale[i] : 1, bias ? bias[i] : kNoBias);
    }
    return;
  }
  const float mean = static_cast<float>(statistic.mean);
  const float low = visible_low(statistic, mean);
  const auto apply = [&]<bool kLow>() {
    if (scale && bias) return apply_row<kLow, true, true>(statistic, mean, low, scale, bias, x, y, count);
    if (scale) return apply_row<kLow, true, false>(statistic, mean, low, scale, bias, x, y, count);
    if (bias) return apply_row<kLow, false, true>(statistic, mean, low, scale, bias, x, y, count);
    return apply_row<kLow, false, false>(statistic, mean, low, scale, bias, x, y, count);
  };
  if (low != 0) {
    apply.template operator()<true>();
  } else {
    apply.template operator()<false>();
  }
}

void Columns::set(std::size_t column, const Run& run) {
  runs_[column] = run;
  mean_[column] = run.mean;
  low_[column] = run.low;
  factor_[column] = run.factor;
  bias_[column] = run.bias;
  any_low_ = any_low_ || run.low != 0;
  any_wide_ = any_wide_ || run.wide;
}

void Columns::apply(const float* x, float* y, std::size_t rows, std::size_t columns,
                    std::size_t stride) const {
  if (any_wide_) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c)
        apply_run(runs_[c], x + r * stride + c, y + r * stride + c, 1);
    }
    return;
  }
  const auto apply_rows = [&]<bool kLow, std::size_t kRows>() {
    const auto apply_at = [&](std::size_t c, auto load_at, auto store_at) {
      const f32x4 mean = load_at(mean_ + c), factor = load_at(factor_ + c), bias = load_at(bias_ + c);
      const f32x4 low = kLow ? load_at(low_ + c) : f32x4::splat(0);
      for (std::size_t r = 0; r < kRows; ++r) {
        f32x4 d = load_at(x + r * stride + c) - mean;
        if (kLow) d = d - low;
        store_at(y + r * stride + c, d * factor + bias);
      }
    };
    std::size_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      apply_at(
          c, [](const float* p) { return load(p); }, [](float* p, f32x4 v) { store(p, v); });
    }
    if (const std::size_t left = columns - c) {
      apply_at(
          c, [left](const float* p) { return load_partial(p, left, f32x4::splat(0)); },
          [left](float* p, f32x4 v) { store_partial(p, left, v); });
    }
    x += kRows * stride;
    y += kRows * stride;
    rows -= kRows;
  };
  const auto apply_all = [&]<bool kLow>() {
    while (rows >= 2) apply_rows.template operator()<kLow, 2>();
    if (rows == 1) apply_rows.template operator()<kLow, 1>();
  };
  if (any_low_) {
    apply_all.template operator()<true>();
  } else {
    apply_all.template operator()<false>();
  }
}

}  // namespace simdnorm
