// The two forms in which gemma-cli reports on an answer.
#include <cstdio>
#include <span>

#include "tools/answer.h"
#include "tools/json.h"

namespace engine::tools {
namespace {

double per_second(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

double prompt_speed(const Generated& answer) {
  return per_second(answer.n_prompt - answer.n_cached, answer.prompt_seconds);
}

// Of the tokens after the first, which belongs to the prompt's time.
double answer_speed(const Generated& answer) {
  if (answer.ids.size() < 2) return 0;
  return per_second(static_cast<double>(answer.ids.size() - 1),
                    answer.total_seconds - answer.first_token_seconds);
}

Json sampling_json(const SamplerOptions& sampler) {
  return {{"temperature", short_float(sampler.temperature)},
          {"top_k", sampler.top_k},
          {"top_p", short_float(sampler.top_p)},
          {"min_p", short_float(sampler.min_p)},
          {"repeat_penalty", short_float(sampler.repeat_penalty)},
          {"presence_penalty", short_float(sampler.presence_penalty)},
          {"frequency_penalty", short_float(sampler.frequency_penalty)},
          {"penalty_window", sampler.penalty_window}};
}

Json timings_json(double load_seconds, const Generated& answer) {
  return {{"load_seconds", load_seconds},
          {"prompt_seconds", answer.prompt_seconds},
          {"first_token_seconds", answer.first_token_seconds},
          {"total_seconds", answer.total_seconds},
          {"prompt_tokens_per_second", prompt_speed(answer)},
          {"tokens_per_second", answer_speed(answer)}};
}

}  // namespace

void print_json(const Speaker& speaker, std::span<const Token> prompt, const Generated& answer,
                StandardOutput& output) {
  const ModelInfo& info = speaker.session.model().info();
  Json json = {{"text", answer.text},
               {"ids", answer.ids},
               {"finish_reason", name(answer.finish_reason)},
               {"stop_string", nullptr},
               {"prompt_ids", std::vector<Token>(prompt.begin(), prompt.end())},
               {"mode", speaker.chat ? "chat" : "raw"},
               {"counts",
                {{"prompt", answer.n_prompt},
                 {"cached", answer.n_cached},
                 {"generated", answer.ids.size()},
                 {"drafted", answer.n_drafted},
                 {"accepted", answer.n_accepted}}},
               {"timings", timings_json(speaker.load_seconds, answer)},
               {"sampling", sampling_json(speaker.sampler)},
               {"seed", speaker.sampler.seed},
               {"max_tokens", speaker.generate.max_tokens},
               {"draft", speaker.generate.n_draft},
               {"head_share", answer.head_share},
               {"context", speaker.session.n_ctx()},
               {"model", {{"name", info.name}, {"types", info.types}, {"backend", info.backend}}}};
  if (!answer.stop_string.empty()) json["stop_string"] = answer.stop_string;
  output.write(to_line(json));
}

void print_stats(const Speaker& speaker, const Generated& answer) {
  const ModelInfo& info = speaker.session.model().info();
  const SamplerOptions& s = speaker.sampler;
  std::fprintf(stderr, "model     %s, %s; loaded in %.2f s\n", info.types.c_str(),
               info.backend.c_str(), speaker.load_seconds);
  std::fprintf(stderr, "prompt    %d tokens, %d of them cached; %.3f s, %.1f tokens/s\n",
               answer.n_prompt, answer.n_cached, answer.prompt_seconds, prompt_speed(answer));
  std::fprintf(stderr,
               "answer    %zu tokens; first after %.3f s, then %.1f tokens/s; ended by %s\n",
               answer.ids.size(), answer.first_token_seconds, answer_speed(answer),
               std::string(name(answer.finish_reason)).c_str());
  std::fprintf(stderr, "head      %.1f %% of the full one's bytes read\n", 100 * answer.head_share);
  std::fprintf(stderr, "drafts    %d tokens, %d of them accepted; at most %d at a time\n",
               answer.n_drafted, answer.n_accepted, speaker.generate.n_draft);
  std::fprintf(stderr,
               "sampling  temperature %g, top_k %d, top_p %g, min_p %g, repeat_penalty %g, "
               "presence_penalty %g, frequency_penalty %g, seed %llu\n",
               static_cast<double>(s.temperature), s.top_k, static_cast<double>(s.top_p),
               static_cast<double>(s.min_p), static_cast<double>(s.repeat_penalty),
               static_cast<double>(s.presence_penalty), static_cast<double>(s.frequency_penalty),
               static_cast<unsigned long long>(s.seed));
}

}  // namespace engine::tools
