#include <limits>

#include "tests/support/kernel_suite.h"
#include "tests/support/ops/residual_op.h"

namespace engine::test {
namespace {

TEST(Residual, Sizes) {
  for (const int n_i : {0, 1, 7, 8, 9, 17, 640, 1152, 10007}) {
    SCOPED_TRACE(n_i);
    verify(ResidualOp({.n_t = 3, .n_i = n_i}, 1));
  }
}

TEST(Residual, AnyAlignment) {
  for (const std::size_t misalign : {1u, 3u, 7u})
    verify(ResidualOp({.n_t = 2, .n_i = 100, .misalign = misalign}, 2));
}

TEST(Residual, NonFinite) {
  ResidualOp op({.n_t = 1, .n_i = 640}, 3);
  op.x()[3] = std::numeric_limits<float>::quiet_NaN();
  op.x()[637] = std::numeric_limits<float>::infinity();
  verify(op);
}

TEST(Residual, DoublesItself) {
  for (const auto& pool : all_pools()) {
    std::vector<float> x(20, 1.5f);
    ASSERT_TRUE(pool->run([&] { cpu::residual({x.data(), x.data(), x.size()}, *pool); }).ok());
    EXPECT_EQ(x, std::vector<float>(20, 3.0f)) << describe(*pool);
  }
}

}  // namespace
}  // namespace engine::test
