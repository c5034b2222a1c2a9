#pragma once
// Axes in any order, and how x is read when statistics are over them.

#include <algorithm>
#include <cstddef>

#include "normalize.h"
#include "permute.h"

namespace simdnorm {

/// A short list of extents or axes.
class AxisList {
 public:
  AxisList() = default;
  explicit AxisList(Extents values) {
    for (const std::size_t value : values) add(value);
  }
  void add(std::size_t value) { values_[count_++] = value; }
  std::size_t count() const { return count_; }
  std::size_t& operator[](std::size_t i) { return values_[i]; }
  std::size_t operator[](std::size_t i) const { return values_[i]; }
  bool has(std::size_t value) const { return std::find(begin(), end(), value) != end(); }
  operator Extents() const { return {values_, count_}; }
  const std::size_t* begin() const { return values_; }
  const std::size_t* end() const { return values_ + count_; }

 private:
  std::size_t values_[kMaxRank];
  std::size_t count_ = 0;
};

AxisList ascending(Extents axes);

/// How x is read: by a view as it lies, or with its axes in another order.
struct Reading {
  View view;
  bool is_permuted = false;
  AxisList order;

  std::size_t room() const { return is_permuted ? view.size() : 0; }
};

/// Over axes in ascending order.
Reading reading_over_axes(Kind kind, Extents shape, const AxisList& axes, bool has_parameters);

/// Scale or bias, given along axes in any order, along the same axes in ascending order; null for null. And the
/// other way.
template <class T>
const T* along_ascending(Extents shape, Extents axes, const AxisList& sorted, const T* values, T* room);
template <class T>
void along_given(Extents shape, Extents axes, const AxisList& sorted, const T* values, T* out);

}  // namespace simdnorm
