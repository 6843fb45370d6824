#include "tokenizer/spm.h"

#include "tokenizer/merger.h"
#include "tokenizer/space_mark.h"

namespace engine::tokenizer {

namespace {

SpecialMatcher::Match match(const Vocab& vocab, std::string_view text,
                            const EncodeOptions& options) {
  return options.parse_special ? vocab.match_special(text) : vocab.match_user_defined(text);
}

bool starts_with_control(const Vocab& vocab, std::string_view text, const EncodeOptions& options) {
  return vocab.is_control(match(vocab, text, options).token);
}

}  // namespace

Result<std::vector<Token>> encode(const Vocab& vocab, std::string_view text,
                                  const EncodeOptions& options) {
  if (text.size() > kMaxTextBytes)
    return Status(Code::invalid_argument, "text: expected at most " +
                                              std::to_string(kMaxTextBytes) + " bytes, got " +
                                              std::to_string(text.size()));
  // 1 spaces
  std::string plain;
  plain.reserve(text.size() + 1);  // room for a space prefix
  append_with_spaces(text, plain);
  if (options.space_prefix && vocab.add_space_prefix() && !plain.empty() &&
      !starts_with_control(vocab, plain, options))
    plain.insert(plain.begin(), ' ');

  // 2 tokens taken as a whole, 3 merging of what lies between them
  std::vector<Token> tokens;
  Merger merger(vocab);
  std::string_view rest = plain;
  for (std::size_t pos = 0; pos < rest.size();) {
    const auto found = match(vocab, rest.substr(pos), options);
    if (found.size == 0) {
      ++pos;
      continue;
    }
    merger.append_tokens(rest.substr(0, pos), tokens);
    tokens.push_back(found.token);
    rest.remove_prefix(pos + found.size);
    pos = 0;
  }
  merger.append_tokens(rest, tokens);
  return tokens;
}

bool prepend_bos(const Vocab& vocab, std::vector<Token>& tokens) {
  if (!tokens.empty() && tokens.front() == vocab.bos()) return true;
  if (vocab.add_bos()) tokens.insert(tokens.begin(), vocab.bos());
  return false;
}

Result<Prompt> encode_prompt(const Vocab& vocab, std::string_view text,
                             const EncodeOptions& options) {
  Prompt prompt;
  ENGINE_ASSIGN(prompt.tokens, encode(vocab, text, options));
  prompt.bos_in_text = prepend_bos(vocab, prompt.tokens);
  return prompt;
}

std::string decode(const Vocab& vocab, std::span<const Token> tokens,
                   const DecodeOptions& options) {
  std::string out;
  bool at_prefix = options.space_prefix && vocab.add_space_prefix();
  for (const Token t : tokens) {
    std::string_view piece = options.show_control ? vocab.text(t) : vocab.piece(t);
    if (at_prefix && !vocab.is_control(t) && !piece.empty()) {
      if (piece.front() == ' ') piece.remove_prefix(1);
      at_prefix = false;
    }
    out += piece;
  }
  return out;
}

}  // namespace engine::tokenizer
