// Lines of any input, in bounded memory.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace engine::tools {

class LineReader {
 public:
  LineReader(std::FILE* in, std::size_t max_bytes) : in_(in), max_bytes_(max_bytes) {}

  // The next line without its newline, at most max_bytes of it; false at the end of the input.
  bool next(std::string& line);
  std::size_t line_bytes() const noexcept { return line_bytes_; }  // of the whole line
  bool too_long() const noexcept { return line_bytes_ > max_bytes_; }

 private:
  std::FILE* in_;
  std::size_t max_bytes_;
  std::size_t line_bytes_ = 0;
};

}  // namespace engine::tools
