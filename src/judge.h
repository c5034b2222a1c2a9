#pragma once
// Whether sums about a pivot can be relied on.

#include <limits>
#include <type_traits>

#include "moments.h"
#include "simd.h"
#include "sums.h"

namespace simdnorm {

/// (mean - pivot)^2 / variance up to which sums about a pivot are accurate enough: the error grows with its
/// root.
inline constexpr double kFarPivot = 0.15;
/// Below this mean of squares, squares lose bits to underflow.
template <class T>
constexpr double kTinySquare = std::is_same_v<T, float> ? 1e-30 : 1e-290;

/// Whether sums of squares of T neither overflow nor lose bits to underflow, and none is NaN.
template <class T, class V>
bool are_in_range(V squares, V count) {
  const V largest = splat<V>(std::numeric_limits<T>::max());
  return all_at_most(splat<V>(kTinySquare<T>) * count, squares) &&
         all_at_most(squares, std::is_same_v<T, float> ? largest * count : largest);
}

/// What sums of d and d * d about a pivot come to: of one group (V is double), or of one in each lane.
template <class V>
struct AboutPivot {
  V count, shift, m2;
  TwoSum<V> mean;

  AboutPivot(V d, V dd, V count, V pivot)
      : count(count), shift(d / count), m2(dd - d * shift), mean(pivot, shift) {}
  /// Whether all pivots were near enough.
  bool is_accurate() const { return all_at_most(shift * shift * count, splat<V>(kFarPivot) * m2); }
};

enum class Verdict { kGood, kFar, kOutOfRange };

/// Moments from sums about a pivot, and whether they can be relied on.
template <class T>
Verdict judge(Fold fold, const Sums& sums, double count, double pivot, Moments& moments) {
  const bool in_range = are_in_range<T>(sums.dd, count);
  if (fold == Fold::kSquares) {
    moments = {count, 0, 0, sums.dd, 1, 0};
    return in_range ? Verdict::kGood : Verdict::kOutOfRange;
  }
  const AboutPivot<double> about(sums.d, sums.dd, count, pivot);
  moments = {count, about.mean.sum, about.mean.rest, about.m2, 1, 0};
  if (!in_range) return Verdict::kOutOfRange;
  return about.is_accurate() ? Verdict::kGood : Verdict::kFar;
}

}  // namespace simdnorm
