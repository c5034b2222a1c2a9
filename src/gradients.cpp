#include "gradients.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "gradient_kernels.h"
#include "over_axes.h"
#include "reading.h"

namespace simdnorm {
namespace {

/// Neighbouring groups of one `outer`, and where they are.
struct Place {
  std::size_t outer, first, groups;

  std::size_t number(const View& view) const { return outer * view.groups + first; }
  /// The flat index of the first value of a group's run.
  std::size_t flat(const View& view, std::size_t row, std::size_t group) const {
    return ((outer * view.rows + row) * view.groups + first + group) * view.cols;
  }
};

/// How many pivots and slopes a group has: in columns each column has one.
inline std::size_t width_of(const View& view) { return layout_of(view) == Layout::kColumns ? view.cols : 1; }

/// Calls body(place, pivots, sums) with the sums of g - pivot and (g - pivot) * h over each group of a view, where its
/// pivot is pivot_of(place, i). Sums have room for a tile.
template <class T, class PivotOf, class Body>
void each_products(const View& view, const T* g, const T* h, PivotOf pivot_of, Body body) {
  if (view.size() == 0) return;
  const std::size_t width = width_of(view);
  const std::size_t step = kTile<T> / width;
  Sums sums[kTile<T>];
  T pivots[kTile<T>];
  Place place;
  for (place.outer = 0; place.outer < view.outer; ++place.outer) {
    for (place.first = 0; place.first < view.groups; place.first += step) {
      place.groups = std::min(step, view.groups - place.first);
      for (std::size_t i = 0; i < place.groups; ++i) {
        std::fill_n(pivots + i * width, width, pivot_of(place, i));
      }
      group_products(g, h, pivots, view, place.outer, place.first, place.groups, sums);
      body(place, pivots, sums);
    }
  }
}

/// Everything about the groups of a view, as it lies in memory.
template <class T>
struct Gradient {
  View view;
  Kind kind;
  /// That of y, without padding; and y without scale and bias.
  const T *dy, *h;
  const T* scale;
  /// Where dy * scale goes: may be dy. Null where scale is.
  T* g;
  /// May be dy.
  T* dx;
  /// One for each group; counts may be null, where all groups have as many values as the view says.
  const T* inv_std;
  const double* counts;
  double epsilon;
  T *d_scale, *d_bias;
  /// In place of h in the correction: the signs of x. Null for h itself.
  const T* direction = nullptr;

  void run() const {
    fold_parameters();
    const T* weighted = dy;
    if (scale) {
      apply_scale(view, Arguments<T>{.x = dy, .y = g, .scale = scale});
      weighted = g;
    }
    const auto pivot_of = [&](const Place& place, std::size_t i) {
      // Past the lengths g is 0, which isn't part of any mean.
      const bool is_full = count_of(place.number(view) + i) == static_cast<double>(view.count());
      return kind == Kind::kDeviation && is_full ? weighted[place.flat(view, 0, i)] : 0;
    };
    each_products(view, weighted, h, pivot_of, [&](const Place& place, const T* pivots, const Sums* sums) {
      Slope<T> slopes[kTile<T>];
      const std::size_t width = width_of(view);
      for (std::size_t i = 0; i < place.groups; ++i) {
        std::fill_n(slopes + i * width, width, slope_of(place, i, pivots[i * width], sums[i]));
      }
      apply(place, slopes, weighted);
    });
  }

  void fold_parameters() const {
    if (!d_scale && !d_bias) return;
    const std::size_t channels = view.channels, inner = view.inner;
    // Without values the product of the other extents may be more than there are addresses.
    if (view.size() == 0) {
      if (d_scale) std::fill_n(d_scale, channels, T{0});
      if (d_bias) std::fill_n(d_bias, channels, T{0});
      return;
    }
    const View parameters = {1, view.size() / (channels * inner), channels, inner, channels, inner};
    if (parameters.count() == 1) return single_products(dy, h, channels, d_scale, d_bias);
    const auto no_pivot = [](const Place&, std::size_t) { return T{0}; };
    each_products(parameters, dy, h, no_pivot, [&](const Place& place, const T*, const Sums* sums) {
      for (std::size_t i = 0; i < place.groups; ++i) {
        if (d_scale) d_scale[place.first + i] = static_cast<T>(sums[i].dd);
        if (d_bias) d_bias[place.first + i] = static_cast<T>(sums[i].d);
      }
    });
  }

 private:
  double count_of(std::size_t group) const {
    return counts ? counts[group] : static_cast<double>(view.count());
  }

