#include "rows.h"

#include <algorithm>

#include "affine.h"
#include "judge.h"
#include "simd.h"
#include "sums.h"
#include "sweep.h"

namespace simdnorm {
namespace {

constexpr std::size_t kVector = kLanes<float>;
/// As many values are taken to be in the caches.
constexpr std::size_t kNearValues = std::size_t{1} << 19;
/// Rows in the caches that are worked on together. What makes a row's statistics are many steps that wait for each
/// other, but not for those of another row; and to write is bound by loads and stores, of which they share some. Beyond
/// the caches several streams at once cost more than that gains. tests/bench/kernels.mjs, layerNorm [128, 768]: pivots
/// and statistics of several rows in the lanes of vectors save 8% of the time.
constexpr std::size_t kNearRows = 4;

/// What a row is normalized by, in all lanes.
struct RowFactors {
  f32x4 mean, low, inv_std;

  explicit RowFactors(const Factors<float>& factors)
      : mean(f32x4::splat(factors.mean)),
        low(f32x4::splat(factors.low)),
        inv_std(f32x4::splat(factors.inv_std)) {}

  template <bool kCentered, bool kLow>
  f32x4 apply(f32x4 x, f32x4 scale, f32x4 bias) const {
    if (kCentered) x = x - mean;
    if (kLow) x = x - low;
    const f32x4 scaled = x * inv_std * scale;
    return kCentered ? scaled + bias : scaled;
  }
};

/// Where a row is, and where it goes.
struct Place {
  const float *x, *scale, *bias;
  float* y;
};

/// Writes a row, and makes the sums of the next one, both up to the last whole step; returns how many values that is.
/// To read is bound by adding, to write by loading and by the memory's other direction: beyond the caches the two side
/// by side take less time than one after the other.
template <bool kCentered, bool kLow, class Term>
SIMDNORM_ONCE std::size_t write_and_sweep(const Factors<float>& row, Place at, const float* next,
                                          std::size_t count, Term term, typename Term::BlockTotal& total) {
  const RowFactors factors(row);
  const auto write = [&](std::size_t i) {
    const f32x4 bias = kCentered ? load(at.bias + i) : f32x4::splat(0);
    store(at.y + i, factors.apply<kCentered, kLow>(load(at.x + i), load(at.scale + i), bias));
  };
  const std::size_t whole = count / kStep<float> * kStep<float>;
  sweep_beside<false>(next, whole, f32x4::splat(0), term, total, [&] {
    write(0);
    write(kVector);
    write(2 * kVector);
    write(3 * kVector);
    at.x += 4 * kVector;
    at.y += 4 * kVector;
    at.scale += 4 * kVector;
    if (kCentered) at.bias += 4 * kVector;
  });
  return whole;
}

/// What a row is normalized by.
struct Row {
  Factors<float> factors;
  /// Whether something would over- or underflow on the way, so that the statistic is taken instead of the factors.
  bool is_wide = false;
  Statistic statistic;
};

/// Writes kNearRows rows next to each other, up to the last whole vector; returns how many values of each that is.
template <bool kCentered, bool kLow>
std::size_t write_near_rows(const Row (&rows)[kNearRows], Place at, std::size_t cols) {
  const RowFactors first(rows[0].factors), second(rows[1].factors), third(rows[2].factors),
      fourth(rows[3].factors);
  for (std::size_t left = cols / kVector; left > 0; --left) {
    const f32x4 scale = load(at.scale), bias = kCentered ? load(at.bias) : f32x4::splat(0);
    // One place for all rows: for one each V8 has too few registers.
    const float* x = at.x;
    float* y = at.y;
    const auto write = [&](const RowFactors& row) {
      store(y, row.apply<kCentered, kLow>(load(x), scale, bias));
      x += cols;
      y += cols;
    };
    write(first);
    write(second);
    write(third);
    write(fourth);
    at.x += kVector;
    at.y += kVector;
    at.scale += kVector;
    if (kCentered) at.bias += kVector;
  }
  return cols / kVector * kVector;
}

/// The sums of a row, of deviations from a pivot and of their squares, or of squares alone.
class RowSums {
 public:
  RowSums() = default;
  RowSums(Kind kind, const float* x, std::size_t count, float pivot)
      : x_(x), count_(count), squares_(kind == Kind::kRootMeanSquare), pivot_(pivot) {}

