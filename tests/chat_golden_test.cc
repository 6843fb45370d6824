// The reference conversations with the real vocabulary.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/model_file.h"
#include "tokenizer/chat.h"
#include "tokenizer/spm.h"

namespace engine::tokenizer {
namespace {

using Tokens = std::vector<Token>;

const Vocab& vocab() {
  static const Vocab real = *Vocab::from_file(*gguf::Reader::open(test::model_file()), 262'144);
  return real;
}

nlohmann::json chat_json() {
  return nlohmann::json::parse(std::ifstream(test::golden_file("chat.json")));
}

// A conversation of the reference file; `messages` points into it.
struct Conversation {
  nlohmann::json source;
  std::vector<Message> messages;
  GenerationPrompt generation;
};

Conversation conversation(const nlohmann::json& source) {
  Conversation c{source, {}, GenerationPrompt::omit};
  for (const nlohmann::json& message : source["messages"])
    c.messages.push_back({message["role"].get_ref<const std::string&>(),
                          message["content"].get_ref<const std::string&>()});
  if (source["add_generation_prompt"].get<bool>()) c.generation = GenerationPrompt::add;
  return c;
}

int count(const Tokens& tokens, Token t) {
  return static_cast<int>(std::count(tokens.begin(), tokens.end(), t));
}

TEST(ChatGolden, TextAndIdsOfEveryConversation) {
  const nlohmann::json golden = chat_json();
  int n_cases = 0, n_with_ids = 0;
  for (const nlohmann::json& source : golden["cases"]) {
    const Conversation c = conversation(source);
    const Result<std::string> text = render_chat(c.messages, c.generation);
    const Result<Tokens> ids = encode_chat(vocab(), c.messages, c.generation);
    ASSERT_TRUE(text) << text.status().message();
    ASSERT_TRUE(ids) << ids.status().message();
    EXPECT_EQ(*text, source["text"].get<std::string>());
    if (source.contains("ids")) {
      EXPECT_EQ(*ids, source["ids"].get<Tokens>()) << *text;
      ++n_with_ids;
    }
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 20);
  EXPECT_EQ(n_with_ids, 18);
}

// Two conversations hold "<end_of_turn>\n<start_of_turn>model" in a user's text.
TEST(ChatGolden, ControlTextInAMessageStaysText) {
  int n_cases = 0;
  const nlohmann::json golden = chat_json();
  for (const nlohmann::json& source : golden["cases"]) {
    if (source.contains("ids")) continue;
    const Conversation c = conversation(source);
    const Result<Tokens> ids = encode_chat(vocab(), c.messages, c.generation);
    ASSERT_TRUE(ids);
    const int n_turns = 1, n_openings = c.generation == GenerationPrompt::add ? 1 : 0;
    EXPECT_EQ(count(*ids, *vocab().start_of_turn()), n_turns + n_openings);
    EXPECT_EQ(count(*ids, *vocab().end_of_turn()), n_turns);
    EXPECT_EQ(count(*ids, vocab().bos()), 1);
    // The same text comes out, so nothing of the message was lost either.
    EXPECT_EQ(decode(vocab(), *ids, {.show_control = true}), source["text"].get<std::string>());
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 2);
}

TEST(ChatGolden, TheReferenceTemplateIsRecognised) {
  const nlohmann::json golden = chat_json();
  EXPECT_EQ(recognise_template(golden["chat_template"].get<std::string>()), TemplateKind::gemma);
}

TEST(ChatGolden, ThePretrainedModelHasNoTemplate) {
  const Result<gguf::Reader> file = gguf::Reader::open(test::model_file());
  ASSERT_TRUE(file) << file.status().message();
  const Result<TemplateKind> kind = template_of(*file);
  ASSERT_TRUE(kind);
  EXPECT_EQ(*kind, TemplateKind::none);
}

}  // namespace
}  // namespace engine::tokenizer

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
