#include "moments.h"

#include "definition.h"

using reference::Definition;
using simdnorm::Fold;
using simdnorm::merge;
using simdnorm::Moments;
using simdnorm::View;

namespace {

/// Axes of a rank as the bits of a number say, some of them in descending order.
Shape axes_of(std::size_t rank, unsigned set) {
  Shape axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (set >> axis & 1) axes.push_back(axis);
  }
  if (set % 3 == 1) std::reverse(axes.begin(), axes.end());
  return axes;
}

Moments known(double count, double mean, double m2, double low = 0, double unit = 1) {
  return {count, mean, low, m2, unit, 0};
}

template <class T>
Moments moments_of(const ValuesOf<T>& x, Fold fold = Fold::kMoments) {
  Moments result;
  group_moments(x.data(), View{1, 1, 1, x.size(), 1, 1}, fold, 0, 0, 1, &result);
  return result;
}

/// By the definition, from moments that are known as numbers.
struct Exact {
  Real count, mean, m2;

  explicit Exact(const Moments& m)
      : count(m.count),
        mean((Real{m.mean} + m.low) * m.unit),
        m2((Real{m.m2} + m.m2_low) * m.unit * m.unit) {}
};

void check_merge(const Moments& a, const Moments& b, const std::string& data) {
  constexpr Real kFew = 8 * kEpsilonOf<double>;
  const Exact p(a), q(b), got(merge(a, b));
  const Real n = p.count + q.count, delta = q.mean - p.mean;
  const Real mean = p.mean + delta * q.count / n, m2 = p.m2 + q.m2 + delta * delta * p.count * q.count / n;
  INFO(data << ": mean " << text(static_cast<double>(got.mean)) << ", not "
            << text(static_cast<double>(mean)));
  // What is too small for a unit that only the other one needs is lost.
  const Real unit = std::max(a.unit, b.unit), least = std::numeric_limits<double>::denorm_min();
  CHECK(got.count == n);
  // The mean has two doubles; the distance of the means is rounded.
  CHECK(std::fabs(got.mean - mean) <= kFew * std::fabs(delta) + kFew * kFew * std::fabs(mean) + least * unit);
  CHECK(std::fabs(got.m2 - m2) <= kFew * m2 + 2 * least * unit * unit);
}

}  // namespace

TEMPLATE_TEST_CASE("moments over every set of axes", "", float, double) {
  const Shape shapes[] = {
      {7},          {1},           {5, 6},       {6, 1},         {4, 5, 6},     {3, 1, 20},
      {2, 3, 4, 5}, {3, 2, 17, 2}, {2, 1, 3, 1}, {2, 300, 2, 2}, {3, 2, 1, 40}, {2, 3, 2, 3, 2}};
  for (const Shape& shape : shapes) {
    const auto x = draw<TestType>(product(shape), 1, 100, 3);
    for (unsigned set = 0; set < 1u << shape.size(); ++set) {
      definition::check<TestType>(kMoments, {.shape = shape, .axes = axes_of(shape.size(), set), .x = x},
                                  "mean 100, deviation 3");
    }
  }
}

TEMPLATE_TEST_CASE("moments of more groups than a tile holds", "", float, double) {
  for (const Shape& shape :
       {Shape{1000, 3}, Shape{3, 1000}, Shape{5, 700, 2}, Shape{4, 300, 16}, Shape{2, 3, 600, 2}}) {
    for (const Shape& axes : {Shape{0}, Shape{shape.size() - 1}, Shape{0, shape.size() - 1}}) {
      definition::check<TestType>(
          kMoments, {.shape = shape, .axes = axes, .x = draw<TestType>(product(shape), 2, -5, 0.1)},
          "mean -5, deviation 0.1");
    }
  }
}

TEST_CASE("a scalar is its own mean") {
  const Result got = moments({.shape = {}, .x = {3.5f}});
  check_all({"moments", {}, "of a scalar"}, "mean", got.mean, 3.5f);
  check_all({"moments", {}, "of a scalar"}, "variance", got.variance, 0.0f);
}

// ---------------------------------------------------------------- merge