  Slope<T> slope_of(const Place& place, std::size_t i, T pivot, const Sums& sums) const {
    const std::size_t group = place.number(view) + i;
    const T factor = inv_std[group];
    const double count = count_of(group);
    switch (kind) {
      case Kind::kDeviation:
        return {pivot, static_cast<T>(sums.d / count), static_cast<T>(sums.dd / count), factor};
      case Kind::kRootMeanSquare:
        return {0, 0, static_cast<T>(sums.dd / count), factor};
      case Kind::kNorm1:
      case Kind::kNorm2:
      case Kind::kNormInfinity:
        break;
    }
    return {0, 0, is_below(place, i, factor) ? 0 : static_cast<T>(sums.dd), factor};
  }

  /// Whether a norm is below epsilon, so that y is x / epsilon, whose norm is below 1.
  bool is_below(const Place& place, std::size_t i, T factor) const {
    if (epsilon == 0 || factor < static_cast<T>(1 / epsilon)) return false;
    const T zeros[kTile<T>] = {};
    Sums norm[kTile<T>];
    group_products(h, direction ? direction : h, zeros, view, place.outer, place.first + i, 1, norm);
    return norm->dd < 1 - 8 * std::numeric_limits<T>::epsilon();
  }

  void apply(const Place& place, const Slope<T>* slopes, const T* weighted) const {
    const T* along = direction ? direction : h;
    if (layout_of(view) == Layout::kColumns) {
      const std::size_t e = place.flat(view, 0, 0);
      return apply_columns(slopes, weighted + e, along + e, dx + e, view.rows, place.groups * view.cols,
                           view.groups * view.cols);
    }
    for (std::size_t r = 0; r < view.rows; ++r) {
      for (std::size_t i = 0; i < place.groups; ++i) {
        const std::size_t e = place.flat(view, r, i);
        apply_run(slopes[i], weighted + e, along + e, dx + e, view.cols);
      }
    }
  }
};

/// The signs of x: of all values for p = 1, of the first largest one of each row for p = infinity.
template <class T>
SIMDNORM_ONCE void take_signs(Kind kind, std::size_t rows, std::size_t cols, T* x) {
  const auto sign = [](T value) { return static_cast<T>((value > 0) - (value < 0)); };
  for (std::size_t r = 0; r < rows; ++r, x += cols) {
    if (kind == Kind::kNorm1) {
      for (std::size_t c = 0; c < cols; ++c) x[c] = sign(x[c]);
      continue;
    }
    std::size_t largest = 0;
    const auto size = [&](std::size_t c) { return x[c] < 0 ? -x[c] : x[c]; };
    for (std::size_t c = 1; c < cols; ++c) {
      if (size(c) > size(largest)) largest = c;
    }
    const T value = sign(x[largest]);
    std::fill_n(x, cols, T{0});
    x[largest] = value;
  }
}

/// What the forward call is given to make h, and what it leaves.
template <class T>
Arguments<T> forward_of(const Arguments<T>& given, T* h, T* inv_std, double* counts) {
  Arguments<T> forward = given;
  forward.y = h;
  forward.dy = nullptr;
  forward.scale = nullptr;
  forward.bias = nullptr;
  forward.inv_std_out = inv_std;
  forward.count_out = counts;
  forward.d_scale_out = nullptr;
  forward.d_bias_out = nullptr;
  return forward;
}

/// dy without what is past the lengths.
template <class T>
const T* without_padding(const Arguments<T>& given, T* room) {
  if (!given.lengths) return given.dy;
  std::copy_n(given.dy, product(given.shape), room);
  clear_padding(given.shape, given.lengths, room);
  return room;
}

// ---------------------------------------------------------------- over axes

/// How many values each group has, and how many groups there are, over a set of axes.
struct Counts {
  std::size_t units = 1, groups = 1;

  Counts(Extents shape, const AxisList& axes) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) (axes.has(axis) ? units : groups) *= shape[axis];
  }
};

template <class T>
class OverAxes {
 public:
  OverAxes(Kind kind, const Arguments<T>& given, const Counts& counts)
      : kind_(kind),
        given_(given),
        axes_(ascending(given.axes)),
        reading_(reading_over_axes(kind, given.shape, axes_, has_parameters())),
        size_(counts.units * counts.groups),
        units_(counts.units),
        scratch_(given.scratch) {
    h_ = scratch_.take<T>(size_);
    inv_std_ = scratch_.take<T>(counts.groups);
    if (given.lengths) {
      counts_ = scratch_.take<double>(counts.groups);
      dy_ = scratch_.take<T>(size_);
    }
    if (reading_.is_permuted) {
      permuted_h_ = scratch_.take<T>(size_);
      permuted_dy_ = scratch_.take<T>(size_);
    }
    if (kind == Kind::kNorm1 || kind == Kind::kNormInfinity) signs_ = scratch_.take<T>(size_);
    if (given.scale && !dy_ && !permuted_dy_) g_ = scratch_.take<T>(size_);
    if (!std::equal(axes_.begin(), axes_.end(), given.axes.begin())) {
      if (given.scale) scale_ = scratch_.take<T>(units_);
      if (given.d_scale_out) d_scale_ = scratch_.take<T>(units_);
      if (given.d_bias_out) d_bias_ = scratch_.take<T>(units_);
    }
  }

