#include "local_response_norm.h"

#include "definition.h"

using simdnorm::Status;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// What the header promises, times |y|.
template <class T>
double promise(double beta) {
  return (std::is_same_v<T, float> ? 2 : (4 + std::fabs(beta)) * 4) * kEpsilonOf<T>;
}

template <class T>
std::string text_of_constants(const CallOf<T>& call) {
  return "size " + std::to_string(call.size) + ", alpha " + text(call.alpha) + ", beta " + text(call.beta) +
         ", k " + text(call.k);
}

/// The largest error, in promises.
template <class T>
double check(CallOf<T> call, const std::string& data) {
  const Case what = case_of(kLocalResponseNorm, call, text_of_constants(call) + ", " + data);
  const std::size_t axis = call.axes[0];
  const Shape& shape = call.shape;
  const reference::Channels channels = {product({shape.begin(), shape.begin() + axis}), 1, shape[axis],
                                        product({shape.begin() + axis + 1, shape.end()})};
  const Reals want =
      reference::local_response_norm(call.x, channels, call.size, call.alpha, call.beta, call.k);
  const auto magnitude = [&](std::size_t i) {
    // What is subnormal has no relative error to speak of.
    return std::fabs(want[i]) + Real{std::numeric_limits<T>::min()};
  };
  const ResultOf<T> got = run(kLocalResponseNorm, call);
  REQUIRE(got.status == Status::kOk);
  check_near(what, "y", got.y, want, magnitude, promise<T>(call.beta));
  call.in_place = true;
  check_bits(what, "y in place", run(kLocalResponseNorm, call).y, got.y);
  return worst_error(got.y, want, magnitude).error / promise<T>(call.beta);
}

}  // namespace

TEMPLATE_TEST_CASE("local response norm is its definition: even and odd windows, anywhere", "", float,
                   double) {
  using T = TestType;
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 3}, Shape{3, 7}, Shape{2, 8, 3}, Shape{2, 5, 1, 4},
                             Shape{1, 40, 2}, Shape{2, 3, 4, 5}, Shape{1, 2, 33}, Shape{7}}) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      for (const std::size_t size : {1, 2, 3, 4, 5, 6, 9, 100, 1000000}) {
        const CallOf<T> call = {.shape = shape,
                                .axes = {axis},
                                .x = draw<T>(product(shape), static_cast<std::uint32_t>(size), 1, 2),
                                .size = size,
                                .alpha = 0.3 * static_cast<double>(size),
                                .beta = 0.75,
                                .k = 2};
        check(call, "by the size of the window");
      }
    }
  }
}

TEMPLATE_TEST_CASE("local response norm: beta of many kinds", "", float, double) {
  using T = TestType;
  double worst = 0;
  std::string at;
  for (const double beta :
       {0.0,   0.5,     0.75,        1.0,   2.0,  3.0,  0.1,  1.0 / 3, 2.0 / 3, 0.7,  1.1, 1.7,
        2.625, 0x1p-40, 1 - 0x1p-50, 4.999, 7.25, 10.3, -0.5, -0.75,   -1.0,    -0.3, -2.1}) {
    for (const double alpha : {1e-4, 1.0, 100.0}) {
      for (const double k : {0.0, 1e-3, 1.0, 2.0, 50.0}) {
        for (const double size : {0.01, 1.0, 30.0}) {
          const CallOf<T> call = {.shape = {2, 9, 5},
                                  .axes = {1},
                                  .x = draw<T>(90, 3, 0.2 * size, size),
                                  .size = 5,
                                  .alpha = alpha,
                                  .beta = beta,
                                  .k = k};
          const double error = check(call, "std " + text(size));
          if (error > worst) {
            worst = error;
            at = text_of_constants(call);
          }
        }
      }
    }
  }
  std::printf("localResponseNorm of %s: worst %.3g of the promise (%s)\n",
              sizeof(T) == 4 ? "floats" : "doubles", worst, at.c_str());
}

TEMPLATE_TEST_CASE("local response norm: roots of what is near 1 lose nothing", "", float, double) {
  // Roots of 1 - epsilon stay there, of 1 + epsilon don't: what is lost adds up.
  for (const double k : {1.0, 1 - 0x1p-53, 1 + 0x1p-52, 1 - 0x1p-50, 0x1p-2, 1e-3, 1e3}) {
    for (const double beta : {1 - 0x1p-53, 0.1, 1.0 / 3, 0.7, 0.999, 2.99}) {
      const CallOf<TestType> call = {.shape = {1, 5},
                                     .axes = {1},
                                     .x = {1, -2, 3, 0.1f, 5},
                                     .size = 3,
                                     .alpha = 1e-30,
                                     .beta = beta,
                                     .k = k};
      check(call, "near 1");
    }
  }
}