  /// Of the first values, while another row is written; returns how many.
  std::size_t sweep_beside(const Factors<float>& row, const Place& at) {
    if (squares_) return write_and_sweep<false, false>(row, at, x_, count_, SquareTerm<float>{}, total_.dd);
    if (pivot_ == 0 && row.low == 0) {
      return write_and_sweep<true, false>(row, at, x_, count_, PairTerm<float, false>{}, total_);
    }
    return write_and_sweep<true, true>(row, at, x_, count_, PairTerm<float, true>{f32x4::splat(pivot_)},
                                       total_);
  }

  /// Of those after these.
  void sweep_from(std::size_t done) {
    if (squares_) return sweep(x_ + done, count_ - done, f32x4::splat(0), SquareTerm<float>{}, total_.dd);
    sweep_pairs(x_ + done, count_ - done, pivot_, total_);
  }

  /// What the row is normalized by; it is number `place`.
  SIMDNORM_ONCE Row row(Kind kind, const Arguments<float>& arguments, std::size_t place) const {
    const Fold fold = squares_ ? Fold::kSquares : Fold::kMoments;
    const Moments moments = moments_of_row(x_, count_, fold, sums_of(total_), pivot_);
    const Statistic statistic = has_statistics(arguments) ? finish(kind, moments, arguments, place)
                                                          : statistic_of(moments, arguments.epsilon);
    return {Factors<float>(statistic), needs_wide<float>(statistic), statistic};
  }

  /// The factors of two rows side by side, with the same bits as row() has. False where it takes more than these sums: then
  /// there are none.
  SIMDNORM_ONCE static bool make_factors(const RowSums& a, const RowSums& b, double epsilon,
                                         Factors<float>& of_a, Factors<float>& of_b) {
    const f64x2 count = f64x2::splat(static_cast<double>(a.count_));
    // Where squares alone are summed the other sums are 0, as the pivots are.
    const f64x2 d = VectorTotal<float>::values(a.total_.d, b.total_.d);
    const f64x2 dd = VectorTotal<float>::values(a.total_.dd, b.total_.dd);
    const AboutPivot<f64x2> about(d, dd, count, f64x2::of(a.pivot_, b.pivot_));
    if (!are_in_range<float>(dd, count) || !about.is_accurate()) return false;
    const f64x2 inv_std = f64x2::splat(1) / sqrt(about.m2 / count + f64x2::splat(epsilon));
    const f32x4 means_and_inv_stds = narrow(about.mean.sum, inv_std);
    const f64x2 low = (about.mean.sum - widen_low(means_and_inv_stds)) + about.mean.rest;
    const f64x2 visible = zero_where_at_most(abs(low) * inv_std, f64x2::splat(kVisibleLow<float>), low);
    float rounded[4], lows[4];
    store(rounded, means_and_inv_stds);
    store(lows, narrow(visible, visible));
    of_a.mean = rounded[0];
    of_b.mean = rounded[1];
    of_a.low = lows[0];
    of_b.low = lows[1];
    of_a.inv_std = rounded[2];
    of_b.inv_std = rounded[3];
    return true;
  }

