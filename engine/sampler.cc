#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "kernels/op/philox.h"
#include "kernels/op/sample_weights.h"

namespace engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kGreedyTemperature = 1e-4f;
constexpr float kWeightOne = 0x1p32f;  // weight of the most likely token

// Products of two 64-bit numbers; every supported compiler has the type.
__extension__ using Wide = unsigned __int128;

// A token with its logit, then with its weight: an integer of at most 24 significant bits, which a
// float holds exactly.
struct Candidate {
  float value;
  Token id;
};

std::uint64_t integer(float weight) { return static_cast<std::uint64_t>(weight); }

// What a selection by size keeps: all that is above `value`, and the first `n_ties` equal to it.
struct Cut {
  float value;
  std::uint64_t n_ties;

  bool keeps(float v) {  // to be asked in ascending id
    const bool tie = v == value && n_ties > 0;
    n_ties -= tie ? 1u : 0u;
    return v > value || tie;
  }
};

// std::erase_if of the others, but without a branch to mispredict.
template <class Keep>
void keep_if(std::vector<Candidate>& candidates, Keep keep) {
  std::size_t n = 0;
  for (const Candidate c : candidates) {
    candidates[n] = c;
    n += keep(c) ? 1u : 0u;
  }
  candidates.resize(n);
}

Status out_of_range(const char* option, double value, const char* range) {
  return Status(Code::invalid_argument, std::string("sampler option ") + option + " is " +
                                            std::to_string(value) + ", expected " + range);
}

// Logits that share a maximum: few enough that a block is soon searched, many enough that there are
// few maxima.
constexpr int kBlock = 256;
constexpr int kBlocksAPart = 128;  // worth a thread

// The logits and the largest of each block; a block with a NaN or infinity has maximum +infinity.
struct BlockMaxima {
  std::span<const float> logits;
  std::vector<float> maxima;

  std::span<const float> block(std::size_t b) const {
    return logits.subspan(b * kBlock, std::min<std::size_t>(kBlock, logits.size() - b * kBlock));
  }
};

float largest(std::span<const float> block) {
  const auto is_right = [](float v) { return v < kInfinity; };  // minus infinity is, too
  if (block.size() < kBlock)
    return std::all_of(block.begin(), block.end(), is_right)
               ? *std::max_element(block.begin(), block.end())
               : kInfinity;
  // In lanes, so that the loops vectorise. A value that is not finite leaves a NaN in `zero`.
  constexpr int kLanes = 16;
  float max[kLanes], zero[kLanes] = {};
  std::copy_n(block.begin(), kLanes, max);
  for (std::size_t i = 0; i < kBlock; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float v = block[i + lane];
      max[lane] = v > max[lane] ? v : max[lane];
      zero[lane] = zero[lane] + (v - v);
    }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) {
      max[lane] = max[lane + half] > max[lane] ? max[lane + half] : max[lane];
      zero[lane] = zero[lane] + zero[lane + half];
    }
  if (zero[0] == 0 || std::all_of(block.begin(), block.end(), is_right)) return max[0];
  return kInfinity;
}

BlockMaxima block_maxima(std::span<const float> logits, cpu::Pool& pool) {
  BlockMaxima blocks = {logits, std::vector<float>((logits.size() + kBlock - 1) / kBlock)};
  pool.parallel_for(static_cast<int>(blocks.maxima.size()), kBlocksAPart, [&](int begin, int end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b)
      blocks.maxima[b] = largest(blocks.block(b));
  });
  return blocks;
}

Status not_finite(std::span<const float> logits) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float v) { return !(v < kInfinity); });
  return Status(Code::non_finite, "logit of token " + std::to_string(bad - logits.begin()) +
                                      " is " + std::to_string(*bad) + ", expected a finite number");
}

