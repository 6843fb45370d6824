// A place in a kernel's source: a default argument, so that it names the caller.
#pragma once

#include <string_view>

namespace engine::simt {

struct Where {
  const char* file = "";
  int line = 0;

  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const Where& other) const {
    return line == other.line && (file == other.file || std::string_view(file) == other.file);
  }
};

}  // namespace engine::simt
