// Escape sequences in command line arguments.
#pragma once

#include <string>
#include <string_view>

namespace engine::tools {

// \n, \t, \r, \\ and \xHH expanded; other backslashes stay.
std::string expand_escapes(std::string_view text);

}  // namespace engine::tools
