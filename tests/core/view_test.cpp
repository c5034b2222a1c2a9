// The table of Views in the documentation, proved by counting: for each element of a shape, the statistic and
// the parameter that the View's six integers say are those that its place along the axes says.

#include "view.h"

#include <optional>
#include <vector>

#include "catch.h"
#include "compare.h"
#include "data.h"
#include "reference.h"

using simdnorm::View;
using simdnorm::view_by_channel;
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

void check_view(const View& view, const Shape& shape, const std::vector<bool>& reduced,
                const std::vector<bool>& with_parameters) {
  INFO("shape " << ::text(shape) << ", reduced " << ::text(Shape(reduced.begin(), reduced.end())) << ": "
                << text(view));
  std::vector<bool> kept(reduced);
  kept.flip();
  std::size_t statistics = 1, count = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) (kept[axis] ? statistics : count) *= shape[axis];
  REQUIRE(view.size() == product(shape));
  if (view.size() == 0) return;
  REQUIRE(view.statistics() == statistics);
  REQUIRE(view.count() == count);
  for (std::size_t e = 0; e < view.size(); ++e) {
    if (statistic_of(view, e) != reference::index_along(shape, kept, e)) FAIL("statistic of element " << e);
    if (view.channels == 0) continue;
    if (parameter_of(view, e) != reference::index_along(shape, with_parameters, e)) {
      FAIL("parameter of element " << e);
    }
  }
}

/// Reduced and other axes in turns, extents of 1 left out: "rk" is layer norm read from the last axis.
std::string turns(const Shape& shape, const std::vector<bool>& reduced) {
  std::string result;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const char kind = reduced[axis] ? 'r' : 'k';
    if (shape[axis] != 1 && (result.empty() || result.back() != kind)) result += kind;
  }
  return result;
}

Shape random_shape(Random& random) {
  Shape shape(1 + random.below(6));
  for (std::size_t& extent : shape) extent = random.below(12) == 0 ? 0 : 1 + random.below(4);
  return shape;
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
}

TEST_CASE("views over axes, for random shapes") {
  Random random(1);
  int said = 0, unsaid = 0, without_parameters = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape shape = random_shape(random);
    std::vector<bool> reduced(shape.size());
    Shape axes;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      reduced[axis] = random.below(2);
      if (reduced[axis]) axes.push_back(axis);
    }
    const std::optional<View> view = view_over_axes(shape, axes);
    const std::string alternation = turns(shape, reduced);
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
    check_view(*view, shape, reduced, reduced);
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
    const std::size_t channel_axis = random.below(shape.size());
    std::vector<bool> reduced(shape.size(), true), channel(shape.size(), false);
    reduced[channel_axis] = false;
    channel[channel_axis] = true;
    const View view = view_by_channel(shape, channel_axis);
    CHECK(view.channels == shape[channel_axis]);
    check_view(view, shape, reduced, channel);
  }
}
