// The promise of the headers: y before scale and bias is within 5 machine epsilons * max(1, |y|) of the
// definition of the values as they are, for any length, layout, mean / deviation and distribution; what is only
// divided is within as many of |y|. The worst cases are printed.

#include <cstdio>
#include <map>

#include "definition.h"
#include "layouts.h"

namespace {

using reference::Definition;

/// 0.5: where sums without a pivot are just good enough. The headers promise up to 1e7, doubles hold more.
template <class T>
constexpr double kRatios[] = {0, 0.5, 1, 30, 1e3, 1e5, 1e7};
template <>
constexpr double kRatios<double>[] = {0, 0.5, 1, 30, 1e3, 1e7, 1e11, 1e15};

/// The worst case of each layout and mean / deviation.
template <class T>
class Table {
 public:
  /// The errors are measured by magnitude(i).
  template <class Magnitude>
  void add(const std::string& layout, double ratio, const Case& what, const ValuesOf<T>& got,
           const Reals& expected, Magnitude magnitude, double bound = kPromiseOf<T>) {
    const Worst worst = worst_error(got, expected, magnitude);
    Row& row = rows_[{layout, ratio}];
    if (!row.report.empty() && worst.error <= row.error) return;
    row = {worst.error, bound, report(what, "y", worst, got, expected, bound)};
  }
  void add(const std::string& layout, double ratio, const Case& what, const ValuesOf<T>& got,
           const reference::Result& want, bool has_parameters = false) {
    add(
        layout, ratio, what, got, want.y, [&](std::size_t i) { return want.magnitude[i]; },
        has_parameters ? kAffinePromiseOf<T> : kPromiseOf<T>);
  }
  /// Relative to |y|, as far as y is not subnormal.
  void add_relative(const std::string& layout, double ratio, const Case& what, const ValuesOf<T>& got,
                    const Reals& want) {
    constexpr Real kMin = std::numeric_limits<T>::min();
    add(layout, ratio, what, got, want, [&](std::size_t i) { return std::fabs(want[i]) + kMin; });
  }

  void print_and_check() const {
    for (const auto& [key, row] : rows_) {
      std::printf("%-6s %-30s mean/std %-6.4g worst %.3g of %.3g  (%s)\n",
                  sizeof(T) == 4 ? "float" : "double", key.first.c_str(), key.second, row.error, row.bound,
                  row.report.c_str());
    }
    for (const auto& [key, row] : rows_) {
      INFO(row.report);
      CHECK(row.error <= row.bound);
    }
  }

