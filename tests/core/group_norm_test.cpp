#include "group_norm.h"

#include "definition.h"

using simdnorm::Status;

namespace {

template <class T>
void check_with_all_parameters(const Operation& operation, const Shape& shape, std::size_t axis,
                               std::size_t groups) {
  // A unit deviation would hide a forgotten inv_std.
  for (const double deviation : {0.1, 30.0}) {
    CallOf<T> call = {.shape = shape,
                      .axes = {axis},
                      .x = draw<T>(product(shape), static_cast<std::uint32_t>(groups + axis), 3, deviation),
                      .groups = groups};
    for (int parameters = 0; parameters < 4; ++parameters) {
      call.scale = parameters & 1 ? draw<T>(shape[axis], 7, 1, 3) : ValuesOf<T>{};
      call.bias = parameters & 2 ? draw<T>(shape[axis], 8, -2, 5) : ValuesOf<T>{};
      definition::check(operation, call,
                        "deviation " + text(deviation) + ", parameters " + std::to_string(parameters));
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("group norm is its definition: every channel axis and number of groups", "", float,
                   double) {
  for (const Shape& shape :
       {Shape{3, 12}, Shape{2, 1}, Shape{2, 12, 5}, Shape{2, 6, 40}, Shape{3, 5, 12}, Shape{2, 4, 6, 3},
        Shape{2, 12, 1, 2}, Shape{1, 3, 2, 24}, Shape{2, 2, 3, 2, 6}, Shape{2, 600}, Shape{2, 3, 600}}) {
    for (std::size_t axis = 1; axis < shape.size(); ++axis) {
      for (const std::size_t groups : {1, 2, 3, 4, 6, 12, 100, 600}) {
        if (shape[axis] % groups == 0) check_with_all_parameters<TestType>(kGroupNorm, shape, axis, groups);
      }
    }
  }
}

TEMPLATE_TEST_CASE("group norm is its definition: stretches of one scale, of every length", "", float,
                   double) {
  // Channels first: a group is a run of several channels' places.
  for (std::size_t places = 1; places <= 40; ++places) {
    check_with_all_parameters<TestType>(kGroupNorm, {2, 6, places}, 1, 2);
    check_with_all_parameters<TestType>(kGroupNorm, {1, 40, places}, 1, 2);
  }
  // Channels last: one group of several rows of scales, which are read as they lie from 16 channels on.
  for (std::size_t channels = 1; channels <= 40; ++channels) {
    check_with_all_parameters<TestType>(kGroupNorm, {2, 9, channels}, 2, 1);
    check_with_all_parameters<TestType>(kGroupNorm, {2, 150, channels}, 2, 1);
  }
  // Longer than what is spelled out at a time.
  for (const std::size_t channels : {255, 256, 257, 511, 512, 513, 1024}) {
    check_with_all_parameters<TestType>(kGroupNorm, {1, 3, channels}, 2, 1);
    check_with_all_parameters<TestType>(kGroupNorm, {1, channels, 3}, 1, 1);
  }
}

TEMPLATE_TEST_CASE("instance norm is its definition: every channel axis", "", float, double) {
  for (const Shape& shape :
       {Shape{3, 7}, Shape{2, 5, 1}, Shape{2, 4, 5}, Shape{3, 3, 40}, Shape{2, 40, 3}, Shape{2, 3, 4, 5},
        Shape{1, 2, 3, 2, 4}, Shape{2, 300, 2}, Shape{2, 3, 600}, Shape{1, 600, 17}}) {
    for (std::size_t axis = 1; axis < shape.size(); ++axis) {
      check_with_all_parameters<TestType>(kInstanceNorm, shape, axis, 1);
    }
  }
}

TEST_CASE("group norm and instance norm without values write nothing") {
  for (const Shape& shape : {Shape{0, 4, 5}, Shape{2, 0, 5}, Shape{2, 4, 0}}) {
    for (const std::size_t axis : {1, 2}) {
      const Call call = {.shape = shape, .axes = {axis}};
      for (const Operation* operation : {&kGroupNorm, &kInstanceNorm}) {
        const Result got = run(*operation, call);
        CHECK(got.status == Status::kOk);
        check_all(case_of(*operation, call, "empty"), "mean", got.mean, kCanary);
      }
    }
  }
}

TEST_CASE("neighbouring channels make a group, each with its own scale and bias") {
  // Channels 0, 1 and channels 2, 3; interleaved groups would be 0, 2 and 1, 3.
  const Call call = {.shape = {1, 4},
                     .axes = {1},
                     .x = {1, 3, 10, 30},
                     .scale = {1, 2, 3, 4},
                     .bias = {0, 10, 20, 30},
                     .epsilon = 0,
                     .groups = 2};
  check_bits(case_of(kGroupNorm, call, "two groups"), "y", run(kGroupNorm, call).y, {-1, 12, 17, 34});
  check_bits(case_of(kGroupNorm, call, "two groups"), "mean", run(kGroupNorm, call).mean, {2, 20});
}