  std::uint64_t scratch() const {
    Arguments<T> forward = forward_of(given_, h_, inv_std_, counts_);
    forward.axes = axes_;
    return scratch_.bytes() + scratch_over_axes(kind_, forward);
  }

  void run() {
    Arguments<T> forward = forward_of(given_, h_, inv_std_, counts_);
    forward.axes = axes_;
    forward.scratch = scratch_.rest();
    normalize_over_axes(kind_, forward);

    const T *h = h_, *dy = without_padding(given_, dy_);
    T* dx = given_.y;
    T* g = dy_ ? dy_ : g_;
    if (signs_) sign();
    if (reading_.is_permuted) {
      permute(h, given_.shape, reading_.order, permuted_h_);
      permute(dy, given_.shape, reading_.order, permuted_dy_);
      h = permuted_h_;
      dy = dx = g = permuted_dy_;
    }
    Gradient<T>{
        .view = reading_.view,
        .kind = kind_,
        .dy = dy,
        .h = h,
        .scale =
            scale_ ? along_ascending(given_.shape, given_.axes, axes_, given_.scale, scale_) : given_.scale,
        .g = g,
        .dx = dx,
        .inv_std = inv_std_,
        .counts = counts_,
        .epsilon = given_.epsilon,
        .d_scale = d_scale_ ? d_scale_ : given_.d_scale_out,
        .d_bias = d_bias_ ? d_bias_ : given_.d_bias_out,
        .direction = signs_,
    }
        .run();
    if (reading_.is_permuted) permute_back(permuted_dy_, given_.shape, reading_.order, given_.y);
    if (given_.lengths) clear_padding(given_.shape, given_.lengths, given_.y);
    if (d_scale_) along_given(given_.shape, given_.axes, axes_, d_scale_, given_.d_scale_out);
    if (d_bias_) along_given(given_.shape, given_.axes, axes_, d_bias_, given_.d_bias_out);
  }

 private:
  /// Whether the operation has parameters, given or not.
  bool has_parameters() const { return kind_ == Kind::kDeviation || kind_ == Kind::kRootMeanSquare; }

  void sign() const {
    // These norms are read as rows, permuted or not.
    if (reading_.is_permuted) {
      permute(given_.x, given_.shape, reading_.order, signs_);
    } else {
      std::copy_n(given_.x, size_, signs_);
    }
    take_signs(kind_, size_ / std::max<std::size_t>(units_, 1), units_, signs_);
  }

  const Kind kind_;
  const Arguments<T> given_;
  const AxisList axes_;
  const Reading reading_;
  const std::size_t size_, units_;
  Scratch scratch_;
  T *h_, *inv_std_;
  double* counts_ = nullptr;
  T *dy_ = nullptr, *permuted_h_ = nullptr, *permuted_dy_ = nullptr, *signs_ = nullptr, *g_ = nullptr;
  T *scale_ = nullptr, *d_scale_ = nullptr, *d_bias_ = nullptr;
};

// ---------------------------------------------------------------- by channel

/// Room for what the gradients by channels need.
template <class T>
struct ByChannel {
  std::size_t size;
  Scratch scratch;
  T *h, *inv_std, *g = nullptr, *dy = nullptr;
  double* counts = nullptr;

  ByChannel(const Arguments<T>& given, std::size_t groups)
      : size(product(given.shape)), scratch(given.scratch) {
    h = scratch.take<T>(size);
    inv_std = scratch.take<T>(groups);
    if (given.lengths) {
      counts = scratch.take<double>(groups);
      dy = scratch.take<T>(size);
    }
    if (given.scale && !dy) g = scratch.take<T>(size);
  }

  Arguments<T> forward(const Arguments<T>& given) const {
    Arguments<T> result = forward_of(given, h, inv_std, counts);
    result.scratch = scratch.rest();
    return result;
  }

