#include "normalize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "rows.h"
#include "simd.h"

namespace simdnorm {
namespace {

/// Contiguous groups are worked on in tiles of about this many values, so that what made the statistics is
/// still in the L1 cache when they are applied. tests/bench/kernels.mjs, layerNorm: 2048 to 8192 are equal,
/// 1024 and 16384 slower.
template <class T>
constexpr std::size_t kRowTileValues = 16384 / sizeof(T);
/// Shorter stretches of one scale and bias are spelled out value by value: a vector has no room in them.
constexpr std::size_t kShortStretch = 16;

/// Columns are written in pieces of about so many values. tests/bench/kernels.mjs, batchNormTraining [4096, 256]: 4.2
/// copies, 5.0 from front to back; smaller pieces are slower.
constexpr std::size_t kPieceValues = 65536;

/// Normalizes by nothing.
constexpr Statistic kIdentity = {0, 0, 1, 1};

template <class T>
std::size_t groups_at_a_time(const View& view) {
  switch (layout_of(view)) {
    case Layout::kRows:
      return std::clamp<std::size_t>(kRowTileValues<T> / view.cols, 1, kTile<T>);
    case Layout::kRuns:
      return kTile<T>;
    case Layout::kColumns:
      break;
  }
  return kTile<T> / view.cols;
}

Fold fold_of(Kind kind) {
  switch (kind) {
    case Kind::kDeviation:
      return Fold::kMoments;
    case Kind::kRootMeanSquare:
    case Kind::kNorm2:
      return Fold::kSquares;
    case Kind::kNorm1:
      return Fold::kMagnitudes;
    case Kind::kNormInfinity:
      break;
  }
  return Fold::kLargest;
}

/// Some neighbouring groups of one `outer`.
template <class T>
class Tile {
 public:
  Tile(const View& view, const Arguments<T>& arguments, std::size_t outer, std::size_t first,
       std::size_t groups)
      : view_(view), arguments_(arguments), x_(arguments.x), outer_(outer), first_(first), groups_(groups) {}

  /// Makes x + residual what is normalized.
  SIMDNORM_ONCE void add_residual() {
    if (!arguments_.residual) return;
    for (std::size_t r = 0; r < view_.rows; ++r) {
      const std::size_t e = flat(r, 0);
      x_ = with_residual(arguments_, e, groups_ * view_.cols) - e;
    }
  }

  SIMDNORM_ONCE void fold_statistics(Kind kind) {
    Moments moments[kTile<T>];
    group_moments(x_, view_, fold_of(kind), outer_, first_, groups_, moments);
    for (std::size_t i = 0; i < groups_; ++i)
      statistics_[i] = finish(kind, moments[i], arguments_, place() + i);
  }

  SIMDNORM_ONCE void merge_into(Kind kind, Moments* all) const {
    Moments moments[kTile<T>];
    group_moments(x_, view_, fold_of(kind), outer_, first_, groups_, moments);
    for (std::size_t i = 0; i < groups_; ++i) all[place() + i] = merge(all[place() + i], moments[i]);
  }

  SIMDNORM_ONCE void take_given() {
    for (std::size_t i = 0; i < groups_; ++i) {
      const std::size_t g = place() + i;
      statistics_[i] = given_statistic(arguments_.mean[g], arguments_.variance[g], arguments_.epsilon);
    }
  }

  void take_none() { std::fill_n(statistics_, groups_, kIdentity); }

  void take(const Statistic* all) { std::copy_n(all + place(), groups_, statistics_); }

  SIMDNORM_ONCE void apply() const {
    switch (layout_of(view_)) {
      case Layout::kRows:
      case Layout::kRuns:
        return apply_runs();
      case Layout::kColumns:
        return apply_columns();
    }
  }

 private:
  /// The number of the first group among all of the view.
  std::size_t place() const { return outer_ * view_.groups + first_; }
  /// The flat index of the first value of a group's run.
  std::size_t flat(std::size_t row, std::size_t group) const {
    return ((outer_ * view_.rows + row) * view_.groups + first_ + group) * view_.cols;
  }
  bool has_parameters() const { return arguments_.scale || arguments_.bias; }
  std::size_t channel(std::size_t element) const { return element / view_.inner % view_.channels; }
  Run<T> run(std::size_t group, std::size_t element) const {
    const T scale = arguments_.scale ? arguments_.scale[channel(element)] : 1;
    const T bias = arguments_.bias ? arguments_.bias[channel(element)] : kNoBias<T>;
    return Run<T>(statistics_[group], scale, bias);
  }

