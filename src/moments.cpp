#include "moments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "judge.h"
#include "simd.h"
#include "sums.h"
#include "sweep.h"

// Sums of d = x - pivot and of d * d give mean = pivot + sum(d) / n and m2 = sum(d * d) - sum(d)^2 / n, which
// is accurate as long as the pivot is near the mean, measured in deviations. So a group's first values choose
// a pivot (0 where the mean is near 0: one subtraction less), one sweep makes both sums, and the result
// itself tells whether the pivot was good. If not, the mean just found is the pivot of a second sweep (the
// corrected two-pass algorithm), and what even that cannot do is done in double, for doubles after scaling
// them: squares that overflow or underflow.

namespace simdnorm {
namespace {

/// How many values choose the pivot. The mean of 32 normally distributed ones is too far from that of all in 3% of
/// the rows.
constexpr std::size_t kSample = 32;
/// A sample whose mean^2 / variance is below this takes 0 as its pivot. Lower than kFarPivot, because a sample
/// only estimates the ratio, and a wrong guess costs a sweep.
constexpr double kNearZero = 0.1;
/// What doubles are measured in where their squares would overflow, and its inverse where they would underflow.
constexpr double kLargeUnit = 0x1p600;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---------------------------------------------------------------- values out of range

/// NaN where one of them is, unlike std::max.
template <class T>
T larger(T a, T b) {
  return a != a || b <= a ? a : b;
}

/// NaN where a value is NaN.
template <class T>
SIMDNORM_ONCE T largest_magnitude(const T* x, std::size_t count) {
  constexpr std::size_t kVector = kLanes<T>;
  Vector<T> largest = Vector<T>::splat(0);
  for (; count >= kVector; count -= kVector, x += kVector) largest = max(largest, abs(load(x)));
  if (count > 0) largest = max(largest, abs(load_partial(x, count, Vector<T>::splat(0))));
  T lanes[kVector];
  store(lanes, largest);
  T result = 0;
  for (const T lane : lanes) result = larger(result, lane);
  return result;
}

/// rows x cols values, rows `stride` apart.
template <class T>
struct Block {
  const T* x;
  std::size_t rows, cols, stride;

  bool all_equal() const {
    for (std::size_t r = 0; r < rows; ++r) {
      const T* row = x + r * stride;
      std::size_t unequal = 0;
      for (std::size_t c = 0; c < cols; ++c) unequal += row[c] != *x;
      if (unequal > 0) return false;
    }
    return true;
  }
};

/// The same of any type, read one by one as doubles.
struct AnyBlock {
  template <class T>
  explicit AnyBlock(const Block<T>& block)
      : at([](const void* x, std::size_t i) { return double{static_cast<const T*>(x)[i]}; }),
        x(block.x),
        rows(block.rows),
        cols(block.cols),
        stride(block.stride),
        may_be_scaled(std::is_same_v<T, double>) {}

  double (*at)(const void*, std::size_t);
  const void* x;
  std::size_t rows, cols, stride;
  bool may_be_scaled;

  double count() const { return static_cast<double>(rows) * static_cast<double>(cols); }

  /// Calls body(values, count) for pieces of all values, in some unit, as long as a block.
  template <class Body>
  void each_piece(double unit, Body body) const {
    constexpr std::size_t kRoom = kBlockSteps * kStep<double>;
    const double per_unit = 1 / unit;
    double values[kRoom];
    std::size_t size = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) {
        values[size++] = at(x, r * stride + c) * per_unit;
        if (size < kRoom) continue;
        body(values, size);
        size = 0;
      }
    }
    if (size > 0) body(values, size);
  }

  /// The power of two to measure values in, so that sums of their squares neither overflow nor lose bits. (Those
  /// of floats don't, as doubles.)
  double unit_for(double largest) const {
    if (may_be_scaled && largest > 0x1p400) return kLargeUnit;
    if (may_be_scaled && largest < 0x1p-400) return 1 / kLargeUnit;
    return 1;
  }
};

