#pragma once
// Whether sums about a pivot can be relied on.

#include <limits>
#include <type_traits>

#include "moments.h"
#include "sums.h"

namespace simdnorm {

/// (mean - pivot)^2 / variance up to which sums about a pivot are accurate enough: the error grows with its
/// root.
inline constexpr double kFarPivot = 0.15;
/// Below this mean of squares, squares lose bits to underflow.
template <class T>
constexpr double kTinySquare = std::is_same_v<T, float> ? 1e-30 : 1e-290;

enum class Verdict { kGood, kFar, kOutOfRange };

/// Moments from sums about a pivot, and whether they can be relied on.
template <class T>
Verdict judge(Fold fold, const Sums& sums, double count, double pivot, Moments& moments) {
  const double largest = std::numeric_limits<T>::max();
  const double most = std::is_same_v<T, float> ? largest * count : largest;
  // Negated, so that NaN is out of range as well.
  const bool in_range = sums.dd >= kTinySquare<T> * count && sums.dd <= most;
  if (fold == Fold::kSquares) {
    moments = {count, 0, 0, sums.dd, 1, 0};
    return in_range ? Verdict::kGood : Verdict::kOutOfRange;
  }
  const double shift = sums.d / count;
  const double m2 = sums.dd - sums.d * shift;
  const TwoSum<double> mean(pivot, shift);
  moments = {count, mean.sum, mean.rest, m2, 1, 0};
  if (!in_range) return Verdict::kOutOfRange;
  return shift * shift * count <= kFarPivot * m2 ? Verdict::kGood : Verdict::kFar;
}

}  // namespace simdnorm
