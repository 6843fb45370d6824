// Renders and encodes conversations of arbitrary roles and contents. Whatever they say, the number
// of control tokens follows from the turns, and the tokens decode to the rendered text.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/fuzz/choices.h"
#include "tests/support/slow_encoder.h"
#include "tests/support/vocab_builder.h"
#include "tokenizer/chat.h"
#include "tokenizer/spm.h"

namespace engine::test {
namespace {

using tokenizer::GenerationPrompt;
using tokenizer::Message;
using tokenizer::Token;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

struct Conversation {
  std::vector<std::string> roles, contents;
  std::vector<Message> messages() const {
    std::vector<Message> out;
    for (std::size_t m = 0; m < roles.size(); ++m) out.push_back({roles[m], contents[m]});
    return out;
  }
};

Conversation random_conversation(Choices& choose) {
  constexpr const char* kRoles[] = {"user", "assistant", "model", "system", "developer", "tool"};
  constexpr const char* kParts[] = {
      "<bos>", "<start_of_turn>", "<end_of_turn>", "<eos>",   "\n", "model\n",
      " ",     "\xE2\x96\x81",    "the",           "\xC2\xA0"};
  Conversation c;
  for (std::size_t n = choose.below(7); n > 0; --n) {
    c.roles.emplace_back(choose.of(kRoles));
    std::string& content = c.contents.emplace_back();
    for (std::size_t parts = choose.below(7); parts > 0; --parts)
      content += choose.byte() % 2 == 0 ? std::string(choose.of(kParts)) : choose.text(8);
  }
  return c;
}

// Turns that the conversation must have: one for each change between user and model, and one more
// for system texts that have no user turn to go into.
std::ptrdiff_t expected_turns(const Conversation& c) {
  std::ptrdiff_t n_turns = 0;
  std::string last;
  bool has_user = false, has_system = false;
  for (const std::string& role : c.roles) {
    if (role == "system" || role == "developer") {
      has_system = true;
      continue;
    }
    const std::string speaker = role == "user" ? "user" : "model";
    has_user |= speaker == "user";
    n_turns += speaker != last;
    last = speaker;
  }
  return n_turns + (has_system && !has_user);
}

void check(const tokenizer::Vocab& vocab, const Conversation& c, GenerationPrompt generation) {
  const Result<std::string> text = tokenizer::render_chat(c.messages(), generation);
  const Result<std::vector<Token>> ids = tokenizer::encode_chat(vocab, c.messages(), generation);
  const bool is_good =
      !c.roles.empty() && std::find(c.roles.begin(), c.roles.end(), "tool") == c.roles.end();
  require(text.has_value() == is_good && ids.has_value() == is_good);
  if (!is_good) return;

  const auto count = [&](Token t) { return std::count(ids->begin(), ids->end(), t); };
  const std::ptrdiff_t n_turns = expected_turns(c);
  require(ids->front() == vocab.bos() && count(vocab.bos()) == 1);
  require(count(*vocab.end_of_turn()) == n_turns);
  require(count(*vocab.start_of_turn()) == n_turns + (generation == GenerationPrompt::add));
  require(std::count_if(ids->begin(), ids->end(), [&](Token t) { return vocab.is_control(t); }) ==
          1 + 2 * n_turns + (generation == GenerationPrompt::add));
  require(tokenizer::decode(vocab, *ids, {.show_control = true}) == with_spaces(*text));
}

}  // namespace
}  // namespace engine::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engine;
  static const tokenizer::Vocab vocab = test::small_vocab();
  test::Choices choose({data, size});
  const auto generation =
      choose.byte() % 2 == 0 ? tokenizer::GenerationPrompt::add : tokenizer::GenerationPrompt::omit;
  test::check(vocab, test::random_conversation(choose), generation);
  tokenizer::recognise_template(choose.rest());
  return 0;
}