// The highest logit, the lowest id among equals.
Result<Token> best_token(const BlockMaxima& blocks) {
  const auto max = std::max_element(blocks.maxima.begin(), blocks.maxima.end());
  if (max == blocks.maxima.end() || *max == -kInfinity)
    return Status(Code::non_finite, "no token has a finite logit");
  if (*max == kInfinity) return not_finite(blocks.logits);
  // The maximum lies in the first block that has it.
  const auto first = blocks.logits.begin() + (max - blocks.maxima.begin()) * kBlock;
  return static_cast<Token>(std::find(first, blocks.logits.end(), *max) - blocks.logits.begin());
}

bool has_penalties(const SamplerOptions& options) {
  return options.penalty_window != 0 &&
         (options.repeat_penalty != 1 || options.presence_penalty != 0 ||
          options.frequency_penalty != 0);
}

float penalised(float logit, std::ptrdiff_t count, const SamplerOptions& options) {
  const float scaled = logit > 0 ? logit / options.repeat_penalty : logit * options.repeat_penalty;
  return scaled -
         (static_cast<float>(count) * options.frequency_penalty + options.presence_penalty);
}

std::vector<Token> seen_tokens(std::span<const Token> history, int window) {
  if (window >= 0)
    history = history.last(std::min(history.size(), static_cast<std::size_t>(window)));
  std::vector<Token> seen(history.begin(), history.end());
  std::sort(seen.begin(), seen.end());
  return seen;
}

Status apply_penalties(std::span<float> logits, std::span<const Token> history,
                       const SamplerOptions& options) {
  const std::vector<Token> seen = seen_tokens(history, options.penalty_window);
  for (auto first = seen.begin(); first != seen.end();) {
    const auto last = std::upper_bound(first, seen.end(), *first);
    const auto id = static_cast<std::size_t>(*first);  // a negative id becomes a huge one
    if (id < logits.size() && logits[id] < kInfinity) {
      logits[id] = penalised(logits[id], last - first, options);
      if (!(logits[id] < kInfinity))
        return Status(Code::invalid_argument,
                      "the penalties overflow the logit of token " + std::to_string(id));
    }
    first = last;
  }
  return {};
}

// Leaves the k largest and returns the least of them.
float keep_largest(std::vector<float>& values, std::size_t k) {
  const auto kth = values.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(values.begin(), kth, values.end(), std::greater<>());
  values.resize(k);
  return values.back();
}

// The k largest, 0 < k < candidates.size(), lower ids first among equals.
void keep_highest(std::vector<Candidate>& candidates, std::size_t k) {
  std::vector<float> values;
  values.reserve(candidates.size());
  for (const Candidate& c : candidates) values.push_back(c.value);
  const float bound = keep_largest(values, k);
  const auto n_above =
      std::count_if(values.begin(), values.end(), [&](float v) { return v > bound; });
  Cut cut = {bound, k - static_cast<std::size_t>(n_above)};
  keep_if(candidates, [&](const Candidate& c) { return cut.keeps(c.value); });
}

// What top-k keeps, in ascending id. If k blocks have a maximum of at least `bound`, then so have k
// logits, and none below it is kept: only blocks that reach it are searched.
std::vector<Candidate> keep_top_k(const BlockMaxima& blocks, int top_k) {
  const auto k = top_k == 0 ? blocks.logits.size() : static_cast<std::size_t>(top_k);
  std::vector<float> maxima = blocks.maxima;
  const float bound = k < maxima.size() ? keep_largest(maxima, k) : -kInfinity;
  std::vector<Candidate> candidates;
  candidates.reserve(std::min(k, blocks.logits.size()));
  for (std::size_t b = 0; b < blocks.maxima.size(); ++b) {
    if (!(blocks.maxima[b] >= bound)) continue;
    const std::span<const float> block = blocks.block(b);
    for (std::size_t i = 0; i < block.size(); ++i)
      if (block[i] >= bound && block[i] > -kInfinity)
        candidates.push_back({block[i], static_cast<Token>(b * kBlock + i)});
  }
  if (candidates.size() > k) keep_highest(candidates, k);
  return candidates;
}

