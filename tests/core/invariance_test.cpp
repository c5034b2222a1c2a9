// What must not change a result, to the bit where nothing rounds, and what must.

#include <numeric>

#include "call.h"

namespace {

Values scaled(Values values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}

/// -0 becomes 0.
Values without_negative_zeros(Values values) {
  for (float& value : values) value += 0.0f;
  return values;
}

std::vector<double> wide(const Values& values) { return {values.begin(), values.end()}; }

/// Shapes of batches in each layout: columns, short runs, runs, one channel, one item.
const Shape kBatches[] = {{40, 9, 1},  {300, 5, 1}, {17, 6, 3}, {9, 70, 15}, {5, 3, 16},
                          {4, 5, 100}, {3, 2, 600}, {12, 1, 5}, {1, 7, 33}};

Values permuted(const Values& x, const Shape& shape, const Shape& order, std::size_t axis) {
  Values result(x.size());
  const std::size_t inner = product({shape.begin() + axis + 1, shape.end()});
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::size_t place = e / inner % shape[axis];
    result[e] = x[e + (order[place] - place) * inner];
  }
  return result;
}

Shape reversed_pairs(std::size_t count) {
  Shape order(count);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  for (std::size_t i = 0; i + 1 < count; i += 2) std::swap(order[i], order[i + 1]);
  return order;
}

}  // namespace

TEST_CASE("a power of two, with epsilon times its square, changes no bit") {
  for (const int power : {-20, -3, -1, 1, 4, 20}) {
    const float factor = std::ldexp(1.0f, power);
    for (const std::size_t units : {1, 2, 3, 7, 16, 17, 63, 512, 545, 1024}) {
      for (const double mean : {0.0, 1.0, 1e3, 1e7}) {
        const Call call = {.shape = {3, units}, .axes = {}, .x = draw(3 * units, 1, mean)};
        Call larger = call;
        larger.x = scaled(call.x, factor);
        larger.epsilon *= double{factor} * factor;
        const Case what = {"layerNorm", call.shape,
                           "times 2^" + std::to_string(power) + ", mean " + text(mean)};
        check_bits(what, "y", layer_norm(larger).y, layer_norm(call).y);
      }
    }
    for (const Shape& shape : kBatches) {
      const Call call = {.shape = shape, .axes = {}, .x = draw(product(shape), 2, 10)};
      Call larger = call;
      larger.x = scaled(call.x, factor);
      larger.epsilon *= double{factor} * factor;
      check_bits({"batchNormTraining", shape, "times 2^" + std::to_string(power)}, "y",
                 batch_norm_training(larger).y, batch_norm_training(call).y);
    }
  }
}

TEST_CASE("a power of two alone is seen where epsilon is") {
  const Call call = {.shape = {64}, .axes = {}, .x = draw(64, 1, 0, 0.01)};
  Call larger = call;
  larger.x = scaled(call.x, 2);
  CHECK(layer_norm(larger).y != layer_norm(call).y);
}

TEST_CASE("negation changes the sign and no other bit") {
  for (const double mean : {0.0, 1.0, 1e3, 1e7}) {
    for (const std::size_t units : {1, 2, 3, 7, 16, 17, 63, 512, 545, 1024}) {
      Call call = {.shape = {3, units}, .axes = {}, .x = draw(3 * units, 1, mean)};
      const Values y = layer_norm(call).y;
      call.x = scaled(call.x, -1);
      check_bits({"layerNorm", call.shape, "negated"}, "y", without_negative_zeros(layer_norm(call).y),
                 without_negative_zeros(scaled(y, -1)));
    }
    for (const Shape& shape : kBatches) {
      Call call = {.shape = shape, .axes = {}, .x = draw(product(shape), 2, mean)};
      const Values y = batch_norm_training(call).y;
      call.x = scaled(call.x, -1);
      check_bits({"batchNormTraining", shape, "negated"}, "y",
                 without_negative_zeros(batch_norm_training(call).y), without_negative_zeros(scaled(y, -1)));
    }
  }
}

TEST_CASE("each row is equal to that row alone") {
  for (const std::size_t units : {1, 2, 3, 7, 16, 17, 63, 64, 100, 512, 545, 1024, 4099}) {
    const std::size_t rows = units > 1000 ? 9 : 60;
    const Values scale = draw(units, 5, 1, 1), bias = draw(units, 6);
    Values x;
    for (std::size_t row = 0; row < rows; ++row) {
      const double means[] = {0, 1, 1e3, 1e7}, deviations[] = {1, 1e-32, 1e-3, 1e30};
      const Values values = draw(units, static_cast<std::uint32_t>(row) + 1,
                                 means[row % 4] * deviations[row / 4 % 4], deviations[row / 4 % 4]);
      x.insert(x.end(), values.begin(), values.end());
    }
    const Result together =
        layer_norm({.shape = {rows, units}, .axes = {}, .x = x, .scale = scale, .bias = bias});
    for (std::size_t row = 0; row < rows; ++row) {
      const auto begin = static_cast<std::ptrdiff_t>(row * units),
                 end = static_cast<std::ptrdiff_t>((row + 1) * units);
      const Result alone = layer_norm({.shape = {1, units},
                                       .axes = {},
                                       .x = {x.begin() + begin, x.begin() + end},
                                       .scale = scale,
                                       .bias = bias});
      const Case what = {"layerNorm", {rows, units}, "row " + std::to_string(row)};
      check_bits(what, "y", {together.y.begin() + begin, together.y.begin() + end}, alone.y);
      check_bits(what, "mean", {together.mean[row]}, alone.mean);
      check_bits(what, "variance", {together.variance[row]}, alone.variance);
      check_bits(what, "invStd", {together.inv_std[row]}, alone.inv_std);
    }
  }
}

