#pragma once

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

template <class T = float>
std::size_t lp_normalize_scratch(const Arguments<T>& arguments) {
  const auto kind = kind_of_norm(arguments.p);
  return kind ? scratch_over_axes(*kind, arguments) : 0;
}

}  // namespace simdnorm
