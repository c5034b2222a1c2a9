// The examples of the headers' comments, with the numbers that they state.

#include "catch.h"
#include "compare.h"
#include "simdnorm.h"

using namespace simdnorm;

namespace {

/// To the digits that the comment prints.
void check_printed(const float* got, const std::vector<double>& printed) {
  for (std::size_t i = 0; i < printed.size(); ++i) {
    if (!(std::fabs(got[i] - printed[i]) <= 0.00005))
      FAIL("[" << i << "]: " << got[i] << ", not " << printed[i]);
  }
}

}  // namespace

TEST_CASE("layer_norm.h") {
  const std::size_t shape[] = {2, 3}, axes[] = {1};
  const float x[] = {1, 2, 4, 5, 5, 5};
  float y[6];
  REQUIRE(layer_norm({.shape = shape, .axes = axes, .x = x, .y = y}) == Status::kOk);
  check_printed(y, {-1.0690, -0.2673, 1.3363, 0, 0, 0});
  CHECK(y[3] == 0);
}

TEST_CASE("batch_norm.h, inference") {
  const std::size_t shape[] = {2, 2}, axes[] = {1};
  const float x[] = {1, 10, 3, 30}, mean[] = {2, 20}, variance[] = {1, 25};
  float y[4];
  REQUIRE(
      batch_norm(
          {.shape = shape, .axes = axes, .x = x, .y = y, .mean = mean, .variance = variance, .epsilon = 0}) ==
      Status::kOk);
  check_printed(y, {-1, -2, 1, 2});
}

TEST_CASE("batch_norm.h, training") {
  const std::size_t shape[] = {2, 2}, axes[] = {1};
  const float x[] = {1, 10, 3, 30};
  float y[4], mean[2], variance[2];
  REQUIRE(batch_norm_training({.shape = shape,
                               .axes = axes,
                               .x = x,
                               .y = y,
                               .epsilon = 0,
                               .mean_out = mean,
                               .variance_out = variance}) == Status::kOk);
  check_printed(y, {-1, -1, 1, 1});
  check_printed(mean, {2, 20});
  check_printed(variance, {1, 100});
}

TEST_CASE("operations.h: every name runs its function") {
  const auto run_of = [](const std::string& name) {
    for (const Operation& operation : kOperations) {
      if (operation.name == name) return operation.run;
    }
    FAIL("no operation " << name);
    return kOperations[0].run;
  };
  CHECK(run_of("layerNorm") == layer_norm);
  CHECK(run_of("batchNorm") == batch_norm);
  CHECK(run_of("batchNormTraining") == batch_norm_training);
  CHECK(run_of("moments") == moments);
}
