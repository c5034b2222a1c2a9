#pragma once
// How statistics and parameters are applied: y = (x - mean) * inv_std * scale + bias.

#include <cmath>
#include <cstddef>
#include <limits>

#include "moments.h"

namespace simdnorm {

/// What a group is normalized by: ((x / unit - mean) - low) * inv_std.
///
/// The mean is more precise than x, because a mean rounded to x's type is off by up to half of a unit in the
/// last place of x, which is a large part of a deviation where mean / deviation is large. (For the same reason
/// the mean is never folded into the bias.) For unit see Moments.
struct Statistic {
  double mean, low;
  double inv_std;
  double unit;
};

/// Whether something would over- or underflow on the way, so that y is computed in double.
template <class T>
bool needs_wide(const Statistic& statistic);

/// |low| * inv_std up to which the mean's low part is not subtracted (1e-7 for floats): it would move y by less
/// than the rounding of y does at 1, and no error can be measured.
template <class T>
inline constexpr double kVisibleLow = 0.84 * std::numeric_limits<T>::epsilon();

/// What the mean lacks as T, or 0 where dropping it can't be seen in y.
template <class T>
T visible_low(const Statistic& statistic, T mean) {
  const double low = (statistic.mean - mean) + statistic.low;
  return std::fabs(low) * statistic.inv_std > kVisibleLow<T> ? static_cast<T>(low) : 0;
}

/// The same for values of T, where nothing over- or underflows.
template <class T>
struct Factors {
  T mean, low, inv_std;

  Factors() = default;
  explicit Factors(const Statistic& statistic)
      : mean(static_cast<T>(statistic.mean)),
        low(visible_low(statistic, mean)),
        inv_std(static_cast<T>(statistic.inv_std)) {}
};

/// 1 / sqrt(variance + epsilon), with the mean.
inline Statistic statistic_of(const Moments& moments, double epsilon) {
  const double unit = moments.unit;
  const double inside = moments.variance() + (unit == 1 ? epsilon : epsilon / unit / unit);
  // An epsilon that overflows in these units leaves nothing of the variance; one that underflows is all that a
  // variance of 0 has.
  if (inside == 0 || inside > std::numeric_limits<double>::max()) {
    return {moments.mean * unit, moments.low * unit, 1 / std::sqrt(epsilon), 1};
  }
  return {moments.mean, moments.low, 1 / std::sqrt(inside), unit};
}

/// The same for statistics that are given.
Statistic given_statistic(double mean, double variance, double epsilon);

enum class Norm {
  /// m2 is the norm.
  kPlain,
  /// m2 is its square.
  kSquared,
};

/// 1 / max(norm, epsilon), and 0 where both are 0, so that zeros stay zeros.
Statistic norm_statistic(const Moments& moments, Norm norm, double epsilon);

/// The absent bias. Adding -0 changes nothing, adding +0 would change -0.
template <class T>
inline constexpr T kNoBias = T{-0.0};

/// Values with one mean, inv_std, scale and bias, made ready for apply_run.
template <class T>
struct Run {
  Run() = default;
  Run(const Statistic& statistic, T scale, T bias);

  Statistic statistic;
  T scale, bias;
  /// statistic.mean + statistic.low = mean + low; low is 0 where dropping it can't be seen in y.
  T mean, low;
  /// inv_std * scale, rounded once.
  T factor;
  /// Whether something would over- or underflow on the way: y is then computed in double, in units of unit.
  bool wide;
};

/// y may be x here and below; otherwise they do not overlap.
template <class T>
void apply_run(const Run<T>& run, const T* x, T* y, std::size_t count);

/// One mean and inv_std; scale and bias (or null) for each value.
template <class T>
void apply_row(const Statistic& statistic, const T* scale, const T* bias, const T* x, T* y,
               std::size_t count);
/// The same where it is known that nothing over- or underflows.
template <class T>
void apply_row(const Factors<T>& factors, const T* scale, const T* bias, const T* x, T* y, std::size_t count);

/// Neighbouring columns, each with its own mean, inv_std, scale and bias.
template <class T>
class Columns {
 public:
  void set(std::size_t column, const Run<T>& run);
  /// Rows of the first `columns` columns; a row starts `stride` after the one before.
  void apply(const T* x, T* y, std::size_t rows, std::size_t columns, std::size_t stride) const;

 private:
  Run<T> runs_[kTile<T>];
  alignas(16) T mean_[kTile<T>];
  alignas(16) T low_[kTile<T>];
  alignas(16) T factor_[kTile<T>];
  alignas(16) T bias_[kTile<T>];
  bool any_low_ = false;
  bool any_wide_ = false;
};

}  // namespace simdnorm
