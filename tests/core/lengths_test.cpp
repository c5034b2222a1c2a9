// Items of different lengths: only what is valid is read (the harness makes a sanitizer watch the rest), and it
// is as if the rest were not there.

#include "definition.h"

using simdnorm::Status;

namespace {

using Lengths = std::vector<std::int32_t>;

const Shape kShapes[] = {{3, 5},     {4, 1},       {3, 6, 4},     {2, 7, 1},    {5, 3, 20},
                         {2, 40, 3}, {3, 4, 2, 5}, {2, 3, 17, 2}, {3, 2, 1, 7}, {2, 3, 2, 3, 2}};

std::vector<Lengths> lengths_for(const Shape& shape) {
  const auto extent = static_cast<std::int32_t>(shape[1]);
  const auto all = [&](std::int32_t length) { return Lengths(shape[0], length); };
  Lengths up, down, some(all(0));
  for (std::size_t item = 0; item < shape[0]; ++item) {
    up.push_back(std::min(extent, static_cast<std::int32_t>(item)));
    down.push_back(std::max(0, extent - static_cast<std::int32_t>(item)));
  }
  some[shape[0] / 2] = (extent + 1) / 2;
  return {all(extent), all(0), all(1), up, down, some};
}

std::vector<Shape> sets_of_axes(std::size_t rank) {
  std::vector<Shape> result;
  for (unsigned set = 0; set < 1u << rank; ++set) {
    Shape axes;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (set >> axis & 1) axes.push_back(axis);
    }
    if (set % 3 == 1) std::reverse(axes.begin(), axes.end());
    result.push_back(axes);
  }
  return result;
}

std::size_t product_along(const Shape& shape, const Shape& axes) {
  std::size_t result = 1;
  for (const std::size_t axis : axes) result *= shape[axis];
  return result;
}

