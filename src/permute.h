#pragma once
// Axes in another order.

#include <cstddef>

#include "view.h"

namespace simdnorm {

/// The most axes that a shape may have.
inline constexpr std::size_t kMaxRank = 16;

/// y has the values of x (row-major, with the extents `shape`) with the axes in the order given: axis i of y is
/// axis order[i] of x. They do not overlap.
template <class T>
void permute(const T* x, Extents shape, Extents order, T* y);

/// The other way: axis order[i] of y is axis i of x. `shape` is y's.
template <class T>
void permute_back(const T* x, Extents shape, Extents order, T* y);

}  // namespace simdnorm
