// The floor of all kernels: as many bytes read and written once, by the instructions that they have.

#include <wasm_simd128.h>

/// Eight at a time, which V8 keeps in registers: of more loads in a row it spills some.
extern "C" __attribute__((export_name("copy"))) void copy(const v128_t* from, v128_t* to, unsigned vectors) {
  const v128_t* const end = from + vectors;
  for (const v128_t* const last = from + (vectors & ~7U); from != last; from += 8, to += 8) {
    const v128_t a = from[0], b = from[1], c = from[2], d = from[3];
    const v128_t e = from[4], f = from[5], g = from[6], h = from[7];
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    to[4] = e, to[5] = f, to[6] = g, to[7] = h;
  }
  while (from != end) *to++ = *from++;
}
