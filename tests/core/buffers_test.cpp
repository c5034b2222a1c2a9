// Memory: every length and alignment, in place and out of place, whatever is asked for. run() in call.h
// guards the buffers' sides in every test; here the results are compared to the bit too.

#include "call.h"

namespace {

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> result;
  for (std::size_t length = 0; length <= 67; ++length) result.push_back(length);
  // Around blocks (512) and steps (32) of a row, and tiles (256 of doubles, 512 of floats) of columns.
  for (std::size_t edge : {128, 255, 256, 257, 258, 511, 512, 513, 543, 544, 545, 1023, 1024, 1025, 1056}) {
    result.push_back(edge);
  }
  return result;
}

struct Layout {
  const char* name;
  const Operation* operation;
  Shape shape, axes;
  std::size_t parameters;
  std::size_t groups = 1;
  double p = 2;
  /// With parameters, axes in turns are read in another order than without.
  bool order_depends_on_parameters = false;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Layout> layouts(std::size_t length) {
  return {
      {"rows", &kLayerNorm, {3, length}, {1}, length},
      {"a middle axis", &kLayerNorm, {2, 5, length}, {1}, 5},
      {"a long middle axis", &kLayerNorm, {2, length, 3}, {1}, length},
      {"axes in turns", &kLayerNorm, {2, 3, 2, length}, {3, 1}, 3 * length, 1, 2, true},
      {"rows", &kRmsNorm, {3, length}, {1}, length},
      {"columns", &kRmsNorm, {7, length}, {0}, 7},
      {"axes in turns", &kRmsNorm, {2, length, 2}, {2, 0}, 4, 1, 2, true},
      {"channels last", &kBatchNormTraining, {9, length}, {1}, length},
      {"short runs of many channels", &kBatchNormTraining, {3, length, 3}, {1}, length},
      {"runs", &kBatchNormTraining, {3, 2, length}, {1}, 2},
      {"one channel", &kBatchNormTraining, {3, 1, length}, {1}, 1},
      {"one item", &kBatchNormTraining, {1, 3, length}, {1}, 3},
      {"channels last", &kBatchNorm, {5, length}, {1}, length},
      {"runs", &kBatchNorm, {3, 2, length}, {1}, 2},
      {"one channel", &kBatchNorm, {3, 1, length}, {1}, 1},
      {"channels first", &kInstanceNorm, {2, 3, length}, {1}, 3},
      {"channels last", &kInstanceNorm, {2, 5, length}, {2}, length},
      {"short runs", &kInstanceNorm, {2, 4, length, 2}, {2}, length},
      {"channels first", &kGroupNorm, {2, 4, length}, {1}, 4, 2},
      {"many channels first", &kGroupNorm, {2, 2 * length, 3}, {1}, 2 * length, 2},
      {"channels last", &kGroupNorm, {2, 5, 2 * length}, {2}, 2 * length, 2},
      {"one group, channels last", &kGroupNorm, {2, 5, length}, {2}, length},
      {"rows, 1", &kLpNormalize, {3, length}, {1}, 0, 1, 1},
      {"rows, 2", &kLpNormalize, {3, length}, {1}, 0, 1, 2},
      {"rows, infinity", &kLpNormalize, {3, length}, {1}, 0, 1, kInfinity},
      {"columns, 1", &kLpNormalize, {3, length}, {0}, 0, 1, 1},
      {"columns, 2", &kLpNormalize, {3, length}, {0}, 0, 1, 2},
      {"columns, infinity", &kLpNormalize, {length, 3}, {0}, 0, 1, kInfinity},
      {"channels last", &kLocalResponseNorm, {3, length}, {1}, 0},
      {"channels first", &kLocalResponseNorm, {2, 3, length}, {1}, 0},
      {"middle axis", &kMoments, {2, length, 3}, {1}, 0},
      {"axes in turns", &kMoments, {2, length, 2}, {0, 2}, 0},
  };
}

template <class T>
CallOf<T> call_of(const Layout& layout) {
  return {.shape = layout.shape,
          .axes = layout.axes,
          .x = draw<T>(product(layout.shape), 1, 3, 0.1),
          .scale = draw<T>(layout.parameters, 2, 1, 2),
          .bias = draw<T>(layout.parameters, 3, 0, 2),
          .mean = draw<T>(layout.parameters, 4, 3, 0.1),
          .variance = draw<T>(layout.parameters, 5, 4, 0.5),
          .groups = layout.groups,
          .p = layout.p,
          .size = 4,
          .alpha = 0.5};
}

template <class T>
Case what_of(const Layout& layout, const CallOf<T>& call, const std::string& data) {
  return case_of(*layout.operation, call, std::string(layout.name) + ", " + data);
}

}  // namespace