SIMDNORM_ONCE Moments any_wide_moments(const AnyBlock& block, Fold fold) {
  const double count = block.count();
  double largest = 0;
  block.each_piece(1, [&](const double* values, std::size_t size) {
    largest = larger(largest, largest_magnitude(values, size));
  });
  if (!std::isfinite(largest)) return {count, kNaN, kNaN, kNaN, 1, 0};
  const double unit = block.unit_for(largest);
  if (fold == Fold::kLargest) return {count, 0, 0, largest / unit, unit, 0};
  Moments moments;
  double pivot = fold == Fold::kMoments ? block.at(block.x, 0) / unit : 0;
  for (int sweeps = 0; sweeps < 2; ++sweeps) {
    PairTotal<double> sums = {};
    block.each_piece(unit, [&](const double* values, std::size_t size) {
      if (fold == Fold::kMagnitudes) {
        sweep(values, size, f64x2::splat(0), MagnitudeTerm<double>{}, sums.dd);
      } else {
        sweep_pairs(values, size, pivot, sums);
      }
    });
    const auto [d, dd] = sums_of(sums);
    if (fold != Fold::kMoments) return {count, 0, 0, dd, unit, 0};
    const TwoSum<double> mean(pivot, d / count);
    moments = {count, mean.sum, mean.rest, std::max(dd - d * (d / count), 0.0), unit, 0};
    pivot = mean.sum;
  }
  return moments;
}

/// For groups that need it: in double, and measured in units that leave the squares room.
template <class T>
SIMDNORM_ONCE Moments wide_moments(const Block<T>& block, Fold fold) {
  const AnyBlock any(block);
  // Equal values, and rows of zeros above all, are the usual reason to be here.
  const double first = *block.x;
  const bool is_simple = fold == Fold::kMoments ? std::isfinite(first) : first == 0;
  if (is_simple && block.all_equal()) {
    const double unit = any.unit_for(std::fabs(first));
    if (fold != Fold::kMoments) return {any.count(), 0, 0, 0, unit, 0};
    // With a low part of +0 the mean of -0 would be +0.
    return {any.count(), first / unit, -0.0, 0, unit, 0};
  }
  return any_wide_moments(any, fold);
}

// ---------------------------------------------------------------- a group of one run: along memory

/// The pivots that samples of n values suggest, from the sums of deviations from their first ones and of the squares.
template <class V, class T>
V pivots_of(V first, V sum, V squares, T n) {
  const V count = splat<V>(n);
  const V shift = sum / count;
  const V variance = squares / count - shift * shift;
  const V mean = first + shift;
  return zero_where_at_most(mean * mean, splat<V>(static_cast<T>(kNearZero)) * variance, mean);
}

/// A row's first values.
template <class T>
struct Sample {
  Vector<T> first;
  Vector<T> sum = Vector<T>::splat(0), squares = Vector<T>::splat(0);

  Sample(const T* x, std::size_t count) : first(Vector<T>::splat(*x)) {
    constexpr std::size_t kVector = kLanes<T>;
    for (; count >= kVector; count -= kVector, x += kVector) add(load(x));
    if (count > 0) add(load_partial(x, count, first));
  }
  void add(Vector<T> values) {
    const Vector<T> e = values - first;
    sum = sum + e;
    squares = squares + e * e;
  }
};

}  // namespace

template <class T>
SIMDNORM_ONCE T choose_pivot(const T* x, std::size_t count) {
  const std::size_t size = std::min(count, kSample);
  const Sample<T> sample(x, size);
  return pivots_of(*x, sum_lanes(sample.sum), sum_lanes(sample.squares), static_cast<T>(size));
}

SIMDNORM_ONCE f32x4 choose_pivots(const float* x, std::size_t count) {
  const std::size_t size = std::min(count, kSample);
  float firsts[4];
  f32x4 sums[4], squares[4];
  for (std::size_t row = 0; row < 4; ++row, x += count) {
    const Sample<float> sample(x, size);
    firsts[row] = *x;
    sums[row] = sample.sum;
    squares[row] = sample.squares;
  }
  return pivots_of(load(firsts), sum_lanes(sums), sum_lanes(squares), static_cast<float>(size));
}