 private:
  const float* x_;
  std::size_t count_;
  bool squares_;
  float pivot_ = 0;
  PairTotal<float> total_ = {};
};

/// Whether factors are all that is wanted of rows, and can't over- or underflow where sums don't.
bool takes_factors_alone(const Arguments<float>& arguments) {
  return !has_statistics(arguments) && arguments.epsilon >= 0 && arguments.epsilon <= 1;
}

/// The place of a row.
Place place_of(const Arguments<float>& arguments, const float* x, std::size_t begin) {
  return {x, arguments.scale, arguments.bias, arguments.y + begin};
}

void write_row(const Row& row, const Place& at, std::size_t from, std::size_t cols) {
  if (from == cols) return;
  const float* const scale = at.scale + from;
  const float* const bias = at.bias ? at.bias + from : nullptr;
  if (row.is_wide) {
    apply_row(row.statistic, scale, bias, at.x + from, at.y + from, cols - from);
  } else {
    apply_row(row.factors, scale, bias, at.x + from, at.y + from, cols - from);
  }
}

/// kNearRows rows.
void normalize_together(std::size_t first, std::size_t cols, Kind kind, const Arguments<float>& arguments) {
  const float* const x = with_residual(arguments, first * cols, kNearRows * cols);
  float pivots[kNearRows] = {};
  if (kind == Kind::kDeviation) store(pivots, choose_pivots(x, cols));
  RowSums sums[kNearRows];
  for (std::size_t i = 0; i < kNearRows; ++i) {
    sums[i] = RowSums(kind, x + i * cols, cols, pivots[i]);
    sums[i].sweep_from(0);
  }
  const bool factors_alone = takes_factors_alone(arguments);
  Row rows[kNearRows];
  for (std::size_t i = 0; i < kNearRows; i += 2) {
    Row &a = rows[i], &b = rows[i + 1];
    if (!factors_alone ||
        !RowSums::make_factors(sums[i], sums[i + 1], arguments.epsilon, a.factors, b.factors)) {
      a = sums[i].row(kind, arguments, first + i);
      b = sums[i + 1].row(kind, arguments, first + i + 1);
    }
  }
  bool any_low = false, any_wide = false;
  for (const Row& row : rows) {
    any_low = any_low || row.factors.low != 0;
    any_wide = any_wide || row.is_wide;
  }
  std::size_t done = 0;
  if (!any_wide) {
    const Place at = place_of(arguments, x, first * cols);
    if (kind == Kind::kRootMeanSquare) {
      done = write_near_rows<false, false>(rows, at, cols);
    } else if (any_low) {
      done = write_near_rows<true, true>(rows, at, cols);
    } else {
      done = write_near_rows<true, false>(rows, at, cols);
    }
  }
  for (std::size_t i = 0; i < kNearRows; ++i) {
    write_row(rows[i], place_of(arguments, x + i * cols, (first + i) * cols), done, cols);
  }
}

/// The rows from `first` to `end`.
void normalize_one_by_one(std::size_t first, std::size_t end, std::size_t cols, Kind kind,
                          const Arguments<float>& arguments) {
  const auto sums_of_row = [&](const float* x) {
    return RowSums(kind, x, cols, kind == Kind::kDeviation ? choose_pivot(x, cols) : 0);
  };
  const float* x = with_residual(arguments, first * cols, cols);
  RowSums sums = sums_of_row(x);
  sums.sweep_from(0);
  for (std::size_t r = first; r < end; ++r) {
    const Row row = sums.row(kind, arguments, r);
    const Place at = place_of(arguments, x, r * cols);
    std::size_t done = 0;
    if (r + 1 < end) {
      x = with_residual(arguments, (r + 1) * cols, cols);
      sums = sums_of_row(x);
      if (!row.is_wide) done = sums.sweep_beside(row.factors, at);
      sums.sweep_from(done);
    }
    write_row(row, at, done, cols);
  }
}

}  // namespace

bool are_rows_with_parameters(const View& view, Kind kind, const Arguments<float>& arguments) {
  const bool has_its_parameters = arguments.scale && ((kind == Kind::kDeviation && arguments.bias) ||
                                                      (kind == Kind::kRootMeanSquare && !arguments.bias));
  // A single value has one scale and bias, which are rounded otherwise.
  return has_its_parameters && view.rows == 1 && view.inner == 1 && view.channels == view.cols &&
         view.cols > 1;
}

void normalize_rows(const View& view, Kind kind, const Arguments<float>& arguments) {
  const std::size_t rows = view.outer * view.groups, cols = view.cols;
  std::size_t r = 0;
  if (rows * cols <= kNearValues) {
    for (; r + kNearRows <= rows; r += kNearRows) normalize_together(r, cols, kind, arguments);
  }
  if (r < rows) normalize_one_by_one(r, rows, cols, kind, arguments);
}

}  // namespace simdnorm
