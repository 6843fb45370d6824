#include "tools/program.h"

#include <fcntl.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <sstream>
#include <utility>

namespace engine::tools {
namespace {

// open() takes the lowest free number. Standard output opened for reading stays unwritable, so that
// a program still notices that nobody listens; a lost standard error is nothing to stop for.
void open_if_closed(int descriptor, int flags) {
  if (::fcntl(descriptor, F_GETFD) < 0) static_cast<void>(::open("/dev/null", flags));
}

std::string_view without_newlines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

void start_program() {
  open_if_closed(STDIN_FILENO, O_RDONLY);
  open_if_closed(STDOUT_FILENO, O_RDONLY);
  open_if_closed(STDERR_FILENO, O_WRONLY);
  std::signal(SIGPIPE, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("program"));
  spdlog::set_pattern("%l: %v");
  set_verbosity(Verbosity::normal);
}

// Prints what CLI11 has to say when it stops parsing: help or version (kSuccess), or a usage error.
ExitCode end_parse(const CLI::App& app, const CLI::ParseError& error, StandardOutput& output) {
  std::ostringstream wanted, complaint;
  if (app.exit(error, wanted, complaint) != 0)
    return fail(kUsage, without_newlines(complaint.str()));
  output.write(wanted.str());
  return output.exit_code();
}

}  // namespace

ExitCode run_program(const Program& program, int argc, char** argv) {
  start_program();
  CLI::App app(program.description, program.name);
  app.set_version_flag("-V,--version", program.name + " " ENGINE_VERSION);
  program.add_options(app);
  StandardOutput output;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_parse(app, error, output);
  }
  return program.run(output);
}

void set_verbosity(Verbosity verbosity) {
  switch (verbosity) {
    case Verbosity::quiet:
      return spdlog::set_level(spdlog::level::err);
    case Verbosity::normal:
      return spdlog::set_level(spdlog::level::warn);
    case Verbosity::verbose:
      return spdlog::set_level(spdlog::level::info);
  }
}

void log_info(std::string_view line) { spdlog::info("{}", line); }
void log_warning(std::string_view line) { spdlog::warn("{}", line); }
void log_error(std::string_view line) { spdlog::error("{}", line); }

ExitCode fail(const Status& status) { return fail(exit_code(status.code()), status.message()); }

ExitCode fail(ExitCode code, std::string_view message) {
  log_error(message);
  return code;
}

Status bad_input(std::string message) { return Status(Code::invalid_argument, std::move(message)); }

}  // namespace engine::tools
