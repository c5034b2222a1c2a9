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
/// Shapes: x `shape`; mean_out and variance_out (or null) one value for each place that is left when the axes
/// are taken away. Errors: none. Accuracy and edge cases: as layer_norm.
/// Source: Chan, Golub, LeVeque 1979; ONNX ReduceMean, tfjs moments.
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