 private:
  struct Row {
    double error = 0, bound = 0;
    std::string report;
  };
  std::map<std::pair<std::string, double>, Row> rows_;
};

std::string data_of(const Distribution& distribution, double ratio, double deviation) {
  return std::string(distribution.name) + ", mean/std " + text(ratio) + ", std " + text(deviation);
}

template <class T>
void try_rows(Table<T>& table, std::size_t length, std::uint32_t seed) {
  // Deviations far from 1 as well, and signs of both kinds.
  const double deviation = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 0.37 : -29;
  for (const Distribution& distribution : kDistributions) {
    for (const double ratio : kRatios<T>) {
      const CallOf<T> call = {.shape = {length},
                              .axes = {0},
                              .x = draw<T>(length, seed, ratio * deviation, deviation, distribution)};
      table.add("layerNorm", ratio, case_of(kLayerNorm, call, data_of(distribution, ratio, deviation)),
                run(kLayerNorm, call).y,
                reference::normalize_rows(Definition::kDeviation, reference::exact(call.x), 1, length, {}, {},
                                          1e-5));
    }
  }
}

/// Every group draws from another distribution, so that good and bad ones are neighbours.
template <class T>
ValuesOf<T> draw_groups(const Layout& layout, std::size_t turn, std::uint32_t seed, double ratio,
                        double scale = 1) {
  const std::size_t count = layout.statistic.size() / layout.statistics;
  std::vector<ValuesOf<T>> values(layout.statistics);
  for (std::size_t g = 0; g < layout.statistics; ++g) {
    const double deviation = scale * ((g + seed) % 3 == 0 ? 1 : 0.37);
    values[g] = draw<T>(count, seed + static_cast<std::uint32_t>(g), ratio * deviation, deviation,
                        kDistributions[(g + turn) % std::size(kDistributions)]);
  }
  ValuesOf<T> x;
  Shape used(layout.statistics);
  for (const std::size_t g : layout.statistic) x.push_back(values[g][used[g]++]);
  return x;
}

/// Calls body(turn) until every distribution has been the first group's, or some other's.
template <class Body>
void each_turn(std::size_t groups, Body body) {
  const std::size_t kinds = std::size(kDistributions);
  for (std::size_t turn = 0; turn < kinds; turn += std::min(groups, kinds)) body(turn);
}

template <class T>
void try_channels(Table<T>& table, const std::string& name, std::size_t n, std::size_t channels,
                  std::size_t places, std::uint32_t seed) {
  const Layout layout = by_channel(name, {n, channels, places}, 1);
  each_turn(channels, [&](std::size_t turn) {
    for (const double ratio : kRatios<T>) {
      const auto call = call_of(layout, draw_groups<T>(layout, turn, seed, ratio));
      table.add(name, ratio,
                case_of(kBatchNormTraining, call,
                        "from distribution " + std::to_string(turn) + ", mean/std " + text(ratio)),
                run(kBatchNormTraining, call).y,
                reference::batch_norm_training<T>(call.x, {n, channels, places, 1}, {}, {}, 1e-5));
    }
  });
}

/// With a scale and a bias of their own, each with and without the other.
template <class T>
void try_parameters(Table<T>& table, const Layout& layout, std::uint32_t seed) {
  each_turn(layout.statistics, [&](std::size_t turn) {
    for (const double ratio : kRatios<T>) {
      CallOf<T> call = call_of(layout, draw_groups<T>(layout, turn, seed, ratio));
      const unsigned parameters = seed++ % 4;
      if (parameters & 1) call.scale = draw<T>(layout.parameters, 7, 1, 3);
      if (parameters & 2) call.bias = draw<T>(layout.parameters, 8, -2, 5);
      table.add(layout.name, ratio,
                case_of(*layout.operation, call,
                        "from distribution " + std::to_string(turn) + ", parameters " +
                            std::to_string(parameters) + ", mean/std " + text(ratio)),
                run(*layout.operation, call).y, definition::expected(*layout.operation, call),
                parameters != 0);
    }
  });
}

}  // namespace

TEMPLATE_TEST_CASE("layer norm keeps its promise", "", float, double) {
  Table<TestType> table;
  constexpr bool kAll = std::is_same_v<TestType, float>;
  for (std::size_t length = 1; length <= 600; length += kAll || length < 200 ? 1 : 7) {
    if (length > 40 && length % kThinning != 0) continue;
    try_rows(table, length, static_cast<std::uint32_t>(length));
  }
  // Every length modulo a block, sparsely.
  for (std::size_t length = 601; length <= 4099; length += (length % 2 ? 74 : 67) * (kAll ? kThinning : 5)) {
    try_rows(table, length, static_cast<std::uint32_t>(length));
  }
  for (std::size_t length :
       {768, 1023, 1024, 1025, 1056, 2047, 2048, 2049, 4095, 4096, 4097, 4098, 4099, 20000}) {
    try_rows(table, length, static_cast<std::uint32_t>(length) + 1);
  }
  table.print_and_check();
}

TEMPLATE_TEST_CASE("batch norm keeps its promise", "", float, double) {
  Table<TestType> table;
  constexpr bool kAll = std::is_same_v<TestType, float>;
  const std::size_t channel_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 255, 256, 257, 258, 513};
  std::uint32_t seed = 0;
  const auto try_all = [&](const char* layout, std::initializer_list<std::size_t> ns,
                           std::initializer_list<std::size_t> places) {
    for (const std::size_t channels : channel_counts) {
      for (const std::size_t n : ns) {
        for (const std::size_t s : places) {
          ++seed;
          if (n * s < 2 || n * channels * s > 20000) continue;
          // Where there are many values, one of a few sizes is enough.
          if (n * channels * s > 1500 && seed % 3) continue;
          if (!kAll && seed % 4) continue;
          if (seed / 12 % kThinning != 0) continue;
          try_channels(table, channels == 1 ? "one channel" : layout, n, channels, s, seed);
        }
      }
    }
  };
  try_all("channels last",
          {2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64, 95, 100, 127, 128, 129, 136, 255, 300, 1000, 3001}, {1});
  try_all("short runs", {2, 3, 8, 17, 40, 129, 300, 1500}, {2, 3, 4, 5, 7, 8, 9, 12, 15});
  try_all("long runs", {2, 3, 5, 8, 64, 300},
          {16, 17, 19, 31, 32, 33, 63, 100, 257, 511, 512, 513, 544, 1000, 3000});
  try_all("one item", {1}, {2, 5, 16, 33, 512, 3000});
  table.print_and_check();
}

