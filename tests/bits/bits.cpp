// The same as bits.ts, line by line.

#include "bits.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "simdnorm.h"

namespace {

using Values = std::vector<float>;
using Shape = std::vector<std::size_t>;
using Lengths = std::vector<std::int32_t>;
using simdnorm::Half;

const Values kAbsent;

// ---------------------------------------------------------------- hash

std::uint32_t low = 0, high = 0;

void add_word(std::uint32_t word) {
  low = (low ^ word) * 0x9e3779b1u;
  low ^= low >> 15;
  high = (high ^ (word + low)) * 0x85ebca77u;
  high ^= high >> 13;
}

/// Floats and doubles word by word, halves one by one. NaN (of groups without values) has different bits on
/// different machines.
template <class T>
void add(const std::vector<T>& values) {
  for (const T& value : values) {
    std::uint32_t words[2] = {};
    std::memcpy(words, &value, sizeof value);
    if constexpr (!std::is_same_v<T, Half>) {
      if (value != value) words[0] = words[1] = 0x7fc00000;
    }
    add_word(words[0]);
    if (sizeof value > sizeof(std::uint32_t)) add_word(words[1]);
  }
}

// ---------------------------------------------------------------- values

std::uint32_t state = 0;

/// From -32768 to 32767: the generator of Numerical Recipes, its upper half.
double next() {
  state = state * 1664525u + 1013904223u;
  return static_cast<std::int32_t>(state) >> 16;
}

/// A multiple of a power of two plus an integer is exact in double, a product alone too: only the float
/// rounds.
template <class T = float>
std::vector<T> values(std::size_t count, double offset, double step) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<T>(offset + next() * step);
  return result;
}

/// Of both signs, from subnormal to 8.
std::vector<Half> halves(std::size_t count) {
  std::vector<Half> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = {static_cast<std::uint16_t>(static_cast<std::int32_t>(next()) & 0xc7ff)};
  }
  return result;
}

// ---------------------------------------------------------------- operations

const float* input(const Values& values) { return values.empty() ? nullptr : values.data(); }

void layer_norm(const Values& x, std::size_t rows, const Values& scale, const Values& bias, double epsilon) {
  const Shape shape = {rows, x.size() / rows}, axes = {1};
  Values y(x.size()), mean(rows), inv_std(rows);
  simdnorm::layer_norm({.shape = shape,
                        .axes = axes,
                        .x = x.data(),
                        .y = y.data(),
                        .scale = input(scale),
                        .bias = input(bias),
                        .epsilon = epsilon,
                        .mean_out = mean.data(),
                        .inv_std_out = inv_std.data()});
  add(y);
  add(mean);
  add(inv_std);
}

void batch_norm_training(const Values& x, const Shape& shape, const Values& scale, const Values& bias,
                         double epsilon) {
  const Shape axes = {1};
  Values y(x.size()), mean(shape[1]), variance(shape[1]), inv_std(shape[1]);
  simdnorm::batch_norm_training({.shape = shape,
                                 .axes = axes,
                                 .x = x.data(),
                                 .y = y.data(),
                                 .scale = input(scale),
                                 .bias = input(bias),
                                 .epsilon = epsilon,
                                 .mean_out = mean.data(),
                                 .variance_out = variance.data(),
                                 .inv_std_out = inv_std.data()});
  add(y);
  add(mean);
  add(variance);
  add(inv_std);
}

void batch_norm(const Values& x, const Shape& shape, const Values& mean, const Values& variance,
                const Values& scale, const Values& bias, double epsilon) {
  const Shape axes = {1};
  Values y(x.size());
  simdnorm::batch_norm({.shape = shape,
                        .axes = axes,
                        .x = x.data(),
                        .y = y.data(),
                        .scale = input(scale),
                        .bias = input(bias),
                        .mean = mean.data(),
                        .variance = variance.data(),
                        .epsilon = epsilon});
  add(y);
}

void moments(const Values& x, const Shape& shape, const Shape& axes) {
  std::size_t count = x.size();
  for (const std::size_t axis : axes) count /= shape[axis];
  Values mean(count), variance(count);
  simdnorm::moments({.shape = shape,
                     .axes = axes,
                     .x = x.data(),
                     .mean_out = mean.data(),
                     .variance_out = variance.data()});
  add(mean);
  add(variance);
}

// ---------------------------------------------------------------- the family

/// Everything at once: an operation, and what it is to have.
template <class T>
struct Call {
  using Parameters = std::vector<typename simdnorm::Arguments<T>::Parameter>;

  const char* name;
  std::vector<T> x;
  Shape shape, axes;
  Parameters scale = {}, bias = {};
  std::vector<T> residual = {};
  /// Of a gradient: that of y, and how many scales there are.
  std::vector<T> dy = {};
  std::size_t parameters = 0;
  Parameters mean = {}, variance = {};
  Lengths lengths = {};
  std::size_t statistics = 0;
  double epsilon = 1e-5;
  std::size_t groups = 1, size = 1;
  double p = 2, beta = 0.75;
};

