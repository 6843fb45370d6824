#include "tools/chat_loop.h"

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/program.h"

namespace engine::tools {
namespace {

class ChatLoop {
 public:
  ChatLoop(Speaker& speaker, StandardOutput& output) : speaker_(speaker), output_(output) {}

  ExitCode run() {
    greet();
    while (const std::optional<std::string> line = read_line()) {
      const std::string_view command = without_trailing_space(*line);
      if (command == "/exit") break;
      if (command == "/reset") {
        turns_.clear();
      } else if (command.starts_with('/')) {
        remark("no such command: " + std::string(command));
      } else if (!command.empty()) {
        reply(*line);
        if (!output_.ok()) break;
      }
    }
    return output_.exit_code();
  }

 private:
  void greet() const {
    if (speaker_.options.engine.verbosity == Verbosity::quiet) return;
    remark(std::string(speaker_.chat ? "/reset forgets the conversation"
                                     : "each line is continued by itself") +
           "; /exit or the end of input leaves; Ctrl-C stops an answer");
  }

  static std::string_view without_trailing_space(std::string_view line) {
    return line.substr(0, line.find_last_not_of(" \t\r") + 1);
  }

  static void remark(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

  static std::optional<std::string> read_line() {
    std::fputs("> ", stderr);
    std::string line;
    if (std::getline(std::cin, line)) return line;
    std::fputs("\n", stderr);
    return std::nullopt;
  }

  void reply(const std::string& line) {
    const Result<std::vector<Token>> prompt = prompt_ids(speaker_, turns_, line);
    if (!prompt) return log_error(prompt.status().message());
    Result<Generated> made = answer(speaker_, *prompt, output_);
    if (!made) return log_error(made.status().message() + "; /reset starts over");
    output_.write("\n");
    warn_if_cut(speaker_, *made);
    if (speaker_.options.stats) print_stats(speaker_, *made);
    turns_.push_back({"user", line});
    turns_.push_back({"assistant", std::move(made->text)});
  }

  Speaker& speaker_;
  StandardOutput& output_;
  std::vector<Turn> turns_;
};

}  // namespace

ExitCode chat_loop(Speaker& speaker, StandardOutput& output) {
  return ChatLoop(speaker, output).run();
}

}  // namespace engine::tools
