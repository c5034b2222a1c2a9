#pragma once

#include "gradients.h"
#include "normalize.h"

namespace simdnorm {

/// Whether there is a channel axis past the items, and its groups are equal.
template <class T>
bool has_groups(const Arguments<T>& arguments) {
  const std::size_t axis = arguments.axes[0];
  return axis > 0 && arguments.groups > 0 && arguments.shape[axis] % arguments.groups == 0;
}

template <class T>
Arguments<T> with_channels_for_groups(const Arguments<T>& arguments) {
  Arguments<T> result = arguments;
  result.groups = arguments.shape[arguments.axes[0]];
  return result;
}

/// Group normalization: in each item, each group of neighbouring channels by its own mean and variance.
///
///   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
///
/// where mean and variance (of the population) are over a group's channels and all axes but the first.
///
/// Shapes: x and y `shape`, items along axis 0; axes: the channel axis alone, whose extent `groups` divides;
/// scale and bias (or null) one value for each channel; mean_out, variance_out and inv_std_out (or null)
/// [items, groups]. epsilon is in units of x squared.
/// Aliasing: y may be x. Errors: kAxes where the channel axis is 0, or groups do not divide its extent.
/// Accuracy, cost and edge cases: as layer_norm, with groups for rows.
/// Source: Wu, He 2018, arXiv:1803.08494, eq. 7. ONNX GroupNormalization (opset 21).
///
///   const std::size_t shape[] = {1, 4}, axes[] = {1};
///   const float x[] = {1, 3, 10, 30};
///   float y[4];
///   group_norm({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0, .groups = 2});  // -1, 1, -1, 1
template <class T = float>
Status group_norm(const Arguments<T>& arguments) {
  if (!has_groups(arguments)) return Status::kAxes;
  normalize(view_by_group(arguments.shape, arguments.axes[0], arguments.groups), Kind::kDeviation, arguments);
  return Status::kOk;
}

/// Instance normalization: in each item, each channel by its own mean and variance. It is group_norm with a
/// group for each channel, and `groups` is ignored.
///
///   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
///
/// Shapes, aliasing, errors, accuracy and cost: as group_norm; mean_out, variance_out and inv_std_out (or null) are
/// [items, channels]. Edge cases: as layer_norm; without channels nothing is done.
/// Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022, eq. 3. ONNX InstanceNormalization, WebNN
/// instanceNormalization.
///
///   const std::size_t shape[] = {1, 2, 2}, axes[] = {1};
///   const float x[] = {1, 3, 10, 30};
///   float y[4];
///   instance_norm({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0});  // -1, 1, -1, 1
template <class T = float>
Status instance_norm(const Arguments<T>& arguments) {
  const Arguments<T> by_channel = with_channels_for_groups(arguments);
  // Without channels there are no values either.
  return by_channel.groups == 0 ? Status::kOk : group_norm(by_channel);
}

/// The gradient of a loss through group_norm.
///
///   dx = inv_std * (g - mean(g) - h * mean(g * h)),   d_scale = sum(dy * h),   d_bias = sum(dy)
///
/// with g = dy * scale and h = (x - mean) * inv_std, the means over a group, the sums over a channel.
///
/// Shapes: dy, x and y (where dx goes) `shape`; axes and groups as group_norm; scale, d_scale_out and d_bias_out (or
/// null) one value for each channel; inv_std (or null) [items, groups].
/// Aliasing: y may be dy or x. Errors: as group_norm.
/// Accuracy, cost and edge cases: as layer_norm_backward, with groups for rows.
/// Source: Wu, He 2018, arXiv:1803.08494.
///
///   const std::size_t shape[] = {1, 6}, axes[] = {1};
///   const float x[] = {1, 2, 4, 5, 5, 5}, dy[] = {1, 0, 0, 0, 0, 0};
///   float dx[6];
///   group_norm_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .groups = 2,
///                        .scratch = scratch});  // 0.2290823, -0.34362, 0.1145377, 0, 0, 0
template <class T = float>
Status group_norm_backward(const Arguments<T>& arguments) {
  if (!has_groups(arguments)) return Status::kAxes;
  gradients_by_group(arguments);
  return Status::kOk;
}

/// How many bytes of scratch group_norm_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t group_norm_backward_scratch(const Arguments<T>& arguments) {
  return has_groups(arguments) ? gradients_by_group_scratch(arguments) : 0;
}

/// The gradient of a loss through instance_norm. It is group_norm_backward with a group for each channel, and `groups`
/// is ignored.
///
/// Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.
///
///   const std::size_t shape[] = {1, 2, 3}, axes[] = {1};
///   const float x[] = {1, 2, 4, 5, 5, 5}, dy[] = {1, 0, 0, 0, 0, 0};
///   float dx[6];
///   instance_norm_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy,
///                           .scratch = scratch});  // 0.2290823, -0.34362, 0.1145377, 0, 0, 0
template <class T = float>
Status instance_norm_backward(const Arguments<T>& arguments) {
  const Arguments<T> by_channel = with_channels_for_groups(arguments);
  return by_channel.groups == 0 ? Status::kOk : group_norm_backward(by_channel);
}

/// How many bytes of scratch instance_norm_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t instance_norm_backward_scratch(const Arguments<T>& arguments) {
  return group_norm_backward_scratch(with_channels_for_groups(arguments));
}

}  // namespace simdnorm
