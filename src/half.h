#pragma once
// Half precision: the operations on floats, between two conversions.

#include "arguments.h"

namespace simdnorm {

/// Exact.
void widen(const Half* x, float* y, std::size_t count);
/// Each value rounded to nearest, ties to even. y may begin where x does.
void narrow(const float* x, Half* y, std::size_t count);

using FloatOperation = Status (*)(const Arguments<float>&);
using FloatScratch = std::uint64_t (*)(const Arguments<float>&);

/// An operation on halves: computed as floats in scratch and rounded once. Statistics are floats.
Status run_on_halves(FloatOperation run, const Arguments<Half>& arguments);
std::uint64_t scratch_on_halves(FloatScratch scratch, const Arguments<Half>& arguments);

}  // namespace simdnorm
