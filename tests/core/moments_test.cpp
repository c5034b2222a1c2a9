#include "moments.h"

#include "call.h"
#include "reference.h"

using simdnorm::merge;
using simdnorm::Moments;
using simdnorm::Status;
using simdnorm::View;

namespace {

void check_moments(const Values& x, const Shape& shape, const Shape& axes, const std::string& data) {
  std::vector<bool> reduced(shape.size());
  for (std::size_t axis : axes) reduced[axis] = true;
  const Result got = moments({.shape = shape, .axes = axes, .x = x});
  REQUIRE(got.status == Status::kOk);
  std::vector<double> mean, variance, inv_std;
  for (const reference::Moments& m : reference::moments(x, shape, reduced)) {
    mean.push_back(m.mean);
    variance.push_back(m.variance);
    inv_std.push_back(1 / std::sqrt(m.variance + 1e-5));
  }
  const Case what = {"moments over " + text(axes) + " of", shape, data};
  const auto mean_magnitude = [&](std::size_t i) {
    return std::fabs(mean[i]) / 2 + 5 * std::sqrt(variance[i]);
  };
  check_near(what, "mean", got.mean, mean, mean_magnitude, kEpsilon);
  check_near(what, "variance", got.variance, variance, 2 * kPromise);
  check_near(what, "invStd", got.inv_std, inv_std, kPromise);
}

}  // namespace

TEST_CASE("moments over every set of axes") {
  const Shape shapes[] = {
      {7},          {1},           {5, 6},       {6, 1},         {4, 5, 6},     {3, 1, 20},
      {2, 3, 4, 5}, {3, 2, 17, 2}, {2, 1, 3, 1}, {2, 300, 2, 2}, {3, 2, 1, 40}, {2, 3, 2, 3, 2}};
  int refused = 0;
  for (const Shape& shape : shapes) {
    const Values x = draw(product(shape), 1, 100, 3);
    for (unsigned set = 0; set < 1u << shape.size(); ++set) {
      Shape axes;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (set >> axis & 1) axes.push_back(axis);
      }
      if (simdnorm::view_over_axes(shape, axes)) {
        check_moments(x, shape, axes, "mean 100, deviation 3");
      } else {
        const Result got = moments({.shape = shape, .axes = axes, .x = x});
        CHECK(got.status == Status::kAxes);
        check_all({"moments", shape, "refused"}, "mean", got.mean, kCanary);
        ++refused;
      }
    }
  }
  // Of rank 4 {0, 2}; of rank 5 a few.
  CHECK(refused > 3);
}

TEST_CASE("moments of more groups than a tile holds") {
  for (const Shape& shape :
       {Shape{1000, 3}, Shape{3, 1000}, Shape{5, 700, 2}, Shape{4, 300, 16}, Shape{2, 3, 600, 2}}) {
    for (const Shape& axes : {Shape{0}, Shape{shape.size() - 1}, Shape{0, shape.size() - 1}}) {
      check_moments(draw(product(shape), 2, -5, 0.1), shape, axes, "mean -5, deviation 0.1");
    }
  }
}

TEST_CASE("merge is a monoid's") {
  const Moments unit{}, a{3, 2, 5}, b{4, -1, 7}, c{5, 1000, 1};
  const auto equal = [](const Moments& p, const Moments& q) {
    return p.count == q.count && p.mean == q.mean && p.m2 == q.m2;
  };
  const auto near = [](const Moments& p, const Moments& q) {
    constexpr double kFew = 8 * std::numeric_limits<double>::epsilon();
    return p.count == q.count && std::fabs(p.mean - q.mean) <= kFew * std::fabs(q.mean) &&
           std::fabs(p.m2 - q.m2) <= kFew * q.m2;
  };
  CHECK(equal(merge(unit, a), a));
  CHECK(equal(merge(a, unit), a));
  CHECK(equal(merge(unit, unit), unit));
  CHECK(near(merge(a, b), merge(b, a)));
  CHECK(near(merge(merge(a, b), c), merge(a, merge(b, c))));
  // [0, 2] and [4]: mean 2, squared deviations 4, 0, 4.
  CHECK(near(merge({2, 1, 2}, {1, 4, 0}), {3, 2, 8}));
  CHECK(std::isnan(unit.variance()));
}

TEST_CASE("the moments of parts, merged, are the moments of the whole") {
  const Values x = draw(1000, 3, 7, 2);
  const auto of = [&](std::size_t begin, std::size_t end) {
    Moments result;
    group_moments(x.data() + begin, View{1, 1, 1, end - begin, 1, 1}, 0, 0, 1, &result);
    return result;
  };
  const Moments whole = of(0, 1000), merged = merge(merge(of(0, 1), of(1, 300)), of(300, 1000));
  CHECK(merged.count == whole.count);
  CHECK(std::fabs(merged.mean - whole.mean) <= kPromise * std::sqrt(whole.variance()));
  CHECK(std::fabs(merged.variance() - whole.variance()) <= 2 * kPromise * whole.variance());
}

TEST_CASE("groups from the middle of a view are the same to the bit") {
  for (const View& view : {View{1, 1, 50, 33, 33, 1}, View{2, 9, 50, 20, 50, 20}, View{2, 9, 50, 3, 50, 3},
                           View{2, 9, 50, 1, 50, 1}}) {
    const Values x = draw(view.size(), 4, 3, 2);
    const std::size_t outer = view.outer - 1;
    std::vector<Moments> all(view.groups);
    group_moments(x.data(), view, outer, 0, view.groups, all.data());
    for (const std::size_t first : {0, 1, 2, 3, 7, 49}) {
      for (std::size_t groups = 1; first + groups <= view.groups; groups += 5) {
        std::vector<Moments> some(groups);
        group_moments(x.data(), view, outer, first, groups, some.data());
        for (std::size_t i = 0; i < groups; ++i) {
          if (some[i].mean != all[first + i].mean || some[i].m2 != all[first + i].m2) {
            FAIL("group " << first + i << " read from " << first << ", " << groups << " at a time");
          }
        }
      }
    }
  }
}
