#include "tests/support/slow_encoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace engine::test {

using tokenizer::Token;
using tokenizer::TokenType;

namespace {

// Whether `bytes` is one character of n bytes, by the judgement of another UTF-8 decoder.
bool is_character(const std::string& bytes, std::size_t n) {
  const auto lead = static_cast<std::uint8_t>(bytes[0]);
  const std::size_t claimed = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  return bytes.size() == n && claimed == n && nlohmann::json::accept('"' + bytes + '"');
}

// Characters, and single bytes where there is none.
std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size(); at += out.back().size()) {
    std::size_t size = 1;
    for (std::size_t n = 2; n <= 4; ++n) {
      if (is_character(text.substr(at, n), n)) size = n;
    }
    out.push_back(text.substr(at, size));
  }
  return out;
}

}  // namespace

std::string with_spaces(std::string text) {
  constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
  for (std::size_t at; (at = text.find(kSpaceMark)) != std::string::npos;)
    text.replace(at, kSpaceMark.size(), " ");
  return text;
}

SlowEncoder::SlowEncoder(const tokenizer::Vocab& vocab) : vocab_(vocab) {
  for (Token t = vocab.size() - 1; t >= 0; --t) {  // of equal texts the lowest id remains
    const std::string text(vocab.text(t));
    if (vocab.type(t) == TokenType::normal) normal_[text] = t;
    if (vocab.type(t) != TokenType::user_defined) continue;
    user_defined_[text] = t;
    longest_user_defined_ = std::max(longest_user_defined_, text.size());
  }
}

std::vector<Token> SlowEncoder::encode(const std::string& text) const {
  const std::string plain = with_spaces(text);
  std::vector<Token> out;
  std::string stretch;
  for (std::size_t at = 0; at < plain.size();) {
    std::size_t size = std::min(longest_user_defined_, plain.size() - at);
    while (size > 0 && user_defined_.count(plain.substr(at, size)) == 0) --size;
    if (size == 0) {
      stretch += plain[at++];
      continue;
    }
    merge(stretch, out);
    stretch.clear();
    out.push_back(user_defined_.at(plain.substr(at, size)));
    at += size;
  }
  merge(stretch, out);
  return out;
}

// Score of the token that symbols s and s + 1 make.
std::optional<float> SlowEncoder::pair_score(const std::vector<std::string>& symbols,
                                             std::size_t s) const {
  if (s + 1 >= symbols.size()) return std::nullopt;
  const auto found = normal_.find(symbols[s] + symbols[s + 1]);
  if (found == normal_.end()) return std::nullopt;
  return vocab_.score(found->second);
}

void SlowEncoder::merge(const std::string& text, std::vector<Token>& out) const {
  std::vector<std::string> symbols = characters(text);
  std::vector<std::optional<float>> scores;
  for (std::size_t s = 0; s < symbols.size(); ++s) scores.push_back(pair_score(symbols, s));
  while (true) {
    // An absent score is below every present one; of equals the first is found.
    const auto best = std::max_element(scores.begin(), scores.end());
    if (best == scores.end() || !*best) break;
    const auto s = static_cast<std::size_t>(best - scores.begin());
    symbols[s] += symbols[s + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(s) + 1);
    scores.erase(best);
    if (s > 0) scores[s - 1] = pair_score(symbols, s - 1);
    scores[s] = pair_score(symbols, s);
  }
  for (const std::string& symbol : symbols) {
    if (const auto found = normal_.find(symbol); found != normal_.end()) {
      out.push_back(found->second);
    } else {
      for (const char c : symbol) out.push_back(vocab_.byte_token(static_cast<std::uint8_t>(c)));
    }
  }
}

}  // namespace engine::test