template <class T, class Run>
void run_in_scratch(std::size_t bytes, const simdnorm::Arguments<T>& given, Run run) {
  simdnorm::Arguments<T> arguments = given;
  std::vector<char> scratch(bytes + 64);
  arguments.scratch = scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64);
  run(arguments);
}

void run(const simdnorm::Operation& operation, const simdnorm::Arguments<float>& arguments) {
  run_in_scratch(operation.on_floats.scratch(arguments), arguments, operation.on_floats.run);
}
void run(const simdnorm::Operation& operation, const simdnorm::Arguments<double>& arguments) {
  run_in_scratch(operation.on_doubles.scratch(arguments), arguments, operation.on_doubles.run);
}
void run(const simdnorm::Operation& operation, const simdnorm::Arguments<Half>& arguments) {
  const auto& kernel = operation.on_floats;
  run_in_scratch(simdnorm::scratch_on_halves(kernel.scratch, arguments), arguments,
                 [&](const auto& a) { simdnorm::run_on_halves(kernel.run, a); });
}

template <class T>
void run(const Call<T>& call) {
  std::vector<T> y(call.x.size()), sum(call.residual.size());
  typename Call<T>::Parameters mean(call.statistics), inv_std(call.statistics);
  typename Call<T>::Parameters d_scale(call.parameters), d_bias(call.parameters);
  const auto in = [](const auto& values) { return values.empty() ? nullptr : values.data(); };
  const auto out = [](auto& values) { return values.empty() ? nullptr : values.data(); };
  const bool is_rms = std::strncmp(call.name, "rmsNorm", 7) == 0;
  for (const simdnorm::Operation& operation : simdnorm::kOperations) {
    if (std::strcmp(operation.name, call.name) != 0) continue;
    run(operation, simdnorm::Arguments<T>{
                       .shape = call.shape,
                       .axes = call.axes,
                       .x = call.x.data(),
                       .y = y.data(),
                       .dy = in(call.dy),
                       .residual = in(call.residual),
                       .residual_out = out(sum),
                       .scale = in(call.scale),
                       .bias = in(call.bias),
                       .mean = in(call.mean),
                       .variance = in(call.variance),
                       .lengths = in(call.lengths),
                       .epsilon = call.epsilon,
                       .groups = call.groups,
                       .p = call.p,
                       .size = call.size,
                       .beta = call.beta,
                       .mean_out = is_rms ? nullptr : out(mean),
                       .inv_std_out = out(inv_std),
                       .d_scale_out = out(d_scale),
                       .d_bias_out = is_rms ? nullptr : out(d_bias),
                   });
  }
  add(y);
  add(sum);
  if (!is_rms) add(mean);
  add(inv_std);
  add(d_scale);
  if (!is_rms) add(d_bias);
}

// ---------------------------------------------------------------- cases

/// Deviations are about 1.2.
constexpr double kStep = 1.0 / 16384;
constexpr double kMeans[] = {0, 1, 1e3, 1e5, 1e7};
constexpr std::size_t kEdges[] = {511, 512, 513, 543, 544, 545, 768, 1024, 4099};
/// [n, channels, places]: columns, short runs, runs, one item, one channel.
const Shape kBatches[] = {{2, 3, 1},    {9, 4, 1},    {17, 7, 1},  {128, 8, 1}, {129, 65, 1},
                          {300, 5, 1},  {40, 257, 1}, {3, 2, 2},   {17, 5, 3},  {130, 3, 4},
                          {3, 90, 7},   {20, 4, 15},  {2, 3, 16},  {3, 5, 49},  {4, 2, 513},
                          {7, 3, 1024}, {2, 300, 17}, {1, 4, 600}, {12, 1, 5}};
const Shape kAxes[] = {{0}, {1}, {2}, {3}, {0, 1}, {1, 2}, {2, 3}, {0, 3}, {1, 3}, {0, 1, 2}, {0, 1, 2, 3}};
const Shape kFamilyAxes[] = {{3}, {1}, {3, 2}, {0, 1}, {2, 0}, {1, 3}, {}};
/// Steps of which squares, as floats, underflow or overflow.
constexpr double kFarSteps[] = {1e-43, 1e-34, 1e-24, 1e14, 1e15, 1e26, 1e34};

void rows(std::size_t length) {
  for (const double mean : kMeans) {
    const Values x = values(3 * length, mean, kStep);
    const Values scale = values(length, 1, kStep), bias = values(length, 0, kStep);
    layer_norm(x, 3, kAbsent, kAbsent, 1e-5);
    layer_norm(x, 3, scale, kAbsent, 1e-5);
    layer_norm(x, 3, kAbsent, bias, 1e-5);
    layer_norm(x, 3, scale, bias, 1e-3);
  }
}

