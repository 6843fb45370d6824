#include "tools/prompt_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "tools/program.h"

namespace engine::tools {
namespace {

// Far above what any context holds; tokenizing a longer text only to refuse it is a waste.
constexpr std::size_t kMaxPromptBytes = std::size_t{16} << 20;

// All bytes, but for one newline at the end, which echo and editors put there.
Result<std::string> read_all(std::FILE* file, const std::string& name) {
  std::string text;
  char buffer[16384];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > kMaxPromptBytes) return bad_input(name + " is longer than 16 MiB");
  }
  if (std::ferror(file) != 0) return bad_input("cannot read " + name);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::string> read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file)
    return bad_input("cannot open the prompt file '" + path +
                     "': " + std::generic_category().message(errno));
  return read_all(file.get(), path);
}

}  // namespace

Result<std::optional<std::string>> read_prompt(const CliOptions& options) {
  bool given = false;
  std::string prompt;
  const auto add = [&](const std::string& part) {
    given = true;
    if (!prompt.empty() && !part.empty()) prompt += '\n';
    prompt += part;
  };
  if (options.prompt) add(*options.prompt);
  if (options.prompt_file) {
    ENGINE_ASSIGN(const std::string text, read_file(*options.prompt_file));
    add(text);
  }
  if (::isatty(STDIN_FILENO) == 0) {
    ENGINE_ASSIGN(const std::string text, read_all(stdin, "standard input"));
    add(text);
  }
  if (!given) return std::optional<std::string>();
  if (prompt.empty())
    return bad_input("the prompt is empty; give -p, -f or text on standard input");
  return std::optional(std::move(prompt));
}

}  // namespace engine::tools
