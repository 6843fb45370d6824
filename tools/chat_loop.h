// gemma-cli on a terminal: a conversation, or with a file that has no chat template, text after
// text.
#pragma once

#include "tools/answer.h"

namespace engine::tools {

// Reads lines from standard input until it ends, /exit, or nobody reads the answers any more. The
// prompt sign and remarks go to standard error. Ctrl-C ends an answer, which stays part of the
// conversation.
ExitCode chat_loop(Speaker& speaker, StandardOutput& output);

}  // namespace engine::tools
