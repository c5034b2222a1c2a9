// Makes the embedded module of its text, which build.mjs has made. It is a module of its own, because engines interpret
// JavaScript until a loop has run for long: there this took a third of the time from load() to the first result.

#include <cstddef>
#include <cstdint>

/// Writes what it makes over what it has read: in the place of the first characters the table, then the bytes. Returns
/// where they end.
extern "C" __attribute__((export_name("decode"))) std::uint8_t* decode(std::uint8_t* text,
                                                                       const std::uint8_t* end) {
  constexpr std::size_t kTable = 3 * 90;
  const std::uint8_t* in = text;
  for (std::size_t i = 0; i < kTable; ++i, in += 2) {
    text[i] = static_cast<std::uint8_t>(16 * (in[0] - 'a') + (in[1] - 'a'));
  }
  std::uint8_t* out = text + 2 * kTable;
  while (in != end) {
    unsigned code = *in++;
    if (code < '%') code = 90 * (code - 31U) + *in++;
    *out++ = text[code - '%'];
  }
  return out;
}
