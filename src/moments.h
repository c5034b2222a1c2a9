#pragma once
// How statistics fold: count, mean and sum of squared deviations of groups of values.

#include <cstddef>

#include "view.h"

namespace simdnorm {

/// Count, mean and sum of squared deviations from the mean: a monoid under merge(), with kNoMoments as its
/// unit.
///
/// The mean is mean + low: one double is not enough for the mean of doubles, as one float isn't for floats.
/// Mean and m2 are in terms of x / unit, a power of two, which is 1 unless x is double and its squares would
/// overflow or underflow.
struct Moments {
  double count, mean, low, m2, unit;
  /// What merging many has rounded off m2.
  double m2_low;

  /// Of the population (divided by count), in units of unit squared. NaN without values.
  double variance() const { return (m2 + m2_low) / count; }
};

inline constexpr Moments kNoMoments = {0, 0, 0, 0, 1, 0};

/// The moments of both groups of values together.
/// Chan, Golub, LeVeque 1979, "Updating formulae and a pairwise algorithm for computing sample variances",
/// eq. 2.1.
Moments merge(const Moments& a, const Moments& b);

/// What is summed over a group of values.
enum class Fold {
  /// Deviations from the mean and their squares.
  kMoments,
  /// Squares: moments whose mean is said to be 0.
  kSquares,
  /// Magnitudes, in m2.
  kMagnitudes,
  /// Not summed: m2 is the largest magnitude.
  kLargest,
};

/// How many groups are worked on at a time: their sums have room on the stack and in the L1 cache, and the
/// longer the stretches of a row, the better for the memory. tests/bench/kernels.mjs, batchNormTraining
/// [8192, 1024]: 3.5 copies with 64, 2.9 with 128, 2.4 with 256, 2.2 with 512.
template <class T>
inline constexpr std::size_t kTile = 2048 / sizeof(T);

/// How the groups of a view lie in memory, which decides how they are read.
enum class Layout {
  /// Each is one run.
  kRows,
  /// Each is several runs, long enough for vectors along them.
  kRuns,
  /// Each is several runs that are short or single values: vectors across neighbouring ones.
  kColumns,
};

inline Layout layout_of(const View& view) {
  constexpr std::size_t kShortRun = 16;
  if (view.rows == 1) return Layout::kRows;
  return view.cols >= kShortRun ? Layout::kRuns : Layout::kColumns;
}

/// Moments of `groups` <= kTile groups of one `outer` of a view: out[i] is of group first + i. Magnitudes are
/// folded along rows only (Layout::kRows).
///
/// Accuracy: mean and variance such that (x - mean) / sqrt(variance) is right to 5 machine epsilons of T *
/// max(1, its size) for any length and any mean up to 1e7 deviations; exact for groups of equal values; right
/// for all finite values, where squares over- or underflow too. NaN where a value is NaN or infinite.
/// The order of summation depends on rows, cols and the layout only, never on how many groups there are or what
/// the others hold.
template <class T>
void group_moments(const T* x, const View& view, Fold fold, std::size_t outer, std::size_t first,
                   std::size_t groups, Moments* out);

}  // namespace simdnorm
