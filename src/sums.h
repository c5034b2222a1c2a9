#pragma once
// Sums that stand.
//
// Sums in the type of x lose a bit for every doubling of their length. So they run over a short block only, as
// trees, and are then added to sums that are more precise: doubles for floats, pairs of doubles for doubles.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "simd.h"

namespace simdnorm {

/// Steps between two additions to the precise sums. Searches find rows whose roundings all go one way: with blocks of
/// 12 steps they come to 8.4e-7, above the bound of 6e-7; with 6 there is room, for a thirtieth of the speed.
/// (tests/core/accuracy_test.cpp)
inline constexpr std::size_t kBlockSteps = 6;

/// a + b as the rounded sum and what rounding took away. Knuth, The Art of Computer Programming, 4.2.2.
template <class V>
struct TwoSum {
  V sum, rest;
  TwoSum(V a, V b) {
    sum = a + b;
    const V b_part = sum - a;
    rest = (a - (sum - b_part)) + (b - b_part);
  }
};

/// A sum of doubles in more precision than theirs. It begins at 0 where it is written as {}: there are long arrays of
/// them, of which few are used.
class Total {
 public:
  void add(double value) {
    const TwoSum<double> next(sum_, value);
    sum_ = next.sum;
    rest_ += next.rest;
  }
  /// Infinity where one was added, whose rest is NaN.
  double value() const { return std::isfinite(sum_) ? sum_ + rest_ : sum_; }

 private:
  double sum_, rest_;
};

/// Sums of sums over blocks next to each other, in more precision than theirs.
template <class T, std::size_t kRoom>
class Totals;

template <std::size_t kRoom>
class Totals<float, kRoom> {
 public:
  void clear(std::size_t count) { std::fill_n(sums_, count, 0.0); }
  void add(std::size_t i, f32x4 values) {
    store(sums_ + i, load(sums_ + i) + widen_low(values));
    store(sums_ + i + 2, load(sums_ + i + 2) + widen_high(values));
  }
  double value(std::size_t i) const { return sums_[i]; }

 private:
  double sums_[kRoom];
};

template <std::size_t kRoom>
class Totals<double, kRoom> {
 public:
  void clear(std::size_t count) {
    std::fill_n(sums_, count, 0.0);
    std::fill_n(rests_, count, 0.0);
  }
  void add(std::size_t i, f64x2 values) {
    const TwoSum<f64x2> next(load(sums_ + i), values);
    store(sums_ + i, next.sum);
    store(rests_ + i, load(rests_ + i) + next.rest);
  }
  double value(std::size_t i) const { return std::isfinite(sums_[i]) ? sums_[i] + rests_[i] : sums_[i]; }

 private:
  double sums_[kRoom], rests_[kRoom];
};

/// The sums over blocks along memory. It begins at 0 where it is written as {}.
template <class T>
class VectorTotal;

template <>
class VectorTotal<float> {
 public:
  void add(f32x4 values) { sum_ = sum_ + (widen_low(values) + widen_high(values)); }
  double value() const { return sum_lanes(sum_); }
  /// That of each.
  static f64x2 values(const VectorTotal& a, const VectorTotal& b) { return sum_lanes(a.sum_, b.sum_); }
  void add_to(Total& total) const { total.add(value()); }

 private:
  f64x2 sum_;
};

template <>
class VectorTotal<double> {
 public:
  void add(f64x2 values) {
    const TwoSum<f64x2> next(sum_, values);
    sum_ = next.sum;
    rest_ = rest_ + next.rest;
  }
  void add_to(Total& total) const {
    total.add(first_lane(sum_));
    total.add(last_lane(sum_));
    const double rest = sum_lanes(rest_);
    if (std::isfinite(rest)) total.add(rest);
  }
  SIMDNORM_ONCE double value() const {
    Total total = {};
    add_to(total);
    return total.value();
  }

 private:
  f64x2 sum_, rest_;
};

/// Two sums at a time: of values and of their squares, or of other products.
template <class V>
struct Pair {
  V d, dd;
  friend Pair operator+(Pair a, Pair b) { return {a.d + b.d, a.dd + b.dd}; }
};

template <class T>
struct PairTotal {
  VectorTotal<T> d, dd;
  void add(Pair<Vector<T>> sums) {
    d.add(sums.d);
    dd.add(sums.dd);
  }
};

/// What two sums come to.
struct Sums {
  double d, dd;
};

template <class T>
Sums sums_of(const PairTotal<T>& totals) {
  return {totals.d.value(), totals.dd.value()};
}

/// The sum of at(first) to at(first + kCount - 1) as a balanced tree.
template <std::size_t kCount, class At>
auto tree(const At& at, std::size_t first) {
  if constexpr (kCount == 1) {
    return at(first);
  } else {
    return tree<kCount / 2>(at, first) + tree<kCount / 2>(at, first + kCount / 2);
  }
}

}  // namespace simdnorm
