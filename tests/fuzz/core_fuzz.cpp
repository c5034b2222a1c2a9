// Bytes become one call of an operation, or of its gradient, as a careful program would check it (call.h):
// memory that ends where its values end, scratch of exactly the size that is asked for, canaries. What comes out
// is compared with the definitions, for halves with the same call of floats, and with the same call in place and
// otherwise aligned.

#include <cstdio>
#include <string>

#include "definition.h"
#include "half_reference.h"

using definition::sum_of;
using simdnorm::Status;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What is left of an input; zeros follow.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}

  std::uint8_t next() { return data_ < end_ ? *data_++ : std::uint8_t{0}; }
  std::size_t below(std::size_t limit) { return next() % limit; }
  bool flag() { return next() % 2 != 0; }
  template <class V, std::size_t kCount>
  V one_of(const V (&values)[kCount]) {
    return values[below(kCount)];
  }
  template <class V>
  V raw() {
    unsigned char bytes[sizeof(V)];
    for (unsigned char& byte : bytes) byte = next();
    V value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }

 private:
  const std::uint8_t *data_, *end_;
};

// ---------------------------------------------------------------- data

template <class T>
struct Exponents {
  static constexpr int kLeast = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits,
                       kMost = std::numeric_limits<T>::max_exponent - 2;
};
template <>
struct Exponents<Half> {
  static constexpr int kLeast = -24, kMost = 14;
};

template <class T>
T typed(double value) {
  return static_cast<T>(value);
}
template <>
Half typed(double value) {
  return reference::half_of(value);
}

/// Raw bits, but no NaN that could be taken for a canary.
template <class T>
T without_canary(T value) {
  if (!is_nan(value)) return value;
  std::uint64_t bits = (bits_of(value) & ~std::uint64_t{0xff}) | 0x22;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

enum class Kind { kSmall, kLargeMean, kIntegers, kConstant, kOneSize, kSizes, kSpecial, kRaw };

/// What gradients can be compared for: what is added is of one size.
struct Drawn {
  Kind kind;
  double mean, deviation;
};

template <class T>
Drawn draw_from(Bytes& bytes, std::size_t count, ValuesOf<T>& values) {
  const double deviations[] = {1, 0.1, 30, 1e-3, 1e3};
  const double ratios[] = {10, 1e3, 1e4, 1e5, 1e6, 1e7};
  Drawn drawn = {static_cast<Kind>(bytes.below(8)), 0, bytes.one_of(deviations)};
  Random random(bytes.raw<std::uint16_t>() + 1u);
  const int span = Exponents<T>::kMost - Exponents<T>::kLeast + 1;
  const int size = Exponents<T>::kLeast + bytes.raw<std::uint16_t>() % span;
  if (drawn.kind == Kind::kLargeMean) drawn.mean = bytes.one_of(ratios) * drawn.deviation;
  values.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double ordinary = bell(random, i, count);
    switch (drawn.kind) {
      case Kind::kSmall:
      case Kind::kLargeMean:
        values[i] = typed<T>(drawn.mean + drawn.deviation * ordinary);
        break;
      case Kind::kIntegers:
        values[i] = typed<T>(static_cast<double>(random.below(5)) - 2);
        break;
      case Kind::kConstant:
        values[i] = typed<T>(i == 0 ? drawn.deviation * ordinary : 0);
        if (i > 0) values[i] = values[0];
        break;
      case Kind::kOneSize:
        values[i] = typed<T>(std::ldexp(ordinary, size));
        break;
      case Kind::kSizes:
        values[i] = typed<T>(
            std::ldexp(ordinary, Exponents<T>::kLeast + static_cast<int>(random.next() >> 8) % span));
        break;
      case Kind::kSpecial: {
        const double special[] = {std::nan(""), kInfinity, -kInfinity, 0, -0.0};
        values[i] = typed<T>(random.below(16) == 0 ? special[random.below(5)] : ordinary);
        break;
      }
      case Kind::kRaw:
        values[i] = without_canary(bytes.raw<T>());
        break;
    }
  }
  return drawn;
}

