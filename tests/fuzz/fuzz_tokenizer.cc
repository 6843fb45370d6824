// Encodes the input with a small vocabulary, or with one made of the input's own beginning, and
// checks that the text comes back, that it was encoded as the definition says, and that no control
// token appears unasked.
#include <string>
#include <vector>

#include "gguf/utf8.h"
#include "tests/fuzz/choices.h"
#include "tests/support/slow_encoder.h"
#include "tests/support/vocab_builder.h"
#include "tokenizer/spm.h"

namespace engine::test {
namespace {

using tokenizer::Token;
using tokenizer::TokenType;

void require(bool condition) {
  if (!condition) __builtin_trap();
}

tokenizer::Vocab random_vocab(Choices& choose) {
  VocabBuilder builder = gemma_frame();
  constexpr TokenType kTypes[] = {TokenType::normal, TokenType::normal, TokenType::user_defined,
                                  TokenType::control, TokenType::unused};
  for (std::size_t n = choose.below(40); n > 0; --n) {
    const TokenType type = choose.of(kTypes);
    const float score = static_cast<float>(choose.below(16)) - 8;
    builder.add(choose.text(8), type, score);
  }
  Result<tokenizer::Vocab> vocab = builder.build();
  require(vocab.has_value());
  return *std::move(vocab);
}

std::vector<Token> tokens(const tokenizer::Vocab& vocab, const std::string& text,
                          const tokenizer::EncodeOptions& options = {}) {
  Result<std::vector<Token>> encoded = tokenizer::encode(vocab, text, options);
  require(encoded.has_value());
  return *std::move(encoded);
}

void check(const tokenizer::Vocab& vocab, const SlowEncoder& slow, const std::string& text) {
  const std::string expected = with_spaces(text);
  const std::vector<Token> plain = tokens(vocab, text);
  require(plain == slow.encode(text));
  require(tokenizer::decode(vocab, plain) == expected);
  for (const Token t : plain) require(!vocab.is_control(t));

  const std::vector<Token> special = tokens(vocab, text, {.parse_special = true});
  require(tokenizer::decode(vocab, special, {.show_control = true}) == expected);

  tokenizer::Detokenizer detokenizer(vocab);
  std::string streamed;
  for (const Token t : plain) {
    const std::string chunk = detokenizer.push(t);
    require(gguf::is_utf8(chunk));
    streamed += chunk;
  }
  streamed += detokenizer.flush();
  if (gguf::is_utf8(expected)) require(streamed == expected);
}

}  // namespace
}  // namespace engine::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engine::test;
  static const engine::tokenizer::Vocab small = small_vocab();
  static const SlowEncoder slow_small(small);
  Choices choose({data, size});
  if (choose.byte() % 2 == 0) {
    check(small, slow_small, choose.rest());
  } else {
    const engine::tokenizer::Vocab vocab = random_vocab(choose);
    check(vocab, SlowEncoder(vocab), choose.rest());
  }
  return 0;
}
