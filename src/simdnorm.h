#pragma once
// simdnorm: normalization layers at memory speed. This header is all that a program includes.
//
// The one idea: a normalization is two facts about memory, namely how the statistics fold and how the
// parameters repeat. A View says both in six integers; everything else is one loop (normalize.h).
//
//   view.h         shapes and axes become a View
//   moments.h      how statistics fold: count, mean, m2
//   affine.h       how statistics and parameters are applied
//   normalize.h    the loop, and the Arguments that every operation takes
//   layer_norm.h, batch_norm.h, operations.h    the operations and their table
//
// The library allocates nothing, prints nothing, keeps no state and throws nothing: its functions may run in
// any number of threads at once. Statistics and parameters have one float each; sums are kept in double.
//
// One bit pattern: for finite input the results are equal to the bit in every WebAssembly engine and in
// native builds on any machine with IEEE 754 arithmetic, in place or not, for a row alone or among others.
// That is why the build has -ffp-contract=off, and why fast math is out of the question.

#include "operations.h"
