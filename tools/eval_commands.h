// What gemma-eval does with a request. Every request is answered as if it were the first.
#pragma once

#include "engine/engine.h"
#include "tools/eval_request.h"
#include "tools/json.h"

namespace engine::tools {

struct Evaluator {
  Model model;
  Session session;
  bool parse_special = false;  // of tokenize
};

using EvalCommand = Result<Json> (*)(Evaluator&, const EvalRequest&);

// {"text"} -> {"ids"}; no BOS is put in front.
Result<Json> tokenize(Evaluator& evaluator, const EvalRequest& request);
// {"ids"} -> {"text"}
Result<Json> detokenize(Evaluator& evaluator, const EvalRequest& request);
// {"ids", "positions": [the last], "top": 32}
// -> {"positions": [{"pos", "logsumexp", "top": [[id, logit], …]}, …]}, in the order asked for
Result<Json> logits(Evaluator& evaluator, const EvalRequest& request);
// {"ids" or "text", "max_tokens": 128, sampler options, "stop", "ignore_eos", "draft"} -> {"ids", "text",
// "finish_reason"}; ids are taken as they are, a text gets BOS in front
Result<Json> generate(Evaluator& evaluator, const EvalRequest& request);
// {"ids" or "text"} -> {"mean_nll", "n"}; the mean of -ln p over the n tokens after the first
Result<Json> perplexity(Evaluator& evaluator, const EvalRequest& request);

}  // namespace engine::tools
