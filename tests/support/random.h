// Reproducible random values: the same on every machine, unlike the distributions of <random>.
#pragma once

#include <cstdint>
#include <random>

namespace engine::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(engine_() >> 40) * 0x1p-24f;
  }
  // Sum of twelve uniforms: variance 1, close to normal.
  float normal() {
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform(0, 1);
    return sum;
  }
  template <class Floats>
  void fill_normal(Floats& values, float deviation = 1) {
    for (float& v : values) v = normal() * deviation;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace engine::test
