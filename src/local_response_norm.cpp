#include "local_response_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "scaled.h"
#include "sums.h"

namespace simdnorm {
namespace {

/// s^|beta| from products and square roots alone, which are the same everywhere; pow of the C libraries is not.
/// The exponent's bits after the point choose among s^(1/2), s^(1/4), ..., those before it among s, s^2, ...
class Power {
 public:
  Power(double beta, int precision) {
    const double size = std::fabs(beta);
    whole_ = std::floor(size);
    double rest = size - whole_;
    for (; rest > 0 && bits_ < precision; ++bits_) {
      rest *= 2;
      fraction_ = fraction_ << 1 | (rest >= 1);
      if (rest >= 1) rest -= 1;
    }
  }

  SIMDNORM_ONCE f64x2 operator()(f64x2 s) const {
    // From the last bit to the first, so that every root halves the error of what was before it.
    const f64x2 root = sqrt(s);
    f64x2 result = f64x2::splat(1);
    for (int bit = 0; bit < bits_; ++bit) {
      result = sqrt(result);
      if (fraction_ >> bit & 1) result = result * root;
    }
    f64x2 square = s;
    for (double whole = whole_; whole >= 1; whole = std::floor(whole / 2)) {
      if (whole > 2 * std::floor(whole / 2)) result = result * square;
      square = square * square;
    }
    return result;
  }
  double operator()(double s) const { return first_lane((*this)(f64x2::splat(s))); }

 private:
  double whole_;
  std::uint64_t fraction_ = 0;
  int bits_ = 0;
};

/// What lies before the channel axis, along it, and after it; and how far a window reaches.
struct Window {
  std::size_t items, channels, places;
  std::size_t before, after;

  template <class T>
  explicit Window(const Arguments<T>& arguments) {
    const std::size_t axis = arguments.axes[0];
    items = product(arguments.shape.first(axis));
    channels = arguments.shape[axis];
    places = product(arguments.shape.subspan(axis + 1));
    const std::size_t reach = channels > 0 ? channels - 1 : 0;
    before = std::min((arguments.size - 1) / 2, reach);
    after = std::min(arguments.size / 2, reach);
  }
  std::uint64_t padded() const {
    return items == 0 ? 0 : (std::uint64_t{before} + channels + after) * places;
  }
};

template <class T>
class Item {
 public:
  Item(const Window& window, const Arguments<T>& arguments)
      : window_(window),
        power_(arguments.beta, std::is_same_v<T, float> ? 40 : 60),
        beta_(std::fabs(arguments.beta)),
        is_divided_(arguments.beta >= 0),
        alpha_(arguments.alpha / static_cast<double>(arguments.size)),
        k_(arguments.k),
        values_(Scratch(arguments.scratch).take<double>(window.padded())) {
    std::fill_n(values_, static_cast<std::size_t>(window.padded()), 0.0);
  }

  /// The values of one item; y may be x.
  void normalize(const T* x, T* y) const {
    const std::size_t size = window_.channels * window_.places;
    std::copy_n(x, size, values_ + window_.before * window_.places);
    std::size_t i = 0;
    for (; i + kLanes<double> <= size; i += kLanes<double>) store_two(y + i, normalized<2>(i));
    if (i < size) y[i] = static_cast<T>(first_lane(normalized<1>(i)));
  }

 private:
  static void store_two(float* p, f64x2 a) { store_partial(p, 2, narrow(a, a)); }
  static void store_two(double* p, f64x2 a) { store(p, a); }

  std::size_t reach() const { return window_.before + window_.after; }
  const double* centre(std::size_t i) const { return values_ + i + window_.before * window_.places; }

