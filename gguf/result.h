// Status and Result<T>: how every layer reports failure. Nothing in the library throws on bad
// input, aborts, exits or prints; a call that can fail returns one of these two types.
//
//   Result<Model> model = Model::load(path);
//   if (!model) return model.status();
// or
//   ENGINE_ASSIGN(Model model, Model::load(path));
//
// Only std headers: this file is installed with the public API.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace engine {

// What kind of thing went wrong, stable across versions. Append only.
enum class Code : std::int32_t {
  ok = 0,
  invalid_argument,  // the caller's arguments are out of their documented range
  io,                // the operating system refused to open or read a file
  corrupt_file,      // the bytes break the file format or contradict each other
  unsupported,       // well formed, but not something this engine runs
  out_of_memory,     // an allocation failed; the message has the bytes asked for
  context_full,      // the sequence would exceed the session's context length
  device,            // the compute device failed or is absent
  cancelled,         // cancel() was called
  busy,              // the object is in use on another thread
  forked,            // the process forked after the engine started its threads
  non_finite,        // the model produced NaN or infinity
  internal,          // a bug in this library
  device_lost,       // the device failed for good: only a new process can use it
};

// The loader's finer reason, for tests and programs that sort failures.
// none unless a file is at fault.
enum class Detail : std::int32_t {
  none = 0,
  trunc,        // the file ends inside the header or metadata
  magic,        // not a GGUF file
  version,      // a GGUF version other than 2 and 3
  endian,       // a big-endian GGUF file
  limit,        // a count or length above the reader's limits
  key,          // a malformed metadata key or tensor name
  type,         // a value or tensor of the wrong or an unknown type
  dup,          // the same key or tensor name twice
  align,        // a bad general.alignment, or an offset that breaks it
  shape,        // tensor dimensions that are malformed or not what the model needs
  size,         // a tensor whose byte size overflows
  offset,       // tensor data outside the file
  overlap,      // two tensors share bytes
  missing,      // a required key, tensor or shard is absent
  arch,         // an architecture other than gemma3
  hparam,       // a hyperparameter out of range or at odds with the tensors
  vocab,        // a vocabulary that contradicts itself or the model
  unsupported,  // well formed, but this engine has no code for it
  value,        // a value that its type does not allow
  io,           // the file could not be opened or read
};

std::string_view name(Code code) noexcept;      // "corrupt_file"
std::string_view name(Detail detail) noexcept;  // "TRUNC"

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // ok
  Status(Code code, std::string message) : Status(code, Detail::none, std::move(message)) {}
  Status(Code code, Detail detail, std::string message)
      : code_(code), detail_(detail), message_(std::move(message)) {
    assert(code != Code::ok);
  }

  bool ok() const noexcept { return code_ == Code::ok; }
  Code code() const noexcept { return code_; }
  Detail detail() const noexcept { return detail_; }
  // One sentence: what, where (byte offset, key or tensor name), expected, got. Empty when ok.
  const std::string& message() const noexcept { return message_; }

 private:
  Code code_ = Code::ok;
  Detail detail_ = Detail::none;
  std::string message_;
};

// A value or the Status that says why there is none; member names follow std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  const Status& status() const noexcept { return status_; }  // ok when has_value()

  // Precondition of the accessors: has_value().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace engine

#define ENGINE_CONCAT_(a, b) a##b
#define ENGINE_CONCAT(a, b) ENGINE_CONCAT_(a, b)

// Returns from the enclosing function when `expr` is a failed Status.
// May be nested through lambdas.
#define ENGINE_TRY(expr) ENGINE_TRY_(ENGINE_CONCAT(engine_status_, __COUNTER__), expr)
#define ENGINE_TRY_(status, expr)                                      \
  do {                                                                 \
    if (::engine::Status status = (expr); !status.ok()) return status; \
  } while (false)

// ENGINE_ASSIGN(auto x, f()): declares or assigns x from a Result, or returns its Status.
#define ENGINE_ASSIGN(lhs, expr) \
  ENGINE_ASSIGN_(ENGINE_CONCAT(engine_result_, __COUNTER__), lhs, expr)
#define ENGINE_ASSIGN_(result, lhs, expr) \
  auto result = (expr);                   \
  if (!result) return result.status();    \
  lhs = *std::move(result)
