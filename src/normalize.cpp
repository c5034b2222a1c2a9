#include "normalize.h"

#include <algorithm>

namespace simdnorm {
namespace {

/// Contiguous groups are worked on in tiles of about this many values, so that what made the statistics is
/// still in the L1 cache when they are applied. tests/bench/kernels.mjs, layerNorm: 2048 to 8192 are equal,
/// 1024 and 16384 slower.
constexpr std::size_t kRowTileValues = 4096;

std::size_t groups_at_a_time(const View& view) {
  switch (layout_of(view)) {
    case Layout::kRows:
      return std::clamp<std::size_t>(kRowTileValues / view.cols, 1, kTile);
    case Layout::kRuns:
      return kTile;
    case Layout::kColumns:
      break;
  }
  return kTile / view.cols;
}

/// Some neighbouring groups of one `outer`.
class Tile {
 public:
  Tile(const View& view, const Arguments& arguments, std::size_t outer, std::size_t first, std::size_t groups)
      : view_(view), arguments_(arguments), outer_(outer), first_(first), groups_(groups) {}

  void fold_statistics() {
    Moments moments[kTile];
    group_moments(arguments_.x, view_, outer_, first_, groups_, moments);
    const std::size_t place = outer_ * view_.groups + first_;
    for (std::size_t i = 0; i < groups_; ++i) {
      const double variance = moments[i].variance();
      statistics_[i] = statistic_of(moments[i].mean, variance, arguments_.epsilon);
      const auto write = [&](float* out, double value) {
        if (out) out[place + i] = static_cast<float>(value);
      };
      write(arguments_.mean_out, moments[i].mean);
      write(arguments_.variance_out, variance);
      write(arguments_.inv_std_out, statistics_[i].inv_std);
    }
  }

  void take_statistics() {
    for (std::size_t i = 0; i < groups_; ++i) {
      const std::size_t c = channel(flat(0, i));
      statistics_[i] = statistic_of(arguments_.mean[c], arguments_.variance[c], arguments_.epsilon);
    }
  }

  void apply() const {
    switch (layout_of(view_)) {
      case Layout::kRows:
        return apply_rows();
      case Layout::kRuns:
        return apply_runs();
      case Layout::kColumns:
        return apply_columns();
    }
  }

 private:
  /// The flat index of the first value of a group's run.
  std::size_t flat(std::size_t row, std::size_t group) const {
    return ((outer_ * view_.rows + row) * view_.groups + first_ + group) * view_.cols;
  }
  std::size_t channel(std::size_t element) const { return element / view_.inner % view_.channels; }
  float scale(std::size_t channel) const { return arguments_.scale ? arguments_.scale[channel] : 1; }
  float bias(std::size_t channel) const { return arguments_.bias ? arguments_.bias[channel] : kNoBias; }

  Run run(std::size_t group) const {
    const std::size_t c = channel(flat(0, group));
    return Run(statistics_[group], scale(c), bias(c));
  }

  void apply_rows() const {
    for (std::size_t i = 0; i < groups_; ++i) {
      const std::size_t e = flat(0, i);
      if (view_.channels == 1 || view_.inner == view_.cols) {
        apply_run(run(i), arguments_.x + e, arguments_.y + e, view_.cols);
      } else {
        // One scale and bias for each value of a group.
        simdnorm::apply_row(statistics_[i], arguments_.scale, arguments_.bias, arguments_.x + e,
                            arguments_.y + e, view_.cols);
      }
    }
  }

  void apply_runs() const {
    Run runs[kTile];
    for (std::size_t i = 0; i < groups_; ++i) runs[i] = run(i);
    for (std::size_t r = 0; r < view_.rows; ++r) {
      for (std::size_t i = 0; i < groups_; ++i) {
        const std::size_t e = flat(r, i);
        apply_run(runs[i], arguments_.x + e, arguments_.y + e, view_.cols);
      }
    }
  }

  void apply_columns() const {
    Columns columns;
    for (std::size_t i = 0; i < groups_; ++i) {
      const Run group = run(i);
      for (std::size_t c = 0; c < view_.cols; ++c) columns.set(i * view_.cols + c, group);
    }
    const std::size_t e = flat(0, 0);
    columns.apply(arguments_.x + e, arguments_.y + e, view_.rows, groups_ * view_.cols,
                  view_.groups * view_.cols);
  }

  const View& view_;
  const Arguments& arguments_;
  const std::size_t outer_, first_, groups_;
  Statistic statistics_[kTile];
};

}  // namespace

void normalize(const View& view, Statistics statistics, const Arguments& arguments) {
  if (view.size() == 0) return;
  const std::size_t step = groups_at_a_time(view);
  for (std::size_t outer = 0; outer < view.outer; ++outer) {
    for (std::size_t first = 0; first < view.groups; first += step) {
      Tile tile(view, arguments, outer, first, std::min(step, view.groups - first));
      if (statistics == Statistics::kOwn) {
        tile.fold_statistics();
      } else {
        tile.take_statistics();
      }
      if (arguments.y) tile.apply();
    }
  }
}

}  // namespace simdnorm