template <class T>
ValuesOf<T> parameters_from(Bytes& bytes, std::size_t count, bool& is_tame) {
  ValuesOf<T> values;
  const Drawn drawn = draw_from(bytes, count, values);
  is_tame = is_tame && (drawn.kind == Kind::kSmall || drawn.kind == Kind::kIntegers);
  return values;
}

// ---------------------------------------------------------------- calls

template <class T>
struct Made {
  CallOf<T> call;
  Drawn x;
  bool has_tame_parameters = true;
};

bool is_over_axes(const Operation& o) {
  return o == kLayerNorm || o == kRmsNorm || o == kLpNormalize || o == kMoments;
}
bool has_parameters(const Operation& o) {
  return !(o == kLpNormalize || o == kLocalResponseNorm || o == kMoments);
}

Shape shape_from(Bytes& bytes, std::size_t least_rank) {
  const std::size_t ranks[] = {2, 3, 1, 4, 3, 5, 2, 6, 0, 16},
                    extents[] = {1, 2, 3, 4, 5, 7, 8, 15, 0, 1, 9, 16, 17, 33, 100, 600};
  const std::size_t rank = std::max(least_rank, bytes.one_of(ranks));
  constexpr std::size_t kMost = 2500;
  Shape shape;
  std::size_t size = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::size_t extent = bytes.one_of(extents);
    if (size * extent > kMost) extent = 1;
    size *= std::max<std::size_t>(extent, 1);
    shape.push_back(extent);
  }
  return shape;
}

/// Some of the axes, in any order.
Shape axes_from(Bytes& bytes, std::size_t rank) {
  const auto set = bytes.raw<std::uint16_t>();
  Shape axes;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (!(set >> axis & 1)) continue;
    axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(bytes.below(axes.size() + 1)), axis);
  }
  return axes;
}

template <class T>
Made<T> call_from(Bytes& bytes, const Operation& o) {
  using Parameter = typename CallOf<T>::Parameter;
  Made<T> made;
  CallOf<T>& call = made.call;
  call.shape = shape_from(bytes, is_over_axes(o) ? 0 : 1);
  const std::size_t rank = call.shape.size();
  call.axes = is_over_axes(o) ? axes_from(bytes, rank) : Shape{bytes.below(rank)};
  // Those of instance and group norm are rarely the items.
  if ((o == kInstanceNorm || o == kGroupNorm) && call.axes[0] == 0 && rank > 1 && !bytes.flag())
    call.axes[0] = 1;
  std::size_t parameters = 1;
  for (const std::size_t axis : call.axes) parameters *= call.shape[axis];

  const std::uint8_t present = bytes.next(), wanted = bytes.next(), offsets = bytes.next();
  const double epsilons[] = {1e-5, 0, 1e-12, 1, 1e-3, 1e5, 1e300, 1e-300};
  call.epsilon = bytes.one_of(epsilons);
  const double norms[] = {2, 1, kInfinity, 3};
  call.p = o == kLpNormalize ? bytes.one_of(norms) : 2;
  if (o == kGroupNorm) {
    const std::size_t channels = call.shape[call.axes[0]];
    call.groups = bytes.next();
    // Most of them divide.
    if (!bytes.flag() && channels > 0) {
      call.groups = 1 + call.groups % channels;
      while (channels % call.groups != 0) --call.groups;
    }
  }
  if (o == kLocalResponseNorm) {
    const double alphas[] = {1e-4, 1, 100, 0, 1e-30}, betas[] = {0.75, 1, 0.5, 0, 2.3, -0.5, -3, 1.0 / 3},
                 ks[] = {1, 0, 2, 1e-3, 50};
    call.size = 1 + bytes.below(bytes.flag() ? 255 : 6);
    call.alpha = bytes.one_of(alphas);
    call.beta = bytes.one_of(betas);
    call.k = bytes.one_of(ks);
  }
  const bool can_have_lengths =
      o == kLayerNorm || o == kRmsNorm || o == kMoments || (o == kBatchNormTraining && call.axes[0] != 1);
  if (can_have_lengths && rank >= 2 && present & 8) {
    for (std::size_t i = 0; i < call.shape[0]; ++i) {
      call.lengths.push_back(static_cast<std::int32_t>(bytes.below(call.shape[1] + 1)));
    }
  }
  const auto parameter = [&] {
    return parameters_from<Parameter>(bytes, parameters, made.has_tame_parameters);
  };
  if (has_parameters(o) && present & 1) call.scale = parameter();
  if (has_parameters(o) && !(o == kRmsNorm) && present & 2) call.bias = parameter();
  if (o == kBatchNorm) {
    call.mean = parameter();
    call.variance = parameter();
  }
  made.x = draw_from<T>(bytes, product(call.shape), call.x);
  if ((o == kLayerNorm || o == kRmsNorm) && present & 4) {
    draw_from<T>(bytes, call.x.size(), call.residual);
    call.sum = static_cast<Sum>(wanted >> 4 & 3);
    // Empty is absent.
    if (call.residual.empty()) call.sum = Sum::kNowhere;
  }
  call.in_place = wanted & 1 && call.sum != Sum::kIntoX;
  call.mean_out = !(wanted & 2);
  call.variance_out = !(wanted & 4);
  call.inv_std_out = !(wanted & 8);
  call.x_offset = offsets & 3;
  call.y_offset = offsets >> 2 & 3;
  call.scale_offset = offsets >> 4 & 3;
  call.bias_offset = offsets >> 6 & 3;
  return made;
}

