#pragma once
// The operations, by the names that JavaScript calls them.

#include "batch_norm.h"
#include "layer_norm.h"

namespace simdnorm {

/// Population mean and variance over axes, without normalizing.
///
/// Shapes: x `shape`; mean_out and variance_out (or null) one value for each place that is left when the axes
/// are taken away. Errors: kAxes where the axes alternate with others so often that a View cannot say it.
/// Accuracy and edge cases: as layer_norm.
/// Source: Chan, Golub, LeVeque 1979; ONNX ReduceMean, tfjs moments.
inline Status moments(const Arguments& arguments) {
  const auto view = view_over_axes(arguments.shape, arguments.axes);
  if (!view) return Status::kAxes;
  normalize(*view, Statistics::kOwn, arguments);
  return Status::kOk;
}

struct Operation {
  const char* name;
  Status (*run)(const Arguments&);
};

inline constexpr Operation kOperations[] = {
    {"layerNorm", layer_norm},
    {"batchNorm", batch_norm},
    {"batchNormTraining", batch_norm_training},
    {"moments", moments},
};

}  // namespace simdnorm
