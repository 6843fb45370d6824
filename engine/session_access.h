// What generate() and decode_batch() need of a session beside its public interface.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend.h"
#include "engine/engine.h"

namespace engine {

struct SessionAccess {
  using Impl = Session::Impl;
  static Impl* impl(Session& session) noexcept { return session.impl_.get(); }
  // How often cancel() has been called: work that spans several calls compares it with its start.
  static std::uint32_t n_cancels(const Session& session) noexcept;
  // What Session::decode({token}) and sample(options) give one after the other; and while that is the next
  // token of `draft`, what they would give with it: 1 to draft.size() + 1 tokens, all from one pass. The
  // session holds `token` afterwards, and no token of the draft. After an error it may hold it:
  // Session::n_past() tells.
  static Result<std::vector<Token>> decode_and_sample(Session& session, Token token,
                                                      std::span<const Token> draft,
                                                      const SamplerOptions& options);
  // Session::decode({token}) without a pass, after one that had it in its draft and chose it; false, and
  // nothing else, if the session has been used otherwise since.
  static Result<bool> advance(Session& session, Token token);
  // ln p of a token that may come next; Session::logits() has been called since the last one.
  static Result<float> log_prob(Session& session, Token token);
  static Result<HeadUse> head_use(Session& session);
  // Tokens that are evaluated at a time.
  static int n_chunk(const Session& session) noexcept;
};

}  // namespace engine