bool is_possible(const Operation& o, const Shape& shape, const Shape& axes, std::size_t groups, double p) {
  if (o == kLpNormalize) return p != 3;
  if (o == kInstanceNorm) return axes[0] > 0 || shape[0] == 0;
  return !(o == kGroupNorm) || (axes[0] > 0 && groups > 0 && shape[axes[0]] % groups == 0);
}
template <class T>
bool is_possible(const Operation& o, const CallOf<T>& call) {
  return is_possible(o, call.shape, call.axes, call.groups, call.p);
}

// ---------------------------------------------------------------- forward

template <class T>
void check_local_response(const Case& what, const CallOf<T>& call, const ValuesOf<T>& y) {
  const std::size_t axis = call.axes[0];
  const auto begin = call.shape.begin();
  const auto at = begin + static_cast<std::ptrdiff_t>(axis);
  const reference::Channels channels = {product({begin, at}), 1, *at, product({at + 1, call.shape.end()})};
  const Reals want =
      reference::local_response_norm(call.x, channels, call.size, call.alpha, call.beta, call.k);
  for (const Real value : want) {
    // Of infinity and NaN arithmetic makes what it makes.
    if (!std::isfinite(value)) return;
  }
  const double promise = (std::is_same_v<T, float> ? 2 : (4 + std::fabs(call.beta)) * 4) * kEpsilonOf<T>;
  check_near(
      what, "y", y, want,
      [&](std::size_t i) { return std::fabs(want[i]) + Real{std::numeric_limits<T>::min()}; }, promise);
}

/// Of floats and doubles, as far as there is a promise.
template <class T>
ResultOf<T> check_values(const Operation& o, const Made<T>& made) {
  CallOf<T> call = made.call;
  const bool is_compared = made.has_tame_parameters && !call.x.empty();
  const Case what = case_of(o, call, "fuzzed");
  if (is_compared && o == kBatchNorm && call.axes[0] == 0) {
    // The definition has items before the channels.
    const ResultOf<T> got = run(o, call);
    call.shape.insert(call.shape.begin(), 1);
    call.axes = {1};
    check_same(what, definition::check(o, call, "fuzzed"), got);
    return got;
  }
  if (is_compared && !(o == kLocalResponseNorm) && call.mean_out && call.variance_out && call.inv_std_out) {
    return definition::check(o, call, "fuzzed, epsilon " + text(call.epsilon));
  }
  const ResultOf<T> got = run(o, call);
  if (got.status != Status::kOk) FAIL(what.op << ": refused");
  if (is_compared && o == kLocalResponseNorm) check_local_response(what, call, got.y);
  return got;
}

