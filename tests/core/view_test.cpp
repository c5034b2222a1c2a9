// The table of Views in the documentation, proved by counting: for each element of a shape, the statistic and
// the parameter that the View's six integers say are those that its place along the axes says.

#include "view.h"

#include <numeric>
#include <optional>
#include <vector>

#include "catch.h"
#include "compare.h"
#include "data.h"
#include "reference.h"

using simdnorm::View;
using simdnorm::view_by_channel;
using simdnorm::view_by_group;
using simdnorm::view_over_axes;

namespace {

std::string text(const View& view) {
  return ::text(Shape{view.outer, view.rows, view.groups, view.cols}) + " channels " +
         std::to_string(view.channels) + " inner " + std::to_string(view.inner);
}

std::size_t statistic_of(const View& view, std::size_t e) {
  const std::size_t group = e / view.cols % view.groups;
  const std::size_t outer = e / (view.cols * view.groups * view.rows);
  return outer * view.groups + group;
}

std::size_t parameter_of(const View& view, std::size_t e) { return e / view.inner % view.channels; }

/// The statistic and the parameter that each element must have, and `statistics` how many there are.
void check_view(const View& view, const Shape& shape, std::size_t statistics, const Shape& statistic,
                const Shape& parameter) {
  INFO("shape " << ::text(shape) << ": " << text(view));
  REQUIRE(view.size() == product(shape));
  if (view.size() == 0) return;
  REQUIRE(view.statistics() == statistics);
  REQUIRE(view.count() == view.size() / statistics);
  for (std::size_t e = 0; e < view.size(); ++e) {
    if (statistic_of(view, e) != statistic[e]) FAIL("statistic of element " << e);
    if (view.channels != 0 && parameter_of(view, e) != parameter[e]) FAIL("parameter of element " << e);
  }
}

std::size_t product_along(const Shape& shape, const Shape& axes) {
  std::size_t result = 1;
  for (const std::size_t axis : axes) result *= shape[axis];
  return result;
}

void check_over_axes(const View& view, const Shape& shape, const Shape& reduced, const Shape& parameters) {
  const Shape kept = reference::others(shape, reduced);
  check_view(view, shape, product_along(shape, kept), reference::indices_along(shape, kept),
             reference::indices_along(shape, parameters));
}

void check_by_group(const View& view, const Shape& shape, std::size_t axis, std::size_t groups) {
  const Shape item = reference::indices_along(shape, {0}), channel = reference::indices_along(shape, {axis});
  Shape statistic;
  for (std::size_t e = 0; e < item.size(); ++e) {
    statistic.push_back(item[e] * groups + channel[e] / (shape[axis] / groups));
  }
  check_view(view, shape, shape[0] * groups, statistic, channel);
}

/// Reduced and other axes in turns, extents of 1 left out: "rk" is layer norm read from the last axis.
std::string turns(const Shape& shape, const Shape& reduced) {
  std::string result;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
    const char kind = is_reduced ? 'r' : 'k';
    if (shape[axis] != 1 && (result.empty() || result.back() != kind)) result += kind;
  }
  return result;
}

Shape random_shape(Random& random, std::size_t least_rank = 1) {
  Shape shape(least_rank + random.below(7 - least_rank));
  for (std::size_t& extent : shape) extent = random.below(12) == 0 ? 0 : 1 + random.below(4);
  return shape;
}

Shape random_axes(Random& random, const Shape& shape) {
  Shape axes;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (random.below(2)) axes.push_back(axis);
  }
  return axes;
}

/// Runs that join up are joined: there is never one group of several rows, nor several outer of one row.
void check_is_joined(const View& view, const View& raw) {
  INFO(text(raw) << " joined to " << text(view));
  View want = raw;
  if (want.groups == 1) want = {want.outer, 1, 1, want.rows * want.cols, want.channels, want.inner};
  if (want.rows == 1) want = {1, 1, want.outer * want.groups, want.cols, want.channels, want.inner};
  REQUIRE(view == want);
  REQUIRE((view.rows == 1 || view.groups > 1 || view.groups == 0));
  REQUIRE((view.rows > 1 || view.rows == 0 || view.outer == 1));
}

}  // namespace

TEST_CASE("the rows of the table") {
  const Shape shape = {2, 3, 4, 5};
  const auto over = [&](Shape axes) { return view_over_axes(shape, axes); };
  SECTION("layer norm over trailing axes") {
    CHECK(over({3}) == View{1, 1, 24, 5, 5, 1});
    CHECK(over({2, 3}) == View{1, 1, 6, 20, 20, 1});
    CHECK(over({0, 1, 2, 3}) == View{1, 1, 1, 120, 120, 1});
  }
  SECTION("the same over adjacent middle axes") {
    CHECK(over({1}) == View{2, 3, 20, 1, 3, 20});
    CHECK(over({1, 2}) == View{2, 12, 5, 1, 12, 5});
    CHECK(over({0}) == View{1, 2, 60, 1, 2, 60});
  }
  SECTION("instance norm") {
    CHECK(view_by_group(shape, 1, 3) == View{1, 1, 6, 20, 3, 20});
    CHECK(view_by_group(shape, 2, 4) == View{2, 3, 4, 5, 4, 5});
    CHECK(view_by_group(shape, 3, 5) == View{2, 12, 5, 1, 5, 1});
    CHECK(view_by_group(Shape{8, 3}, 1, 3) == View{1, 1, 24, 1, 3, 1});
  }
  SECTION("group norm") {
    CHECK(view_by_group(shape, 2, 2) == View{2, 3, 2, 10, 4, 5});
    CHECK(view_by_group(shape, 1, 1) == View{1, 1, 2, 60, 3, 20});
    CHECK(view_by_group(shape, 2, 1) == View{1, 1, 2, 60, 4, 5});
    CHECK(view_by_group(Shape{8, 6}, 1, 2) == View{1, 1, 16, 3, 6, 1});
  }
  SECTION("batch norm in training") {
    CHECK(view_by_channel(shape, 1) == View{1, 2, 3, 20, 3, 20});
    CHECK(view_by_channel(shape, 3) == View{1, 24, 5, 1, 5, 1});
    CHECK(view_by_channel(shape, 0) == View{1, 1, 2, 60, 2, 60});
    CHECK(view_by_channel(Shape{8, 3}, 1) == View{1, 8, 3, 1, 3, 1});
  }
  SECTION("statistics that fold where parameters don't repeat") {
    CHECK(over({0, 3}) == View{1, 2, 12, 5, 0, 1});
    CHECK(over({1, 3}) == View{2, 3, 4, 5, 0, 1});
  }
  SECTION("what four extents can't say") { CHECK(over({0, 2}) == std::nullopt); }
  SECTION("no axes: each value is a group") { CHECK(over({}) == View{1, 1, 120, 1, 1, 1}); }
  SECTION("a scalar") { CHECK(view_over_axes({}, {}) == View{1, 1, 1, 1, 1, 1}); }
}

