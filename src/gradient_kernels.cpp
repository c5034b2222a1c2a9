#include "gradient_kernels.h"

#include <algorithm>

namespace simdnorm {
namespace {

/// Vectors that are summed as a tree: two loads for each, and more than eight in one basic block make V8 spill.
constexpr std::size_t kTree = 4;

/// Steps of two trees between additions to the precise sums.
constexpr std::size_t kBlock = 2 * kBlockSteps;

/// The sums of g - pivot and (g - pivot) * h along a run.
template <class T>
SIMDNORM_ONCE Sums run_products(const T* g, const T* h, T pivot, std::size_t count) {
  using V = Vector<T>;
  const V pivots = V::splat(pivot);
  const auto term = [pivots](V a, V b) { return Pair<V>{a - pivots, (a - pivots) * b}; };
  const auto at = [&](std::size_t i) { return term(load(g + i * kLanes<T>), load(h + i * kLanes<T>)); };
  const auto advance = [&](std::size_t by) {
    g += by;
    h += by;
    count -= by;
  };
  PairTotal<T> total = {};
  const Pair<V> zero = {V::splat(0), V::splat(0)};
  while (count >= kTree * kLanes<T>) {
    Pair<V> block = zero;
    for (std::size_t step = 0; step < kBlock && count >= kTree * kLanes<T>; ++step) {
      block = block + tree<kTree>(at, 0);
      advance(kTree * kLanes<T>);
    }
    total.add(block);
  }
  Pair<V> rest = zero;
  while (count >= kLanes<T>) {
    rest = rest + at(0);
    advance(kLanes<T>);
  }
  if (count > 0) rest = rest + term(load_partial(g, count, pivots), load_partial(h, count, pivots));
  total.add(rest);
  return sums_of(total);
}

/// The same down columns that are next to each other, each with its pivot.
template <class T>
SIMDNORM_ONCE void column_products(const T* g, const T* h, const T* pivots, std::size_t rows,
                                   std::size_t columns, std::size_t stride, Sums* out) {
  using V = Vector<T>;
  constexpr std::size_t kRoom = kTile<T> + kLanes<T>;
  Totals<T, kRoom> d, dd;
  d.clear(columns + kLanes<T>);
  dd.clear(columns + kLanes<T>);
  while (rows > 0) {
    const std::size_t block = std::min(rows, kTree * kBlock);
    const auto add_column = [&](std::size_t c, auto load_at) {
      const V pivot = load_at(pivots + c);
      Pair<V> sum = {V::splat(0), V::splat(0)};
      const auto at = [&](std::size_t r) {
        const V a = load_at(g + r * stride + c) - pivot;
        return Pair<V>{a, a * load_at(h + r * stride + c)};
      };
      std::size_t r = 0;
      for (; r + kTree <= block; r += kTree) sum = sum + tree<kTree>(at, r);
      for (; r < block; ++r) sum = sum + at(r);
      d.add(c, sum.d);
      dd.add(c, sum.dd);
    };
    std::size_t c = 0;
    for (; c + kLanes<T> <= columns; c += kLanes<T>) add_column(c, [](const T* p) { return load(p); });
    if (const std::size_t left = columns - c) {
      add_column(c, [left](const T* p) { return load_partial(p, left, V::splat(0)); });
    }
    g += block * stride;
    h += block * stride;
    rows -= block;
  }
  for (std::size_t c = 0; c < columns; ++c) out[c] = {d.value(c), dd.value(c)};
}

}  // namespace

template <class T>
void group_products(const T* g, const T* h, const T* pivots, const View& view, std::size_t outer,
                    std::size_t first, std::size_t groups, Sums* out) {
  const std::size_t stride = view.groups * view.cols;
  const std::size_t begin = outer * view.rows * stride + first * view.cols;
  g += begin;
  h += begin;
  if (layout_of(view) == Layout::kColumns) {
    column_products(g, h, pivots, view.rows, groups * view.cols, stride, out);
    for (std::size_t i = 0; i < groups; ++i) {
      Sums group = out[i * view.cols];
      for (std::size_t c = 1; c < view.cols; ++c) {
        group.d += out[i * view.cols + c].d;
        group.dd += out[i * view.cols + c].dd;
      }
      out[i] = group;
    }
    return;
  }
  std::fill_n(out, groups, Sums{});
  for (std::size_t r = 0; r < view.rows; ++r) {
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t e = r * stride + i * view.cols;
      const Sums run = run_products(g + e, h + e, pivots[i], view.cols);
      out[i].d += run.d;
      out[i].dd += run.dd;
    }
  }
}

