// Vocabulary, encoder and decoder over hand-made vocabularies, whose right answers can be seen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tests/support/random.h"
#include "tests/support/slow_encoder.h"
#include "tests/support/vocab_builder.h"
#include "tokenizer/spm.h"

namespace engine::tokenizer {
namespace {

using test::gemma_frame;
using test::VocabBuilder;

using Tokens = std::vector<Token>;

constexpr Token kBos = 2, kEos = 1, kStartOfTurn = 4, kEndOfTurn = 5;
constexpr Token kNewline = 6, kTwoNewlines = 7, kTwoSpaces = 8;
constexpr EncodeOptions kSpecial = {.parse_special = true};

Token byte(unsigned value) { return test::kFirstByteToken + static_cast<Token>(value); }

Vocab built(const VocabBuilder& builder) {
  Result<Vocab> vocab = builder.build();
  EXPECT_TRUE(vocab) << vocab.status().message();
  return *std::move(vocab);
}

Vocab with_pieces(const std::vector<std::string>& pieces) {
  VocabBuilder builder = gemma_frame();
  builder.add_pieces(pieces);
  return built(builder);
}

Tokens tokens(const Vocab& vocab, std::string_view text, const EncodeOptions& options = {}) {
  Result<Tokens> encoded = encode(vocab, text, options);
  EXPECT_TRUE(encoded) << encoded.status().message();
  return *std::move(encoded);
}

// Tokens as their texts, for readable expectations.
std::vector<std::string> pieces(const Vocab& vocab, std::string_view text,
                                const EncodeOptions& options = {}) {
  std::vector<std::string> out;
  for (const Token t : tokens(vocab, text, options)) out.emplace_back(vocab.text(t));
  return out;
}
using Pieces = std::vector<std::string>;

// Vocabulary checks

struct BadVocab {
  const char* what;
  std::function<void(VocabBuilder&)> damage;
};

class BadVocabTest : public testing::TestWithParam<BadVocab> {};

TEST_P(BadVocabTest, IsRejected) {
  VocabBuilder builder = gemma_frame();
  builder.add_pieces({"a", "b", "ab"});
  ASSERT_TRUE(builder.build());
  GetParam().damage(builder);
  const Result<Vocab> vocab = builder.build();
  ASSERT_FALSE(vocab) << GetParam().what;
  EXPECT_EQ(vocab.status().code(), Code::corrupt_file);
  EXPECT_EQ(vocab.status().detail(), Detail::vocab);
  EXPECT_NE(vocab.status().message().find("expected"), std::string::npos)
      << vocab.status().message();
}

constexpr std::uint32_t kHuge = 0xFFFFFFFF;
constexpr std::uint32_t kSize = test::kFirstByteToken + 256 + 3;
constexpr std::size_t kByte41 = test::kFirstByteToken + 0x41;

INSTANTIATE_TEST_SUITE_P(
    Damage, BadVocabTest,
    testing::Values(
        BadVocab{"type 0", [](VocabBuilder& b) { b.types[9] = 0; }},
        BadVocab{"type 7", [](VocabBuilder& b) { b.types[9] = 7; }},
        BadVocab{"type -1", [](VocabBuilder& b) { b.types[9] = -1; }},
        BadVocab{"score NaN", [](VocabBuilder& b) { b.scores[9] = std::nanf(""); }},
        BadVocab{"score inf",
                 [](VocabBuilder& b) { b.scores[9] = std::numeric_limits<float>::infinity(); }},
        BadVocab{"byte -1", [](VocabBuilder& b) { b.texts[kByte41] = "<0x-1>"; }},
        BadVocab{"byte ZZ", [](VocabBuilder& b) { b.texts[kByte41] = "<0xZZ>"; }},
        BadVocab{"byte 1", [](VocabBuilder& b) { b.texts[kByte41] = "<0x1>"; }},
        BadVocab{"byte 100", [](VocabBuilder& b) { b.texts[kByte41] = "<0x100>"; }},
        BadVocab{"byte twice", [](VocabBuilder& b) { b.texts[kByte41] = "<0x42>"; }},
        BadVocab{"byte missing", [](VocabBuilder& b) { b.types[kByte41] = 1; }},
        BadVocab{"bos", [](VocabBuilder& b) { b.settings.bos = kSize; }},
        BadVocab{"bos huge", [](VocabBuilder& b) { b.settings.bos = kHuge; }},
        BadVocab{"eos", [](VocabBuilder& b) { b.settings.eos = kSize; }},
        BadVocab{"eos huge", [](VocabBuilder& b) { b.settings.eos = kHuge; }},
        BadVocab{"eot", [](VocabBuilder& b) { b.settings.eot = kSize; }},
        BadVocab{"eot huge", [](VocabBuilder& b) { b.settings.eot = kHuge; }},
        BadVocab{"unk", [](VocabBuilder& b) { b.settings.unk = kSize; }},
        BadVocab{"unk huge", [](VocabBuilder& b) { b.settings.unk = kHuge; }},
        BadVocab{"pad", [](VocabBuilder& b) { b.settings.pad = kSize; }},
        BadVocab{"pad huge", [](VocabBuilder& b) { b.settings.pad = kHuge; }},
        BadVocab{"long control token",
                 [](VocabBuilder& b) { b.texts[0] = std::string(kMaxSpecialBytes + 1, 'x'); }},
        BadVocab{"no tokens", [](VocabBuilder& b) { b = {}; }}));

TEST(Vocab, TokenListMayBeShorterThanTheEmbeddingButNotLonger) {
  const VocabBuilder builder = gemma_frame();
  const int n = static_cast<int>(builder.texts.size());
  EXPECT_TRUE(builder.build(n)->warnings().empty());
  EXPECT_EQ(builder.build(n + 1)->warnings().size(), 1u);
  EXPECT_EQ(builder.build(n + 1)->size(), n);
  EXPECT_EQ(builder.build(n - 1).status().detail(), Detail::vocab);
}

TEST(Vocab, DefaultIdsAreCheckedToo) {
  // All 256 bytes are there, so only Gemma's default ids are out of range.
  VocabBuilder builder;
  const VocabBuilder frame = gemma_frame();
  for (unsigned b = 0; b < 256; ++b)
    builder.add(frame.texts[static_cast<std::size_t>(byte(b))], TokenType::byte, 0);
  EXPECT_TRUE(builder.build());
  builder.settings.pad = 256;
  EXPECT_EQ(builder.build().status().detail(), Detail::vocab);
  VocabBuilder single;
  single.add("a", TokenType::normal, 0);
  EXPECT_EQ(single.build().status().detail(), Detail::vocab);
}

TEST(Vocab, OddTextsAreHarmless) {
  VocabBuilder builder = gemma_frame();
  const std::string with_nul("x\0y", 3), long_text(1u << 20, 'z');
  const Token empty = builder.add("", TokenType::normal, 0);
  const Token empty_control = builder.add("", TokenType::control, 0);
  const Token nul = builder.add(with_nul, TokenType::user_defined, 0);
  const Token invalid = builder.add("\xFF\xFE", TokenType::normal, 0);
  const Token long_token = builder.add(long_text, TokenType::normal, 0);
  const Token first = builder.add("q", TokenType::normal, 0);
  const Token second = builder.add("q", TokenType::normal, 1);
  const Vocab vocab = built(builder);

  EXPECT_EQ(vocab.piece(empty), "");
  EXPECT_EQ(vocab.text(empty_control), "");
  EXPECT_EQ(tokens(vocab, with_nul), Tokens{nul});
  EXPECT_EQ(tokens(vocab, "\xFF\xFE"), Tokens{invalid});
  EXPECT_EQ(vocab.piece(long_token), long_text);
  EXPECT_EQ(tokens(vocab, "q"), Tokens{first});
  EXPECT_EQ(vocab.piece(second), "q");
  for (const Token outside : {-1, vocab.size(), std::numeric_limits<Token>::max()}) {
    EXPECT_EQ(vocab.text(outside), "");
    EXPECT_EQ(vocab.piece(outside), "");
    EXPECT_FALSE(vocab.is_control(outside));
  }
}

TEST(Vocab, FindsTokensByText) {
  const Vocab vocab = with_pieces({"\xE2\x96\x81the"});
  EXPECT_EQ(vocab.text(*vocab.find(" the")), " the");
  EXPECT_EQ(vocab.find("\n\n"), kTwoNewlines);
  EXPECT_EQ(vocab.find("<bos>"), kBos);
  EXPECT_EQ(vocab.find(" th"), std::nullopt);
  EXPECT_EQ(vocab.find(""), std::nullopt);
  EXPECT_EQ(vocab.find("<0x41>"), std::nullopt);
}

TEST(Vocab, EndOfGenerationHoldsAllEndTokensWhateverTheFileCallsEos) {
  for (const Token eos : {kEos, kEndOfTurn}) {
    VocabBuilder builder = gemma_frame();
    builder.settings.eos = static_cast<std::uint32_t>(eos);
    const Vocab vocab = built(builder);
    EXPECT_EQ(vocab.end_of_generation().size(), 2u);
    for (const Token t : {kEos, kEndOfTurn}) {
      EXPECT_TRUE(vocab.is_end_of_generation(t));
      EXPECT_EQ(vocab.piece(t), "");
    }
    EXPECT_FALSE(vocab.is_end_of_generation(kBos));
  }
}

TEST(Vocab, EndOfGenerationHoldsTheFilesEndOfTurnOnce) {
  VocabBuilder builder = gemma_frame();
  builder.settings.eot = static_cast<std::uint32_t>(kStartOfTurn);
  EXPECT_TRUE(built(builder).is_end_of_generation(kStartOfTurn));
  EXPECT_EQ(built(builder).end_of_generation().size(), 3u);
  builder.settings.eot = static_cast<std::uint32_t>(kEndOfTurn);
  EXPECT_FALSE(built(builder).is_end_of_generation(kStartOfTurn));
  EXPECT_EQ(built(builder).end_of_generation().size(), 2u);
}

TEST(Vocab, TurnMarkersAreControlTokensWhateverTheFileSays) {
  VocabBuilder builder = gemma_frame();
  builder.types[kEndOfTurn] = static_cast<std::int32_t>(TokenType::user_defined);
  const Vocab vocab = built(builder);
  EXPECT_EQ(vocab.type(kEndOfTurn), TokenType::control);
  EXPECT_EQ(vocab.warnings().size(), 1u);
  for (const Token t : tokens(vocab, "<end_of_turn>")) EXPECT_NE(t, kEndOfTurn);
}

// A GGUF file of nothing but the small vocabulary.
test::GgufFile vocab_file() {
  VocabBuilder builder = gemma_frame();
  builder.add_pieces({"a", "b", "ab"});
  test::GgufFile file;
  file.set("tokenizer.ggml.model", "llama");
  file.set_strings("tokenizer.ggml.tokens", builder.texts);
  file.set_array("tokenizer.ggml.scores", builder.scores);
  file.set_array("tokenizer.ggml.token_type", builder.types);
  return file;
}

Result<Vocab> load(const test::GgufFile& file) {
  const test::Bytes bytes = file.build();
  ENGINE_ASSIGN(const gguf::Reader reader, gguf::Reader::open(bytes));
  return Vocab::from_file(reader, kSize);
}

TEST(Vocab, FromFileUsesGemmasDefaults) {
  const Result<Vocab> vocab = load(vocab_file());
  ASSERT_TRUE(vocab) << vocab.status().message();
  EXPECT_EQ(vocab->bos(), 2);
  EXPECT_EQ(vocab->eos(), 1);
  EXPECT_EQ(vocab->unk(), 3);
  EXPECT_TRUE(vocab->add_bos());
  EXPECT_TRUE(vocab->add_space_prefix());
  EXPECT_EQ(vocab->text(*vocab->find("ab")), "ab");
}

TEST(Vocab, FromFileFollowsTheKeys) {
  test::GgufFile file = vocab_file();
  file.set("tokenizer.ggml.bos_token_id", std::uint32_t{1});
  file.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  file.set("tokenizer.ggml.eot_token_id", std::uint32_t{4});
  file.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
  file.set("tokenizer.ggml.padding_token_id", std::uint32_t{3});
  file.set("tokenizer.ggml.add_bos_token", false);
  file.set("tokenizer.ggml.add_space_prefix", false);
  const Result<Vocab> vocab = load(file);
  ASSERT_TRUE(vocab) << vocab.status().message();
  EXPECT_EQ(vocab->bos(), 1);
  EXPECT_EQ(vocab->eos(), 2);
  EXPECT_TRUE(vocab->is_end_of_generation(4));
  EXPECT_EQ(vocab->unk(), 0);
  EXPECT_FALSE(vocab->add_bos());
  EXPECT_FALSE(vocab->add_space_prefix());
}

TEST(Vocab, FromFileNamesWhatIsWrong) {
  const auto detail_after = [](const std::function<void(test::GgufFile&)>& damage) {
    test::GgufFile file = vocab_file();
    damage(file);
    return load(file).status().detail();
  };
  using File = test::GgufFile;
  const auto shorter = [](File& f) { f.set_array("tokenizer.ggml.scores", std::vector{1.0f}); };
  EXPECT_EQ(detail_after([](File& f) { f.set("tokenizer.ggml.model", "gpt2"); }),
            Detail::unsupported);
  EXPECT_EQ(detail_after([](File& f) { f.remove("tokenizer.ggml.model"); }), Detail::unsupported);
  EXPECT_EQ(detail_after([](File& f) { f.remove("tokenizer.ggml.tokens"); }), Detail::missing);
  EXPECT_EQ(detail_after([](File& f) { f.remove("tokenizer.ggml.scores"); }), Detail::missing);
  EXPECT_EQ(detail_after(shorter), Detail::vocab);
  EXPECT_EQ(detail_after([](File& f) { f.set("tokenizer.ggml.add_bos_token", "yes"); }),
            Detail::type);
  EXPECT_EQ(detail_after([](File& f) { f.set("tokenizer.ggml.eos_token_id", 1.0f); }),
            Detail::type);
}

// Encoding

TEST(Encode, MergesByScoreThenFromTheLeft) {
  // Scores fall in this order, so "bc" is merged before "ab".
  EXPECT_EQ(pieces(with_pieces({"bc", "ab", "a", "b", "c"}), "abc"), (Pieces{"a", "bc"}));
  EXPECT_EQ(pieces(with_pieces({"ab", "bc", "a", "b", "c"}), "abc"), (Pieces{"ab", "c"}));
  EXPECT_EQ(pieces(with_pieces({"aa", "a"}), "aaaaa"), (Pieces{"aa", "aa", "a"}));
  // A merge makes a pair that was not there before, across an earlier one.
  EXPECT_EQ(pieces(with_pieces({"cd", "ab", "abcd", "abc", "a", "b", "c", "d"}), "abcd"),
            (Pieces{"abcd"}));
}

TEST(Encode, EqualScoresGoFromTheLeft) {
  VocabBuilder builder = gemma_frame();
  for (const char* text : {"ab", "bc", "cd", "a", "b", "c", "d"})
    builder.add(text, TokenType::normal, 0);
  builder.scores.back() = -0.0f;  // equal to the others
  EXPECT_EQ(pieces(built(builder), "abcd"), (Pieces{"ab", "cd"}));
  EXPECT_EQ(pieces(built(builder), "bcd"), (Pieces{"bc", "d"}));
}

TEST(Encode, PositiveAndNegativeScoresAreOrdered) {
  VocabBuilder builder = gemma_frame();
  const std::vector<std::pair<const char*, float>> scored = {
      {"ab", -3e38f}, {"bc", -1e-40f}, {"cd", 0.0f}, {"de", 1e-40f}, {"ef", 2.5f}};
  for (const auto& [text, score] : scored) builder.add(text, TokenType::normal, score);
  for (const char* text : {"a", "b", "c", "d", "e", "f"}) builder.add(text, TokenType::normal, -1);
  const Vocab vocab = built(builder);
  EXPECT_EQ(pieces(vocab, "abc"), (Pieces{"a", "bc"}));
  EXPECT_EQ(pieces(vocab, "bcd"), (Pieces{"b", "cd"}));
  EXPECT_EQ(pieces(vocab, "cde"), (Pieces{"c", "de"}));
  EXPECT_EQ(pieces(vocab, "def"), (Pieces{"d", "ef"}));
}

TEST(Encode, CharactersWithoutATokenBecomeBytes) {
  const Vocab vocab = with_pieces({"a", "\xC3\xA9"});
  EXPECT_EQ(tokens(vocab, "b"), Tokens{byte('b')});
  EXPECT_EQ(tokens(vocab, "\xF0\x9F\x98\xB8"),
            (Tokens{byte(0xF0), byte(0x9F), byte(0x98), byte(0xB8)}));
  EXPECT_EQ(pieces(vocab, "a\xC3\xA9"), (Pieces{"a", "\xC3\xA9"}));
  EXPECT_EQ(tokens(vocab, " "), Tokens{byte(' ')});
}

TEST(Encode, BytesThatAreNotUtf8BecomeByteTokens) {
  const Vocab vocab = with_pieces({"a", "\xC3\xA9"});
  const Token a = *vocab.find("a"), e_acute = *vocab.find("\xC3\xA9");
  EXPECT_EQ(tokens(vocab, "\xFF"), Tokens{byte(0xFF)});
  EXPECT_EQ(tokens(vocab, "a\xC3"), (Tokens{a, byte(0xC3)}));
  EXPECT_EQ(tokens(vocab,
                   "\xC3"
                   "a"),
            (Tokens{byte(0xC3), a}));
  EXPECT_EQ(tokens(vocab, "\xA9\xC3\xA9"), (Tokens{byte(0xA9), e_acute}));
  EXPECT_EQ(tokens(vocab, std::string_view("\0", 1)), Tokens{byte(0)});
}

TEST(Encode, UserDefinedTokensMatchEverywhereTheLongestFirst) {
  VocabBuilder builder = gemma_frame();
  builder.add("[x=0]", TokenType::user_defined, -1000);
  builder.add("[x", TokenType::user_defined, -1000);
  builder.add("two words", TokenType::user_defined, -1000);
  builder.add_pieces({"\n", "\xE2\x96\x81", "x", "=", "0", "]", "["});
  const Vocab vocab = built(builder);
  EXPECT_EQ(pieces(vocab, "x[x=0]x"), (Pieces{"x", "[x=0]", "x"}));
  EXPECT_EQ(pieces(vocab, "[x=]"), (Pieces{"[x", "=", "]"}));
  EXPECT_EQ(tokens(vocab, "\n\n\n"), (Tokens{kTwoNewlines, kNewline}));
  EXPECT_EQ(pieces(vocab, "   "), (Pieces{"  ", " "}));
  EXPECT_EQ(vocab.find("  "), kTwoSpaces);
  EXPECT_EQ(pieces(vocab, "two words"), (Pieces{"two words"}));
}

TEST(Encode, TheSpaceMarkIsASpace) {
  const Vocab vocab = test::small_vocab();
  EXPECT_EQ(tokens(vocab, "the\xE2\x96\x81the"), tokens(vocab, "the the"));
  EXPECT_EQ(pieces(vocab, "the the"), (Pieces{"the", " the"}));
  EXPECT_EQ(decode(vocab, tokens(vocab, "\xE2\x96\x81\xE2\x96\x81")), "  ");
}

TEST(Encode, ControlTokensOnlyOnRequest) {
  const Vocab vocab = test::small_vocab();
  const std::string text = "<start_of_turn>user<end_of_turn>";
  for (const Token t : tokens(vocab, text)) EXPECT_FALSE(vocab.is_control(t));
  EXPECT_EQ(tokens(vocab, text, kSpecial), (Tokens{kStartOfTurn, *vocab.find("user"), kEndOfTurn}));
  // The space after a control token stays.
  EXPECT_EQ(pieces(vocab, "<bos> the  the", kSpecial), (Pieces{"<bos>", " the", "  ", "the"}));
}

TEST(Encode, MergingNeverMakesOtherThanNormalTokens) {
  VocabBuilder builder = gemma_frame();
  builder.add("ab", TokenType::control, 100);
  builder.add("bc", TokenType::unused, 100);
  builder.add("cd", TokenType::unknown, 100);
  builder.add_pieces({"a", "b", "c", "d"});
  EXPECT_EQ(pieces(built(builder), "abcd"), (Pieces{"a", "b", "c", "d"}));
}

TEST(Encode, SpacePrefixFollowsTheVocabulary) {
  VocabBuilder builder = gemma_frame();
  builder.add_pieces(
      {"\xE2\x96\x81"
       "a",
       "\xE2\x96\x81", "a"});
  EXPECT_EQ(pieces(built(builder), "a"), (Pieces{"a"}));
  builder.settings.add_space_prefix = true;
  const Vocab vocab = built(builder);
  EXPECT_EQ(pieces(vocab, "a"), (Pieces{" a"}));
  EXPECT_EQ(pieces(vocab, ""), (Pieces{}));
  EXPECT_EQ(pieces(vocab, "a", {.space_prefix = false}), (Pieces{"a"}));
  EXPECT_EQ(pieces(vocab, "<bos>a", kSpecial), (Pieces{"<bos>", "a"}));
  for (const char* text : {"a", " a", "  a", "\n"})
    EXPECT_EQ(decode(vocab, tokens(vocab, text)), text);
  EXPECT_EQ(decode(vocab, Tokens{*vocab.find(" a")}, {.space_prefix = false}), " a");
}

TEST(Encode, RefusesTextsAboveTheLimit) {
  // Only the size is looked at, so the view need not be backed by so many bytes.
  const std::string_view huge("x", kMaxTextBytes + 1);
  EXPECT_EQ(encode(test::small_vocab(), huge).status().code(), Code::invalid_argument);
}

TEST(Encode, RandomTextEqualsTheSlowReferenceAndComesBack) {
  const Vocab vocab = test::small_vocab();
  const test::SlowEncoder slow(vocab);
  test::Random random(1);
  const Pieces parts = {"the",   "ing",      " ",
                        "  ",    "\n",       "a",
                        "b",     "c",        "<end_of_turn>",
                        "<",     "\xC3\xA9", "\xF0\x9F\x98\xB8",
                        "\xC3",  "\xFF",     std::string(1, '\0'),
                        "<0x41>"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int n = random.below(12); n > 0; --n)
      text += parts[static_cast<std::size_t>(random.below(static_cast<int>(parts.size())))];
    EXPECT_EQ(tokens(vocab, text), slow.encode(text)) << text;
    EXPECT_EQ(decode(vocab, tokens(vocab, text)), text);
    EXPECT_EQ(decode(vocab, tokens(vocab, text, kSpecial), {.show_control = true}), text);
  }
}

// Beginning of sequence

TEST(Prompt, HasExactlyOneBos) {
  const Vocab vocab = test::small_vocab();
  const Token the = *vocab.find("the");
  const auto prompt = [&](std::string_view text, const EncodeOptions& options) {
    return *encode_prompt(vocab, text, options);
  };
  EXPECT_EQ(prompt("the", kSpecial).tokens, (Tokens{kBos, the}));
  EXPECT_FALSE(prompt("the", kSpecial).bos_in_text);
  EXPECT_EQ(prompt("<bos>the", kSpecial).tokens, (Tokens{kBos, the}));
  EXPECT_TRUE(prompt("<bos>the", kSpecial).bos_in_text);
  EXPECT_EQ(prompt("", {}).tokens, Tokens{kBos});
  // As ordinary text "<bos>" is no BOS.
  const Prompt plain = prompt("<bos>the", {});
  EXPECT_EQ(std::count(plain.tokens.begin(), plain.tokens.end(), kBos), 1);
  EXPECT_FALSE(plain.bos_in_text);
  EXPECT_EQ(decode(vocab, plain.tokens), "<bos>the");
}

TEST(Prompt, TheFileMaySayNoBos) {
  VocabBuilder builder = gemma_frame();
  builder.settings.add_bos = false;
  EXPECT_EQ(encode_prompt(built(builder), "\n")->tokens, Tokens{kNewline});
}

// Decoding

TEST(Decode, ControlTokensOnlyOnRequest) {
  const Vocab vocab = test::small_vocab();
  const Tokens ids = {kBos, *vocab.find(" the"), kEndOfTurn, byte('\n')};
  EXPECT_EQ(decode(vocab, ids), " the\n");
  EXPECT_EQ(decode(vocab, ids, {.show_control = true}), "<bos> the<end_of_turn>\n");
}

// Pushes the bytes of `text` as byte tokens; returns the chunks that are not empty.
std::vector<std::string> chunks(std::string_view text) {
  const Vocab vocab = test::small_vocab();
  Detokenizer detokenizer(vocab);
  std::vector<std::string> out;
  for (const char c : text) {
    std::string chunk = detokenizer.push(byte(static_cast<std::uint8_t>(c)));
    if (!chunk.empty()) out.push_back(std::move(chunk));
  }
  if (std::string chunk = detokenizer.flush(); !chunk.empty()) out.push_back(std::move(chunk));
  return out;
}

constexpr const char* kReplacement = "\xEF\xBF\xBD";

TEST(Detokenizer, NeverSplitsACharacter) {
  EXPECT_EQ(chunks("\xF0\x9F\x98\xB8"), (Pieces{"\xF0\x9F\x98\xB8"}));  // a cat's grin
  EXPECT_EQ(chunks("\xED\x95\x9C"), (Pieces{"\xED\x95\x9C"}));          // a Korean syllable
  EXPECT_EQ(chunks("\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA7"),     // man, joiner, girl
            (Pieces{"\xF0\x9F\x91\xA8", "\xE2\x80\x8D", "\xF0\x9F\x91\xA7"}));
}

TEST(Detokenizer, FlushesWithTheNextTokenOrAtTheEnd) {
  EXPECT_EQ(chunks("\xF0\x9F"
                   "a"),
            (Pieces{std::string(kReplacement) + "a"}));
  EXPECT_EQ(chunks("\xF0\x9F"), (Pieces{kReplacement}));
  EXPECT_EQ(chunks("ab"), (Pieces{"a", "b"}));
}

TEST(Detokenizer, ControlTokensPassUnseen) {
  const Vocab vocab = test::small_vocab();
  Detokenizer detokenizer(vocab);
  EXPECT_EQ(detokenizer.push(byte(0xC3)), "");
  EXPECT_EQ(detokenizer.push(kEndOfTurn), "");
  EXPECT_EQ(detokenizer.push(byte(0xA9)), "\xC3\xA9");
}

}  // namespace
}  // namespace engine::tokenizer
