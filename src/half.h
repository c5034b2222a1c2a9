#pragma once
// Half precision as bits, and the conversions.

#include <cstddef>
#include <cstdint>

namespace simdnorm {

/// Half precision (binary16), as its bits. There is no arithmetic on it: it is loaded and stored as float.
struct Half {
  std::uint16_t bits;
};

/// Exact.
void widen(const Half* x, float* y, std::size_t count);
/// Each value rounded to nearest, ties to even. y may begin where x does.
void narrow(const float* x, Half* y, std::size_t count);

}  // namespace simdnorm
