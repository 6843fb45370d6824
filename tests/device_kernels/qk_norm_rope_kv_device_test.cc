#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/qk_norm_rope_kv_op.h"

namespace engine::test {
namespace {

constexpr op::KvType kTypes[] = {op::KvType::f16, op::KvType::f32};

TEST(QkNormRopeKvDevice, HeadShapes) {
  for (const op::KvType type : kTypes)
    for (const int d : {2, 16, 72, 256})
      for (const auto& [n_h, n_kv] : {std::pair{1, 1}, {4, 1}, {4, 2}, {3, 3}}) {
        SCOPED_TRACE(std::to_string(n_h) + " and " + std::to_string(n_kv) + " of " +
                     std::to_string(d));
        verify_device(QkNormRopeKvOp({.kv = {n_kv, d, type},
                                      .n_h = n_h,
                                      .rows = consecutive_rows(63, 2),
                                      .n_sequences = 1,
                                      .n_positions = 128},
                                     1));
      }
}

TEST(QkNormRopeKvDevice, Rows) {
  for (const int n_t : {0, 1, 5, 66})
    verify_device(QkNormRopeKvOp({.kv = {1, 16, op::KvType::f16},
                                  .n_h = 2,
                                  .rows = consecutive_rows(0, n_t),
                                  .n_sequences = 1,
                                  .n_positions = 128},
                                 2));
}

TEST(QkNormRopeKvDevice, Sequences) {
  verify_device(QkNormRopeKvOp({.kv = {2, 32, op::KvType::f16},
                                .n_h = 4,
                                .rows = {{0, 0, 0}, {63, 63, 0}, {64, 64, 1}, {127, 127, 1}},
                                .n_sequences = 2,
                                .n_positions = 128},
                               3));
}

TEST(QkNormRopeKvDevice, AnyAlignment) {
  for (const op::KvType type : kTypes)
    verify_device(QkNormRopeKvOp({.kv = {1, 72, type},
                                  .n_h = 3,
                                  .rows = consecutive_rows(9, 2),
                                  .n_sequences = 1,
                                  .n_positions = 64,
                                  .misalign = 3},
                                 4));
}

TEST(QkNormRopeKvDevice, NonFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
    QkNormRopeKvOp op({.kv = {2, 16, op::KvType::f16},
                       .n_h = 4,
                       .rows = consecutive_rows(1, 3),
                       .n_sequences = 1,
                       .n_positions = 64},
                      5);
    op.q()[5] = op.k()[40] = op.v()[70] = bad;
    verify_device(op);
  }
}

}  // namespace
}  // namespace engine::test
