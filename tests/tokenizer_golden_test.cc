// The real vocabulary against the reference tokenizer, and its worst cases in time and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/heap_meter.h"
#include "tests/support/model_file.h"
#include "tests/support/random.h"
#include "tests/support/slow_encoder.h"
#include "tokenizer/spm.h"

namespace engine::tokenizer {
namespace {

using Tokens = std::vector<Token>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr bool kIsTimed = false;
#elif defined(__has_feature)
constexpr bool kIsTimed = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kIsTimed = true;
#endif

// Processor time of the quickest of three runs: what else the machine does should not fail a test.
template <class Run>
double best_seconds(const Run& run) {
  double best = std::numeric_limits<double>::infinity();
  for (int n = 0; n < 3; ++n) {
    const std::clock_t start = std::clock();
    run();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

constexpr int kRows = 262'144;

const gguf::Reader& model() {
  static const gguf::Reader reader = *gguf::Reader::open(test::model_file());
  return reader;
}

const Vocab& vocab() {
  static const Vocab real = *Vocab::from_file(model(), kRows);
  return real;
}

Tokens tokens(std::string_view text, const EncodeOptions& options = {}) {
  return *encode(vocab(), text, options);
}

TEST(TokenizerGolden, EveryRowBothWays) {
  std::ifstream file(test::golden_file("tokenizer.jsonl"));
  int n_rows = 0;
  for (std::string line; std::getline(file, line); ++n_rows) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string text = row["text"];
    const Tokens ids = row["ids"];
    const Tokens special_ids =
        row.contains("ids_parse_special") ? row["ids_parse_special"] : row["ids"];
    EXPECT_EQ(tokens(text), ids) << line;
    EXPECT_EQ(tokens(text, {.parse_special = true}), special_ids) << line;

    EXPECT_EQ(decode(vocab(), ids), test::with_spaces(text));
    EXPECT_EQ(decode(vocab(), special_ids, {.show_control = true}), test::with_spaces(text));
    for (const Token t : tokens(text)) EXPECT_FALSE(vocab().is_control(t)) << line;
  }
  EXPECT_EQ(n_rows, 647);
}

TEST(TokenizerGolden, VocabularyIsGemmas) {
  EXPECT_EQ(vocab().size(), kRows);
  EXPECT_TRUE(vocab().warnings().empty());
  EXPECT_EQ(vocab().bos(), 2);
  EXPECT_EQ(vocab().eos(), 1);
  EXPECT_EQ(vocab().start_of_turn(), 105);
  EXPECT_EQ(vocab().end_of_turn(), 106);
  EXPECT_TRUE(vocab().is_end_of_generation(1));
  EXPECT_TRUE(vocab().is_end_of_generation(106));
  EXPECT_EQ(vocab().end_of_generation().size(), 2u);
  EXPECT_FALSE(vocab().add_space_prefix());
}

TEST(TokenizerGolden, EveryTokenIsFoundByItsText) {
  for (Token t = 0; t < vocab().size(); ++t) {
    if (vocab().type(t) != TokenType::byte) {
      ASSERT_EQ(vocab().find(vocab().text(t)), t);
    }
  }
}

TEST(TokenizerGolden, StreamedTextEqualsTheWhole) {
  std::ifstream file(test::golden_file("tokenizer.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    Detokenizer detokenizer(vocab());
    std::string text;
    for (const Token t : row["ids"].get<Tokens>()) text += detokenizer.push(t);
    text += detokenizer.flush();
    EXPECT_EQ(text, test::with_spaces(row["text"]));
  }
}

TEST(TokenizerGolden, LoadsQuickly) {
  if (!kIsTimed) GTEST_SKIP() << "an unoptimised or instrumented build has no time limits";
  model();
  EXPECT_LT(best_seconds([] { EXPECT_TRUE(Vocab::from_file(model(), kRows)); }), 0.150);
}

constexpr std::size_t kMegabyte = 1u << 20;

struct LongText {
  const char* name;
  std::string text;
};

std::vector<LongText> long_texts() {
  test::Random random(1);
  std::vector<LongText> texts = {{"one letter", std::string(kMegabyte, 'a')},
                                 {"spaces", std::string(kMegabyte, ' ')},
                                 {"random letters", ""},
                                 {"random bytes", ""}};
  for (std::size_t i = 0; i < kMegabyte; ++i) {
    texts[2].text += static_cast<char>('a' + random.below(26));
    texts[3].text += static_cast<char>(random.below(256));
  }
  return texts;
}

TEST(TokenizerGolden, AMegabyteTakesLinearMemory) {
  vocab();
  for (const LongText& c : long_texts()) {
    const test::HeapMeter meter;
    const Tokens ids = tokens(c.text);
    EXPECT_LT(meter.peak_bytes(), 128 * kMegabyte) << c.name;
    EXPECT_TRUE(decode(vocab(), ids) == c.text) << c.name;
  }
}

TEST(TokenizerGolden, AMegabyteTakesLessThanASecond) {
  if (!kIsTimed) GTEST_SKIP() << "an unoptimised or instrumented build has no time limits";
  vocab();
  for (const LongText& c : long_texts())
    EXPECT_LT(best_seconds([&] { tokens(c.text); }), 1.0) << c.name;
}

TEST(TokenizerGolden, LongTextsEqualTheSlowReference) {
  const test::SlowEncoder slow(vocab());
  for (const LongText& c : long_texts()) {
    const std::string head = c.text.substr(0, 4096);
    EXPECT_EQ(tokens(head), slow.encode(head)) << c.name;
  }
}

}  // namespace
}  // namespace engine::tokenizer

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
