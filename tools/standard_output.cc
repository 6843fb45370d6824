#include "tools/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "tools/program.h"

namespace engine::tools {
namespace {

bool is_control(unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }

// U+0080 to U+009F, controls as well, are C2 80 to C2 9F in UTF-8.
bool is_high_control(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0;
}

std::string without_controls(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const bool high = is_high_control(text);
    safe += high || is_control(static_cast<unsigned char>(text[0])) ? '?' : text[0];
    text.remove_prefix(high ? 2 : 1);
  }
  return safe;
}

}  // namespace

bool StandardOutput::write(std::string_view text) {
  while (ok() && !text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      error_ = errno;
  }
  return ok();
}

bool StandardOutput::write_text(std::string_view text) {
  return ::isatty(STDOUT_FILENO) == 1 ? write(without_controls(text)) : write(text);
}

ExitCode StandardOutput::exit_code() const {
  if (ok() || error_ == EPIPE || error_ == EBADF) return kSuccess;
  return fail(kFailure,
              "cannot write to standard output: " + std::generic_category().message(error_));
}

}  // namespace engine::tools
