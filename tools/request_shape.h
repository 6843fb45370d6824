// Whether a line has the shape that every request of gemma-eval has.
#pragma once

#include <string_view>

#include "gguf/result.h"

namespace engine::tools {

// Error unless `line` is JSON in UTF-8: one object of at most kMaxFields fields, that holds no
// further object and no lists nested deeper than kMaxListDepth. Takes time linear in the line and
// next to no memory, so that no line can make building its values slow.
Status check_request_shape(std::string_view line);

inline constexpr int kMaxFields = 64;
inline constexpr int kMaxListDepth = 3;

}  // namespace engine::tools
