#pragma once
// Four floats or two doubles in one 128-bit register, with the operations that the kernels use.
//
// This is the only file that spells an intrinsic. WebAssembly's own are used in wasm, and SIMDe gives the
// same ones their meaning elsewhere, so that sanitizers and fuzzers run the very kernels that ship. Every
// operation here is exactly rounded by IEEE 754, which is why all engines and native builds agree to the bit.

#include <cstddef>
#include <type_traits>

#include "half.h"

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/wasm/simd128.h>
#endif

/// A function that is worth its place in the module once, but not wherever it is called.
#define SIMDNORM_ONCE [[gnu::noinline]]

namespace simdnorm {

struct f64x2 {
  static constexpr std::size_t kLanes = 2;
  v128_t bits;

  static f64x2 splat(double value) { return {wasm_f64x2_splat(value)}; }
  static f64x2 of(double a, double b) { return {wasm_f64x2_make(a, b)}; }
};

inline f64x2 load(const double* p) { return {wasm_v128_load(p)}; }
inline void store(double* p, f64x2 a) { wasm_v128_store(p, a.bits); }
inline f64x2 operator+(f64x2 a, f64x2 b) { return {wasm_f64x2_add(a.bits, b.bits)}; }
inline f64x2 operator-(f64x2 a, f64x2 b) { return {wasm_f64x2_sub(a.bits, b.bits)}; }
inline f64x2 operator*(f64x2 a, f64x2 b) { return {wasm_f64x2_mul(a.bits, b.bits)}; }
inline f64x2 operator/(f64x2 a, f64x2 b) { return {wasm_f64x2_div(a.bits, b.bits)}; }
inline f64x2 sqrt(f64x2 a) { return {wasm_f64x2_sqrt(a.bits)}; }
inline f64x2 abs(f64x2 a) { return {wasm_f64x2_abs(a.bits)}; }
/// NaN where one of them is.
inline f64x2 max(f64x2 a, f64x2 b) { return {wasm_f64x2_max(a.bits, b.bits)}; }
inline double first_lane(f64x2 a) { return wasm_f64x2_extract_lane(a.bits, 0); }
inline double last_lane(f64x2 a) { return wasm_f64x2_extract_lane(a.bits, 1); }
inline double sum_lanes(f64x2 a) { return first_lane(a) + last_lane(a); }
/// That of each.
inline f64x2 sum_lanes(f64x2 a, f64x2 b) {
  return f64x2{wasm_i64x2_shuffle(a.bits, b.bits, 0, 2)} + f64x2{wasm_i64x2_shuffle(a.bits, b.bits, 1, 3)};
}
/// Whether a is at most b in all lanes; not where one is NaN.
inline bool all_at_most(f64x2 a, f64x2 b) { return wasm_i64x2_all_true(wasm_f64x2_le(a.bits, b.bits)); }
/// 0 in the lanes where a is at most b; not where one is NaN.
inline f64x2 zero_where_at_most(f64x2 a, f64x2 b, f64x2 values) {
  return {wasm_v128_andnot(values.bits, wasm_f64x2_le(a.bits, b.bits))};
}
/// As for f32x4 below; count is 1.
inline f64x2 load_partial(const double* p, std::size_t, f64x2 fill) {
  return {wasm_v128_load64_lane(p, fill.bits, 0)};
}
inline void store_partial(double* p, std::size_t, f64x2 a) { wasm_v128_store64_lane(p, a.bits, 0); }

/// One value, for what is written for vectors as well.
inline bool all_at_most(double a, double b) { return a <= b; }
template <class T>
T zero_where_at_most(T a, T b, T value) {
  return a <= b ? 0 : value;
}
template <class V, class T>
V splat(T value) {
  if constexpr (std::is_arithmetic_v<V>) {
    return value;
  } else {
    return V::splat(value);
  }
}

struct f32x4 {
  static constexpr std::size_t kLanes = 4;
  v128_t bits;

