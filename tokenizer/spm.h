// SentencePiece: text to tokens by score-ordered merging, and tokens back to text.
//
// encode() works in three steps. 1 U+2581 becomes a space (see vocab.h). 2 User-defined tokens, and
// control tokens if asked for, are taken out from left to right, the longest first. 3 Each stretch
// in between starts as one symbol per character; of all neighbouring symbols whose joined text is a
// normal token, the pair with the highest score is merged, the leftmost among equals, until none is
// left. A character without a token becomes its bytes' tokens, and so does every byte that is not
// UTF-8. Hence decode(encode(x)) == x for any bytes x, except that U+2581 comes back as a space.
//
// Time O(n log n), memory O(n) in the length of the text.
// Thread rule: free functions over a const Vocab.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/result.h"
#include "tokenizer/utf8_stream.h"
#include "tokenizer/vocab.h"

namespace engine::tokenizer {

// Longer texts are refused; positions inside the encoder are 32-bit.
inline constexpr std::size_t kMaxTextBytes = 1u << 30;

struct EncodeOptions {
  // Whether the text of a control token, such as "<end_of_turn>", becomes that token. Off: it is
  // ordinary text, and no control token can come out whatever the text says.
  bool parse_special = false;
  // Whether the vocabulary's add_space_prefix applies: off for a text that continues another one.
  // The space is not added to an empty text or in front of a control token.
  bool space_prefix = true;
};

// The tokens of a text, without BOS. Errors: invalid_argument above kMaxTextBytes.
Result<std::vector<Token>> encode(const Vocab& vocab, std::string_view text,
                                  const EncodeOptions& options = {});

// Puts BOS in front, unless it is there or the vocabulary says not to.
// Returns whether it was there.
bool prepend_bos(const Vocab& vocab, std::vector<Token>& tokens);

struct Prompt {
  std::vector<Token> tokens;
  bool bos_in_text = false;  // the text itself began with BOS, so none was added: worth a warning
};

// The tokens of a whole prompt: encode() and prepend_bos().
Result<Prompt> encode_prompt(const Vocab& vocab, std::string_view text,
                             const EncodeOptions& options = {});

struct DecodeOptions {
  bool show_control = false;  // print control tokens as their text
  bool space_prefix = true;   // take back the space that encode() added; off for a continuation
};

// The bytes of `tokens`; ids outside the vocabulary add nothing. Not necessarily valid UTF-8: a
// token may be any byte.
std::string decode(const Vocab& vocab, std::span<const Token> tokens,
                   const DecodeOptions& options = {});

// Tokens to text one by one, for streaming: every returned chunk is valid UTF-8 (see Utf8Stream).
class Detokenizer {
 public:
  // `vocab` must outlive the object.
  explicit Detokenizer(const Vocab& vocab) : vocab_(&vocab) {}
  std::string push(Token token) { return stream_.push(vocab_->piece(token)); }
  std::string flush() { return stream_.flush(); }

 private:
  const Vocab* vocab_;
  Utf8Stream stream_;
};

}  // namespace engine::tokenizer
