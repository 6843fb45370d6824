#include "tests/support/vocab_builder.h"

#include <cstdio>

namespace engine::test {

using tokenizer::Token;
using tokenizer::TokenType;

Token VocabBuilder::add(std::string text, TokenType type, float score) {
  texts.push_back(std::move(text));
  scores.push_back(score);
  types.push_back(static_cast<std::int32_t>(type));
  return static_cast<Token>(texts.size()) - 1;
}

void VocabBuilder::add_pieces(const std::vector<std::string>& pieces) {
  for (const std::string& piece : pieces)
    add(piece, TokenType::normal, -static_cast<float>(texts.size()));
}

Result<tokenizer::Vocab> VocabBuilder::build(int n_rows) const {
  std::vector<tokenizer::TokenEntry> entries;
  for (std::size_t t = 0; t < texts.size(); ++t) entries.push_back({texts[t], scores[t], types[t]});
  return tokenizer::Vocab::from_entries(entries, settings,
                                        n_rows == 0 ? static_cast<int>(texts.size()) : n_rows);
}

VocabBuilder gemma_frame() {
  VocabBuilder builder;
  constexpr float kAside = -1000;  // what real files give to tokens that merging does not make
  for (const char* text : {"<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"})
    builder.add(text, TokenType::control, kAside);
  for (const char* text : {"\n", "\n\n", "\xE2\x96\x81\xE2\x96\x81"})
    builder.add(text, TokenType::user_defined, kAside);
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    builder.add(text, TokenType::byte, 0);
  }
  return builder;
}

tokenizer::Vocab small_vocab() {
  VocabBuilder builder = gemma_frame();
  builder.add_pieces({"th",
                      "he",
                      "the",
                      "in",
                      "ing",
                      "er",
                      "\xE2\x96\x81t",
                      "\xE2\x96\x81the",
                      "ab",
                      "bc",
                      "abc",
                      "aa",
                      "aaaa",
                      "user",
                      "us",
                      "model",
                      "mo",
                      "de",
                      "mode",
                      "\xE2\x96\x81",
                      "a",
                      "b",
                      "c",
                      "d",
                      "e",
                      "f",
                      "g",
                      "h",
                      "i",
                      "l",
                      "m",
                      "n",
                      "o",
                      "r",
                      "s",
                      "t",
                      "u",
                      "_",
                      "<",
                      ">",
                      "\xC3\xA9"});
  return *builder.build();
}

}  // namespace engine::test