  SIMDNORM_ONCE void apply_runs() const {
    // A run lies inside of one channel's stretch, or it has several.
    const bool is_constant = !has_parameters() || view_.channels == 1 || view_.inner % view_.cols == 0;
    Run<T> runs[kTile<T>];
    if (is_constant) {
      for (std::size_t i = 0; i < groups_; ++i) runs[i] = run(i, flat(0, i));
    }
    // The last ones first: what made the statistics has read them last, so that they are what the caches still have.
    for (std::size_t r = view_.rows; r-- > 0;) {
      for (std::size_t i = 0; i < groups_; ++i) {
        const std::size_t e = flat(r, i);
        if (is_constant) {
          apply_run(runs[i], x_ + e, arguments_.y + e, view_.cols);
        } else {
          apply_stretches(i, e);
        }
      }
    }
  }

  /// A run with stretches of one scale and bias each, which may go through the channels several times.
  SIMDNORM_ONCE void apply_stretches(std::size_t group, std::size_t begin) const {
    const std::size_t end = begin + view_.cols, stretch = view_.inner;
    if (stretch >= kShortStretch) {
      for (std::size_t e = begin; e < end; e += stretch) {
        apply_run(run(group, e), x_ + e, arguments_.y + e, stretch);
      }
      return;
    }
    const bool has_own = stretch == 1 && view_.channels >= kShortStretch;
    const std::size_t step = has_own ? view_.channels : kTile<T>;
    T scale_room[kTile<T>], bias_room[kTile<T>];
    std::size_t e = begin;
    while (e < end) {
      const T *scale = arguments_.scale, *bias = arguments_.bias;
      std::size_t now = std::min(end - e, step);
      if (has_own) {
        const std::size_t c = channel(e);
        now = std::min(now, view_.channels - c);
        scale = scale ? scale + c : nullptr;
        bias = bias ? bias + c : nullptr;
      } else {
        for (std::size_t i = 0; i < now; ++i) {
          const std::size_t c = channel(e + i);
          if (scale) scale_room[i] = scale[c];
          if (bias) bias_room[i] = bias[c];
        }
        scale = scale ? scale_room : nullptr;
        bias = bias ? bias_room : nullptr;
      }
      apply_row(statistics_[group], scale, bias, x_ + e, arguments_.y + e, now);
      e += now;
    }
  }

  SIMDNORM_ONCE void apply_columns() const {
    const std::size_t stride = view_.groups * view_.cols, e = flat(0, 0), width = groups_ * view_.cols;
    const bool is_per_row = has_parameters() && view_.inner == stride;
    Columns<T> columns;
    for (std::size_t i = 0; i < groups_; ++i) {
      for (std::size_t c = 0; c < view_.cols; ++c) {
        const std::size_t column = i * view_.cols + c;
        columns.set(column, is_per_row ? Run<T>(statistics_[i], 1, kNoBias<T>) : run(i, e + column));
      }
    }
    if (!is_per_row) {
      // The last ones first, as above, and two are written at a time.
      const std::size_t piece = std::max<std::size_t>(kPieceValues / width / 2, 1) * 2;
      for (std::size_t end = view_.rows; end > 0;) {
        const std::size_t begin = (end - 1) / piece * piece, from = e + begin * stride;
        columns.apply(x_ + from, arguments_.y + from, end - begin, width, stride);
        end = begin;
      }
      return;
    }
    for (std::size_t r = 0; r < view_.rows; ++r) {
      T* const y = arguments_.y + e + r * stride;
      columns.apply(x_ + e + r * stride, y, 1, width, stride);
      const T scale = arguments_.scale ? arguments_.scale[r] : 1;
      const T bias = arguments_.bias ? arguments_.bias[r] : kNoBias<T>;
      apply_run(Run<T>(kIdentity, scale, bias), y, y, width);
    }
  }

