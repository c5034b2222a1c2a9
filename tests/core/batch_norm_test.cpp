#include "batch_norm.h"

#include "definition.h"

using reference::Batch;
using simdnorm::Status;

namespace {

template <class T>
void check_batch_norm(CallOf<T> call, const Batch& batch, const std::string& data) {
  const auto want = reference::batch_norm_training(call.x, batch, call.scale, call.bias, call.epsilon);
  const Case training = case_of(kBatchNormTraining, call, data);
  const ResultOf<T> got = batch_norm_training(call);
  REQUIRE(got.status == Status::kOk);
  check_near(
      training, "y", got.y, want.y, [&](std::size_t i) { return want.magnitude[i]; }, kAffinePromiseOf<T>);
  definition::check_statistics(training, got, want);

  // Given statistics are other than the batch's own, so that taking the wrong ones shows.
  call.mean = draw<T>(batch.c, 11, 2, 1);
  call.variance = draw<T>(batch.c, 12, 9, 2);
  const auto given =
      reference::batch_norm(call.x, batch, call.mean, call.variance, call.scale, call.bias, call.epsilon);
  const Case inference = case_of(kBatchNorm, call, data);
  const ResultOf<T> result = batch_norm(call);
  REQUIRE(result.status == Status::kOk);
  check_near(
      inference, "y", result.y, given.y, [&](std::size_t i) { return given.magnitude[i]; },
      kAffinePromiseOf<T>);
}

template <class T>
void check_with_all_parameters(const Shape& shape, const Batch& batch, double mean, double deviation) {
  CallOf<T> call = {.shape = shape,
                    .axes = {},
                    .x = draw<T>(product(shape), static_cast<std::uint32_t>(batch.c), mean, deviation)};
  for (int parameters = 0; parameters < 4; ++parameters) {
    call.scale = parameters & 1 ? draw<T>(batch.c, 7, 1, 3) : ValuesOf<T>{};
    call.bias = parameters & 2 ? draw<T>(batch.c, 8, -2, 5) : ValuesOf<T>{};
    check_batch_norm(call, batch,
                     "deviation " + text(deviation) + ", parameters " + std::to_string(parameters));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("batch norm is its definition: channels last", "", float, double) {
  for (const std::size_t channels : {1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 255, 256, 257, 258, 513}) {
    for (const std::size_t n : {2, 3, 8, 17, 129, 300}) {
      if (n * channels > 20000) continue;
      check_with_all_parameters<TestType>({n, channels}, {n, channels, 1, 1}, 3, 0.1);
      check_with_all_parameters<TestType>({n, channels}, {n, channels, 1, 1}, -3, 30);
    }
  }
}

TEMPLATE_TEST_CASE("batch norm is its definition: channels first, short and long runs", "", float, double) {
  for (const std::size_t channels : {1, 2, 3, 9, 64, 257}) {
    for (const std::size_t n : {1, 2, 7, 40}) {
      for (const std::size_t h : {1, 2, 5, 13}) {
        for (const std::size_t w : {1, 2, 3, 8, 41}) {
          if (n * h * w < 2 || n * channels * h * w > 8000) continue;
          check_with_all_parameters<TestType>({n, channels, h, w}, {n, channels, h, w}, 3, 30);
        }
      }
    }
  }
}

TEST_CASE("the channel axis can be any") {
  const Values x = draw(120, 1, 2, 3);
  const auto check = [&](std::size_t axis, const Batch& batch) {
    check_batch_norm<float>({.shape = {2, 3, 4, 5},
                             .axes = {axis},
                             .x = x,
                             .scale = draw(batch.c, 2, 1, 1),
                             .bias = draw(batch.c, 3)},
                            batch, "axis " + std::to_string(axis));
  };
  check(0, {1, 2, 12, 5});
  check(1, {2, 3, 4, 5});
  check(2, {6, 4, 5, 1});
  check(3, {24, 5, 1, 1});
}

TEST_CASE("one value per channel gives bias") {
  const Result got =
      batch_norm_training({.shape = {1, 3}, .axes = {}, .x = {1, -2000, 3e30f}, .bias = {0.1f, 0.2f, 0.3f}});
  check_bits({"batchNormTraining", {1, 3}, "one value"}, "y", got.y, Values{0.1f, 0.2f, 0.3f});
}

TEST_CASE("no values: nothing is written") {
  for (const Shape& shape : {Shape{0, 5}, Shape{5, 0}, Shape{2, 3, 0}}) {
    CHECK(batch_norm_training({.shape = shape, .axes = {}, .x = {}}).status == Status::kOk);
    CHECK(
        batch_norm({.shape = shape, .axes = {}, .x = {}, .mean = Values(5), .variance = Values(5)}).status ==
        Status::kOk);
  }
}

TEST_CASE("the running variance example's batch variances, times n / (n - 1)") {
  const Result got =
      batch_norm_training({.shape = {3, 4}, .axes = {}, .x = {2, 15, 2, 1, 2, 17, 2, 1, -4, -2, -2, -1}});
  const Case what = {"batchNormTraining", {3, 4}, "running variance"};
  check_near(what, "variance", got.variance, {8, Real{218} / 3, Real{32} / 9, Real{8} / 9}, kPromise);
  Values unbiased;
  for (float variance : got.variance) unbiased.push_back(variance * 1.5f);
  check_near(what, "unbiased variance", unbiased, {12, 109, Real{16} / 3, Real{4} / 3}, kPromise);
}

TEST_CASE("epsilon, scale, bias, mean and variance are used") {
  const Call call = {.shape = {4, 2},
                     .axes = {},
                     .x = draw(8, 1, 3, 0.01),
                     .scale = {2, 3},
                     .bias = {1, -1},
                     .mean = {3, 4},
                     .variance = {4, 9}};
  const auto differs = [&](auto run, auto change) {
    Call changed = call;
    change(changed);
    return run(changed).y != run(call).y;
  };
  const auto training = [](const Call& c) { return batch_norm_training(c); };
  const auto inference = [](const Call& c) { return batch_norm(c); };
  CHECK(differs(training, [](Call& c) { c.epsilon = 1e-3; }));
  CHECK(differs(training, [](Call& c) { c.scale = {2, 4}; }));
  CHECK(differs(training, [](Call& c) { c.bias = {1, 1}; }));
  CHECK_FALSE(differs(training, [](Call& c) { c.mean = {0, 0}; }));
  CHECK(differs(inference, [](Call& c) { c.epsilon = 1; }));
  CHECK(differs(inference, [](Call& c) { c.scale = {}; }));
  CHECK(differs(inference, [](Call& c) { c.bias = {}; }));
  CHECK(differs(inference, [](Call& c) { c.mean = {3, 5}; }));
  CHECK(differs(inference, [](Call& c) { c.variance = {4, 8}; }));
}

TEST_CASE("inference is the affine function of algorithm 2") {
  const std::size_t batches = 5, n = 6, channels = 3;
  Values average_mean(channels), unbiased(channels);
  for (std::uint32_t batch = 0; batch < batches; ++batch) {
    const Result got =
        batch_norm_training({.shape = {n, channels}, .axes = {}, .x = draw(n * channels, batch + 1, 2, 3)});
    for (std::size_t c = 0; c < channels; ++c) {
      average_mean[c] += got.mean[c] / batches;
      unbiased[c] += got.variance[c] / batches * n / (n - 1);
    }
  }
  const Values x = draw(n * channels, 9, 2, 3), scale = {1, -2, 0.5f}, bias = {0, 3, -1};
  const Result got = batch_norm({.shape = {n, channels},
                                 .axes = {},
                                 .x = x,
                                 .scale = scale,
                                 .bias = bias,
                                 .mean = average_mean,
                                 .variance = unbiased});
  Reals want, magnitude;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    const double factor = scale[c] / std::sqrt(unbiased[c] + 1e-5);
    want.push_back(factor * x[i] + (bias[c] - factor * average_mean[c]));
    magnitude.push_back(std::fabs(factor * x[i]) + std::fabs(factor * average_mean[c]) + std::fabs(bias[c]) +
                        std::fabs(scale[c]));
  }
  check_near(
      {"batchNorm", {n, channels}, "algorithm 2"}, "y", got.y, want,
      [&](std::size_t i) { return magnitude[i]; }, kAffinePromise);
}

TEST_CASE("statistics that were given are as good as the batch's own where a float holds them") {
  const Values x = draw(300, 1, 0, 3);
  const Result own = batch_norm_training({.shape = {100, 3}, .axes = {}, .x = x});
  const Result given =
      batch_norm({.shape = {100, 3}, .axes = {}, .x = x, .mean = own.mean, .variance = own.variance});
  check_near(
      {"batchNorm", {100, 3}, "own statistics"}, "y", given.y, reference::exact(own.y),
      [&](std::size_t i) { return std::max(1.0f, std::fabs(own.y[i])); }, 2 * kPromise);
}

TEMPLATE_TEST_CASE("batch norm of many rows writes each of them as alone", "", float, double) {
  // More than are written in one piece, and no multiple of it.
  constexpr std::size_t kRows = 50000, kChannels = 3, kFew = 999;
  CallOf<TestType> all = {.shape = {kRows, kChannels},
                          .axes = {},
                          .x = draw<TestType>(kRows * kChannels, 1, 3, 2),
                          .mean = draw<TestType>(kChannels, 2, 3, 1),
                          .variance = draw<TestType>(kChannels, 3, 9, 2)};
  const auto together = batch_norm(all).y;
  for (std::size_t first = 0; first < kRows; first += kFew) {
    const std::size_t count = std::min(kFew, kRows - first);
    CallOf<TestType> some = all;
    const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(first * kChannels);
    some.shape = {count, kChannels};
    some.x = {from, from + static_cast<std::ptrdiff_t>(count * kChannels)};
    const auto alone = batch_norm(some).y;
    const auto y = together.begin() + static_cast<std::ptrdiff_t>(first * kChannels);
    REQUIRE(std::equal(alone.begin(), alone.end(), y));
  }
}
