// What a file that is not GGUF seems to be, for the error message.
#pragma once

#include <string_view>

namespace engine::gguf {

// A phrase such as "an HTML page", judged by the file's first bytes; empty if nothing is
// recognised.
std::string_view looks_like(std::string_view first_bytes) noexcept;

}  // namespace engine::gguf
