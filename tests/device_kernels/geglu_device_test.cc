#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/geglu_op.h"

namespace engine::test {
namespace {

TEST(GegluDevice, Sizes) {
  for (const int n_i : {1, 31, 33, 255, 256, 257, 2048}) {
    SCOPED_TRACE(n_i);
    verify_device(GegluOp({.n_t = 2, .n_i = n_i}, 1));
  }
}

TEST(GegluDevice, Rows) {
  for (const int n_t : {0, 1, 130}) verify_device(GegluOp({.n_t = n_t, .n_i = 16}, 2));
}

TEST(GegluDevice, Aliases) {
  for (const auto alias : {GegluOp::Alias::gate, GegluOp::Alias::up})
    for (const std::size_t misalign : {0u, 1u})
      verify_device(GegluOp({.n_t = 2, .n_i = 300, .alias = alias, .misalign = misalign}, 3));
}

// Every exponent of the gate, of both signs.
TEST(GegluDevice, WholeRange) {
  GegluOp op({.n_t = 1, .n_i = 512}, 4);
  for (std::size_t i = 0; i < 512; ++i)
    op.gate()[i] =
        std::bit_cast<float>(static_cast<std::uint32_t>(i << 23 | (i * 40503 & 0x7FFFFF)));
  verify_device(op);
}

TEST(GegluDevice, NonFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  GegluOp op({.n_t = 1, .n_i = 64}, 5);
  op.gate()[3] = std::numeric_limits<float>::quiet_NaN();
  op.gate()[4] = infinity;
  op.gate()[5] = -infinity;
  op.up()[6] = infinity;
  verify_device(op);
}

}  // namespace
}  // namespace engine::test