ResultOf<Half> check_values(const Operation& o, const Made<Half>& made) {
  const Made<float> floats = {reference::as_floats(made.call), made.x, made.has_tame_parameters};
  const Result want = check_values(o, floats);
  const ResultOf<Half> got = run(o, made.call);
  const Case what = case_of(o, made.call, "fuzzed");
  if (got.status != Status::kOk) FAIL(what.op << ": refused");
  check_same(what, got,
             {want.status, reference::halves_of(want.y), want.mean, want.variance, want.inv_std, {}});
  if (made.call.sum != Sum::kNowhere) {
    check_bits(what, "residualOut", got.sum, reference::halves_of(sum_of(floats.call)));
  }
  return got;
}

template <class T>
void try_forward(Bytes& bytes, const Operation& o) {
  const Made<T> made = call_from<T>(bytes, o);
  CallOf<T> call = made.call;
  const Case what = case_of(o, call, "fuzzed");
  if (!is_possible(o, call)) {
    const ResultOf<T> got = run(o, call);
    if (got.status != Status::kAxes) FAIL(what.op << ": not refused");
    if (!(o == kMoments)) {
      check_bits(what, "y of a refused call", got.y,
                 call.in_place ? call.x : ValuesOf<T>(call.x.size(), canary<T>()));
    }
    return;
  }
  const ResultOf<T> got = check_values(o, made);
  // In place where it was not, and aligned.
  call.in_place = !call.in_place && call.sum != Sum::kIntoX;
  call.x_offset = call.y_offset = call.scale_offset = call.bias_offset = 0;
  check_same(what, run(o, call), got);
}

// ---------------------------------------------------------------- gradients

enum class Into { kOut, kX, kDy };

template <class T>
struct GradientCall {
  using Parameter = typename CallOf<T>::Parameter;

  CallOf<T> call;
  ValuesOf<T> dy;
  /// Empty: absent.
  ValuesOf<Parameter> inv_std;
  bool d_scale_out, d_bias_out;
  Into into;
};

template <class T>
struct GradientResult {
  using Parameter = typename CallOf<T>::Parameter;

  Status status;
  ValuesOf<T> dx;
  ValuesOf<Parameter> d_scale, d_bias;
};

std::size_t parameters_of(const Shape& shape, const Shape& axes) {
  std::size_t count = 1;
  for (const std::size_t axis : axes) count *= shape[axis];
  return count;
}

template <class T>
GradientResult<T> run_gradient(const Operation& backward, const GradientCall<T>& gradient) {
  using Parameter = typename CallOf<T>::Parameter;
  const CallOf<T>& call = gradient.call;
  const std::size_t parameters = parameters_of(call.shape, call.axes);
  const Input<T> x(call.x, call.x_offset), dy(gradient.dy, call.y_offset);
  const Input<Parameter> scale(call.scale, call.scale_offset), mean(call.mean, 0), variance(call.variance, 0),
      inv_std(gradient.inv_std, call.bias_offset);
  const Input<std::int32_t> lengths(call.lengths, 0);
  Output<T> dx(call.x.size(), call.y_offset);
  Output<Parameter> d_scale(gradient.d_scale_out ? parameters : 0, 1),
      d_bias(gradient.d_bias_out ? parameters : 0, 2);
  if (gradient.into == Into::kX) dx.put(call.x);
  if (gradient.into == Into::kDy) dx.put(gradient.dy);
  simdnorm::Arguments<T> arguments = {
      .shape = call.shape,
      .axes = call.axes,
      .x = gradient.into == Into::kX ? dx.data() : x.data(),
      .y = dx.data(),
      .dy = gradient.into == Into::kDy ? dx.data() : dy.data(),
      .scale = scale.data(),
      .mean = mean.data(),
      .variance = variance.data(),
      .inv_std = inv_std.data(),
      .lengths = lengths.data(),
      .epsilon = call.epsilon,
      .groups = call.groups,
      .p = call.p,
      .d_scale_out = gradient.d_scale_out ? d_scale.data() : nullptr,
      .d_bias_out = gradient.d_bias_out ? d_bias.data() : nullptr,
  };
  const std::uint64_t bytes = scratch_of(backward, arguments);
  ScratchMemory scratch(bytes);
  arguments.scratch = scratch.data();
  if (scratch_of(backward, arguments) != bytes) FAIL("the scratch needed depends on whether there is some");
  const Status status = run_on(backward, arguments);
  for (const Input<T>* input : {&x, &dy}) input->check();
  for (const Input<Parameter>* input : {&scale, &mean, &variance, &inv_std}) input->check();
  lengths.check();
  dx.check();
  d_scale.check();
  d_bias.check();
  scratch.check();
  const GradientResult<T> result = {status, dx.values(), d_scale.values(), d_bias.values()};
  if (status == Status::kOk && !call.x.empty()) {
    const Case what = case_of(backward, call, "outputs");
    check_written(what, "dx", result.dx);
    check_written(what, "dScale", result.d_scale);
    check_written(what, "dBias", result.d_bias);
  }
  return result;
}

