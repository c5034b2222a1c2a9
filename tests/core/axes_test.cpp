// Statistics over any axes, in any order: what a view says, and what is brought into another order in scratch.

#include <algorithm>
#include <numeric>

#include "definition.h"

using simdnorm::Status;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Every order of every set of axes of a rank.
std::vector<Shape> all_axes(std::size_t rank) {
  std::vector<Shape> result;
  for (unsigned set = 0; set < 1u << rank; ++set) {
    Shape axes;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (set >> axis & 1) axes.push_back(axis);
    }
    do {
      result.push_back(axes);
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
  return result;
}

std::size_t product_along(const Shape& shape, const Shape& axes) {
  std::size_t result = 1;
  for (const std::size_t axis : axes) result *= shape[axis];
  return result;
}

/// Right, and the same in place.
template <class T>
void check_twice(const Operation& operation, CallOf<T> call, const std::string& data) {
  const ResultOf<T> got = definition::check(operation, call, data);
  call.in_place = true;
  call.x_offset = call.y_offset = 1;
  check_same(case_of(operation, call, data + ", in place"), run(operation, call), got);
}

template <class T>
void check_everything(const Shape& shape, const Shape& axes) {
  const std::size_t parameters = product_along(shape, axes);
  const auto x = draw<T>(product(shape), static_cast<std::uint32_t>(axes.size()), 3, 2);
  const auto scale = draw<T>(parameters, 7, 1, 3), bias = draw<T>(parameters, 8, -2, 5);
  const auto call_with = [&](bool has_scale, bool has_bias, double p = 2) {
    CallOf<T> call = {.shape = shape, .axes = axes, .x = x, .p = p};
    if (has_scale) call.scale = scale;
    if (has_bias) call.bias = bias;
    return call;
  };
  for (const bool has_scale : {false, true}) {
    for (const bool has_bias : {false, true}) {
      check_twice(kLayerNorm, call_with(has_scale, has_bias),
                  std::string(has_scale ? "scale" : "no scale") + (has_bias ? ", bias" : ""));
    }
    check_twice(kRmsNorm, call_with(has_scale, false), has_scale ? "scale" : "no scale");
  }
  for (const double p : {1.0, 2.0, kInfinity}) check_twice(kLpNormalize, call_with(false, false, p), "norm");
  definition::check(kMoments, call_with(false, false), "moments");
}

/// x with its axes in another order, by the definition.
template <class T>
ValuesOf<T> permuted(const ValuesOf<T>& x, const Shape& shape, const Shape& order) {
  const Shape place = reference::indices_along(shape, order);
  ValuesOf<T> result(x.size());
  for (std::size_t e = 0; e < x.size(); ++e) result[place[e]] = x[e];
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("every order of every set of axes is the definition", "", float, double) {
  for (const Shape& shape :
       {Shape{}, Shape{6}, Shape{1}, Shape{4, 5}, Shape{1, 7}, Shape{3, 4, 5}, Shape{2, 1, 20},
        Shape{3, 17, 2}, Shape{2, 3, 4, 5}, Shape{3, 1, 2, 16}, Shape{2, 5, 1, 3}}) {
    for (const Shape& axes : all_axes(shape.size())) check_everything<TestType>(shape, axes);
  }
}

TEMPLATE_TEST_CASE("some orders of axes of rank 5 and 6, and of long extents", "", float, double) {
  for (const Shape& axes :
       {Shape{0, 2, 4}, Shape{4, 0, 2}, Shape{1, 3}, Shape{3, 1}, Shape{4, 1}, Shape{0, 1, 3}}) {
    check_everything<TestType>({2, 3, 4, 3, 5}, axes);
    check_everything<TestType>({3, 2, 1, 2, 3, 4}, axes);
  }
  // Larger than the squares in which values are copied, and than a tile.
  for (const Shape& axes : {Shape{0, 2}, Shape{2, 0}, Shape{1}, Shape{0}}) {
    check_everything<TestType>({33, 40, 3}, axes);
    check_everything<TestType>({2, 300, 2}, axes);
    check_everything<TestType>({70, 2, 34}, axes);
  }
}

TEMPLATE_TEST_CASE("as many axes as there may be", "", float, double) {
  Shape shape(simdnorm::kMaxRank, 1);
  shape[0] = 2;
  shape[3] = 3;
  shape[7] = 4;
  shape[15] = 5;
  for (const Shape& axes : {Shape{0, 7}, Shape{15, 3}, Shape{7, 15, 1, 0}, Shape{3}}) {
    check_everything<TestType>(shape, axes);
  }
  Shape all(simdnorm::kMaxRank);
  std::iota(all.rbegin(), all.rend(), 0);
  check_everything<TestType>(shape, all);
}

TEMPLATE_TEST_CASE("axes in another order, with parameters in that order, are the same to the bit", "", float,
                   double) {
  using T = TestType;
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 3, 4, 5}, Shape{2, 33, 3, 4}}) {
    for (const Shape& axes : all_axes(shape.size())) {
      Shape sorted = axes;
      std::sort(sorted.begin(), sorted.end());
      if (sorted == axes) continue;
      Shape extents, order;
      for (const std::size_t axis : axes) extents.push_back(shape[axis]);
      for (const std::size_t axis : sorted) {
        order.push_back(static_cast<std::size_t>(std::find(axes.begin(), axes.end(), axis) - axes.begin()));
      }
      CallOf<T> call = {.shape = shape,
                        .axes = axes,
                        .x = draw<T>(product(shape), 1, 3, 2),
                        .scale = draw<T>(product(extents), 2, 1, 3),
                        .bias = draw<T>(product(extents), 3)};
      CallOf<T> in_order = call;
      in_order.axes = sorted;
      in_order.scale = permuted(call.scale, extents, order);
      in_order.bias = permuted(call.bias, extents, order);
      check_same(case_of(kLayerNorm, call, "as in ascending order"), run(kLayerNorm, call),
                 run(kLayerNorm, in_order));
    }
  }
}