  const View& view_;
  const Arguments<T>& arguments_;
  const T* x_;
  const std::size_t outer_, first_, groups_;
  Statistic statistics_[kTile<T>];
};

template <class T, class Body>
void each_tile(const View& view, const Arguments<T>& arguments, Body body) {
  if (view.size() == 0) return;
  const std::size_t step = groups_at_a_time<T>(view);
  for (std::size_t outer = 0; outer < view.outer; ++outer) {
    for (std::size_t first = 0; first < view.groups; first += step) {
      Tile<T> tile(view, arguments, outer, first, std::min(step, view.groups - first));
      body(tile);
    }
  }
}

}  // namespace

bool can_fold(Kind kind, const View& view) {
  return view.rows == 1 || (kind != Kind::kNorm1 && kind != Kind::kNormInfinity);
}

template <class T>
SIMDNORM_ONCE Statistic finish(Kind kind, const Moments& moments, const Arguments<T>& arguments,
                               std::size_t place) {
  Statistic statistic;
  switch (kind) {
    case Kind::kDeviation:
    case Kind::kRootMeanSquare:
      statistic = statistic_of(moments, arguments.epsilon);
      break;
    case Kind::kNorm1:
    case Kind::kNormInfinity:
      statistic = norm_statistic(moments, Norm::kPlain, arguments.epsilon);
      break;
    case Kind::kNorm2:
      statistic = norm_statistic(moments, Norm::kSquared, arguments.epsilon);
      break;
  }
  // What a forward call saved, if it is a number: the least and the largest values leave float's range. Where it
  // is but rounded to float from what was just made, that is better.
  const double saved = arguments.inv_std ? arguments.inv_std[place] * statistic.unit : 0;
  constexpr double kRounding = 2 * std::numeric_limits<float>::epsilon();
  if (saved > 0 && saved <= std::numeric_limits<T>::max() &&
      !(std::fabs(saved - statistic.inv_std) <= kRounding * saved)) {
    statistic.inv_std = saved;
  }
  const auto write = [&](T* out, double value) {
    if (out) out[place] = static_cast<T>(value);
  };
  // A sum over nothing is 0, its mean is not.
  const double mean = (moments.mean + moments.low) * moments.unit;
  write(arguments.mean_out, moments.count > 0 ? mean : moments.variance());
  write(arguments.variance_out, moments.variance() * moments.unit * moments.unit);
  write(arguments.inv_std_out, statistic.inv_std / statistic.unit);
  if (arguments.count_out) arguments.count_out[place] = moments.count;
  return statistic;
}

template <class T>
SIMDNORM_ONCE const T* with_residual(const Arguments<T>& arguments, std::size_t begin, std::size_t count) {
  if (!arguments.residual) return arguments.x + begin;
  T* const sum = (arguments.residual_out ? arguments.residual_out : arguments.y) + begin;
  add(arguments.x + begin, arguments.residual + begin, sum, count);
  return sum;
}

template <class T>
SIMDNORM_ONCE void add(const T* x, const T* residual, T* sum, std::size_t count) {
  constexpr std::size_t kVector = Vector<T>::kLanes;
  std::size_t i = 0;
  for (; i + kVector <= count; i += kVector) store(sum + i, load(x + i) + load(residual + i));
  for (; i < count; ++i) sum[i] = x[i] + residual[i];
}

template <class T>
void normalize(const View& view, Kind kind, const Arguments<T>& arguments) {
  if constexpr (std::is_same_v<T, float>) {
    if (arguments.y && are_rows_with_parameters(view, kind, arguments)) {
      return normalize_rows(view, kind, arguments);
    }
  }
  each_tile(view, arguments, [&](Tile<T>& tile) {
    tile.add_residual();
    tile.fold_statistics(kind);
    if (arguments.y) tile.apply();
  });
}

template <class T>
void normalize_by_given(const View& view, const Arguments<T>& arguments) {
  each_tile(view, arguments, [&](Tile<T>& tile) {
    tile.take_given();
    tile.apply();
  });
}

template <class T>
void merge_moments(const View& view, Kind kind, const Arguments<T>& arguments, Moments* moments) {
  each_tile(view, arguments, [&](Tile<T>& tile) {
    tile.add_residual();
    tile.merge_into(kind, moments);
  });
}

template <class T>
void apply_statistics(const View& view, const Statistic* statistics, const Arguments<T>& arguments) {
  each_tile(view, arguments, [&](Tile<T>& tile) {
    tile.take(statistics);
    tile.apply();
  });
}

template <class T>
void apply_scale(const View& view, const Arguments<T>& arguments) {
  each_tile(view, arguments, [&](Tile<T>& tile) {
    tile.take_none();
    tile.apply();
  });
}

#define SIMDNORM_INSTANTIATE(T)                                                       \
  template void normalize(const View&, Kind, const Arguments<T>&);                    \
  template void normalize_by_given(const View&, const Arguments<T>&);                 \
  template void merge_moments(const View&, Kind, const Arguments<T>&, Moments*);      \
  template void apply_statistics(const View&, const Statistic*, const Arguments<T>&); \
  template void apply_scale(const View&, const Arguments<T>&);                        \
  template Statistic finish(Kind, const Moments&, const Arguments<T>&, std::size_t);  \
  template const T* with_residual(const Arguments<T>&, std::size_t, std::size_t);     \
  template void add(const T*, const T*, T*, std::size_t);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE

}  // namespace simdnorm
