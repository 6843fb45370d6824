#include "tools/line_reader.h"

namespace engine::tools {

bool LineReader::next(std::string& line) {
  line.clear();
  line_bytes_ = 0;
  int c = std::getc(in_);
  if (c == EOF) return false;
  for (; c != EOF && c != '\n'; c = std::getc(in_))
    if (++line_bytes_ <= max_bytes_) line.push_back(static_cast<char>(c));
  return true;
}

}  // namespace engine::tools
