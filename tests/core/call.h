#pragma once
// Calls an operation as a careful program would check it: canaries on both sides of every output, memory that
// ends where its values end (so that AddressSanitizer sees what goes past them), padding that it sees being
// read, scratch of exactly the size that is asked for, and inputs that must come out unchanged.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>

#include "catch.h"
#include "compare.h"
#include "data.h"
#include "simdnorm.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMDNORM_TESTS_HAVE_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SIMDNORM_TESTS_HAVE_SANITIZER
#endif
#ifdef SIMDNORM_TESTS_HAVE_SANITIZER
#include <sanitizer/asan_interface.h>
inline constexpr bool kHasSanitizer = true;
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
inline constexpr bool kHasSanitizer = false;
#endif

/// Where all is slower, because a sanitizer watches or because long doubles are computed by software, one of a few
/// numbers is enough: the bits are those of the native build, which tries them all.
#ifdef __wasm__
inline constexpr std::size_t kThinning = 5;
#else
inline constexpr std::size_t kThinning = kHasSanitizer ? 5 : 1;
#endif

/// A NaN that no arithmetic makes. Before inputs as well: what is read by mistake poisons the result.
template <class T>
T canary();
template <>
inline float canary() {
  return std::nanf("0xca11");
}
template <>
inline double canary() {
  return std::nan("0xca11");
}
template <>
inline Half canary() {
  return {0x7e11};
}
template <>
inline std::int32_t canary() {
  return 0x7fffca11;
}
inline const float kCanary = canary<float>();

/// Outputs end where their memory ends where somebody watches that, and before a guard elsewhere.
inline constexpr std::size_t kGuard = 16, kGuardBehind = kHasSanitizer ? 0 : kGuard;

template <class T>
class Input {
 public:
  Input(const ValuesOf<T>& values, std::size_t offset)
      : values_(values), offset_(offset), memory_(offset, canary<T>()) {
    memory_.insert(memory_.end(), values.begin(), values.end());
    memory_.shrink_to_fit();
  }
  Input(const Input&) = delete;
  ~Input() { show(); }
  /// Null where there are no values.
  const T* data() const { return values_.empty() ? nullptr : memory_.data() + offset_; }
  /// Makes the sanitizer see any reading of these values.
  void hide(std::size_t begin, std::size_t end) {
    if (!values_.empty()) ASAN_POISON_MEMORY_REGION(data() + begin, (end - begin) * sizeof(T));
  }
  void check() const {
    show();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (bits_of(memory_[offset_ + i]) != bits_of(values_[i])) FAIL("an input was written at " << i);
    }
  }

 private:
  void show() const { ASAN_UNPOISON_MEMORY_REGION(memory_.data(), memory_.size() * sizeof(T)); }

  const ValuesOf<T>& values_;
  std::size_t offset_;
  ValuesOf<T> memory_;
};

template <class T>
class Output {
 public:
  Output(std::size_t count, std::size_t offset) : count_(count), begin_(kGuard + offset) {
    memory_.assign(begin_ + count + kGuardBehind, canary<T>());
  }
  T* data() { return memory_.data() + begin_; }
  void put(const ValuesOf<T>& values) { std::copy(values.begin(), values.end(), memory_.begin() + begin_); }
  ValuesOf<T> values() const { return {memory_.begin() + begin_, memory_.begin() + begin_ + count_}; }
  void check() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + count_;
      if (!inside && bits_of(memory_[i]) != bits_of(canary<T>())) {
        FAIL("written outside of an output, at " << static_cast<std::ptrdiff_t>(i - begin_));
      }
    }
  }

 private:
  std::size_t count_, begin_;
  ValuesOf<T> memory_;
};

