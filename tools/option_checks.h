// Validators for CLI11 options. CLI11's own ranges let NaN through and clip integers that do not
// fit.
#pragma once

#include <string>

namespace CLI {
class Validator;
}

namespace engine::tools {

// A finite number of low..high; `range` says so in words.
CLI::Validator number_within(double low, double high, const std::string& range);
// A whole number of 0..2^64-1, in decimal.
CLI::Validator whole_number();

}  // namespace engine::tools
