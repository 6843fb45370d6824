// What all programs share: how they start, their options' beginning and end, and their messages:
// lines like "warning: …" on standard error.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gguf/result.h"
#include "tools/exit_code.h"
#include "tools/standard_output.h"

namespace CLI {
class App;
}  // namespace CLI

namespace engine::tools {

struct Program {
  std::string name;
  std::string description;                       // for --help
  std::function<void(CLI::App&)> add_options;    // beside --help and --version
  std::function<ExitCode(StandardOutput&)> run;  // not called after --help, --version, usage errors
};

// All of main(). Descriptors 0 to 2 get a harmless meaning if they are closed, so that no file of
// ours gets their number, and writing to a closed pipe becomes an error instead of a signal.
ExitCode run_program(const Program& program, int argc, char** argv);

enum class Verbosity { quiet, normal, verbose };  // errors; and warnings; and notes
void set_verbosity(Verbosity verbosity);

void log_info(std::string_view line);
void log_warning(std::string_view line);
void log_error(std::string_view line);

// Reports a failed Status and returns the exit code for it.
ExitCode fail(const Status& status);
ExitCode fail(ExitCode code, std::string_view message);

// What the user gave is not what it should be.
Status bad_input(std::string message);

}  // namespace engine::tools