TEST_CASE("merge is a monoid's") {
  const Moments unit = simdnorm::kNoMoments, a = known(3, 2, 5), b = known(4, -1, 7), c = known(5, 1000, 1);
  const auto equal = [](const Moments& p, const Moments& q) {
    return p.count == q.count && p.mean == q.mean && p.low == q.low && p.m2 == q.m2 && p.unit == q.unit &&
           p.m2_low == q.m2_low;
  };
  const auto near = [](const Moments& p, const Moments& q) {
    constexpr double kFew = 8 * std::numeric_limits<double>::epsilon();
    return p.count == q.count && std::fabs(p.mean - q.mean) <= kFew * std::fabs(q.mean) &&
           std::fabs(p.m2 - q.m2) <= kFew * q.m2;
  };
  const Moments scaled = known(2, 0.5, 1, 0, 0x1p600);
  for (const Moments& some : {a, b, c, scaled, unit}) {
    CHECK(equal(merge(unit, some), some));
    CHECK(equal(merge(some, unit), some));
  }
  CHECK(near(merge(a, b), merge(b, a)));
  CHECK(near(merge(merge(a, b), c), merge(a, merge(b, c))));
  // [0, 2] and [4]: mean 2, squared deviations 4, 0, 4.
  CHECK(near(merge(known(2, 1, 2), known(1, 4, 0)), known(3, 2, 8)));
  CHECK(std::isnan(unit.variance()));
}

TEST_CASE("merge is its definition, whatever the units") {
  constexpr double kUnits[] = {0x1p-600, 1, 0x1p600};
  for (const double unit_a : kUnits) {
    for (const double unit_b : kUnits) {
      for (const double mean : {0.0, 1.0, 0x1p-30, -0x1p200}) {
        for (const double m2 : {0.0, 3.0, 0x1p-60, 0x1p300}) {
          const Moments a = known(3, 0.7, 2, 0x1p-55, unit_a), b = known(5, mean, m2, 0, unit_b);
          const std::string data = "units " + text(unit_a) + ", " + text(unit_b) + ", mean " + text(mean);
          check_merge(a, b, data);
          check_merge(b, a, data);
        }
      }
    }
  }
}

TEST_CASE("means so far apart that their distance, or its square, is no double") {
  for (const double huge : {1e154, 1e160, 1e200, 1e300, 1.7e308}) {
    check_merge(known(1, huge, 0), known(1, -huge, 0), "means +-" + text(huge));
    check_merge(known(1, huge, 0), known(1, 1, 0), "means 1 and " + text(huge));
    check_merge(known(1000, 1, 4), known(1, huge, 0), "means 1 and " + text(huge));
  }
}

TEST_CASE("many merges round m2 no more than one") {
  // Each addition of 1.7 would round as the last one did.
  Moments all = simdnorm::kNoMoments;
  for (int i = 0; i < 100000; ++i) all = merge(all, known(2, 0, 1.7));
  const Real want = Real{1.7} * 100000;
  CHECK(std::fabs(Exact(all).m2 - want) <= kEpsilonOf<double> * want);
  CHECK(std::fabs(all.variance() - want / 200000) <= kEpsilonOf<double> * want / 200000);
}

TEST_CASE("the low parts of means take part") {
  const Moments a = known(1, 1, 0, 0x1p-60), b = known(1, 1, 0, -0x1p-60);
  const Moments both = merge(a, b);
  CHECK(Real{both.mean} + both.low == 1);
  CHECK(both.m2 == 0x1p-119);
}

TEMPLATE_TEST_CASE("the moments of parts, merged, are the moments of the whole", "", float, double) {
  using T = TestType;
  const bool wide = std::is_same_v<T, double>;
  // Whether a part's squares fit decides its unit: neighbours whose units differ.
  const double scales[] = {1, 1e-20, 1e18, wide ? 1e-300 : 1e-38, wide ? 1e300 : 3e37, 0};
  for (const double first : scales) {
    for (const double second : scales) {
      for (const double deviation : {1.0, 0.0}) {
        ValuesOf<T> x = draw<T>(300, 3, 0.7 * first, deviation * first);
        const ValuesOf<T> other = draw<T>(700, 4, -0.2 * second, second);
        const Moments a = moments_of(x), b = moments_of(other);
        x.insert(x.end(), other.begin(), other.end());
        const reference::Moments want = reference::moments(reference::exact(x));
        const Exact got(merge(a, b));
        INFO("scales " << first << ", " << second << ", deviation " << deviation);
        const Real std = std::sqrt(want.variance);
        REQUIRE(got.count == 1000);
        CHECK(std::fabs(got.mean - want.mean()) <= kPromiseOf<T> * std);
        CHECK(std::fabs(got.m2 / 1000 - want.variance) <= 2 * kPromiseOf<T> * want.variance);
      }
    }
  }
}

