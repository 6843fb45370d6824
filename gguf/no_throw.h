// The border of the library: exceptions of the standard library become a Status here.
#pragma once

#include <exception>
#include <new>

#include "gguf/result.h"

namespace engine {

// fn() returns Status or Result<T>; so does this.
template <class Fn>
auto no_throw(const Fn& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "out of memory");
  } catch (const std::exception& error) {
    return Status(Code::internal, error.what());
  } catch (...) {  // of a callback: the library and what it calls throw nothing else
    return Status(Code::internal, "a callback threw");
  }
}

}  // namespace engine
