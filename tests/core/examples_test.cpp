// The examples of the headers' comments, with the numbers that they state.

#include "catch.h"
#include "compare.h"
#include "simdnorm.h"

using namespace simdnorm;

namespace {

/// To the digits that the comment prints.
void check_printed(const float* got, const std::vector<double>& printed, double digits = 0.00005) {
  for (std::size_t i = 0; i < printed.size(); ++i) {
    if (!(std::fabs(got[i] - printed[i]) <= digits))
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

TEST_CASE("rms_norm.h") {
  const std::size_t shape[] = {1, 2}, axes[] = {1};
  const float x[] = {1, 7};
  float y[2];
  REQUIRE(rms_norm({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0}) == Status::kOk);
  check_printed(y, {0.2, 1.4});
}

TEST_CASE("group_norm.h, groups") {
  const std::size_t shape[] = {1, 4}, axes[] = {1};
  const float x[] = {1, 3, 10, 30};
  float y[4];
  REQUIRE(group_norm({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0, .groups = 2}) ==
          Status::kOk);
  check_printed(y, {-1, 1, -1, 1});
}

TEST_CASE("group_norm.h, instances") {
  const std::size_t shape[] = {1, 2, 2}, axes[] = {1};
  const float x[] = {1, 3, 10, 30};
  float y[4];
  REQUIRE(instance_norm({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 0}) == Status::kOk);
  check_printed(y, {-1, 1, -1, 1});
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

TEST_CASE("lp_normalize.h") {
  const std::size_t shape[] = {1, 2}, axes[] = {1};
  const float x[] = {3, -4};
  float y[2];
  REQUIRE(lp_normalize({.shape = shape, .axes = axes, .x = x, .y = y, .epsilon = 1e-12}) == Status::kOk);
  check_printed(y, {0.6, -0.8});
}

TEST_CASE("local_response_norm.h") {
  const std::size_t shape[] = {1, 3}, axes[] = {1};
  const float x[] = {1, 2, 3};
  float y[3];
  alignas(64) char scratch[64];
  Arguments<> arguments = {
      .shape = shape, .axes = axes, .x = x, .y = y, .size = 3, .alpha = 3, .beta = 1, .k = 0};
  REQUIRE(local_response_norm_scratch(arguments) <= sizeof scratch);
  arguments.scratch = scratch;
  REQUIRE(local_response_norm(arguments) == Status::kOk);
  check_printed(y, {0.2, 0.142857, 0.230769}, 0.0000005);
}

TEST_CASE("operations.h: every name runs its function") {
  const auto is = [](const std::string& name, auto run_floats, auto run_doubles) {
    for (const Operation& operation : kOperations) {
      if (operation.name == name) {
        return operation.on_floats.run == run_floats && operation.on_doubles.run == run_doubles;
      }
    }
    return false;
  };
  CHECK(is("layerNorm", layer_norm<float>, layer_norm<double>));
  CHECK(is("rmsNorm", rms_norm<float>, rms_norm<double>));
  CHECK(is("instanceNorm", instance_norm<float>, instance_norm<double>));
  CHECK(is("groupNorm", group_norm<float>, group_norm<double>));
  CHECK(is("batchNorm", batch_norm<float>, batch_norm<double>));
  CHECK(is("batchNormTraining", batch_norm_training<float>, batch_norm_training<double>));
  CHECK(is("lpNormalize", lp_normalize<float>, lp_normalize<double>));
  CHECK(is("localResponseNorm", local_response_norm<float>, local_response_norm<double>));
  CHECK(is("moments", moments<float>, moments<double>));
}
