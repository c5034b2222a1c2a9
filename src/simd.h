#pragma once
// Four floats or two doubles in one 128-bit register, with the operations that the kernels use.
//
// This is the only file that spells an intrinsic. WebAssembly's own are used in wasm, and SIMDe gives the
// same ones their meaning elsewhere, so that sanitizers and fuzzers run the very kernels that ship. Every
// operation here is exactly rounded by IEEE 754, which is why all engines and native builds agree to the bit.

#include <cstddef>

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/wasm/simd128.h>
#endif

namespace simdnorm {

struct f64x2 {
  static constexpr std::size_t kLanes = 2;
  v128_t bits;

  static f64x2 splat(double value) { return {wasm_f64x2_splat(value)}; }
};

inline f64x2 load(const double* p) { return {wasm_v128_load(p)}; }
inline void store(double* p, f64x2 a) { wasm_v128_store(p, a.bits); }
inline f64x2 operator+(f64x2 a, f64x2 b) { return {wasm_f64x2_add(a.bits, b.bits)}; }
inline f64x2 operator-(f64x2 a, f64x2 b) { return {wasm_f64x2_sub(a.bits, b.bits)}; }
inline f64x2 operator*(f64x2 a, f64x2 b) { return {wasm_f64x2_mul(a.bits, b.bits)}; }
inline double sum_lanes(f64x2 a) {
  return wasm_f64x2_extract_lane(a.bits, 0) + wasm_f64x2_extract_lane(a.bits, 1);
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

/// As a tree, so that the lanes are equal among themselves.
inline float sum_lanes(f32x4 a) {
  return (wasm_f32x4_extract_lane(a.bits, 0) + wasm_f32x4_extract_lane(a.bits, 1)) +
         (wasm_f32x4_extract_lane(a.bits, 2) + wasm_f32x4_extract_lane(a.bits, 3));
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

}  // namespace simdnorm