TEMPLATE_TEST_CASE("batch norm by given statistics keeps its promise", "", float, double) {
  using T = TestType;
  Table<T> table;
  for (const Shape& shape :
       {Shape{50, 9, 1}, Shape{50, 3, 4}, Shape{5, 3, 100}, Shape{1, 5, 513}, Shape{200, 1, 7}}) {
    for (const Distribution& distribution : kDistributions) {
      for (const double ratio : kRatios<T>) {
        const std::size_t channels = shape[1];
        const CallOf<T> call = {.shape = shape,
                                .axes = {1},
                                .x = draw<T>(product(shape), 5, ratio * 3, 3, distribution),
                                .mean = draw<T>(channels, 6, ratio * 3, 0.1),
                                .variance = draw<T>(channels, 7, 9, 1)};
        table.add("batchNorm", ratio, case_of(kBatchNorm, call, data_of(distribution, ratio, 3)),
                  run(kBatchNorm, call).y, definition::expected(kBatchNorm, call));
      }
    }
  }
  table.print_and_check();
}

TEMPLATE_TEST_CASE("group norm keeps its promise", "", float, double) {
  Table<TestType> table;
  std::uint32_t seed = 0;
  const auto try_all = [&](const char* name, std::initializer_list<Shape> shapes,
                           std::initializer_list<std::size_t> groups) {
    for (const Shape& shape : shapes) {
      for (const std::size_t g : groups) {
        if (shape[2] % g == 0 && (shape[2] + g) % kThinning < 2)
          try_parameters(table, by_group(name, shape, 2, g), seed += 17);
      }
    }
  };
  // Channels first: a group is one row, of stretches that share a scale.
  try_all("rows, long stretches", {{3, 1, 6, 100}, {2, 1, 12, 16}, {4, 1, 8, 17}, {2, 1, 4, 600}},
          {1, 2, 3, 4});
  try_all("rows, short stretches", {{3, 1, 6, 2}, {2, 1, 48, 3}, {4, 1, 24, 15}, {1, 1, 600, 7}},
          {1, 2, 3, 6});
  try_all("rows, channels last", {{3, 1, 40, 1}, {2, 1, 6, 1}, {5, 1, 600, 1}}, {1, 2, 5, 6});
  try_all("one group of all places",
          {{3, 7, 15, 1}, {2, 40, 16, 1}, {3, 9, 17, 1}, {2, 100, 3, 1}, {2, 9, 5, 4}}, {1});
  // Channels in the middle or last: a group is several runs.
  try_all("runs", {{2, 9, 32, 1}, {3, 5, 96, 1}, {2, 7, 8, 9}, {2, 30, 4, 50}, {1, 100, 6, 16}}, {2, 4});
  try_all("columns",
          {{2, 9, 4, 1}, {3, 50, 12, 1}, {2, 129, 8, 3}, {2, 95, 6, 2}, {1, 300, 30, 1}, {2, 17, 600, 1}},
          {2, 4, 6, 30});
  table.print_and_check();
}

