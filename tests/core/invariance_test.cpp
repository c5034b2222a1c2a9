// What must not change a result, to the bit where nothing rounds, and what must.

#include <numeric>

#include "call.h"
#include "layouts.h"
#include "reference.h"

using reference::exact;

namespace {

template <class T>
ValuesOf<T> scaled(ValuesOf<T> values, std::type_identity_t<T> factor) {
  for (T& value : values) value *= factor;
  return values;
}

/// -0 becomes 0.
template <class T>
ValuesOf<T> without_negative_zeros(ValuesOf<T> values) {
  for (T& value : values) value += 0;
  return values;
}

/// Shapes of batches in each layout: columns, short runs, runs, one channel, one item.
const Shape kBatches[] = {{40, 9, 1},  {300, 5, 1}, {17, 6, 3}, {9, 70, 15}, {5, 3, 16},
                          {4, 5, 100}, {3, 2, 600}, {12, 1, 5}, {1, 7, 33}};

/// Everything that has statistics, in every layout.
std::vector<Layout> all_layouts() {
  std::vector<Layout> result;
  for (const Shape& shape : kBatches) {
    result.push_back(by_channel("by channel", shape, 1));
    result.push_back(by_group("by group", {2, shape[0], 2 * shape[1], shape[2]}, 2, shape[1]));
    result.push_back(by_group("by group", {2, 4 * shape[1], shape[2]}, 1, 2));
  }
  for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kLpNormalize}) {
    for (const std::size_t units : {1, 2, 3, 7, 16, 17, 63, 512, 545, 1024}) {
      result.push_back(over_axes("rows", *operation, {3, units}, {1}));
      result.push_back(over_axes("columns", *operation, {units, 5}, {0}));
    }
    result.push_back(over_axes("short runs", *operation, {17, 4, 3}, {0, 2}));
    result.push_back(over_axes("runs", *operation, {5, 3, 20}, {0, 2}));
    result.push_back(over_axes("permuted", *operation, {3, 5, 4, 3}, {0, 2}));
  }
  return result;
}

/// Calls body(call, name) for what a layout is tested with: every p where there is one.
template <class T, class Body>
void each_call(const Layout& layout, const ValuesOf<T>& x, Body body) {
  CallOf<T> call = call_of(layout, x);
  for (const double p : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    if (p != 2 && !(*layout.operation == kLpNormalize)) break;
    call.p = p;
    body(call);
  }
}

