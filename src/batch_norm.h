#pragma once

#include "gradients.h"
#include "over_axes.h"

namespace simdnorm {

/// Batch normalization at inference: each channel by statistics that are given.
///
///   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
///
/// Shapes: x and y `shape`; axes: the channel axis alone; mean, variance, scale and bias (the last two or
/// null) one value for each channel. epsilon is in units of x squared.
/// Aliasing: y may be x. Errors: none.
/// Accuracy: 5 machine epsilons * max(1, |y|) before bias, for the mean and variance as they are given.
/// Cost: one sweep. Edge cases: variance + epsilon of 0 or less gives infinities and NaN; y past the lengths is 0.
/// Source: Ioffe, Szegedy 2015, arXiv:1502.03167, algorithm 2. ONNX and WebNN batchNormalization.
///
///   const std::size_t shape[] = {2, 2}, axes[] = {1};
///   const float x[] = {1, 10, 3, 30}, mean[] = {2, 20}, variance[] = {1, 25};
///   float y[4];
///   batch_norm({.shape = shape, .axes = axes, .x = x, .y = y, .mean = mean, .variance = variance,
///               .epsilon = 0});  // -1, -2, 1, 2
template <class T = float>
Status batch_norm(const Arguments<T>& arguments) {
  normalize_by_given(view_by_channel(arguments.shape, arguments.axes[0]), arguments);
  if (arguments.lengths) clear_padding(arguments.shape, arguments.lengths, arguments.y);
  return Status::kOk;
}

/// Batch normalization in training: each channel by the mean and variance of this batch.
///
///   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
///
/// where mean and variance (of the population, divided by n) are over all axes but the channel axis.
///
/// Shapes: as batch_norm; mean_out, variance_out and inv_std_out (or null) one value for each channel.
/// Aliasing: y may be x. Errors: none.
/// Accuracy and edge cases: as layer_norm, with channels for rows.
/// Cost: as layer_norm. Source: Ioffe, Szegedy 2015, arXiv:1502.03167, algorithm 1. ONNX BatchNormalization
/// with training_mode = 1.
///
///   const std::size_t shape[] = {2, 2}, axes[] = {1};
///   const float x[] = {1, 10, 3, 30};
///   float y[4], mean[2], variance[2];
///   batch_norm_training({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0, .mean_out = mean,
///                        .variance_out = variance});  // -1, -1, 1, 1; mean 2, 20; variance 1, 100
template <class T = float>
Status batch_norm_training(const Arguments<T>& arguments) {
  normalize_over_others(arguments);
  return Status::kOk;
}

/// How many bytes of scratch batch_norm_training needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t batch_norm_training_scratch(const Arguments<T>& arguments) {
  return scratch_over_others(arguments);
}

/// The gradient of a loss through batch_norm, whose statistics are constants.
///
///   dx = dy * scale * inv_std,   d_scale = sum(dy * (x - mean) * inv_std),   d_bias = sum(dy)
///
/// Shapes: as batch_norm, with dy as x, and y where dx goes; d_scale_out and d_bias_out (or null) one value for
/// each channel. Aliasing: y may be dy or x. Errors: none.
/// Accuracy: 1e-6 * max(1, max|dx|). Sums lose nothing over 1e6 rows. Cost: about four passes.
/// Edge cases: NaN and infinity in x stay in d_scale, those in dy in their place of dx and their channel's gradients.
/// Source: Ioffe, Szegedy 2015, arXiv:1502.03167, algorithm 2.
///
///   const std::size_t shape[] = {2, 2}, axes[] = {1};
///   const float x[] = {1, 10, 3, 30}, dy[] = {1, 2, 3, 4}, mean[] = {2, 20}, variance[] = {1, 25};
///   float dx[4];
///   batch_norm_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .mean = mean,
///                        .variance = variance, .epsilon = 0, .scratch = scratch});  // 1, 0.4, 3, 0.8
template <class T = float>
Status batch_norm_backward(const Arguments<T>& arguments) {
  gradients_by_given(arguments);
  return Status::kOk;
}

/// How many bytes of scratch batch_norm_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t batch_norm_backward_scratch(const Arguments<T>& arguments) {
  return gradients_by_given_scratch(arguments);
}

/// The gradient of a loss through batch_norm_training: also through the statistics.
///
///   dx = inv_std * (g - mean(g) - h * mean(g * h)),   d_scale = sum(dy * h),   d_bias = sum(dy)
///
/// with g = dy * scale and h = (x - mean) * inv_std, the means and sums over a channel.
///
/// Shapes: as batch_norm_backward; inv_std (or null) one value for each channel. Aliasing: y may be dy or x.
/// Errors: none. Accuracy, cost and edge cases: as layer_norm_backward, with channels for rows.
/// Source: Ioffe, Szegedy 2015, arXiv:1502.03167, section 3.
///
///   const std::size_t shape[] = {3, 1}, axes[] = {1};
///   const float x[] = {1, 2, 4}, dy[] = {1, 0, 0};
///   float dx[3];
///   batch_norm_training_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy,
///                                 .scratch = scratch});  // 0.2290823, -0.34362, 0.1145377
template <class T = float>
Status batch_norm_training_backward(const Arguments<T>& arguments) {
  gradients_over_others(arguments);
  return Status::kOk;
}

/// How many bytes of scratch batch_norm_training_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t batch_norm_training_backward_scratch(const Arguments<T>& arguments) {
  return gradients_over_others_scratch(arguments);
}

}  // namespace simdnorm
