// Constants, values whose squares overflow or underflow, NaN and infinity: each in rows and in every other
// layout.

#include "definition.h"
#include "layouts.h"

namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

/// What is hard to square, and to square exactly.
template <class T>
struct Range;
template <>
struct Range<float> {
  static constexpr float kTiny[] = {1e-30f, 1e-40f, 1e-45f}, kHuge[] = {1e30f, 3e38f};
  static constexpr float kHard[] = {1e-20f, 1e-15f, 1e-14f, 1e15f, 1e18f, 1e19f};
  static constexpr float kMost = 3.4e38f, kBig = 1e30f, kSmall = 1e-30f, kSubnormal = 1e-40f;
};
template <>
struct Range<double> {
  static constexpr double kTiny[] = {1e-300, 1e-310, 5e-324}, kHuge[] = {1e300, 1.7e308};
  static constexpr double kHard[] = {1e-165, 1e-162, 1e-155, 1e-145, 1e-120,
                                     1e120,  1e150,  1e153,  1e155,  1e160};
  static constexpr double kMost = 1.79e308, kBig = 1e300, kSmall = 1e-300, kSubnormal = 1e-310;
};

void add_over_axes(std::vector<Layout>& result, const Operation& operation, std::size_t count) {
  for (const std::size_t rows : {1, 3}) result.push_back(over_axes("rows", operation, {rows, count}, {1}));
  result.push_back(over_axes("columns", operation, {2, count, 5}, {1}));
  if (count % 2 == 0) result.push_back(over_axes("permuted", operation, {2, 3, count / 2, 2}, {0, 2}));
}

std::vector<Layout> layouts(std::size_t count) {
  std::vector<Layout> result;
  add_over_axes(result, kLayerNorm, count);
  for (const std::size_t channels : {1, 2, 5, 9}) {
    const auto add = [&](std::size_t n, std::size_t run) {
      result.push_back(by_channel("by channel", {n, channels, run}, 1));
    };
    add(count, 1);
    add(1, count);
    for (const std::size_t run : {2, 3, 15, 16, 17}) {
      if (count % run == 0 && count > run) add(count / run, run);
    }
  }
  result.push_back(by_group("rows", {2, 3, count}, 1, 3));
  result.push_back(by_group("columns", {2, count, 3}, 2, 3));
  if (count % 2 == 0) {
    result.push_back(by_group("rows of two channels", {2, 6, count / 2}, 1, 3));
    result.push_back(by_group("columns of two channels", {1, count / 2, 6}, 2, 3));
  }
  if (count % 32 == 0) result.push_back(by_group("runs", {2, count / 32, 64, 1}, 2, 2));
  return result;
}

/// Where no mean is subtracted.
std::vector<Layout> layouts_without_mean(std::size_t count, const Operation& operation) {
  std::vector<Layout> result;
  add_over_axes(result, operation, count);
  if (count % 3 == 0) result.push_back(over_axes("short runs", operation, {count / 3, 2, 3}, {0, 2}));
  if (count % 16 == 0) result.push_back(over_axes("runs", operation, {count / 16, 2, 16}, {0, 2}));
  return result;
}

std::size_t the_statistic(const Layout& layout) { return layout.statistics / 2; }

/// Values in a layout, among ordinary ones.
template <class T>
CallOf<T> call_with(const Layout& layout, const ValuesOf<T>& values, double epsilon) {
  ValuesOf<T> x = draw<T>(product(layout.shape), 3, 2, 3);
  const Shape places = layout.places(the_statistic(layout));
  for (std::size_t i = 0; i < values.size(); ++i) x[places[i]] = values[i];
  CallOf<T> call = call_of(layout, x);
  call.epsilon = epsilon;
  return call;
}

template <class T>
struct Group {
  Case what;
  ValuesOf<T> y, mean, variance, inv_std;
};

