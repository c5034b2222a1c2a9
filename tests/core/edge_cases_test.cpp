// Constants, values whose squares overflow or underflow, NaN and infinity: each in rows and in every layout
// of channels.

#include "call.h"
#include "reference.h"

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// One way to put `count` values that share their statistics into memory, with `others` around them.
struct Layout {
  std::string name;
  Operation operation;
  Shape shape;
  std::size_t axis, statistic;
  /// Where the values are.
  std::vector<std::size_t> places;
};

Layout channel_layout(std::size_t n, std::size_t channels, std::size_t run) {
  Layout layout = {
      "batchNormTraining", simdnorm::batch_norm_training, {n, channels, run}, 1, channels / 2, {}};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < run; ++j) layout.places.push_back((i * channels + channels / 2) * run + j);
  }
  return layout;
}

std::vector<Layout> layouts(std::size_t count) {
  std::vector<Layout> result;
  for (const std::size_t rows : {1, 3}) {
    Layout layout = {"layerNorm", simdnorm::layer_norm, {rows, count}, 1, rows / 2, {}};
    for (std::size_t i = 0; i < count; ++i) layout.places.push_back(rows / 2 * count + i);
    result.push_back(layout);
  }
  for (const std::size_t channels : {1, 2, 5, 9}) {
    result.push_back(channel_layout(count, channels, 1));
    result.push_back(channel_layout(1, channels, count));
    for (const std::size_t run : {2, 3, 15, 16, 17}) {
      if (count % run == 0 && count > run) result.push_back(channel_layout(count / run, channels, run));
    }
  }
  return result;
}

struct Group {
  Case what;
  Values y;
  float mean, variance, inv_std;
};

/// The group's results in a layout, among ordinary values.
Group normalized(const Layout& layout, const Values& values, const std::string& data, double epsilon = 1e-5,
                 Values bias = {}) {
  Values x = draw(product(layout.shape), 3, 2, 3);
  for (std::size_t i = 0; i < values.size(); ++i) x[layout.places[i]] = values[i];
  const Result result =
      run(layout.operation,
          {.shape = layout.shape, .axes = {layout.axis}, .x = x, .bias = bias, .epsilon = epsilon});
  Group group = {{layout.name, layout.shape, data},
                 {},
                 result.mean[layout.statistic],
                 result.variance[layout.statistic],
                 result.inv_std[layout.statistic]};
  for (std::size_t place : layout.places) group.y.push_back(result.y[place]);
  return group;
}

Values repeated(std::size_t count, const Values& pattern) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = pattern[i % pattern.size()];
  return values;
}

std::vector<std::size_t> even_lengths() {
  std::vector<std::size_t> result;
  for (std::size_t length = 2; length <= 68; length += 2) result.push_back(length);
  result.insert(result.end(), {510, 512, 514, 544, 1024, 1200});
  return result;
}

/// Values of one magnitude and both signs in equal numbers are +-1 exactly.
void check_signs(float magnitude) {
  for (const std::size_t count : even_lengths()) {
    for (const Layout& layout : layouts(count)) {
      const Group group =
          normalized(layout, repeated(count, {-magnitude, magnitude}), "+-" + text(magnitude), 0);
      check_bits(group.what, "y", group.y, repeated(count, {-1, 1}));
      check_bits(group.what, "mean", {group.mean}, {0});
    }
  }
}

void check_promise(const Values& values, const std::string& data, double epsilon = 1e-5) {
  const auto want = reference::layer_norm(values, 1, values.size(), {}, {}, epsilon);
  for (const Layout& layout : layouts(values.size())) {
    const Group group = normalized(layout, values, data, epsilon);
    check_near(
        group.what, "y", group.y, want.y, [&](std::size_t i) { return std::max(1.0, std::fabs(want.y[i])); },
        kPromise);
  }
}

}  // namespace

