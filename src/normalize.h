#pragma once
// The one loop that every operation runs: fold statistics over a view, then apply them.

#include <limits>
#include <optional>

#include "affine.h"
#include "arguments.h"
#include "moments.h"
#include "view.h"

namespace simdnorm {

/// How a group's values become what it is divided by.
enum class Kind {
  /// sqrt(variance + epsilon), after the mean is subtracted.
  kDeviation,
  /// sqrt(mean of squares + epsilon).
  kRootMeanSquare,
  /// max(norm, epsilon), the norm being the sum of magnitudes, the root of the sum of squares, or the largest
  /// magnitude.
  kNorm1,
  kNorm2,
  kNormInfinity,
};

/// Empty for other norms than these.
inline std::optional<Kind> kind_of_norm(double p) {
  if (p == 1) return Kind::kNorm1;
  if (p == 2) return Kind::kNorm2;
  if (p == std::numeric_limits<double>::infinity()) return Kind::kNormInfinity;
  return std::nullopt;
}

/// Whether a view's groups can be folded. (Norms other than 2 are folded along rows only.)
bool can_fold(Kind kind, const View& view);

/// y = (x - mean) * inv_std * scale + bias over a view, each group by its own statistics. Where y is null only
/// the statistics are made.
template <class T>
void normalize(const View& view, Kind kind, const Arguments<T>& arguments);

/// The same by the mean and variance in the arguments, one for each group.
template <class T>
void normalize_by_given(const View& view, const Arguments<T>& arguments);

/// The same in two steps, for groups that are in several pieces of memory: merges the moments of a view's
/// groups into `moments`, one for each; and applies statistics, one for each group.
template <class T>
void merge_moments(const View& view, Kind kind, const Arguments<T>& arguments, Moments* moments);
template <class T>
void apply_statistics(const View& view, const Statistic* statistics, const Arguments<T>& arguments);

/// y = x * scale over a view.
template <class T>
void apply_scale(const View& view, const Arguments<T>& arguments);

/// Whether finish() has more to do than statistic_of().
template <class T>
bool has_statistics(const Arguments<T>& arguments) {
  return arguments.inv_std || arguments.mean_out || arguments.variance_out || arguments.inv_std_out ||
         arguments.count_out;
}

/// What the moments of a group mean, and writes of it what is wanted as number `place` of the groups.
template <class T>
Statistic finish(Kind kind, const Moments& moments, const Arguments<T>& arguments, std::size_t place);

/// x + residual of `count` values from `begin` on, made in residual_out, or in y where nobody wants it; x where there is no
/// residual.
template <class T>
const T* with_residual(const Arguments<T>& arguments, std::size_t begin, std::size_t count);

/// sum = x + residual. Any of them may be another.
template <class T>
void add(const T* x, const T* residual, T* sum, std::size_t count);

}  // namespace simdnorm
