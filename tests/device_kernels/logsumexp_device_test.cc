#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/logsumexp_op.h"

namespace engine::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogSumExpDevice, Widths) {
  for (const int n_vocab : {1, 2, 127, 128, 129, 4095, 4096, 4097, 32768, 32769, 40000}) {
    SCOPED_TRACE(n_vocab);
    verify_device(LogSumExpOp({.n_t = 1, .n_vocab = n_vocab}, 1));
  }
}

TEST(LogSumExpDevice, Rows) {
  for (const int n_t : {0, 2, 9}) verify_device(LogSumExpOp({.n_t = n_t, .n_vocab = 300}, 2));
}

TEST(LogSumExpDevice, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u})
    verify_device(LogSumExpOp({.n_t = 2, .n_vocab = 261, .misalign = misalign}, 3));
}

TEST(LogSumExpDevice, MaskedAndNonFinite) {
  for (const float value :
       {-kInfinity, kInfinity, std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f, 1e30f}) {
    SCOPED_TRACE(value);
    LogSumExpOp one({.n_t = 1, .n_vocab = 5000}, 4), all({.n_t = 1, .n_vocab = 300}, 5);
    one.logits()[4097] = value;
    std::fill(all.logits().begin(), all.logits().end(), value);
    verify_device(one);
    verify_device(all);
  }
}

}  // namespace
}  // namespace engine::test
