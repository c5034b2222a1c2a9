#pragma once
// Calls an operation as a careful program would check it: canaries on both sides of every output, inputs that
// end where their memory ends (so that AddressSanitizer sees a read past them) and that must come out
// unchanged.

#include <cmath>
#include <cstdint>
#include <numeric>

#include "catch.h"
#include "compare.h"
#include "data.h"
#include "simdnorm.h"

/// A NaN that no arithmetic makes. Before inputs as well: what is read by mistake poisons the result.
inline const float kCanary = std::nanf("0xca11");

class Input {
 public:
  Input(const Values& values, std::size_t offset)
      : values_(values), offset_(offset), memory_(offset, kCanary) {
    memory_.insert(memory_.end(), values.begin(), values.end());
    memory_.shrink_to_fit();
  }
  /// Null where there are no values.
  const float* data() const { return values_.empty() ? nullptr : memory_.data() + offset_; }
  void check() const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (bits_of(memory_[offset_ + i]) != bits_of(values_[i])) {
        FAIL("an input was written at " << i);
      }
    }
  }

 private:
  Values values_;
  std::size_t offset_;
  Values memory_;
};

class Output {
 public:
  Output(std::size_t count, std::size_t offset) : count_(count), begin_(kGuard + offset) {
    memory_.assign(begin_ + count + kGuard, kCanary);
  }
  float* data() { return memory_.data() + begin_; }
  void put(const Values& values) { std::copy(values.begin(), values.end(), memory_.begin() + begin_); }
  Values values() const { return {memory_.begin() + begin_, memory_.begin() + begin_ + count_}; }
  void check() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + count_;
      if (!inside && bits_of(memory_[i]) != bits_of(kCanary)) {
        FAIL("written outside of an output, at " << static_cast<std::ptrdiff_t>(i - begin_));
      }
    }
  }

 private:
  static constexpr std::size_t kGuard = 16;
  std::size_t count_, begin_;
  Values memory_;
};

struct Call {
  Shape shape, axes;
  Values x;
  // Empty: absent.
  Values scale = {}, bias = {}, mean = {}, variance = {};
  double epsilon = 1e-5;
  bool in_place = false;
  bool mean_out = true, variance_out = true, inv_std_out = true;
  // In floats.
  std::size_t x_offset = 0, y_offset = 0, scale_offset = 0, bias_offset = 0;
};

struct Result {
  simdnorm::Status status;
  Values y, mean, variance, inv_std;
};

using Operation = simdnorm::Status (*)(const simdnorm::Arguments&);

/// How many means an operation makes.
inline std::size_t statistics_of(Operation run, const Call& call) {
  if (run == simdnorm::batch_norm) return 0;
  if (run == simdnorm::batch_norm_training) return call.shape[call.axes[0]];
  std::size_t count = product(call.shape);
  for (std::size_t axis : call.axes) count = call.shape[axis] ? count / call.shape[axis] : 0;
  return count;
}

inline Result run(Operation operation, const Call& call) {
  const Input x(call.x, call.x_offset), scale(call.scale, call.scale_offset),
      bias(call.bias, call.bias_offset), mean(call.mean, 0), variance(call.variance, 0);
  const std::size_t statistics = statistics_of(operation, call);
  Output y(operation == simdnorm::moments ? 0 : call.x.size(), call.y_offset);
  Output mean_out(statistics, 0), variance_out(statistics, 1), inv_std_out(statistics, 2);
  if (call.in_place) y.put(call.x);
  const simdnorm::Status status = operation({
      .shape = call.shape,
      .axes = call.axes,
      .x = call.in_place ? y.data() : x.data(),
      .y = operation == simdnorm::moments ? nullptr : y.data(),
      .scale = scale.data(),
      .bias = bias.data(),
      .mean = mean.data(),
      .variance = variance.data(),
      .epsilon = call.epsilon,
      .mean_out = call.mean_out ? mean_out.data() : nullptr,
      .variance_out = call.variance_out ? variance_out.data() : nullptr,
      .inv_std_out = call.inv_std_out ? inv_std_out.data() : nullptr,
  });
  for (const Input* input : {&x, &scale, &bias, &mean, &variance}) input->check();
  for (const Output* output : {&y, &mean_out, &variance_out, &inv_std_out}) output->check();
  return {status, y.values(), mean_out.values(), variance_out.values(), inv_std_out.values()};
}

inline Result layer_norm(Call call) {
  // The last axis, unless others are asked for.
  if (call.axes.empty()) call.axes = {call.shape.size() - 1};
  return run(simdnorm::layer_norm, call);
}

/// [n, c, s] or [n, c] by channel.
inline Result batch_norm_training(Call call) {
  if (call.axes.empty()) call.axes = {1};
  return run(simdnorm::batch_norm_training, call);
}

inline Result batch_norm(Call call) {
  if (call.axes.empty()) call.axes = {1};
  return run(simdnorm::batch_norm, call);
}

inline Result moments(const Call& call) { return run(simdnorm::moments, call); }