// Logits become weights. Tokens of weight zero cannot be drawn and are dropped.
void weigh(std::vector<Candidate>& candidates, float max, float temperature, cpu::Pool& pool) {
  std::vector<float> weights;
  weights.reserve(candidates.size());
  for (const Candidate& c : candidates) weights.push_back(c.value);
  cpu::sample_weights(
      {weights.data(), weights.data(), static_cast<int>(weights.size()), max, temperature}, pool);
  for (std::size_t i = 0; i < weights.size(); ++i)
    candidates[i].value = static_cast<float>(integer(weights[i]));
  keep_if(candidates, [](const Candidate& c) { return c.value > 0; });
}

std::uint64_t total_weight(std::span<const Candidate> candidates) {
  std::uint64_t sum = 0;
  for (const Candidate& c : candidates) sum += integer(c.value);
  return sum;
}

// ceil(top_p * sum), at least 1: the most likely token always stays.
std::uint64_t mass_of_top_p(const op::Draw& draw, std::uint64_t sum) {
  if (draw.top_p_shift >= 100) return 1;  // the product is below 2^90
  const Wide rounded_up = (Wide{1} << draw.top_p_shift) - 1;
  const Wide mass = (Wide{draw.top_p_mantissa} * sum + rounded_up) >> draw.top_p_shift;
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(mass), 1);
}

// The shortest list of heaviest candidates with at least `mass`, 0 < mass <= their total weight.
// The bits of a positive float order as it does: those of the last weight on the list are found 11
// at a time, from the mass that each value of them holds.
Cut top_mass_cut(std::span<const Candidate> candidates, std::uint64_t mass) {
  constexpr int kDigitBits = 11;
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  std::uint32_t found = 0;  // the leading bits
  for (int shift = 2 * kDigitBits; shift >= 0; shift -= kDigitBits) {
    std::array<std::uint64_t, kDigits> masses{};
    for (const Candidate& c : candidates) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(c.value) >> shift;
      if (bits >> kDigitBits == found) masses[bits % kDigits] += integer(c.value);
    }
    std::uint32_t digit = kDigits - 1;
    for (; masses[digit] < mass; --digit) mass -= masses[digit];
    found = found << kDigitBits | digit;
  }
  const auto value = std::bit_cast<float>(found);
  return {value, (mass + integer(value) - 1) / integer(value)};
}

void keep_top_p(std::vector<Candidate>& candidates, const op::Draw& draw) {
  // 1 is 2^23 * 2^-23, and any smaller share has a mantissa below 2^shift.
  const bool all = draw.top_p_shift < 24 && draw.top_p_mantissa >> draw.top_p_shift != 0;
  if (all) return;
  Cut cut = top_mass_cut(candidates, mass_of_top_p(draw, total_weight(candidates)));
  keep_if(candidates, [&](const Candidate& c) { return cut.keeps(c.value); });
}

void keep_min_p(std::vector<Candidate>& candidates, const op::Draw& draw) {
  const auto least = static_cast<float>(draw.min_weight);
  keep_if(candidates, [&](const Candidate& c) { return c.value >= least; });
}

// `bits` is uniform over 64 bits.
Token draw_one(std::span<const Candidate> candidates, std::uint64_t bits) {
  const auto mark = static_cast<std::uint64_t>((Wide{bits} * total_weight(candidates)) >> 64);
  std::uint64_t running = 0;
  for (const Candidate& c : candidates) {
    running += integer(c.value);
    if (running > mark) return c.id;
  }
  return candidates.back().id;  // not reached: mark is below the total
}

bool is_greedy(const SamplerOptions& options) {
  return options.temperature <= kGreedyTemperature || options.top_k == 1;
}