/// For each value the number of its statistic and that of its scale.
struct Places {
  Shape group, parameter;
  std::size_t groups;
};

template <class T>
Places places_of(const Operation& o, const CallOf<T>& call) {
  const Shape& shape = call.shape;
  const std::size_t groups = statistics_of(o == kLpNormalize ? kMoments
                                           : o == kBatchNorm ? kBatchNormTraining
                                                             : o,
                                           call);
  const Shape parameter = reference::indices_along(shape, call.axes);
  if (is_over_axes(o)) {
    return {reference::indices_along(shape, reference::others(shape, call.axes)), parameter, groups};
  }
  if (o == kBatchNorm || o == kBatchNormTraining) return {parameter, parameter, groups};
  const std::size_t channels = shape[call.axes[0]], own = o == kGroupNorm ? call.groups : channels;
  Shape group = reference::indices_along(shape, {0});
  for (std::size_t e = 0; e < group.size(); ++e) {
    group[e] = group[e] * own + parameter[e] / (channels / own);
  }
  return {group, parameter, groups};
}

struct GradientReference {
  Reals dx, d_scale, d_bias;
  /// The sizes of what is added, which errors are measured by.
  Reals dx_size, d_scale_size, d_bias_size;
  /// Of values that the definition has no one gradient for, such as a norm that is nearly epsilon.
  bool is_certain = true;
};

