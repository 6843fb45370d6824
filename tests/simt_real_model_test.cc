// The real model on the CUDA backend under the executor: the reference's greedy ids.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/model_file.h"
#include "tests/support/reference.h"

namespace engine {
namespace {

constexpr std::size_t kPrompts = 3, kIds = 8;

// The shortest prompts, whose first ids the reference chose by a clear margin.
std::vector<test::ReferenceAnswer> answers() {
  std::vector<test::ReferenceAnswer> all = test::reference_answers();
  std::erase_if(all, [](const test::ReferenceAnswer& a) {
    return a.ids.size() < kIds ||
           *std::min_element(a.margin.begin(), a.margin.begin() + kIds) < 0.01;
  });
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.prompt_ids.size() < b.prompt_ids.size(); });
  all.resize(std::min(all.size(), kPrompts));
  return all;
}

TEST(SimtRealModel, GreedyIds) {
  const auto model = Model::load(test::model_file(), {.device = Device::simt});
  ASSERT_TRUE(model) << model.status().message();
  const std::vector<test::ReferenceAnswer> all = answers();
  ASSERT_EQ(all.size(), kPrompts);
  for (const test::ReferenceAnswer& answer : all) {
    auto session = Session::create(*model, {.n_ctx = 512});
    ASSERT_TRUE(session) << session.status().message();
    const auto generated = generate(*session, {.temperature = 0}, answer.prompt_ids,
                                    {.max_tokens = kIds, .ignore_eos = true});
    ASSERT_TRUE(generated) << generated.status().message();
    EXPECT_EQ(generated->ids, std::vector<Token>(answer.ids.begin(), answer.ids.begin() + kIds))
        << answer.prompt;
    std::printf("%zu tokens of prompt, %.1f s\n", answer.prompt_ids.size(),
                generated->total_seconds);
  }
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
