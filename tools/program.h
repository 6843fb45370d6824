// What every program does first, and its messages: lines like "warning: …" on standard error.
#pragma once

#include <string_view>

#include "gguf/result.h"
#include "tools/exit_code.h"
#include "tools/standard_output.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace engine::tools {

// Gives descriptors 0 to 2 a harmless meaning if they are closed, so that no file of ours gets
// their number, and makes writing to a closed pipe an error instead of a signal.
void start_program();

enum class Verbosity { quiet, normal, verbose };  // errors; and warnings; and notes
void set_verbosity(Verbosity verbosity);

void log_info(std::string_view line);
void log_warning(std::string_view line);
void log_error(std::string_view line);

// Reports a failed Status and returns the exit code for it.
ExitCode fail(const Status& status);
ExitCode fail(ExitCode code, std::string_view message);

// Prints what CLI11 has to say when it stops parsing: help or version (kSuccess), or a usage error.
ExitCode end_parse(const CLI::App& app, const CLI::ParseError& error, StandardOutput& output);

}  // namespace engine::tools