  static f32x4 splat(float value) { return {wasm_f32x4_splat(value)}; }
};

inline f32x4 load(const float* p) { return {wasm_v128_load(p)}; }
inline void store(float* p, f32x4 a) { wasm_v128_store(p, a.bits); }
inline f32x4 operator+(f32x4 a, f32x4 b) { return {wasm_f32x4_add(a.bits, b.bits)}; }
inline f32x4 operator-(f32x4 a, f32x4 b) { return {wasm_f32x4_sub(a.bits, b.bits)}; }
inline f32x4 operator*(f32x4 a, f32x4 b) { return {wasm_f32x4_mul(a.bits, b.bits)}; }
inline f32x4 operator/(f32x4 a, f32x4 b) { return {wasm_f32x4_div(a.bits, b.bits)}; }
inline f32x4 abs(f32x4 a) { return {wasm_f32x4_abs(a.bits)}; }
/// NaN where one of them is.
inline f32x4 max(f32x4 a, f32x4 b) { return {wasm_f32x4_max(a.bits, b.bits)}; }

inline float first_lane(f32x4 a) { return wasm_f32x4_extract_lane(a.bits, 0); }
/// As a tree, so that the lanes are equal among themselves.
inline float sum_lanes(f32x4 a) {
  return (wasm_f32x4_extract_lane(a.bits, 0) + wasm_f32x4_extract_lane(a.bits, 1)) +
         (wasm_f32x4_extract_lane(a.bits, 2) + wasm_f32x4_extract_lane(a.bits, 3));
}
/// That of each.
inline f32x4 sum_lanes(const f32x4 (&a)[4]) {
  const v128_t ab = wasm_i32x4_shuffle(a[0].bits, a[1].bits, 0, 4, 1, 5);
  const v128_t cd = wasm_i32x4_shuffle(a[2].bits, a[3].bits, 0, 4, 1, 5);
  const v128_t last_ab = wasm_i32x4_shuffle(a[0].bits, a[1].bits, 2, 6, 3, 7);
  const v128_t last_cd = wasm_i32x4_shuffle(a[2].bits, a[3].bits, 2, 6, 3, 7);
  const auto sum = [](v128_t two, v128_t others) {
    return f32x4{wasm_i64x2_shuffle(two, others, 0, 2)} + f32x4{wasm_i64x2_shuffle(two, others, 1, 3)};
  };
  return sum(ab, cd) + sum(last_ab, last_cd);
}
/// As for f64x2.
inline f32x4 zero_where_at_most(f32x4 a, f32x4 b, f32x4 values) {
  return {wasm_v128_andnot(values.bits, wasm_f32x4_le(a.bits, b.bits))};
}

/// The first `count` (1 to 3) values at p; the other lanes come from `fill`. Reads nothing past them.
inline f32x4 load_partial(const float* p, std::size_t count, f32x4 fill) {
  v128_t bits = fill.bits;
  if (count == 1) return {wasm_v128_load32_lane(p, bits, 0)};
  bits = wasm_v128_load64_lane(p, bits, 0);
  if (count == 3) bits = wasm_v128_load32_lane(p + 2, bits, 2);
  return {bits};
}

/// Writes the first `count` (1 to 3) lanes and nothing past them.
inline void store_partial(float* p, std::size_t count, f32x4 a) {
  if (count == 1) {
    wasm_v128_store32_lane(p, a.bits, 0);
    return;
  }
  wasm_v128_store64_lane(p, a.bits, 0);
  if (count == 3) wasm_v128_store32_lane(p + 2, a.bits, 2);
}

/// Lanes 0 and 1, and lanes 2 and 3, as doubles: exact.
inline f64x2 widen_low(f32x4 a) { return {wasm_f64x2_promote_low_f32x4(a.bits)}; }
inline f64x2 widen_high(f32x4 a) {
  return {wasm_f64x2_promote_low_f32x4(wasm_i64x2_shuffle(a.bits, a.bits, 1, 1))};
}

/// Rounded to nearest, ties to even.
inline f32x4 narrow(f64x2 low, f64x2 high) {
  return {wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(low.bits), wasm_f32x4_demote_f64x2_zero(high.bits),
                             0, 2)};
}

/// Four halves as floats: exact.
inline f32x4 load(const Half* p) {
  const v128_t bits = wasm_u32x4_load16x4(p);
  const v128_t sign = wasm_i32x4_shl(wasm_v128_and(bits, wasm_i32x4_splat(0x8000)), 16);
  const v128_t magnitude = wasm_i32x4_shl(wasm_v128_and(bits, wasm_i32x4_splat(0x7fff)), 13);
  // Read as a float this is 2^112 times too small (the exponents' biases are 15 and 127), also where it is
  // subnormal. Infinity and NaN have exponent 31, which must become 255.
  const v128_t finite = wasm_f32x4_mul(magnitude, wasm_f32x4_splat(0x1p112f));
  const v128_t special = wasm_v128_or(magnitude, wasm_i32x4_splat(0x7f800000));
  const v128_t is_special = wasm_i32x4_gt(magnitude, wasm_i32x4_splat((31 << 23) - 1));
  return {wasm_v128_or(sign, wasm_v128_bitselect(special, finite, is_special))};
}

/// Four floats as halves, each rounded to nearest, ties to even: subnormals and overflow to infinity as well.
inline void store(Half* p, f32x4 a) {
  const v128_t magnitude = wasm_v128_and(a.bits, wasm_i32x4_splat(0x7fffffff));
  const v128_t sign = wasm_u32x4_shr(wasm_v128_xor(a.bits, magnitude), 16);
  // Adding half of a step less one, and one more where the last bit is odd, rounds; a carry runs into the
  // exponent, as it should.
  const v128_t odd = wasm_v128_and(wasm_u32x4_shr(magnitude, 13), wasm_i32x4_splat(1));
  const v128_t rounded = wasm_i32x4_add(wasm_i32x4_add(magnitude, wasm_i32x4_splat(0xfff)), odd);
  const v128_t normal = wasm_i32x4_sub(wasm_u32x4_shr(rounded, 13), wasm_i32x4_splat(112 << 10));
  // The steps of floats from 0.5 to 1 are those of subnormal halves, so an addition rounds to them.
  const v128_t half = wasm_f32x4_splat(0.5f);
  const v128_t subnormal = wasm_i32x4_sub(wasm_f32x4_add(magnitude, half), half);
  const v128_t is_subnormal = wasm_i32x4_lt(magnitude, wasm_i32x4_splat(113 << 23));
  const v128_t infinity = wasm_i32x4_splat(0x7c00);
  const v128_t finite = wasm_i32x4_min(wasm_v128_bitselect(subnormal, normal, is_subnormal), infinity);
  const v128_t is_nan = wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x7f800000));
  // One NaN: the sign of what operations make depends on the order of their operands, which compilers choose.
  const v128_t halves = wasm_v128_bitselect(wasm_i32x4_splat(0x7e00), wasm_v128_or(finite, sign), is_nan);
  wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4(halves, halves), 0);
}

/// The vector of a type's values.
template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using type = f32x4;
};
template <>
struct VectorOf<double> {
  using type = f64x2;
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr std::size_t kLanes = Vector<T>::kLanes;

}  // namespace simdnorm
