// What JavaScript calls. Only numbers cross: the address of a block that holds the arguments goes in, a
// status comes back. Everything is checked in JavaScript, where the values are known and errors can be
// worded.

#include <emscripten/bind.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "simdnorm.h"

namespace {

using simdnorm::Arguments;

constexpr std::size_t kMaxRank = 16;

/// The arguments of a call, as bindings/call.ts writes them. All pointers are addresses in the module's
/// memory, 0 where absent.
struct Call {
  double epsilon;
  const float* x;
  float* y;
  const float* scale;
  const float* bias;
  const float* mean;
  const float* variance;
  float* mean_out;
  float* variance_out;
  float* inv_std_out;
  std::size_t rank;
  std::size_t axis_count;
  std::size_t shape[kMaxRank];
  std::size_t axes[kMaxRank];
};
static_assert(sizeof(Call) == 8 + 4 * (11 + 2 * kMaxRank) + 4, "bindings/call.ts knows this layout");

template <std::size_t kOperation>
unsigned run(std::uintptr_t address) {
  const Call& call = *reinterpret_cast<const Call*>(address);
  const Arguments arguments = {
      .shape = {call.shape, call.rank},
      .axes = {call.axes, call.axis_count},
      .x = call.x,
      .y = call.y,
      .scale = call.scale,
      .bias = call.bias,
      .mean = call.mean,
      .variance = call.variance,
      .epsilon = call.epsilon,
      .mean_out = call.mean_out,
      .variance_out = call.variance_out,
      .inv_std_out = call.inv_std_out,
  };
  return static_cast<unsigned>(simdnorm::kOperations[kOperation].run(arguments));
}

template <std::size_t... kIndex>
void bind_operations(std::index_sequence<kIndex...>) {
  (emscripten::function(simdnorm::kOperations[kIndex].name, &run<kIndex>), ...);
}

/// Misaligned data costs the kernels 10 to 30% in cache, and malloc aligns to 8.
constexpr std::size_t kAlignment = 64;

/// Memory for a caller to fill; 0 where there is none. Not by aligned_alloc: that of emmalloc
/// (Emscripten 3.1.6) asks the system for memory that it then doesn't use, and asks again, so that large
/// blocks take twice their size.
std::uintptr_t allocate(std::size_t bytes) {
  const std::size_t room = bytes + kAlignment;
  void* block = room > bytes ? std::malloc(room) : nullptr;
  if (!block) return 0;
  // malloc aligns to 8 at least, so there are 8 bytes or more before the next multiple of 64: the block's
  // address fits.
  const std::uintptr_t address = (reinterpret_cast<std::uintptr_t>(block) / kAlignment + 1) * kAlignment;
  reinterpret_cast<void**>(address)[-1] = block;
  return address;
}

void release(std::uintptr_t address) { std::free(reinterpret_cast<void**>(address)[-1]); }

}  // namespace

EMSCRIPTEN_BINDINGS(simdnorm) {
  bind_operations(std::make_index_sequence<std::size(simdnorm::kOperations)>());
  emscripten::function("allocate", &allocate);
  emscripten::function("release", &release);
}
