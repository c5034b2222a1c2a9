#pragma once

#include "gradients.h"
#include "over_axes.h"

namespace simdnorm {

/// Root mean square normalization: each row by its own mean of squares.
///
///   y = x / sqrt(mean(x^2) + epsilon) * scale
///
/// where the mean is over the axes.
///
/// Shapes: as layer_norm, without bias; inv_std_out (or null) is 1 / sqrt(mean(x^2) + epsilon).
/// Aliasing: y may be x; residual_out may be x or residual. Errors: none.
/// Accuracy: 5 machine epsilons * |y| before scale, for any length. Cost: as layer_norm.
/// Edge cases: as layer_norm; a row of zeros gives zeros (with epsilon above 0).
/// Source: Zhang, Sennrich 2019, arXiv:1910.07467, eq. 4. ONNX RMSNormalization.
///
///   const std::size_t shape[] = {1, 2}, axes[] = {1};
///   const float x[] = {1, 7};
///   float y[2];
///   rms_norm({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0});  // 0.2, 1.4
template <class T = float>
Status rms_norm(const Arguments<T>& arguments) {
  normalize_over_axes(Kind::kRootMeanSquare, arguments);
  return Status::kOk;
}

/// How many bytes of scratch rms_norm needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t rms_norm_scratch(const Arguments<T>& arguments) {
  return scratch_over_axes(Kind::kRootMeanSquare, arguments);
}

/// The gradient of a loss through rms_norm.
///
///   dx = r * (g - h * mean(g * h)),   d_scale = sum(dy * h)
///
/// with r = 1 / sqrt(mean(x^2) + epsilon), g = dy * scale and h = x * r.
///
/// Shapes: as layer_norm_backward, without d_bias_out; inv_std is r. Aliasing: y may be dy or x. Errors: none.
/// Accuracy, cost and edge cases: as layer_norm_backward.
/// Source: Zhang, Sennrich 2019, arXiv:1910.07467, section 3.
///
///   const std::size_t shape[] = {1, 2}, axes[] = {1};
///   const float x[] = {1, 7}, dy[] = {1, 0};
///   float dx[2];
///   rms_norm_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .epsilon = 0,
///                      .scratch = scratch});  // 0.196, -0.028
template <class T = float>
Status rms_norm_backward(const Arguments<T>& arguments) {
  gradients_over_axes(Kind::kRootMeanSquare, arguments);
  return Status::kOk;
}

/// How many bytes of scratch rms_norm_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t rms_norm_backward_scratch(const Arguments<T>& arguments) {
  return gradients_over_axes_scratch(Kind::kRootMeanSquare, arguments);
}

}  // namespace simdnorm