op::Draw draw_of(const SamplerOptions& options, std::uint64_t index) {
  int exponent = 0;
  const float fraction = std::frexp(options.top_p, &exponent);  // top_p = fraction * 2^exponent
  return {.temperature = std::max(options.temperature, kGreedyTemperature),
          .top_p_mantissa = static_cast<std::uint32_t>(fraction * 0x1p24f),
          .top_p_shift = 24 - exponent,
          .min_weight = integer(options.min_p * kWeightOne),
          .bits = op::philox_bits(options.seed, index)};
}

// What top-k has kept, in ascending id; `max` is the highest logit.
Token draw_from(std::vector<Candidate> candidates, float max, const op::Draw& draw,
                cpu::Pool& pool) {
  weigh(candidates, max, draw.temperature, pool);
  keep_top_p(candidates, draw);
  keep_min_p(candidates, draw);
  return draw_one(candidates, draw.bits);
}

Result<Token> sample_penalised(std::span<const float> logits, const SamplerOptions& options,
                               std::uint64_t index, cpu::Pool& pool) {
  const BlockMaxima blocks = block_maxima(logits, pool);
  ENGINE_ASSIGN(const Token best, best_token(blocks));
  if (is_greedy(options)) return best;
  return draw_from(keep_top_k(blocks, options.top_k), logits[static_cast<std::size_t>(best)],
                   draw_of(options, index), pool);
}

}  // namespace

// Comparisons are written so that NaN fails them.
Status check(const SamplerOptions& options) {
  const auto within = [](float value, float low, float high) {
    return value >= low && value <= high;
  };
  constexpr float kMax = std::numeric_limits<float>::max();
  if (!within(options.temperature, 0, kMax))
    return out_of_range("temperature", options.temperature, "a finite number >= 0");
  if (options.top_k < 0) return out_of_range("top_k", options.top_k, "a number >= 0");
  if (!within(options.top_p, 0, 1)) return out_of_range("top_p", options.top_p, "0 to 1");
  if (!within(options.min_p, 0, 1)) return out_of_range("min_p", options.min_p, "0 to 1");
  if (!within(options.repeat_penalty, std::numeric_limits<float>::min(), kMax))
    return out_of_range("repeat_penalty", options.repeat_penalty, "a finite number > 0");
  if (!within(options.presence_penalty, -kMax, kMax))
    return out_of_range("presence_penalty", options.presence_penalty, "a finite number");
  if (!within(options.frequency_penalty, -kMax, kMax))
    return out_of_range("frequency_penalty", options.frequency_penalty, "a finite number");
  if (options.penalty_window < -1)
    return out_of_range("penalty_window", options.penalty_window, "a number >= -1");
  return {};
}

Result<Token> sample(std::span<const float> logits, std::span<const Token> history,
                     const SamplerOptions& options, std::uint64_t index, cpu::Pool& pool) {
  ENGINE_TRY(check(options));
  if (!options.edit_logits && !has_penalties(options))
    return sample_penalised(logits, options, index, pool);
  std::vector<float> adjusted(logits.begin(), logits.end());
  if (options.edit_logits) options.edit_logits(history, adjusted);
  if (has_penalties(options)) ENGINE_TRY(apply_penalties(adjusted, history, options));
  return sample_penalised(adjusted, options, index, pool);
}

std::optional<Candidates> candidates_of(const SamplerOptions& options, std::uint64_t index,
                                        int most) {
  const int k = is_greedy(options) ? 1 : options.top_k;
  if (options.edit_logits || has_penalties(options) || k == 0 || k > most) return {};
  return Candidates{k, draw_of(options, index)};
}

Token draw_among(std::span<const std::int32_t> ids, std::span<const float> values,
                 const op::Draw& draw, cpu::Pool& pool) {
  if (ids.size() == 1) return ids[0];
  std::vector<Candidate> candidates;
  candidates.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) candidates.push_back({values[i], ids[i]});
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return draw_from(std::move(candidates), values[0], draw, pool);
}

}  // namespace engine