template <class T>
ValuesOf<T> permuted(const ValuesOf<T>& x, const Shape& shape, const Shape& order, std::size_t axis) {
  ValuesOf<T> result(x.size());
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

TEMPLATE_TEST_CASE("a power of two, with epsilon times its square, changes no bit", "", float, double) {
  using T = TestType;
  for (const Layout& layout : all_layouts()) {
    for (const double mean : {0.0, 1.0, 1e3, 1e7}) {
      each_call(layout, draw<T>(product(layout.shape), 1, mean), [&](const CallOf<T>& call) {
        const ValuesOf<T> y = run(*layout.operation, call).y;
        for (const int power : {-20, -3, 1, 4, 20, 300}) {
          if (power > 20 && std::is_same_v<T, float>) continue;
          const double factor = std::ldexp(1.0, power);
          CallOf<T> larger = call;
          larger.x = scaled(call.x, static_cast<T>(factor));
          // A norm's epsilon is in units of x.
          larger.epsilon *= *layout.operation == kLpNormalize ? factor : factor * factor;
          const std::string data =
              layout.name + ", times 2^" + std::to_string(power) + ", mean " + text(mean);
          check_bits(case_of(*layout.operation, call, data), "y", run(*layout.operation, larger).y, y);
        }
      });
    }
  }
}

TEST_CASE("a power of two alone is seen where epsilon is") {
  for (const Operation* operation : {&kLayerNorm, &kRmsNorm}) {
    const Call call = {.shape = {64}, .axes = {0}, .x = draw(64, 1, 0, 0.01)};
    Call larger = call;
    larger.x = scaled(call.x, 2);
    CHECK(run(*operation, larger).y != run(*operation, call).y);
  }
}

TEMPLATE_TEST_CASE("negation changes the sign and no other bit", "", float, double) {
  using T = TestType;
  for (const Layout& layout : all_layouts()) {
    for (const double mean : {0.0, 1.0, 1e3, 1e7}) {
      each_call(layout, draw<T>(product(layout.shape), 2, mean), [&](const CallOf<T>& call) {
        CallOf<T> negated = call;
        negated.x = scaled(call.x, -1);
        check_bits(case_of(*layout.operation, call, layout.name + ", negated"), "y",
                   without_negative_zeros(run(*layout.operation, negated).y),
                   without_negative_zeros(scaled(run(*layout.operation, call).y, -1)));
      });
    }
  }
}

TEMPLATE_TEST_CASE("each row is equal to that row alone", "", float, double) {
  using T = TestType;
  constexpr bool wide = std::is_same_v<T, double>;
  const double means[] = {0, 1, 1e3, 1e7},
               deviations[] = {1, wide ? 1e-302 : 1e-32, 1e-3, wide ? 1e300 : 1e30};
  for (const std::size_t units : {1, 2, 3, 7, 16, 17, 63, 64, 100, 512, 545, 1024, 4099}) {
    const std::size_t rows = units > 1000 ? 9 : 60;
    const auto scale = draw<T>(units, 5, 1, 1), bias = draw<T>(units, 6);
    ValuesOf<T> x;
    for (std::size_t row = 0; row < rows; ++row) {
      const double deviation = deviations[row / 4 % 4];
      auto values =
          draw<T>(units, static_cast<std::uint32_t>(row) + 1, means[row % 4] * deviation, deviation);
      // The first values, which choose the pivot, mislead.
      if (row % 5 == 0 && units > 64) {
        for (std::size_t i = 0; i < 32; ++i) values[i] += static_cast<T>(deviation);
      }
      x.insert(x.end(), values.begin(), values.end());
    }
    for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kLpNormalize}) {
      const bool has_parameters = !(*operation == kLpNormalize);
      each_call<T>(over_axes("rows", *operation, {rows, units}, {1}), x, [&](CallOf<T> call) {
        if (has_parameters) call.scale = scale;
        if (*operation == kLayerNorm) call.bias = bias;
        const ResultOf<T> together = run(*operation, call);
        CallOf<T> plain = call;
        plain.mean_out = plain.variance_out = plain.inv_std_out = false;
        check_bits(case_of(*operation, call, "statistics not wanted"), "y", run(*operation, plain).y,
                   together.y);
        for (std::size_t row = 0; row < rows; ++row) {
          const auto begin = static_cast<std::ptrdiff_t>(row * units),
                     end = static_cast<std::ptrdiff_t>((row + 1) * units);
          CallOf<T> single = call;
          single.shape = {1, units};
          single.x = {x.begin() + begin, x.begin() + end};
          const ResultOf<T> alone = run(*operation, single);
          const Case what = case_of(*operation, call, "row " + std::to_string(row));
          check_bits(what, "y", ValuesOf<T>(together.y.begin() + begin, together.y.begin() + end), alone.y);
          const auto check_one = [&](const char* output, const ValuesOf<T>& all, const ValuesOf<T>& own) {
            if (!own.empty()) check_bits(what, output, ValuesOf<T>{all[row]}, own);
          };
          check_one("mean", together.mean, alone.mean);
          check_one("variance", together.variance, alone.variance);
          check_one("invStd", together.inv_std, alone.inv_std);
        }
      });
    }
  }
}

TEMPLATE_TEST_CASE("each channel is equal to that channel beside any other", "", float, double) {
  using T = TestType;
  for (const Shape& shape : kBatches) {
    const std::size_t n = shape[0], channels = shape[1], run_length = shape[2];
    if (channels == 1) continue;
    const auto x = draw<T>(product(shape), 7, 3, 0.5);
    const auto together = batch_norm_training<T>({.shape = shape, .x = x});
    for (std::size_t c = 0; c < channels; c += 4) {
      // One channel alone would be read as a row: another layout, and another order of summation.
      ValuesOf<T> pair(n * 2 * run_length, T(1e20)), channel(n * run_length);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < run_length; ++j) {
          pair[i * 2 * run_length + j] = x[(i * channels + c) * run_length + j];
          channel[i * run_length + j] = together.y[(i * channels + c) * run_length + j];
        }
      }
      const auto beside = batch_norm_training<T>({.shape = {n, 2, run_length}, .x = pair});
      ValuesOf<T> got(n * run_length);
      for (std::size_t i = 0; i < got.size(); ++i)
        got[i] = beside.y[i / run_length * 2 * run_length + i % run_length];
      const Case what = {"batchNormTraining", shape, "channel " + std::to_string(c)};
      check_bits(what, "y", got, channel);
      check_bits(what, "mean", ValuesOf<T>{beside.mean[0]}, {together.mean[c]});
      check_bits(what, "variance", ValuesOf<T>{beside.variance[0]}, {together.variance[c]});
    }
  }
}

