#pragma once
// How statistics and parameters are applied: y = (x - mean) * inv_std * scale + bias.

#include <cstddef>

#include "moments.h"

namespace simdnorm {

/// What a group is normalized by. In double: the mean is used as two floats, because a mean rounded to one
/// float is off by up to half of a unit in the last place of x, which is a large part of a deviation where
/// mean / deviation is large. (For the same reason the mean is never folded into the bias.)
struct Statistic {
  double mean;
  double inv_std;
};

/// 1 / sqrt(variance + epsilon), with the mean.
Statistic statistic_of(double mean, double variance, double epsilon);

/// The absent bias. Adding -0 changes nothing, adding +0 would change -0.
inline constexpr float kNoBias = -0.0f;

/// Values with one mean, inv_std, scale and bias, made ready for apply_run.
struct Run {
  Run() = default;
  Run(Statistic statistic, float scale, float bias);

  Statistic statistic;
  float scale, bias;
  /// statistic.mean = mean + low; low is 0 where dropping it can't be seen in y.
  float mean, low;
  /// inv_std * scale, rounded once.
  float factor;
  /// Whether floats would over- or underflow on the way: y is then computed in double.
  bool wide;
};

/// y may be x here and below; otherwise they do not overlap.
void apply_run(const Run& run, const float* x, float* y, std::size_t count);

/// One mean and inv_std; scale and bias (or null) for each value.
void apply_row(Statistic statistic, const float* scale, const float* bias, const float* x, float* y,
               std::size_t count);

/// Neighbouring columns, each with its own mean, inv_std, scale and bias.
class Columns {
 public:
  void set(std::size_t column, const Run& run);
  /// Rows of the first `columns` columns; a row starts `stride` after the one before.
  void apply(const float* x, float* y, std::size_t rows, std::size_t columns, std::size_t stride) const;

 private:
  Run runs_[kTile];
  alignas(16) float mean_[kTile];
  alignas(16) float low_[kTile];
  alignas(16) float factor_[kTile];
  alignas(16) float bias_[kTile];
  bool any_low_ = false;
  bool any_wide_ = false;
};

}  // namespace simdnorm