TEST_CASE("each channel is equal to that channel beside any other") {
  for (const Shape& shape : kBatches) {
    const std::size_t n = shape[0], channels = shape[1], run_length = shape[2];
    if (channels == 1) continue;
    const Values x = draw(product(shape), 7, 3, 0.5);
    const Result together = batch_norm_training({.shape = shape, .axes = {}, .x = x});
    for (std::size_t c = 0; c < channels; c += 4) {
      // One channel alone would be read as a row: another layout, and another order of summation.
      Values pair(n * 2 * run_length, 1e20f), channel(n * run_length);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < run_length; ++j) {
          pair[i * 2 * run_length + j] = x[(i * channels + c) * run_length + j];
          channel[i * run_length + j] = together.y[(i * channels + c) * run_length + j];
        }
      }
      const Result beside = batch_norm_training({.shape = {n, 2, run_length}, .axes = {}, .x = pair});
      Values got(n * run_length);
      for (std::size_t i = 0; i < got.size(); ++i)
        got[i] = beside.y[i / run_length * 2 * run_length + i % run_length];
      const Case what = {"batchNormTraining", shape, "channel " + std::to_string(c)};
      check_bits(what, "y", got, channel);
      check_bits(what, "mean", {beside.mean[0]}, {together.mean[c]});
      check_bits(what, "variance", {beside.variance[0]}, {together.variance[c]});
    }
  }
}

TEST_CASE("permuting rows, or channels, permutes the result to the bit") {
  for (const Shape& shape : kBatches) {
    const Shape order = reversed_pairs(shape[1]);
    const Values x = draw(product(shape), 8, 2, 3);
    const auto run_on = [&](const Values& values) {
      return batch_norm_training({.shape = shape, .axes = {}, .x = values});
    };
    const Result plain = run_on(x), other = run_on(permuted(x, shape, order, 1));
    const Case what = {"batchNormTraining", shape, "channels permuted"};
    check_bits(what, "y", other.y, permuted(plain.y, shape, order, 1));
    check_bits(what, "mean", other.mean, permuted(plain.mean, {shape[1]}, order, 0));
    check_bits(what, "variance", other.variance, permuted(plain.variance, {shape[1]}, order, 0));
  }
  const Shape shape = {21, 77};
  const Values x = draw(product(shape), 9, 2, 3);
  const Shape order = reversed_pairs(21);
  check_bits({"layerNorm", shape, "rows permuted"}, "y",
             layer_norm({.shape = shape, .axes = {}, .x = permuted(x, shape, order, 0)}).y,
             permuted(layer_norm({.shape = shape, .axes = {}, .x = x}).y, shape, order, 0));
}

TEST_CASE("permuting the values of a group moves them by rounding only") {
  const auto near = [](const Case& what, const Values& got, const Values& want) {
    check_near(
        what, "y", got, wide(want), [&](std::size_t i) { return std::max(1.0f, std::fabs(want[i])); },
        2 * kPromise);
  };
  for (const Shape& shape : kBatches) {
    const Shape order = reversed_pairs(shape[0]);
    const Values x = draw(product(shape), 10, 2, 3);
    near({"batchNormTraining", shape, "batch permuted"},
         batch_norm_training({.shape = shape, .axes = {}, .x = permuted(x, shape, order, 0)}).y,
         permuted(batch_norm_training({.shape = shape, .axes = {}, .x = x}).y, shape, order, 0));
  }
  const Shape shape = {5, 700}, order = reversed_pairs(700);
  const Values x = draw(product(shape), 11, 2, 3);
  near({"layerNorm", shape, "units permuted"},
       layer_norm({.shape = shape, .axes = {}, .x = permuted(x, shape, order, 1)}).y,
       permuted(layer_norm({.shape = shape, .axes = {}, .x = x}).y, shape, order, 1));
}

// ---------------------------------------------------------------- Ba, Kiros, Hinton 2016, table 1

namespace {

constexpr std::size_t kCases = 32, kInputs = 8, kUnits = 16;

struct Linear {
  // [units, inputs] and [cases, inputs].
  std::vector<double> weight, data;

