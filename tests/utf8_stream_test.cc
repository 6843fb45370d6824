// Bytes to valid UTF-8, piece by piece.
#include "tokenizer/utf8_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "gguf/utf8.h"

namespace engine::tokenizer {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

TEST(Utf8Stream, ReplacesHopelessBytesAtOnce) {
  Utf8Stream stream;
  for (const char* bytes : {"\xFF", "\x80", "\xC0", "\xF5"}) {
    EXPECT_EQ(stream.push(bytes), kReplacement);
    EXPECT_EQ(stream.flush(), "");
  }
  EXPECT_EQ(stream.push("\xE0"), "");
  EXPECT_EQ(stream.push("\x80"), std::string(kReplacement) + kReplacement);      // overlong
  EXPECT_EQ(stream.push("\xED\xA0"), std::string(kReplacement) + kReplacement);  // surrogate
  EXPECT_EQ(stream.push("\xF4\x90"), std::string(kReplacement) + kReplacement);  // above U+10FFFF
  EXPECT_EQ(stream.push("\xE2\x82"
                        "A"),
            std::string(kReplacement) + "A");
}

// Every sequence of up to four bytes out of one representative per class that UTF-8 tells apart.
TEST(Utf8Stream, IsValidWholeAndBounded) {
  const std::string_view classes(
      "a\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF", 19);
  std::size_t n_sequences = 1;
  for (int i = 0; i < 4; ++i) n_sequences *= classes.size();
  for (std::size_t sequence = 0; sequence < n_sequences; ++sequence) {
    std::string bytes;
    for (std::size_t s = sequence; bytes.size() < 4; s /= classes.size())
      bytes += classes[s % classes.size()];
    Utf8Stream one_by_one, at_once;
    std::string text;
    for (const char c : bytes) {
      text += one_by_one.push(std::string_view(&c, 1));
      ASSERT_TRUE(gguf::is_utf8(text));
    }
    ASSERT_FALSE(text.empty()) << "four bytes are held back";
    text += one_by_one.flush();
    const std::string pushed = at_once.push(bytes);
    ASSERT_EQ(text, pushed + at_once.flush());
    if (gguf::is_utf8(bytes)) {
      ASSERT_EQ(text, bytes);
    } else {
      ASSERT_NE(text.find(kReplacement), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace engine::tokenizer
