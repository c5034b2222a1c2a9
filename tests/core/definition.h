#pragma once
// What the definitions (reference.h) say of a call, and whether an operation does it.

#include "call.h"
#include "reference.h"

namespace definition {

inline reference::Channels channels_of(const Shape& shape, std::size_t axis) {
  return {shape[0], product({shape.begin() + 1, shape.begin() + axis}), shape[axis],
          product({shape.begin() + axis + 1, shape.end()})};
}

inline reference::Definition of_norm(double p) {
  if (p == 1) return reference::Definition::kNorm1;
  return p == 2 ? reference::Definition::kNorm2 : reference::Definition::kNormInfinity;
}

/// What is normalized: x, or the sum with residual as T has it.
template <class T>
ValuesOf<T> sum_of(const CallOf<T>& call) {
  ValuesOf<T> sum = call.x;
  for (std::size_t i = 0; i < call.residual.size(); ++i) sum[i] = call.x[i] + call.residual[i];
  const std::vector<bool> valid = reference::valid_elements(call.shape, call.lengths);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = valid[i] ? sum[i] : 0;
  return sum;
}

template <class T>
reference::Result expected(const Operation& o, const CallOf<T>& call) {
  using reference::Definition;
  const ValuesOf<T> x = sum_of(call);
  const auto over = [&](Definition definition, const Shape& axes, const Shape& parameters) {
    return reference::normalize(definition, x, call.shape, axes, parameters, call.lengths, call.scale,
                                call.bias, call.epsilon);
  };
  const auto by_groups = [&](std::size_t groups) {
    return reference::group_norm(x, channels_of(call.shape, call.axes[0]), groups, call.scale, call.bias,
                                 call.epsilon);
  };
  if (o == kGroupNorm) return by_groups(call.groups);
  if (o == kInstanceNorm) return by_groups(call.shape[call.axes[0]]);
  if (o == kBatchNormTraining) {
    return over(Definition::kDeviation, reference::others(call.shape, call.axes), call.axes);
  }
  if (o == kBatchNorm) {
    const reference::Channels c = channels_of(call.shape, call.axes[0]);
    const bool first = call.axes[0] == 0;
    return reference::batch_norm(x, {first ? 1 : c.items * c.before, c.channels, c.after, 1}, call.mean,
                                 call.variance, call.scale, call.bias, call.epsilon);
  }
  if (o == kRmsNorm) return over(Definition::kRootMeanSquare, call.axes, call.axes);
  if (o == kLpNormalize) return over(of_norm(call.p), call.axes, call.axes);
  return over(Definition::kDeviation, call.axes, call.axes);
}

/// Statistics are as good as y asks for.
template <class T>
void check_statistics(const Case& what, const ResultOf<T>& got, const reference::Result& want) {
  constexpr Real kMin = std::numeric_limits<T>::min();
  const auto relative = [&](const Reals& values) {
    // What is subnormal has no relative error to speak of.
    return [&](std::size_t i) { return std::fabs(values[i]) + kMin; };
  };
  if (!got.mean.empty()) {
    const auto mean_magnitude = [&](std::size_t i) {
      return std::fabs(want.mean[i]) / 2 + 5 * std::sqrt(want.variance[i]) + kMin;
    };
    check_near(what, "mean", got.mean, want.mean, mean_magnitude, kEpsilonOf<T>);
    check_near(what, "variance", got.variance, want.variance, relative(want.variance), 2 * kPromiseOf<T>);
  }
  if (!got.inv_std.empty()) {
    check_near(what, "invStd", got.inv_std, want.inv_std, relative(want.inv_std), kPromiseOf<T>);
  }
}

/// y and everything else that an operation makes of floats or doubles, except for local response norm.
template <class T>
ResultOf<T> check(const Operation& o, const CallOf<T>& call, const std::string& data) {
  const Case what = case_of(o, call, data);
  const ResultOf<T> got = run(o, call);
  if (got.status != simdnorm::Status::kOk)
    FAIL(what.op << " " << text(what.shape) << " " << what.data << ": refused");
  const reference::Result want = expected(o, call);
  if (o == kLpNormalize) {
    constexpr Real kMin = std::numeric_limits<T>::min();
    check_near(
        what, "y", got.y, want.y, [&](std::size_t i) { return std::fabs(want.y[i]) + kMin; }, kPromiseOf<T>);
  } else if (!(o == kMoments)) {
    const auto magnitude = [&](std::size_t i) {
      // Padding is 0 exactly.
      return want.magnitude[i] == 0 ? std::numeric_limits<Real>::min() : want.magnitude[i];
    };
    const bool has_parameters = !call.scale.empty() || !call.bias.empty();
    check_near(what, "y", got.y, want.y, magnitude, has_parameters ? kAffinePromiseOf<T> : kPromiseOf<T>);
  }
  check_statistics(what, got, want);
  if (call.sum != Sum::kNowhere) check_bits(what, "residualOut", got.sum, sum_of(call));
  return got;
}

}  // namespace definition
