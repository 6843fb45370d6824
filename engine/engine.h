// The public C++ interface of the inference engine.
//
//   auto model = engine::Model::load("gemma-3-270m.gguf");      // each of these is a Result:
//   if (!model) { std::cerr << model.status().message(); … }    // check before use
//   auto session = engine::Session::create(*model);
//   auto prompt = model->tokenize("The capital of France is");
//   auto answer = engine::generate(*session, model->default_sampler(), *prompt, {.max_tokens = 48});
//   std::cout << answer->text;
//
// Manners: no call aborts, exits, prints, installs signal handlers or touches locale, working directory
// or floating-point environment. Failures are Status/Result values; nothing throws, except that
// Detokenizer passes on std::bad_alloc. All arithmetic runs on the model's own threads, so the caller's
// floating-point environment cannot change a bit of the answer.
// Errors that any call may return beside those named: out_of_memory; forked after a fork(); and, for a
// Session in use on another thread, busy. A session whose pass failed on a card with `device` or
// device_lost gives that error from then on; after `device`, other sessions of the model go on.
// Determinism: ids and logits depend only on weights, tokens and options, never on thread count, chunk
// size, instruction set or what other sessions do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/result.h"

namespace engine {

using Token = std::int32_t;

enum class LogLevel { info, warning };
// Called from the thread that calls the library, one whole line (no newline) at a time.
using LogSink = std::function<void(LogLevel, std::string_view line)>;
// Called during load with the share done, 0..1. Return false to stop; load then fails with
// `cancelled`.
using ProgressFn = std::function<bool(double share)>;

// simt: the CUDA backend's kernels, run thread by thread on the CPU by an executor (kernels/simt), where
// it is built in. Thousands of times slower than either: for tests.
enum class Device { automatic, cpu, cuda, simt };

// How the CPU finds the most likely tokens, where a choice needs no more than 64 of them and no penalties. The
// tokens are always the same.
enum class HeadMode {
  screened,  // rules most of them out by bounds: reads 54 % of Gemma 3 270M's output matrix and more, see docs/
  full,   // computes all logits
  check,  // both; an internal error if they differ. Slow: for tests
};

struct ModelOptions {
  // automatic: a card if the build can use one and it has room for the model, else the CPU; the log says
  // why.
  Device device = Device::automatic;
  // Which card: its index, UUID or PCI id as the driver lists them. Empty: the first one.
  // One that is named must be there.
  std::string card = {};
  // 0: physical cores allowed by affinity and cgroup quota. More than the processors so allowed, or
  // than 256, are clamped with a warning.
  int n_threads = 0;
  // Memory for the KV caches of all sessions on a card, taken at load. 0: what four sequences of the
  // file's context length need, but at most half of what is free beside the weights. The CPU takes
  // memory as sequences grow.
  std::size_t kv_bytes = 0;
  HeadMode head = HeadMode::screened;
  bool check_tensors = false;  // read all weights for NaN and infinity at load (VALUE)
  ProgressFn progress = {};
  LogSink log = {};
};

struct ModelInfo {
  std::string name;  // general.name, possibly empty
  // What the weights are stored as, by share of bytes: "Q8_0 73 %, Q5_0 18 %, …".
  std::string types;
  std::string backend;  // "cpu avx2, 2 threads"
  std::uint64_t n_parameters = 0;
  std::uint64_t weight_bytes = 0;
  int n_layers = 0, d_model = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, d_ff = 0;
  int n_vocab = 0;      // width of the logits
  int n_ctx_train = 0;  // longest context the file allows
  int window = 0;       // of local layers, current token included
  int n_threads = 0;
  bool has_chat_template = false;  // an instruction-tuned file; a pretrained one continues text
  Token bos = -1, eos = -1;
};

struct TokenizeOptions {
  // Put BOS first, if the file's vocabulary wants one and it is not there already.
  bool add_special = true;
  // Text like "<start_of_turn>" becomes the control token.
  bool parse_special = false;
};

struct Message {
  std::string_view role;  // "system", "user" or "assistant" ("developer" and "model" are accepted)
  std::string_view content;
};

// Gets the tokens so far and the logits of the next one, [n_vocab], which it may change: add a bias, or set
// what must not be chosen to minus infinity, as a grammar does. Called on one of the model's threads, once for every token
// chosen; must not use the session. If it throws, the call that chooses fails with `internal`.
using EditLogits = std::function<void(std::span<const Token> tokens, std::span<float> logits)>;

// Applied in this order: edit_logits, penalties, top_k, temperature, top_p, min_p.
struct SamplerOptions {
  // >= 0; at most 1e-4 means greedy: the most likely token, ties to the lower id.
  float temperature = 1.0f;
  int top_k = 64;       // keep the k most likely; 0 keeps all
  float top_p = 0.95f;  // keep the shortest prefix by probability with at least this mass; 0..1
  float min_p = 0.0f;   // drop tokens below this share of the most likely one's probability; 0..1
  // > 0; positive logits of seen tokens are divided by it, negative ones multiplied.
  float repeat_penalty = 1.0f;
  float presence_penalty = 0.0f;   // subtracted once from the logit of a seen token
  float frequency_penalty = 0.0f;  // subtracted per occurrence
  int penalty_window = 64;         // how many of the last tokens count as seen; 0 none, -1 all
  std::uint64_t seed = 0;          // same seed and position, same draw
  EditLogits edit_logits = {};
};

// Immutable weights and vocabulary. Cheap to copy: copies share them. Any thread may call any member.
class Model {
 public:
  // Reads, checks and repacks the weights; the file is closed on return. Errors: io, corrupt_file,
  // unsupported (with Status::detail() of the rule), device, cancelled; invalid_argument for options
  // out of range and for an ENGINE_CPU_ISA that this machine does not run.
  static Result<Model> load(const std::filesystem::path& path, const ModelOptions& options = {});
  // The same from memory; `gguf` may be freed on return.
  static Result<Model> load(std::span<const std::byte> gguf, const ModelOptions& options = {});