TEMPLATE_TEST_CASE("offsets of 0 to 3 values change no bit", "", float, double) {
  for (const std::size_t length : lengths()) {
    for (const Layout& layout : layouts(length)) {
      auto call = call_of<TestType>(layout);
      const auto aligned = run(*layout.operation, call).y;
      for (std::size_t offsets = 0; offsets < 16; ++offsets) {
        if (length > 67 ? offsets % 5 != 1 : (length + offsets) % 3 != 1) continue;
        call.x_offset = offsets % 4;
        call.y_offset = offsets / 4;
        call.scale_offset = (call.x_offset + 2 * call.y_offset + 1) % 4;
        call.bias_offset = (3 * call.x_offset + call.y_offset + 2) % 4;
        check_bits(what_of(layout, call, "offsets " + std::to_string(offsets)), "y",
                   run(*layout.operation, call).y, aligned);
      }
    }
  }
}

TEMPLATE_TEST_CASE("in place is equal to out of place to the bit", "", float, double) {
  for (const std::size_t length : lengths()) {
    for (const Layout& layout : layouts(length)) {
      for (int parameters = 0; parameters < 4; ++parameters) {
        // Without parameters there are fewer ways to read memory, and nothing to leave out.
        if (layout.parameters == 0 && parameters > 0) break;
        auto call = call_of<TestType>(layout);
        if (!(parameters & 1)) call.scale.clear();
        if (!(parameters & 2)) call.bias.clear();
        const auto out_of_place = run(*layout.operation, call);
        call.in_place = true;
        check_same(what_of(layout, call, "in place"), run(*layout.operation, call), out_of_place);
      }
    }
  }
}

TEMPLATE_TEST_CASE("statistics that nobody wants change nothing", "", float, double) {
  for (const std::size_t length : {1, 5, 16, 64, 257}) {
    for (const Layout& layout : layouts(length)) {
      auto call = call_of<TestType>(layout);
      const auto all = run(*layout.operation, call);
      for (int wanted = 0; wanted < 8; ++wanted) {
        call.mean_out = wanted & 1;
        call.variance_out = wanted & 2;
        call.inv_std_out = wanted & 4;
        const auto some = run(*layout.operation, call);
        const Case what = what_of(layout, call, "outputs " + std::to_string(wanted));
        check_bits(what, "y", some.y, all.y);
        if (call.mean_out) check_bits(what, "mean", some.mean, all.mean);
        if (call.variance_out) check_bits(what, "variance", some.variance, all.variance);
        if (call.inv_std_out) check_bits(what, "invStd", some.inv_std, all.inv_std);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a bias of -0 and a scale of 1 are an absent bias and scale", "", float, double) {
  using T = TestType;
  for (const std::size_t length : {1, 5, 16, 64, 257}) {
    for (const Layout& layout : layouts(length)) {
      if (layout.order_depends_on_parameters) continue;
      auto call = call_of<T>(layout);
      call.scale.assign(layout.parameters, 1);
      call.bias.assign(layout.parameters, T{-0.0});
      const auto neutral = run(*layout.operation, call).y;
      call.scale.clear();
      call.bias.clear();
      check_bits(what_of(layout, call, "neutral parameters"), "y", run(*layout.operation, call).y, neutral);
    }
  }
}