TEST_CASE("a constant group gives exactly bias, and 0 without one") {
  const float constants[] = {0.1f,     1000.1f, 3.3e7f, 1e-30f, 3e38f, 1e-40f,
                             1.4e-45f, -0.1f,   -3e38f, 0.0f,   1.0f};
  for (std::size_t count = 1; count <= 67; ++count) {
    for (const float constant : constants) {
      for (const Layout& layout : layouts(count)) {
        const Values values(count, constant);
        const Group group = normalized(layout, values, "constant " + text(constant));
        check_all(group.what, "y", group.y, 0);
        check_bits(group.what, "mean", {group.mean}, {constant});
        check_bits(group.what, "variance", {group.variance}, {0});
        const std::size_t parameters = layout.shape[1];
        check_all(group.what, "y with bias",
                  normalized(layout, values, "constant with bias", 1e-5, Values(parameters, 0.7f)).y, 0.7f);
      }
    }
  }
  for (const std::size_t count : {512, 513, 544, 1024, 4099}) {
    for (const float constant : constants) {
      for (const Layout& layout : layouts(count)) {
        const Group group = normalized(layout, Values(count, constant), "constant " + text(constant));
        check_all(group.what, "y", group.y, 0);
        check_bits(group.what, "variance", {group.variance}, {0});
      }
    }
  }
}

TEST_CASE("epsilon 0 and zero variance is 0 / 0") {
  for (const std::size_t count : {1, 3, 16, 48}) {
    for (const Layout& layout : layouts(count)) {
      const Group group = normalized(layout, Values(count, 5.1f), "constant, epsilon 0", 0);
      check_all(group.what, "y", group.y, kNaN);
      check_bits(group.what, "variance", {group.variance}, {0});
      check_bits(group.what, "invStd", {group.inv_std}, {kInfinity});
    }
  }
}

TEST_CASE("values whose squares underflow or overflow are right") {
  for (const float magnitude : {1e-30f, 1e-40f, 1e-45f, 1e30f, 3e38f}) check_signs(magnitude);
  // Where floats may do, sums of equal squares round.
  for (const float magnitude : {1e-20f, 1e-15f, 1e-14f, 1e15f, 1e18f, 1e19f}) {
    for (const std::size_t count : even_lengths())
      check_promise(repeated(count, {-magnitude, magnitude}), "+-c", 0);
  }
}

TEST_CASE("values that overflow when they are summed or subtracted are right") {
  constexpr float kHuge = 3.4e38f;
  for (const std::size_t count : {2, 5, 16, 17, 48, 64, 513}) {
    Values values(count, -kHuge);
    values[count / 2] = kHuge;
    check_promise(values, "one 3.4e38 and many -3.4e38");
    check_promise(repeated(count, {kHuge, -kHuge, kHuge}), "3.4e38 of both signs", 0);
    check_promise(repeated(count, {kHuge, 1, 2}), "3.4e38 among ones");
  }
}

TEST_CASE("small and large values together are right") {
  for (const std::size_t count : {2, 5, 16, 48, 64, 513, 1024}) {
    check_promise(repeated(count, {1e-40f, 3e-40f, 2e-38f}), "subnormals", 0);
    check_promise(repeated(count, {1e-25f, -2e-19f, 1e-18f}), "squares near the smallest float", 0);
    check_promise(repeated(count, {1e-30f, 1, 1e10f}), "1e-30 to 1e10");
    check_promise(repeated(count, {1e18f, -1e19f, 3e19f}), "squares near the largest float");
    check_promise(draw(count, 1, 0, 1e-15), "deviation 1e-15", 0);
    check_promise(draw(count, 1, 1e20, 1e17), "mean 1e20, deviation 1e17");
    // 16 values that hide what follows.
    Values late(count, 1e-30f);
    late[count - 1] = 1e30f;
    check_promise(late, "1e30 behind 1e-30");
    late[count - 1] = 2e-30f;
    check_promise(late, "2e-30 behind 1e-30", 0);
  }
}

TEST_CASE("NaN and infinity stay in their group, whose statistics are NaN") {
  struct Bad {
    const char* name;
    Values values;
  };
  for (const std::size_t count : {1, 2, 3, 8, 16, 17, 48, 64, 513}) {
    const Values ordinary = draw(count, 4, 1, 2);
    std::vector<Bad> bads;
    for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
      for (const float value : {kNaN, kInfinity, -kInfinity}) {
        bads.push_back({"one", ordinary});
        bads.back().values[at] = value;
      }
    }
    bads.push_back({"infinity everywhere", Values(count, kInfinity)});
    bads.push_back({"-infinity everywhere", Values(count, -kInfinity)});
    bads.push_back({"NaN everywhere", Values(count, kNaN)});
    bads.push_back({"infinities of both signs", repeated(count, {kInfinity, -kInfinity})});
    bads.push_back({"infinity and 1", repeated(count, {kInfinity, 1})});
    for (const Bad& bad : bads) {
      for (const Layout& layout : layouts(count)) {
        const Group group = normalized(layout, bad.values, bad.name);
        check_all(group.what, "mean", {group.mean}, kNaN);
        check_all(group.what, "variance", {group.variance}, kNaN);
        check_all(group.what, "invStd", {group.inv_std}, kNaN);
        check_all(group.what, "y", group.y, kNaN);
      }
    }
  }
}