  const ModelInfo& info() const noexcept;
  // Gemma's sampling settings, or those the file carries under general.sampling.*.
  const SamplerOptions& default_sampler() const noexcept;

  Result<std::vector<Token>> tokenize(std::string_view text, TokenizeOptions options = {}) const;
  // The bytes of a token; may be part of a character. Empty for control tokens and unknown ids. Alive
  // as long as a copy of the model.
  std::string_view piece(Token token) const noexcept;
  // True for tokens that end an answer.
  bool is_end_of_generation(Token token) const noexcept;
  // Ids of a conversation in Gemma's turn format, BOS included. Text in `content` never becomes a
  // control token. Errors: invalid_argument for an empty list or an unknown role.
  Result<std::vector<Token>> apply_chat_template(std::span<const Message> messages,
                                                 bool add_generation_prompt = true) const;

 private:
  friend class Session;
  friend class Detokenizer;
  friend struct ModelLoader;
  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Turns tokens into text as they come, holding back an incomplete character (at most 3 bytes).
// Bytes that can never become valid UTF-8 become U+FFFD. Not thread-safe.
class Detokenizer {
 public:
  explicit Detokenizer(const Model& model);
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();
  std::string push(Token token);  // text that is complete now, possibly empty
  std::string flush();            // what is still held

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class KvType { f16, f32 };

struct SessionOptions {
  int n_ctx = 0;  // longest sequence; 0: the file's context length. Memory is taken as it fills.
  // Tokens of a prompt evaluated at a time; 0: the whole prompt. A card takes 512 at most.
  int n_chunk = 512;
  KvType kv = KvType::f16;
};

// One sequence of tokens and its KV cache. Any thread may use it, one at a time: a second one gets
// `busy`.
class Session {
 public:
  // Keeps the model alive. Errors: invalid_argument (n_ctx outside 1..n_ctx_train, n_chunk < 0),
  // out_of_memory.
  static Result<Session> create(const Model& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Appends tokens: a prompt, or the one just sampled. On context_full and invalid_argument (an id
  // outside the vocabulary) nothing is appended; on out_of_memory and `cancelled` the tokens of
  // finished chunks are.
  Status decode(std::span<const Token> tokens);
  // Logits of the last token, [n_vocab]; valid until the next call. Rows beyond the token list are
  // minus infinity. Errors: invalid_argument before any token, non_finite.
  Result<std::span<const float>> logits();
  // Chooses the token after the last one. The same options, seed and tokens give the same choice.
  Result<Token> sample(const SamplerOptions& options);
  // ln p of every token given those before it: appends `tokens`, returns tokens.size() - 1 values
  // if the session was empty, else tokens.size(). Many positions share one pass over the weights.
  Result<std::vector<float>> score(std::span<const Token> tokens);

  int n_ctx() const noexcept;
  const Model& model() const noexcept;
  // The tokens held, and their number; valid until the next call. Not while another thread uses the
  // session.
  int n_past() const noexcept;
  std::span<const Token> tokens() const noexcept;
  // Forgets tokens so that at most n_past remain and returns how many do: fewer where the local layers
  // have already dropped what a later position would need.
  Result<int> rewind(int n_past);
  // Rewinds to the longest prefix that the session's tokens and `tokens` share; returns its length.
  Result<int> rewind_to_prefix(std::span<const Token> tokens);
  // Stops what runs now, at the next chunk of a decode or score, before the logits of a decode_batch and
  // at the next token of generate(); any thread. Nothing that starts later is affected.
  void cancel() noexcept;

 private:
  friend struct SessionAccess;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

// Appends tokens[i] to sessions[i] in one pass over the weights, and computes all their logits:
// logits() and sample() of these sessions have nothing left to evaluate. The bits are those that
// decode() gives each session alone.
//
// The sessions are of one model and one KvType, each listed once; their lengths may differ, and one
// that was rewound needs no preparation. Each counts as in use on this thread during the call. It does
// not wait for a session that is in use elsewhere, so calls with overlapping lists cannot block each
// other. Two empty lists are no work.
// Errors, after which no session has changed; the message names the session by its index:
// invalid_argument (sizes differ; more sessions than a batch takes, which is 512 on a card and a
// million for the largest model on the CPU; a null, moved-from or repeated session; another model or KvType
// than session 0; an id outside the vocabulary), context_full, busy, non_finite, and cancelled if
// Session::cancel() of any of them comes before the logits are begun.
Status decode_batch(std::span<Session* const> sessions, std::span<const Token> tokens);

enum class FinishReason {
  stop,       // an end-of-generation token or a stop string
  length,     // max_tokens or the context's end
  cancelled,  // the callback returned false, or Session::cancel()
};
std::string_view name(FinishReason reason) noexcept;  // "stop", "length", "cancelled"

// GenerateOptions::n_draft, at most.
inline constexpr int kMostDraft = 7;

struct GenerateOptions {
  int max_tokens = -1;  // -1: until the context is full
  // The answer is cut before the first of these, matched on bytes; no empty ones, valid UTF-8.
  std::vector<std::string> stop = {};
  bool ignore_eos = false;  // go on after end-of-generation tokens
  // Tokens drafted for a step, at most, 0..kMostDraft: where the text repeats what prompt or answer hold, the tokens
  // that came next there are guessed and checked together. This changes nothing of the answer, nor of what
  // the session holds at any time: only its speed. 0: none.
  int n_draft = kMostDraft;
  // Fill Generated::log_probs, for which all logits are computed; without drafts.
  bool log_probs = false;
  // If set, the prompt is evaluated in pieces and this is called after each with the share done,
  // 0..1. Return false to stop.
  ProgressFn progress = {};
};

struct Generated {
  std::vector<Token> ids;  // every token chosen, the ending one included only under ignore_eos
  // If asked for: ln p of each of `ids` to the model, before anything that SamplerOptions does.
  std::vector<float> log_probs;
  std::string text;  // valid UTF-8, without the stop string
  FinishReason finish_reason = FinishReason::stop;
  std::string stop_string;  // the one that matched, if any
  int n_prompt = 0;         // prompt tokens
  int n_cached = 0;         // of which the session already held
  int n_drafted = 0;        // tokens guessed by GenerateOptions::n_draft
  int n_accepted = 0;       // of which the model chose, too
  // Bytes read of the output matrix, as a share of what all logits of every step would have needed: 1 where a
  // card does the work.
  double head_share = 1;
  double prompt_seconds = 0;       // evaluating the prompt
  double first_token_seconds = 0;  // from the call to the first token chosen
  double total_seconds = 0;
};

// `text` is what may be shown now: whole characters that can no longer be part of a stop string,
// possibly empty. The last call may carry the held rest with token -1. Return false to stop.
using OnToken = std::function<bool(Token token, std::string_view text)>;

// Makes the session hold `prompt` (keeping the longest prefix it already holds) and samples until
// something ends the answer; prompt and answer together fit the session's context. Afterwards the
// session holds the prompt and all ids but possibly the last. Errors: those of decode and sample;
// invalid_argument for an empty prompt or bad options; context_full for a prompt longer than the
// context; cancelled, with the exception's message, if a callback throws.
Result<Generated> generate(Session& session, const SamplerOptions& sampler,
                           std::span<const Token> prompt, const GenerateOptions& options = {},
                           const OnToken& on_token = {});

}  // namespace engine