bool has(const Shape& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// A NaN that signals.
template <class T>
T poison() {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const Bits bits = sizeof(T) == 4 ? Bits{0x7fa0ca11u} : static_cast<Bits>(0x7ff4ca11ca11ca11u);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Another value wherever nobody may look.
template <class T>
void fill_padding(CallOf<T>& call, T value) {
  const std::vector<bool> valid = reference::valid_elements(call.shape, call.lengths);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    // By bits: an assignment may quieten what signals.
    if (!valid[i]) std::memcpy(&call.x[i], &value, sizeof value);
  }
}

template <class T>
CallOf<T> call_of(const Operation& operation, const Shape& shape, const Shape& axes, const Lengths& lengths,
                  bool has_parameters) {
  CallOf<T> call = {.shape = shape, .axes = axes, .x = draw<T>(product(shape), 1, 3, 2), .lengths = lengths};
  fill_padding(call, poison<T>());
  const bool by_channel = operation == kBatchNormTraining;
  const std::size_t parameters = by_channel ? shape[axes[0]] : product_along(shape, axes);
  if (has_parameters && !(operation == kMoments)) call.scale = draw<T>(parameters, 2, 1, 3);
  if (has_parameters && !(operation == kMoments) && !(operation == kRmsNorm))
    call.bias = draw<T>(parameters, 3, -2, 5);
  return call;
}

/// Calls body(operation, call) for all operations that take lengths, axes, and lengths.
template <class T, class Body>
void each_call(Body body) {
  for (const Shape& shape : kShapes) {
    for (const Lengths& lengths : lengths_for(shape)) {
      for (const bool has_parameters : {false, true}) {
        for (const Shape& axes : sets_of_axes(shape.size())) {
          for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kMoments}) {
            body(*operation, call_of<T>(*operation, shape, axes, lengths, has_parameters));
          }
        }
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
          // Channels along axis 1 would have lengths of their own.
          if (axis == 1) continue;
          body(kBatchNormTraining, call_of<T>(kBatchNormTraining, shape, {axis}, lengths, has_parameters));
        }
      }
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("with lengths: the definition over what is valid, and 0 elsewhere", "", float, double) {
  using T = TestType;
  each_call<T>([](const Operation& operation, CallOf<T> call) {
    const ResultOf<T> got = definition::check(operation, call, "padding of NaN");
    const Case what = case_of(operation, call, "padding of NaN");
    const std::vector<bool> valid = reference::valid_elements(call.shape, call.lengths);
    for (std::size_t i = 0; i < got.y.size(); ++i) {
      if (!valid[i] && bits_of(got.y[i]) != 0)
        FAIL(what.op << " " << text(what.shape) << " " << what.data << ": y[" << i << "] is past the length");
    }
    call.in_place = true;
    check_same(case_of(operation, call, "in place"), run(operation, call), got);
    // Whatever is there.
    fill_padding(call, std::numeric_limits<T>::max());
    call.in_place = false;
    check_same(case_of(operation, call, "padding of numbers"), run(operation, call), got);
  });
}

TEMPLATE_TEST_CASE("with lengths: an item is equal to that item alone, to the bit", "", float, double) {
  using T = TestType;
  int compared = 0;
  each_call<T>([&](const Operation& operation, const CallOf<T>& call) {
    const bool by_channel = operation == kBatchNormTraining;
    // Items share statistics.
    if (by_channel ? call.axes[0] != 0 : has(call.axes, 0)) return;
    const ResultOf<T> together = run(operation, call);
    const std::size_t items = call.shape[0], size = product(call.shape) / items, place = size / call.shape[1],
                      groups = together.inv_std.size() / items;
    for (std::size_t item = 0; item < items; ++item) {
      const auto length = static_cast<std::size_t>(call.lengths[item]);
      if (length == 0) continue;
      CallOf<T> alone = call;
      alone.lengths.clear();
      alone.shape[0] = 1;
      alone.shape[1] = length;
      alone.x = {call.x.begin() + item * size, call.x.begin() + item * size + length * place};
      const auto own_parameters = [&](const ValuesOf<T>& all) {
        if (all.empty()) return all;
        if (by_channel) return ValuesOf<T>{all[item]};
        // Along the axes in the order given, as far as axis 1 goes in this item.
        Shape extents;
        for (const std::size_t axis : call.axes) extents.push_back(call.shape[axis]);
        ValuesOf<T> own;
        const auto at = std::find(call.axes.begin(), call.axes.end(), 1u) - call.axes.begin();
        const Shape along = static_cast<std::size_t>(at) < extents.size()
                                ? reference::indices_along(extents, {static_cast<std::size_t>(at)})
                                : Shape(all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (along[i] < length) own.push_back(all[i]);
        }
        return own;
      };
      alone.scale = own_parameters(call.scale);
      alone.bias = own_parameters(call.bias);
      const ResultOf<T> want = run(operation, alone);
      const Case what = case_of(operation, call, "item " + std::to_string(item));
      if (!(operation == kMoments)) {
        check_bits(
            what, "y",
            ValuesOf<T>(together.y.begin() + item * size, together.y.begin() + item * size + length * place),
            want.y);
      }
      const auto check_statistics = [&](const char* output, const ValuesOf<T>& all, const ValuesOf<T>& own) {
        if (all.empty()) return;
        const auto begin = all.begin() + item * groups;
        check_bits(what, output, ValuesOf<T>(begin, begin + own.size()), own);
        // Places past the end have no values.
        check_all(what, output, ValuesOf<T>(begin + own.size(), begin + groups),
                  std::numeric_limits<T>::quiet_NaN());
      };
      check_statistics("mean", together.mean, want.mean);
      check_statistics("variance", together.variance, want.variance);
      check_statistics("invStd", together.inv_std, want.inv_std);
      ++compared;
    }
  });
  CHECK(compared > 2000);
}

TEMPLATE_TEST_CASE("with lengths: items without values have NaN for statistics and 0 for y", "", float,
                   double) {
  using T = TestType;
  constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
  each_call<T>([&](const Operation& operation, const CallOf<T>& call) {
    if (std::any_of(call.lengths.begin(), call.lengths.end(), [](std::int32_t length) { return length > 0; }))
      return;
    const ResultOf<T> got = run(operation, call);
    const Case what = case_of(operation, call, "no values");
    check_all(what, "y", got.y, 0);
    check_all(what, "mean", got.mean, kNaN);
    check_all(what, "variance", got.variance, kNaN);
    check_all(what, "invStd", got.inv_std, kNaN);
  });
  // Without any extent at all.
  for (const Shape& shape : {Shape{3, 0}, Shape{0, 4}, Shape{2, 0, 3}, Shape{0, 2, 3}, Shape{2, 3, 0}}) {
    for (const Shape& axes : sets_of_axes(shape.size())) {
      const CallOf<T> call = {.shape = shape, .axes = axes, .lengths = Lengths(shape[0])};
      for (const Operation* operation : {&kLayerNorm, &kMoments})
        CHECK(run(*operation, call).status == Status::kOk);
    }
  }
}

TEMPLATE_TEST_CASE("with lengths: items that share statistics are merged as well as they are summed", "",
                   float, double) {
  using T = TestType;
  // Ratios of mean and deviation, and more items and longer ones than the other tests have.
  for (const double ratio : {0.0, 1.0, 1e3, 1e7}) {
    for (const Shape& shape : {Shape{20, 30, 5}, Shape{3, 700, 2}, Shape{60, 3, 4}}) {
      Lengths lengths;
      Random random(5);
      for (std::size_t item = 0; item < shape[0]; ++item) {
        lengths.push_back(static_cast<std::int32_t>(random.below(shape[1] + 1)));
      }
      for (const Distribution& distribution : kDistributions) {
        CallOf<T> call = {.shape = shape,
                          .axes = {0, 1},
                          .x = draw<T>(product(shape), 6, ratio, 1, distribution),
                          .lengths = lengths};
        const std::string data = std::string(distribution.name) + ", mean/std " + text(ratio);
        for (const Shape& axes : {Shape{0, 1}, Shape{0, 2}, Shape{0, 1, 2}, Shape{0}}) {
          call.axes = axes;
          definition::check(kLayerNorm, call, data);
        }
        call.axes = {2};
        definition::check(kBatchNormTraining, call, data);
      }
    }
  }
}

TEMPLATE_TEST_CASE("with lengths: values whose squares underflow or overflow, among items that don't", "",
                   float, double) {
  using T = TestType;
  constexpr double kRange = std::is_same_v<T, float> ? 1e30 : 1e300;
  const double sizes[] = {1, kRange, 1 / kRange, 0};
  for (const double first : sizes) {
    for (const double second : sizes) {
      const Shape shape = {4, 6, 3};
      CallOf<T> call = {
          .shape = shape, .axes = {0, 1}, .x = draw<T>(product(shape), 7, 1, 1), .lengths = {6, 0, 4, 1}};
      for (std::size_t i = 0; i < call.x.size(); ++i) {
        call.x[i] = static_cast<T>(call.x[i] * (i < 18 ? first : i < 54 ? second : 1));
      }
      const std::string data = "sizes " + text(first) + " and " + text(second);
      definition::check(kLayerNorm, call, data);
      definition::check(kRmsNorm, call, data);
      call.axes = {2};
      definition::check(kBatchNormTraining, call, data);
      // Constant, each in its own way, and all together.
      for (std::size_t i = 0; i < call.x.size(); ++i) call.x[i] = static_cast<T>(i < 36 ? first : second);
      definition::check(kBatchNormTraining, call, data + ", constant items");
    }
  }
}

TEMPLATE_TEST_CASE("with lengths: equal values in all items give exactly bias", "", float, double) {
  using T = TestType;
  for (const T constant :
       {T(0.1), T(1000.1), T(3.3e7), std::numeric_limits<T>::max(), std::numeric_limits<T>::denorm_min()}) {
    const Shape shape = {40, 7, 3};
    Lengths lengths;
    for (std::int32_t item = 0; item < 40; ++item) lengths.push_back(item % 8);
    CallOf<T> call = {.shape = shape,
                      .axes = {2},
                      .x = ValuesOf<T>(product(shape), constant),
                      .bias = {T(0.7), T(0.7), T(0.7)},
                      .lengths = lengths};
    fill_padding(call, poison<T>());
    const ResultOf<T> got = run(kBatchNormTraining, call);
    const Case what = case_of(kBatchNormTraining, call, "constant " + text_of(constant));
    check_all(what, "variance", got.variance, 0);
    check_all(what, "mean", got.mean, constant);
    for (std::size_t i = 0; i < got.y.size(); ++i) {
      const bool valid = i / 3 % 7 < static_cast<std::size_t>(lengths[i / 21]);
      if (got.y[i] != (valid ? T(0.7) : 0)) FAIL(what.data << ": y[" << i << "] = " << text_of(got.y[i]));
    }
  }
}

TEMPLATE_TEST_CASE("with lengths: many items, whose sums all round in one direction, keep the promise", "",
                   float, double) {
  using T = TestType;
  // Moments of items that are all alike: each addition to those of the items before rounds as the last one did.
  for (const std::size_t items : {100, 1000, 4000}) {
    for (const double size : {1.1, 1.2345678901234567, 1.7, 1.0000000001}) {
      CallOf<T> call = {
          .shape = {items, 2, 2}, .axes = {0, 1}, .x = ValuesOf<T>(4 * items), .lengths = Lengths(items, 2)};
      for (std::size_t i = 0; i < call.x.size(); ++i) call.x[i] = static_cast<T>(i / 2 % 2 ? size : -size);
      const std::string data = "+-" + text(size);
      definition::check(kLayerNorm, call, data);
      definition::check(kRmsNorm, call, data);
      call.axes = {2};
      definition::check(kBatchNormTraining, call, data);
    }
  }
}