  Linear() {
    for (float value : draw(kUnits * kInputs, 20)) weight.push_back(value);
    for (float value : draw(kCases * kInputs, 21)) data.push_back(value);
  }
  Values outputs() const {
    Values result;
    for (std::size_t example = 0; example < kCases; ++example) {
      for (std::size_t unit = 0; unit < kUnits; ++unit) {
        double sum = 0;
        for (std::size_t i = 0; i < kInputs; ++i)
          sum += weight[unit * kInputs + i] * data[example * kInputs + i];
        result.push_back(static_cast<float>(sum));
      }
    }
    return result;
  }
};

struct Change {
  const char* name;
  void (*apply)(Linear& linear);
  bool batch_norm_invariant, layer_norm_invariant;
};

constexpr double kFactor = 3.3;

const Change kTable1[] = {
    {"weight matrix re-scaling",
     [](Linear& l) {
       for (double& w : l.weight) w *= kFactor;
     },
     true, true},
    {"weight matrix re-centering",
     [](Linear& l) {
       for (std::size_t unit = 0; unit < kUnits; ++unit) {
         for (std::size_t i = 0; i < kInputs; ++i) {
           l.weight[unit * kInputs + i] += 0.3 * static_cast<double>(i + 1);
         }
       }
     },
     false, true},
    {"weight vector re-scaling",
     [](Linear& l) {
       for (std::size_t i = 0; i < kInputs; ++i) l.weight[5 * kInputs + i] *= kFactor;
     },
     true, false},
    {"dataset re-scaling",
     [](Linear& l) {
       for (double& value : l.data) value *= kFactor;
     },
     true, true},
    {"dataset re-centering",
     [](Linear& l) {
       for (double& value : l.data) value += 0.5;
     },
     true, false},
    {"single case re-scaling",
     [](Linear& l) {
       for (std::size_t i = 0; i < kInputs; ++i) l.data[7 * kInputs + i] *= kFactor;
     },
     false, true},
};

}  // namespace

TEST_CASE("table 1 of the layer norm paper, at epsilon 0") {
  const Linear plain;
  const auto check = [&](const char* op, Result (*run_on)(Call), const Change& change, bool invariant) {
    Linear changed = plain;
    change.apply(changed);
    const Shape shape = {kCases, kUnits};
    const auto y = [&](const Linear& linear) {
      return run_on({.shape = shape, .axes = {}, .x = linear.outputs(), .epsilon = 0}).y;
    };
    const Values before = y(plain), after = y(changed);
    // Outputs are rounded to floats before the norm: each is off by half a machine epsilon of its size, which
    // the norm shows relative to the deviation. No output here is larger than 16 deviations.
    const double bound = 2 * kPromise + 16 * kEpsilon;
    const auto magnitude = [&](std::size_t i) { return std::max(1.0f, std::fabs(before[i])); };
    const Case what = {op, shape, change.name};
    if (invariant) {
      check_near(what, "y", after, wide(before), magnitude, bound);
    } else {
      INFO(op << ", " << change.name);
      CHECK(worst_error(after, wide(before), magnitude).error > 0.01);
    }
  };
  for (const Change& change : kTable1) {
    check("batchNormTraining", batch_norm_training, change, change.batch_norm_invariant);
    check("layerNorm", layer_norm, change, change.layer_norm_invariant);
  }
}

TEST_CASE("a bias before batch norm cancels in training") {
  const Shape shape = {50, 6};
  const Values x = draw(300, 22, 0, 2), offset = {1, -2, 3, 0.5f, 100, -7};
  Values moved = x;
  double largest = 0;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    moved[i] += offset[i % 6];
    largest = std::max(largest, std::fabs(double{moved[i]}));
  }
  const Values before = batch_norm_training({.shape = shape, .axes = {}, .x = x}).y;
  const Values after = batch_norm_training({.shape = shape, .axes = {}, .x = moved}).y;
  check_near(
      {"batchNormTraining", shape, "with a bias before"}, "y", after, wide(before),
      [&](std::size_t i) { return std::max(1.0f, std::fabs(before[i])); }, 2 * kPromise + kEpsilon * largest);
  CHECK(layer_norm({.shape = shape, .axes = {}, .x = moved}).y !=
        layer_norm({.shape = shape, .axes = {}, .x = x}).y);
}

TEST_CASE("folding batch norm into the layer before it changes nothing") {
  const Linear linear;
  const Shape shape = {kCases, kUnits};
  const Values mean = draw(kUnits, 23), variance = draw(kUnits, 24, 9, 1), scale = draw(kUnits, 25, 1, 1),
               bias = draw(kUnits, 26);
  Linear folded = linear;
  Values offset;
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    const double factor = scale[unit] / std::sqrt(variance[unit] + 1e-5);
    for (std::size_t i = 0; i < kInputs; ++i) folded.weight[unit * kInputs + i] *= factor;
    offset.push_back(static_cast<float>(bias[unit] - mean[unit] * factor));
  }
  std::vector<double> want = wide(folded.outputs());
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += offset[i % kUnits];
  const Result got = batch_norm({.shape = shape,
                                 .axes = {},
                                 .x = linear.outputs(),
                                 .scale = scale,
                                 .bias = bias,
                                 .mean = mean,
                                 .variance = variance});
  check_near(
      {"batchNorm", shape, "folded"}, "y", got.y, want,
      [&](std::size_t i) { return std::max(1.0, std::fabs(want[i])); }, 1e-6);
}
