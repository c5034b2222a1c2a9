#pragma once
// The operations, by the names that JavaScript calls them.

#include "batch_norm.h"
#include "group_norm.h"
#include "layer_norm.h"
#include "local_response_norm.h"
#include "lp_normalize.h"
#include "on_halves.h"
#include "rms_norm.h"

namespace simdnorm {

/// Population mean and variance over axes, without normalizing.
///
///   mean = sum(x) / n,   variance = sum((x - mean)^2) / n
///
/// Shapes: x `shape`; y null; mean_out, variance_out and count_out (or null) one value for each place that is left when
/// the axes are taken away. variance is in units of x squared. Its scratch is what layer_norm_scratch says.
/// Aliasing: nothing is written but these. Errors: none.
/// Accuracy: the mean to 5 machine epsilons * deviation beyond its rounding, the variance to 16 relatively.
/// Cost: one sweep; two more passes where axes alternate with others.
/// Edge cases: a constant group has exactly its value and 0; NaN and infinity make their group NaN.
/// Source: Chan, Golub, LeVeque 1979; ONNX ReduceMean, tfjs moments.
///
///   const std::size_t shape[] = {2, 2}, axes[] = {0};
///   const float x[] = {1, 10, 3, 30};
///   float mean[2], variance[2];
///   moments({.shape = shape, .axes = axes, .x = x, .mean_out = mean, .variance_out = variance});
///   // mean 2, 20; variance 1, 100
template <class T = float>
Status moments(const Arguments<T>& arguments) {
  normalize_over_axes(Kind::kDeviation, arguments);
  return Status::kOk;
}

/// For operations that need no scratch.
template <class T>
std::uint64_t no_scratch(const Arguments<T>&) {
  return 0;
}

template <class T>
struct Kernel {
  Status (*run)(const Arguments<T>&);
  std::uint64_t (*scratch)(const Arguments<T>&);
};

struct Operation {
  const char* name;
  Kernel<float> on_floats;
  Kernel<double> on_doubles;
};

#define SIMDNORM_OPERATION(name, run, scratch)                           \
  {                                                                      \
    name, {run<float>, scratch<float>}, { run<double>, scratch<double> } \
  }
inline constexpr Operation kOperations[] = {
    SIMDNORM_OPERATION("layerNorm", layer_norm, layer_norm_scratch),
    SIMDNORM_OPERATION("rmsNorm", rms_norm, rms_norm_scratch),
    SIMDNORM_OPERATION("instanceNorm", instance_norm, no_scratch),
    SIMDNORM_OPERATION("groupNorm", group_norm, no_scratch),
    SIMDNORM_OPERATION("batchNorm", batch_norm, no_scratch),
    SIMDNORM_OPERATION("batchNormTraining", batch_norm_training, batch_norm_training_scratch),
    SIMDNORM_OPERATION("lpNormalize", lp_normalize, lp_normalize_scratch),
    SIMDNORM_OPERATION("localResponseNorm", local_response_norm, local_response_norm_scratch),
    SIMDNORM_OPERATION("moments", moments, layer_norm_scratch),
    SIMDNORM_OPERATION("layerNormBackward", layer_norm_backward, layer_norm_backward_scratch),
    SIMDNORM_OPERATION("rmsNormBackward", rms_norm_backward, rms_norm_backward_scratch),
    SIMDNORM_OPERATION("instanceNormBackward", instance_norm_backward, instance_norm_backward_scratch),
    SIMDNORM_OPERATION("groupNormBackward", group_norm_backward, group_norm_backward_scratch),
    SIMDNORM_OPERATION("batchNormBackward", batch_norm_backward, batch_norm_backward_scratch),
    SIMDNORM_OPERATION("batchNormTrainingBackward", batch_norm_training_backward,
                       batch_norm_training_backward_scratch),
    SIMDNORM_OPERATION("lpNormalizeBackward", lp_normalize_backward, lp_normalize_backward_scratch),
};
#undef SIMDNORM_OPERATION

}  // namespace simdnorm
