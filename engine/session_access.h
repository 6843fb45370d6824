// What generate() and decode_batch() need of a session beside its public interface.
#pragma once

#include <cstdint>

#include "engine/engine.h"

namespace engine {

struct SessionAccess {
  using Impl = Session::Impl;
  static Impl* impl(Session& session) noexcept { return session.impl_.get(); }
  // How often cancel() has been called: work that spans several calls compares it with its start.
  static std::uint32_t n_cancels(const Session& session) noexcept;
  // What Session::decode({token}) and sample(options) give one after the other. After an
  // error the token may have been appended: Session::n_past() tells.
  static Result<Token> decode_and_sample(Session& session, Token token,
                                         const SamplerOptions& options);
  // Tokens that are evaluated at a time.
  static int n_chunk(const Session& session) noexcept;
};

}  // namespace engine
