// Standard output without a buffer: what is written can be read at once, and a reader that has gone
// away is noticed at once.
#pragma once

#include <string_view>

#include "tools/exit_code.h"

namespace engine::tools {

class StandardOutput {
 public:
  // False if this or an earlier write failed; then there is no point in going on.
  bool write(std::string_view text);
  // Text of a model: on a terminal, which some control characters would command, they become '?'.
  bool write_text(std::string_view text);
  bool ok() const noexcept { return error_ == 0; }
  // kSuccess if all went well or nobody listens any more; kFailure, with a message, after another
  // error.
  ExitCode exit_code() const;

 private:
  int error_ = 0;  // errno
};

}  // namespace engine::tools