  template <std::size_t kCount>
  f64x2 normalized(std::size_t i) const {
    const auto load_at = [](const double* p) {
      return kCount == 2 ? load(p) : load_partial(p, 1, f64x2::splat(0));
    };
    f64x2 sum = f64x2::splat(0), rest = sum;
    for (std::size_t c = 0; c <= reach(); ++c) {
      const f64x2 value = load_at(values_ + i + c * window_.places);
      if constexpr (std::is_same_v<T, double>) {
        // Windows may be wide.
        const TwoSum<f64x2> next(sum, value * value);
        sum = next.sum;
        rest = rest + next.rest;
      } else {
        sum = sum + value * value;
      }
    }
    sum = sum + rest;
    const f64x2 s = f64x2::splat(k_) + f64x2::splat(alpha_) * sum;
    const f64x2 power = power_(s), value = load_at(centre(i));
    const f64x2 result = is_divided_ ? value / power : value * power;
    if constexpr (std::is_same_v<T, double>) {
      const bool first = is_out_of_range(first_lane(s)) || is_out_of_range(first_lane(power));
      const bool last = is_out_of_range(last_lane(s)) || is_out_of_range(last_lane(power));
      if (first || last) {
        const double lanes[] = {first ? rescued(i) : first_lane(result),
                                kCount == 2 && last ? rescued(i + 1) : last_lane(result)};
        return load(lanes);
      }
    }
    return result;
  }

  /// Whether squares of doubles, or a power of their sum, may have overflowed or lost bits. (Those of floats don't, as
  /// doubles.)
  static bool is_out_of_range(double s) { return !(s >= 1e-290 && s <= 1e290); }

  /// The same with values measured in a power of two that leaves their squares room.
  SIMDNORM_ONCE double rescued(std::size_t i) const {
    double largest = 0;
    for (std::size_t c = 0; c <= reach(); ++c) {
      largest = std::max(largest, std::fabs(values_[i + c * window_.places]));
    }
    const int exponent = largest > 0x1p400 ? 600 : largest < 0x1p-400 ? -600 : 0;
    const double unit = std::ldexp(1, exponent);
    Total sum = {};
    for (std::size_t c = 0; c <= reach(); ++c) {
      const double value = values_[i + c * window_.places] / unit;
      sum.add(value * value);
    }
    const Scaled s = Scaled(k_) + Scaled(alpha_) * Scaled(sum.value(), 2 * exponent);
    const Scaled value(*centre(i)), power = wide_power(s);
    return (is_divided_ ? value / power : value * power).value();
  }

  /// s^|beta| as the power of its mantissa and those of powers of two as large as leave the doubles room.
  Scaled wide_power(const Scaled& s) const {
    Scaled result(power_(s.mantissa()));
    const int most = static_cast<int>(std::max(1.0, 1000 / std::max(1.0, beta_)));
    for (int left = s.exponent(), step; left != 0; left -= step) {
      step = std::clamp(left, -most, most);
      result = result * Scaled(power_(std::ldexp(1, step)));
    }
    return result;
  }

  const Window& window_;
  const Power power_;
  const double beta_;
  const bool is_divided_;
  const double alpha_, k_;
  /// With zeros for the channels that a window lacks on both sides.
  double* const values_;
};

}  // namespace

template <class T>
Status local_response_norm(const Arguments<T>& arguments) {
  const Window window(arguments);
  const Item<T> item(window, arguments);
  const std::size_t size = window.channels * window.places;
  for (std::size_t i = 0; i < window.items; ++i)
    item.normalize(arguments.x + i * size, arguments.y + i * size);
  return Status::kOk;
}

template <class T>
std::uint64_t local_response_norm_scratch(const Arguments<T>& arguments) {
  Scratch scratch(nullptr);
  scratch.take<double>(Window(arguments).padded());
  return scratch.bytes();
}

#define SIMDNORM_INSTANTIATE(T)                             \
  template Status local_response_norm(const Arguments<T>&); \
  template std::uint64_t local_response_norm_scratch(const Arguments<T>&);
SIMDNORM_INSTANTIATE(float)
SIMDNORM_INSTANTIATE(double)
#undef SIMDNORM_INSTANTIATE

}  // namespace simdnorm
