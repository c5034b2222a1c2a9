#pragma once
// Numbers of any size.

#include <cmath>

#include "simd.h"

namespace simdnorm {

/// A double with an exponent of its own. Products of such neither overflow nor lose bits as subnormals, however far
/// beyond the range of doubles they are on the way to a result that is in it.
class Scaled {
 public:
  /// value * 2^exponent.
  SIMDNORM_ONCE explicit Scaled(double value, int exponent = 0) {
    // Of infinity and NaN there may be none.
    int own = 0;
    mantissa_ = std::frexp(value, &own);
    exponent_ = exponent + own;
  }
  double value() const { return std::ldexp(mantissa_, exponent_); }
  int exponent() const { return exponent_; }
  double mantissa() const { return mantissa_; }

  friend Scaled operator*(Scaled a, Scaled b) {
    return Scaled(a.mantissa_ * b.mantissa_, a.exponent_ + b.exponent_);
  }
  friend Scaled operator/(Scaled a, Scaled b) {
    return Scaled(a.mantissa_ / b.mantissa_, a.exponent_ - b.exponent_);
  }
  friend Scaled operator+(Scaled a, Scaled b) {
    if (a.mantissa_ == 0) return b;
    if (b.mantissa_ != 0 && a.exponent_ < b.exponent_) return b + a;
    return Scaled(a.mantissa_ + std::ldexp(b.mantissa_, b.exponent_ - a.exponent_), a.exponent_);
  }

 private:
  double mantissa_;
  int exponent_;
};

}  // namespace simdnorm