TEST_CASE("the company's bits do not change") {
  const float strange[] = {kNaN, kInfinity, 1e30f, 1e-30f, 1e-40f, 3e38f, 0.0f};
  for (const std::size_t count : {2, 16, 17, 48, 64, 513}) {
    for (const Layout& layout : layouts(count)) {
      Values x = draw(product(layout.shape), 3, 2, 3);
      const Call call = {.shape = layout.shape, .axes = {layout.axis}, .x = x};
      const Result before = run(layout.operation, call);
      for (const float value : strange) {
        Call changed = call;
        for (std::size_t place : layout.places) changed.x[place] = place % 3 ? value : -value / 2;
        Result after = run(layout.operation, changed);
        for (std::size_t place : layout.places) after.y[place] = before.y[place];
        after.mean[layout.statistic] = before.mean[layout.statistic];
        after.variance[layout.statistic] = before.variance[layout.statistic];
        after.inv_std[layout.statistic] = before.inv_std[layout.statistic];
        const Case what = {layout.name, layout.shape, "beside " + text(value)};
        check_bits(what, "y", after.y, before.y);
        check_bits(what, "mean", after.mean, before.mean);
        check_bits(what, "variance", after.variance, before.variance);
        check_bits(what, "invStd", after.inv_std, before.inv_std);
      }
    }
  }
}

TEST_CASE("deviations far smaller than the mean") {
  check_promise({40000, 40001, 40002, 40003}, "[40000..40003]");
  const Group small = normalized(layouts(4)[0], {40000, 40001, 40002, 40003}, "[40000..40003]");
  check_near(small.what, "y", small.y, {-1.3416354, -0.4472118, 0.4472118, 1.3416354}, kPromise);

  Values steps(16), cycle(4096);
  for (std::size_t i = 0; i < steps.size(); ++i)
    steps[i] = static_cast<float>(10000 + static_cast<double>(i) * 1e-3);
  for (std::size_t i = 0; i < cycle.size(); ++i)
    cycle[i] = static_cast<float>(1e7 + static_cast<double>(i % 5));
  check_promise(steps, "10000 + i * 1e-3");
  check_promise(cycle, "1e7 + i % 5");
}

TEST_CASE("given statistics: what the definition says") {
  const auto y = [](float x, float mean, float variance, double epsilon) {
    return batch_norm({.shape = {1, 1},
                       .axes = {},
                       .x = {x},
                       .mean = {mean},
                       .variance = {variance},
                       .epsilon = epsilon})
        .y[0];
  };
  CHECK(std::isnan(y(1, 1, 0, 0)));
  CHECK(y(2, 1, 0, 0) == kInfinity);
  CHECK(y(0, 1, 0, 0) == -kInfinity);
  CHECK(std::isnan(y(2, 1, -1, 1e-5)));
  CHECK(std::isnan(y(2, kNaN, 1, 1e-5)));
  CHECK(std::isnan(y(kNaN, 2, 1, 1e-5)));
  CHECK(y(kInfinity, 2, 1, 1e-5) == kInfinity);
  // The square of the deviation is a float, its root's inverse is: 1e-38 is normal, 1e-40 is not.
  CHECK(std::fabs(y(1e-19f, 0, 1e-38f, 0) - 1) <= kPromise);
  CHECK(std::fabs(y(-1e19f, 0, 1e38f, 0) + 1) <= kPromise);
  CHECK(y(3e38f, -3e38f, 1, 0) == kInfinity);
  // Adding +0 in place of the missing bias would change the sign.
  CHECK(std::signbit(y(-0.0f, 0, 1, 0)));
}

TEST_CASE("an inverse deviation and a scale whose product is no float") {
  const auto y = [](float x, float variance, float scale) {
    return batch_norm({.shape = {1, 1},
                       .axes = {},
                       .x = {x},
                       .scale = {scale},
                       .mean = {0},
                       .variance = {variance},
                       .epsilon = 0})
        .y[0];
  };
  CHECK(std::fabs(y(1e-18f, 1e-36f, 1e25f) / 1e25f - 1) <= kAffinePromise);
  CHECK(std::fabs(y(1e18f, 1e36f, 1e-30f) / 1e-30f - 1) <= kAffinePromise);
}
