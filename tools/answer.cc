#include "tools/answer.h"

#include <optional>
#include <utility>

#include "tools/interrupt.h"
#include "tools/progress_bar.h"

namespace engine::tools {
namespace {

Status check_mode(const CliOptions& options, bool chat) {
  if (options.system && !chat)
    return Status(Code::invalid_argument,
                  "--system: the file has no chat template; --chat uses Gemma's");
  if (options.parse_special && chat)
    return Status(Code::invalid_argument, "--parse-special works in raw mode only; add --raw");
  return {};
}

GenerateOptions generate_options(const CliOptions& options, bool chat) {
  return {.max_tokens = options.max_tokens.value_or(chat ? -1 : kRawMaxTokens),
          .stop = options.stop,
          .ignore_eos = options.ignore_eos,
          .n_draft = options.n_draft};
}

}  // namespace

Result<Speaker> make_speaker(const Model& model, const CliOptions& options) {
  const bool chat = options.mode == PromptMode::chat ||
                    (options.mode == PromptMode::automatic && model.info().has_chat_template);
  ENGINE_TRY(check_mode(options, chat));
  ENGINE_ASSIGN(Session session, create_session(model, options.engine.session));
  return Speaker{.session = std::move(session),
                 .options = options,
                 .sampler = apply(options.sampling, model.default_sampler()),
                 .generate = generate_options(options, chat),
                 .chat = chat};
}

Result<std::vector<Token>> prompt_ids(const Speaker& speaker, std::span<const Turn> earlier,
                                      const std::string& text) {
  const Model& model = speaker.session.model();
  if (!speaker.chat) return model.tokenize(text, {.parse_special = speaker.options.parse_special});
  const std::string system = speaker.options.system.value_or("");
  std::vector<Message> messages;
  if (!system.empty()) messages.push_back({"system", system});
  for (const Turn& turn : earlier) messages.push_back({turn.role, turn.text});
  messages.push_back({"user", text});
  return model.apply_chat_template(messages);
}

Result<Generated> answer(Speaker& speaker, std::span<const Token> prompt, StandardOutput& output) {
  const Stoppable stoppable;
  std::optional<ProgressBar> bar;
  bar.emplace("reading the prompt", speaker.options.engine.verbosity != Verbosity::quiet);
  GenerateOptions options = speaker.generate;
  options.progress = [&](double share) {
    bar->update(share);
    return !interrupted();
  };
  return generate(speaker.session, speaker.sampler, prompt, options,
                  [&](Token, std::string_view text) {
                    bar.reset();
                    if (!speaker.options.json) output.write_text(text);
                    return output.ok() && !interrupted();
                  });
}

void warn_if_cut(const Speaker& speaker, const Generated& answer) {
  const int max_tokens = speaker.generate.max_tokens;
  const bool is_wanted_length = max_tokens >= 0 && !std::cmp_less(answer.ids.size(), max_tokens);
  if (answer.finish_reason == FinishReason::length && !is_wanted_length)
    log_warning("the context of " + std::to_string(speaker.session.n_ctx()) + " tokens is full");
}

}  // namespace engine::tools
