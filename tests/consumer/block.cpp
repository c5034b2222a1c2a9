#include <simdnorm/simdnorm.h>

#include <cstdio>
#include <vector>

/// Memory to work in is aligned to 64 bytes.
struct alignas(64) Line {
  unsigned char bytes[64];
};

void print(const char* name, const std::vector<float>& values) {
  std::printf("%s", name);
  for (const float value : values) std::printf(" %.9g", value);
  std::printf("\n");
}

int main() {
  // Two tokens of four features, and each row by itself.
  const std::size_t shape[] = {2, 4}, axes[] = {1};
  std::vector<float> hidden = {1, 2, 3, 4, 5, 6, 8, 8};
  const std::vector<float> update = {1, 0, -1, 0, 2, 0, 0, 1};
  const std::vector<float> scale = {1, 1, 1, 2}, bias = {0, 0, 0, 0.5};

  // Layer norm, in place.
  if (simdnorm::layer_norm({.shape = shape,
                            .axes = axes,
                            .x = hidden.data(),
                            .y = hidden.data(),
                            .scale = scale.data(),
                            .bias = bias.data()}) != simdnorm::Status::kOk) {
    return 1;
  }
  print("hidden", hidden);

  // The skip connection and the RMS norm after it: hidden becomes the sum.
  std::vector<float> y(hidden.size()), inv_std(2);
  if (simdnorm::rms_norm({.shape = shape,
                          .axes = axes,
                          .x = update.data(),
                          .y = y.data(),
                          .residual = hidden.data(),
                          .residual_out = hidden.data(),
                          .scale = scale.data(),
                          .inv_std_out = inv_std.data()}) != simdnorm::Status::kOk) {
    return 1;
  }
  print("y", y);

  // The gradient of the sum of y. Gradients need memory to work in, and say how much.
  const std::vector<float> dy(y.size(), 1);
  std::vector<float> dx(y.size()), d_scale(scale.size());
  simdnorm::Arguments<> gradient = {.shape = shape,
                                    .axes = axes,
                                    .x = hidden.data(),
                                    .y = dx.data(),
                                    .dy = dy.data(),
                                    .scale = scale.data(),
                                    .inv_std = inv_std.data(),
                                    .d_scale_out = d_scale.data()};
  const auto bytes = static_cast<std::size_t>(simdnorm::rms_norm_backward_scratch(gradient));
  std::vector<Line> scratch(bytes / sizeof(Line));
  gradient.scratch = scratch.data();
  if (simdnorm::rms_norm_backward(gradient) != simdnorm::Status::kOk) return 1;
  print("dx", dx);
  print("dScale", d_scale);
}