/// Full of NaNs of every type at first.
class ScratchMemory {
 public:
  explicit ScratchMemory(std::size_t bytes)
      : bytes_(bytes), memory_(::operator new(bytes + kGuardBehind, kAlignment)) {
    std::memset(memory_, kFill, bytes + kGuardBehind);
  }
  ScratchMemory(const ScratchMemory&) = delete;
  ~ScratchMemory() { ::operator delete(memory_, kAlignment); }
  /// Null where none is needed.
  void* data() { return bytes_ ? memory_ : nullptr; }
  void check() const {
    for (std::size_t i = 0; i < kGuardBehind; ++i) {
      if (static_cast<const unsigned char*>(memory_)[bytes_ + i] != kFill) FAIL("written past the scratch");
    }
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  static constexpr unsigned char kFill = 0xff;
  std::size_t bytes_;
  void* memory_;
};

// ---------------------------------------------------------------- operations

using Operation = simdnorm::Operation;

inline const Operation& operation(const std::string& name) {
  for (const Operation& row : simdnorm::kOperations) {
    if (row.name == name) return row;
  }
  FAIL("no operation " << name);
  return simdnorm::kOperations[0];
}
inline const Operation& kLayerNorm = operation("layerNorm");
inline const Operation& kRmsNorm = operation("rmsNorm");
inline const Operation& kInstanceNorm = operation("instanceNorm");
inline const Operation& kGroupNorm = operation("groupNorm");
inline const Operation& kBatchNorm = operation("batchNorm");
inline const Operation& kBatchNormTraining = operation("batchNormTraining");
inline const Operation& kLpNormalize = operation("lpNormalize");
inline const Operation& kLocalResponseNorm = operation("localResponseNorm");
inline const Operation& kMoments = operation("moments");

inline bool operator==(const Operation& a, const Operation& b) { return &a == &b; }

inline simdnorm::Status run_on(const Operation& o, const simdnorm::Arguments<float>& a) {
  return o.on_floats.run(a);
}
inline simdnorm::Status run_on(const Operation& o, const simdnorm::Arguments<double>& a) {
  return o.on_doubles.run(a);
}
inline simdnorm::Status run_on(const Operation& o, const simdnorm::Arguments<Half>& a) {
  return simdnorm::run_on_halves(o.on_floats.run, a);
}
inline std::uint64_t scratch_of(const Operation& o, const simdnorm::Arguments<float>& a) {
  return o.on_floats.scratch(a);
}
inline std::uint64_t scratch_of(const Operation& o, const simdnorm::Arguments<double>& a) {
  return o.on_doubles.scratch(a);
}
inline std::uint64_t scratch_of(const Operation& o, const simdnorm::Arguments<Half>& a) {
  return simdnorm::scratch_on_halves(o.on_floats.scratch, a);
}

/// Where the sum of x and residual goes.
enum class Sum { kNowhere, kOut, kIntoX, kIntoResidual };

template <class T>
struct CallOf {
  using Parameter = typename simdnorm::Arguments<T>::Parameter;

  Shape shape = {}, axes = {};
  ValuesOf<T> x = {};
  // Empty: absent.
  ValuesOf<T> residual = {};
  ValuesOf<Parameter> scale = {}, bias = {}, mean = {}, variance = {};
  std::vector<std::int32_t> lengths = {};
  double epsilon = 1e-5;
  std::size_t groups = 1;
  double p = 2;
  std::size_t size = 1;
  double alpha = 1e-4, beta = 0.75, k = 1;
  bool in_place = false;
  Sum sum = Sum::kNowhere;
  bool mean_out = true, variance_out = true, inv_std_out = true;
  // In values.
  std::size_t x_offset = 0, y_offset = 0, scale_offset = 0, bias_offset = 0;
};
using Call = CallOf<float>;

template <class T>
struct ResultOf {
  using Parameter = typename simdnorm::Arguments<T>::Parameter;

  simdnorm::Status status;
  ValuesOf<T> y;
  ValuesOf<Parameter> mean, variance, inv_std;
  /// x + residual.
  ValuesOf<T> sum;
};
using Result = ResultOf<float>;

/// How many means an operation makes.
template <class T>
std::size_t statistics_of(const Operation& o, const CallOf<T>& call) {
  if (o == kBatchNorm || o == kLocalResponseNorm || o == kLpNormalize) return 0;
  if (o == kBatchNormTraining) return call.shape[call.axes[0]];
  if (o == kInstanceNorm) return call.shape[0] * call.shape[call.axes[0]];
  if (o == kGroupNorm) return call.shape[0] * call.groups;
  std::size_t count = 1;
  for (std::size_t axis = 0; axis < call.shape.size(); ++axis) {
    const bool reduced = std::find(call.axes.begin(), call.axes.end(), axis) != call.axes.end();
    count *= reduced ? 1 : call.shape[axis];
  }
  return count;
}

/// What a failure says of a call.
template <class T>
Case case_of(const Operation& o, const CallOf<T>& call, const std::string& data) {
  const char* type = std::is_same_v<T, float> ? "" : std::is_same_v<T, double> ? " of doubles" : " of halves";
  std::string what = "axes " + text(call.axes) + ", " + data;
  if (call.groups != 1) what += ", groups " + std::to_string(call.groups);
  if (call.p != 2) what += ", p " + text(call.p);
  if (!call.lengths.empty()) {
    const std::size_t shown = std::min<std::size_t>(call.lengths.size(), 12);
    what += ", lengths " +
            text(Shape(call.lengths.begin(), call.lengths.begin() + static_cast<std::ptrdiff_t>(shown)));
  }
  return {o.name + std::string(type), call.shape, what};
}

/// A canary is a NaN as well: where NaN is right, one left there would be taken for it.
template <class T>
void check_written(const Case& what, const char* output, const ValuesOf<T>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (bits_of(got[i]) != bits_of(canary<T>())) continue;
    FAIL(what.op << " " << text(what.shape) << " " << what.data << ": " << output << "[" << i
                 << "] is not written");
  }
}

