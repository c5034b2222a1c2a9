#include "layer_norm.h"

#include "definition.h"

using simdnorm::Status;

namespace {

template <class T>
void check_layer_norm(const CallOf<T>& call, std::size_t rows, std::size_t units, const std::string& data) {
  const Case what = case_of(kLayerNorm, call, data);
  const ResultOf<T> got = layer_norm(call);
  const auto want = reference::layer_norm(call.x, rows, units, call.scale, call.bias, call.epsilon);
  REQUIRE(got.status == Status::kOk);
  check_near(
      what, "y", got.y, want.y, [&](std::size_t i) { return want.magnitude[i]; }, kAffinePromiseOf<T>);
  definition::check_statistics(what, got, want);
}

}  // namespace

TEMPLATE_TEST_CASE("layer norm is its definition, with and without scale and bias", "", float, double) {
  // A unit deviation would hide a forgotten inv_std, equal scales a wrong index.
  for (const double deviation : {0.1, 1.0, 30.0}) {
    for (const std::size_t units :
         {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 511, 513, 768, 1025}) {
      for (const std::size_t rows : {1, 2, 5, 300}) {
        if (rows * units > 20000) continue;
        const auto x = draw<TestType>(rows * units, static_cast<std::uint32_t>(units), 3, deviation);
        for (int parameters = 0; parameters < 4; ++parameters) {
          CallOf<TestType> call = {.shape = {rows, units}, .axes = {}, .x = x};
          if (parameters & 1) call.scale = draw<TestType>(units, 7, 1, 3);
          if (parameters & 2) call.bias = draw<TestType>(units, 8, -2, 5);
          check_layer_norm(call, rows, units,
                           "deviation " + text(deviation) + ", parameters " + std::to_string(parameters));
        }
      }
    }
  }
}

TEST_CASE("layer norm over several axes is layer norm over their product") {
  const Shape shape = {2, 3, 4, 5};
  const Values x = draw(120, 1, -1, 4);
  check_layer_norm<float>({.shape = shape, .axes = {3}, .x = x, .scale = draw(5, 2), .bias = draw(5, 3)}, 24,
                          5, "{3}");
  check_layer_norm<float>({.shape = shape, .axes = {2, 3}, .x = x, .scale = draw(20, 2), .bias = draw(20, 3)},
                          6, 20, "{2, 3}");
  check_layer_norm<float>({.shape = shape, .axes = {0, 1, 2, 3}, .x = x, .scale = draw(120, 2)}, 1, 120,
                          "all axes");
  // An extent of 1 after the axes moves nothing.
  check_layer_norm<float>({.shape = {6, 20, 1}, .axes = {1}, .x = x, .scale = draw(20, 2)}, 6, 20,
                          "{1} of 3");
}

TEST_CASE("layer norm without axes reduces nothing: y is bias") {
  const Values x = draw(6, 1, 3, 2);
  Values y(6);
  const Values bias = {0.1f};
  const Shape shape = {2, 3};
  REQUIRE(simdnorm::layer_norm({.shape = shape, .x = x.data(), .y = y.data(), .bias = bias.data()}) ==
          Status::kOk);
  check_all({"layerNorm", shape, "no axes"}, "y", y, 0.1f);
}

TEST_CASE("no rows and no values: nothing is written") {
  for (const Shape& shape : {Shape{0, 5}, Shape{5, 0}, Shape{0}, Shape{0, 0}}) {
    CHECK(layer_norm({.shape = shape, .axes = {}, .x = {}}).status == Status::kOk);
  }
}

TEST_CASE("epsilon is inside the root, and is used") {
  const auto first = [](double epsilon) {
    return layer_norm({.shape = {2}, .axes = {}, .x = {0, 0.002f}, .epsilon = epsilon}).y[0];
  };
  const Real half = Real{0.002f} / 2;
  const Case what = {"layerNorm", {2}, "[0, 0.002]"};
  // 0.9901 would be epsilon outside of it.
  check_near(what, "y", Values{first(1e-5)}, {-half / std::sqrt(half * half + 1e-5)}, kPromise);
  CHECK(std::fabs(first(1e-5) + 0.30151) < 1e-5);
  CHECK(first(0) == -1);
  CHECK(first(1e-3) != first(1e-5));
  CHECK(first(1e10) > -1e-7f);
}

TEST_CASE("scale and bias are used, each by its own unit") {
  const Values x = draw(64, 1, 3, 2);
  const auto y = [&](Values scale, Values bias) {
    return layer_norm({.shape = {8, 8}, .axes = {}, .x = x, .scale = scale, .bias = bias}).y;
  };
  const Values plain = y({}, {});
  Values one_scale(8, 1), one_bias(8, 0);
  one_scale[5] = 2;
  one_bias[6] = 1;
  const Values scaled = y(one_scale, {}), biased = y({}, one_bias);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(scaled[i] == (i % 8 == 5 ? 2 * plain[i] : plain[i]));
    CHECK(biased[i] == (i % 8 == 6 ? 1 + plain[i] : plain[i]));
  }
}
