#pragma once
// The operations on half precision: those on floats, between two conversions.

#include "arguments.h"

namespace simdnorm {

using FloatOperation = Status (*)(const Arguments<float>&);
using FloatScratch = std::uint64_t (*)(const Arguments<float>&);

/// An operation on halves: computed as floats in scratch and rounded once. Statistics are floats.
Status run_on_halves(FloatOperation run, const Arguments<Half>& arguments);
std::uint64_t scratch_on_halves(FloatScratch scratch, const Arguments<Half>& arguments);

}  // namespace simdnorm