void batches(const Shape& shape) {
  for (const double mean : kMeans) {
    const Values x = values(shape[0] * shape[1] * shape[2], mean, kStep);
    const Values scale = values(shape[1], 1, kStep), bias = values(shape[1], 0, kStep);
    batch_norm_training(x, shape, kAbsent, kAbsent, 1e-5);
    batch_norm_training(x, shape, scale, kAbsent, 1e-5);
    batch_norm_training(x, shape, kAbsent, bias, 1e-5);
    batch_norm_training(x, shape, scale, bias, 1e-3);
    const Values center = values(shape[1], mean, kStep), variance = values(shape[1], 5, kStep);
    batch_norm(x, shape, center, variance, kAbsent, kAbsent, 1e-5);
    batch_norm(x, shape, center, variance, scale, bias, 0);
  }
}

/// Statistics of x over axes, or of items and groups of channels.
std::size_t places(const Shape& shape, const Shape& axes) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  for (const std::size_t axis : axes) count /= shape[axis];
  return count;
}

/// Values of a type, as `values` and `halves` make them.
template <class T>
std::vector<T> draw(std::size_t count, double offset, double step) {
  if constexpr (std::is_same_v<T, Half>) {
    return halves(count);
  } else {
    return values<T>(count, offset, step);
  }
}

template <class T>
void family(double offset, double step) {
  using P = typename simdnorm::Arguments<T>::Parameter;
  const Shape shape = {3, 5, 6, 7};
  const std::size_t size = 630;
  const Lengths lengths = {5, 0, 3};
  for (const Shape& axes : kFamilyAxes) {
    const std::vector<T> x = draw<T>(size, offset, step), residual = draw<T>(size, 0, step);
    const std::size_t statistics = places(shape, axes), units = size / statistics;
    const std::vector<P> scale = values<P>(units, 1, kStep), bias = values<P>(units, 0, kStep);
    run<T>({.name = "layerNorm", .x = x, .shape = shape, .axes = axes, .statistics = statistics});
    run<T>({.name = "layerNorm",
            .x = x,
            .shape = shape,
            .axes = axes,
            .scale = scale,
            .bias = bias,
            .residual = residual,
            .statistics = statistics});
    run<T>({.name = "layerNorm",
            .x = x,
            .shape = shape,
            .axes = axes,
            .scale = scale,
            .lengths = lengths,
            .statistics = statistics});
    run<T>({.name = "rmsNorm",
            .x = x,
            .shape = shape,
            .axes = axes,
            .scale = scale,
            .residual = residual,
            .statistics = statistics});
    run<T>({.name = "rmsNorm",
            .x = x,
            .shape = shape,
            .axes = axes,
            .lengths = lengths,
            .statistics = statistics});
    for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      run<T>({.name = "lpNormalize", .x = x, .shape = shape, .axes = axes, .epsilon = 1e-12, .p = p});
    }
  }
  for (const std::size_t axis : {1, 2, 3}) {
    const std::vector<T> x = draw<T>(size, offset, step);
    const std::size_t channels = shape[axis];
    const std::vector<P> scale = values<P>(channels, 1, kStep), bias = values<P>(channels, 0, kStep);
    run<T>({.name = "instanceNorm",
            .x = x,
            .shape = shape,
            .axes = {axis},
            .scale = scale,
            .bias = bias,
            .statistics = 3 * channels});
    for (const std::size_t groups : {std::size_t{1}, channels}) {
      run<T>({.name = "groupNorm",
              .x = x,
              .shape = shape,
              .axes = {axis},
              .scale = scale,
              .bias = bias,
              .statistics = 3 * groups,
              .groups = groups});
    }
    run<T>({.name = "batchNormTraining",
            .x = x,
            .shape = shape,
            .axes = {axis},
            .scale = scale,
            .bias = bias,
            .statistics = channels});
    if (axis > 1) {
      run<T>({.name = "batchNormTraining",
              .x = x,
              .shape = shape,
              .axes = {axis},
              .lengths = lengths,
              .statistics = channels});
    }
    for (const double beta : {0.75, 0.3, -2.5}) {
      run<T>({.name = "localResponseNorm", .x = x, .shape = shape, .axes = {axis}, .size = 4, .beta = beta});
    }
  }
  // Groups of several channels, in pieces of 1, 7 and 42 values.
  for (const Shape& images :
       {Shape{2, 12, 1}, Shape{2, 12, 7}, Shape{2, 12, 42}, Shape{2, 7, 12}, Shape{2, 7, 120}}) {
    const std::vector<T> x = draw<T>(images[0] * images[1] * images[2], offset, step);
    const std::size_t axis = images[1] == 12 ? 1 : 2;
    const std::vector<P> scale = values<P>(images[axis], 1, kStep), bias = values<P>(images[axis], 0, kStep);
    run<T>({.name = "groupNorm",
            .x = x,
            .shape = images,
            .axes = {axis},
            .scale = scale,
            .bias = bias,
            .statistics = 8,
            .groups = 4});
  }
}

