#include "tokenizer/merger.h"

#include <algorithm>
#include <bit>

#include "gguf/utf8.h"

namespace engine::tokenizer {

namespace {

constexpr std::int32_t kNone = -1;

// Higher scores have higher ranks. The bits of positive floats are in order as they are, those of
// negative ones in reverse.
std::uint32_t rank_of(float score) {
  constexpr std::uint32_t kSign = 1u << 31;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 becomes +0, its equal
  return bits & kSign ? ~bits : bits | kSign;
}

// Orders pairs by score, then the leftmost first.
std::uint64_t key_of(std::uint32_t rank, std::int32_t left) {
  return std::uint64_t{rank} << 32 | ~static_cast<std::uint32_t>(left);
}
std::int32_t left_of(std::uint64_t key) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
}

}  // namespace

void Merger::append_tokens(std::string_view text, std::vector<Token>& out) {
  if (text.empty()) return;
  split(text);
  sorted_.clear();
  for (std::int32_t s = 0; s != kNone; s = symbol(s).next) {
    if (find_pair(text, s)) sorted_.push_back(pair_key(s));
  }
  std::sort(sorted_.begin(), sorted_.end());

  while (!sorted_.empty() || !heap_.empty()) {
    const std::uint64_t best = pop_best();
    const std::int32_t left = left_of(best);
    if (symbol(left).pair_token == kNone || pair_key(left) != best) continue;
    merge_pair(left);
    for (const std::int32_t s : {symbol(left).prev, left}) {
      if (s != kNone && find_pair(text, s)) push(pair_key(s));
    }
  }
  for (std::int32_t s = 0; s != kNone; s = symbol(s).next) append_symbol(text, symbol(s), out);
}

void Merger::split(std::string_view text) {
  symbols_.clear();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view rest = text.substr(begin);
    // A byte that starts no character is a symbol of its own.
    const std::size_t size = std::max<std::size_t>(gguf::first_code_point(rest).size, 1);
    const auto s = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size), s - 1,
                        s + 1, vocab_->find_normal(rest.substr(0, size))});
    begin += size;
  }
  symbols_.back().next = kNone;
}

bool Merger::find_pair(std::string_view text, std::int32_t left) {
  Symbol& s = symbol(left);
  s.pair_token = kNone;
  if (s.next == kNone) return false;
  s.pair_token = vocab_->find_normal(text.substr(s.begin, s.size + symbol(s.next).size));
  if (s.pair_token == kNone) return false;
  s.pair_rank = rank_of(vocab_->score(s.pair_token));
  return true;
}

std::uint64_t Merger::pair_key(std::int32_t left) const {
  return key_of(symbols_[static_cast<std::size_t>(left)].pair_rank, left);
}

void Merger::push(std::uint64_t key) {
  heap_.push_back(key);
  std::push_heap(heap_.begin(), heap_.end());
}

std::uint64_t Merger::pop_best() {
  const bool from_sorted = heap_.empty() || (!sorted_.empty() && sorted_.back() >= heap_.front());
  if (!from_sorted) std::pop_heap(heap_.begin(), heap_.end());
  std::vector<std::uint64_t>& keys = from_sorted ? sorted_ : heap_;
  const std::uint64_t best = keys.back();
  keys.pop_back();
  return best;
}

void Merger::merge_pair(std::int32_t left) {
  Symbol& s = symbol(left);
  Symbol& right = symbol(s.next);
  s.size += right.size;
  s.token = s.pair_token;
  s.next = right.next;
  if (right.next != kNone) symbol(right.next).prev = left;
  right.pair_token = kNone;  // its waiting keys are void
}

void Merger::append_symbol(std::string_view text, const Symbol& s, std::vector<Token>& out) const {
  if (s.token != kNone) {
    out.push_back(s.token);
    return;
  }
  for (const char c : text.substr(s.begin, s.size))
    out.push_back(vocab_->byte_token(static_cast<std::uint8_t>(c)));
}

}  // namespace engine::tokenizer