template <class T>
GradientReference expected_gradient(const Operation& o, const GradientCall<T>& gradient) {
  using reference::Definition;
  const CallOf<T>& call = gradient.call;
  const Places places = places_of(o, call);
  const std::vector<bool> valid = reference::valid_elements(call.shape, call.lengths);
  const std::size_t size = call.x.size(), parameters = parameters_of(call.shape, call.axes);
  std::vector<Shape> members(places.groups);
  for (std::size_t e = 0; e < size; ++e) {
    if (valid[e]) members[places.group[e]].push_back(e);
  }
  GradientReference result;
  for (Reals* values : {&result.dx, &result.dx_size}) values->assign(size, 0);
  for (Reals* values : {&result.d_scale, &result.d_bias, &result.d_scale_size, &result.d_bias_size}) {
    values->assign(parameters, 0);
  }
  const Definition definition = o == kRmsNorm       ? Definition::kRootMeanSquare
                                : o == kLpNormalize ? definition::of_norm(call.p)
                                                    : Definition::kDeviation;
  const bool is_centered = definition == Definition::kDeviation, is_given = o == kBatchNorm;
  const auto one = Real{1};
  for (std::size_t group = 0; group < members.size(); ++group) {
    if (members[group].empty()) continue;
    Reals values;
    for (const std::size_t e : members[group]) values.push_back(call.x[e]);
    reference::Statistic statistic = reference::statistic_of(definition, values, call.epsilon);
    if (is_given) {
      statistic = {{call.mean[group], 0, call.variance[group]},
                   std::sqrt(Real{call.variance[group]} + Real{call.epsilon})};
    }
    Real inv = 1 / statistic.divisor;
    if (!gradient.inv_std.empty()) inv = gradient.inv_std[group];
    const auto normalized = [&](std::size_t e) {
      return ((call.x[e] - statistic.moments.pivot) - statistic.moments.rest) * inv;
    };
    const auto weighted = [&](std::size_t e) {
      return gradient.dy[e] * reference::scale_at(reference::exact(call.scale), places.parameter[e]);
    };
    // What dx goes along, beside h: nothing but the sign of x, of all or of the first largest value.
    Real largest = 0;
    for (const Real value : values) largest = std::max(largest, std::fabs(value));
    bool is_found = false;
    const auto direction_of = [&](std::size_t e) {
      if (definition != Definition::kNorm1 && definition != Definition::kNormInfinity) return normalized(e);
      const Real sign = (call.x[e] > 0) - (call.x[e] < 0);
      if (definition == Definition::kNorm1) return sign;
      const bool is_it = !is_found && std::fabs(call.x[e]) == largest;
      is_found = is_found || is_it;
      return is_it ? sign : 0;
    };
    Real g = 0, gh = 0, g_size = 0, gh_size = 0;
    const Real n = statistic.is_norm ? 1 : static_cast<Real>(values.size());
    for (const std::size_t e : members[group]) {
      const Real slope = weighted(e), h = normalized(e), size_of_h = std::max(one, std::fabs(h));
      g += slope / n;
      gh += slope * h / n;
      g_size += std::fabs(slope) / n;
      gh_size += std::fabs(slope) * (statistic.is_norm ? std::fabs(h) : size_of_h) / n;
      const std::size_t p = places.parameter[e];
      if (statistic.is_norm) continue;
      const Real dy = gradient.dy[e];
      result.d_scale[p] += dy * h;
      result.d_bias[p] += dy;
      result.d_scale_size[p] += std::fabs(dy) * size_of_h;
      result.d_bias_size[p] += std::fabs(dy);
    }
    if (!is_centered || is_given) g = g_size = 0;
    if (is_given) gh = gh_size = 0;
    // The derivative of a constant.
    if (statistic.is_norm && statistic.divisor <= call.epsilon) gh = gh_size = 0;
    if (statistic.is_norm) {
      const reference::Statistic norm = reference::statistic_of(definition, values, 0);
      if (std::fabs(norm.divisor - call.epsilon) <= 1e-6L * call.epsilon) result.is_certain = false;
    }
    for (const std::size_t e : members[group]) {
      const Real direction = direction_of(e);
      result.dx[e] = inv * (weighted(e) - g - direction * gh);
      const Real size_of_direction =
          statistic.is_norm ? std::fabs(direction) : std::max(one, std::fabs(direction));
      result.dx_size[e] = std::fabs(inv) * (std::fabs(weighted(e)) + g_size + size_of_direction * gh_size);
    }
  }
  return result;
}

/// What h = (x - mean) * inv_std is promised enters dx twice, by itself and in the mean of g * h; and two
/// roundings. (Sums have it once.)
template <class T>
inline constexpr double kGradientPromiseOf = 2 * kPromiseOf<T> + 2 * kEpsilonOf<T>;

template <class T>
bool is_finite(const ValuesOf<T>& values) {
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
}

template <class T>
void check_gradient(const Operation& o, const Case& what, const GradientCall<T>& gradient,
                    const GradientResult<T>& got) {
  const GradientReference want = expected_gradient(o, gradient);
  if (!want.is_certain) return;
  for (const Reals* values : {&want.dx, &want.d_scale, &want.d_bias}) {
    for (const Real value : *values) {
      if (!(std::fabs(value) < 1e30L)) return;
    }
  }
  for (const auto* values : {&got.dx}) {
    if (!is_finite(*values)) FAIL(what.op << " " << text(what.shape) << ": dx is not finite");
  }
  const auto check = [&](const char* name, const auto& values, const Reals& right, const Reals& sizes,
                         double bound) {
    if (values.empty()) return;
    check_near(
        what, name, values, right,
        [&](std::size_t i) { return sizes[i] + Real{std::numeric_limits<T>::min()}; }, bound);
  };
  check("dx", got.dx, want.dx, want.dx_size, kGradientPromiseOf<T>);
  check("dScale", got.d_scale, want.d_scale, want.d_scale_size, kAffinePromiseOf<T>);
  check("dBias", got.d_bias, want.d_bias, want.d_bias_size, kPromiseOf<T>);
}

