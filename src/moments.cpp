#include "moments.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd.h"

// Sums of d = x - pivot and of d * d give mean = pivot + sum(d) / n and m2 = sum(d * d) - sum(d)^2 / n, which
// is accurate as long as the pivot is near the mean, measured in deviations. So a group's first values choose
// a pivot (0 where the mean is near 0: one subtraction less), one sweep makes both sums, and the result
// itself tells whether the pivot was good. If not, the mean just found is the pivot of a second sweep (the
// corrected two-pass algorithm), and what even that cannot do is done in double: squares that overflow or
// underflow.
//
// Float sums lose a bit for every doubling of their length. So they run over a short block only and are then
// added to sums in double.

namespace simdnorm {
namespace {

constexpr std::size_t kLanes = f32x4::kLanes;
/// A step: eight vectors, summed as a tree. More loads than eight in one basic block make V8 spill registers.
constexpr std::size_t kStep = 8 * kLanes;
/// Steps between two additions to the double sums. In the worst rows that searches found (two values in turn,
/// so that all roundings go one way) 16 steps break the bound of 6e-7 and 14 come to 5.9e-7; with 12 there is
/// room. (tests/core/accuracy_test.cpp)
constexpr std::size_t kBlockSteps = 12;
/// How many values choose the pivot.
constexpr std::size_t kSample = 16;
/// (mean - pivot)^2 / variance up to which sums about a pivot are accurate enough: the error grows with its
/// root.
constexpr double kFarPivot = 0.3;
/// A sample whose mean^2 / variance is below this takes 0 as its pivot. Lower than kFarPivot, because 16
/// values only estimate the ratio, and a wrong guess costs a sweep.
constexpr float kNearZero = 0.2f;
/// Below this mean of squares, squares of floats lose bits to underflow.
constexpr double kTinySquare = 1e-30;

struct Sums {
  double d, dd;
};

enum class Verdict { kGood, kFar, kOutOfRange };

/// Moments from sums about a pivot, and whether they can be relied on.
Verdict judge(const Sums& sums, double count, float pivot, Moments& moments) {
  const double shift = sums.d / count;
  const double m2 = sums.dd - sums.d * shift;
  moments = {count, pivot + shift, m2};
  const double square = sums.dd / count;
  // Negated, so that NaN is out of range as well.
  if (!(square >= kTinySquare && square <= std::numeric_limits<float>::max())) return Verdict::kOutOfRange;
  return shift * shift * count <= kFarPivot * m2 ? Verdict::kGood : Verdict::kFar;
}

struct VectorSums {
  f32x4 d, dd;
};

VectorSums operator+(VectorSums a, VectorSums b) { return {a.d + b.d, a.dd + b.dd}; }

/// The sum of at(first) to at(first + kCount - 1) as a balanced tree.
template <std::size_t kCount, class At>
VectorSums tree(const At& at, std::size_t first) {
  if constexpr (kCount == 1) {
    return at(first);
  } else {
    return tree<kCount / 2>(at, first) + tree<kCount / 2>(at, first + kCount / 2);
  }
}

/// rows x cols values, rows `stride` apart, in double: for those that need it.
Moments wide_moments(const float* x, std::size_t rows, std::size_t cols, std::size_t stride) {
  const double count = static_cast<double>(rows) * static_cast<double>(cols);
  const auto each_row = [&](auto body) {
    for (std::size_t r = 0; r < rows; ++r) body(x + r * stride);
  };
  // Equal values, and rows of zeros above all, are the usual reason to be here.
  const float first = *x;
  bool equal = std::isfinite(first);
  for (std::size_t r = 0; r < rows && equal; ++r) {
    const float* row = x + r * stride;
    std::size_t unequal = 0;
    for (std::size_t c = 0; c < cols; ++c) unequal += row[c] != first;
    equal = unequal == 0;
  }
  if (equal) return {count, first, 0};

  const auto sum = [&](auto term) {
    f64x2 low = f64x2::splat(0), high = f64x2::splat(0);
    each_row([&](const float* row) {
      std::size_t c = 0;
      for (; c + kLanes <= cols; c += kLanes) {
        const f32x4 values = load(row + c);
        low = low + term(widen_low(values));
        high = high + term(widen_high(values));
      }
      for (; c < cols; ++c) {
        const double value = row[c];
        low = low + term(f64x2::splat(value)) * f64x2::splat(0.5);
      }
    });
    return sum_lanes(low + high);
  };
  const double rough_mean = sum([](f64x2 v) { return v; }) / count;
  if (!std::isfinite(rough_mean)) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    return {count, kNaN, kNaN};
  }
  const f64x2 rough = f64x2::splat(rough_mean);
  const double d = sum([&](f64x2 v) { return v - rough; });
  const double dd = sum([&](f64x2 v) { return (v - rough) * (v - rough); });
  return {count, rough_mean + d / count, std::max(dd - d * d / count, 0.0)};
}

// ---------------------------------------------------------------- a group of one run: along memory

/// The pivot that a group's first values suggest. They are taken about the very first one, so that a group of
/// equal values gets exactly that value.
float choose_pivot(const float* x, std::size_t count) {
  const std::size_t sample = std::min(count, kSample);
  const f32x4 first = f32x4::splat(*x);
  f32x4 sum = f32x4::splat(0), squares = f32x4::splat(0);
  for (std::size_t i = 0; i < sample; i += kLanes) {
    const f32x4 values = i + kLanes <= sample ? load(x + i) : load_partial(x + i, sample - i, first);
    const f32x4 e = values - first;
    sum = sum + e;
    squares = squares + e * e;
  }
  const float n = static_cast<float>(sample);
  const float shift = sum_lanes(sum) / n;
  const float variance = sum_lanes(squares) / n - shift * shift;
  const float mean = *x + shift;
  return mean * mean <= kNearZero * variance ? 0 : mean;
}

/// Adds the sums of d and d * d over a run to `sums`. With a pivot of 0 both kinds give the same bits.
template <bool kPivoted>
void sweep_run(const float* x, std::size_t count, float pivot_value, Sums& sums) {
  const f32x4 pivot = f32x4::splat(pivot_value);
  const auto term = [&](f32x4 values) {
    const f32x4 d = kPivoted ? values - pivot : values;
    return VectorSums{d, d * d};
  };
  const auto at = [&](std::size_t vector) { return term(load(x + vector * kLanes)); };
  f64x2 total_d = f64x2::splat(0), total_dd = f64x2::splat(0);
  while (count > 0) {
    const std::size_t steps = std::min(count / kStep, kBlockSteps);
    count -= steps * kStep;
    VectorSums even = {f32x4::splat(0), f32x4::splat(0)}, odd = even;
    for (std::size_t step = 0; step < steps; ++step, x += kStep) {
      even = even + tree<4>(at, 0);
      odd = odd + tree<4>(at, 4);
    }
    // What is left after the last whole step has sums of its own: added to long ones, it would break the
    // bound.
    if (steps == 0) {
      for (; count >= 2 * kLanes; count -= 2 * kLanes, x += 2 * kLanes) {
        even = even + at(0);
        odd = odd + at(1);
      }
      if (count >= kLanes) {
        even = even + at(0);
        count -= kLanes;
        x += kLanes;
      }
      if (count > 0) odd = odd + term(load_partial(x, count, pivot));
      count = 0;
    }
    const auto [d, dd] = even + odd;
    total_d = total_d + (widen_low(d) + widen_high(d));
    total_dd = total_dd + (widen_low(dd) + widen_high(dd));
  }
  sums.d += sum_lanes(total_d);
  sums.dd += sum_lanes(total_dd);
}

void sweep_run(const float* x, std::size_t count, float pivot, Sums& sums) {
  if (pivot == 0) {
    sweep_run<false>(x, count, pivot, sums);
  } else {
    sweep_run<true>(x, count, pivot, sums);
  }
}

Moments row_moments(const float* x, std::size_t count) {
  float pivot = choose_pivot(x, count);
  Moments moments;
  for (int sweep = 0; sweep < 2; ++sweep) {
    Sums sums = {};
    sweep_run(x, count, pivot, sums);
    const Verdict verdict = judge(sums, static_cast<double>(count), pivot, moments);
    if (verdict == Verdict::kGood) return moments;
    if (verdict == Verdict::kOutOfRange) break;
    pivot = static_cast<float>(moments.mean);
  }
  return wide_moments(x, 1, count, 0);
}

// ---------------------------------------------------------------- groups of several runs: in memory order

/// Sweeps groups whose pivots stand, and those that need it once more. `sweep(sums, settled)` makes the sums
/// of at least the groups that are not settled, `wide(i)` the moments of one.
template <class Sweep, class Wide>
void settle(std::size_t groups, double count, float* pivots, Sweep sweep, Wide wide, Moments* out) {
  Sums sums[kTile];
  bool settled[kTile] = {};
  for (int sweeps = 0; sweeps < 2; ++sweeps) {
    sweep(sums, settled);
    bool all_settled = true;
    for (std::size_t i = 0; i < groups; ++i) {
      if (settled[i]) continue;
      const Verdict verdict = judge(sums[i], count, pivots[i], out[i]);
      if (verdict == Verdict::kFar && sweeps == 0) {
        pivots[i] = static_cast<float>(out[i].mean);
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
void run_moments(const float* x, std::size_t rows, std::size_t groups, std::size_t cols, std::size_t stride,
                 Moments* out) {
  float pivots[kTile];
  for (std::size_t i = 0; i < groups; ++i) pivots[i] = choose_pivot(x + i * cols, cols);
  const auto sweep = [&](Sums* sums, const bool* settled) {
    std::fill_n(sums, groups, Sums{});
    for (std::size_t r = 0; r < rows; ++r) {
      const float* run = x + r * stride;
      for (std::size_t i = 0; i < groups; ++i, run += cols) {
        if (!settled[i]) sweep_run(run, cols, pivots[i], sums[i]);
      }
    }
  };
  const auto wide = [&](std::size_t i) { return wide_moments(x + i * cols, rows, cols, stride); };
  settle(groups, static_cast<double>(rows) * static_cast<double>(cols), pivots, sweep, wide, out);
}

// ---------------------------------------------------------------- columns: vectors across groups

/// Room for a tile of columns, rounded up to whole vectors.
constexpr std::size_t kTileRoom = kTile + kLanes;
/// Rows of a column that are summed in float: trees of eight, and as many additions as along memory.
constexpr std::size_t kTreeRows = 8;
constexpr std::size_t kBlockRows = kTreeRows * kBlockSteps;

/// One column whose sample misleads takes its whole tile through a second sweep. With 16 values that happened
/// to most tiles of 64 normally distributed columns; with 64 values it is rare.
constexpr std::size_t kColumnSample = 64;

/// Calls body(column, load) for each vector of columns, where load(p) reads p + column or what is left of it.
template <class Body>
void each_vector(std::size_t columns, const float* fill, Body body) {
  std::size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) body(c, [c](const float* p) { return load(p + c); });
  if (const std::size_t left = columns - c) {
    body(c, [c, left, fill](const float* p) { return load_partial(p + c, left, load(fill + c)); });
  }
}

void choose_column_pivots(const float* x, std::size_t rows, std::size_t columns, std::size_t stride,
                          float* pivots) {
  const std::size_t sample = std::min(rows, std::clamp(rows / 8, kSample, kColumnSample));
  const float n = static_cast<float>(sample);
  const float zeros[kTileRoom] = {};
  each_vector(columns, zeros, [&](std::size_t c, auto load_at) {
    const f32x4 first = load_at(x);
    f32x4 sum = f32x4::splat(0), squares = f32x4::splat(0);
    for (std::size_t r = 0; r < sample; ++r) {
      const f32x4 e = load_at(x + r * stride) - first;
      sum = sum + e;
      squares = squares + e * e;
    }
    float sums[kLanes], square_sums[kLanes], firsts[kLanes];
    store(sums, sum);
    store(square_sums, squares);
    store(firsts, first);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float shift = sums[lane] / n;
      const float variance = square_sums[lane] / n - shift * shift;
      const float mean = firsts[lane] + shift;
      pivots[c + lane] = mean * mean <= kNearZero * variance ? 0 : mean;
    }
  });
}

/// Adds the tree of kRows rows of every column to its float sums.
template <std::size_t kRows, bool kPivoted>
void add_rows(const float* x, std::size_t columns, std::size_t stride, const float* pivots, float* d,
              float* dd) {
  each_vector(columns, pivots, [&](std::size_t c, auto load_at) {
    const f32x4 pivot = load(pivots + c);
    const auto at = [&](std::size_t row) {
      const f32x4 values = load_at(x + row * stride);
      const f32x4 a = kPivoted ? values - pivot : values;
      return VectorSums{a, a * a};
    };
    const VectorSums rows = tree<kRows>(at, 0);
    store(d + c, load(d + c) + rows.d);
    store(dd + c, load(dd + c) + rows.dd);
  });
}

template <bool kPivoted>
void sweep_columns(const float* x, std::size_t rows, std::size_t columns, std::size_t stride,
                   const float* pivots, Sums* sums) {
  float d[kTileRoom], dd[kTileRoom];
  std::fill_n(sums, columns, Sums{});
  while (rows > 0) {
    std::size_t block = std::min(rows, kBlockRows);
    rows -= block;
    std::fill_n(d, columns + kLanes, 0.0f);
    std::fill_n(dd, columns + kLanes, 0.0f);
    const auto add = [&]<std::size_t kRows>() {
      add_rows<kRows, kPivoted>(x, columns, stride, pivots, d, dd);
      x += kRows * stride;
      block -= kRows;
    };
    while (block >= kTreeRows) add.template operator()<kTreeRows>();
    if (block >= 4) add.template operator()<4>();
    if (block >= 2) add.template operator()<2>();
    if (block >= 1) add.template operator()<1>();
    for (std::size_t c = 0; c < columns; ++c) {
      sums[c].d += d[c];
      sums[c].dd += dd[c];
    }
  }
}

void column_moments(const float* x, std::size_t rows, std::size_t columns, std::size_t stride, Moments* out) {
  float pivots[kTileRoom];
  choose_column_pivots(x, rows, columns, stride, pivots);
  // Neighbours of a column that needs a second sweep are swept with it; theirs come out as before.
  const auto sweep = [&](Sums* sums, const bool*) {
    const bool pivoted = std::any_of(pivots, pivots + columns, [](float pivot) { return pivot != 0; });
    if (pivoted) {
      sweep_columns<true>(x, rows, columns, stride, pivots, sums);
    } else {
      sweep_columns<false>(x, rows, columns, stride, pivots, sums);
    }
  };
  const auto wide = [&](std::size_t i) { return wide_moments(x + i, rows, 1, stride); };
  settle(columns, static_cast<double>(rows), pivots, sweep, wide, out);
}

/// As run_moments, for short runs: the moments of their columns, merged from left to right.
void short_run_moments(const float* x, std::size_t rows, std::size_t groups, std::size_t cols,
                       std::size_t stride, Moments* out) {
  Moments columns[kTile];
  const std::size_t groups_at_a_time = kTile / cols;
  for (std::size_t done = 0; done < groups; done += groups_at_a_time) {
    const std::size_t now = std::min(groups_at_a_time, groups - done);
    column_moments(x + done * cols, rows, now * cols, stride, columns);
    for (std::size_t i = 0; i < now; ++i) {
      out[done + i] = columns[i * cols];
      for (std::size_t c = 1; c < cols; ++c) out[done + i] = merge(out[done + i], columns[i * cols + c]);
    }
  }
}

}  // namespace

Moments merge(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count;
  const double delta = b.mean - a.mean;
  return {count, a.mean + delta * (b.count / count),
          a.m2 + b.m2 + delta * delta * (a.count * b.count / count)};
}

void group_moments(const float* x, const View& view, std::size_t outer, std::size_t first, std::size_t groups,
                   Moments* out) {
  const auto [_, rows, all_groups, cols, channels, inner] = view;
  const std::size_t stride = all_groups * cols;
  x += outer * rows * stride + first * cols;
  switch (layout_of(view)) {
    case Layout::kRows:
      for (std::size_t i = 0; i < groups; ++i) out[i] = row_moments(x + i * cols, cols);
      return;
    case Layout::kRuns:
      return run_moments(x, rows, groups, cols, stride, out);
    case Layout::kColumns:
      return short_run_moments(x, rows, groups, cols, stride, out);
  }
}

}  // namespace simdnorm
