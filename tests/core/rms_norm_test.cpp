#include "rms_norm.h"

#include "definition.h"

TEMPLATE_TEST_CASE("RMS norm is its definition, with and without scale", "", float, double) {
  using T = TestType;
  for (const double deviation : {0.1, 1.0, 30.0}) {
    for (const std::size_t units :
         {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 511, 513, 768, 1025}) {
      for (const std::size_t rows : {1, 2, 5, 300}) {
        if (rows * units > 20000) continue;
        for (const double mean : {0.0, 3.0}) {
          CallOf<T> call = {.shape = {rows, units},
                            .axes = {1},
                            .x = draw<T>(rows * units, static_cast<std::uint32_t>(units), mean, deviation)};
          definition::check(kRmsNorm, call, "deviation " + text(deviation));
          call.scale = draw<T>(units, 7, 1, 3);
          definition::check(kRmsNorm, call, "scale, deviation " + text(deviation));
        }
      }
    }
  }
}

TEST_CASE("RMS norm: the mean stays in y") {
  const auto y = [](float offset) {
    return run<float>(kRmsNorm,
                      {.shape = {3}, .axes = {0}, .x = {1 + offset, 2 + offset, 4 + offset}, .epsilon = 0})
        .y;
  };
  // [1, 2, 4] / sqrt(7), and about 1 where the deviations are small.
  const Real root = std::sqrt(Real{7});
  check_near({"rmsNorm", {3}, "[1, 2, 4]"}, "y", y(0), {1 / root, 2 / root, 4 / root}, kPromise);
  for (const float value : y(1e6f)) CHECK(std::fabs(value - 1) < 1e-5f);
}

TEST_CASE("RMS norm: epsilon is inside the root, and is used") {
  const auto first = [](double epsilon) {
    return run<float>(kRmsNorm, {.shape = {2}, .axes = {0}, .x = {0.001f, -0.001f}, .epsilon = epsilon}).y[0];
  };
  const Real x = Real{0.001f};
  // 0.09901 would be epsilon outside of it.
  check_near({"rmsNorm", {2}, "+-0.001"}, "y", Values{first(1e-5)}, {x / std::sqrt(x * x + Real{1e-5})},
             kPromise);
  CHECK(first(0) == 1);
  CHECK(first(1e-3) != first(1e-5));
}