TEMPLATE_TEST_CASE("each item's groups are equal to those of the item alone", "", float, double) {
  using T = TestType;
  // Channels first, last, and in the middle with short and long runs: items join the groups or don't.
  for (const Shape& shape : {Shape{3, 1, 6, 20}, Shape{3, 1, 12, 2}, Shape{3, 9, 6, 1}, Shape{3, 7, 6, 3},
                             Shape{3, 5, 6, 20}, Shape{3, 2, 600, 1}}) {
    for (const std::size_t groups : {1, 2, 3, 6}) {
      const std::size_t size = product(shape) / 3;
      CallOf<T> call = {.shape = shape,
                        .axes = {2},
                        .x = draw<T>(product(shape), 13, 3, 0.5),
                        .scale = draw<T>(shape[2], 14, 1),
                        .bias = draw<T>(shape[2], 15),
                        .groups = groups};
      const ResultOf<T> together = run(kGroupNorm, call);
      for (std::size_t item = 0; item < 3; ++item) {
        CallOf<T> single = call;
        single.shape[0] = 1;
        single.x = {call.x.begin() + item * size, call.x.begin() + (item + 1) * size};
        const ResultOf<T> alone = run(kGroupNorm, single);
        const Case what = case_of(kGroupNorm, call, "item " + std::to_string(item));
        const auto part = [&](const ValuesOf<T>& all, std::size_t count) {
          return ValuesOf<T>(all.begin() + item * count, all.begin() + (item + 1) * count);
        };
        check_bits(what, "y", alone.y, part(together.y, size));
        check_bits(what, "mean", alone.mean, part(together.mean, groups));
        check_bits(what, "variance", alone.variance, part(together.variance, groups));
        check_bits(what, "invStd", alone.inv_std, part(together.inv_std, groups));
      }
    }
  }
}

TEMPLATE_TEST_CASE("a group for each channel is instance norm, one group is layer norm", "", float, double) {
  using T = TestType;
  for (const Shape& shape : {Shape{3, 6, 20}, Shape{2, 5, 3, 4}, Shape{4, 30}, Shape{2, 600, 2}}) {
    for (std::size_t axis = 1; axis < shape.size(); ++axis) {
      CallOf<T> call = {.shape = shape,
                        .axes = {axis},
                        .x = draw<T>(product(shape), 16, 3, 0.5),
                        .scale = draw<T>(shape[axis], 17, 1),
                        .bias = draw<T>(shape[axis], 18),
                        .groups = shape[axis]};
      const ResultOf<T> group = run(kGroupNorm, call);
      // Instance norm ignores groups.
      call.groups = 7;
      const ResultOf<T> instance = run(kInstanceNorm, call);
      const Case what = case_of(kInstanceNorm, call, "as group norm");
      check_bits(what, "y", instance.y, group.y);
      check_bits(what, "mean", instance.mean, group.mean);
      check_bits(what, "invStd", instance.inv_std, group.inv_std);

      CallOf<T> one = {.shape = shape, .axes = {axis}, .x = call.x};
      const ResultOf<T> of_all = run(kGroupNorm, one);
      one.axes.resize(shape.size() - 1);
      std::iota(one.axes.begin(), one.axes.end(), 1);
      const ResultOf<T> layer = run(kLayerNorm, one);
      const Case as_layer = case_of(kGroupNorm, one, "as layer norm");
      check_bits(as_layer, "y", of_all.y, layer.y);
      check_bits(as_layer, "mean", of_all.mean, layer.mean);
    }
  }
}

