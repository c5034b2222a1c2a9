#pragma once
// What every operation takes and returns.

#include <cstddef>
#include <cstdint>

#include "half.h"
#include "view.h"

namespace simdnorm {

/// What parameters and statistics are, for x of a type.
template <class T>
struct ParameterOf {
  using type = T;
};
template <>
struct ParameterOf<Half> {
  using type = float;
};

/// What an operation works on; T is the type of x: float, double, or Half. Null or empty: absent. Each
/// operation's header says which members it uses.
///
/// Nothing may overlap what is written, except that y may be x (or dy), and residual_out x or residual. Alignment is
/// free; 64 bytes are fastest.
template <class T = float>
struct Arguments {
  using Parameter = typename ParameterOf<T>::type;

  /// The extents of x, row-major, the last one fastest; at most kMaxRank.
  Extents shape = {};
  /// The axes that share statistics, in any order, or the one channel axis.
  Extents axes = {};
  const T* x = nullptr;
  T* y = nullptr;
  /// Of a gradient: that of y. y is where that of x goes.
  const T* dy = nullptr;
  /// Added to x before anything else; the sum is rounded to T, and written to residual_out.
  const T* residual = nullptr;
  T* residual_out = nullptr;
  const Parameter* scale = nullptr;
  const Parameter* bias = nullptr;
  /// Statistics that are given.
  const Parameter* mean = nullptr;
  const Parameter* variance = nullptr;
  /// Of a gradient: what the forward call wrote to inv_std_out. Without it it is made again.
  const Parameter* inv_std = nullptr;
  /// How many places along axis 1 are valid in each item of axis 0.
  const std::int32_t* lengths = nullptr;
  /// In units of x squared, inside the root; for lp_normalize in units of x.
  double epsilon = 1e-5;
  /// Groups of channels.
  std::size_t groups = 1;
  /// The order of the norm: 1, 2 or infinity.
  double p = 2;
  /// Local response norm: channels in the window, and the constants of its formula.
  std::size_t size = 1;
  double alpha = 1e-4, beta = 0.75, k = 1;
  /// Statistics that are wanted, one for each group.
  Parameter* mean_out = nullptr;
  Parameter* variance_out = nullptr;
  Parameter* inv_std_out = nullptr;
  /// How many values each group has.
  double* count_out = nullptr;
  /// Of a gradient: those of scale and bias.
  Parameter* d_scale_out = nullptr;
  Parameter* d_bias_out = nullptr;
  /// Memory to work in, aligned to 64 bytes: as many as the operation's scratch function says.
  void* scratch = nullptr;
};

enum class Status : unsigned {
  kOk,
  /// The operation is not possible over these axes, with these groups or this norm.
  kAxes,
};

/// Takes pieces of Arguments::scratch. Of null it takes as well, to find out how much there must be: the pieces
/// are then nowhere, but not null, which would mean absent. Sizes are counted in 64 bits: what is needed may be more
/// than there are addresses.
class Scratch {
 public:
  explicit Scratch(void* memory) : address_(memory ? reinterpret_cast<std::uintptr_t>(memory) : kAlignment) {}

  template <class T>
  T* take(std::uint64_t count) {
    T* const piece = reinterpret_cast<T*>(address_ + static_cast<std::uintptr_t>(bytes_));
    bytes_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return piece;
  }
  std::uint64_t bytes() const { return bytes_; }
  /// What is left, for somebody else to take from.
  void* rest() const { return reinterpret_cast<void*>(address_ + static_cast<std::uintptr_t>(bytes_)); }

 private:
  static constexpr std::uint64_t kAlignment = 64;

  std::uintptr_t address_;
  std::uint64_t bytes_ = 0;
};

}  // namespace simdnorm
