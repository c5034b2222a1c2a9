#pragma once
// How the values that share a statistic can lie in memory.

#include "call.h"
#include "reference.h"

struct Layout {
  std::string name;
  const Operation* operation;
  Shape shape, axes;
  /// Of channels.
  std::size_t groups;
  /// How many statistics there are, and how many scales.
  std::size_t statistics, parameters;
  /// The number of each value's statistic.
  Shape statistic;

  /// Where the values of a statistic are.
  Shape places(std::size_t number) const {
    Shape result;
    for (std::size_t e = 0; e < statistic.size(); ++e) {
      if (statistic[e] == number) result.push_back(e);
    }
    return result;
  }
};

template <class T>
CallOf<T> call_of(const Layout& layout, const ValuesOf<T>& x) {
  return {.shape = layout.shape, .axes = layout.axes, .x = x, .groups = layout.groups};
}

inline Layout over_axes(const std::string& name, const Operation& operation, const Shape& shape,
                        const Shape& axes) {
  const Shape kept = reference::others(shape, axes);
  std::size_t statistics = 1, parameters = 1;
  for (const std::size_t axis : kept) statistics *= shape[axis];
  for (const std::size_t axis : axes) parameters *= shape[axis];
  return {name, &operation, shape, axes, 1, statistics, parameters, reference::indices_along(shape, kept)};
}

/// Batch norm in training.
inline Layout by_channel(const std::string& name, const Shape& shape, std::size_t axis) {
  return {name, &kBatchNormTraining, shape,       {axis},
          1,    shape[axis],         shape[axis], reference::indices_along(shape, {axis})};
}

inline Layout by_group(const std::string& name, const Shape& shape, std::size_t axis, std::size_t groups) {
  const std::size_t channels = shape[axis];
  Layout layout = {name, &kGroupNorm, shape, {axis}, groups, shape[0] * groups, channels, {}};
  const Shape item = reference::indices_along(shape, {0}), channel = reference::indices_along(shape, {axis});
  for (std::size_t e = 0; e < item.size(); ++e) {
    layout.statistic.push_back(item[e] * groups + channel[e] / (channels / groups));
  }
  return layout;
}
