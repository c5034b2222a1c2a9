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

/// The gradient of a loss through group_norm. As layer_norm_backward, with groups for rows, and d_scale and d_bias
/// one value for each channel. Errors: as group_norm.
template <class T = float>
Status group_norm_backward(const Arguments<T>& arguments) {
  if (!has_groups(arguments)) return Status::kAxes;
  gradients_by_group(arguments);
  return Status::kOk;
}

template <class T = float>
std::uint64_t group_norm_backward_scratch(const Arguments<T>& arguments) {
  return has_groups(arguments) ? gradients_by_group_scratch(arguments) : 0;
}

/// The gradient of a loss through instance_norm.
template <class T = float>
Status instance_norm_backward(const Arguments<T>& arguments) {
  const Arguments<T> by_channel = with_channels_for_groups(arguments);
  return by_channel.groups == 0 ? Status::kOk : group_norm_backward(by_channel);
}

template <class T = float>
std::uint64_t instance_norm_backward_scratch(const Arguments<T>& arguments) {
  return group_norm_backward_scratch(with_channels_for_groups(arguments));
}

}  // namespace simdnorm
