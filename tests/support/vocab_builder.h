// Hand-made vocabularies for tests and fuzz targets.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/vocab.h"

namespace engine::test {

struct VocabBuilder {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  tokenizer::VocabSettings settings = {.add_space_prefix = false};

  // Appends a token and returns its id. Each piece of add_pieces() has a lower score than the last.
  tokenizer::Token add(std::string text, tokenizer::TokenType type, float score);
  void add_pieces(const std::vector<std::string>& pieces);
  // For an embedding of `n_rows` rows; 0: as many as there are tokens.
  Result<tokenizer::Vocab> build(int n_rows = 0) const;
};

// Gemma's frame without pieces: <pad> <eos> <bos> <unk> <start_of_turn> <end_of_turn> as control
// tokens 0..5, "\n", "\n\n" and two spaces as user-defined tokens 6..8, then the 256 byte tokens
// from id 9.
VocabBuilder gemma_frame();
inline constexpr tokenizer::Token kFirstByteToken = 9;

// gemma_frame() and a few dozen pieces, among them ones that overlap, nest and tie.
tokenizer::Vocab small_vocab();

}  // namespace engine::test
