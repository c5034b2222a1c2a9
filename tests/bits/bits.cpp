// The same as bits.ts, line by line.

#include "bits.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "simdnorm.h"

namespace {

using Values = std::vector<float>;
using Shape = std::vector<std::size_t>;

const Values kAbsent;

// ---------------------------------------------------------------- hash

std::uint32_t low = 0, high = 0;

void add(const Values& values) {
  for (const float value : values) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    low = (low ^ word) * 0x9e3779b1u;
    low ^= low >> 15;
    high = (high ^ (word + low)) * 0x85ebca77u;
    high ^= high >> 13;
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
Values values(std::size_t count, double offset, double step) {
  Values result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<float>(offset + next() * step);
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
  char digits[17];
  std::snprintf(digits, sizeof digits, "%08x%08x", static_cast<unsigned>(high), static_cast<unsigned>(low));
  return digits;
}