template <class T>
ResultOf<T> run(const Operation& o, const CallOf<T>& call) {
  using Parameter = typename CallOf<T>::Parameter;
  Input<T> x(call.x, call.x_offset), residual(call.residual, call.y_offset);
  const Input<Parameter> scale(call.scale, call.scale_offset), bias(call.bias, call.bias_offset),
      mean(call.mean, 0), variance(call.variance, 0);
  const Input<std::int32_t> lengths(call.lengths, 0);
  // Halves are widened all at once, padding included.
  if (!call.lengths.empty() && !std::is_same_v<T, Half>) {
    const std::size_t place = product({call.shape.begin() + 2, call.shape.end()}),
                      size = call.shape[1] * place;
    for (std::size_t item = 0; item < call.shape[0]; ++item) {
      const std::size_t begin = item * size + static_cast<std::size_t>(call.lengths[item]) * place;
      x.hide(begin, (item + 1) * size);
      residual.hide(begin, (item + 1) * size);
    }
  }
  const std::size_t statistics = statistics_of(o, call);
  const bool has_y = !(o == kMoments), has_sum = call.sum != Sum::kNowhere;
  const bool in_place = call.in_place && has_y;
  const bool has_mean = statistics > 0 && !(o == kRmsNorm);
  Output<T> y(has_y ? call.x.size() : 0, call.y_offset), sum(has_sum ? call.x.size() : 0, call.x_offset);
  Output<Parameter> mean_out(has_mean ? statistics : 0, 0), variance_out(has_mean ? statistics : 0, 1),
      inv_std_out(statistics, 2);
  if (in_place) y.put(call.x);
  if (call.sum == Sum::kIntoX) sum.put(call.x);
  if (call.sum == Sum::kIntoResidual) sum.put(call.residual);
  simdnorm::Arguments<T> arguments = {
      .shape = call.shape,
      .axes = call.axes,
      .x = call.sum == Sum::kIntoX ? sum.data()
           : in_place              ? y.data()
                                   : x.data(),
      .y = has_y ? y.data() : nullptr,
      .residual = call.sum == Sum::kIntoResidual ? sum.data() : residual.data(),
      .residual_out = has_sum ? sum.data() : nullptr,
      .scale = scale.data(),
      .bias = bias.data(),
      .mean = mean.data(),
      .variance = variance.data(),
      .lengths = lengths.data(),
      .epsilon = call.epsilon,
      .groups = call.groups,
      .p = call.p,
      .size = call.size,
      .alpha = call.alpha,
      .beta = call.beta,
      .k = call.k,
      .mean_out = has_mean && call.mean_out ? mean_out.data() : nullptr,
      .variance_out = has_mean && call.variance_out ? variance_out.data() : nullptr,
      .inv_std_out = statistics > 0 && call.inv_std_out ? inv_std_out.data() : nullptr,
  };
  const std::uint64_t bytes = scratch_of(o, arguments);
  ScratchMemory scratch(bytes);
  arguments.scratch = scratch.data();
  if (scratch_of(o, arguments) != bytes) FAIL("the scratch needed depends on whether there is some");
  const simdnorm::Status status = run_on(o, arguments);
  for (const Input<T>* input : {&x, &residual}) input->check();
  for (const Input<Parameter>* input : {&scale, &bias, &mean, &variance}) input->check();
  lengths.check();
  for (const Output<T>* output : {&y, &sum}) output->check();
  for (const Output<Parameter>* output : {&mean_out, &variance_out, &inv_std_out}) output->check();
  scratch.check();
  const ResultOf<T> result = {
      status, y.values(), mean_out.values(), variance_out.values(), inv_std_out.values(), sum.values()};
  if (status == simdnorm::Status::kOk && !call.x.empty()) {
    const Case what = case_of(o, call, "outputs");
    check_written(what, "y", result.y);
    if (call.mean_out) check_written(what, "mean", result.mean);
    if (call.variance_out) check_written(what, "variance", result.variance);
    if (call.inv_std_out) check_written(what, "invStd", result.inv_std);
    check_written(what, "residualOut", result.sum);
  }
  return result;
}

/// Every output is equal to the bit.
template <class T>
void check_same(const Case& what, const ResultOf<T>& got, const ResultOf<T>& want) {
  check_bits(what, "y", got.y, want.y);
  check_bits(what, "mean", got.mean, want.mean);
  check_bits(what, "variance", got.variance, want.variance);
  check_bits(what, "invStd", got.inv_std, want.inv_std);
}

/// The last axis, unless others are asked for.
template <class T>
ResultOf<T> layer_norm(CallOf<T> call) {
  if (call.axes.empty()) call.axes = {call.shape.size() - 1};
  return run(kLayerNorm, call);
}

/// [n, c, s] or [n, c] by channel.
template <class T>
ResultOf<T> batch_norm_training(CallOf<T> call) {
  if (call.axes.empty()) call.axes = {1};
  return run(kBatchNormTraining, call);
}

template <class T>
ResultOf<T> batch_norm(CallOf<T> call) {
  if (call.axes.empty()) call.axes = {1};
  return run(kBatchNorm, call);
}

// The same for calls in braces, whose type is not deduced.
inline Result layer_norm(const Call& call) { return layer_norm<float>(call); }
inline Result batch_norm_training(const Call& call) { return batch_norm_training<float>(call); }
inline Result batch_norm(const Call& call) { return batch_norm<float>(call); }
inline Result moments(const Call& call) { return run(kMoments, call); }