template <class T>
SIMDNORM_ONCE Moments rescued_row(const T* x, std::size_t length, Fold fold, Verdict verdict,
                                  Moments moments) {
  if (verdict == Verdict::kFar) {
    const T pivot = static_cast<T>(moments.mean);
    PairTotal<T> totals = {};
    sweep_pairs(x, length, pivot, totals);
    verdict = judge<T>(fold, sums_of(totals), static_cast<double>(length), pivot, moments);
    if (verdict == Verdict::kGood) return moments;
  }
  return wide_moments(Block<T>{x, 1, length, 0}, fold);
}

namespace {

/// The sum of one term over a row.
template <class T, class Term>
SIMDNORM_ONCE double row_sum(const T* x, std::size_t count, const Term& term) {
  VectorTotal<T> total = {};
  sweep(x, count, Vector<T>::splat(0), term, total);
  return total.value();
}

template <class T>
Moments row_moments(const T* x, std::size_t length, Fold fold) {
  const double count = static_cast<double>(length);
  const Block<T> block = {x, 1, length, 0};
  if (fold == Fold::kMagnitudes) {
    const double sum = row_sum(x, length, MagnitudeTerm<T>{});
    if (sum <= std::numeric_limits<T>::max() && sum >= kTinySquare<T>) return {count, 0, 0, sum, 1, 0};
    return wide_moments(block, fold);
  }
  if (fold == Fold::kLargest) {
    const double largest = largest_magnitude(x, length);
    if (largest <= std::numeric_limits<T>::max() && largest >= kTinySquare<T>)
      return {count, 0, 0, largest, 1, 0};
    return wide_moments(block, fold);
  }
  T pivot = 0;
  PairTotal<T> totals = {};
  if (fold == Fold::kSquares) {
    sweep(x, length, Vector<T>::splat(0), SquareTerm<T>{}, totals.dd);
  } else {
    pivot = choose_pivot(x, length);
    sweep_pairs(x, length, pivot, totals);
  }
  return moments_of_row(x, length, fold, sums_of(totals), pivot);
}

// ---------------------------------------------------------------- groups of several runs: in memory order

/// Sweeps groups whose pivots stand, and those that need it once more. `sweep(settled)` makes the sums
/// of at least the groups that are not settled, sums(i) has them, `wide(i)` makes the moments of one.
template <class T, class Sweep, class SumsOf, class Wide>
void settle(Fold fold, std::size_t groups, double count, T* pivots, Sweep sweep, SumsOf sums, Wide wide,
            Moments* out) {
  bool settled[kTile<T>] = {};
  for (int sweeps = 0; sweeps < 2; ++sweeps) {
    sweep(settled);
    bool all_settled = true;
    for (std::size_t i = 0; i < groups; ++i) {
      if (settled[i]) continue;
      const Verdict verdict = judge<T>(fold, sums(i), count, pivots[i], out[i]);
      if (verdict == Verdict::kFar && sweeps == 0) {
        pivots[i] = static_cast<T>(out[i].mean);
        all_settled = false;
        continue;
      }
      if (verdict != Verdict::kGood) out[i] = wide(i);
      settled[i] = true;
    }
    if (all_settled) return;
  }
}

/// rows runs of `cols` values for each group, `stride` apart; the groups' runs follow each other.
template <class T>
void run_moments(const T* x, std::size_t rows, std::size_t groups, std::size_t cols, std::size_t stride,
                 Fold fold, Moments* out) {
  T pivots[kTile<T>];
  for (std::size_t i = 0; i < groups; ++i) {
    pivots[i] = fold == Fold::kSquares ? 0 : choose_pivot(x + i * cols, cols);
  }
  struct RunTotals {
    Total d, dd;
  };
  RunTotals totals[kTile<T>];
  const auto sweep = [&](const bool* settled) {
    std::fill_n(totals, groups, RunTotals{});
    for (std::size_t r = 0; r < rows; ++r) {
      const T* run = x + r * stride;
      for (std::size_t i = 0; i < groups; ++i, run += cols) {
        if (settled[i]) continue;
        PairTotal<T> total = {};
        sweep_pairs(run, cols, pivots[i], total);
        total.d.add_to(totals[i].d);
        total.dd.add_to(totals[i].dd);
      }
    }
  };
  const auto sums = [&](std::size_t i) { return Sums{totals[i].d.value(), totals[i].dd.value()}; };
  const auto wide = [&](std::size_t i) {
    return wide_moments(Block<T>{x + i * cols, rows, cols, stride}, fold);
  };
  settle(fold, groups, static_cast<double>(rows) * static_cast<double>(cols), pivots, sweep, sums, wide, out);
}

// ---------------------------------------------------------------- columns: vectors across groups

/// Room for a tile of columns, rounded up to whole vectors.
template <class T>
constexpr std::size_t kTileRoom = kTile<T> + kLanes<T>;
/// Rows of a column that are summed at once, as a tree: a step, as along memory.
constexpr std::size_t kTreeRows = 8;

/// One column whose sample misleads takes its whole tile through a second sweep. With 16 values that happened
/// to most tiles of 64 normally distributed columns; with 64 values it is rare.
constexpr std::size_t kColumnSample = 64;

/// Calls body(column, load) for each vector of columns, where load(p) reads p + column or what is left of it.
template <class T, class Body>
void each_vector(std::size_t columns, const T* fill, Body body) {
  std::size_t c = 0;
  for (; c + kLanes<T> <= columns; c += kLanes<T>) body(c, [c](const T* p) { return load(p + c); });
  if (const std::size_t left = columns - c) {
    body(c, [c, left, fill](const T* p) { return load_partial(p + c, left, load(fill + c)); });
  }
}

template <class T>
void choose_column_pivots(const T* x, std::size_t rows, std::size_t columns, std::size_t stride, T* pivots) {
  const std::size_t sample = std::min(rows, std::clamp(rows / 8, kSample, kColumnSample));
  const T n = static_cast<T>(sample);
  const T zeros[kTileRoom<T>] = {};
  each_vector(columns, zeros, [&](std::size_t c, auto load_at) {
    const Vector<T> first = load_at(x);
    Vector<T> sum = Vector<T>::splat(0), squares = Vector<T>::splat(0);
    for (std::size_t r = 0; r < sample; ++r) {
      const Vector<T> e = load_at(x + r * stride) - first;
      sum = sum + e;
      squares = squares + e * e;
    }
    store(pivots + c, pivots_of(first, sum, squares, n));
  });
}

/// Adds the tree of kRows rows of every column to its sums over a block.
template <std::size_t kRows, class T>
SIMDNORM_ONCE void add_rows(const T* x, std::size_t columns, std::size_t stride, const T* pivots, T* d,
                            T* dd) {
  each_vector(columns, pivots, [&](std::size_t c, auto load_at) {
    const PairTerm<T, true> term = {load(pivots + c)};
    const T* from = x;
    const auto at = [&](std::size_t row) { return term(load_at(from + row * stride)); };
    Pair<Vector<T>> rows = {};
    if constexpr (kRows == 1) {
      rows = at(0);
    } else {
      Pair<Vector<T>> first = {};
      for (std::size_t half = 0; half < 2; ++half) {
        first = rows;
        rows = tree<kRows / 2>(at, 0);
        from += kRows / 2 * stride;
      }
      rows = first + rows;
    }
    store(d + c, load(d + c) + rows.d);
    store(dd + c, load(dd + c) + rows.dd);
  });
}

template <class T>
struct ColumnTotals {
  Totals<T, kTileRoom<T>> d, dd;
};

template <class T>
void sweep_columns(const T* x, std::size_t rows, std::size_t columns, std::size_t stride, const T* pivots,
                   ColumnTotals<T>& totals) {
  T d[kTileRoom<T>], dd[kTileRoom<T>];
  const std::size_t room = columns + kLanes<T>;
  totals.d.clear(room);
  totals.dd.clear(room);
  const auto add = [&]<std::size_t kRows>() {
    add_rows<kRows>(x, columns, stride, pivots, d, dd);
    x += kRows * stride;
    rows -= kRows;
  };
  while (rows > 0) {
    const std::size_t trees = std::min(rows / kTreeRows, kBlockSteps);
    std::fill_n(d, room, T{0});
    std::fill_n(dd, room, T{0});
    for (std::size_t t = 0; t < trees; ++t) add.template operator()<kTreeRows>();
    // The rows after the last tree have sums of their own, as along memory.
    if (trees == 0) {
      while (rows > 0) add.template operator()<1>();
    }
    for (std::size_t c = 0; c < columns; c += kLanes<T>) {
      totals.d.add(c, load(d + c));
      totals.dd.add(c, load(dd + c));
    }
  }
}

template <class T>
void column_moments(const T* x, std::size_t rows, std::size_t columns, std::size_t stride, Fold fold,
                    Moments* out) {
  T pivots[kTileRoom<T>];
  if (fold == Fold::kMoments) {
    choose_column_pivots(x, rows, columns, stride, pivots);
  } else {
    std::fill_n(pivots, columns + kLanes<T>, T{0});
  }
  ColumnTotals<T> totals;
  // Neighbours of a column that needs a second sweep are swept with it; theirs come out as before.
  const auto sweep = [&](const bool*) { sweep_columns(x, rows, columns, stride, pivots, totals); };
  const auto sums = [&](std::size_t i) { return Sums{totals.d.value(i), totals.dd.value(i)}; };
  const auto wide = [&](std::size_t i) { return wide_moments(Block<T>{x + i, rows, 1, stride}, fold); };
  settle(fold, columns, static_cast<double>(rows), pivots, sweep, sums, wide, out);
}

/// As run_moments, for short runs: the moments of their columns, merged from left to right.
template <class T>
void short_run_moments(const T* x, std::size_t rows, std::size_t groups, std::size_t cols, std::size_t stride,
                       Fold fold, Moments* out) {
  Moments columns[kTile<T>];
  const std::size_t groups_at_a_time = kTile<T> / cols;
  for (std::size_t done = 0; done < groups; done += groups_at_a_time) {
    const std::size_t now = std::min(groups_at_a_time, groups - done);
    column_moments(x + done * cols, rows, now * cols, stride, fold, columns);
    for (std::size_t i = 0; i < now; ++i) {
      out[done + i] = columns[i * cols];
      for (std::size_t c = 1; c < cols; ++c) out[done + i] = merge(out[done + i], columns[i * cols + c]);
    }
  }
}

/// In terms of a coarser unit.
Moments in_unit(const Moments& moments, double unit) {
  const double ratio = moments.unit / unit;
  return {moments.count, moments.mean * ratio,          moments.low * ratio, moments.m2 * ratio * ratio,
          unit,          moments.m2_low * ratio * ratio};
}

}  // namespace

