// What JavaScript calls. Only numbers cross: JavaScript writes the arguments to a block in the memory, a status comes
// back. Everything is checked in JavaScript, where the values are known and errors can be
// worded.

#include <emscripten/bind.h>
#include <emscripten/heap.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "simdnorm.h"

#ifdef SIMDNORM_REGISTERS_TYPES
/// What embind would say of types that it doesn't know. It knows all that are used here.
extern "C" const char* __getTypeName(const std::type_info*) { return nullptr; }
#else
/// embind words the names of types that it doesn't know with it, which can't be reached here. Without this the C
/// library's is linked: 4 KB.
extern "C" int siprintf(char* text, const char*, ...) {
  *text = 0;
  return 0;
}
#endif

/// Where the module's own memory ends, as the linker has it.
extern "C" char __heap_base;

/// The end of what embind has asked for.
static std::uintptr_t free_begin = reinterpret_cast<std::uintptr_t>(&__heap_base);

/// JavaScript divides the memory (allocator.ts). Only embind calls malloc, while it is initialized: it has what the memory
/// begins with, and keeps its some hundred bytes. A real malloc would be 2 KB.
extern "C" void* malloc(std::size_t bytes) {
  constexpr std::size_t kAlignment = 16;
  const std::uintptr_t begin = (free_begin + kAlignment - 1) / kAlignment * kAlignment;
  if (bytes > emscripten_get_heap_size() - begin) return nullptr;
  free_begin = begin + bytes;
  return reinterpret_cast<void*>(begin);
}
extern "C" void free(void*) {}

namespace {

using simdnorm::Arguments;

/// The arguments of a call, as bindings/call.ts writes them. All pointers are addresses in the module's
/// memory, 0 where absent.
struct Call {
  double epsilon;
  double p;
  double alpha;
  double beta;
  double k;
  const void* x;
  void* y;
  const void* dy;
  const void* residual;
  void* residual_out;
  const void* scale;
  const void* bias;
  const void* mean;
  const void* variance;
  const void* inv_std;
  const std::int32_t* lengths;
  void* mean_out;
  void* variance_out;
  void* inv_std_out;
  void* d_scale_out;
  void* d_bias_out;
  void* scratch;
  /// How much there is of it, and then how much there must be. kOnlyMeasure: that is all that is asked.
  std::size_t scratch_bytes;
  std::size_t dtype;
  std::size_t groups;
  std::size_t size;
  std::size_t rank;
  std::size_t axis_count;
  std::size_t shape[simdnorm::kMaxRank];
  std::size_t axes[simdnorm::kMaxRank];
};
static_assert(sizeof(Call) == 5 * 8 + 4 * (23 + 2 * simdnorm::kMaxRank) + 4,
              "bindings/block.ts knows this layout");

enum DType : std::size_t { kFloat32, kFloat64, kFloat16 };

constexpr std::size_t kOnlyMeasure = ~std::size_t{0};
/// Besides the core's statuses.
constexpr unsigned kMoreScratch = 100;

template <class T>
Arguments<T> arguments_of(const Call& call) {
  using Parameter = typename Arguments<T>::Parameter;
  const auto in = [](const void* address) { return static_cast<const Parameter*>(address); };
  const auto out = [](void* address) { return static_cast<Parameter*>(address); };
  return {
      .shape = {call.shape, call.rank},
      .axes = {call.axes, call.axis_count},
      .x = static_cast<const T*>(call.x),
      .y = static_cast<T*>(call.y),
      .dy = static_cast<const T*>(call.dy),
      .residual = static_cast<const T*>(call.residual),
      .residual_out = static_cast<T*>(call.residual_out),
      .scale = in(call.scale),
      .bias = in(call.bias),
      .mean = in(call.mean),
      .variance = in(call.variance),
      .inv_std = in(call.inv_std),
      .lengths = call.lengths,
      .epsilon = call.epsilon,
      .groups = call.groups,
      .p = call.p,
      .size = call.size,
      .alpha = call.alpha,
      .beta = call.beta,
      .k = call.k,
      .mean_out = out(call.mean_out),
      .variance_out = out(call.variance_out),
      .inv_std_out = out(call.inv_std_out),
      .d_scale_out = out(call.d_scale_out),
      .d_bias_out = out(call.d_bias_out),
      .scratch = call.scratch,
  };
}

/// Runs where there is scratch enough, and says how much that is.
template <class Scratch, class Run>
unsigned run_in_scratch(Call& call, Scratch scratch, Run run) {
  const std::size_t given = call.scratch_bytes;
  // More than there can be is said as the most.
  call.scratch_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(scratch(), kOnlyMeasure));
  if (given == kOnlyMeasure || given < call.scratch_bytes) return kMoreScratch;
  return static_cast<unsigned>(run());
}

template <class T>
unsigned run_on(Call& call, const simdnorm::Kernel<T>& kernel) {
  const Arguments<T> arguments = arguments_of<T>(call);
  return run_in_scratch(
      call, [&] { return kernel.scratch(arguments); }, [&] { return kernel.run(arguments); });
}

unsigned run_operation(Call& call, const simdnorm::Operation& operation) {
  if (call.dtype == kFloat32) return run_on(call, operation.on_floats);
  if (call.dtype == kFloat64) return run_on(call, operation.on_doubles);
  const Arguments<simdnorm::Half> arguments = arguments_of<simdnorm::Half>(call);
  const simdnorm::Kernel<float>& kernel = operation.on_floats;
  return run_in_scratch(
      call, [&] { return simdnorm::scratch_on_halves(kernel.scratch, arguments); },
      [&] { return simdnorm::run_on_halves(kernel.run, arguments); });
}

/// The arguments of the call that runs: there is one at a time. To pass its address would cost embind more than all
/// that is in it.
Call block;

std::uintptr_t block_address() { return reinterpret_cast<std::uintptr_t>(&block); }

template <std::size_t kOperation>
unsigned run() {
  return run_operation(block, simdnorm::kOperations[kOperation]);
}

template <std::size_t... kIndex>
void bind_operations(std::index_sequence<kIndex...>) {
  (emscripten::function(simdnorm::kOperations[kIndex].name, &run<kIndex>), ...);
}

/// Where the memory begins that JavaScript may divide: after the initialization nothing calls malloc.
std::uintptr_t free_memory() { return free_begin; }

bool resize(std::size_t bytes) { return emscripten_resize_heap(bytes); }

#ifdef SIMDNORM_REGISTERS_TYPES
/// As bind.cpp of Emscripten registers every type that there is.
void register_types() {
  using emscripten::internal::TypeID;
  emscripten::internal::_embind_register_void(TypeID<void>::get(), "void");
  emscripten::internal::_embind_register_bool(TypeID<bool>::get(), "bool", sizeof(bool), true, false);
  for (const auto type : {TypeID<unsigned>::get(), TypeID<unsigned long>::get()}) {
    emscripten::internal::_embind_register_integer(type, "unsigned", sizeof(unsigned), 0, ~0U);
  }
}
#else
void register_types() {}
#endif

}  // namespace

EMSCRIPTEN_BINDINGS(simdnorm) {
  register_types();
  bind_operations(std::make_index_sequence<std::size(simdnorm::kOperations)>());
  emscripten::function("block", &block_address);
  emscripten::function("begin", &free_memory);
  emscripten::function("resize", &resize);
}
