// Ranges of numbers that a user may give.
#pragma once

#include <string>

namespace engine::tools {

struct NumberRange {
  double low, high;  // both allowed

  constexpr bool contains(double value) const noexcept {  // false for NaN
    return value >= low && value <= high;
  }
  std::string text() const;  // "0 to 1"
};

// Of the sampler's options. The outer ends are round numbers that a float holds.
inline constexpr NumberRange kTemperatures = {0, 1e38};
inline constexpr NumberRange kShares = {0, 1};  // top_p, min_p
inline constexpr NumberRange kRepeatPenalties = {1e-37, 1e38};
inline constexpr NumberRange kPenalties = {-1e38, 1e38};  // presence, frequency

}  // namespace engine::tools
