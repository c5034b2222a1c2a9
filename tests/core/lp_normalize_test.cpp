#include "lp_normalize.h"

#include "definition.h"

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEMPLATE_TEST_CASE("division by norms is its definition", "", float, double) {
  using T = TestType;
  for (const double p : {1.0, 2.0, kInfinity}) {
    for (const double deviation : {0.1, 1.0, 30.0}) {
      for (const std::size_t units :
           {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 511, 513, 768, 1025}) {
        for (const std::size_t rows : {1, 2, 5, 300}) {
          if (rows * units > 20000) continue;
          const auto x = draw<T>(rows * units, static_cast<std::uint32_t>(units), 0.3, deviation);
          definition::check<T>(kLpNormalize, {.shape = {rows, units}, .axes = {1}, .x = x, .p = p},
                               "deviation " + text(deviation));
          definition::check<T>(kLpNormalize, {.shape = {units, rows}, .axes = {0}, .x = x, .p = p},
                               "deviation " + text(deviation));
        }
      }
    }
  }
}

TEST_CASE("the three norms are three") {
  const auto y = [](double p) {
    return run<float>(kLpNormalize, {.shape = {1, 2}, .axes = {1}, .x = {3, -4}, .epsilon = 0, .p = p}).y;
  };
  check_near({"lpNormalize", {1, 2}, "p 1"}, "y", y(1), {Real{3} / 7, Real{-4} / 7}, kPromise);
  check_near({"lpNormalize", {1, 2}, "p 2"}, "y", y(2), {Real{3} / 5, Real{-4} / 5}, kPromise);
  check_near({"lpNormalize", {1, 2}, "p infinity"}, "y", y(kInfinity), {Real{3} / 4, -1}, kPromise);
}

TEST_CASE("epsilon is the least divisor, not a part of it") {
  const auto y = [](double epsilon) {
    return run<float>(kLpNormalize, {.shape = {1, 2}, .axes = {1}, .x = {3, -4}, .epsilon = epsilon}).y[0];
  };
  CHECK(y(4.999) == y(0));
  check_near({"lpNormalize", {1, 2}, "epsilon 6"}, "y", Values{y(6)}, {Real{1} / 2}, kPromise);
}

TEST_CASE("doubles far from the largest of their group, and from epsilon, lose no bits") {
  const double large = 0x1p450;
  for (const double p : {1.0, 2.0, kInfinity}) {
    for (const std::size_t units : {3, 17, 100}) {
      // What is small is a subnormal in the units in which the squares of what is large have room.
      ValuesOf<double> x = draw<double>(3 * units, 1, 0, 0x1p-460);
      for (std::size_t row = 0; row < 3; ++row)
        x[row * units + row] = std::ldexp(large, 100 * static_cast<int>(row));
      for (const double epsilon : {0.0, 0x1p500}) {
        const std::string data = "small beside large, epsilon " + text(epsilon);
        definition::check<double>(
            kLpNormalize, {.shape = {3, units}, .axes = {1}, .x = x, .epsilon = epsilon, .p = p}, data);
        ValuesOf<double> columns(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) columns[i % units * 3 + i / units] = x[i];
        definition::check<double>(
            kLpNormalize, {.shape = {units, 3}, .axes = {0}, .x = columns, .epsilon = epsilon, .p = p}, data);
      }
      // In the units of such values epsilon overflows.
      definition::check<double>(kLpNormalize,
                                {.shape = {1, units},
                                 .axes = {1},
                                 .x = draw<double>(units, 1, 0, 0x1p-490),
                                 .epsilon = 0x1p440,
                                 .p = p},
                                "tiny, and a large epsilon");
    }
  }
}
