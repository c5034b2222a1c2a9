#include "half.h"

#include "call.h"
#include "half_reference.h"

using reference::half_of;
using reference::halves_of;
using reference::value_of;
using reference::values_of;
using simdnorm::narrow;
using simdnorm::Status;
using simdnorm::widen;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Values widened(const ValuesOf<Half>& x) {
  const Input<Half> from(x, 3);
  Output<float> to(x.size(), 1);
  widen(from.data(), to.data(), x.size());
  from.check();
  to.check();
  return to.values();
}

ValuesOf<Half> narrowed(const Values& x) {
  const Input<float> from(x, 1);
  Output<Half> to(x.size(), 3);
  narrow(from.data(), to.data(), x.size());
  from.check();
  to.check();
  return to.values();
}

void check_narrow(const Values& x, const std::string& data) {
  check_bits({"narrow", {x.size()}, data}, "y", narrowed(x), halves_of(x));
}

ValuesOf<Half> every_half() {
  ValuesOf<Half> result;
  for (unsigned bits = 0; bits < 65536; ++bits) result.push_back({static_cast<std::uint16_t>(bits)});
  return result;
}

/// A value, and one float below and above it, of both signs.
void add_around(Values& values, float value) {
  for (const float sign : {1.0f, -1.0f}) {
    for (const float around : {std::nextafter(value, -kInfinity), value, std::nextafter(value, kInfinity)}) {
      values.push_back(sign * around);
    }
  }
}

}  // namespace

// ---------------------------------------------------------------- conversions

TEST_CASE("every half is widened exactly") {
  const ValuesOf<Half> halves = every_half();
  const Values got = widened(halves);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const double want = value_of(halves[i]);
    if (std::isnan(want) ? std::isnan(got[i]) : got[i] == want && std::signbit(got[i]) == std::signbit(want))
      continue;
    FAIL("half " << text_of(halves[i]) << ": expected " << want << ", got " << got[i]);
  }
}

TEST_CASE("every half comes back from its float") {
  const ValuesOf<Half> halves = every_half();
  check_bits({"narrow", {halves.size()}, "of all halves"}, "y", narrowed(widened(halves)), halves);
}

TEST_CASE("the middle of two halves becomes the even one, and what is beside it the nearer one") {
  Values values;
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const double low = value_of({static_cast<std::uint16_t>(bits)});
    // Past the largest half, infinity stands where the next step would be.
    const double high = bits == 0x7bff ? 65536 : value_of({static_cast<std::uint16_t>(bits + 1)});
    add_around(values, static_cast<float>((low + high) / 2));
    add_around(values, static_cast<float>(low));
  }
  check_narrow(values, "middles");
}

TEST_CASE("narrow: where halves end") {
  const auto half = [](float value) { return narrowed({value})[0].bits; };
  CHECK(half(65504) == 0x7bff);
  CHECK(half(std::nextafter(65520.0f, 0.0f)) == 0x7bff);
  CHECK(half(65520) == 0x7c00);
  CHECK(half(-65520) == 0xfc00);
  CHECK(half(3.4e38f) == 0x7c00);
  CHECK(half(kInfinity) == 0x7c00);
  CHECK(half(-kInfinity) == 0xfc00);
  // Subnormals: the least is 2^-24, the largest 1023 times that.
  CHECK(half(0x1p-24f) == 1);
  CHECK(half(0x1p-25f) == 0);
  CHECK(half(std::nextafter(0x1p-25f, 1.0f)) == 1);
  CHECK(half(0x1.8p-24f) == 2);
  CHECK(half(1023 * 0x1p-24f) == 0x3ff);
  CHECK(half(1023.5f * 0x1p-24f) == 0x400);
  CHECK(half(1e-40f) == 0);
  CHECK(half(-1e-40f) == 0x8000);
  CHECK(half(0.0f) == 0);
  CHECK(half(-0.0f) == 0x8000);
}

TEST_CASE("narrow: NaN of every kind stays NaN") {
  for (const std::uint32_t bits :
       {0x7f800001u, 0x7fa00000u, 0x7fc00000u, 0x7fffffffu, 0x7f802000u, 0xff800001u, 0xffffffffu}) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    const Half half = narrowed({value})[0];
    INFO(std::hex << bits << " became " << half.bits);
    CHECK(is_nan(half));
  }
}

TEST_CASE("narrow rounds any float once") {
  Random random(1);
  for (int round = 0; round < 30; ++round) {
    Values values(10000);
    for (float& value : values) {
      // Half of them anywhere, the others where halves are.
      const std::uint32_t bits = random.next();
      std::memcpy(&value, &bits, sizeof value);
      if (random.below(2))
        value =
            static_cast<float>(std::ldexp(random.between(-2, 2), static_cast<int>(random.below(44)) - 27));
    }
    check_narrow(values, "random bits");
  }
}