Moments merge(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  if (a.unit < b.unit) return merge(in_unit(a, b.unit), b);
  if (b.unit < a.unit) return merge(a, in_unit(b, a.unit));
  const double count = a.count + b.count;
  const double delta = (b.mean - a.mean) + (b.low - a.low);
  const TwoSum<double> mean(a.mean, delta * (b.count / count));
  const TwoSum<double> m2(a.m2, b.m2 + delta * delta * (a.count * b.count / count));
  if (!(m2.sum <= std::numeric_limits<double>::max()) && a.unit < kLargeUnit) {
    return merge(in_unit(a, kLargeUnit), in_unit(b, kLargeUnit));
  }
  return {count, mean.sum, mean.rest + a.low, m2.sum, a.unit, a.m2_low + b.m2_low + m2.rest};
}

template <class T>
void group_moments(const T* x, const View& view, Fold fold, std::size_t outer, std::size_t first,
                   std::size_t groups, Moments* out) {
  const auto [_, rows, all_groups, cols, channels, inner] = view;
  const std::size_t stride = all_groups * cols;
  x += outer * rows * stride + first * cols;
  switch (layout_of(view)) {
    case Layout::kRows:
      for (std::size_t i = 0; i < groups; ++i) out[i] = row_moments(x + i * cols, cols, fold);
      return;
    case Layout::kRuns:
      return run_moments(x, rows, groups, cols, stride, fold, out);
    case Layout::kColumns:
      return short_run_moments(x, rows, groups, cols, stride, fold, out);
  }
}

#define SIMDNORM_INSTANTIATE(T)                   \
  template T choose_pivot(const T*, std::size_t); \
  template Moments rescued_row(const T*, std::size_t, Fold, Verdict, Moments);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE
template void group_moments(const float*, const View&, Fold, std::size_t, std::size_t, std::size_t, Moments*);
template void group_moments(const double*, const View&, Fold, std::size_t, std::size_t, std::size_t,
                            Moments*);

}  // namespace simdnorm
