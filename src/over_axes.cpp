#include "over_axes.h"

#include <algorithm>
#include <limits>

#include "reading.h"
#include "simd.h"

namespace simdnorm {
namespace {

/// Whether rows lie one after another, as they do in most calls. A call of few values should not think long.
bool are_rows(Extents shape, Extents axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != shape.size() - axes.size() + i) return false;
  }
  return true;
}

template <class T>
bool has_parameters(const Arguments<T>& arguments) {
  return arguments.scale || arguments.bias;
}

/// Runs body(arguments) with x and y as the reading's view wants them.
template <class T, class Body>
void read(const Reading& reading, const Arguments<T>& arguments, T* room, Body body) {
  if (!reading.is_permuted) return body(arguments);
  Arguments<T> rows = arguments;
  const T* const x = with_residual(arguments, 0, reading.view.size());
  rows.residual = nullptr;
  rows.residual_out = nullptr;
  permute(x, arguments.shape, reading.order, room);
  rows.x = room;
  rows.y = arguments.y ? room : nullptr;
  body(rows);
  if (arguments.y) permute_back(room, arguments.shape, reading.order, arguments.y);
}

/// Sub-tensors along axis 0, of which a part along axis 1 is valid, and which is contiguous.
template <class T>
class Items {
 public:
  /// Over the axes (ascending), or over all axes but the one in arguments.axes.
  SIMDNORM_ONCE Items(Kind kind, const Arguments<T>& arguments, const AxisList& axes, bool over_others)
      : kind_(kind),
        arguments_(arguments),
        over_others_(over_others),
        axes_(axes),
        scratch_(arguments.scratch) {
    const Extents shape = arguments.shape;
    extent_ = shape[1];
    place_ = product(shape.subspan(2));
    size_ = extent_ * place_;
    is_merged_ = axes.has(0);
    is_along_reduced_ = axes.has(1);
    if (over_others) {
      parameters_ = is_merged_ ? 0 : 1;
    } else if (is_merged_) {
      parameters_ = 1;
      for (const std::size_t axis : axes) parameters_ *= axis == 0 ? 1 : shape[axis];
    }
    kept_ = 1;
    for (std::size_t axis = 2; axis < shape.size(); ++axis) kept_ *= axes.has(axis) ? 1 : shape[axis];
    if (is_merged_) {
      moments_ = scratch_.take<Moments>(groups(extent_));
      statistics_ = scratch_.take<Statistic>(groups(extent_));
    }
    // Shorter items are permuted where the longest is, or not at all.
    room_ = scratch_.take<T>(reading(extent_).room());
  }

  std::uint64_t scratch() const { return scratch_.bytes(); }

  void normalize() {
    if (is_merged_) return normalize_merged();
    const std::size_t all = groups(extent_);
    for (std::size_t item = 0; item < arguments_.shape[0]; ++item) {
      const std::size_t length = length_of(item);
      if (length > 0) {
        const Item own = item_of(item, length);
        Arguments<T> arguments = own.arguments;
        arguments.shape = own.shape;
        const auto shift = [&](auto& values) { values = values ? values + item * all : nullptr; };
        shift(arguments.mean_out);
        shift(arguments.variance_out);
        shift(arguments.inv_std_out);
        shift(arguments.inv_std);
        shift(arguments.count_out);
        read(own.reading, arguments, room_,
             [&](const Arguments<T>& a) { simdnorm::normalize(own.reading.view, kind_, a); });
      }
      // Those past the end have no values.
      for (std::size_t g = length > 0 ? groups(length) : 0; g < all; ++g) {
        finish(kind_, kNoMoments, arguments_, item * all + g);
      }
    }
    clear();
  }

 private:
  struct Item {
    AxisList shape;
    Reading reading;
    Arguments<T> arguments;
  };

  std::size_t length_of(std::size_t item) const { return static_cast<std::size_t>(arguments_.lengths[item]); }
  /// How many groups an item of a length has.
  std::size_t groups(std::size_t length) const { return (is_along_reduced_ ? 1 : length) * kept_; }

