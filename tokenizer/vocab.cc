#include "tokenizer/vocab.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "gguf/file_error.h"
#include "tokenizer/space_mark.h"

namespace engine::tokenizer {

namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr Token kNoToken = -1;

// Texts that the chat format and the end of a generation are made of. A file that lists one of them
// as an ordinary token would let user text produce it, so they are control tokens in any case.
constexpr std::string_view kMarkers[] = {"<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"};

// A hash table that needs longer searches was made to be slow; chance stays far below.
constexpr std::size_t kMaxProbes = 256;

Status vocab_error(std::string message) {
  return gguf::file_error(Detail::vocab, std::move(message));
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kMaxShown = 40;
  return '"' + gguf::printable(text, kMaxShown) + '"';
}

std::string token_name(Token t) { return "token " + std::to_string(t); }

// The byte that "<0xHH>" stands for; nothing for any other text.
std::optional<std::uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  std::uint8_t byte = 0;
  const char* digits = text.data() + 3;
  const char* end = digits + 2;
  const auto [stop, error] = std::from_chars(digits, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return byte;
}

// Multiply-and-shift over eight bytes at a time.
// The length goes in first, so padding is unambiguous.
std::uint64_t hash(std::string_view text) {
  constexpr std::uint64_t kOddMultiplier = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  std::uint64_t h = text.size() * kOddMultiplier;
  while (!text.empty()) {
    const std::size_t n = std::min<std::size_t>(text.size(), 8);
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), n);
    h = (h ^ word) * kOddMultiplier;
    h ^= h >> 32;
    text.remove_prefix(n);
  }
  return h;
}

std::uint8_t tag_of(std::uint64_t hash) {
  return std::max<std::uint8_t>(static_cast<std::uint8_t>(hash >> 56), 1);  // 0 is a free slot
}

Status check_sizes(std::size_t n_tokens, std::size_t n_scores, std::size_t n_types) {
  if (n_scores != n_tokens)
    return vocab_error(std::string(kScoresKey) + ": expected " + std::to_string(n_tokens) +
                       " elements, one per token, got " + std::to_string(n_scores));
  if (n_types != n_tokens)
    return vocab_error(std::string(kTypesKey) + ": expected " + std::to_string(n_tokens) +
                       " elements, one per token, got " + std::to_string(n_types));
  return {};
}

Status check_model(const gguf::Reader& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.model";
  ENGINE_ASSIGN(const std::string_view model, file.get_or<std::string_view>(kKey, ""));
  if (model == "llama") return {};
  return gguf::file_error(Detail::unsupported,
                          std::string(kKey) + ": expected \"llama\" (SentencePiece), got " +
                              (file.find(kKey) == nullptr ? "no such key" : quoted(model)));
}

Result<VocabSettings> read_settings(const gguf::Reader& file) {
  const VocabSettings defaults;
  const auto id = [&](std::string_view key, std::uint32_t fallback) {
    return file.get_or<std::uint32_t>(key, fallback);
  };
  VocabSettings settings;
  ENGINE_ASSIGN(settings.bos, id("tokenizer.ggml.bos_token_id", defaults.bos));
  ENGINE_ASSIGN(settings.eos, id("tokenizer.ggml.eos_token_id", defaults.eos));
  ENGINE_ASSIGN(settings.unk, id("tokenizer.ggml.unknown_token_id", defaults.unk));
  ENGINE_ASSIGN(settings.pad, id("tokenizer.ggml.padding_token_id", defaults.pad));
  constexpr std::string_view kEotKey = "tokenizer.ggml.eot_token_id";
  if (file.find(kEotKey) != nullptr) {
    ENGINE_ASSIGN(settings.eot, file.get<std::uint32_t>(kEotKey));
  }
  ENGINE_ASSIGN(settings.add_bos,
                file.get_or<bool>("tokenizer.ggml.add_bos_token", defaults.add_bos));
  ENGINE_ASSIGN(settings.add_space_prefix,
                file.get_or<bool>("tokenizer.ggml.add_space_prefix", defaults.add_space_prefix));
  // Which text is split where before the merges; SentencePiece does not split.
  ENGINE_TRY(file.get_or<std::string_view>("tokenizer.ggml.pre", "").status());
  return settings;
}

}  // namespace

