#include "permute.h"

#include <algorithm>

#include "simd.h"

namespace simdnorm {
namespace {

/// What is walked, one axis at a time: an extent, and how far a step goes in what is read and what is written.
struct Walk {
  std::size_t rank = 0;
  std::size_t extent[kMaxRank], from[kMaxRank], to[kMaxRank];
};

/// Neighbours in two ways are copied in squares of this size: a line of either side is used up while it is in
/// the cache.
constexpr std::size_t kSquare = 32;

template <class T>
SIMDNORM_ONCE void copy(const Walk& walk, std::size_t axis, const T* x, T* y) {
  if (axis == walk.rank) {
    *y = *x;
    return;
  }
  const std::size_t extent = walk.extent[axis], from = walk.from[axis], to = walk.to[axis];
  if (axis + 2 == walk.rank) {
    const std::size_t inner = walk.extent[axis + 1], inner_from = walk.from[axis + 1],
                      inner_to = walk.to[axis + 1];
    for (std::size_t i = 0; i < extent; i += kSquare) {
      for (std::size_t j = 0; j < inner; j += kSquare) {
        const std::size_t i_end = std::min(i + kSquare, extent), j_end = std::min(j + kSquare, inner);
        for (std::size_t a = i; a < i_end; ++a) {
          for (std::size_t b = j; b < j_end; ++b) y[a * to + b * inner_to] = x[a * from + b * inner_from];
        }
      }
    }
    return;
  }
  for (std::size_t i = 0; i < extent; ++i) copy(walk, axis + 1, x + i * from, y + i * to);
}

/// Axis i of `order` is what is walked in the i-th place of the permuted side.
SIMDNORM_ONCE Walk walk_of(Extents shape, Extents order, bool back) {
  std::size_t strides[kMaxRank];
  std::size_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  Walk walk;
  walk.rank = order.size();
  stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t axis = order[i];
    walk.extent[i] = shape[axis];
    walk.from[i] = back ? stride : strides[axis];
    walk.to[i] = back ? strides[axis] : stride;
    stride *= shape[axis];
  }
  // The axis that is contiguous on the other side comes last but one, to be walked in squares with the last.
  for (std::size_t i = 0; i + 2 < walk.rank; ++i) {
    if (order[i] + 1 != shape.size()) continue;
    const auto swap = [&](std::size_t* values) { std::swap(values[i], values[walk.rank - 2]); };
    swap(walk.extent);
    swap(walk.from);
    swap(walk.to);
    break;
  }
  return walk;
}

}  // namespace

template <class T>
void permute(const T* x, Extents shape, Extents order, T* y) {
  // Without values there may be no addresses to count from either.
  if (product(shape) > 0) copy(walk_of(shape, order, false), 0, x, y);
}

template <class T>
void permute_back(const T* x, Extents shape, Extents order, T* y) {
  if (product(shape) > 0) copy(walk_of(shape, order, true), 0, x, y);
}

template void permute(const float*, Extents, Extents, float*);
template void permute(const double*, Extents, Extents, double*);
template void permute_back(const float*, Extents, Extents, float*);
template void permute_back(const double*, Extents, Extents, double*);

}  // namespace simdnorm