  AxisList shape_of(std::size_t length) const {
    AxisList shape;
    shape.add(length);
    for (const std::size_t extent : arguments_.shape.subspan(2)) shape.add(extent);
    return shape;
  }

  SIMDNORM_ONCE Reading reading(std::size_t length) const {
    const AxisList shape = shape_of(length);
    if (over_others_) {
      Reading result;
      if (is_merged_) {
        result.view = view_by_channel(shape, arguments_.axes[0] - 1);
      } else {
        result.view = {1, 1, 1, length * place_, 1, 1};
      }
      return result;
    }
    AxisList axes;
    for (const std::size_t axis : axes_) {
      if (axis > 0) axes.add(axis - 1);
    }
    return reading_over_axes(kind_, shape, axes, has_parameters(arguments_));
  }

  /// The valid part of an item.
  SIMDNORM_ONCE Item item_of(std::size_t item, std::size_t length) const {
    Item own = {shape_of(length), reading(length), arguments_};
    Arguments<T>& a = own.arguments;
    const auto move = [](auto& pointer, std::size_t by) { pointer = pointer ? pointer + by : nullptr; };
    move(a.x, item * size_);
    move(a.y, item * size_);
    move(a.residual, item * size_);
    move(a.residual_out, item * size_);
    move(a.scale, item * parameters_);
    move(a.bias, item * parameters_);
    return own;
  }

  void normalize_merged() {
    const std::size_t all = groups(extent_);
    std::fill_n(moments_, all, kNoMoments);
    const auto each_item = [&](auto body) {
      for (std::size_t item = 0; item < arguments_.shape[0]; ++item) {
        const std::size_t length = length_of(item);
        if (length == 0) continue;
        Item own = item_of(item, length);
        own.arguments.shape = own.shape;
        body(own);
      }
    };
    each_item([&](Item& own) {
      Arguments<T> arguments = own.arguments;
      // Only read, except for the sum, which is kept in y where nobody wants it.
      if (!arguments.residual_out) arguments.residual_out = arguments.y;
      arguments.y = nullptr;
      read(own.reading, arguments, room_,
           [&](const Arguments<T>& a) { merge_moments(own.reading.view, kind_, a, moments_); });
    });
    for (std::size_t g = 0; g < all; ++g) statistics_[g] = finish(kind_, moments_[g], arguments_, g);
    if (!arguments_.y) return;
    each_item([&](Item& own) {
      Arguments<T>& arguments = own.arguments;
      if (arguments.residual) {
        arguments.x = arguments.residual_out ? arguments.residual_out : arguments.y;
        arguments.residual = nullptr;
      }
      read(own.reading, arguments, room_,
           [&](const Arguments<T>& a) { apply_statistics(own.reading.view, statistics_, a); });
    });
    clear();
  }

  void clear() const {
    if (arguments_.y) clear_padding(arguments_.shape, arguments_.lengths, arguments_.y);
    if (arguments_.residual_out) clear_padding(arguments_.shape, arguments_.lengths, arguments_.residual_out);
  }

  const Kind kind_;
  const Arguments<T> arguments_;
  const bool over_others_;
  const AxisList axes_;
  Scratch scratch_;
  /// The extent of axis 1, the values at each place along it, and in an item.
  std::size_t extent_, place_, size_;
  /// Whether groups have values of several items, and several places along axis 1.
  bool is_merged_, is_along_reduced_;
  /// Scales of an item's own, and groups at a place along axis 1.
  std::size_t parameters_ = 0, kept_;
  Moments* moments_ = nullptr;
  Statistic* statistics_ = nullptr;
  T* room_;
};

/// All but one axis of a rank.
AxisList others(std::size_t rank, std::size_t axis) {
  AxisList result;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) result.add(i);
  }
  return result;
}

/// Everything that arguments over axes need: parameters in ascending order, and room for the rest.
template <class T>
struct Prepared {
  Arguments<T> arguments;
  AxisList axes;
  T *scale_room = nullptr, *bias_room = nullptr;
  std::size_t bytes = 0;