TEMPLATE_TEST_CASE("layer norm over other axes keeps its promise", "", float, double) {
  Table<TestType> table;
  std::uint32_t seed = 0;
  for (const Shape& shape :
       {Shape{3, 20, 7}, Shape{1, 129, 40}, Shape{2, 95, 3}, Shape{2, 8, 513}, Shape{1, 1000, 5}}) {
    try_parameters(table, over_axes("middle axis", kLayerNorm, shape, {1}), seed += 7);
  }
  for (const Shape& shape : {Shape{3, 4, 5, 6}, Shape{9, 2, 40, 3}, Shape{20, 3, 2, 17}}) {
    try_parameters(table, over_axes("axes 2 and 1", kLayerNorm, shape, {2, 1}), seed += 7);
    try_parameters(table, over_axes("axes 0 and 2, permuted", kLayerNorm, shape, {0, 2}), seed += 7);
    try_parameters(table, over_axes("axes 0 and 3", kLayerNorm, shape, {0, 3}), seed += 7);
    try_parameters(table, over_axes("axes 3 and 1", kLayerNorm, shape, {3, 1}), seed += 7);
  }
  table.print_and_check();
}

namespace {

/// Rows, columns, short runs, runs, and what is permuted.
std::vector<Layout> layouts_over_axes(const Operation& operation) {
  std::vector<Layout> result;
  for (const std::size_t length :
       {1, 2, 3, 7, 16, 17, 33, 64, 95, 100, 383, 384, 411, 512, 545, 1051, 4099}) {
    result.push_back(over_axes("rows", operation, {3, length}, {1}));
    if (length < 600) result.push_back(over_axes("columns", operation, {length, 5}, {0}));
    if (length < 200) {
      result.push_back(over_axes("short runs", operation, {length, 4, 3}, {0, 2}));
      result.push_back(over_axes("runs", operation, {length, 3, 20}, {2, 0}));
      result.push_back(over_axes("permuted", operation, {2, length, 2, 3}, {0, 2}));
    }
  }
  return result;
}

template <class T>
constexpr double kScales[] = {1, 1e-30, 1e-20, 1e-10, 1e10, 1e20, 1e30};
template <>
constexpr double kScales<double>[] = {1, 1e-300, 1e-200, 1e-155, 1e-100, 1e100, 1e152, 1e155, 1e200, 1e300};

}  // namespace

TEMPLATE_TEST_CASE("RMS norm keeps its promise, relative to y as well", "", float, double) {
  using T = TestType;
  Table<T> table;
  for (const Layout& layout : layouts_over_axes(kRmsNorm)) {
    each_turn(layout.statistics, [&](std::size_t turn) {
      for (const double ratio : {0.0, 1.0, 30.0, 1e5}) {
        CallOf<T> call = call_of(layout, draw_groups<T>(layout, turn, 3, ratio));
        const Case what = case_of(kRmsNorm, call, "from distribution " + std::to_string(turn));
        table.add_relative(layout.name, ratio, what, run(kRmsNorm, call).y,
                           definition::expected(kRmsNorm, call).y);
        call.scale = draw<T>(layout.parameters, 7, 1, 3);
        table.add(layout.name + " with scale", ratio, what, run(kRmsNorm, call).y,
                  definition::expected(kRmsNorm, call), true);
      }
    });
  }
  table.print_and_check();
}

TEMPLATE_TEST_CASE("division by norms keeps its promise", "", float, double) {
  using T = TestType;
  Table<T> table;
  for (const Layout& layout : layouts_over_axes(kLpNormalize)) {
    for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      each_turn(layout.statistics, [&](std::size_t turn) {
        for (const double ratio : {0.0, 1.0, 1e5}) {
          CallOf<T> call = call_of(layout, draw_groups<T>(layout, turn, 4, ratio));
          call.p = p;
          call.epsilon = 1e-12;
          table.add_relative(layout.name + ", p " + text(p), ratio,
                             case_of(kLpNormalize, call, "from distribution " + std::to_string(turn)),
                             run(kLpNormalize, call).y, definition::expected(kLpNormalize, call).y);
        }
      });
    }
  }
  table.print_and_check();
}