Result<Vocab> Vocab::from_file(const gguf::Reader& file, int n_vocab_rows) {
  ENGINE_TRY(check_model(file));
  ENGINE_ASSIGN(const VocabSettings settings, read_settings(file));
  constexpr std::string_view kAddEosKey = "tokenizer.ggml.add_eos_token";
  ENGINE_ASSIGN(const bool adds_eos, file.get_or<bool>(kAddEosKey, false));
  ENGINE_ASSIGN(const gguf::StringArray texts, file.get_strings(kTokensKey));
  ENGINE_ASSIGN(const std::vector<float> scores, file.get_array<float>(kScoresKey));
  ENGINE_ASSIGN(const std::vector<std::int32_t> types, file.get_array<std::int32_t>(kTypesKey));
  ENGINE_TRY(check_sizes(texts.size(), scores.size(), types.size()));

  std::vector<TokenEntry> entries;
  entries.reserve(texts.size());
  for (const std::string_view text : texts)
    entries.push_back({text, scores[entries.size()], types[entries.size()]});
  ENGINE_ASSIGN(Vocab vocab, from_entries(entries, settings, n_vocab_rows));
  if (adds_eos)
    vocab.warnings_.push_back(std::string(kAddEosKey) +
                              " is true; it is ignored, because Gemma's prompts do not end in EOS");
  return vocab;
}

Result<Vocab> Vocab::from_entries(std::span<const TokenEntry> entries,
                                  const VocabSettings& settings, int n_vocab_rows) {
  if (entries.empty() || std::cmp_greater(entries.size(), n_vocab_rows))
    return vocab_error(std::string(kTokensKey) + ": expected 1 to " + std::to_string(n_vocab_rows) +
                       " tokens, as many as the embedding has rows, got " +
                       std::to_string(entries.size()));
  Vocab vocab;
  ENGINE_TRY(vocab.add_entries(entries));
  ENGINE_TRY(vocab.check_byte_tokens());
  vocab.set_markers();
  ENGINE_TRY(vocab.set_special_ids(settings));
  ENGINE_TRY(vocab.build_index());
  ENGINE_TRY(vocab.build_matchers());
  if (vocab.size() < n_vocab_rows)
    vocab.warnings_.push_back(std::string(kTokensKey) + ": " + std::to_string(vocab.size()) +
                              " tokens for " + std::to_string(n_vocab_rows) +
                              " embedding rows; the rows without a token are never sampled");
  return vocab;
}

std::string_view Vocab::text(Token t) const noexcept {
  if (!contains(t)) return {};
  const std::uint32_t* at = &offsets_[static_cast<std::size_t>(t)];
  return {pool_.data() + at[0], at[1] - at[0]};
}

bool Vocab::is_control(Token t) const noexcept {
  return contains(t) && (type(t) == TokenType::control || type(t) == TokenType::unknown);
}

bool Vocab::is_end_of_generation(Token t) const noexcept {
  return std::find(end_of_generation_.begin(), end_of_generation_.end(), t) !=
         end_of_generation_.end();
}

std::optional<Token> Vocab::find(std::string_view text) const noexcept {
  if (const Token t = find_normal(text); t != kNoToken) return t;
  if (const auto match = user_defined_.exact(text); match.size != 0) return match.token;
  if (const auto match = special_.exact(text); match.size != 0) return match.token;
  return std::nullopt;
}

Status Vocab::add_entries(std::span<const TokenEntry> entries) {
  std::uint64_t n_bytes = 0;
  for (const TokenEntry& entry : entries) n_bytes += entry.text.size();
  if (n_bytes > std::numeric_limits<std::uint32_t>::max())
    return vocab_error(std::string(kTokensKey) + ": expected less than 4 GiB of text, got " +
                       std::to_string(n_bytes) + " bytes");
  pool_.reserve(n_bytes);
  offsets_.reserve(entries.size() + 1);
  scores_.reserve(entries.size());
  types_.reserve(entries.size());
  byte_tokens_.fill(kNoToken);

  offsets_.push_back(0);
  for (const TokenEntry& entry : entries) {
    const Token t = size();
    if (entry.type < 1 || entry.type > 6)
      return vocab_error(std::string(kTypesKey) + ": " + token_name(t) +
                         ": expected a type of 1 to 6, got " + std::to_string(entry.type));
    // An order with NaN in it is no order, and nothing may beat every merge.
    if (std::isnan(entry.score) || entry.score == std::numeric_limits<float>::infinity())
      return vocab_error(std::string(kScoresKey) + ": " + token_name(t) +
                         ": expected a number, got " + std::to_string(entry.score));
    const auto type = static_cast<TokenType>(entry.type);
    if (type == TokenType::byte) {
      ENGINE_TRY(add_byte_token(t, entry.text));
    } else {
      append_with_spaces(entry.text, pool_);
    }
    offsets_.push_back(static_cast<std::uint32_t>(pool_.size()));
    scores_.push_back(entry.score);
    types_.push_back(type);
  }
  return {};
}

Status Vocab::add_byte_token(Token t, std::string_view text) {
  const std::optional<std::uint8_t> byte = parse_byte_token(text);
  if (!byte)
    return vocab_error(std::string(kTokensKey) + ": byte " + token_name(t) +
                       ": expected \"<0xHH>\" with two hexadecimal digits, got " + quoted(text));
  Token& slot = byte_tokens_[*byte];
  if (slot != kNoToken)
    return vocab_error(std::string(kTokensKey) + ": expected one token for each byte, got both " +
                       token_name(slot) + " and " + token_name(t) + " for " + quoted(text));
  slot = t;
  pool_.push_back(static_cast<char>(*byte));
  return {};
}

