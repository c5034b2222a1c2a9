#pragma once
// Values to test with, the same in every run.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

template <class T>
using ValuesOf = std::vector<T>;
using Values = ValuesOf<float>;
/// What is expected: more precise than doubles.
using Real = long double;
using Reals = std::vector<Real>;
using Shape = std::vector<std::size_t>;

inline std::size_t product(const Shape& shape) {
  std::size_t result = 1;
  for (std::size_t extent : shape) result *= extent;
  return result;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761u + 1) {}

  /// Marsaglia 2003, "Xorshift RNGs".
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  std::size_t below(std::size_t limit) { return next() % limit; }
  /// Between 0 and 1, both left out.
  double unit() { return (next() + 0.5) / 4294967296.0; }
  double between(double low, double high) { return low + (high - low) * unit(); }

 private:
  std::uint32_t state_;
};

/// Values with a deviation of about 1, each in the way of its own hard for some algorithm.
struct Distribution {
  const char* name;
  double (*value)(Random& random, std::size_t i, std::size_t count);
};

inline double bell(Random& random, std::size_t, std::size_t) {
  return (random.unit() + random.unit() + random.unit() + random.unit() - 2) * 1.7320508;
}

inline double size_of(std::size_t count) { return 1 + 0.4 * std::sin(static_cast<double>(count)); }

inline constexpr Distribution kDistributions[] = {
    {"bell", bell},
    {"uniform", [](Random& random, std::size_t, std::size_t) { return random.between(-1.75, 1.75); }},
    // All deviations equal: float sums of equal squares round in one direction, by how much depends on the
    // square.
    {"+-c", [](Random& random, std::size_t,
               std::size_t count) { return (random.next() & 1024 ? 1 : -1) * size_of(count); }},
    {"alternating",
     [](Random&, std::size_t i, std::size_t count) { return (i % 2 ? 1 : -1) * size_of(count + 1); }},
    {"exponential", [](Random& random, std::size_t, std::size_t) { return -std::log(random.unit()) - 1; }},
    {"ramp",
     [](Random&, std::size_t i, std::size_t count) {
       return (static_cast<double>(i) / static_cast<double>(count) - 0.5) * 3.46;
     }},
    // What a pivot chosen from the first 16 values is misled by.
    {"16 far", [](Random& random, std::size_t i,
                  std::size_t count) { return bell(random, i, count) + (i < 16 ? 300 : 0); }},
    {"16 equal",
     [](Random& random, std::size_t i, std::size_t count) { return i < 16 ? 0.53 : bell(random, i, count); }},
    {"16 small",
     [](Random& random, std::size_t i, std::size_t count) {
       return i < 16 ? 1e-4 * bell(random, i, count) : 1 + bell(random, i, count);
     }},
    {"one huge", [](Random& random, std::size_t i,
                    std::size_t count) { return i == count * 2 / 3 ? 3e4 : bell(random, i, count); }},
};

template <class T = float>
ValuesOf<T> draw(std::size_t count, std::uint32_t seed, double mean = 0, double deviation = 1,
                 const Distribution& distribution = kDistributions[0]) {
  Random random(seed);
  ValuesOf<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(mean + deviation * distribution.value(random, i, count));
  }
  return values;
}