TEMPLATE_TEST_CASE("what is permuted is the same to the bit as rows permuted by hand", "", float, double) {
  using T = TestType;
  struct Permuted {
    Shape shape, axes;
    bool has_scale;
    double p;
  };
  const Permuted cases[] = {{{3, 4, 2, 5}, {0, 2}, false, 2},     {{3, 4, 5}, {0, 2}, true, 2},
                            {{2, 3, 4, 5}, {1, 3}, true, 2},      {{3, 40, 5}, {1}, false, 1},
                            {{3, 40, 5}, {1}, false, kInfinity},  {{33, 34}, {0}, false, 1},
                            {{2, 3, 2, 3, 2}, {0, 2, 4}, true, 2}};
  for (const Permuted& c : cases) {
    Shape order = reference::others(c.shape, c.axes);
    order.insert(order.end(), c.axes.begin(), c.axes.end());
    const std::size_t units = product_along(c.shape, c.axes), rows = product(c.shape) / units;
    CallOf<T> call = {.shape = c.shape, .axes = c.axes, .x = draw<T>(product(c.shape), 4, 3, 2), .p = c.p};
    if (c.has_scale) call.scale = draw<T>(units, 5, 1, 3);
    CallOf<T> by_hand = call;
    by_hand.shape = {rows, units};
    by_hand.axes = {1};
    by_hand.x = permuted(call.x, c.shape, order);
    for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kLpNormalize}) {
      if ((*operation == kLpNormalize) != (c.p != 2)) continue;
      ResultOf<T> got = run(*operation, call);
      got.y = permuted(got.y, c.shape, order);
      check_same(case_of(*operation, call, "as rows"), got, run(*operation, by_hand));
    }
  }
}

