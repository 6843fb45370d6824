// Where a prompt comes from.
#pragma once

#include <optional>
#include <string>

#include "gguf/result.h"
#include "tools/cli_options.h"

namespace engine::tools {

// -p, -f and standard input, joined by newlines; nothing if none of them is there, which on a
// terminal means a conversation. Errors: invalid_argument for an unreadable file, an empty prompt,
// or a part above 16 MiB.
Result<std::optional<std::string>> read_prompt(const CliOptions& options);

}  // namespace engine::tools
