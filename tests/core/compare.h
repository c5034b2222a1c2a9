#pragma once
// How results are compared, and what a failure says.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "catch.h"
#include "data.h"
#include "simd.h"

using simdnorm::Half;

template <class T>
inline constexpr double kEpsilonOf = std::numeric_limits<T>::epsilon();
/// What the headers promise of y before scale and bias, times max(1, |y|): 5 machine epsilons, which is 6e-7
/// for floats.
template <class T>
inline constexpr double kPromiseOf = 5 * kEpsilonOf<T>;
/// With scale and bias: their two roundings more.
template <class T>
inline constexpr double kAffinePromiseOf = kPromiseOf<T> + kEpsilonOf<T>;

inline constexpr double kEpsilon = kEpsilonOf<float>;
inline constexpr double kPromise = kPromiseOf<float>;
inline constexpr double kAffinePromise = kAffinePromiseOf<float>;

/// What is tested, for the message.
struct Case {
  std::string op;
  Shape shape;
  std::string data;
};

inline std::string text(double value, int digits = 9) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  return buffer;
}

inline std::string text(const Shape& shape) {
  std::string result = "[";
  for (std::size_t extent : shape) result += (result.size() > 1 ? ", " : "") + std::to_string(extent);
  return result + "]";
}

/// std::bit_cast, which the C++ library of emscripten 3.1.6 has not.
template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
bool is_nan(T value) {
  return value != value;
}
inline bool is_nan(Half value) { return (value.bits & 0x7fff) > 0x7c00; }

template <class T>
std::string text_of(T value) {
  return text(static_cast<double>(value), std::numeric_limits<T>::max_digits10);
}
inline std::string text_of(Half value) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "bits %04x", static_cast<unsigned>(value.bits));
  return buffer;
}

/// How many values of T lie between a value and the one nearest to what was expected.
template <class T>
std::int64_t ulps(T got, Real expected) {
  using Signed = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  const auto place = [](T value) {
    const auto bits = static_cast<Signed>(bits_of(value));
    return std::int64_t{bits < 0 ? static_cast<Signed>(std::numeric_limits<Signed>::min() - bits) : bits};
  };
  const std::int64_t from = place(got), to = place(static_cast<T>(expected));
  // Values of opposite signs may be further apart than a number says.
  const double distance = std::fabs(static_cast<double>(from) - static_cast<double>(to));
  return distance < 1e18 ? std::abs(from - to) : std::int64_t{1000000000000000000};
}

struct Worst {
  double error = 0;
  std::size_t index = 0;
};

/// The largest |got - expected| / magnitude(i). NaN is right where NaN is expected and infinitely wrong
/// elsewhere; infinity is right where T has nothing nearer.
template <class T, class Magnitude>
Worst worst_error(const ValuesOf<T>& got, const Reals& expected, Magnitude magnitude) {
  REQUIRE(got.size() == expected.size());
  Worst worst;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == static_cast<T>(expected[i]) && std::isinf(got[i])) continue;
    if (Real{got[i]} == expected[i] || (is_nan(got[i]) && is_nan(expected[i]))) continue;
    const Real distance = std::fabs(got[i] - expected[i]), unit = static_cast<Real>(magnitude(i));
    // Most are not the worst, and a product is faster than a quotient.
    if (distance <= worst.error * unit) continue;
    double error = static_cast<double>(distance / unit);
    if (!(error < std::numeric_limits<double>::infinity())) error = std::numeric_limits<double>::infinity();
    if (error > worst.error) worst = {error, i};
  }
  return worst;
}

template <class T>
std::string report(const Case& what, const char* output, Worst worst, const ValuesOf<T>& got,
                   const Reals& expected, double bound) {
  const std::size_t i = worst.index;
  return what.op + " " + text(what.shape) + " " + what.data + ": " + output + "[" + std::to_string(i) +
         "]: expected " + text(static_cast<double>(expected[i]), std::numeric_limits<T>::max_digits10) +
         ", got " + text_of(got[i]) + ", " + std::to_string(ulps(got[i], expected[i])) + " ULP, error " +
         text(worst.error) + ", bound " + text(bound);
}

template <class T, class Magnitude>
void check_near(const Case& what, const char* output, const ValuesOf<T>& got, const Reals& expected,
                Magnitude magnitude, double bound) {
  const Worst worst = worst_error(got, expected, magnitude);
  if (!(worst.error <= bound)) FAIL(report(what, output, worst, got, expected, bound));
}

/// Relative to each value expected.
template <class T>
void check_near(const Case& what, const char* output, const ValuesOf<T>& got, const Reals& expected,
                double bound) {
  check_near(
      what, output, got, expected, [&](std::size_t i) { return std::fabs(expected[i]); }, bound);
}

/// Equal to the bit, so that -0 is not 0; all NaNs are equal.
template <class T>
void check_bits(const Case& what, const char* output, const ValuesOf<T>& got,
                const std::type_identity_t<ValuesOf<T>>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (bits_of(got[i]) == bits_of(expected[i])) continue;
    if (is_nan(got[i]) && is_nan(expected[i])) continue;
    std::string distance;
    if constexpr (std::is_floating_point_v<T>) {
      distance = ", " + std::to_string(ulps(got[i], Real{expected[i]})) + " ULP";
    }
    FAIL(what.op << " " << text(what.shape) << " " << what.data << ": " << output << "[" << i
                 << "]: expected " << text_of(expected[i]) << " to the bit, got " << text_of(got[i])
                 << distance);
  }
}

/// The same for values that are known as one number.
template <class T>
void check_all(const Case& what, const char* output, const ValuesOf<T>& got,
               std::type_identity_t<T> expected) {
  check_bits(what, output, got, ValuesOf<T>(got.size(), expected));
}