  void run(const View& view, const Arguments<T>& given) const {
    Gradient<T>{
        .view = view,
        .kind = Kind::kDeviation,
        .dy = without_padding(given, dy),
        .h = h,
        .scale = given.scale,
        .g = dy ? dy : g,
        .dx = given.y,
        .inv_std = inv_std,
        .counts = counts,
        .epsilon = given.epsilon,
        .d_scale = given.d_scale_out,
        .d_bias = given.d_bias_out,
    }
        .run();
    if (given.lengths) clear_padding(given.shape, given.lengths, given.y);
  }
};

// ---------------------------------------------------------------- groups of few values

/// In groups of few values g is nearly all mean(g) + h * mean(g * h), and what is left of it is lost in the
/// rounding of h: their gradients are computed in double.
constexpr std::size_t kFew = 16;

/// A call on floats as one on doubles, in scratch.
struct Doubles {
  const Arguments<float>& floats;
  const std::size_t size, parameters;
  Scratch scratch;
  Arguments<double> doubles;
  double *x, *dy, *scale = nullptr, *inv_std = nullptr, *d_scale = nullptr, *d_bias = nullptr;
  std::size_t groups;

  Doubles(const Arguments<float>& given, std::size_t parameters, std::size_t groups)
      : floats(given),
        size(product(given.shape)),
        parameters(parameters),
        scratch(given.scratch),
        x(scratch.take<double>(size)),
        dy(scratch.take<double>(size)),
        groups(groups) {
    if (given.scale) scale = scratch.take<double>(parameters);
    if (given.inv_std) inv_std = scratch.take<double>(groups);
    if (given.d_scale_out) d_scale = scratch.take<double>(parameters);
    if (given.d_bias_out) d_bias = scratch.take<double>(parameters);
    doubles = {
        .shape = given.shape,
        .axes = given.axes,
        .x = x,
        .y = dy,
        .dy = dy,
        .scale = scale,
        .inv_std = inv_std,
        .lengths = given.lengths,
        .epsilon = given.epsilon,
        .groups = given.groups,
        .p = given.p,
        .d_scale_out = d_scale,
        .d_bias_out = d_bias,
        .scratch = scratch.rest(),
    };
  }

  template <class Run>
  void run(Run run_on_doubles) const {
    std::copy_n(floats.x, size, x);
    std::copy_n(floats.dy, size, dy);
    if (scale) std::copy_n(floats.scale, parameters, scale);
    if (inv_std) std::copy_n(floats.inv_std, groups, inv_std);
    run_on_doubles(doubles);
    const auto narrow = [](const double* from, std::size_t count, float* to) {
      if (from)
        std::transform(from, from + count, to, [](double value) { return static_cast<float>(value); });
    };
    narrow(dy, size, floats.y);
    narrow(d_scale, parameters, floats.d_scale_out);
    narrow(d_bias, parameters, floats.d_bias_out);
  }
};

/// Of all axes but the channels'.
template <class T>
std::size_t values_of_others(const Arguments<T>& arguments) {
  const std::size_t axis = arguments.axes[0];
  return product(arguments.shape.first(axis)) * product(arguments.shape.subspan(axis + 1));
}

/// Depends on the extents and axes alone, so that no group's bits depend on the others'. Lengths may leave few values
/// to groups that are along them or over items.
template <class T>
bool has_few(const Arguments<T>& arguments, std::size_t units, bool may_be_cut) {
  return std::is_same_v<T, float> && (units < kFew || (arguments.lengths && may_be_cut));
}

}  // namespace

template <class T>
void gradients_over_axes(Kind kind, const Arguments<T>& arguments) {
  const AxisList axes(arguments.axes);
  const Counts counts(arguments.shape, axes);
  if constexpr (std::is_same_v<T, float>) {
    if (has_few(arguments, counts.units, axes.has(0) || axes.has(1))) {
      return Doubles(arguments, counts.units, counts.groups).run([kind](const Arguments<double>& doubles) {
        gradients_over_axes(kind, doubles);
      });
    }
  }
  OverAxes<T>(kind, arguments, counts).run();
}

template <class T>
std::uint64_t gradients_over_axes_scratch(Kind kind, const Arguments<T>& arguments) {
  const AxisList axes(arguments.axes);
  const Counts counts(arguments.shape, axes);
  if constexpr (std::is_same_v<T, float>) {
    if (has_few(arguments, counts.units, axes.has(0) || axes.has(1))) {
      const Doubles doubles(arguments, counts.units, counts.groups);
      return doubles.scratch.bytes() + gradients_over_axes_scratch(kind, doubles.doubles);
    }
  }
  return OverAxes<T>(kind, arguments, counts).scratch();
}

