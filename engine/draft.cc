#include "engine/draft.h"

namespace engine {

void NgramDraft::append(Token token) {
  if (ends_.empty()) ends_.resize(std::size_t{1} << kTableBits);
  tokens_.push_back(token);
  follow(token);
  if (tokens_.size() < kGram) return;
  std::int32_t& end = latest_end();
  if (n_copied_ < kGram && ends_as_text(static_cast<std::size_t>(end))) {
    source_ = static_cast<std::size_t>(end);
    n_copied_ = kGram;
  }
  end = static_cast<std::int32_t>(tokens_.size());
}

void NgramDraft::follow(Token token) {
  if (source_ == 0) return;
  const bool is_same = tokens_[source_++] == token;
  if (!is_same && n_copied_ < kTrusted) source_ = 0;
  n_copied_ = is_same ? n_copied_ + 1 : 0;
}

// Whether the kGram tokens before `end` are the last ones; false for 0, and for what shares only a hash.
bool NgramDraft::ends_as_text(std::size_t end) const {
  return end != 0 && std::equal(tokens_.end() - kGram, tokens_.end(),
                                tokens_.begin() + static_cast<std::ptrdiff_t>(end - kGram));
}

// The table's entry for the last kGram tokens.
std::int32_t& NgramDraft::latest_end() {
  std::uint64_t hash = 0;
  for (std::size_t i = tokens_.size() - kGram; i < tokens_.size(); ++i)
    // 2^64 divided by the golden ratio (Knuth, vol. 3, 6.4).
    hash = (hash ^ static_cast<std::uint32_t>(tokens_[i])) * 0x9E3779B97F4A7C15u;
  return ends_[hash >> (64 - kTableBits)];
}

std::vector<Token> NgramDraft::propose(std::size_t n) const {
  std::vector<Token> draft;
  if (source_ == 0) return draft;
  draft.reserve(n);
  const std::size_t n_there =
      tokens_.size() - source_;  // at least one: an n-gram's end was earlier
  for (std::size_t i = 0; i < n; ++i)
    draft.push_back(i < n_there ? tokens_[source_ + i] : draft[i - n_there]);
  return draft;
}

void DraftBudget::count(int n_drafted, int n_accepted) noexcept {
  const int change = n_drafted == 0 ? kEarned : n_accepted * kStep - n_drafted * kColumn;
  credit_ = std::min(credit_ + change, kMost);
  if (n_drafted > 0) n_next_ = n_accepted == n_drafted ? 2 * n_drafted : n_accepted + 1;
}

}  // namespace engine