TEST_CASE("permuting rows, or channels, permutes the result to the bit") {
  for (const Shape& shape : kBatches) {
    const Shape order = reversed_pairs(shape[1]);
    const Values x = draw(product(shape), 8, 2, 3);
    const auto run_on = [&](const Values& values) {
      return batch_norm_training({.shape = shape, .x = values});
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
             layer_norm({.shape = shape, .x = permuted(x, shape, order, 0)}).y,
             permuted(layer_norm({.shape = shape, .x = x}).y, shape, order, 0));
}

TEST_CASE("permuting the values of a group moves them by rounding only") {
  const auto near = [](const Case& what, const Values& got, const Values& want) {
    check_near(
        what, "y", got, exact(want), [&](std::size_t i) { return std::max(1.0f, std::fabs(want[i])); },
        2 * kPromise);
  };
  for (const Shape& shape : kBatches) {
    const Shape order = reversed_pairs(shape[0]);
    const Values x = draw(product(shape), 10, 2, 3);
    near({"batchNormTraining", shape, "batch permuted"},
         batch_norm_training({.shape = shape, .x = permuted(x, shape, order, 0)}).y,
         permuted(batch_norm_training({.shape = shape, .x = x}).y, shape, order, 0));
  }
  const Shape shape = {5, 700}, order = reversed_pairs(700);
  const Values x = draw(product(shape), 11, 2, 3);
  near({"layerNorm", shape, "units permuted"},
       layer_norm({.shape = shape, .x = permuted(x, shape, order, 1)}).y,
       permuted(layer_norm({.shape = shape, .x = x}).y, shape, order, 1));
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
  bool batch_norm_invariant, layer_norm_invariant, rms_norm_invariant;
};

constexpr double kFactor = 3.3;

const Change kTable1[] = {
    {"weight matrix re-scaling",
     [](Linear& l) {
       for (double& w : l.weight) w *= kFactor;
     },
     true, true, true},
    {"weight matrix re-centering",
     [](Linear& l) {
       for (std::size_t unit = 0; unit < kUnits; ++unit) {
         for (std::size_t i = 0; i < kInputs; ++i) {
           l.weight[unit * kInputs + i] += 0.3 * static_cast<double>(i + 1);
         }
       }
     },
     false, true, false},
    {"weight vector re-scaling",
     [](Linear& l) {
       for (std::size_t i = 0; i < kInputs; ++i) l.weight[5 * kInputs + i] *= kFactor;
     },
     true, false, false},
    {"dataset re-scaling",
     [](Linear& l) {
       for (double& value : l.data) value *= kFactor;
     },
     true, true, true},
    {"dataset re-centering",
     [](Linear& l) {
       for (double& value : l.data) value += 0.5;
     },
     true, false, false},
    {"single case re-scaling",
     [](Linear& l) {
       for (std::size_t i = 0; i < kInputs; ++i) l.data[7 * kInputs + i] *= kFactor;
     },
     false, true, true},
};

}  // namespace

TEST_CASE("table 1 of the layer norm paper, and its line for RMS norm, at epsilon 0") {
  const Linear plain;
  const auto check = [&](const Operation& operation, std::size_t axis, const Change& change, bool invariant) {
    Linear changed = plain;
    change.apply(changed);
    const Shape shape = {kCases, kUnits};
    const auto y = [&](const Linear& linear) {
      return run(operation, Call{.shape = shape, .axes = {axis}, .x = linear.outputs(), .epsilon = 0}).y;
    };
    const Values before = y(plain), after = y(changed);
    // Outputs are rounded to floats before the norm: each is off by half a machine epsilon of its size, which
    // the norm shows relative to the deviation. No output here is larger than 16 deviations.
    const double bound = 2 * kPromise + 16 * kEpsilon;
    const auto magnitude = [&](std::size_t i) { return std::max(1.0f, std::fabs(before[i])); };
    const Case what = {operation.name, shape, change.name};
    if (invariant) {
      check_near(what, "y", after, exact(before), magnitude, bound);
    } else {
      INFO(operation.name << ", " << change.name);
      CHECK(worst_error(after, exact(before), magnitude).error > 0.01);
    }
  };
  for (const Change& change : kTable1) {
    check(kBatchNormTraining, 1, change, change.batch_norm_invariant);
    check(kLayerNorm, 1, change, change.layer_norm_invariant);
    check(kRmsNorm, 1, change, change.rms_norm_invariant);
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
  const Values before = batch_norm_training({.shape = shape, .x = x}).y;
  const Values after = batch_norm_training({.shape = shape, .x = moved}).y;
  check_near(
      {"batchNormTraining", shape, "with a bias before"}, "y", after, exact(before),
      [&](std::size_t i) { return std::max(1.0f, std::fabs(before[i])); }, 2 * kPromise + kEpsilon * largest);
  CHECK(layer_norm({.shape = shape, .x = moved}).y != layer_norm({.shape = shape, .x = x}).y);
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
  Reals want = exact(folded.outputs());
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += offset[i % kUnits];
  const Result got = batch_norm({.shape = shape,
                                 .x = linear.outputs(),
                                 .scale = scale,
                                 .bias = bias,
                                 .mean = mean,
                                 .variance = variance});
  check_near(
      {"batchNorm", shape, "folded"}, "y", got.y, want,
      [&](std::size_t i) { return std::max(Real{1}, std::fabs(want[i])); }, 1e-6);
}
