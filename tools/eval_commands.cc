#include "tools/eval_commands.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "tools/program.h"

namespace engine::tools {
namespace {

constexpr int kDefaultTop = 32;
constexpr int kDefaultMaxTokens = 128;  // a pretrained model never ends by itself
// A short request must not ask for an answer that does not fit the memory.
constexpr std::size_t kMaxPositions = 65'536;
constexpr std::size_t kMaxTopLogits = std::size_t{2} << 20;  // of all positions together
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

Result<std::vector<Token>> ids_field(const Evaluator& evaluator, const EvalRequest& request) {
  return request.indices("ids", evaluator.model.info().n_vocab);
}

// Ids as given, or a text's with BOS; at least one, and not more than the context holds.
Result<std::vector<Token>> prompt_field(const Evaluator& evaluator, const EvalRequest& request) {
  if (request.has("ids") == request.has("text")) return bad_input("expected either ids or text");
  std::vector<Token> ids;
  if (request.has("ids")) {
    ENGINE_ASSIGN(ids, ids_field(evaluator, request));
  } else {
    ENGINE_ASSIGN(const std::string text, request.text("text"));
    ENGINE_ASSIGN(ids, evaluator.model.tokenize(text));
  }
  const auto n_ctx = static_cast<std::size_t>(evaluator.session.n_ctx());
  if (ids.empty()) return bad_input("the prompt is empty");
  if (ids.size() > n_ctx)
    return bad_input("the prompt has " + std::to_string(ids.size()) +
                     " tokens, the context holds " + std::to_string(n_ctx));
  return ids;
}

// In double, to be exact enough to compare engines by.
double logsumexp(std::span<const float> logits) {
  const auto max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return max + std::log(sum);
}

// The n highest logits with their ids, equals by id. Masked ids (minus infinity) are left out.
Json top_logits(std::span<const float> logits, std::size_t n) {
  std::vector<Token> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](Token id) { return logits[static_cast<std::size_t>(id)]; };
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(ids.begin(), middle, ids.end(), [&](Token a, Token b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  Json top = Json::array();
  for (auto id = ids.begin(); id != middle && std::isfinite(logit(*id)); ++id)
    top.push_back({*id, short_float(logit(*id))});
  return top;
}

Status check_answer_size(std::size_t n_positions, std::size_t top) {
  if (n_positions > kMaxPositions)
    return bad_input("positions: expected at most " + std::to_string(kMaxPositions) + ", got " +
                     std::to_string(n_positions));
  if (n_positions * top > kMaxTopLogits)
    return bad_input("positions times top: expected at most " + std::to_string(kMaxTopLogits) +
                     ", got " + std::to_string(n_positions * top));
  return {};
}

Result<std::vector<int>> positions_field(const EvalRequest& request, std::size_t n_ids) {
  if (request.has("positions"))
    return request.indices("positions", static_cast<std::int64_t>(n_ids));
  return std::vector{static_cast<int>(n_ids) - 1};
}

Result<SamplerOptions> sampler_fields(const EvalRequest& request, SamplerOptions options) {
  ENGINE_ASSIGN(options.temperature,
                request.number("temperature", options.temperature, kTemperatures));
  ENGINE_ASSIGN(const std::int64_t top_k, request.integer("top_k", options.top_k, 0, kMaxInt));
  options.top_k = static_cast<int>(top_k);
  ENGINE_ASSIGN(options.top_p, request.number("top_p", options.top_p, kShares));
  ENGINE_ASSIGN(options.min_p, request.number("min_p", options.min_p, kShares));
  ENGINE_ASSIGN(options.repeat_penalty,
                request.number("repeat_penalty", options.repeat_penalty, kRepeatPenalties));
  ENGINE_ASSIGN(options.presence_penalty,
                request.number("presence_penalty", options.presence_penalty, kPenalties));
  ENGINE_ASSIGN(options.frequency_penalty,
                request.number("frequency_penalty", options.frequency_penalty, kPenalties));
  ENGINE_ASSIGN(const std::int64_t window,
                request.integer("penalty_window", options.penalty_window, -1, kMaxInt));
  options.penalty_window = static_cast<int>(window);
  ENGINE_ASSIGN(options.seed, request.seed("seed"));
  return options;
}

Result<GenerateOptions> generate_fields(const EvalRequest& request) {
  GenerateOptions options;
  ENGINE_ASSIGN(const std::int64_t max_tokens,
                request.integer("max_tokens", kDefaultMaxTokens, -1, kMaxInt));
  options.max_tokens = static_cast<int>(max_tokens);
  ENGINE_ASSIGN(options.stop, request.strings("stop"));
  ENGINE_ASSIGN(options.ignore_eos, request.flag("ignore_eos"));
  ENGINE_ASSIGN(options.log_probs, request.flag("log_probs"));
  ENGINE_ASSIGN(const std::int64_t n_draft,
                request.integer("draft", options.n_draft, 0, kMostDraft));
  options.n_draft = static_cast<int>(n_draft);
  return options;
}

Status forget(Session& session) {
  ENGINE_ASSIGN([[maybe_unused]] const int n_past, session.rewind(0));
  return {};
}

}  // namespace

Result<Json> tokenize(Evaluator& evaluator, const EvalRequest& request) {
  ENGINE_TRY(request.allow({"text"}));
  ENGINE_ASSIGN(const std::string text, request.text("text"));
  ENGINE_ASSIGN(const std::vector<Token> ids,
                evaluator.model.tokenize(
                    text, {.add_special = false, .parse_special = evaluator.parse_special}));
  return Json{{"ids", ids}};
}

Result<Json> detokenize(Evaluator& evaluator, const EvalRequest& request) {
  ENGINE_TRY(request.allow({"ids"}));
  ENGINE_ASSIGN(const std::vector<Token> ids, ids_field(evaluator, request));
  Detokenizer detokenizer(evaluator.model);
  std::string text;
  for (const Token id : ids) text += detokenizer.push(id);
  text += detokenizer.flush();
  return Json{{"text", text}};
}

Result<Json> logits(Evaluator& evaluator, const EvalRequest& request) {
  ENGINE_TRY(request.allow({"ids", "positions", "top"}));
  if (!request.has("ids")) return bad_input("ids: expected a list of whole numbers");
  ENGINE_ASSIGN(const std::vector<Token> ids, prompt_field(evaluator, request));
  ENGINE_ASSIGN(const std::vector<int> wanted, positions_field(request, ids.size()));
  ENGINE_ASSIGN(const std::int64_t asked, request.integer("top", kDefaultTop, 0, kMaxInt));
  const auto top =
      static_cast<std::size_t>(std::min<std::int64_t>(asked, evaluator.model.info().n_vocab));
  ENGINE_TRY(check_answer_size(wanted.size(), top));

  std::map<int, Json> by_position;  // ascending, as the session can only go forward
  for (const int position : wanted) by_position[position];
  ENGINE_TRY(forget(evaluator.session));
  std::size_t n_done = 0;
  for (auto& [position, answer] : by_position) {
    const auto n = static_cast<std::size_t>(position) + 1;
    ENGINE_TRY(evaluator.session.decode(std::span(ids).subspan(n_done, n - n_done)));
    n_done = n;
    ENGINE_ASSIGN(const std::span<const float> row, evaluator.session.logits());
    answer = {{"pos", position}, {"logsumexp", logsumexp(row)}, {"top", top_logits(row, top)}};
  }
  Json answers = Json::array();
  for (const int position : wanted) answers.push_back(by_position[position]);
  return Json{{"positions", std::move(answers)}};
}

Result<Json> generate(Evaluator& evaluator, const EvalRequest& request) {
  ENGINE_TRY(request.allow({"ids", "text", "max_tokens", "temperature", "top_k", "top_p", "min_p",
                            "repeat_penalty", "presence_penalty", "frequency_penalty",
                            "penalty_window", "seed", "stop", "ignore_eos", "draft", "log_probs"}));
  ENGINE_ASSIGN(const std::vector<Token> prompt, prompt_field(evaluator, request));
  ENGINE_ASSIGN(const SamplerOptions sampler,
                sampler_fields(request, evaluator.model.default_sampler()));
  ENGINE_ASSIGN(const GenerateOptions options, generate_fields(request));
  ENGINE_TRY(forget(evaluator.session));
  ENGINE_ASSIGN(const Generated made,
                engine::generate(evaluator.session, sampler, prompt, options));
  Json answer = {
      {"ids", made.ids}, {"text", made.text}, {"finish_reason", name(made.finish_reason)}};
  if (options.log_probs) answer["log_probs"] = made.log_probs;
  return answer;
}

Result<Json> perplexity(Evaluator& evaluator, const EvalRequest& request) {
  ENGINE_TRY(request.allow({"ids", "text"}));
  ENGINE_ASSIGN(const std::vector<Token> ids, prompt_field(evaluator, request));
  if (ids.size() < 2) return bad_input("expected at least two tokens, got one");
  ENGINE_TRY(forget(evaluator.session));
  ENGINE_ASSIGN(const std::vector<float> scores, evaluator.session.score(ids));
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  return Json{{"mean_nll", -sum / static_cast<double>(scores.size())}, {"n", scores.size()}};
}

}  // namespace engine::tools