TEST_CASE("the rows of the table as they are written there, for random shapes") {
  Random random(4);
  int joined = 0;
  for (int round = 0; round < 5000; ++round) {
    const Shape shape = random_shape(random, 2);
    const std::size_t axis = 1 + random.below(shape.size() - 1);
    const auto between = [&](std::size_t begin, std::size_t end) {
      return product({shape.begin() + begin, shape.begin() + end});
    };
    const std::size_t n = shape[0], pre = between(1, axis), c = shape[axis],
                      post = between(axis + 1, shape.size());
    const std::size_t groups = c % 2 == 0 ? std::max<std::size_t>(1, c / 2) : 1;
    const View instance{n, pre, c, post, c, post}, group{n, pre, groups, c / groups * post, c, post},
        batch{1, n * pre, c, post, c, post};
    if (c > 0) {
      check_by_group(instance, shape, axis, c);
      check_by_group(group, shape, axis, groups);
      check_is_joined(view_by_group(shape, axis, c), instance);
      check_is_joined(view_by_group(shape, axis, groups), group);
    }
    check_over_axes(batch, shape, reference::others(shape, {axis}), {axis});
    check_is_joined(view_by_channel(shape, axis), batch);
    joined += !(view_by_channel(shape, axis) == batch);

    // Adjacent axes, from axis to end.
    const std::size_t end = axis + 1 + random.below(shape.size() - axis);
    Shape axes(end - axis);
    std::iota(axes.begin(), axes.end(), axis);
    const std::size_t outer = between(0, axis), block = between(axis, end),
                      after = between(end, shape.size());
    const View middle{outer, block, after, 1, block, after}, last{1, 1, outer, block, block, 1};
    check_over_axes(middle, shape, axes, axes);
    if (end == shape.size()) check_over_axes(last, shape, axes, axes);
  }
  CHECK(joined > 500);
}

TEST_CASE("views over axes, for random shapes") {
  Random random(1);
  int said = 0, unsaid = 0, without_parameters = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape shape = random_shape(random);
    const Shape axes = random_axes(random, shape);
    const std::optional<View> view = view_over_axes(shape, axes);
    const std::string alternation = turns(shape, axes);
    INFO("shape " << text(shape) << ", axes " << text(axes));
    // [outer, rows, groups, cols] from the right: reduced, kept, reduced, kept; where cols is 1, from the
    // second on.
    REQUIRE(view.has_value() == (alternation.size() <= (alternation[0] == 'k' ? 3u : 4u)));
    if (!view) {
      ++unsaid;
      continue;
    }
    if (view->size() > 0) {
      // Neighbours, and only they, are one run of parameters.
      const bool neighbours = alternation.find('r') == alternation.rfind('r');
      REQUIRE((view->channels != 0) == neighbours);
      without_parameters += !neighbours;
    }
    check_over_axes(*view, shape, axes, axes);
    REQUIRE((view->rows == 1 || view->groups > 1 || view->size() == 0));
    REQUIRE((view->rows > 1 || view->outer == 1 || view->size() == 0));
    ++said;
  }
  CHECK(said > 10000);
  CHECK(unsaid > 500);
  CHECK(without_parameters > 500);
}

TEST_CASE("views by channel, for random shapes") {
  Random random(2);
  for (int round = 0; round < 5000; ++round) {
    const Shape shape = random_shape(random);
    const std::size_t axis = random.below(shape.size());
    const View view = view_by_channel(shape, axis);
    CHECK(view.channels == shape[axis]);
    check_over_axes(view, shape, reference::others(shape, {axis}), {axis});
  }
}

TEST_CASE("views by group, for random shapes") {
  Random random(3);
  int of_several = 0;
  for (int round = 0; round < 10000; ++round) {
    Shape shape = random_shape(random, 2);
    const std::size_t axis = 1 + random.below(shape.size() - 1), groups = 1 + random.below(4);
    // Channels for groups of each size.
    shape[axis] = groups * random.below(5);
    const View view = view_by_group(shape, axis, groups);
    CHECK(view.channels == shape[axis]);
    of_several += view.size() > 0 && shape[axis] > groups && view.rows > 1;
    check_by_group(view, shape, axis, groups);
  }
  CHECK(of_several > 500);
}
