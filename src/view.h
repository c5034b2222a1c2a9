#pragma once
// What a normalization does to memory, in six integers. Nothing else in this library knows about axes.

#include <cstddef>
#include <optional>
#include <span>

namespace simdnorm {

/// x, row-major, read as [outer, rows, groups, cols].
///
/// Statistics: one mean and variance for each (outer, group), over rows x cols.
/// Parameters: element e (flat) uses scale and bias number (e / inner) % channels.
struct View {
  std::size_t outer, rows, groups, cols;
  std::size_t channels, inner;

  std::size_t size() const { return outer * rows * groups * cols; }
  /// How many means and variances there are, and over how many values each goes.
  std::size_t statistics() const { return outer * groups; }
  std::size_t count() const { return rows * cols; }

  friend bool operator==(const View&, const View&) = default;
};

using Extents = std::span<const std::size_t>;

std::size_t product(Extents extents);

/// Statistics over a set of axes (in ascending order), parameters along them: layer norm and its kin.
/// Empty where the axes alternate with the others so often that four extents cannot say it, such as axes 0
/// and 2 of rank 4. The parameters repeat only where the axes are neighbours (extents of 1 aside): elsewhere
/// channels is 0.
std::optional<View> view_over_axes(Extents shape, Extents axes);

/// Statistics over each item of axis 0 and each group of neighbouring channels, parameters along the channels:
/// group norm, and instance norm, where every channel is a group. The channel axis is not the first, and
/// `groups` divides its extent.
View view_by_group(Extents shape, std::size_t axis, std::size_t groups);

/// Statistics over all axes but the channel axis, parameters along it: batch norm.
View view_by_channel(Extents shape, std::size_t axis);

}  // namespace simdnorm