TEST_CASE("conversions of every length touch nothing else, and in place") {
  for (std::size_t count = 0; count <= 67; ++count) {
    const Values x = draw(count, 1, 1, 100);
    const ValuesOf<Half> halves = halves_of(x);
    check_narrow(x, "every length");
    check_bits({"widen", {count}, "every length"}, "y", widened(halves), values_of(halves));
    // y begins where x does.
    Values room = x;
    std::vector<unsigned char> bytes(4 * count);
    if (count > 0) narrow(room.data(), reinterpret_cast<Half*>(room.data()), count);
    ValuesOf<Half> in_place(count);
    if (count > 0) std::memcpy(in_place.data(), room.data(), 2 * count);
    check_bits({"narrow", {count}, "in place"}, "y", in_place, halves);
  }
}

// ---------------------------------------------------------------- operations

namespace {

/// The operation on floats, rounded once: in place and out of place, with the sum wherever it may go.
void check_halves(const Operation& operation, CallOf<Half> call, const std::string& data) {
  const Call floats = reference::as_floats(call);
  const Result want = run(operation, floats);
  Values sum = floats.x;
  const std::size_t place = call.lengths.empty() ? 0 : product({call.shape.begin() + 2, call.shape.end()});
  for (std::size_t item = 0; item < call.lengths.size(); ++item) {
    const std::size_t size = call.shape[1] * place;
    std::fill(sum.begin() + item * size + static_cast<std::size_t>(call.lengths[item]) * place,
              sum.begin() + (item + 1) * size, 0.0f);
  }
  for (const bool in_place : {false, true}) {
    for (const Sum where : {Sum::kNowhere, Sum::kOut, Sum::kIntoX, Sum::kIntoResidual}) {
      if (where != Sum::kNowhere && (call.residual.empty() || (in_place && where == Sum::kIntoX))) continue;
      call.in_place = in_place;
      call.sum = where;
      call.x_offset = in_place;
      const ResultOf<Half> got = run(operation, call);
      const Case what = case_of(operation, call, data + (in_place ? ", in place" : ""));
      if (got.status != want.status) FAIL(what.op << ": status");
      check_bits(what, "y", got.y, halves_of(want.y));
      check_bits(what, "mean", got.mean, want.mean);
      check_bits(what, "variance", got.variance, want.variance);
      check_bits(what, "invStd", got.inv_std, want.inv_std);
      if (where != Sum::kNowhere) check_bits(what, "residualOut", got.sum, halves_of(sum));
    }
  }
}

ValuesOf<Half> draw_halves(const Shape& shape, std::uint32_t seed, double mean = 1, double deviation = 2) {
  return halves_of(draw(product(shape), seed, mean, deviation));
}

}  // namespace

TEST_CASE("every operation on halves is the operation on floats, rounded once") {
  for (std::size_t length = 0; length <= 300; length += length < 40 ? 1 : 37) {
    for (const double deviation : {2.0, 1e-6, 1e4}) {
      const auto draw_x = [&](const Shape& shape) { return draw_halves(shape, 1, deviation, deviation); };
      const Shape rows = {3, length}, middle = {2, length, 3};
      for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kLpNormalize, &kMoments}) {
        for (const double p : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
          if (p != 2 && !(*operation == kLpNormalize)) continue;
          CallOf<Half> call = {.shape = rows, .axes = {1}, .x = draw_x(rows), .p = p};
          check_halves(*operation, call, "rows");
          check_halves(*operation, {.shape = middle, .axes = {1}, .x = draw_x(middle), .p = p},
                       "middle axis");
          if (*operation == kLpNormalize || *operation == kMoments) continue;
          call.scale = draw(length, 2, 1);
          check_halves(*operation, call, "scale");
          check_halves(*operation,
                       {.shape = middle, .axes = {2, 0}, .x = draw_x(middle), .scale = draw(6, 3, 1)},
                       "axes in turns, scale");
        }
      }
      const Shape first = {2, 4, length}, last = {2, 3, 2 * length};
      check_halves(kInstanceNorm, {.shape = first, .axes = {1}, .x = draw_x(first), .scale = draw(4, 4, 1)},
                   "first");
      check_halves(kGroupNorm,
                   {.shape = first, .axes = {1}, .x = draw_x(first), .bias = draw(4, 4, 1), .groups = 2},
                   "first");
      check_halves(
          kGroupNorm,
          {.shape = last, .axes = {2}, .x = draw_x(last), .scale = draw(2 * length, 4, 1), .groups = 2},
          "last");
      check_halves(
          kBatchNorm,
          {.shape = first, .axes = {1}, .x = draw_x(first), .mean = draw(4, 5), .variance = draw(4, 6, 9)},
          "first");
      check_halves(kBatchNormTraining, {.shape = first, .axes = {1}, .x = draw_x(first), .bias = draw(4, 7)},
                   "first");
      check_halves(kBatchNormTraining, {.shape = rows, .axes = {1}, .x = draw_x(rows)}, "last");
      check_halves(kLocalResponseNorm,
                   {.shape = first, .axes = {1}, .x = draw_x(first), .size = 3, .alpha = 0.5, .beta = 0.7},
                   "first");
    }
  }
}