TEMPLATE_TEST_CASE("all keep their promises at any scale", "", float, double) {
  using T = TestType;
  Table<T> table;
  std::vector<Layout> layouts;
  for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kLpNormalize}) {
    for (const Shape& shape : {Shape{3, 37}, Shape{2, 513}}) {
      layouts.push_back(over_axes("rows", *operation, shape, {1}));
      layouts.push_back(over_axes("columns", *operation, {shape[1], shape[0]}, {0}));
    }
    layouts.push_back(over_axes("short runs", *operation, {17, 4, 3}, {0, 2}));
    layouts.push_back(over_axes("runs", *operation, {5, 3, 20}, {0, 2}));
    layouts.push_back(over_axes("permuted", *operation, {3, 5, 4, 3}, {0, 2}));
  }
  layouts.push_back(by_group("rows of groups", {3, 1, 6, 11}, 2, 2));
  layouts.push_back(by_group("runs of groups", {3, 5, 6, 20}, 2, 2));
  layouts.push_back(by_group("columns of groups", {3, 30, 6, 1}, 2, 2));
  for (const Layout& layout : layouts) {
    for (const double scale : kScales<T>) {
      each_turn(layout.statistics, [&](std::size_t turn) {
        for (const double ratio : {0.0, 1.0, 1e5}) {
          CallOf<T> call = call_of(layout, draw_groups<T>(layout, turn, 5, ratio, scale));
          call.epsilon = 0;
          const std::string name = std::string(layout.operation->name) + ", " + layout.name;
          const Case what = case_of(*layout.operation, call,
                                    "from distribution " + std::to_string(turn) + ", scale " + text(scale));
          const auto want = definition::expected(*layout.operation, call);
          if (*layout.operation == kLayerNorm || *layout.operation == kGroupNorm) {
            table.add(name, ratio, what, run(*layout.operation, call).y, want);
          } else {
            table.add_relative(name, ratio, what, run(*layout.operation, call).y, want.y);
          }
        }
      });
    }
  }
  table.print_and_check();
}

TEMPLATE_TEST_CASE("layer norm keeps its promise at other epsilons", "", float, double) {
  using T = TestType;
  Table<T> table;
  for (const double epsilon : {0.0, 1e-12, 1e-3, 1.0}) {
    for (const std::size_t length : {2, 3, 17, 100, 513, 1024}) {
      for (const Distribution& distribution : kDistributions) {
        for (const double ratio : kRatios<T>) {
          for (const double deviation : {1e-12, 1e-3, 1.0, 1e12}) {
            const auto x = draw<T>(length, 3, ratio * deviation, deviation, distribution);
            const auto want = reference::layer_norm<T>(x, 1, length, {}, {}, epsilon);
            if (want.variance[0] == 0) continue;
            const CallOf<T> call = {.shape = {length}, .axes = {0}, .x = x, .epsilon = epsilon};
            table.add("epsilon " + text(epsilon), ratio,
                      case_of(kLayerNorm, call, data_of(distribution, ratio, deviation)),
                      run(kLayerNorm, call).y, want);
          }
        }
      }
    }
  }
  table.print_and_check();
}

TEST_CASE("the worst that a search found keeps the promise") {
  // Rows of one magnitude whose float sums round in one direction at every addition. Found by hill climbing
  // over length, magnitude, mean and the offset of the first 16 values, which choose the pivot.
  struct Found {
    std::size_t count;
    bool alternating;
    double size, mean, first_16;
  };
  constexpr Found kFound[] = {
      {327, false, 1.90045092, 0, -0.563509012},
      {348, true, 1.41904888, 0.0816878019, 0.442547277},
      {411, true, 1.9521721, 0.479842528, -0.483015048},
      {505, true, 1.49126636, 0.0111996414, -0.566531518},
      {511, true, 1.68130227, 0.248793162, 0.0180291869},
      {1051, true, 1.31770039, 0.230923402, 0.544412868},
      // What blocks of 16 steps do not survive.
      {503, false, 1.5926542, -0.0201579051, -0.668019251},
  };
  Table<float> table;
  for (const Found& found : kFound) {
    Values x(found.count), beside_zeros(2 * found.count);
    for (std::size_t i = 0; i < found.count; ++i) {
      const double sign = found.alternating && i % 2 == 0 ? -1 : 1;
      x[i] = static_cast<float>(found.size * (sign + found.mean + (i < 16 ? found.first_16 : 0)));
      beside_zeros[2 * i] = x[i];
    }
    const Shape row = {found.count}, batch = {found.count, 2, 1};
    table.add("found, rows", found.mean, {"layerNorm", row, "found"},
              layer_norm({.shape = row, .x = x, .epsilon = 0}).y,
              reference::layer_norm<float>(x, 1, found.count, {}, {}, 0));
    table.add("found, channels last", found.mean, {"batchNormTraining", batch, "found"},
              batch_norm_training({.shape = batch, .x = beside_zeros, .epsilon = 0}).y,
              reference::batch_norm_training<float>(beside_zeros, {found.count, 2, 1, 1}, {}, {}, 0));
  }
  table.print_and_check();
}