TEST_CASE("each scale belongs to one place along the axes in the order given") {
  // Axes {2, 0}: scale is [4, 2], and that of (2, 0) = (3, 1) is the last.
  const Shape shape = {2, 3, 4};
  const Values x = draw(24, 1, 3, 2);
  Values scale(8, 1);
  scale[7] = 2;
  const Values plain = layer_norm({.shape = shape, .axes = {2, 0}, .x = x, .scale = Values(8, 1)}).y;
  const Values scaled = layer_norm({.shape = shape, .axes = {2, 0}, .x = x, .scale = scale}).y;
  for (std::size_t i = 0; i < 24; ++i) {
    const bool is_last = i / 12 == 1 && i % 4 == 3;
    CHECK(scaled[i] == (is_last ? 2 * plain[i] : plain[i]));
  }
}

TEMPLATE_TEST_CASE("without axes nothing is reduced", "", float, double) {
  using T = TestType;
  const ValuesOf<T> x = {1, -2, 3, 0, 5, -6};
  const CallOf<T> call = {.shape = {2, 3}, .axes = {}, .x = x, .scale = {3}, .bias = {T(0.1)}};
  const ResultOf<T> layer = run(kLayerNorm, call);
  check_all(case_of(kLayerNorm, call, "no axes"), "y", layer.y, T(0.1));
  check_bits(case_of(kLayerNorm, call, "no axes"), "mean", layer.mean, x);
  check_all(case_of(kLayerNorm, call, "no axes"), "variance", layer.variance, 0);
  definition::check<T>(kRmsNorm, {.shape = {2, 3}, .axes = {}, .x = x, .scale = {3}}, "no axes");
  for (const double p : {1.0, 2.0, kInfinity}) {
    const auto y = run<T>(kLpNormalize, {.shape = {2, 3}, .axes = {}, .x = x, .epsilon = 0, .p = p}).y;
    check_near({"lpNormalize", {2, 3}, "no axes"}, "y", y, {1, -1, 1, 0, 1, -1}, kPromiseOf<T>);
  }
}

TEMPLATE_TEST_CASE("extents of 0 along axes that are kept: nothing is written", "", float, double) {
  using T = TestType;
  for (const Shape& shape : {Shape{0, 3, 2}, Shape{2, 0, 3}, Shape{2, 3, 0}, Shape{0, 0, 0}}) {
    for (const Shape& axes : all_axes(3)) {
      const std::size_t parameters = product_along(shape, axes);
      for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kLpNormalize, &kMoments}) {
        CallOf<T> call = {.shape = shape, .axes = axes, .scale = draw<T>(parameters, 1)};
        if (*operation == kLpNormalize || *operation == kMoments) call.scale.clear();
        const ResultOf<T> got = run(*operation, call);
        CHECK(got.status == Status::kOk);
        // Groups without values, if any, have no statistics to write.
        check_all(case_of(*operation, call, "empty"), "invStd", got.inv_std, canary<T>());
      }
    }
  }
}

TEST_CASE("norms that are none are refused, and nothing is written") {
  for (const double p : {0.0, 3.0, 0.5, -1.0, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    const Call call = {.shape = {2, 3}, .axes = {1}, .x = draw(6, 1), .p = p};
    const Result got = run(kLpNormalize, call);
    CHECK(got.status == Status::kAxes);
    check_all(case_of(kLpNormalize, call, "refused"), "y", got.y, kCanary);
  }
}

TEST_CASE(
    "groups that don't divide the channels, or items for channels, are refused, and nothing is written") {
  const auto check_refused = [](const Shape& axes, std::size_t groups) {
    const Call call = {.shape = {2, 6, 3}, .axes = axes, .x = draw(36, 1), .groups = groups};
    const Result got = run(kGroupNorm, call);
    CHECK(got.status == Status::kAxes);
    check_all(case_of(kGroupNorm, call, "refused"), "y", got.y, kCanary);
    check_all(case_of(kGroupNorm, call, "refused"), "mean", got.mean, kCanary);
  };
  check_refused({1}, 4);
  check_refused({1}, 7);
  check_refused({1}, 0);
  check_refused({2}, 2);
  check_refused({0}, 1);
  const Call items = {.shape = {2, 6, 3}, .axes = {0}, .x = draw(36, 1)};
  CHECK(run(kInstanceNorm, items).status == Status::kAxes);
}
