// Memory: every length and alignment, in place and out of place, whatever is asked for. run() in call.h
// guards the buffers' sides in every test; here the results are compared to the bit too.

#include "call.h"

namespace {

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> result;
  for (std::size_t length = 0; length <= 67; ++length) result.push_back(length);
  // Around blocks (512) and steps (32) of a row, and tiles (256) of columns.
  for (std::size_t edge : {128, 255, 256, 257, 258, 511, 512, 513, 543, 544, 545, 1023, 1024, 1025, 1056}) {
    result.push_back(edge);
  }
  return result;
}

struct Layout {
  const char* name;
  Operation operation;
  Shape shape, axes;
  std::size_t parameters;
};

std::vector<Layout> layouts(std::size_t length) {
  const auto training = simdnorm::batch_norm_training;
  const auto inference = simdnorm::batch_norm;
  return {
      {"layerNorm", simdnorm::layer_norm, {3, length}, {1}, length},
      {"batchNormTraining, channels last", training, {9, length}, {1}, length},
      {"batchNormTraining, short runs of many channels", training, {3, length, 3}, {1}, length},
      {"batchNormTraining, runs", training, {3, 2, length}, {1}, 2},
      {"batchNormTraining, one channel", training, {3, 1, length}, {1}, 1},
      {"batchNormTraining, one item", training, {1, 3, length}, {1}, 3},
      {"batchNorm, channels last", inference, {5, length}, {1}, length},
      {"batchNorm, runs", inference, {3, 2, length}, {1}, 2},
      {"batchNorm, one channel", inference, {3, 1, length}, {1}, 1},
  };
}

Call call_of(const Layout& layout) {
  return {.shape = layout.shape,
          .axes = layout.axes,
          .x = draw(product(layout.shape), 1, 3, 0.1),
          .scale = draw(layout.parameters, 2, 1, 2),
          .bias = draw(layout.parameters, 3, 0, 2),
          .mean = draw(layout.parameters, 4, 3, 0.1),
          .variance = draw(layout.parameters, 5, 4, 0.5)};
}

}  // namespace

TEST_CASE("offsets of 0 to 3 floats change no bit") {
  for (const std::size_t length : lengths()) {
    for (const Layout& layout : layouts(length)) {
      Call call = call_of(layout);
      const Values aligned = run(layout.operation, call).y;
      for (std::size_t offsets = 0; offsets < 16; ++offsets) {
        if (length > 67 && offsets % 5 != 1) continue;
        call.x_offset = offsets % 4;
        call.y_offset = offsets / 4;
        call.scale_offset = (call.x_offset + 2 * call.y_offset + 1) % 4;
        call.bias_offset = (3 * call.x_offset + call.y_offset + 2) % 4;
        check_bits({layout.name, layout.shape, "offsets " + std::to_string(offsets)}, "y",
                   run(layout.operation, call).y, aligned);
      }
    }
  }
}

TEST_CASE("in place is equal to out of place to the bit") {
  for (const std::size_t length : lengths()) {
    for (const Layout& layout : layouts(length)) {
      Call call = call_of(layout);
      for (int parameters = 0; parameters < 4; ++parameters) {
        if (!(parameters & 1)) call.scale.clear();
        if (!(parameters & 2)) call.bias.clear();
        call.in_place = false;
        const Result out_of_place = run(layout.operation, call);
        call.in_place = true;
        const Result in_place = run(layout.operation, call);
        const Case what = {layout.name, layout.shape, "in place"};
        check_bits(what, "y", in_place.y, out_of_place.y);
        check_bits(what, "mean", in_place.mean, out_of_place.mean);
        check_bits(what, "variance", in_place.variance, out_of_place.variance);
        check_bits(what, "invStd", in_place.inv_std, out_of_place.inv_std);
        call = call_of(layout);
      }
    }
  }
}

TEST_CASE("statistics that nobody wants change nothing") {
  for (const std::size_t length : {1, 5, 16, 64, 257}) {
    for (const Layout& layout : layouts(length)) {
      Call call = call_of(layout);
      const Result all = run(layout.operation, call);
      for (int wanted = 0; wanted < 8; ++wanted) {
        call.mean_out = wanted & 1;
        call.variance_out = wanted & 2;
        call.inv_std_out = wanted & 4;
        const Result some = run(layout.operation, call);
        const Case what = {layout.name, layout.shape, "outputs " + std::to_string(wanted)};
        check_bits(what, "y", some.y, all.y);
        if (call.mean_out) check_bits(what, "mean", some.mean, all.mean);
        if (call.variance_out) check_bits(what, "variance", some.variance, all.variance);
        if (call.inv_std_out) check_bits(what, "invStd", some.inv_std, all.inv_std);
      }
    }
  }
}

TEST_CASE("a bias of -0 and a scale of 1 are an absent bias and scale") {
  for (const std::size_t length : {1, 5, 16, 64, 257}) {
    for (const Layout& layout : layouts(length)) {
      Call call = call_of(layout);
      call.scale.assign(layout.parameters, 1.0f);
      call.bias.assign(layout.parameters, -0.0f);
      const Values neutral = run(layout.operation, call).y;
      call.scale.clear();
      call.bias.clear();
      check_bits({layout.name, layout.shape, "neutral parameters"}, "y", run(layout.operation, call).y,
                 neutral);
    }
  }
}