namespace {

/// One value repeated for a step (eight vectors of a row, or eight rows of columns), and then others that are small
/// beside it: each addition of theirs to its sums rounds in the same direction.
struct Steep {
  const Operation& operation;
  double p;
  /// Of one group: in a row where columns is 0, else in rows of so many columns.
  std::size_t count, columns;
  double first, low, high;
  /// What odd columns are multiplied by, and whether all of those values have the other sign.
  double odd;
  bool alternating;
};

template <class T>
CallOf<T> call_of(const Steep& steep) {
  const std::size_t width = steep.columns ? steep.columns : simdnorm::Vector<T>::kLanes;
  ValuesOf<T> values(steep.count);
  for (std::size_t i = 0; i < steep.count; ++i) {
    double value = i < 8 * width ? steep.first : i / width % 8 < 4 ? steep.low : steep.high;
    if (steep.columns > 1 && i % steep.columns % 2) value *= steep.odd;
    const bool negative = steep.alternating && i % 2;
    values[i] = static_cast<T>(negative ? -value : value);
  }
  if (steep.columns == 0) {
    return {.shape = {steep.count}, .axes = {0}, .x = values, .epsilon = 0, .p = steep.p};
  }
  // Beside a group of zeros.
  const std::size_t columns = steep.columns, rows = steep.count / columns;
  ValuesOf<T> x(2 * steep.count);
  for (std::size_t i = 0; i < steep.count; ++i) x[i / columns * 2 * columns + i % columns] = values[i];
  return {.shape = {rows, 2, columns}, .axes = {0, 2}, .x = x, .epsilon = 0, .p = steep.p};
}

template <class T>
void check_steep(std::initializer_list<Steep> found) {
  Table<T> table;
  for (const Steep& steep : found) {
    const CallOf<T> call = call_of<T>(steep);
    const Case what = case_of(steep.operation, call, "found");
    const std::string layout = std::string(steep.operation.name) + ", " +
                               (steep.columns ? std::to_string(steep.columns) + " columns" : "rows");
    const ValuesOf<T> y = run(steep.operation, call).y;
    const reference::Result want = definition::expected(steep.operation, call);
    if (steep.operation == kLayerNorm) {
      table.add(layout, 0, what, y, want);
    } else {
      table.add_relative(layout, 0, what, y, want.y);
    }
  }
  table.print_and_check();
}

}  // namespace

TEST_CASE("the worst that a search found keeps the promise: floats, small beside large") {
  check_steep<float>({
      {kLpNormalize, 1, 384, 0, 2.0100289211682281, 0.0011075702205379612, 0.0014120339786936858, 1, true},
      {kLpNormalize, 1, 386, 0, 1.001748693745699, 0.00034147496391662889, 0.00034063916311094565, 1, false},
      {kLpNormalize, 2, 384, 0, 2.0068206221829383, 0.003126534423814943, 0.0030500650173481119, 1, false},
      {kLpNormalize, 2, 95, 1, 2.0017768957881139, 0.015200815331766118, 0.015198388799977166, 1, false},
      {kLpNormalize, 2, 1425, 15, 1.4465696114601809, 0.00091941607677802984, 0.00090752584013950545,
       0.9988236879235477, false},
      {kLayerNorm, 2, 741, 0, 2.0268286605745032, 0.0027186345741989065, 0.0026294744764863219, 1, true},
      {kLayerNorm, 2, 95, 1, 1.4248367032499509, 0.00094795065632344831, 0.00087767845234265748, 1, true},
      {kLayerNorm, 2, 95, 1, 1.4161925900547683, 0.0021670551167227306, 0.0021452716583555543, 1, true},
  });
}

