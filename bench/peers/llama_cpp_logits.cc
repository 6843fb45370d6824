// What `gemma-eval logits` does, done by llama.cpp through its public C interface, so that both can
// be held against the same reference. Build: see bench/README.md. Reads JSON lines {"ids",
// "positions", "top"}.
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kChunk = 512;

nlohmann::json describe(const float* logits, int n_vocab, int pos, std::size_t top) {
  const float m = *std::max_element(logits, logits + n_vocab);
  double z = 0;
  std::vector<int> order(static_cast<std::size_t>(n_vocab));
  for (int id = 0; id < n_vocab; ++id) {
    z += std::exp(static_cast<double>(logits[id]) - m);
    order[static_cast<std::size_t>(id)] = id;
  }
  top = std::min(top, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
      [&](int a, int b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  nlohmann::json pairs = nlohmann::json::array();
  for (std::size_t i = 0; i < top; ++i) pairs.push_back({order[i], logits[order[i]]});
  return {{"pos", pos}, {"logsumexp", m + std::log(z)}, {"top", pairs}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: llama_cpp_logits MODEL < lines\n";
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 3;
  const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json request = nlohmann::json::parse(line);
    std::vector<llama_token> ids = request["ids"];
    const std::vector<int> positions = request["positions"];
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(ids.size() + 8);
    params.n_batch = params.n_ubatch = kChunk;
    llama_context* context = llama_init_from_model(model, params);
    if (context == nullptr) return 1;
    nlohmann::json answer = nlohmann::json::array();
    int done = 0;
    for (const int pos : positions) {
      while (done <= pos) {
        const int n = std::min(kChunk, pos + 1 - done);
        if (llama_decode(context, llama_batch_get_one(ids.data() + done, n)) != 0) return 1;
        done += n;
      }
      answer.push_back(describe(llama_get_logits_ith(context, -1), n_vocab, pos, request["top"]));
    }
    std::cout << nlohmann::json{{"positions", answer}} << std::endl;
    llama_free(context);
  }
}
