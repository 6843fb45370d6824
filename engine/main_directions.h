// The directions that hold most of the vectors seen lately: principal components of the last few, without a
// mean taken off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace engine {

class MainDirections {
 public:
  static constexpr int kDirections = 4;

  // Takes all its memory here; may throw std::bad_alloc.
  explicit MainDirections(int width);

  // Vectors of any length count alike. One of zeros, or with what is not finite, is passed over.
  void add(std::span<const float> x);
  // From time to time looks at the last vectors; true if the directions are others now. They are kept as long
  // as they hold a good part of what those vectors' own directions would.
  bool update();

  // [kDirections, width], of length 1 and nearly orthogonal; zeros where there are no more.
  std::span<const float> get() const noexcept { return directions_; }
  // The share of the last vectors' squared lengths that lies in these directions, about 0..1.
  double share_held() const;

 private:
  static constexpr int kVectors = 32, kFirst = 8;  // looked at: each time, and at first

  std::span<const float> vector(int i) const;
  std::span<const float> direction(int k) const;
  int n_held() const { return n_seen_ < kVectors ? static_cast<int>(n_seen_) : kVectors; }

  std::size_t width_;
  std::vector<float> vectors_;  // [kVectors, width], of length 1, the oldest overwritten
  std::vector<float> directions_;
  std::uint64_t n_seen_ = 0, due_ = kFirst;
};

}  // namespace engine
