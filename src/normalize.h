#pragma once
// The one loop that every operation runs: fold statistics over a view, then apply them.

#include "affine.h"
#include "moments.h"
#include "view.h"

namespace simdnorm {

/// What an operation works on. Null or empty: absent. Each operation's header says which members it uses.
///
/// Nothing may overlap what is written, except that y may be x. Alignment is free; 64 bytes are fastest.
struct Arguments {
  /// The extents of x, row-major, the last one fastest.
  Extents shape = {};
  /// The axes that share statistics, in ascending order, or the one channel axis.
  Extents axes = {};
  const float* x = nullptr;
  float* y = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
  /// Statistics that are given.
  const float* mean = nullptr;
  const float* variance = nullptr;
  /// In units of x squared, inside the root.
  double epsilon = 1e-5;
  /// Statistics that are wanted, one for each group.
  float* mean_out = nullptr;
  float* variance_out = nullptr;
  float* inv_std_out = nullptr;
};

enum class Status : unsigned {
  kOk,
  /// The operation is not possible over these axes.
  kAxes,
};

enum class Statistics {
  /// Each group's own.
  kOwn,
  /// arguments.mean and arguments.variance, one for each channel.
  kGiven,
};

/// y = (x - mean) * inv_std * scale + bias over a view. Where y is null only the statistics are made.
void normalize(const View& view, Statistics statistics, const Arguments& arguments);

}  // namespace simdnorm