template <class T>
SIMDNORM_ONCE void single_products(const T* g, const T* h, std::size_t count, T* sum_gh, T* sum_g) {
  using V = Vector<T>;
  // Sums begin at 0, so that none is -0.
  const V zero = V::splat(0);
  std::size_t i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) {
    const V values = load(g + i);
    if (sum_gh) store(sum_gh + i, zero + values * load(h + i));
    if (sum_g) store(sum_g + i, zero + values);
  }
  for (; i < count; ++i) {
    if (sum_gh) sum_gh[i] = 0 + g[i] * h[i];
    if (sum_g) sum_g[i] = 0 + g[i];
  }
}

template <class T>
SIMDNORM_ONCE void apply_run(const Slope<T>& slope, const T* g, const T* h, T* dx, std::size_t count) {
  using V = Vector<T>;
  const V pivot = V::splat(slope.pivot), mean_g = V::splat(slope.mean_g);
  const V mean_gh = V::splat(slope.mean_gh), inv_std = V::splat(slope.inv_std);
  const auto apply = [&](V a, V b) { return (((a - pivot) - mean_g) - b * mean_gh) * inv_std; };
  std::size_t i = 0;
  for (; i + 2 * kLanes<T> <= count; i += 2 * kLanes<T>) {
    store(dx + i, apply(load(g + i), load(h + i)));
    store(dx + i + kLanes<T>, apply(load(g + i + kLanes<T>), load(h + i + kLanes<T>)));
  }
  if (i + kLanes<T> <= count) {
    store(dx + i, apply(load(g + i), load(h + i)));
    i += kLanes<T>;
  }
  if (const std::size_t left = count - i) {
    store_partial(dx + i, left, apply(load_partial(g + i, left, mean_g), load_partial(h + i, left, mean_g)));
  }
}

template <class T>
SIMDNORM_ONCE void apply_columns(const Slope<T>* slopes, const T* g, const T* h, T* dx, std::size_t rows,
                                 std::size_t columns, std::size_t stride) {
  using V = Vector<T>;
  constexpr std::size_t kRoom = kTile<T> + kLanes<T>;
  T pivot[kRoom], mean_g[kRoom], mean_gh[kRoom], inv_std[kRoom];
  for (std::size_t c = 0; c < columns; ++c) {
    pivot[c] = slopes[c].pivot;
    mean_g[c] = slopes[c].mean_g;
    mean_gh[c] = slopes[c].mean_gh;
    inv_std[c] = slopes[c].inv_std;
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const auto apply = [&](std::size_t c, V a, V b) {
      return (((a - load(pivot + c)) - load(mean_g + c)) - b * load(mean_gh + c)) * load(inv_std + c);
    };
    std::size_t c = 0;
    for (; c + kLanes<T> <= columns; c += kLanes<T>) store(dx + c, apply(c, load(g + c), load(h + c)));
    if (const std::size_t left = columns - c) {
      const V zero = V::splat(0);
      store_partial(dx + c, left, apply(c, load_partial(g + c, left, zero), load_partial(h + c, left, zero)));
    }
    g += stride;
    h += stride;
    dx += stride;
  }
}

#define SIMDNORM_INSTANTIATE(T)                                                                     \
  template void group_products(const T*, const T*, const T*, const View&, std::size_t, std::size_t, \
                               std::size_t, Sums*);                                                 \
  template void single_products(const T*, const T*, std::size_t, T*, T*);                           \
  template void apply_run(const Slope<T>&, const T*, const T*, T*, std::size_t);                    \
  template void apply_columns(const Slope<T>*, const T*, const T*, T*, std::size_t, std::size_t, std::size_t);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE

}  // namespace simdnorm
