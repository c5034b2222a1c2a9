#pragma once
// Statistics over any set of axes, and over items of different lengths: what a View can't say by itself.

#include "normalize.h"
#include "permute.h"

namespace simdnorm {

/// y = (x - mean) * inv_std * scale + bias, the statistics over arguments.axes, scale and bias along them in
/// the order in which they are given.
///
/// Where a view can't say it, x is brought into another order of axes in scratch and back: axes that alternate
/// with others, parameters over axes that aren't neighbours, and norms other than 2 along axes that aren't the
/// last. With arguments.lengths only valid values are read, and what is past them comes out as 0; the
/// statistics of groups without values are NaN.
template <class T>
void normalize_over_axes(Kind kind, const Arguments<T>& arguments);
template <class T>
std::uint64_t scratch_over_axes(Kind kind, const Arguments<T>& arguments);

/// The same over all axes but one, arguments.axes[0], with scale and bias along it.
template <class T>
void normalize_over_others(const Arguments<T>& arguments);
template <class T>
std::uint64_t scratch_over_others(const Arguments<T>& arguments);

/// Writes 0 to the places past the lengths.
template <class T>
void clear_padding(Extents shape, const std::int32_t* lengths, T* values);

}  // namespace simdnorm