  explicit Prepared(const Arguments<T>& given) : arguments(given), axes(ascending(given.axes)) {
    if (std::equal(axes.begin(), axes.end(), given.axes.begin())) return;
    Scratch scratch(given.scratch);
    std::size_t count = 1;
    for (const std::size_t axis : axes) count *= given.shape[axis];
    if (given.scale) scale_room = scratch.take<T>(count);
    if (given.bias) bias_room = scratch.take<T>(count);
    bytes = scratch.bytes();
    arguments.scratch = scratch.rest();
  }

  void sort_parameters() {
    const auto sorted = [&](const T* values, T* room) {
      return room ? along_ascending(arguments.shape, arguments.axes, axes, values, room) : values;
    };
    arguments.scale = sorted(arguments.scale, scale_room);
    arguments.bias = sorted(arguments.bias, bias_room);
  }
};

}  // namespace

template <class T>
void normalize_over_axes(Kind kind, const Arguments<T>& given) {
  if (!given.lengths && are_rows(given.shape, given.axes)) {
    const std::size_t kept = given.shape.size() - given.axes.size();
    const std::size_t units = product(given.shape.subspan(kept));
    return normalize({1, 1, product(given.shape.first(kept)), units, units, 1}, kind, given);
  }
  Prepared<T> prepared(given);
  prepared.sort_parameters();
  const Arguments<T>& arguments = prepared.arguments;
  if (arguments.lengths) return Items<T>(kind, arguments, prepared.axes, false).normalize();
  const Reading reading = reading_over_axes(kind, arguments.shape, prepared.axes, has_parameters(arguments));
  read(reading, arguments, static_cast<T*>(arguments.scratch),
       [&](const Arguments<T>& a) { normalize(reading.view, kind, a); });
}

template <class T>
std::uint64_t scratch_over_axes(Kind kind, const Arguments<T>& given) {
  if (!given.lengths && are_rows(given.shape, given.axes)) return 0;
  Arguments<T> arguments = given;
  arguments.scratch = nullptr;
  const Prepared<T> prepared(arguments);
  if (arguments.lengths) {
    return prepared.bytes + Items<T>(kind, prepared.arguments, prepared.axes, false).scratch();
  }
  Scratch scratch(nullptr);
  scratch.take<T>(reading_over_axes(kind, arguments.shape, prepared.axes, has_parameters(arguments)).room());
  return prepared.bytes + scratch.bytes();
}

template <class T>
void normalize_over_others(const Arguments<T>& arguments) {
  const std::size_t axis = arguments.axes[0];
  if (!arguments.lengths) {
    return normalize(view_by_channel(arguments.shape, axis), Kind::kDeviation, arguments);
  }
  Items<T>(Kind::kDeviation, arguments, others(arguments.shape.size(), axis), true).normalize();
}

template <class T>
std::uint64_t scratch_over_others(const Arguments<T>& given) {
  if (!given.lengths) return 0;
  Arguments<T> arguments = given;
  arguments.scratch = nullptr;
  const AxisList axes = others(arguments.shape.size(), arguments.axes[0]);
  return Items<T>(Kind::kDeviation, arguments, axes, true).scratch();
}

template <class T>
void clear_padding(Extents shape, const std::int32_t* lengths, T* values) {
  const std::size_t place = product(shape.subspan(2)), size = shape[1] * place;
  for (std::size_t item = 0; item < shape[0]; ++item) {
    const std::size_t valid = static_cast<std::size_t>(lengths[item]) * place;
    std::fill(values + item * size + valid, values + (item + 1) * size, T{});
  }
}

#define SIMDNORM_INSTANTIATE(T)                                        \
  template void normalize_over_axes(Kind, const Arguments<T>&);        \
  template std::uint64_t scratch_over_axes(Kind, const Arguments<T>&); \
  template void normalize_over_others(const Arguments<T>&);            \
  template std::uint64_t scratch_over_others(const Arguments<T>&);     \
  template void clear_padding(Extents, const std::int32_t*, T*);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE
template void clear_padding(Extents, const std::int32_t*, Half*);

}  // namespace simdnorm