template <class T>
void gradients_over_others(const Arguments<T>& arguments) {
  const std::size_t axis = arguments.axes[0], channels = arguments.shape[axis];
  if constexpr (std::is_same_v<T, float>) {
    if (has_few(arguments, values_of_others(arguments), true)) {
      return Doubles(arguments, channels, channels).run(gradients_over_others<double>);
    }
  }
  const ByChannel<T> room(arguments, channels);
  normalize_over_others(room.forward(arguments));
  room.run(view_by_channel(arguments.shape, axis), arguments);
}

template <class T>
std::uint64_t gradients_over_others_scratch(const Arguments<T>& arguments) {
  const std::size_t channels = arguments.shape[arguments.axes[0]];
  if constexpr (std::is_same_v<T, float>) {
    if (has_few(arguments, values_of_others(arguments), true)) {
      const Doubles doubles(arguments, channels, channels);
      return doubles.scratch.bytes() + gradients_over_others_scratch(doubles.doubles);
    }
  }
  const ByChannel<T> room(arguments, channels);
  return room.scratch.bytes() + scratch_over_others(room.forward(arguments));
}

template <class T>
void gradients_by_group(const Arguments<T>& arguments) {
  const std::size_t channels = arguments.shape[arguments.axes[0]];
  const std::size_t groups = arguments.shape[0] * arguments.groups;
  const View view = view_by_group(arguments.shape, arguments.axes[0], arguments.groups);
  if constexpr (std::is_same_v<T, float>) {
    if (has_few(arguments, view.count(), false)) {
      return Doubles(arguments, channels, groups).run(gradients_by_group<double>);
    }
  }
  const ByChannel<T> room(arguments, groups);
  normalize(view, Kind::kDeviation, room.forward(arguments));
  room.run(view, arguments);
}

template <class T>
std::uint64_t gradients_by_group_scratch(const Arguments<T>& arguments) {
  const std::size_t channels = arguments.shape[arguments.axes[0]];
  const std::size_t groups = arguments.shape[0] * arguments.groups;
  if constexpr (std::is_same_v<T, float>) {
    const View view = view_by_group(arguments.shape, arguments.axes[0], arguments.groups);
    if (has_few(arguments, view.count(), false)) {
      const Doubles doubles(arguments, channels, groups);
      return doubles.scratch.bytes() + gradients_by_group_scratch(doubles.doubles);
    }
  }
  return ByChannel<T>(arguments, groups).scratch.bytes();
}

template <class T>
void gradients_by_given(const Arguments<T>& arguments) {
  const std::size_t channels = arguments.shape[arguments.axes[0]];
  const View view = view_by_channel(arguments.shape, arguments.axes[0]);
  Scratch scratch(arguments.scratch);
  T* const h = scratch.take<T>(view.size());
  T* const zeros = scratch.take<T>(channels);
  normalize_by_given(view, forward_of<T>(arguments, h, nullptr, nullptr));
  Gradient<T>{
      .view = view,
      .kind = Kind::kDeviation,
      .dy = arguments.dy,
      .h = h,
      .scale = nullptr,
      .g = nullptr,
      .dx = nullptr,
      .inv_std = nullptr,
      .counts = nullptr,
      .epsilon = arguments.epsilon,
      .d_scale = arguments.d_scale_out,
      .d_bias = arguments.d_bias_out,
  }
      .fold_parameters();
  // y without a mean and bias, of dy.
  std::fill_n(zeros, channels, T{0});
  Arguments<T> linear = arguments;
  linear.x = arguments.dy;
  linear.mean = zeros;
  linear.bias = nullptr;
  normalize_by_given(view, linear);
}

template <class T>
std::uint64_t gradients_by_given_scratch(const Arguments<T>& arguments) {
  Scratch scratch(nullptr);
  scratch.take<T>(product(arguments.shape));
  scratch.take<T>(arguments.shape[arguments.axes[0]]);
  return scratch.bytes();
}

#define SIMDNORM_INSTANTIATE(T)                                                  \
  template void gradients_over_axes(Kind, const Arguments<T>&);                  \
  template std::uint64_t gradients_over_axes_scratch(Kind, const Arguments<T>&); \
  template void gradients_over_others(const Arguments<T>&);                      \
  template std::uint64_t gradients_over_others_scratch(const Arguments<T>&);     \
  template void gradients_by_group(const Arguments<T>&);                         \
  template std::uint64_t gradients_by_group_scratch(const Arguments<T>&);        \
  template void gradients_by_given(const Arguments<T>&);                         \
  template std::uint64_t gradients_by_given_scratch(const Arguments<T>&);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE

}  // namespace simdnorm
