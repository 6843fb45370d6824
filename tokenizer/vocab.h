// The vocabulary of a SentencePiece model ("tokenizer.ggml.model" = "llama") in a GGUF file.
//
// A token's text is kept as it reads in the output: SentencePiece's stand-in for the space, U+2581,
// is stored as a space, and a byte token such as "<0x0A>" as that byte. The encoder maps U+2581 in
// its input to a space as well, so both spellings are the same and decoding needs no rewriting.
//
// Odd but harmless entries are accepted: an empty text is never matched and decodes to nothing;
// NUL, invalid UTF-8 and texts up to the reader's string limit are ordinary bytes; of tokens with
// the same text the lowest id is used for encoding.
//
// Memory: one pool of text and about 19 bytes a token (7 MB for Gemma's 262,144). Immutable once
// built; const members may be called from any thread at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.h"
#include "gguf/result.h"
#include "tokenizer/special_matcher.h"

namespace engine::tokenizer {

using Token = std::int32_t;

// Ids as stored in "tokenizer.ggml.token_type".
enum class TokenType : std::uint8_t {
  normal = 1,        // made by merging
  unknown = 2,       // stands for text without a token; never printed
  control = 3,       // structure, e.g. <bos>; matched only on request, never printed
  user_defined = 4,  // matched as a whole wherever it occurs, printed as its text
  unused = 5,        // never made, printed as its text
  byte = 6,          // "<0x41>": one byte of a character that has no token
};

// Control and user-defined tokens are looked for at every position of a text; the limit keeps that
// linear in the text whatever a file says.
inline constexpr std::size_t kMaxSpecialBytes = 256;

// One line of a file's token list, unchecked.
struct TokenEntry {
  std::string_view text;
  float score;
  std::int32_t type;
};

// What a file says about its vocabulary beside the list.
// The ids are Gemma's where a file is silent.
struct VocabSettings {
  std::uint32_t bos = 2;
  std::uint32_t eos = 1;
  std::uint32_t unk = 3;
  std::uint32_t pad = 0;
  std::optional<std::uint32_t> eot;  // end of turn
  bool add_bos = true;
  bool add_space_prefix = true;
};

class Vocab {
 public:
  // Reads and checks the tokenizer.ggml.* keys. `n_vocab_rows` is the number of rows of the
  // embedding: a shorter token list is accepted with a warning, a longer one is not. Errors:
  // UNSUPPORTED for another kind of tokenizer; MISSING, TYPE for the keys; VOCAB for the rest.
  static Result<Vocab> from_file(const gguf::Reader& file, int n_vocab_rows);
  // The same checks over lists in memory, which may be dropped afterwards.
  static Result<Vocab> from_entries(std::span<const TokenEntry> entries,
                                    const VocabSettings& settings, int n_vocab_rows);

  // Moving keeps views of token texts valid; there is never a reason for a second copy.
  Vocab(Vocab&&) noexcept = default;
  Vocab& operator=(Vocab&&) noexcept = default;
  Vocab(const Vocab&) = delete;
  Vocab& operator=(const Vocab&) = delete;

  // Tokens in the list; ids are 0..size()-1. Rows of the embedding from here on have no token.
  int size() const noexcept { return static_cast<int>(types_.size()); }
  bool contains(Token t) const noexcept { return t >= 0 && t < size(); }
  std::span<const std::string> warnings() const noexcept { return warnings_; }

  // The text of any token, control tokens included. Empty for an id outside the list.
  std::string_view text(Token t) const noexcept;
  // The bytes that a token adds to the output: its text, or nothing for control and unknown tokens.
  // May be part of a character: see Detokenizer.
  std::string_view piece(Token t) const noexcept {
    return is_control(t) ? std::string_view() : text(t);
  }
  // Preconditions of the two: contains(t).
  float score(Token t) const noexcept { return scores_[static_cast<std::size_t>(t)]; }
  TokenType type(Token t) const noexcept { return types_[static_cast<std::size_t>(t)]; }
  // Control and unknown tokens: those that text never yields unless control tokens are asked for.
  bool is_control(Token t) const noexcept;

  Token bos() const noexcept { return bos_; }
  Token eos() const noexcept { return eos_; }
  Token unk() const noexcept { return unk_; }
  // The tokens with these texts, which the chat format is made of.
  std::optional<Token> start_of_turn() const noexcept { return start_of_turn_; }
  std::optional<Token> end_of_turn() const noexcept { return end_of_turn_; }
  // Tokens that end a generation: the file's eos and eot, <end_of_turn> and <eos>. Files disagree on
  // which of them is "eos", and a model may emit any.
  std::span<const Token> end_of_generation() const noexcept { return end_of_generation_; }
  bool is_end_of_generation(Token t) const noexcept;

  bool add_bos() const noexcept { return add_bos_; }
  // Whether a text is encoded as if a space preceded it.
  bool add_space_prefix() const noexcept { return add_space_prefix_; }

  // The token with this text: a normal, user-defined or control one, in this order.
  std::optional<Token> find(std::string_view text) const noexcept;
  // The normal token with this text, or -1. The merge loop's question, hence no optional.
  Token find_normal(std::string_view text) const noexcept { return slots_[find_slot(text)]; }
  Token byte_token(std::uint8_t byte) const noexcept { return byte_tokens_[byte]; }
  // The longest user-defined token that non-empty `text` starts with.
  SpecialMatcher::Match match_user_defined(std::string_view text) const noexcept {
    return user_defined_.longest(text);
  }
  // The same among user-defined and control tokens.
  SpecialMatcher::Match match_special(std::string_view text) const noexcept {
    return special_.longest(text);
  }

 private:
  Vocab() = default;
  Status add_entries(std::span<const TokenEntry> entries);
  Status add_byte_token(Token t, std::string_view text);
  Status check_byte_tokens() const;
  Status set_special_ids(const VocabSettings& settings);
  void set_markers();
  void add_end_of_generation(Token t);
  Status build_index();
  Status build_matchers();
  // The slot of the normal token with this text, or the free slot where it belongs.
  std::size_t find_slot(std::string_view text) const noexcept;

  std::vector<char> pool_;              // texts, one after the other
  std::vector<std::uint32_t> offsets_;  // [size() + 1] into pool_
  std::vector<float> scores_;           // [size()]
  std::vector<TokenType> types_;        // [size()]
  // Hash table of the normal tokens by text, open addressing. Most searches end at a tag, eight
  // bits of the hash, without touching the texts.
  std::vector<std::uint8_t> tags_;  // 0: the slot is free
  std::vector<Token> slots_;        // -1: the slot is free
  std::array<Token, 256> byte_tokens_ = {};
  SpecialMatcher user_defined_, special_;
  Token bos_ = 0, eos_ = 0, unk_ = 0;
  std::optional<Token> start_of_turn_, end_of_turn_;
  std::vector<Token> end_of_generation_;
  bool add_bos_ = true, add_space_prefix_ = true;
  std::vector<std::string> warnings_;
};

}  // namespace engine::tokenizer
