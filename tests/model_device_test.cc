// The CUDA backend end to end: the CPU backend's bits on every tiny model, whatever the chunks, batch mates and cached
// prefixes. For a card, or, with ENGINE_DEVICE_SIMT, under the executor.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/model_file.h"
#include "tests/support/same_bits.h"
#include "tests/support/sessions.h"

namespace engine {
namespace {

using test::logits_after;
using test::logits_of;
using test::same_bits;
using test::session_of;
using test::some_tokens;

#if defined(ENGINE_DEVICE_SIMT)
constexpr Device kDevice = Device::simt;
constexpr std::string_view kBackend = "simt sm_86";
#else
constexpr Device kDevice = Device::cuda;
constexpr std::string_view kBackend = "cuda ";
#endif

Model load(const std::string& file, Device device) {
  auto model = Model::load(test::golden_file("tiny/" + file), {.device = device, .n_threads = 2});
  EXPECT_TRUE(model) << model.status().message();
  return *std::move(model);
}

class DeviceModel : public testing::TestWithParam<std::string> {};

TEST_P(DeviceModel, GivesTheBitsOfTheCpu) {
  const Model device = load(GetParam(), kDevice), cpu = load(GetParam(), Device::cpu);
  EXPECT_TRUE(device.info().backend.starts_with(kBackend)) << device.info().backend;
  const std::vector<Token> tokens = some_tokens(66);  // beyond a page and several windows
  for (const SessionOptions& options : {SessionOptions{.n_chunk = 0, .kv = KvType::f16},
                                        SessionOptions{.n_chunk = 29, .kv = KvType::f32}})
    EXPECT_TRUE(
        same_bits(logits_after(device, tokens, options), logits_after(cpu, tokens, options)))
        << "chunks of " << options.n_chunk;
  const auto few = std::span(tokens).first(10);
  EXPECT_TRUE(same_bits(logits_after(device, few, {.n_chunk = 1}), logits_after(cpu, few, {})));
}

class DeviceAnswer : public DeviceModel {};

TEST_P(DeviceAnswer, IsTheCpus) {
  const std::vector<Token> prompt = some_tokens(9);
  std::vector<Token> ids[2];
  for (const Device device : {Device::cpu, kDevice}) {
    const Model model = load(GetParam(), device);
    auto session = Session::create(model);
    ASSERT_TRUE(session);
    const auto answer =
        generate(*session, {.seed = 5}, prompt, {.max_tokens = 8, .ignore_eos = true});
    ASSERT_TRUE(answer) << answer.status().message();
    ids[device == kDevice] = answer->ids;
  }
  EXPECT_EQ(ids[0], ids[1]);
}

std::string name_of(const testing::TestParamInfo<std::string>& tiny) {
  std::string name = tiny.param.substr(0, tiny.param.find('.'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Files, DeviceModel,
                         testing::Values("tiny-nano-F32.gguf", "tiny-nano-Q5_1.gguf",
                                         "tiny-gqa-Q8_0.gguf", "tiny-mixed-Q4_K_M.gguf"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(MoreFiles, DeviceAnswer,
                         testing::Values("tiny-nano-F32.gguf", "tiny-nano-BF16.gguf",
                                         "tiny-nano-Q5_1.gguf", "tiny-mqa-Q4_K_M.gguf",
                                         "tiny-mqa-Q3_K_M.gguf", "tiny-mqa-Q2_K.gguf",
                                         "tiny-mqa-IQ4_XS.gguf", "tiny-gqa-Q8_0.gguf",
                                         "tiny-mixed-Q4_K_M.gguf"),
                         name_of);

TEST(DeviceModelOf, BatchMatesAndCachedPrefixesChangeNoBit) {
  const Model device = load("tiny-gqa-Q8_0.gguf", kDevice);
  const Model cpu = load("tiny-gqa-Q8_0.gguf", Device::cpu);
  const std::vector<Token> tokens = some_tokens(66);
  const auto first = [&](std::size_t n) { return std::span(tokens).first(n); };
  const std::vector<std::size_t> lengths = {1, 7, 63, 64, 65};
  std::vector<Session> sessions;
  for (const std::size_t n : lengths) sessions.push_back(session_of(device, first(n)));
  std::vector<Session*> list;
  std::vector<Token> next;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    list.push_back(&sessions[i]);
    next.push_back(tokens[lengths[i]]);
  }
  ASSERT_TRUE(decode_batch(list, next).ok());
  for (std::size_t i = 0; i < lengths.size(); ++i)
    EXPECT_TRUE(same_bits(logits_of(sessions[i]), logits_after(cpu, first(lengths[i] + 1), {})))
        << lengths[i] + 1 << " tokens";

  const auto kept = sessions.back().rewind(40);
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, 40);
  ASSERT_TRUE(sessions.back().decode(std::span(tokens).subspan(40, 20)).ok());
  EXPECT_TRUE(same_bits(logits_of(sessions.back()), logits_after(cpu, first(60), {})));
}

// Drafts are checked with several rows and choices at once: by the backend, and, under penalties, from logits.
TEST(DeviceModelOf, DraftsChangeNoToken) {
  std::vector<Token> prompt;
  for (int i = 0; i < 3; ++i)
    for (const Token token : some_tokens(6)) prompt.push_back(token);
  for (const char* const file : {"tiny-gqa-Q8_0.gguf", "tiny-mqa-Q4_K_M.gguf"}) {
    const Model device = load(file, kDevice), cpu = load(file, Device::cpu);
    for (const SamplerOptions& sampler :
         {SamplerOptions{.temperature = 0.01f, .seed = 5},
          SamplerOptions{.temperature = 0, .repeat_penalty = 1.001f, .penalty_window = 2}}) {
      Session here = session_of(device, {}), there = session_of(cpu, {});
      GenerateOptions options = {.max_tokens = 44, .ignore_eos = true};
      const auto answer = generate(here, sampler, prompt, options);
      options.n_draft = 0;
      const auto expected = generate(there, sampler, prompt, options);
      ASSERT_TRUE(answer && expected) << answer.status().message();
      EXPECT_EQ(answer->ids, expected->ids);
      EXPECT_GT(answer->n_accepted, 15) << "of " << answer->n_drafted;
      EXPECT_TRUE(same_bits(logits_of(here), logits_of(there)));
    }
  }
}

TEST(DeviceModelOf, KvMemoryThatIsUsedUpIsAnErrorUntilSomeComesBack) {
  const std::string file = test::golden_file("tiny/tiny-gqa-Q8_0.gguf");
  auto model = Model::load(file, {.device = kDevice, .kv_bytes = std::size_t{1} << 20});
  ASSERT_TRUE(model) << model.status().message();
  const std::vector<Token> tokens = some_tokens(12);
  std::vector<Session> sessions;
  Status status;
  while (status.ok() && sessions.size() < 1000) {
    sessions.push_back(session_of(*model, {}));
    status = sessions.back().decode(tokens);
  }
  EXPECT_EQ(status.code(), Code::out_of_memory);
  EXPECT_NE(status.message().find("ModelOptions::kv_bytes"), std::string::npos) << status.message();
  ASSERT_GT(sessions.size(), 1u);
  sessions.erase(sessions.begin());
  ASSERT_TRUE(sessions.back().decode(tokens).ok());
  const Model cpu = load("tiny-gqa-Q8_0.gguf", Device::cpu);
  EXPECT_TRUE(same_bits(logits_of(sessions.back()), logits_after(cpu, tokens, {})));

  const auto none = Model::load(file, {.device = kDevice, .kv_bytes = std::size_t{1} << 60});
  EXPECT_EQ(none.status().code(), Code::out_of_memory) << none.status().message();
}

TEST(DeviceModelOf, ScoresAsTheCpuDoes) {
  const std::vector<Token> tokens = some_tokens(20);
  std::vector<float> scores[2];
  for (const Device device : {Device::cpu, kDevice}) {
    auto session = Session::create(load("tiny-mixed-Q4_K_M.gguf", device), {.n_chunk = 8});
    ASSERT_TRUE(session);
    const auto got = session->score(tokens);
    ASSERT_TRUE(got) << got.status().message();
    scores[device == kDevice] = *got;
  }
  EXPECT_TRUE(same_bits(scores[0], scores[1]));
}

}  // namespace
}  // namespace engine
