#include "tools/chat_loop.h"

#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/program.h"

namespace engine::tools {
namespace {

class ChatLoop {
 public:
  ChatLoop(Speaker& speaker, StandardOutput& output) : speaker_(speaker), output_(output) {}

  ExitCode run() {
    remark(
        "/reset forgets the conversation; /exit or the end of input leaves; Ctrl-C stops an "
        "answer");
    while (const std::optional<std::string> line = read_line()) {
      if (*line == "/exit") break;
      if (*line == "/reset") {
        turns_.clear();
      } else if (line->starts_with('/')) {
        remark("no such command: " + *line);
      } else if (!line->empty()) {
        reply(*line);
        if (!output_.ok()) break;
      }
    }
    return output_.exit_code();
  }

 private:
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