TEST_CASE("short runs whose columns have units of their own") {
  // Columns of 1, 1e300, 1e-300 and constants in one group, whose moments are merged.
  const double columns[][3] = {{1, 1e300, 1e-300},  {1e-300, 1, 1e-300}, {1e300, 0, 1e-300},
                               {1e-300, 1e-300, 0}, {0, 1, 0},           {1e160, 1e-160, 1}};
  for (const auto& column : columns) {
    for (const double mean : {0.0, 1.0}) {
      for (const bool constant : {false, true}) {
        const std::size_t n = 20, channels = 5;
        CallOf<double> call = {
            .shape = {n, channels, 3}, .axes = {1}, .x = ValuesOf<double>(n * channels * 3)};
        Random random(5);
        for (std::size_t i = 0; i < call.x.size(); ++i) {
          call.x[i] = column[i % 3] * (mean + (constant && i % 3 == 1 ? 0.3 : bell(random, 0, 0)));
        }
        definition::check(kBatchNormTraining, call,
                          "columns of " + text(column[0]) + ", " + text(column[1]) + ", " + text(column[2]) +
                              (constant ? ", one constant" : ""));
      }
    }
  }
}

// ---------------------------------------------------------------- folds and parts of views

TEMPLATE_TEST_CASE("every fold of rows is its definition", "", float, double) {
  using T = TestType;
  constexpr double kRange = std::is_same_v<T, float> ? 1e30 : 1e300;
  for (std::size_t length = 1; length < 1200; length += length < 70 ? 1 : 41) {
    for (const double scale : {1.0, kRange, 1 / kRange}) {
      const auto x = draw<T>(length, static_cast<std::uint32_t>(length), scale, scale);
      Real squares = 0, magnitudes = 0, largest = 0;
      for (const T value : x) {
        squares += Real{value} * value;
        magnitudes += std::fabs(value);
        largest = std::max(largest, Real{std::fabs(value)});
      }
      INFO("length " << length << ", scale " << scale);
      const Moments square = moments_of(x, Fold::kSquares), magnitude = moments_of(x, Fold::kMagnitudes),
                    most = moments_of(x, Fold::kLargest);
      REQUIRE((square.count == length && magnitude.count == length && most.count == length));
      REQUIRE((square.mean == 0 && square.low == 0));
      REQUIRE(std::fabs(Real{square.m2} * square.unit * square.unit - squares) <=
              2 * kPromiseOf<T> * squares);
      REQUIRE(std::fabs(Real{magnitude.m2} * magnitude.unit - magnitudes) <= kPromiseOf<T> * magnitudes);
      REQUIRE(Real{most.m2} * most.unit == largest);
    }
  }
}

TEMPLATE_TEST_CASE("groups from the middle of a view are the same to the bit", "", float, double) {
  for (const View& view : {View{1, 1, 50, 33, 33, 1}, View{2, 9, 50, 20, 50, 20}, View{2, 9, 50, 3, 50, 3},
                           View{2, 9, 50, 1, 50, 1}}) {
    const auto x = draw<TestType>(view.size(), 4, 3, 2);
    for (const Fold fold : {Fold::kMoments, Fold::kSquares, Fold::kMagnitudes, Fold::kLargest}) {
      if (view.rows > 1 && (fold == Fold::kMagnitudes || fold == Fold::kLargest)) continue;
      const std::size_t outer = view.outer - 1;
      std::vector<Moments> all(view.groups);
      group_moments(x.data(), view, fold, outer, 0, view.groups, all.data());
      for (const std::size_t first : {0, 1, 2, 3, 7, 49}) {
        for (std::size_t groups = 1; first + groups <= view.groups; groups += 5) {
          std::vector<Moments> some(groups);
          group_moments(x.data(), view, fold, outer, first, groups, some.data());
          for (std::size_t i = 0; i < groups; ++i) {
            const Moments &a = some[i], &b = all[first + i];
            if (a.mean != b.mean || a.low != b.low || a.m2 != b.m2 || a.unit != b.unit) {
              FAIL("group " << first + i << " read from " << first << ", " << groups << " at a time");
            }
          }
        }
      }
    }
  }
}