template <class T>
void gradients(double offset, double step) {
  using P = typename simdnorm::Arguments<T>::Parameter;
  const Shape shape = {3, 5, 6, 7};
  const std::size_t size = 630;
  const Lengths lengths = {5, 0, 3};
  for (const Shape& axes : kFamilyAxes) {
    const std::vector<T> x = draw<T>(size, offset, step), dy = draw<T>(size, 0, kStep);
    const std::size_t units = size / places(shape, axes);
    const std::vector<P> scale = values<P>(units, 1, kStep);
    run<T>(
        {.name = "layerNormBackward", .x = x, .shape = shape, .axes = axes, .dy = dy, .parameters = units});
    run<T>({.name = "layerNormBackward",
            .x = x,
            .shape = shape,
            .axes = axes,
            .scale = scale,
            .dy = dy,
            .parameters = units,
            .lengths = lengths});
    run<T>({.name = "rmsNormBackward",
            .x = x,
            .shape = shape,
            .axes = axes,
            .scale = scale,
            .dy = dy,
            .parameters = units});
    for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      run<T>({.name = "lpNormalizeBackward",
              .x = x,
              .shape = shape,
              .axes = axes,
              .dy = dy,
              .epsilon = 1e-12,
              .p = p});
    }
  }
  for (const std::size_t axis : {1, 2, 3}) {
    const std::vector<T> x = draw<T>(size, offset, step), dy = draw<T>(size, 0, kStep);
    const std::size_t channels = shape[axis];
    const std::vector<P> scale = values<P>(channels, 1, kStep);
    run<T>({.name = "instanceNormBackward",
            .x = x,
            .shape = shape,
            .axes = {axis},
            .scale = scale,
            .dy = dy,
            .parameters = channels});
    run<T>({.name = "groupNormBackward",
            .x = x,
            .shape = shape,
            .axes = {axis},
            .scale = scale,
            .dy = dy,
            .parameters = channels});
    run<T>({.name = "batchNormTrainingBackward",
            .x = x,
            .shape = shape,
            .axes = {axis},
            .scale = scale,
            .dy = dy,
            .parameters = channels});
    const std::vector<P> mean = values<P>(channels, offset, kStep), variance = values<P>(channels, 5, kStep);
    run<T>({.name = "batchNormBackward",
            .x = x,
            .shape = shape,
            .axes = {axis},
            .scale = scale,
            .dy = dy,
            .parameters = channels,
            .mean = mean,
            .variance = variance});
  }
}

void far(std::size_t length) {
  for (const double step : kFarSteps) {
    Values x = values(4 * length, 0, step);
    layer_norm(x, 4, kAbsent, kAbsent, 0);
    batch_norm_training(x, {length, 4, 1}, kAbsent, kAbsent, 0);
    batch_norm_training(x, {2, 2, length}, kAbsent, kAbsent, 0);
    moments(x, {2, 2, length}, {0, 2});
    // A mixture: most values are far below the largest.
    for (std::size_t i = 0; i < 4; ++i) x[i * length + i] = static_cast<float>(i % 2 == 1 ? 3e38 : -3e38);
    layer_norm(x, 4, kAbsent, kAbsent, 1e-5);
    batch_norm_training(x, {length, 4, 1}, kAbsent, kAbsent, 1e-5);
    batch_norm_training(x, {2, 2, length}, kAbsent, kAbsent, 1e-5);
  }
}

}  // namespace

std::string bit_hash() {
  low = 0x243f6a88;
  high = 0x85a308d3;
  state = 1;
  for (std::size_t length = 1; length <= 67; ++length) rows(length);
  for (const std::size_t length : kEdges) rows(length);
  for (const Shape& shape : kBatches) batches(shape);
  for (const Shape& axes : kAxes) moments(values(4 * 5 * 6 * 7, 100, kStep), {4, 5, 6, 7}, axes);
  for (const std::size_t length : {4, 7, 16, 37, 600}) far(length);
  family<float>(3, kStep);
  family<double>(3, kStep);
  family<double>(1e9, kStep);
  family<Half>(0, 0);
  gradients<float>(3, kStep);
  gradients<double>(1e6, kStep);
  gradients<Half>(0, 0);
  for (const double step : {0x1p-1060, 0x1p-600, 0x1p480, 0x1p1007}) family<double>(0, step);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%08x%08x", static_cast<unsigned>(high), static_cast<unsigned>(low));
  return digits;
}