Status Vocab::check_byte_tokens() const {
  const auto absent = std::find(byte_tokens_.begin(), byte_tokens_.end(), kNoToken);
  if (absent == byte_tokens_.end()) return {};
  return vocab_error(std::string(kTokensKey) +
                     ": expected a token for each of the 256 bytes, got none for byte " +
                     std::to_string(absent - byte_tokens_.begin()));
}

void Vocab::set_markers() {
  for (Token t = 0; t < size(); ++t) {
    const std::string_view token_text = text(t);
    if (std::find(std::begin(kMarkers), std::end(kMarkers), token_text) == std::end(kMarkers))
      continue;
    if (!is_control(t)) {
      types_[static_cast<std::size_t>(t)] = TokenType::control;
      warnings_.push_back(std::string(kTypesKey) + ": " + token_name(t) + " " + quoted(token_text) +
                          " is not marked as a control token; it is treated as one");
    }
    if (token_text == "<start_of_turn>" && !start_of_turn_) start_of_turn_ = t;
    if (token_text == "<end_of_turn>" && !end_of_turn_) end_of_turn_ = t;
    if (token_text == "<end_of_turn>" || token_text == "<eos>") end_of_generation_.push_back(t);
  }
}

void Vocab::add_end_of_generation(Token t) {
  if (!is_end_of_generation(t)) end_of_generation_.push_back(t);
}

Status Vocab::set_special_ids(const VocabSettings& settings) {
  const auto check = [&](std::string_view name, std::uint32_t id) -> Result<Token> {
    if (std::cmp_less(id, size())) return static_cast<Token>(id);
    return vocab_error("tokenizer.ggml." + std::string(name) + "_token_id: expected an id below " +
                       std::to_string(size()) + ", the number of tokens, got " +
                       std::to_string(id));
  };
  ENGINE_ASSIGN(bos_, check("bos", settings.bos));
  ENGINE_ASSIGN(eos_, check("eos", settings.eos));
  ENGINE_ASSIGN(unk_, check("unknown", settings.unk));
  ENGINE_TRY(check("padding", settings.pad).status());
  add_end_of_generation(eos_);
  if (settings.eot) {
    ENGINE_ASSIGN(const Token eot, check("eot", *settings.eot));
    add_end_of_generation(eot);
  }
  add_bos_ = settings.add_bos;
  add_space_prefix_ = settings.add_space_prefix;
  return {};
}

Status Vocab::build_index() {
  const auto n_normal = std::count(types_.begin(), types_.end(), TokenType::normal);
  // At most half full, so that runs of taken slots stay short and a search always meets a free one.
  const std::size_t n_slots = std::bit_ceil(2 * static_cast<std::size_t>(n_normal) + 2);
  tags_.assign(n_slots, 0);
  slots_.assign(n_slots, kNoToken);
  for (Token t = 0; t < size(); ++t) {
    const std::string_view token_text = text(t);
    if (type(t) != TokenType::normal || token_text.empty()) continue;
    const std::uint64_t h = hash(token_text);
    const std::size_t slot = find_slot(token_text);
    if (((slot - h) & (n_slots - 1)) > kMaxProbes)
      return vocab_error(std::string(kTokensKey) + ": " + token_name(t) + ": more than " +
                         std::to_string(kMaxProbes) + " tokens with neighbouring hashes");
    if (tags_[slot] != 0) continue;
    tags_[slot] = tag_of(h);
    slots_[slot] = t;
  }
  return {};
}

std::size_t Vocab::find_slot(std::string_view wanted) const noexcept {
  const std::uint64_t h = hash(wanted);
  const std::uint8_t tag = tag_of(h);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = h & mask;
  while (tags_[slot] != 0 && (tags_[slot] != tag || text(slots_[slot]) != wanted))
    slot = (slot + 1) & mask;
  return slot;
}

Status Vocab::build_matchers() {
  std::vector<SpecialMatcher::Entry> user_defined, special;
  for (Token t = 0; t < size(); ++t) {
    const bool is_user_defined = type(t) == TokenType::user_defined;
    const std::string_view token_text = text(t);
    if ((!is_user_defined && !is_control(t)) || token_text.empty()) continue;
    if (token_text.size() > kMaxSpecialBytes)
      return vocab_error(std::string(kTokensKey) + ": " + token_name(t) + ": expected at most " +
                         std::to_string(kMaxSpecialBytes) +
                         " bytes in a control or user-defined token, got " +
                         std::to_string(token_text.size()));
    special.push_back({token_text, t});
    if (is_user_defined) user_defined.push_back({token_text, t});
  }
  user_defined_ = SpecialMatcher(std::move(user_defined));
  special_ = SpecialMatcher(std::move(special));
  return {};
}

}  // namespace engine::tokenizer
