// How kernel results are compared: within a tolerance, or bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace engine::test {

// Floats between a and b, counting through zero.
inline std::int64_t ulps_between(float a, float b) {
  const auto rank = [](float v) {
    const std::int64_t bits = std::bit_cast<std::int32_t>(v);
    return bits < 0 ? -(bits & 0x7FFFFFFF) : bits;
  };
  return std::abs(rank(a) - rank(b));
}

inline bool is_close(float expected, float got, double tolerance) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (expected == got) return true;  // also equal infinities
  return std::abs(static_cast<double>(expected) - static_cast<double>(got)) <= tolerance;
}

// "" if every |got[i] - expected[i]| <= tolerance(i); else what is worst, how many are off, and the
// error's energy relative to the expected values (NMSE). NaN matches NaN only, infinity itself
// only.
template <class Tolerance>
std::string compare(std::span<const float> expected, std::span<const float> got,
                    Tolerance tolerance) {
  if (expected.size() != got.size()) return "sizes differ";
  std::size_t n_off = 0, worst = 0;
  double worst_excess = 0, error_energy = 0, energy = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    error_energy += error * error;
    energy += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    if (is_close(expected[i], got[i], tolerance(i))) continue;
    const double excess = std::isfinite(error) ? std::abs(error) / tolerance(i) : HUGE_VAL;
    if (n_off++ == 0 || excess > worst_excess) worst = i, worst_excess = excess;
  }
  if (n_off == 0) return "";
  std::ostringstream message;
  message << n_off << " of " << got.size() << " off, worst [" << worst << "]: expected "
          << std::setprecision(9) << expected[worst] << ", got " << got[worst] << ", "
          << ulps_between(expected[worst], got[worst]) << " ulp, tolerance " << tolerance(worst)
          << "; NMSE " << error_energy / energy;
  return message.str();
}

// Bit patterns of results, for exact comparison. NaN payloads are not part of the arithmetic: all
// become one.
using Bits = std::vector<std::uint32_t>;

inline std::uint32_t bits_of(float v) {
  return std::isnan(v) ? 0x7FC00000u : std::bit_cast<std::uint32_t>(v);
}
inline void append_bits(Bits& bits, std::span<const float> values) {
  for (const float v : values) bits.push_back(bits_of(v));
}
template <class Integer>
void append_bits(Bits& bits, std::span<const Integer> values) {
  for (const Integer v : values) bits.push_back(static_cast<std::uint32_t>(v));
}

// "" if equal, else the first difference.
inline std::string compare_bits(const Bits& expected, const Bits& got) {
  if (expected.size() != got.size()) return "sizes differ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == got[i]) continue;
    std::ostringstream message;
    message << "bits differ at [" << i << "]: 0x" << std::hex << expected[i] << " and 0x" << got[i]
            << ", as floats " << std::setprecision(9) << std::bit_cast<float>(expected[i])
            << " and " << std::bit_cast<float>(got[i]);
    return message.str();
  }
  return "";
}

}  // namespace engine::test
