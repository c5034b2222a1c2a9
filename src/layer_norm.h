#pragma once

#include "normalize.h"

namespace simdnorm {

/// Layer normalization: each row by its own mean and variance.
///
///   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
///
/// where mean and variance (of the population) are over the axes, which are the last ones of the shape.
///
/// Shapes: x and y `shape`; scale and bias (or null) the extents of the axes; mean_out, variance_out and
/// inv_std_out (or null) one value for each row. epsilon is in units of x squared.
/// Aliasing: y may be x. Errors: kAxes where the axes are not the last ones.
/// Accuracy: 6e-7 * max(1, |y|) before scale and bias, for any mean up to 1e7 deviations and any length.
/// Cost: one sweep for the statistics (two where a row's first 16 values mislead), one to apply them.
/// Edge cases: a constant row gives exactly bias; NaN and infinity stay in their row; finite rows whose
/// squares overflow or underflow are right; epsilon 0 and variance 0 give NaN.
/// Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, eq. 4. ONNX LayerNormalization, WebNN layerNormalization.
///
///   const std::size_t shape[] = {2, 3}, axes[] = {1};
///   const float x[] = {1, 2, 4, 5, 5, 5};
///   float y[6];
///   layer_norm({.shape = shape, .axes = axes, .x = x, .y = y});  // -1.0690, -0.2673, 1.3363, 0, 0, 0
inline Status layer_norm(const Arguments& arguments) {
  const auto view = view_over_axes(arguments.shape, arguments.axes);
  if (!view || view->rows != 1) return Status::kAxes;
  normalize(*view, Statistics::kOwn, arguments);
  return Status::kOk;
}

}  // namespace simdnorm
