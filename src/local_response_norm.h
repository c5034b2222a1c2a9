#pragma once

#include "arguments.h"

namespace simdnorm {

/// Local response normalization: each value by the squares of its neighbours among the channels.
///
///   y = x / (k + alpha / size * sum(x[c]^2))^beta
///
/// where c goes from channel - floor((size - 1) / 2) to channel + ceil((size - 1) / 2), as far as there are
/// channels.
///
/// Shapes: x and y `shape`; axes: the channel axis alone. k is in units of x squared. Aliasing: y may be x. Errors: none.
/// Accuracy: 2 machine epsilons * |y| for floats, (4 + |beta|) * 4 for doubles.
/// Cost: one pass; size additions and, for beta of 0.75, two square roots for each value. A beta that isn't a
/// multiple of a power of two takes up to 60 roots.
/// Edge cases: NaN and infinity have the effect that arithmetic gives them, within the window; finite values
/// whose squares, or powers of whose sums, overflow are right.
/// Source: Krizhevsky, Sutskever, Hinton 2012, section 3.3, with alpha divided by size as in ONNX LRN.
///
///   const std::size_t shape[] = {1, 3}, axes[] = {1};
///   const float x[] = {1, 2, 3};
///   float y[3];
///   local_response_norm({.shape = shape, .axes = axes, .x = x, .y = y, .size = 3, .alpha = 3, .beta = 1,
///                        .k = 0, .scratch = scratch});  // 0.2, 0.142857, 0.230769
template <class T = float>
Status local_response_norm(const Arguments<T>& arguments);
/// How many bytes of scratch local_response_norm needs for these arguments, of whose pointers it only matters whether they are null.
template <class T = float>
std::uint64_t local_response_norm_scratch(const Arguments<T>& arguments);

}  // namespace simdnorm
