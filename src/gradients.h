#pragma once
// Gradients of a loss, given those of y: the same folds and appliers, of other values.
//
// With g = dy * scale and h = (x - mean) * inv_std, each group has
//
//   dx = inv_std * (g - mean(g) - h * mean(g * h))
//
// and each scale and bias d_scale = sum(dy * h), d_bias = sum(dy) over what shares them. h is y without scale and
// bias, so the forward functions make it, in scratch; both sums over a group, and both over what shares a
// parameter, are one fold over two views of the same memory.

#include "normalize.h"

namespace simdnorm {

/// Of normalize_over_axes: arguments.dy, and the forward call's x, axes, epsilon, scale and lengths; what it
/// saved in inv_std, or null. Writes dx to y, d_scale_out and d_bias_out.
template <class T>
void gradients_over_axes(Kind kind, const Arguments<T>& arguments);
template <class T>
std::uint64_t gradients_over_axes_scratch(Kind kind, const Arguments<T>& arguments);

/// Of normalize_over_others.
template <class T>
void gradients_over_others(const Arguments<T>& arguments);
template <class T>
std::uint64_t gradients_over_others_scratch(const Arguments<T>& arguments);

/// Of group norm.
template <class T>
void gradients_by_group(const Arguments<T>& arguments);
template <class T>
std::uint64_t gradients_by_group_scratch(const Arguments<T>& arguments);

/// Of normalize_by_given: mean and variance are constants.
template <class T>
void gradients_by_given(const Arguments<T>& arguments);
template <class T>
std::uint64_t gradients_by_given_scratch(const Arguments<T>& arguments);

}  // namespace simdnorm
