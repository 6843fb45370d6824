#include "tokenizer/chat.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gguf/utf8.h"
#include "tokenizer/spm.h"

namespace engine::tokenizer {

namespace {

enum class Role { user, model, system };

struct Turn {
  Role role;
  std::string text;
};

constexpr std::string_view kBlankLine = "\n\n";

Result<Role> parse_role(std::string_view role) {
  if (role == "user") return Role::user;
  if (role == "assistant" || role == "model") return Role::model;
  if (role == "system" || role == "developer") return Role::system;
  return Status(Code::invalid_argument,
                "message role: expected user, assistant, model, system or developer, got \"" +
                    gguf::printable(role, 64) + '"');
}

std::string_view name(Role role) { return role == Role::user ? "user" : "model"; }

// Unicode white space as Python's str.strip sees it, which the reference template trims with.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view trimmed(std::string_view text) {
  std::size_t begin = 0, end = 0;  // of what is not white space
  bool seen = false;
  for (std::size_t at = 0; at < text.size();) {
    const gguf::CodePoint c = gguf::first_code_point(text.substr(at));
    const std::size_t next = at + std::max<std::size_t>(c.size, 1);
    if (c.size == 0 || !is_space(c.value)) {
      if (!seen) begin = at;
      seen = true;
      end = next;
    }
    at = next;
  }
  return text.substr(begin, end - begin);
}

// The conversation as turns of alternating roles, the system texts merged into the first user turn.
Result<std::vector<Turn>> turns_of(std::span<const Message> messages) {
  if (messages.empty())
    return Status(Code::invalid_argument, "messages: expected at least one, got none");
  std::vector<Turn> turns;
  std::string system;  // every text is followed by a blank line
  for (const Message& message : messages) {
    ENGINE_ASSIGN(const Role role, parse_role(message.role));
    if (role == Role::system)
      system.append(message.content).append(kBlankLine);
    else if (!turns.empty() && turns.back().role == role)
      turns.back().text.append(kBlankLine).append(trimmed(message.content));
    else
      turns.push_back({role, std::string(trimmed(message.content))});
  }
  if (system.empty()) return turns;

  const auto first_user =
      std::find_if(turns.begin(), turns.end(), [](const Turn& t) { return t.role == Role::user; });
  if (first_user != turns.end()) {
    first_user->text.insert(0, system);
  } else {
    system.resize(system.size() - kBlankLine.size());
    turns.insert(turns.begin(), {Role::user, std::move(system)});
  }
  return turns;
}

// Writes a conversation as control tokens with text between them; the two sinks below differ only
// in what they make of either.
template <class Sink>
void write(std::span<const Turn> turns, GenerationPrompt generation, Sink& sink) {
  sink.bos();
  for (const Turn& turn : turns) {
    sink.start_of_turn();
    sink.text(name(turn.role));
    sink.text("\n");
    sink.text(turn.text);
    sink.end_of_turn();
    sink.text("\n");
  }
  if (generation == GenerationPrompt::omit) return;
  sink.start_of_turn();
  sink.text(name(Role::model));
  sink.text("\n");
}

struct TextSink {
  std::string out;
  void bos() { out += "<bos>"; }
  void start_of_turn() { out += "<start_of_turn>"; }
  void end_of_turn() { out += "<end_of_turn>"; }
  void text(std::string_view text) { out += text; }
};

class TokenSink {
 public:
  TokenSink(const Vocab& vocab, Token start_of_turn, Token end_of_turn)
      : vocab_(vocab), start_of_turn_(start_of_turn), end_of_turn_(end_of_turn) {}

  void bos() { control(vocab_.bos()); }
  void start_of_turn() { control(start_of_turn_); }
  void end_of_turn() { control(end_of_turn_); }
  void text(std::string_view text) { pending_ += text; }

  Result<std::vector<Token>> finish() {
    flush();
    if (!status_.ok()) return status_;
    return std::move(tokens_);
  }

 private:
  void control(Token token) {
    flush();
    tokens_.push_back(token);
  }
  // Encodes the text since the last control token as one string, so that merges see all of it.
  void flush() {
    if (status_.ok()) status_ = append(pending_);
    pending_.clear();
  }
  Status append(std::string_view text) {
    constexpr EncodeOptions kPlainText = {.parse_special = false, .space_prefix = false};
    ENGINE_ASSIGN(const std::vector<Token> tokens, encode(vocab_, text, kPlainText));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return {};
  }

  const Vocab& vocab_;
  const Token start_of_turn_, end_of_turn_;
  std::string pending_;
  std::vector<Token> tokens_;
  Status status_;
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TemplateKind recognise_template(std::string_view chat_template) {
  std::string dense(chat_template);
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  dense.erase(std::remove_if(dense.begin(), dense.end(), is_blank), dense.end());
  std::replace(dense.begin(), dense.end(), '"', '\'');

  for (const std::string_view part :
       {"bos_token", "<start_of_turn>", "<end_of_turn>", "role='model'", "'assistant'",
        "add_generation_prompt", "trim"}) {
    if (!contains(dense, part)) return TemplateKind::unknown;
  }
  // What Gemma's template has no use for: other formats built on its turns, and program-like parts.
  for (const std::string_view part : {"<start_function", "macro", "range(", "__", "include", "*"}) {
    if (contains(dense, part)) return TemplateKind::unknown;
  }
  return TemplateKind::gemma;
}

Result<TemplateKind> template_of(const gguf::Reader& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (file.find(kKey) == nullptr) return TemplateKind::none;
  ENGINE_ASSIGN(const std::string_view chat_template, file.get<std::string_view>(kKey));
  return recognise_template(chat_template);
}

Result<std::string> render_chat(std::span<const Message> messages, GenerationPrompt generation) {
  ENGINE_ASSIGN(const std::vector<Turn> turns, turns_of(messages));
  TextSink sink;
  write(turns, generation, sink);
  return std::move(sink.out);
}

Result<std::vector<Token>> encode_chat(const Vocab& vocab, std::span<const Message> messages,
                                       GenerationPrompt generation) {
  ENGINE_ASSIGN(const std::vector<Turn> turns, turns_of(messages));
  const std::optional<Token> start = vocab.start_of_turn(), end = vocab.end_of_turn();
  if (!start || !end)
    return Status(Code::unsupported,
                  "chat: expected <start_of_turn> and <end_of_turn> in the vocabulary, got a model "
                  "without them");
  TokenSink sink(vocab, *start, *end);
  write(turns, generation, sink);
  return sink.finish();
}

}  // namespace engine::tokenizer
