// The examples of the headers' comments, with the numbers that they state.

#include "call.h"

using namespace simdnorm;

namespace {

/// With as much scratch as it asks for.
Status run_in_scratch(const char* name, Arguments<> arguments) {
  ScratchMemory scratch(scratch_of(operation(name), arguments));
  arguments.scratch = scratch.data();
  const Status status = run_on(operation(name), arguments);
  scratch.check();
  return status;
}

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
  REQUIRE(run_in_scratch(
              "localResponseNorm",
              {.shape = shape, .axes = axes, .x = x, .y = y, .size = 3, .alpha = 3, .beta = 1, .k = 0}) ==
          Status::kOk);
  check_printed(y, {0.2, 0.142857, 0.230769}, 0.0000005);
}

TEST_CASE("operations.h, moments") {
  const std::size_t shape[] = {2, 2}, axes[] = {0};
  const float x[] = {1, 10, 3, 30};
  float mean[2], variance[2];
  REQUIRE(moments({.shape = shape, .axes = axes, .x = x, .mean_out = mean, .variance_out = variance}) ==
          Status::kOk);
  check_printed(mean, {2, 20});
  check_printed(variance, {1, 100});
}

TEST_CASE("layer_norm.h, gradient") {
  const std::size_t shape[] = {1, 3}, axes[] = {1};
  const float x[] = {1, 2, 4}, scale[] = {1, 2, 3}, dy[] = {1, 0, 0};
  float dx[3];
  REQUIRE(run_in_scratch("layerNormBackward",
                         {.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .scale = scale}) ==
          Status::kOk);
  check_printed(dx, {0.2290823, -0.3436200, 0.1145377}, 0.0000001);
}

TEST_CASE("rms_norm.h, gradient") {
  const std::size_t shape[] = {1, 2}, axes[] = {1};
  const float x[] = {1, 7}, dy[] = {1, 0};
  float dx[2];
  REQUIRE(run_in_scratch("rmsNormBackward",
                         {.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .epsilon = 0}) ==
          Status::kOk);
  check_printed(dx, {0.196, -0.028}, 0.0000001);
}

TEST_CASE("group_norm.h, gradients") {
  const std::size_t groups_shape[] = {1, 6}, instances_shape[] = {1, 2, 3}, axes[] = {1};
  const float x[] = {1, 2, 4, 5, 5, 5}, dy[] = {1, 0, 0, 0, 0, 0};
  float dx[6];
  REQUIRE(run_in_scratch("groupNormBackward",
                         {.shape = groups_shape, .axes = axes, .x = x, .y = dx, .dy = dy, .groups = 2}) ==
          Status::kOk);
  check_printed(dx, {0.2290823, -0.34362, 0.1145377, 0, 0, 0}, 0.0000001);
  REQUIRE(run_in_scratch("instanceNormBackward",
                         {.shape = instances_shape, .axes = axes, .x = x, .y = dx, .dy = dy}) == Status::kOk);
  check_printed(dx, {0.2290823, -0.34362, 0.1145377, 0, 0, 0}, 0.0000001);
}

TEST_CASE("batch_norm.h, gradient at inference") {
  const std::size_t shape[] = {2, 2}, axes[] = {1};
  const float x[] = {1, 10, 3, 30}, dy[] = {1, 2, 3, 4}, mean[] = {2, 20}, variance[] = {1, 25};
  float dx[4];
  REQUIRE(run_in_scratch("batchNormBackward", {.shape = shape,
                                               .axes = axes,
                                               .x = x,
                                               .y = dx,
                                               .dy = dy,
                                               .mean = mean,
                                               .variance = variance,
                                               .epsilon = 0}) == Status::kOk);
  check_printed(dx, {1, 0.4, 3, 0.8}, 0.0000005);
}

TEST_CASE("batch_norm.h, gradient in training") {
  const std::size_t shape[] = {3, 1}, axes[] = {1};
  const float x[] = {1, 2, 4}, dy[] = {1, 0, 0};
  float dx[3];
  REQUIRE(run_in_scratch("batchNormTrainingBackward",
                         {.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy}) == Status::kOk);
  check_printed(dx, {0.2290823, -0.34362, 0.1145377}, 0.0000001);
}

TEST_CASE("lp_normalize.h, gradient") {
  const std::size_t shape[] = {1, 2}, axes[] = {1};
  const float x[] = {3, -4}, dy[] = {1, 0};
  float dx[2];
  REQUIRE(run_in_scratch("lpNormalizeBackward",
                         {.shape = shape, .axes = axes, .x = x, .y = dx, .dy = dy, .epsilon = 1e-12}) ==
          Status::kOk);
  check_printed(dx, {0.128, 0.096}, 0.0000001);
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
  CHECK(is("layerNorm", simdnorm::layer_norm<float>, simdnorm::layer_norm<double>));
  CHECK(is("rmsNorm", simdnorm::rms_norm<float>, simdnorm::rms_norm<double>));
  CHECK(is("instanceNorm", simdnorm::instance_norm<float>, simdnorm::instance_norm<double>));
  CHECK(is("groupNorm", simdnorm::group_norm<float>, simdnorm::group_norm<double>));
  CHECK(is("batchNorm", simdnorm::batch_norm<float>, simdnorm::batch_norm<double>));
  CHECK(is("batchNormTraining", simdnorm::batch_norm_training<float>, simdnorm::batch_norm_training<double>));
  CHECK(is("lpNormalize", simdnorm::lp_normalize<float>, simdnorm::lp_normalize<double>));
  CHECK(is("localResponseNorm", simdnorm::local_response_norm<float>, simdnorm::local_response_norm<double>));
  CHECK(is("moments", simdnorm::moments<float>, simdnorm::moments<double>));
}