TEST_CASE("the worst that a search found keeps the promise: doubles, small beside large") {
  check_steep<double>({
      {kLpNormalize, 1, 199, 0, 1.0040503247689823, 0.00017186250917766713, 0.00017186285537385308, 1, false},
      {kLpNormalize, 1, 206, 0, 1.0171634216436818, 0.00052647882512857325, 0.00052647882513234411, 1, true},
      {kLpNormalize, 2, 371, 0, 1.0017000452603515, 0.017378124448708933, 0.01737744077781889, 1, true},
      {kLpNormalize, 2, 95, 1, 1.4168832351515936, 0.03889758706460944, 0.038897586913357769, 1, true},
      {kLpNormalize, 2, 1425, 15, 1.557749744026421, 0.00059852564158100884, 0.00059845108343562056,
       0.99999999999999967, false},
      {kLayerNorm, 2, 377, 0, 1.027574020686032, 0.0010213569001320231, 0.0010228907662419428, 1, true},
      {kLayerNorm, 2, 87, 1, 1.0028850943337793, 0.0013808185169067871, 0.0013808185168963062, 1, true},
      {kLayerNorm, 2, 95, 1, 1.4360214039798704, 0.00013808220281014656, 0.0001380822023366935, 1, true},
  });
}

namespace {

/// Up to eight values in an order that repeats, each for a step (eight vectors of a row, eight rows of a column), and
/// the rest after the last step one by one. The first ones, which choose the pivot, have an order of their own.
struct Patterned {
  const Operation& operation;
  std::size_t count;
  bool is_column;
  std::vector<float> values;
  std::string first, steps;
  bool alternating = false;
};

CallOf<float> call_of(const Patterned& found) {
  const std::size_t step = found.is_column ? 8 : 32;
  Values x(found.count);
  for (std::size_t i = 0; i < found.count; ++i) {
    const std::size_t whole = found.count / step, at = i / step < whole ? i / step : whole + i % step;
    const char digit = i < found.first.size() ? found.first[i] : found.steps[at % found.steps.size()];
    x[i] = found.values[digit - '0'] * (found.alternating && i % 2 ? -1.0f : 1.0f);
  }
  if (!found.is_column) return {.shape = {found.count}, .axes = {0}, .x = x, .epsilon = 0};
  Values columns(2 * found.count);
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = x[i / 2];
  return {.shape = {found.count, 2}, .axes = {0}, .x = columns, .epsilon = 0};
}

}  // namespace

TEST_CASE("the worst that a search found keeps the promise: values that mislead pivots and sums") {
  const std::vector<Patterned> all = {
      // 8.4e-7 while pivots could be 0.55 deviations from the mean.
      {kLayerNorm,
       1152,
       false,
       {1.46524477f, 0.00383639359f, -0.0260298233f, -0.495871305f, -0.361376047f, 1.71715772f, -3.12901211f,
        -0.300366729f},
       "2122301300063142",
       "055221221221"},
      // 8.1e-7 and 6.8e-7 while the rows after the last tree shared its sums.
      {kLayerNorm,
       95,
       true,
       {0.988417327f, -0.0623371601f, -1.3739413f, -0.378336817f, 0.423765182f, 1.52244556f, -0.332734317f,
        0.376109779f},
       "",
       "0272221111124224125162222637445"},
      {kLpNormalize,
       95,
       true,
       {1.00252533f, 0.0209244676f, 0.0257461295f, 0.252486438f, 0.00177527324f, 8.63091846e-05f,
        0.0211051051f, 0.322800517f},
       "4154451445024522",
       "61451445555422622210",
       true},
      // The worst since then.
      {kLayerNorm,
       95,
       true,
       {4.6970911f, 0.962244451f, 0.840489805f, 1.36855054f, -0.467697233f, -1.55165303f, 0.0220972896f,
        0.809929729f},
       "2122020011120026",
       "37222221112123121175033476735322"},
  };
  Table<float> table;
  for (const Patterned& found : all) {
    const CallOf<float> call = call_of(found);
    const Case what = case_of(found.operation, call, "found");
    const std::string layout = std::string(found.operation.name) + (found.is_column ? ", column" : ", row");
    const Values y = run(found.operation, call).y;
    const reference::Result want = definition::expected(found.operation, call);
    if (found.operation == kLayerNorm) {
      table.add(layout, 0.5, what, y, want);
    } else {
      table.add_relative(layout, 0.5, what, y, want.y);
    }
  }
  table.print_and_check();
}
