// What the gradients touch: their values are compared in JavaScript (tests/js/gradients.test.ts), where the references
// are, but only here do the sanitizers see them.

#include <cmath>
#include <numeric>

#include "call.h"
#include "catch.h"
#include "operations.h"

namespace {

/// Nothing past the ends of what an operation may write is written.
template <class T>
struct Guarded {
  static constexpr std::size_t kMargin = 64;
  std::vector<T> values;
  explicit Guarded(std::size_t count) : values(count + 2 * kMargin, T{123}) {}
  T* data() { return values.data() + kMargin; }
  bool is_whole() const {
    for (std::size_t i = 0; i < kMargin; ++i) {
      if (values[i] != T{123} || values[values.size() - 1 - i] != T{123}) return false;
    }
    return true;
  }
};

template <class T>
void try_gradient(const simdnorm::Operation& operation, const Shape& shape, const Shape& axes,
                  double deviation, double p, const std::vector<std::int32_t>& lengths) {
  const simdnorm::Kernel<T>& kernel = [&]() -> const simdnorm::Kernel<T>& {
    if constexpr (std::is_same_v<T, float>) {
      return operation.on_floats;
    } else {
      return operation.on_doubles;
    }
  }();
  const std::size_t size = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  std::vector<T> x(size), dy(size), ones(size, T{1});
  for (std::size_t i = 0; i < size; ++i) {
    x[i] = static_cast<T>(deviation * std::sin(static_cast<double>(i * i)));
    dy[i] = static_cast<T>(std::cos(static_cast<double>(3 * i)));
  }
  Guarded<T> dx(size), d_scale(size), d_bias(size);
  const std::string name = operation.name;
  const bool is_lp = name == "lpNormalizeBackward";
  simdnorm::Arguments<T> arguments = {
      .shape = shape,
      .axes = axes,
      .x = x.data(),
      .y = dx.data(),
      .dy = dy.data(),
      .scale = is_lp ? nullptr : ones.data(),
      .mean = ones.data(),
      .variance = ones.data(),
      .lengths = lengths.empty() ? nullptr : lengths.data(),
      .epsilon = 1,
      .p = p,
      .d_scale_out = is_lp ? nullptr : d_scale.data(),
      .d_bias_out = is_lp || name == "rmsNormBackward" ? nullptr : d_bias.data(),
  };
  // Exactly as much as is asked for, so that the sanitizers see what is touched beyond it.
  const std::size_t bytes = static_cast<std::size_t>(kernel.scratch(arguments));
  void* const scratch = bytes > 0 ? std::aligned_alloc(64, bytes) : nullptr;
  arguments.scratch = scratch;
  CHECK(kernel.run(arguments) == simdnorm::Status::kOk);
  std::free(scratch);
  INFO(name << " of " << size << " values, deviation " << deviation);
  CHECK(dx.is_whole());
  CHECK(d_scale.is_whole());
  CHECK(d_bias.is_whole());
  for (std::size_t i = 0; i < size; ++i) CHECK(std::isfinite(dx.data()[i]));
}

}  // namespace

TEMPLATE_TEST_CASE("gradients stay within their memory", "", float, double) {
  using T = TestType;
  const std::vector<std::int32_t> none;
  for (const simdnorm::Operation& operation : simdnorm::kOperations) {
    const std::string name = operation.name;
    if (name.find("Backward") == std::string::npos) continue;
    const bool is_over_axes =
        name == "layerNormBackward" || name == "rmsNormBackward" || name == "lpNormalizeBackward";
    // With an epsilon of 1: norms above it, below it, and of 0.
    for (const double deviation : {10.0, 1e-3, 0.0}) {
      for (const double p : {1.0, 2.0, HUGE_VAL}) {
        if (p != 2 && name != "lpNormalizeBackward") continue;
        for (const std::size_t columns : {1, 3, 4, 15, 16, 33}) {
          const Shape shape = {20, 3, columns};
          if (is_over_axes) {
            for (const Shape& axes :
                 {Shape{2}, Shape{0}, Shape{1}, Shape{0, 2}, Shape{2, 1}, Shape{0, 1, 2}}) {
              try_gradient<T>(operation, shape, axes, deviation, p, none);
            }
          } else {
            for (const Shape& axes : {Shape{1}, Shape{2}}) {
              try_gradient<T>(operation, shape, axes, deviation, p, none);
            }
          }
        }
      }
    }
    if (name == "layerNormBackward" || name == "rmsNormBackward") {
      std::vector<std::int32_t> lengths(20);
      for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int32_t>(i % 4);
      for (const Shape& axes : {Shape{2}, Shape{0}, Shape{1}, Shape{0, 2}}) {
        try_gradient<T>(operation, {20, 3, 4}, axes, 10, 2, lengths);
      }
    }
  }
}
