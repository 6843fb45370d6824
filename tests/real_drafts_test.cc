// The real model, copying: the same ids with and without drafts, most of which are accepted.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/model_file.h"

namespace engine {
namespace {

const std::string kFunction = R"(def merge(defaults, settings):
    merged = dict(defaults)
    for key, value in settings.items():
        if key not in defaults:
            raise KeyError(f"unknown setting {key!r}")
        expected = type(defaults[key])
        if not isinstance(value, expected):
            raise TypeError(f"{key}: expected {expected.__name__}, got {value!r}")
        merged[key] = value
    return merged
)";

const std::string kStory =
    "The lamp, made in Paris and carried north in forty crates, could be seen from twenty-two "
    "miles "
    "on a clear night. The first keeper, a widower named Thomas Arkwright, lived there with his "
    "two "
    "daughters until the winter of 1889, when a storm carried away the lower stairs and the boat. "
    "For nineteen days no one could reach the rock.";

const std::string kUsers = R"([
  {"id": 1001, "name": "Alice Becker", "email": "alice.becker@example.com", "score": 61.5},
  {"id": 1008, "name": "Tomasz Nowak", "email": "tomasz.nowak@example.com", "score": 65.75},
  {"id": 1015, "name": "Priya Raman", "email": "priya.raman@example.com", "score": 70.0}
]
)";

std::vector<std::string> prompts() {
  return {"The file merge.py:\n\n```python\n" + kFunction +
              "```\n\nThe file again, with `merged` renamed to `result`:\n\n```python\n"
              "def merge(defaults, settings):\n    result = dict(defaults)\n",
          "\"" + kStory + "\"\n\nThe same passage, word for word:\n\n\"The lamp, made in Paris and",
          "Input:\n\n```json\n" + kUsers +
              "```\n\nOutput (identical to the input):\n\n```json\n[\n  {\"id\": 1001,"};
}

TEST(RealDrafts, ChangeNoIdAndAreAccepted) {
  const Model model = Model::load(test::model_file()).value();
  const std::vector<SamplerOptions> samplers = {{.temperature = 0},
                                                {.temperature = 0.5f, .seed = 1},
                                                {.temperature = 0.5f, .top_k = 100, .seed = 2},
                                                {.temperature = 0, .repeat_penalty = 1.05f}};
  int n_accepted = 0, n_drafted = 0;
  for (const std::string& prompt : prompts())
    for (const SamplerOptions& sampler : samplers) {
      const std::vector<Token> ids = model.tokenize(prompt).value();
      std::vector<Generated> answers;
      for (const int n_draft : {0, kMostDraft}) {
        Session session = Session::create(model, {.n_ctx = 1024}).value();
        const auto answer = generate(session, sampler, ids,
                                     {.max_tokens = 80, .ignore_eos = true, .n_draft = n_draft});
        ASSERT_TRUE(answer) << answer.status().message();
        answers.push_back(*answer);
      }
      EXPECT_EQ(answers[0].ids, answers[1].ids)
          << prompt << "\nsampler " << &sampler - &samplers[0];
      EXPECT_EQ(answers[0].text, answers[1].text);
      std::printf("%3d drafted, %3d accepted\n", answers[1].n_drafted, answers[1].n_accepted);
      if (sampler.temperature > 0 || sampler.repeat_penalty != 1) continue;
      n_drafted += answers[1].n_drafted;
      n_accepted += answers[1].n_accepted;
    }
  EXPECT_GT(n_accepted, 3 * 80 * 6 / 10);
  EXPECT_GT(n_accepted, n_drafted * 8 / 10);
}

}  // namespace
}  // namespace engine

int main(int argc, char** argv) { return engine::test::run_tests_with_model(argc, argv); }
