#pragma once
// How results are compared, and what a failure says.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "data.h"

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
/// What the headers promise of y before scale and bias, times max(1, |y|): 6e-7, which is 5 machine epsilons.
inline constexpr double kPromise = 5 * kEpsilon;
/// With scale and bias: their two roundings more.
inline constexpr double kAffinePromise = kPromise + kEpsilon;

/// What is tested, for the message.
struct Case {
  std::string op;
  Shape shape;
  std::string data;
};

inline std::string text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

inline std::string text(const Shape& shape) {
  std::string result = "[";
  for (std::size_t extent : shape) result += (result.size() > 1 ? ", " : "") + std::to_string(extent);
  return result + "]";
}

/// std::bit_cast, which the C++ library of emscripten 3.1.6 has not.
inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// How many floats lie between a value and the float nearest to what was expected.
inline std::int64_t ulps(float got, double expected) {
  const auto place = [](float value) {
    const std::int64_t bits = bits_of(value);
    return bits & 0x80000000 ? 0x80000000 - bits : bits;
  };
  return std::abs(place(got) - place(static_cast<float>(expected)));
}

struct Worst {
  double error = 0;
  std::size_t index = 0;
};

/// The largest |got - expected| / magnitude(i). NaN is right where NaN is expected and infinitely wrong
/// elsewhere.
template <class Magnitude>
Worst worst_error(const Values& got, const std::vector<double>& expected, Magnitude magnitude) {
  REQUIRE(got.size() == expected.size());
  Worst worst;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    double error = std::fabs(got[i] - expected[i]) / magnitude(i);
    if (!(error < std::numeric_limits<double>::infinity())) error = std::numeric_limits<double>::infinity();
    if (error > worst.error) worst = {error, i};
  }
  return worst;
}

inline std::string report(const Case& what, const char* output, Worst worst, const Values& got,
                          const std::vector<double>& expected, double bound) {
  const std::size_t i = worst.index;
  return what.op + " " + text(what.shape) + " " + what.data + ": " + output + "[" + std::to_string(i) +
         "]: expected " + text(expected[i]) + ", got " + text(got[i]) + ", " +
         std::to_string(ulps(got[i], expected[i])) + " ULP, error " + text(worst.error) + ", bound " +
         text(bound);
}

template <class Magnitude>
void check_near(const Case& what, const char* output, const Values& got, const std::vector<double>& expected,
                Magnitude magnitude, double bound) {
  const Worst worst = worst_error(got, expected, magnitude);
  if (!(worst.error <= bound)) FAIL(report(what, output, worst, got, expected, bound));
}

/// Relative to each value expected.
inline void check_near(const Case& what, const char* output, const Values& got,
                       const std::vector<double>& expected, double bound) {
  check_near(
      what, output, got, expected, [&](std::size_t i) { return std::fabs(expected[i]); }, bound);
}

/// Equal to the bit, so that -0 is not 0; all NaNs are equal.
inline void check_bits(const Case& what, const char* output, const Values& got, const Values& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (bits_of(got[i]) == bits_of(expected[i])) continue;
    if (std::isnan(got[i]) && std::isnan(expected[i])) continue;
    const Worst worst = {std::fabs(double{got[i]} - double{expected[i]}), i};
    FAIL(report(what, output, worst, got, {expected.begin(), expected.end()}, 0));
  }
}

/// The same for values that are known as one number.
inline void check_all(const Case& what, const char* output, const Values& got, float expected) {
  check_bits(what, output, got, Values(got.size(), expected));
}
