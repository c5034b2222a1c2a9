#pragma once

#include "gradients.h"
#include "over_axes.h"

namespace simdnorm {

/// Layer normalization: each row by its own mean and variance.
///
///   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
///
/// where mean and variance (of the population) are over the axes.
///
/// Shapes: x, y, residual and residual_out (the last two or null) `shape`; scale and bias (or null) the extents
/// of the axes in the order given; mean_out, variance_out and inv_std_out (or null) one value for each place
/// along the other axes. epsilon is in units of x squared.
/// Aliasing: y may be x; residual_out may be x or residual. Errors: none.
/// Accuracy: 5 machine epsilons * max(1, |y|) before scale and bias, for any mean up to 1e7 deviations and any
/// length.
/// Cost: one sweep for the statistics (two where a row's first 16 values mislead), one to apply them; two more
/// where axes alternate with others.
/// Edge cases: a constant row gives exactly bias; NaN and infinity stay in their row; finite rows whose
/// squares overflow or underflow are right; epsilon 0 and variance 0 give NaN; what is past the lengths is 0.
/// Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, eq. 4. ONNX LayerNormalization, WebNN layerNormalization.
///
///   const std::size_t shape[] = {2, 3}, axes[] = {1};
///   const float x[] = {1, 2, 4, 5, 5, 5};
///   float y[6];
///   layer_norm({.shape = shape, .axes = axes, .x = x, .y = y});  // -1.0690, -0.2673, 1.3363, 0, 0, 0
template <class T = float>
Status layer_norm(const Arguments<T>& arguments) {
  normalize_over_axes(Kind::kDeviation, arguments);
  return Status::kOk;
}

/// How many bytes of scratch layer_norm needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t layer_norm_scratch(const Arguments<T>& arguments) {
  return scratch_over_axes(Kind::kDeviation, arguments);
}

/// The gradient of a loss through layer_norm.
///
///   dx = inv_std * (g - mean(g) - h * mean(g * h)),   d_scale = sum(dy * h),   d_bias = sum(dy)
///
/// with g = dy * scale and h = (x - mean) * inv_std, the means over what shares statistics, the sums over what
/// shares parameters.
///
/// Shapes: dy, x and y (where dx goes) `shape`; scale, d_scale_out and d_bias_out (or null) the extents of the
/// axes in the order given; inv_std (what layer_norm wrote, or null) one value for each place along the other
/// axes. The mean is made again: a saved one would be rounded.
/// Aliasing: y may be dy or x. Errors: none.
/// Accuracy: 1e-6 * max(1, max|dx|); where g is nearly a multiple of h, so that little is left of it,
/// 1e-6 * inv_std * max|g - mean(g)|. Sums lose nothing over 1e6 rows.
/// Cost: about five passes. Groups of fewer than 16 values, and those along lengths, are computed in double.
/// Edge cases: rows of one value give 0; what is past the lengths gives 0, its dy is ignored.
/// Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, supplement; PyTorch native_layer_norm_backward.
///
///   const std::size_t shape[] = {1, 3}, axes[] = {1};
///   const float x[] = {1, 2, 4}, scale[] = {1, 2, 3}, dy[] = {1, 0, 0};
///   float dx[3];
///   layer_norm_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .scale = scale,
///                        .scratch = scratch});  // 0.2290823, -0.3436200, 0.1145377
template <class T = float>
Status layer_norm_backward(const Arguments<T>& arguments) {
  gradients_over_axes(Kind::kDeviation, arguments);
  return Status::kOk;
}

/// How many bytes of scratch layer_norm_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t layer_norm_backward_scratch(const Arguments<T>& arguments) {
  return gradients_over_axes_scratch(Kind::kDeviation, arguments);
}

}  // namespace simdnorm
