#include "rows.h"

#include <algorithm>

#include "affine.h"
#include "simd.h"
#include "sums.h"
#include "sweep.h"

namespace simdnorm {
namespace {

constexpr std::size_t kVector = kLanes<float>;

/// What a row is normalized with, and where to.
struct Writing {
  float mean, low, inv_std;
  const float *x, *scale, *bias;
  float* y;
};

/// Writes a row, and makes the sums of the next one, both up to the last whole step; returns how many values that is.
/// To read is bound by adding, to write by loading and by the memory's other direction: side by side the two take less
/// time than one after the other, above all beyond the caches.
template <bool kCentered, bool kLow, class Term>
SIMDNORM_ONCE std::size_t write_and_sweep(const Writing& row, const float* next, std::size_t count, Term term,
                                          typename Term::BlockTotal& total) {
  const f32x4 mean = f32x4::splat(row.mean), low = f32x4::splat(row.low);
  const f32x4 inv_std = f32x4::splat(row.inv_std);
  const float *x = row.x, *scale = row.scale, *bias = row.bias;
  float* y = row.y;
  const auto write = [&](std::size_t i) {
    f32x4 d = load(x + i);
    if (kCentered) d = d - mean;
    if (kLow) d = d - low;
    f32x4 result = d * inv_std * load(scale + i);
    if (kCentered) result = result + load(bias + i);
    store(y + i, result);
  };
  const auto at = [&](std::size_t vector) { return term(load(next + vector * kVector)); };
  std::size_t left = count / kStep<float>;
  while (left > 0) {
    const std::size_t steps = std::min(left, kBlockSteps);
    left -= steps;
    typename Term::Value even = {}, odd = {};
    // Half a step at a time, and the sums last: V8 sinks arithmetic to the end of a basic block, but no loads, so that
    // it would keep values in registers that it needs, and spill others.
    for (std::size_t half = 0; half < 2 * steps; ++half) {
      write(0);
      write(kVector);
      write(2 * kVector);
      write(3 * kVector);
      x += 4 * kVector;
      y += 4 * kVector;
      scale += 4 * kVector;
      if (kCentered) bias += 4 * kVector;
      const typename Term::Value sum = even + tree<4>(at, 0);
      even = odd;
      odd = sum;
      next += 4 * kVector;
    }
    total.add(even + odd);
  }
  return count / kStep<float> * kStep<float>;
}

/// The sums of a row, of deviations from a pivot and of their squares, or of squares alone.
class RowSums {
 public:
  RowSums(Kind kind, const float* x, std::size_t count) : kind_(kind), x_(x), count_(count) {
    if (!squares()) pivot_ = choose_pivot(x, count);
  }

  /// Of the first values, while another row is written; returns how many.
  std::size_t sweep_beside(const Writing& row) {
    if (squares()) return write_and_sweep<false, false>(row, x_, count_, SquareTerm<float>{}, total_.dd);
    if (pivot_ == 0 && row.low == 0) {
      return write_and_sweep<true, false>(row, x_, count_, PairTerm<float, false>{}, total_);
    }
    return write_and_sweep<true, true>(row, x_, count_, PairTerm<float, true>{f32x4::splat(pivot_)}, total_);
  }

  /// Of those after these.
  void sweep_from(std::size_t done) {
    if (squares()) return sweep(x_ + done, count_ - done, f32x4::splat(0), SquareTerm<float>{}, total_.dd);
    sweep_pairs(x_ + done, count_ - done, pivot_, total_);
  }

  Moments moments() const {
    return squares() ? squares_of_row(x_, count_, total_.dd) : moments_of_row(x_, count_, pivot_, total_);
  }

 private:
  bool squares() const { return kind_ == Kind::kRootMeanSquare; }

  Kind kind_;
  const float* x_;
  std::size_t count_;
  float pivot_ = 0;
  PairTotal<float> total_ = {};
};

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
  if (rows == 0) return;
  const float *scale = arguments.scale, *bias = arguments.bias;
  const float* x = with_residual(arguments, 0, cols);
  RowSums sums(kind, x, cols);
  sums.sweep_from(0);
  for (std::size_t r = 0; r < rows; ++r) {
    const Statistic statistic = finish(kind, sums.moments(), arguments, r);
    float* const y = arguments.y + r * cols;
    std::size_t done = 0;
    const float* next = nullptr;
    if (r + 1 < rows) {
      next = with_residual(arguments, (r + 1) * cols, cols);
      sums = RowSums(kind, next, cols);
      if (!needs_wide<float>(statistic)) {
        const float mean = static_cast<float>(statistic.mean), low = visible_low(statistic, mean);
        done = sums.sweep_beside({mean, low, static_cast<float>(statistic.inv_std), x, scale, bias, y});
      }
      sums.sweep_from(done);
    }
    apply_row(statistic, scale + done, bias ? bias + done : nullptr, x + done, y + done, cols - done);
    x = next;
  }
}

}  // namespace simdnorm
