#pragma once
// How gradients fold and are applied: the siblings of moments.h and affine.h.

#include <cstddef>

#include "moments.h"
#include "sums.h"

namespace simdnorm {

/// The sums of g - pivot (d) and of (g - pivot) * h (dd) over `groups` <= kTile groups of one `outer` of a view: out[i]
/// and pivots[i] are of group first + i. In columns a pivot is of one, and there are view.cols for each group.
template <class T>
void group_products(const T* g, const T* h, const T* pivots, const View& view, std::size_t outer,
                    std::size_t first, std::size_t groups, Sums* out);

/// The sums of g * h and of g over groups of one value each, which as runs of their own would take most of the time of
/// a single row's gradient. sum_gh and sum_g may be null.
template <class T>
void single_products(const T* g, const T* h, std::size_t count, T* sum_gh, T* sum_g);

/// dx = (((g - pivot) - mean_g) - h * mean_gh) * inv_std: the means are of g - pivot. So a large mean of g leaves
/// no error, and where all of g are equal dx is 0.
template <class T>
struct Slope {
  T pivot, mean_g, mean_gh, inv_std;
};

/// dx may be g here and below.
template <class T>
void apply_run(const Slope<T>& slope, const T* g, const T* h, T* dx, std::size_t count);

/// Columns next to each other, each with a slope of its own.
template <class T>
void apply_columns(const Slope<T>* slopes, const T* g, const T* h, T* dx, std::size_t rows,
                   std::size_t columns, std::size_t stride);

}  // namespace simdnorm