/// The group's results, which are right by the definition, as its company's are.
template <class T>
Group<T> normalized(const Layout& layout, const ValuesOf<T>& values, const std::string& data,
                    double epsilon = 1e-5, const ValuesOf<T>& bias = {}, double p = 2) {
  CallOf<T> call = call_with(layout, values, epsilon);
  call.bias = bias;
  call.p = p;
  const std::string about = layout.name + ", " + data;
  const ResultOf<T> result = definition::check(*layout.operation, call, about);
  Group<T> group = {case_of(*layout.operation, call, about), {}, {}, {}, {}};
  for (const std::size_t place : layout.places(the_statistic(layout))) group.y.push_back(result.y[place]);
  const auto own = [&](const ValuesOf<T>& all) {
    return all.empty() ? all : ValuesOf<T>{all[the_statistic(layout)]};
  };
  group.mean = own(result.mean);
  group.variance = own(result.variance);
  group.inv_std = own(result.inv_std);
  return group;
}

template <class T>
ValuesOf<T> repeated(std::size_t count, const std::vector<T>& pattern) {
  ValuesOf<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = pattern[i % pattern.size()];
  return values;
}

std::vector<std::size_t> even_lengths() {
  std::vector<std::size_t> result;
  for (std::size_t length = 2; length <= 68; length += 2) result.push_back(length);
  result.insert(result.end(), {510, 512, 514, 544, 1024, 1200});
  return result;
}

