// A Status about a file, from the loader's Detail.
#pragma once

#include <string>
#include <utility>

#include "gguf/result.h"

namespace engine::gguf {

// The general code of a detail: "cannot be opened", "not something we run", else "corrupt".
constexpr Code code_of(Detail detail) noexcept {
  switch (detail) {
    case Detail::io:
      return Code::io;
    case Detail::version:
    case Detail::endian:
    case Detail::limit:
    case Detail::arch:
    case Detail::unsupported:
      return Code::unsupported;
    default:
      return Code::corrupt_file;
  }
}

inline Status file_error(Detail detail, std::string message) {
  return Status(code_of(detail), detail, std::move(message));
}

}  // namespace engine::gguf
