#pragma once
// Sums that stand.
//
// Sums in the type of x lose a bit for every doubling of their length. So they run over a short block only, as
// trees, and are then added to sums that are more precise: doubles for floats, pairs of doubles for doubles.

#include <cstddef>

#include "simd.h"

namespace simdnorm {

/// Steps between two additions to the precise sums. In the worst rows that searches found (two values in turn,
/// so that all roundings go one way) 16 steps break the bound of 6e-7 and 14 come to 5.9e-7; with 12 there is
/// room. (tests/core/accuracy_test.cpp)
inline constexpr std::size_t kBlockSteps = 12;

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

/// A sum of sums over blocks, in more precision than theirs. It begins at 0 where it is written as {}; there are
/// long arrays of them, of which few are used.
template <class T>
class Total;

template <>
class Total<float> {
 public:
  void add(float value) { sum_ += value; }
  double value() const { return sum_; }

 private:
  double sum_;
};

template <>
class Total<double> {
 public:
  void add(double value) {
    const TwoSum<double> next(sum_, value);
    sum_ = next.sum;
    rest_ += next.rest;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_, rest_;
};

/// The same, lane by lane.
template <class T>
class VectorTotal;

template <>
class VectorTotal<float> {
 public:
  void add(f32x4 values) { sum_ = sum_ + (widen_low(values) + widen_high(values)); }
  void add_to(Total<double>& total) const { total.add(sum_lanes(sum_)); }

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
  void add_to(Total<double>& total) const {
    total.add(first_lane(sum_));
    total.add(last_lane(sum_));
    total.add(sum_lanes(rest_));
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
SIMDNORM_ONCE Sums sums_of(const PairTotal<T>& totals) {
  Total<double> d = {}, dd = {};
  totals.d.add_to(d);
  totals.dd.add_to(dd);
  return {d.value(), dd.value()};
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
