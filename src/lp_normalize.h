#pragma once

#include "gradients.h"
#include "over_axes.h"

namespace simdnorm {

/// Division by a norm: each row by its own.
///
///   y = x / max(norm, epsilon)
///
/// where the norm is sum(|x|) for p = 1, sqrt(sum(x^2)) for p = 2, max(|x|) for p = infinity, over the axes.
///
/// Shapes: x and y `shape`. epsilon is in units of x. Aliasing: y may be x. Errors: kAxes for another p.
/// Accuracy: 5 machine epsilons * |y|, for any length.
/// Cost: one sweep for the norm and one to divide; for p other than 2, two more where the axes are not the last.
/// Edge cases: zeros stay zeros for any epsilon; NaN and infinity stay in their row; finite rows whose squares
/// or sums overflow or underflow are right.
/// Source: ONNX LpNormalization.
///
///   const std::size_t shape[] = {1, 2}, axes[] = {1};
///   const float x[] = {3, -4};
///   float y[2];
///   lp_normalize({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 1e-12});  // 0.6, -0.8
template <class T = float>
Status lp_normalize(const Arguments<T>& arguments) {
  const auto kind = kind_of_norm(arguments.p);
  if (!kind) return Status::kAxes;
  normalize_over_axes(*kind, arguments);
  return Status::kOk;
}

/// How many bytes of scratch lp_normalize needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t lp_normalize_scratch(const Arguments<T>& arguments) {
  const auto kind = kind_of_norm(arguments.p);
  return kind ? scratch_over_axes(*kind, arguments) : 0;
}

/// The gradient of a loss through lp_normalize.
///
///   p = 2:         dx = (dy - y * sum(dy * y)) / norm
///   p = 1:         dx = (dy - sign(x) * sum(dy * y)) / norm
///   p = infinity:  as p = 1, with sign(x) only at the first of the largest magnitudes
///
/// and dy / epsilon where the norm is below epsilon.
///
/// Shapes: dy, x and y (where dx goes) `shape`; there are no parameters. Aliasing: y may be dy or x. Errors: kAxes for
/// another p.
/// Accuracy: 1e-6 * max(1, max|dx|); where dy is nearly a multiple of y, 1e-6 * max|dy| / norm.
/// Cost: about four passes. Rows of fewer than 16 values are computed in double.
/// Edge cases: NaN and infinity stay in their row. Where 1 / max(norm, epsilon) is beyond T's largest value, dx is infinite,
/// and NaN where dy is 0. Source: the derivative of ONNX LpNormalization.
///
///   const std::size_t shape[] = {1, 2}, axes[] = {1};
///   const float x[] = {3, -4}, dy[] = {1, 0};
///   float dx[2];
///   lp_normalize_backward({.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .epsilon = 1e-12,
///                          .scratch = scratch});  // 0.128, 0.096
template <class T = float>
Status lp_normalize_backward(const Arguments<T>& arguments) {
  const auto kind = kind_of_norm(arguments.p);
  if (!kind) return Status::kAxes;
  gradients_over_axes(*kind, arguments);
  return Status::kOk;
}

/// How many bytes of scratch lp_normalize_backward needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t lp_normalize_backward_scratch(const Arguments<T>& arguments) {
  const auto kind = kind_of_norm(arguments.p);
  return kind ? gradients_over_axes_scratch(*kind, arguments) : 0;
}

}  // namespace simdnorm
