#pragma once
// simdnorm: normalization layers at memory speed. This header is all that a program includes.
//
// The one idea: a normalization is two facts about memory, namely how the statistics fold and how the
// parameters repeat. A View says both in six integers; everything else is one loop (normalize.h).
//
// For a program it is installed as <simdnorm/simdnorm.h>, with the library that find_package(simdnorm) finds; README.md
// shows one. An operation is a function of Arguments<T>, all of whose members are the caller's memory:
//
//   if (layer_norm({.shape = shape, .axes = axes, .x = x, .y = y}) != Status::kOk) ...
//
// Nothing is checked but what a Status says: axes are different from each other and less than the rank, extents along
// axes that are normalized over are not 0, lengths are at most the extent of axis 1, and memory is as large as the
// operation's documentation says.
//
//   view.h         shapes and axes become a View
//   arguments.h    what every operation takes
//   moments.h      how statistics fold: count, mean, m2
//   affine.h       how statistics and parameters are applied
//   normalize.h    the loop
//   over_axes.h    axes that no View can say, and items of different lengths
//   gradients.h    gradients, made of the same and of gradient_kernels.h
//   sums.h, simd.h, reading.h, permute.h    sums that stand, the only intrinsics, axes in any order
//   half.h, on_halves.h    half precision, and the operations on it
//   layer_norm.h, rms_norm.h, group_norm.h, batch_norm.h, lp_normalize.h, local_response_norm.h,
//   operations.h   the operations and their table
//
// The library allocates nothing, prints nothing, keeps no state and throws nothing: its functions may run in
// any number of threads at once. The caller supplies every buffer, scratch included: an operation that needs
// some has a function that says how much.
//
// x is float, double or Half (computed as float). Parameters and statistics have its type, for Half float; sums
// are kept more precise than that.
//
// One bit pattern: for finite input the results are equal to the bit in every WebAssembly engine and in
// native builds on any machine with IEEE 754 arithmetic, in place or not, for a row alone or among others.
// That is why the build has -ffp-contract=off, and why fast math is out of the question.

#include "operations.h"