template <class T>
void check_same(const Case& what, const GradientResult<T>& got, const GradientResult<T>& want) {
  check_bits(what, "dx", got.dx, want.dx);
  check_bits(what, "dScale", got.d_scale, want.d_scale);
  check_bits(what, "dBias", got.d_bias, want.d_bias);
}

bool is_tame(const Drawn& drawn, double epsilon) {
  if (drawn.kind == Kind::kLargeMean) return drawn.mean <= 1e4 * drawn.deviation && epsilon > 0;
  return (drawn.kind == Kind::kSmall || drawn.kind == Kind::kIntegers) && epsilon > 0;
}

template <class T>
void try_gradient(Bytes& bytes, const Operation& backward, const Operation& o) {
  Made<T> made = call_from<T>(bytes, o);
  GradientCall<T> gradient = {made.call, {}, {}, false, false, static_cast<Into>(bytes.below(3))};
  CallOf<T>& call = gradient.call;
  call.residual.clear();
  call.sum = Sum::kNowhere;
  call.in_place = false;
  call.bias.clear();
  const Drawn dy = draw_from<T>(bytes, call.x.size(), gradient.dy);
  const std::uint8_t wanted = bytes.next();
  gradient.d_scale_out = !(o == kLpNormalize) && !(wanted & 1);
  gradient.d_bias_out = !(o == kLpNormalize) && !(o == kRmsNorm) && !(wanted & 2);
  const Case what = case_of(backward, call, "fuzzed, epsilon " + text(call.epsilon));
  if (!is_possible(o, call)) {
    if (run_gradient(backward, gradient).status != Status::kAxes) FAIL(what.op << ": not refused");
    return;
  }
  if (wanted & 4 && has_parameters(o) && !(o == kBatchNorm)) {
    call.inv_std_out = true;
    gradient.inv_std = run(o, call).inv_std;
  }
  const GradientResult<T> got = run_gradient(backward, gradient);
  if (got.status != Status::kOk) FAIL(what.op << ": refused");
  const std::vector<bool> valid = reference::valid_elements(call.shape, call.lengths);
  for (std::size_t e = 0; e < got.dx.size(); ++e) {
    if (!valid[e] && bits_of(got.dx[e]) != 0) FAIL(what.op << ": what is past the lengths is not 0");
  }
  if constexpr (std::is_same_v<T, Half>) {
    const GradientCall<float> floats = {reference::as_floats(call), reference::values_of(gradient.dy),
                                        gradient.inv_std,           gradient.d_scale_out,
                                        gradient.d_bias_out,        Into::kOut};
    const GradientResult<float> want = run_gradient(backward, floats);
    check_same(what, got, {want.status, reference::halves_of(want.dx), want.d_scale, want.d_bias});
  } else {
    if (is_tame(made.x, call.epsilon) && is_tame(dy, 1) && made.has_tame_parameters) {
      check_gradient(o, what, gradient, got);
    }
  }
  gradient.into = gradient.into == Into::kOut ? Into::kX : Into::kOut;
  call.x_offset = call.y_offset = call.scale_offset = call.bias_offset = 0;
  check_same(what, run_gradient(backward, gradient), got);
}

template <class T>
void try_operation(Bytes& bytes, const Operation& o) {
  const std::string name = o.name;
  const std::size_t backward = name.find("Backward");
  if (backward == std::string::npos) return try_forward<T>(bytes, o);
  try_gradient<T>(bytes, o, operation(name.substr(0, backward)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const Operation& o = simdnorm::kOperations[bytes.below(std::size(simdnorm::kOperations))];
  switch (bytes.below(3)) {
    case 0:
      try_operation<float>(bytes, o);
      break;
    case 1:
      try_operation<double>(bytes, o);
      break;
    default:
      try_operation<Half>(bytes, o);
  }
  return 0;
}