/// In every layout and operation.
template <class T>
void check_values(const ValuesOf<T>& values, const std::string& data, double epsilon = 1e-5) {
  for (const Layout& layout : layouts(values.size())) normalized(layout, values, data, epsilon);
  for (const Layout& layout : layouts_without_mean(values.size(), kRmsNorm)) {
    normalized(layout, values, data, epsilon);
  }
  for (const Layout& layout : layouts_without_mean(values.size(), kLpNormalize)) {
    for (const double p : {1.0, 2.0, kInfinity<double>}) normalized(layout, values, data, epsilon, {}, p);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("a constant group gives exactly bias, and 0 without one", "", float, double) {
  using T = TestType;
  std::vector<T> constants = {T(0.1), T(1000.1), T(3.3e7), T(-0.1), 0, 1, -Range<T>::kMost};
  constants.insert(constants.end(), std::begin(Range<T>::kTiny), std::end(Range<T>::kTiny));
  constants.insert(constants.end(), std::begin(Range<T>::kHuge), std::end(Range<T>::kHuge));
  constants.insert(constants.end(), std::begin(Range<T>::kHard), std::end(Range<T>::kHard));
  for (std::size_t count = 1; count <= 4099; count += count < 67 ? 1 : count < 1000 ? 223 : 1031) {
    for (const Layout& layout : layouts(count)) {
      for (std::size_t i = 0; i < constants.size(); ++i) {
        // Every constant in some layouts of every length, and every length of every layout.
        if (count > 4 && (i + count + layout.shape[0] + layout.shape.back()) % (3 * kThinning) != 0) continue;
        const ValuesOf<T> values(count, constants[i]);
        const std::string data = "constant " + text_of(constants[i]);
        const Group<T> group = normalized(layout, values, data);
        check_all(group.what, "y", group.y, 0);
        check_bits(group.what, "mean", group.mean, {constants[i]});
        check_bits(group.what, "variance", group.variance, {0});
        const ValuesOf<T> bias(layout.parameters, T(0.7));
        check_all(group.what, "y with bias", normalized(layout, values, data + ", bias", 1e-5, bias).y,
                  T(0.7));
      }
    }
  }
}

TEMPLATE_TEST_CASE("epsilon 0 and zero variance is 0 / 0", "", float, double) {
  using T = TestType;
  for (const std::size_t count : {1, 3, 16, 48}) {
    for (const Layout& layout : layouts(count)) {
      const Group<T> group = normalized(layout, ValuesOf<T>(count, T(5.1)), "constant, epsilon 0", 0);
      check_all(group.what, "y", group.y, kNaN<T>);
      check_bits(group.what, "variance", group.variance, {0});
      check_bits(group.what, "invStd", group.inv_std, {kInfinity<T>});
    }
  }
}

TEMPLATE_TEST_CASE("rows of zeros", "", float, double) {
  using T = TestType;
  for (const std::size_t count : {1, 2, 3, 16, 17, 48, 600}) {
    const ValuesOf<T> zeros(count);
    for (const Layout& layout : layouts_without_mean(count, kRmsNorm)) {
      const Group<T> group = normalized(layout, zeros, "zeros");
      check_all(group.what, "y", group.y, 0);
      check_bits(group.what, "invStd", group.inv_std, {T(1 / std::sqrt(1e-5))});
      check_all(group.what, "y, epsilon 0", normalized(layout, zeros, "zeros, epsilon 0", 0).y, kNaN<T>);
    }
    for (const Layout& layout : layouts_without_mean(count, kLpNormalize)) {
      for (const double p : {1.0, 2.0, kInfinity<double>}) {
        for (const double epsilon : {0.0, 1e-12, 1e300, 5e-324}) {
          const Group<T> group = normalized(layout, zeros, "zeros, epsilon " + text(epsilon), epsilon, {}, p);
          check_all(group.what, "y", group.y, 0);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("norms below epsilon", "", float, double) {
  using T = TestType;
  for (const std::size_t count : {1, 2, 3, 16, 17, 48, 600}) {
    for (const Layout& layout : layouts_without_mean(count, kLpNormalize)) {
      for (const double p : {1.0, 2.0, kInfinity<double>}) {
        for (const double size : {1.0, 1e-9, 1e-20, double{Range<T>::kSmall}, double{Range<T>::kSubnormal}}) {
          for (const double epsilon : {1e4, 1e-5, 1e-12, 1e-25, 1e30}) {
            normalized(layout, draw<T>(count, 7, 0, size),
                       "size " + text(size) + ", epsilon " + text(epsilon), epsilon, {}, p);
          }
        }
      }
    }
  }
}

TEST_CASE("floats of one magnitude and both signs in equal numbers are +-1 exactly") {
  for (const float magnitude : {1e-30f, 1e-40f, 1e-45f, 1e30f, 3e38f}) {
    for (const std::size_t count : even_lengths()) {
      if (count > 40 && count % kThinning != 0) continue;
      const std::string data = "+-" + text(magnitude);
      const Values values = repeated<float>(count, {-magnitude, magnitude}),
                   signs = repeated<float>(count, {-1, 1});
      for (const Layout& layout : layouts(count)) {
        const Group<float> group = normalized(layout, values, data, 0);
        check_bits(group.what, "y", group.y, signs);
        check_bits(group.what, "mean", group.mean, {0});
      }
      for (const Layout& layout : layouts_without_mean(count, kRmsNorm)) {
        const Group<float> group = normalized(layout, values, data, 0);
        check_bits(group.what, "y", group.y, signs);
      }
    }
  }
}

TEMPLATE_TEST_CASE("the largest magnitude becomes 1 exactly", "", float, double) {
  using T = TestType;
  std::vector<T> magnitudes(std::begin(Range<T>::kHard), std::end(Range<T>::kHard));
  magnitudes.insert(magnitudes.end(), std::begin(Range<T>::kTiny), std::end(Range<T>::kTiny));
  magnitudes.insert(magnitudes.end(), std::begin(Range<T>::kHuge), std::end(Range<T>::kHuge));
  for (const T magnitude : magnitudes) {
    for (const std::size_t count : {2, 16, 34, 514}) {
      for (const Layout& layout : layouts_without_mean(count, kLpNormalize)) {
        const auto group = normalized(layout, repeated<T>(count, {-magnitude, magnitude}),
                                      "+-" + text_of(magnitude), 0, {}, kInfinity<double>);
        // x * (1 / magnitude) has two roundings.
        for (std::size_t i = 0; i < count; ++i) {
          REQUIRE(std::fabs(group.y[i] - (i % 2 ? 1 : -1)) <= kEpsilonOf<T>);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("values whose squares underflow or overflow are right", "", float, double) {
  using T = TestType;
  std::size_t turn = 0;
  const auto try_all = [&](const auto& magnitudes) {
    for (const T magnitude : magnitudes) {
      for (const std::size_t count : even_lengths()) {
        // Every magnitude with some lengths, and every length with some magnitudes.
        if (count > 4 && ++turn % (2 + kThinning) != 0) continue;
        check_values(repeated<T>(count, {-magnitude, magnitude}), "+-" + text_of(magnitude), 0);
      }
    }
  };
  try_all(Range<T>::kTiny);
  try_all(Range<T>::kHard);
  try_all(Range<T>::kHuge);
}

TEMPLATE_TEST_CASE("values that overflow when they are summed or subtracted are right", "", float, double) {
  using T = TestType;
  constexpr T kMost = Range<T>::kMost;
  for (const std::size_t count : {2, 5, 16, 17, 48, 64, 513}) {
    ValuesOf<T> values(count, -kMost);
    values[count / 2] = kMost;
    check_values(values, "one large and many of the other sign");
    check_values(repeated<T>(count, {kMost, -kMost, kMost}), "the largest of both signs", 0);
    check_values(repeated<T>(count, {kMost, 1, 2}), "the largest among ones");
    check_values(repeated<T>(count, {kMost, kMost / 2, kMost / 4}), "the largest, its half and its quarter");
  }
}

TEST_CASE("small and large floats together are right") {
  for (const std::size_t count : {2, 5, 16, 48, 64, 513, 1024}) {
    check_values(repeated<float>(count, {1e-40f, 3e-40f, 2e-38f}), "subnormals", 0);
    check_values(repeated<float>(count, {1e-25f, -2e-19f, 1e-18f}), "squares near the smallest float", 0);
    check_values(repeated<float>(count, {1e-30f, 1, 1e10f}), "1e-30 to 1e10");
    check_values(repeated<float>(count, {1e18f, -1e19f, 3e19f}), "squares near the largest float");
    check_values(draw(count, 1, 0, 1e-15), "deviation 1e-15", 0);
    check_values(draw(count, 1, 1e20, 1e17), "mean 1e20, deviation 1e17");
    // 16 values that hide what follows.
    Values late(count, 1e-30f);
    late[count - 1] = 1e30f;
    check_values(late, "1e30 behind 1e-30");
    late[count - 1] = 2e-30f;
    check_values(late, "2e-30 behind 1e-30", 0);
  }
}

TEST_CASE("small and large doubles together are right") {
  for (const std::size_t count : {2, 5, 16, 48, 64, 513, 1024}) {
    check_values(repeated<double>(count, {1e-310, 3e-310, 2e-308}), "subnormals", 0);
    check_values(repeated<double>(count, {1e-200, -2e-160, 1e-150}), "squares near the smallest double", 0);
    check_values(repeated<double>(count, {1e-300, 1, 1e100}), "1e-300 to 1e100");
    check_values(repeated<double>(count, {1e150, -1e154, 3e154}), "squares near the largest double");
    check_values(repeated<double>(count, {0x1p-400, -0x1p-401, 0x1p-399}), "where small units begin", 0);
    check_values(repeated<double>(count, {0x1p400, -0x1p401, 0x1p399}), "where large units begin", 0);
    check_values(draw<double>(count, 1, 0, 1e-160), "deviation 1e-160", 0);
    check_values(draw<double>(count, 1, 1e300, 1e290), "mean 1e300, deviation 1e290");
    check_values(draw<double>(count, 1, 1e300, 1e287), "mean 1e300, deviation 1e287");
    check_values(draw<double>(count, 1, 1e-300, 1e-305), "mean 1e-300, deviation 1e-305", 0);
    for (const double epsilon : {1e-300, 1e-315, 5e-324, 1e100}) {
      check_values(draw<double>(count, 1, 1e-155, 1e-155), "deviation 1e-155, epsilon " + text(epsilon),
                   epsilon);
      check_values(draw<double>(count, 1, 0, 1e160), "deviation 1e160, epsilon " + text(epsilon), epsilon);
    }
    ValuesOf<double> late(count, 1e-300);
    late[count - 1] = 1e300;
    check_values(late, "1e300 behind 1e-300");
    late[count - 1] = 2e-300;
    check_values(late, "2e-300 behind 1e-300", 0);
  }
}

TEST_CASE("an epsilon beside which values are nothing") {
  // In the units of such values epsilon overflows.
  for (const double size : {1e-155, 1e-200, 1e-300}) {
    for (const double epsilon : {1e-5, 1.0, 1e100, 1e200, 1e300}) {
      check_values(draw<double>(17, 1, size, size), "size " + text(size) + ", epsilon " + text(epsilon),
                   epsilon);
    }
  }
}

TEMPLATE_TEST_CASE("NaN and infinity stay in their group, whose statistics are NaN", "", float, double) {
  using T = TestType;
  struct Bad {
    const char* name;
    ValuesOf<T> values;
  };
  for (const std::size_t count : {1, 2, 3, 8, 16, 17, 48, 64, 513}) {
    const auto ordinary = draw<T>(count, 4, 1, 2);
    std::vector<Bad> bads;
    for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
      for (const T value : {kNaN<T>, kInfinity<T>, -kInfinity<T>}) {
        bads.push_back({"one", ordinary});
        bads.back().values[at] = value;
      }
    }
    bads.push_back({"infinity everywhere", ValuesOf<T>(count, kInfinity<T>)});
    bads.push_back({"-infinity everywhere", ValuesOf<T>(count, -kInfinity<T>)});
    bads.push_back({"NaN everywhere", ValuesOf<T>(count, kNaN<T>)});
    bads.push_back({"infinities of both signs", repeated<T>(count, {kInfinity<T>, -kInfinity<T>})});
    bads.push_back({"infinity and 1", repeated<T>(count, {kInfinity<T>, 1})});
    for (const Bad& bad : bads) {
      const auto check_nan = [&](const Group<T>& group) {
        check_all(group.what, "mean", group.mean, kNaN<T>);
        check_all(group.what, "variance", group.variance, kNaN<T>);
        check_all(group.what, "invStd", group.inv_std, kNaN<T>);
        check_all(group.what, "y", group.y, kNaN<T>);
      };
      for (const Layout& layout : layouts(count)) check_nan(normalized(layout, bad.values, bad.name));
      for (const Layout& layout : layouts_without_mean(count, kRmsNorm)) {
        check_nan(normalized(layout, bad.values, bad.name));
      }
      for (const Layout& layout : layouts_without_mean(count, kLpNormalize)) {
        for (const double p : {1.0, 2.0, kInfinity<double>}) {
          check_nan(normalized(layout, bad.values, bad.name, 1e-12, {}, p));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("the company's bits do not change", "", float, double) {
  using T = TestType;
  const T strange[] = {
      kNaN<T>, kInfinity<T>, Range<T>::kBig, Range<T>::kSmall, Range<T>::kMost, Range<T>::kSubnormal, 0};
  for (const std::size_t count : {2, 16, 17, 48, 64, 513}) {
    std::vector<Layout> all = layouts(count);
    for (const Operation* operation : {&kRmsNorm, &kLpNormalize}) {
      for (const Layout& layout : layouts_without_mean(count, *operation)) all.push_back(layout);
    }
    for (const Layout& layout : all) {
      const Shape places = layout.places(the_statistic(layout));
      CallOf<T> call = call_of(layout, draw<T>(product(layout.shape), 3, 2, 3));
      if (*layout.operation == kLpNormalize) call.p = std::vector<double>{1, 2, kInfinity<double>}[count % 3];
      const ResultOf<T> before = run(*layout.operation, call);
      for (const T value : strange) {
        CallOf<T> changed = call;
        for (const std::size_t place : places) changed.x[place] = place % 3 ? value : -value / 2;
        ResultOf<T> after = run(*layout.operation, changed);
        for (const std::size_t place : places) after.y[place] = before.y[place];
        const Case what = case_of(*layout.operation, call, layout.name + ", beside " + text_of(value));
        const auto check_others = [&](const char* output, ValuesOf<T>& got, const ValuesOf<T>& want) {
          if (!want.empty()) got[the_statistic(layout)] = want[the_statistic(layout)];
          check_bits(what, output, got, want);
        };
        check_bits(what, "y", after.y, before.y);
        check_others("mean", after.mean, before.mean);
        check_others("variance", after.variance, before.variance);
        check_others("invStd", after.inv_std, before.inv_std);
      }
    }
  }
}

TEST_CASE("deviations far smaller than the mean") {
  check_values<float>({40000, 40001, 40002, 40003}, "[40000..40003]");
  const Group<float> small = normalized<float>(layouts(4)[0], {40000, 40001, 40002, 40003}, "[40000..40003]");
  const Real inner = std::sqrt(Real{5} / 4 + Real{1e-5});
  check_near(small.what, "y", small.y, {-1.5L / inner, -0.5L / inner, 0.5L / inner, 1.5L / inner}, kPromise);

  Values steps(16), cycle(4096);
  for (std::size_t i = 0; i < steps.size(); ++i)
    steps[i] = static_cast<float>(10000 + static_cast<double>(i) * 1e-3);
  for (std::size_t i = 0; i < cycle.size(); ++i)
    cycle[i] = static_cast<float>(1e7 + static_cast<double>(i % 5));
  check_values(steps, "10000 + i * 1e-3");
  check_values(cycle, "1e7 + i % 5");

  ValuesOf<double> fine(4096);
  for (std::size_t i = 0; i < fine.size(); ++i) fine[i] = 1e15 + static_cast<double>(i % 5);
  check_values(fine, "1e15 + i % 5");
  for (double& value : fine) value *= 0x1p920;
  check_values(fine, "(1e15 + i % 5) * 2^920");
}

// ---------------------------------------------------------------- given statistics

namespace {

template <class T>
T y_of(const CallOf<T>& call) {
  return batch_norm<T>(call).y[0];
}

}  // namespace

TEMPLATE_TEST_CASE("given statistics: what the definition says", "", float, double) {
  using T = TestType;
  const auto y = [](T x, T mean, T variance, double epsilon) {
    return y_of<T>({.shape = {1, 1}, .x = {x}, .mean = {mean}, .variance = {variance}, .epsilon = epsilon});
  };
  CHECK(std::isnan(y(1, 1, 0, 0)));
  CHECK(y(2, 1, 0, 0) == kInfinity<T>);
  CHECK(y(0, 1, 0, 0) == -kInfinity<T>);
  CHECK(std::isnan(y(2, 1, -1, 1e-5)));
  CHECK(std::isnan(y(2, kNaN<T>, 1, 1e-5)));
  CHECK(std::isnan(y(kNaN<T>, 2, 1, 1e-5)));
  CHECK(y(kInfinity<T>, 2, 1, 1e-5) == kInfinity<T>);
  // Adding +0 in place of the missing bias would change the sign.
  CHECK(std::signbit(y(T{-0.0}, 0, 1, 0)));
  // x - mean overflows, and y does or doesn't.
  constexpr T kMost = Range<T>::kMost;
  CHECK(y(kMost, -kMost, 1, 0) == kInfinity<T>);
  CHECK(y(-kMost, kMost, 1, 0) == -kInfinity<T>);
  const T want = static_cast<T>(2 * (Real{kMost} / std::sqrt(Real{kMost})));
  CHECK(std::fabs(y(kMost, -kMost, kMost, 0) / want - 1) <= kPromiseOf<T>);
}

TEST_CASE("given statistics: deviations whose squares are floats, but hardly") {
  const auto y = [](float x, float variance) {
    return y_of<float>({.shape = {1, 1}, .x = {x}, .mean = {0}, .variance = {variance}, .epsilon = 0});
  };
  // The square of the deviation is a float, its root's inverse is: 1e-38 is normal, 1e-40 is not.
  CHECK(std::fabs(y(1e-19f, 1e-38f) - 1) <= kPromise);
  CHECK(std::fabs(y(-1e19f, 1e38f) + 1) <= kPromise);
}

TEMPLATE_TEST_CASE("an inverse deviation and a scale whose product is no number of the type", "", float,
                   double) {
  using T = TestType;
  constexpr bool wide = std::is_same_v<T, double>;
  const auto y = [](T x, T variance, T scale) {
    return y_of<T>(
        {.shape = {1, 1}, .x = {x}, .scale = {scale}, .mean = {0}, .variance = {variance}, .epsilon = 0});
  };
  const T small = wide ? T(1e-148) : T(1e-18), large = wide ? T(1e200) : T(1e25);
  CHECK(std::fabs(y(small, small * small, large) / large - 1) <= kAffinePromiseOf<T>);
  const T tiny = wide ? T(1e-200) : T(1e-30);
  CHECK(std::fabs(y(1 / small, 1 / small / small, tiny) / tiny - 1) <= kAffinePromiseOf<T>);
}
