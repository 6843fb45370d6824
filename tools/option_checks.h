// Validators for CLI11 options. CLI11's own ranges let NaN through and clip integers that do not
// fit.
#pragma once

#include <limits>

#include "tools/number_range.h"

namespace CLI {
class Validator;
}

namespace engine::tools {

CLI::Validator number_within(NumberRange range);
// A whole number from `low` to `high`, in decimal. T is int or std::uint64_t.
template <class T>
CLI::Validator whole_number(T low, T high = std::numeric_limits<T>::max());

}  // namespace engine::tools
