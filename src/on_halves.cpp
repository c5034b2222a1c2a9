#include "on_halves.h"

#include <algorithm>

#include "over_axes.h"

namespace simdnorm {
namespace {

/// x + residual, rounded to halves, as floats; and as halves where `out` is there.
void add_halves(const Half* x, const Half* residual, Half* out, float* sum, std::size_t count) {
  constexpr std::size_t kPiece = 128;
  float piece[kPiece];
  Half rounded[kPiece];
  for (std::size_t i = 0; i < count; i += kPiece) {
    const std::size_t now = std::min(count - i, kPiece);
    widen(x + i, sum + i, now);
    widen(residual + i, piece, now);
    add(sum + i, piece, sum + i, now);
    narrow(sum + i, rounded, now);
    widen(rounded, sum + i, now);
    if (out) std::copy_n(rounded, now, out + i);
  }
}

/// The same arguments for floats that are yet to be found.
Arguments<float> as_floats(const Arguments<Half>& given, Scratch& scratch) {
  float* const x = scratch.take<float>(product(given.shape));
  float* const dy = given.dy ? scratch.take<float>(product(given.shape)) : nullptr;
  return {
      .shape = given.shape,
      .axes = given.axes,
      .x = x,
      .y = given.y ? x : nullptr,
      .dy = dy,
      .scale = given.scale,
      .bias = given.bias,
      .mean = given.mean,
      .variance = given.variance,
      .inv_std = given.inv_std,
      .lengths = given.lengths,
      .epsilon = given.epsilon,
      .groups = given.groups,
      .p = given.p,
      .size = given.size,
      .alpha = given.alpha,
      .beta = given.beta,
      .k = given.k,
      .mean_out = given.mean_out,
      .variance_out = given.variance_out,
      .inv_std_out = given.inv_std_out,
      .d_scale_out = given.d_scale_out,
      .d_bias_out = given.d_bias_out,
      .scratch = scratch.rest(),
  };
}

}  // namespace

Status run_on_halves(FloatOperation run, const Arguments<Half>& given) {
  Scratch scratch(given.scratch);
  const Arguments<float> floats = as_floats(given, scratch);
  const std::size_t count = product(given.shape);
  float* const x = const_cast<float*>(floats.x);
  if (given.residual) {
    add_halves(given.x, given.residual, given.residual_out, x, count);
    if (given.residual_out && given.lengths) clear_padding(given.shape, given.lengths, given.residual_out);
  } else {
    widen(given.x, x, count);
  }
  if (given.dy) widen(given.dy, const_cast<float*>(floats.dy), count);
  const Status status = run(floats);
  if (status == Status::kOk && given.y) narrow(x, given.y, count);
  return status;
}

std::uint64_t scratch_on_halves(FloatScratch needed, const Arguments<Half>& given) {
  Scratch scratch(nullptr);
  const Arguments<float> floats = as_floats(given, scratch);
  return scratch.bytes() + needed(floats);
}

}  // namespace simdnorm
