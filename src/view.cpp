#include "view.h"

namespace simdnorm {
namespace {

/// Joins runs: the fewer and longer the runs, the faster the kernels.
View joined(View view) {
  if (view.groups == 1) {
    view.cols *= view.rows;
    view.rows = 1;
  }
  if (view.rows == 1) {
    view.groups *= view.outer;
    view.outer = 1;
  }
  return view;
}

}  // namespace

std::size_t product(Extents extents) {
  std::size_t result = 1;
  for (std::size_t extent : extents) result *= extent;
  return result;
}

std::optional<View> view_over_axes(Extents shape, Extents axes) {
  // The extents of [outer, rows, groups, cols], filled from the last axis to the first: cols and rows take
  // the axes that are reduced, groups and outer the others, and every change between the two moves on to the
  // left.
  std::size_t extents[4] = {1, 1, 1, 1};
  std::size_t place = 3;
  std::size_t left = axes.size();
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const bool reduced = left > 0 && axes[left - 1] == axis;
    if (reduced) --left;
    if (shape[axis] == 1) continue;
    const bool place_is_reduced = place % 2 == 1;
    if (reduced != place_is_reduced) {
      if (place == 0) return std::nullopt;
      --place;
    }
    extents[place] *= shape[axis];
  }
  const auto [outer, rows, groups, cols] = extents;
  View view{outer, rows, groups, cols, 0, 1};
  if (rows == 1) {
    view.channels = cols;
  } else if (cols == 1) {
    view.channels = rows;
    view.inner = groups;
  }
  return joined(view);
}

View view_by_group(Extents shape, std::size_t axis, std::size_t groups) {
  const std::size_t before = product(shape.subspan(1, axis - 1));
  const std::size_t after = product(shape.subspan(axis + 1));
  const std::size_t channels = shape[axis];
  return joined({shape[0], before, groups, channels / groups * after, channels, after});
}

View view_by_channel(Extents shape, std::size_t axis) {
  const std::size_t before = product(shape.first(axis));
  const std::size_t after = product(shape.subspan(axis + 1));
  return joined({1, before, shape[axis], after, shape[axis], after});
}

}  // namespace simdnorm