TEST_CASE("local response norm: float squares that are no floats") {
  for (const double size : {1e-40, 1e-30, 1e-20, 1e19, 1e30, 3e37}) {
    for (const double beta : {0.5, 0.75, 1.0, 0.1, -0.5}) {
      for (const double k : {0.0, 1.0}) {
        check<float>({.shape = {2, 9, 3},
                      .axes = {1},
                      .x = draw(54, 4, 0, size),
                      .size = 3,
                      .alpha = 1,
                      .beta = beta,
                      .k = k},
                     "std " + text(size));
      }
    }
  }
}

TEST_CASE("local response norm: double squares that are no doubles") {
  for (const double size :
       {1e-307, 1e-200, 1e-170, 1e-155, 1e-145, 1e140, 1e150, 1e155, 1e160, 1e200, 1e300}) {
    for (const double beta : {0.5, 0.75, 1.0, 0.1, 0.3, -0.25}) {
      for (const double alpha : {1e-4, 1.0, 1e4}) {
        for (const double k : {0.0, 1.0, 1e-20, 1e20}) {
          check<double>({.shape = {2, 9, 3},
                         .axes = {1},
                         .x = draw<double>(54, 4, 0, size),
                         .size = 3,
                         .alpha = alpha,
                         .beta = beta,
                         .k = k},
                        "std " + text(size));
        }
      }
    }
  }
  // Small and large values in one window.
  for (const double beta : {0.5, 0.75, 1.0}) {
    check<double>({.shape = {1, 7},
                   .axes = {1},
                   .x = {1e300, 1e-300, 1, 1e-200, 1e-160, 1e200, 3},
                   .size = 3,
                   .alpha = 1,
                   .beta = beta,
                   .k = 1e-3},
                  "all sizes");
  }
}

TEST_CASE("local response norm: constants that make sums of double squares no doubles") {
  // Squares that are ordinary, times an alpha, or besides a k, that isn't.
  for (const double size : {1e-3, 1.0, 1e3}) {
    for (const double beta : {0.5, 0.75}) {
      const auto check_constants = [&](double alpha, double k) {
        check<double>({.shape = {1, 9},
                       .axes = {1},
                       .x = draw<double>(9, 5, 0, size),
                       .size = 3,
                       .alpha = alpha,
                       .beta = beta,
                       .k = k},
                      "std " + text(size));
      };
      check_constants(1, 1e295);
      check_constants(1e300, 1);
      check_constants(1e-298, 0);
      check_constants(1e-300, 1e-300);
    }
  }
}

TEST_CASE("local response norm: powers that are no doubles, of results that are") {
  for (const double beta : {2.0, 2.3, 3.0, 7.25, -2.0, -3.0}) {
    for (const double size : {1e-300, 1e-150, 1e-50, 1e50, 1e150, 1e300}) {
      // Such that alpha * x^2, or k, is of the size of other doubles than x^2 is.
      for (const double s : {1e-120, 1e-40, 1.0, 1e40, 1e120}) {
        const double alpha = s / size / size;
        if (!std::isnormal(alpha)) continue;
        for (const double k : {0.0, s}) {
          check<double>({.shape = {1, 9},
                         .axes = {1},
                         .x = draw<double>(9, 5, 0, size),
                         .size = 3,
                         .alpha = alpha,
                         .beta = beta,
                         .k = k},
                        "std " + text(size));
        }
      }
    }
  }
}

TEST_CASE("local response norm reads its scratch and nothing past it") {
  // The last value of an odd number is computed beside nothing, and a k of 0 is out of range there. The padded
  // channels fill the scratch to its last byte where their number is a multiple of 8.
  for (const Shape& shape :
       {Shape{1, 7}, Shape{1, 13}, Shape{3, 15}, Shape{1, 1, 7}, Shape{1, 5, 1}, Shape{2, 3, 5}}) {
    for (const std::size_t size : {1, 2, 3, 4, 5, 6, 8, 10}) {
      for (const double k : {0.0, 1.0}) {
        check<double>({.shape = shape,
                       .axes = {1},
                       .x = draw<double>(product(shape), 6, 0, 1),
                       .size = size,
                       .alpha = 1,
                       .beta = 0.5,
                       .k = k},
                      "an odd number");
      }
    }
  }
}

