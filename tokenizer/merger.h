// Score-ordered pair merging, SentencePiece's way from characters to tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocab.h"

namespace engine::tokenizer {

// Symbols are a linked list over the text; each knows the token that it would make with its right
// neighbour. These pairs wait as keys that order them by score and position: the text's first pairs
// in a sorted list, those that merging makes in a heap, which so stays smaller. A key whose symbol
// has changed since is skipped when its turn comes.
class Merger {
 public:
  // `vocab` must outlive the object.
  explicit Merger(const Vocab& vocab) : vocab_(&vocab) {}

  // Appends the tokens of `text`, at most kMaxTextBytes long, which holds no user-defined token.
  void append_tokens(std::string_view text, std::vector<Token>& out);

 private:
  struct Symbol {
    std::uint32_t begin, size;    // bytes of the text
    std::int32_t prev, next;      // -1 at the ends
    Token token;                  // -1: a character or byte without a token
    Token pair_token = -1;        // made with the right neighbour; -1: none
    std::uint32_t pair_rank = 0;  // orders the scores of pair tokens
  };

  void split(std::string_view text);
  // Looks up what `left` makes with its right neighbour. Returns whether there is such a token.
  bool find_pair(std::string_view text, std::int32_t left);
  std::uint64_t pair_key(std::int32_t left) const;
  void push(std::uint64_t key);
  std::uint64_t pop_best();
  void merge_pair(std::int32_t left);
  void append_symbol(std::string_view text, const Symbol& s, std::vector<Token>& out) const;
  Symbol& symbol(std::int32_t s) { return symbols_[static_cast<std::size_t>(s)]; }

  const Vocab* vocab_;
  std::vector<Symbol> symbols_;               // reused from text to text
  std::vector<std::uint64_t> sorted_, heap_;  // keys, the best last and first
};

}  // namespace engine::tokenizer
