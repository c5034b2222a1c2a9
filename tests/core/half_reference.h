#pragma once
// Half precision by its definition: IEEE 754, binary16.

#include <cmath>
#include <limits>

#include "call.h"
#include "data.h"
#include "simd.h"

namespace reference {

inline double value_of(simdnorm::Half half) {
  const int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
  const double sign = half.bits & 0x8000 ? -1 : 1;
  if (exponent == 31) {
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  // Subnormals have no hidden bit, and the least exponent of the others.
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

/// The nearest half; of two, the even one.
inline simdnorm::Half half_of(double value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  unsigned bits = 0;
  if (std::isnan(value)) {
    bits = 0x7e00;
  } else if (size >= 65520) {
    bits = 0x7c00;
  } else if (size > 0) {
    const int exponent = std::max(std::ilogb(size), -14);
    // Division by a power of two is exact, and nearbyint rounds ties to even. Steps that come to the next power
    // carry into the exponent.
    const double steps = std::nearbyint(std::ldexp(size, 10 - exponent));
    bits = static_cast<unsigned>(steps) + static_cast<unsigned>(exponent + 14) * 1024;
  }
  return {static_cast<std::uint16_t>(bits | sign)};
}

/// All of them.
inline ValuesOf<simdnorm::Half> halves_of(const Values& values) {
  ValuesOf<simdnorm::Half> result;
  for (const float value : values) result.push_back(half_of(value));
  return result;
}
inline Values values_of(const ValuesOf<simdnorm::Half>& halves) {
  Values result;
  for (const simdnorm::Half half : halves) result.push_back(static_cast<float>(value_of(half)));
  return result;
}

/// The same call on floats, of what the halves are.
inline Call as_floats(const CallOf<Half>& call) {
  Values x = values_of(call.x);
  const Values residual = values_of(call.residual);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    x[i] = static_cast<float>(value_of(half_of(double{x[i]} + residual[i])));
  }
  return {.shape = call.shape,
          .axes = call.axes,
          .x = x,
          .scale = call.scale,
          .bias = call.bias,
          .mean = call.mean,
          .variance = call.variance,
          .lengths = call.lengths,
          .epsilon = call.epsilon,
          .groups = call.groups,
          .p = call.p,
          .size = call.size,
          .alpha = call.alpha,
          .beta = call.beta,
          .k = call.k,
          .mean_out = call.mean_out,
          .variance_out = call.variance_out,
          .inv_std_out = call.inv_std_out};
}

}  // namespace reference