TEMPLATE_TEST_CASE("local response norm: NaN and infinity stay in the windows that have them", "", float,
                   double) {
  using T = TestType;
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    for (const double beta : {0.75, 1.0, 0.3}) {
      CallOf<T> call = {.shape = {1, 9, 2},
                        .axes = {1},
                        .x = draw<T>(18, 7, 0, 1),
                        .size = 3,
                        .alpha = 1,
                        .beta = beta,
                        .k = 1};
      const ValuesOf<T> before = run(kLocalResponseNorm, call).y;
      call.x[8] = static_cast<T>(bad);
      const ValuesOf<T> after = run(kLocalResponseNorm, call).y;
      for (std::size_t i = 0; i < 18; ++i) {
        const bool beside = i == 6 || i == 10;
        INFO("value " << bad << ", beta " << beta << ", y[" << i << "] = " << after[i]);
        // x / infinity is 0, infinity / infinity is NaN.
        if (i == 8 || (beside && std::isnan(bad))) {
          CHECK(std::isnan(after[i]));
        } else if (beside) {
          CHECK(after[i] == 0);
        } else {
          CHECK(bits_of(after[i]) == bits_of(before[i]));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("local response norm: zeros", "", float, double) {
  using T = TestType;
  const auto y = [](double k, double beta) {
    return run<T>(kLocalResponseNorm,
                  {.shape = {1, 3}, .axes = {1}, .x = {0, 0, 0}, .size = 3, .beta = beta, .k = k})
        .y;
  };
  check_all({"localResponseNorm", {1, 3}, "zeros"}, "y", y(1, 0.75), 0);
  check_all({"localResponseNorm", {1, 3}, "zeros, beta 0"}, "y", y(0, 0), 0);
  check_all({"localResponseNorm", {1, 3}, "zeros, k 0"}, "y", y(0, 0.75),
            std::numeric_limits<T>::quiet_NaN());
}

TEMPLATE_TEST_CASE("local response norm: an odd last value beside the end of the scratch", "", float,
                   double) {
  using T = TestType;
  // Alone in its vector, whose other lane has k = 0 for its sum. With as many values as fill 64 bytes the
  // sanitizers see what is read after them.
  for (const std::size_t channels : {1, 3, 5, 7}) {
    for (std::size_t size = 1; size <= 8; ++size) {
      const CallOf<T> call = {.shape = {1, channels},
                              .axes = {1},
                              .x = ValuesOf<T>(channels, T{3}),
                              .size = size,
                              .alpha = static_cast<double>(size),
                              .beta = 0.5,
                              .k = 0};
      const ValuesOf<T> y = run(kLocalResponseNorm, call).y;
      const double window = static_cast<double>(std::min(channels, (size - 1) / 2 + 1));
      CHECK(std::fabs(y.back() * std::sqrt(window) - 1) < 1e-6);
    }
  }
}

TEST_CASE("local response norm without values writes nothing") {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{2, 3, 0}}) {
    CHECK(run<float>(kLocalResponseNorm, {.shape = shape, .axes = {1}, .size = 5}).status == Status::kOk);
    CHECK(run<double>(kLocalResponseNorm, {.shape = shape, .axes = {1}, .size = 5}).status == Status::kOk);
  }
}

TEMPLATE_TEST_CASE("local response norm: each item and place is equal to it alone", "", float, double) {
  using T = TestType;
  const std::size_t items = 3, channels = 7, places = 5;
  CallOf<T> call = {.shape = {items, channels, places},
                    .axes = {1},
                    .x = draw<T>(items * channels * places, 8, 0, 1),
                    .size = 4,
                    .alpha = 1,
                    .beta = 0.7,
                    .k = 0.5};
  const ValuesOf<T> together = run(kLocalResponseNorm, call).y;
  for (std::size_t item = 0; item < items; ++item) {
    for (std::size_t place = 0; place < places; ++place) {
      CallOf<T> single = call;
      single.shape = {1, channels};
      single.x.clear();
      ValuesOf<T> own;
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t e = (item * channels + c) * places + place;
        single.x.push_back(call.x[e]);
        own.push_back(together[e]);
      }
      check_bits(case_of(kLocalResponseNorm, call, "a place alone"), "y", run(kLocalResponseNorm, single).y,
                 own);
    }
  }
}

TEMPLATE_TEST_CASE("local response norm: what must show, shows", "", float, double) {
  using T = TestType;
  const CallOf<T> call = {
      .shape = {1, 9}, .axes = {1}, .x = draw<T>(9, 9, 0, 1), .size = 4, .alpha = 1, .beta = 0.75, .k = 1};
  const auto differs = [&](auto change) {
    CallOf<T> changed = call;
    change(changed);
    return run(kLocalResponseNorm, changed).y != run(kLocalResponseNorm, call).y;
  };
  CHECK(differs([](auto& c) { c.size = 5; }));
  CHECK(differs([](auto& c) { c.size = 3; }));
  CHECK(differs([](auto& c) { c.alpha = 1.1; }));
  CHECK(differs([](auto& c) { c.beta = 0.7; }));
  CHECK(differs([](auto& c) { c.k = 1.1; }));
  // The even window reaches further right: a value is seen by more to its left.
  CallOf<T> moved = call;
  moved.x[4] += 1;
  const ValuesOf<T> before = run(kLocalResponseNorm, call).y, after = run(kLocalResponseNorm, moved).y;
  for (std::size_t i = 0; i < 9; ++i) CHECK((before[i] != after[i]) == (i >= 2 && i <= 5));
}
