// x + residual, rounded, is what is normalized, wherever the sum goes.

#include "definition.h"

using simdnorm::Status;

namespace {

struct Layout {
  const char* name;
  Shape shape, axes;
  std::size_t parameters;
};

std::vector<Layout> layouts(std::size_t length) {
  return {
      {"rows", {3, length}, {1}, length},
      {"one row", {length}, {0}, length},
      {"columns", {7, length}, {0}, 7},
      {"a middle axis", {2, length, 3}, {1}, length},
      {"short runs", {5, length, 3}, {0, 2}, 0},
      {"runs", {3, length, 17}, {0, 2}, 0},
      {"axes in turns", {2, 3, length, 2}, {2, 0}, 2 * length},
      {"axes in turns, no scale", {2, 2, 3, length}, {2, 0}, 0},
  };
}

template <class T>
CallOf<T> call_of(const Layout& layout, double size = 2) {
  // Where there are no parameters, a view says what is summed; with them it is permuted.
  return {.shape = layout.shape,
          .axes = layout.axes,
          .x = draw<T>(product(layout.shape), 1, size, size),
          .residual = draw<T>(product(layout.shape), 2, -size / 3, size),
          .scale = draw<T>(layout.parameters, 3, 1, 3)};
}

/// The same without residual, of the sum.
template <class T>
CallOf<T> of_sum(const CallOf<T>& call) {
  CallOf<T> result = call;
  result.x = definition::sum_of(call);
  result.residual.clear();
  result.sum = Sum::kNowhere;
  return result;
}

/// Wherever y and the sum may go.
template <class T>
void check_all_places(const Operation& operation, CallOf<T> call, const std::string& data) {
  const ResultOf<T> want = run(operation, of_sum(call));
  const ValuesOf<T> sum = definition::sum_of(call);
  for (const bool in_place : {false, true}) {
    for (const Sum where : {Sum::kNowhere, Sum::kOut, Sum::kIntoX, Sum::kIntoResidual}) {
      if (in_place && where == Sum::kIntoX) continue;
      call.in_place = in_place;
      call.sum = where;
      const ResultOf<T> got = run(operation, call);
      const char* const places[] = {"nowhere", "out", "into x", "into residual"};
      const Case what =
          case_of(operation, call,
                  data + ", the sum " + places[static_cast<int>(where)] + (in_place ? ", in place" : ""));
      REQUIRE(got.status == Status::kOk);
      check_same(what, got, want);
      if (where != Sum::kNowhere) check_bits(what, "residualOut", got.sum, sum);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("with residual: the same to the bit as the sum normalized, wherever it goes", "", float,
                   double) {
  for (std::size_t length = 0; length <= 1100; length += length < 67 ? 1 : 149) {
    for (const Layout& layout : layouts(length)) {
      CallOf<TestType> call = call_of<TestType>(layout);
      call.x_offset = length % 4;
      call.y_offset = length / 4 % 4;
      check_all_places(kLayerNorm, call, layout.name);
      check_all_places(kRmsNorm, call, layout.name);
    }
  }
}

TEMPLATE_TEST_CASE("with residual: the definition of the rounded sum", "", float, double) {
  for (const std::size_t length : {1, 5, 16, 33, 257, 600}) {
    for (const Layout& layout : layouts(length)) {
      // The sum's rounding is seen where it cancels: a residual near -x.
      CallOf<TestType> call = call_of<TestType>(layout);
      for (std::size_t i = 0; i < call.x.size(); ++i) call.residual[i] = call.residual[i] / 1000 - call.x[i];
      definition::check(kLayerNorm, call, layout.name);
      definition::check(kRmsNorm, call, layout.name);
    }
  }
}

TEMPLATE_TEST_CASE("with residual and lengths", "", float, double) {
  for (const Shape& shape :
       {Shape{4, 5}, Shape{4, 7, 3}, Shape{4, 3, 2, 5}, Shape{4, 1, 40}, Shape{4, 20, 17}}) {
    const auto extent = static_cast<std::int32_t>(shape[1]);
    for (unsigned set = 1; set < 1u << shape.size(); ++set) {
      Shape axes;
      std::size_t parameters = 1;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (!(set >> axis & 1)) continue;
        axes.push_back(axis);
        parameters *= shape[axis];
      }
      if (set % 2) std::reverse(axes.begin(), axes.end());
      for (const bool has_scale : {false, true}) {
        CallOf<TestType> call = call_of<TestType>({"", shape, axes, has_scale ? parameters : 0});
        call.lengths = {extent, 0, extent / 2, 1};
        for (const Operation* operation : {&kLayerNorm, &kRmsNorm}) {
          check_all_places(*operation, call, "lengths");
          call.sum = Sum::kOut;
          definition::check(*operation, call, "lengths");
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("sums that overflow are infinite, and their group is NaN", "", float, double) {
  using T = TestType;
  constexpr T kMost = std::numeric_limits<T>::max(), kNaN = std::numeric_limits<T>::quiet_NaN();
  CallOf<T> call = {
      .shape = {2, 5}, .axes = {1}, .x = draw<T>(10, 1), .residual = draw<T>(10, 2), .sum = Sum::kOut};
  const ResultOf<T> before = run(kLayerNorm, call);
  call.x[7] = call.residual[7] = kMost;
  const ResultOf<T> got = run(kLayerNorm, call);
  const Case what = case_of(kLayerNorm, call, "overflow");
  CHECK(got.sum[7] == std::numeric_limits<T>::infinity());
  check_all(what, "y", ValuesOf<T>(got.y.begin() + 5, got.y.end()), kNaN);
  check_bits(what, "mean", got.mean, {before.mean[0], kNaN});
  check_bits(what, "y", ValuesOf<T>(got.y.begin(), got.y.begin() + 5),
             {before.y.begin(), before.y.begin() + 5});
  // The other way: what would overflow alone does not where the sum doesn't.
  call.residual[7] = -kMost;
  CHECK(run(kLayerNorm, call).sum[7] == 0);
}

TEST_CASE("x may be its own residual") {
  const Shape shape = {3, 7}, axes = {1};
  const Values x = draw(21, 1, 3, 2);
  Values doubled = x, y(21), sum(21);
  for (float& value : doubled) value *= 2;
  REQUIRE(simdnorm::layer_norm({.shape = shape,
                                .axes = axes,
                                .x = x.data(),
                                .y = y.data(),
                                .residual = x.data(),
                                .residual_out = sum.data()}) == Status::kOk);
  check_bits({"layerNorm", shape, "x + x"}, "residualOut", sum, doubled);
  check_bits({"layerNorm", shape, "x + x"}, "y", y, layer_norm({.shape = shape, .x = doubled}).y);
}
