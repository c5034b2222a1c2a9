#include "reading.h"

#include "simd.h"

namespace simdnorm {
namespace {

/// Parameters' extents along axes as they are given, and the order that makes them ascending.
struct Parameters {
  AxisList extents, order;

  Parameters(Extents shape, Extents axes, const AxisList& sorted) {
    for (const std::size_t axis : axes) extents.add(shape[axis]);
    for (const std::size_t axis : sorted) {
      order.add(static_cast<std::size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin()));
    }
  }
};

}  // namespace

SIMDNORM_ONCE AxisList ascending(Extents axes) {
  AxisList result;
  // Few and mostly sorted: by insertion.
  for (const std::size_t axis : axes) {
    std::size_t i = result.count();
    result.add(axis);
    for (; i > 0 && result[i - 1] > axis; --i) result[i] = result[i - 1];
    result[i] = axis;
  }
  return result;
}

SIMDNORM_ONCE Reading reading_over_axes(Kind kind, Extents shape, const AxisList& axes, bool has_parameters) {
  Reading reading;
  const auto view = view_over_axes(shape, axes);
  if (view && can_fold(kind, *view) && (!has_parameters || view->channels > 0)) {
    reading.view = *view;
    return reading;
  }
  std::size_t rows = 1, units = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axes.has(axis)) continue;
    reading.order.add(axis);
    rows *= shape[axis];
  }
  for (const std::size_t axis : axes) {
    reading.order.add(axis);
    units *= shape[axis];
  }
  reading.view = {1, 1, rows, units, units, 1};
  reading.is_permuted = true;
  return reading;
}

template <class T>
const T* along_ascending(Extents shape, Extents axes, const AxisList& sorted, const T* values, T* room) {
  if (!values) return nullptr;
  const Parameters parameters(shape, axes, sorted);
  permute(values, parameters.extents, parameters.order, room);
  return room;
}

template <class T>
void along_given(Extents shape, Extents axes, const AxisList& sorted, const T* values, T* out) {
  const Parameters parameters(shape, axes, sorted);
  permute_back(values, parameters.extents, parameters.order, out);
}

#define SIMDNORM_INSTANTIATE(T)                                                       \
  template const T* along_ascending(Extents, Extents, const AxisList&, const T*, T*); \
  template void along_given(Extents, Extents, const AxisList&, const T*, T*);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE

}  // namespace simdnorm