TEST_CASE("halves with residual: the sum is rounded before it is normalized") {
  for (std::size_t length = 1; length <= 400; length += length < 40 ? 1 : 29) {
    for (const double deviation : {2.0, 1e-7, 3e4}) {
      const Shape rows = {3, length}, turns = {2, length, 2};
      for (const Operation* operation : {&kLayerNorm, &kRmsNorm}) {
        check_halves(*operation,
                     {.shape = rows,
                      .axes = {1},
                      .x = draw_halves(rows, 8, deviation, deviation),
                      .residual = draw_halves(rows, 9, deviation, deviation)},
                     "residual");
        check_halves(*operation,
                     {.shape = turns,
                      .axes = {0, 2},
                      .x = draw_halves(turns, 10),
                      .residual = draw_halves(turns, 11),
                      .scale = draw(4, 12, 1)},
                     "residual, axes in turns");
      }
    }
  }
}

TEST_CASE("halves with lengths: what is past them is read by nobody who minds, and becomes 0") {
  for (const Shape& shape : {Shape{3, 5}, Shape{4, 7, 3}, Shape{3, 4, 2, 5}, Shape{3, 1, 40}}) {
    const auto extent = static_cast<std::int32_t>(shape[1]);
    const std::vector<std::int32_t> lengths = {extent, 0, extent / 2, 1};
    const std::vector<std::int32_t> own(lengths.begin(),
                                        lengths.begin() + static_cast<std::ptrdiff_t>(shape[0]));
    const std::size_t place = product({shape.begin() + 2, shape.end()});
    ValuesOf<Half> x = draw_halves(shape, 13), residual = draw_halves(shape, 14);
    for (std::size_t item = 0; item < shape[0]; ++item) {
      const std::size_t size = shape[1] * place;
      for (std::size_t i = static_cast<std::size_t>(own[item]) * place; i < size; ++i) {
        // A signalling NaN, and infinity.
        x[item * size + i] = {static_cast<std::uint16_t>(i % 2 ? 0x7d11 : 0x7c00)};
        residual[item * size + i] = {static_cast<std::uint16_t>(i % 2 ? 0xfc00 : 0x7d22)};
      }
    }
    for (unsigned set = 1; set < 1u << shape.size(); ++set) {
      Shape axes;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (set >> axis & 1) axes.push_back(axis);
      }
      CallOf<Half> call = {.shape = shape, .axes = axes, .x = x, .lengths = own};
      for (const Operation* operation : {&kLayerNorm, &kRmsNorm, &kMoments})
        check_halves(*operation, call, "padding");
      call.residual = residual;
      for (const Operation* operation : {&kLayerNorm, &kRmsNorm})
        check_halves(*operation, call, "padding, residual");
    }
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis == 1) continue;
      check_halves(kBatchNormTraining, {.shape = shape, .axes = {axis}, .x = x, .lengths = own}, "padding");
    }
  }
}

TEST_CASE("halves: results that are no halves") {
  const Shape shape = {2, 16};
  check_halves(kLayerNorm,
               {.shape = shape, .axes = {1}, .x = draw_halves(shape, 15), .scale = Values(16, 1e6f)},
               "overflow");
  check_halves(kLayerNorm,
               {.shape = shape, .axes = {1}, .x = draw_halves(shape, 15), .scale = Values(16, 1e-7f)},
               "subnormals");
  // Sums that overflow, whose statistics are NaN.
  check_halves(kLayerNorm,
               {.shape = shape,
                .axes = {1},
                .x = ValuesOf<Half>(32, half_of(65504)),
                .residual = ValuesOf<Half>(32, half_of(16))},
               "overflow in the sum");
}

TEST_CASE("halves: what is refused is not written") {
  const CallOf<Half> call = {.shape = {2, 5}, .axes = {1}, .x = draw_halves({2, 5}, 16), .groups = 2};
  const ResultOf<Half> got = run(kGroupNorm, call);
  CHECK(got.status == Status::kAxes);
  check_all({"groupNorm of halves", call.shape, "refused"}, "y", got.y, canary<Half>());
}
