#pragma once
// One sweep over a run of values: the sums of their terms.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "judge.h"
#include "moments.h"
#include "simd.h"
#include "sums.h"

namespace simdnorm {

/// A step: two trees of four vectors, each with sums of its own. More loads in one basic block make V8 spill registers.
template <class T>
constexpr std::size_t kStep = 8 * kLanes<T>;
/// Whether a pivot of 0 has a kernel of its own. It gives the same bits; of doubles there are too few to pay for
/// its size.
template <class T>
constexpr bool kSkipsZeroPivots = std::is_same_v<T, float>;

/// Terms of vectors of values.
template <class T, bool kPivoted>
struct PairTerm {
  using Value = Pair<Vector<T>>;
  using BlockTotal = PairTotal<T>;
  Vector<T> pivot;
  Value operator()(Vector<T> values) const {
    const Vector<T> d = kPivoted ? values - pivot : values;
    return {d, d * d};
  }
};

template <class T>
struct SquareTerm {
  using Value = Vector<T>;
  using BlockTotal = VectorTotal<T>;
  Value operator()(Vector<T> values) const { return values * values; }
};

template <class T>
struct MagnitudeTerm {
  using Value = Vector<T>;
  using BlockTotal = VectorTotal<T>;
  Value operator()(Vector<T> values) const { return abs(values); }
};

/// Adds the sums of a term over a run to a block total; beside() does something else for each half step. Lanes past the
/// end hold `fill`, whose term is 0; without kTail the run has whole steps only.
template <bool kTail, class T, class Term, class Beside>
void sweep_beside(const T* x, std::size_t count, Vector<T> fill, Term term, typename Term::BlockTotal& total,
                  Beside beside) {
  constexpr std::size_t kVector = kLanes<T>;
  const auto at = [&](std::size_t vector) { return term(load(x + vector * kVector)); };
  while (count > 0) {
    const std::size_t steps = std::min(count / kStep<T>, kBlockSteps);
    count -= steps * kStep<T>;
    typename Term::Value even = {}, odd = {};
    for (std::size_t half = 0; half < 2 * steps; ++half) {
      // Before the sums: V8 sinks arithmetic to the end of a basic block, but no loads, so that it would keep values in
      // registers that it needs, and spill others.
      beside();
      const typename Term::Value sum = even + tree<4>(at, 0);
      even = odd;
      odd = sum;
      x += kStep<T> / 2;
    }
    // What is left after the last whole step has sums of its own: added to long ones, it would break the bound.
    if (kTail && steps == 0) {
      for (; count >= 2 * kVector; count -= 2 * kVector, x += 2 * kVector) {
        even = even + at(0);
        odd = odd + at(1);
      }
      if (count >= kVector) {
        even = even + at(0);
        count -= kVector;
        x += kVector;
      }
      if (count > 0) odd = odd + term(load_partial(x, count, fill));
      count = 0;
    }
    total.add(even + odd);
  }
}

template <class T, class Term>
SIMDNORM_ONCE void sweep(const T* x, std::size_t count, Vector<T> fill, const Term& term,
                         typename Term::BlockTotal& total) {
  sweep_beside<true>(x, count, fill, term, total, [] {});
}

/// The sums of d and d * d over a run. With a pivot of 0 both kinds give the same bits.
template <class T>
void sweep_pairs(const T* x, std::size_t count, T pivot, PairTotal<T>& total) {
  const Vector<T> pivots = Vector<T>::splat(pivot);
  if constexpr (kSkipsZeroPivots<T>) {
    if (pivot == 0) return sweep(x, count, pivots, PairTerm<T, false>{pivots}, total);
  }
  sweep(x, count, pivots, PairTerm<T, true>{pivots}, total);
}

/// The pivot that a group's first values suggest. They are taken about the very first one, so that a group of
/// equal values gets exactly that value.
template <class T>
T choose_pivot(const T* x, std::size_t count);
/// Those of four rows next to each other.
f32x4 choose_pivots(const float* x, std::size_t count);

/// The moments of a row whose sums can't be relied on, and what they have given.
template <class T>
Moments rescued_row(const T* x, std::size_t length, Fold fold, Verdict verdict, Moments moments);

/// The moments of a row of which sums about a pivot have been made: from these, if they can be relied on.
template <class T>
Moments moments_of_row(const T* x, std::size_t length, Fold fold, const Sums& sums, T pivot) {
  Moments moments;
  const Verdict verdict = judge<T>(fold, sums, static_cast<double>(length), pivot, moments);
  return verdict == Verdict::kGood ? moments : rescued_row(x, length, fold, verdict, moments);
}

}  // namespace simdnorm
