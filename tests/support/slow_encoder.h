// The definition of encoding, step by step and quadratic: no heap, no linked list, no sorted lists.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/vocab.h"

namespace engine::test {

// U+2581 is SentencePiece's spelling of a space: the text that encoding sees, and that comes back.
std::string with_spaces(std::string text);

class SlowEncoder {
 public:
  // `vocab` must outlive the object.
  explicit SlowEncoder(const tokenizer::Vocab& vocab);

  // What tokenizer::encode() must give without control tokens and without a space prefix.
  std::vector<tokenizer::Token> encode(const std::string& text) const;

 private:
  std::optional<float> pair_score(const std::vector<std::string>& symbols, std::size_t s) const;
  void merge(const std::string& text, std::vector<tokenizer::Token>& out) const;

  const tokenizer::Vocab& vocab_;
  std::unordered_map<std::string, tokenizer::Token> normal_, user_defined_;
  std::size_t longest_user_defined_ = 0;
};

}  // namespace engine::test
