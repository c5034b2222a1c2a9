#pragma once
// Rows of floats with parameters of their own for each value: while one is written, the next is read.

#include "arguments.h"
#include "normalize.h"
#include "view.h"

namespace simdnorm {

/// Whether normalize_rows() does what is asked for: layer norm with scale and bias, or RMS norm with scale.
bool are_rows_with_parameters(const View& view, Kind kind, const Arguments<float>& arguments);

/// As normalize() would do it, with the same bits.
void normalize_rows(const View& view, Kind kind, const Arguments<float>& arguments);

}  // namespace simdnorm
