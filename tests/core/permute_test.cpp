// Axes in another order: every order of ranks 0 to 5, and sizes around the squares in which values are copied.

#include "permute.h"

#include <algorithm>
#include <numeric>

#include "call.h"
#include "reference.h"

using simdnorm::permute;
using simdnorm::permute_back;

namespace {

std::string of_order(const Shape& order) { return "order " + text(order); }

/// Both ways, for values that are all different.
template <class T>
void check_order(const Shape& shape, const Shape& order) {
  ValuesOf<T> x(product(shape));
  std::iota(x.begin(), x.end(), T{1});
  // The definition: the value at a place along the axes is at the same place along the axes in their new order.
  ValuesOf<T> want(x.size());
  const Shape place = reference::indices_along(shape, order);
  for (std::size_t e = 0; e < x.size(); ++e) want[place[e]] = x[e];

  const Input<T> from(x, 1), back_from(want, 3);
  Output<T> to(x.size(), 2), back_to(x.size(), 1);
  permute(from.data(), shape, order, to.data());
  permute_back(back_from.data(), shape, order, back_to.data());
  check_bits({"permute", shape, of_order(order)}, "y", to.values(), want);
  check_bits({"permute_back", shape, of_order(order)}, "y", back_to.values(), x);
  for (const Input<T>* input : {&from, &back_from}) input->check();
  for (const Output<T>* output : {&to, &back_to}) output->check();
}

template <class T>
void check_all_orders(const Shape& shape) {
  Shape order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    check_order<T>(shape, order);
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

TEMPLATE_TEST_CASE("permute: every order of ranks 0 to 5", "", float, double) {
  // Extents of 0 and 1, and different ones everywhere, so that a wrong axis shows.
  const Shape shapes[] = {{},
                          {0},
                          {1},
                          {7},
                          {0, 3},
                          {3, 0},
                          {1, 5},
                          {5, 1},
                          {4, 6},
                          {2, 3, 4},
                          {1, 6, 5},
                          {6, 1, 5},
                          {6, 5, 1},
                          {3, 0, 2},
                          {1, 1, 1},
                          {2, 3, 4, 5},
                          {3, 1, 2, 7},
                          {1, 2, 1, 3},
                          {2, 0, 3, 2},
                          {9, 2, 2, 3},
                          {2, 3, 1, 5, 4},
                          {3, 2, 4, 2, 5},
                          {1, 2, 1, 3, 1},
                          {2, 2, 0, 3, 2}};
  for (const Shape& shape : shapes) check_all_orders<TestType>(shape);
}

TEMPLATE_TEST_CASE("permute: extents around a square's", "", float, double) {
  const std::size_t extents[] = {1, 2, 31, 32, 33, 63, 64, 65};
  for (const std::size_t a : extents) {
    for (const std::size_t b : extents) {
      check_all_orders<TestType>({a, b});
      // A third axis in every place: what is contiguous on the other side is last but one, or isn't.
      if (a * b > 1200) continue;
      check_all_orders<TestType>({a, 3, b});
      check_all_orders<TestType>({3, a, b});
      check_all_orders<TestType>({a, b, 3});
    }
  }
}

TEST_CASE("permute: as many axes as there may be") {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    Shape shape(6 + random.below(simdnorm::kMaxRank - 5), 1);
    for (int axis = 0; axis < 6; ++axis) shape[random.below(shape.size())] = 1 + random.below(4);
    Shape order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    check_order<float>(shape, order);
  }
}
