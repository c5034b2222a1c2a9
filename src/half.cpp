#include "half.h"

#include <algorithm>

#include "simd.h"

namespace simdnorm {
namespace {

/// Calls body(i, count) for vectors of four values and what is left.
template <class Body>
void each_four(std::size_t count, Body body) {
  std::size_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) body(i, kLanes<float>);
  if (i < count) body(i, count - i);
}

f32x4 load_some(const Half* p, std::size_t count) {
  if (count == kLanes<float>) return load(p);
  Half halves[kLanes<float>] = {};
  std::copy_n(p, count, halves);
  return load(halves);
}

void store_some(Half* p, std::size_t count, f32x4 values) {
  Half halves[kLanes<float>];
  store(halves, values);
  std::copy_n(halves, count, p);
}

void store_some(float* p, std::size_t count, f32x4 values) {
  if (count == kLanes<float>) {
    store(p, values);
  } else {
    store_partial(p, count, values);
  }
}

f32x4 load_some(const float* p, std::size_t count) {
  return count == kLanes<float> ? load(p) : load_partial(p, count, f32x4::splat(0));
}

}  // namespace

SIMDNORM_ONCE void widen(const Half* x, float* y, std::size_t count) {
  each_four(count, [&](std::size_t i, std::size_t n) { store_some(y + i, n, load_some(x + i, n)); });
}

SIMDNORM_ONCE void narrow(const float* x, Half* y, std::size_t count) {
  each_four(count, [&](std::size_t i, std::size_t n) { store_some(y + i, n, load_some(x + i, n)); });
}

}  // namespace simdnorm
