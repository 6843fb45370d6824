#include <limits>

#include "tests/support/device_suite.h"
#include "tests/support/ops/kv_write_op.h"

namespace engine::test {
namespace {

constexpr op::KvType kTypes[] = {op::KvType::f16, op::KvType::f32};

TEST(KvWriteDevice, HeadShapes) {
  for (const op::KvType type : kTypes)
    for (const int n_kv : {1, 3})
      for (const int d : {16, 72, 256}) {
        SCOPED_TRACE(std::to_string(n_kv) + " x " + std::to_string(d));
        verify_device(KvWriteOp({.kv = {n_kv, d, type},
                                 .rows = consecutive_rows(3, 2),
                                 .n_sequences = 1,
                                 .n_positions = 64},
                                1));
      }
}

TEST(KvWriteDevice, PromptOverPages) {
  for (const op::KvType type : kTypes)
    verify_device(KvWriteOp({.kv = {1, 16, type},
                             .rows = consecutive_rows(60, 70),
                             .n_sequences = 1,
                             .n_positions = 192},
                            2));
}

TEST(KvWriteDevice, Sequences) {
  for (const op::KvType type : kTypes)
    verify_device(KvWriteOp(
        {.kv = {2, 32, type},
         .rows = {{0, 0, 0}, {63, 63, 0}, {64, 64, 0}, {127, 127, 1}, {128, 128, 1}, {64, 64, 1}},
         .n_sequences = 2,
         .n_positions = 192},
        3));
}

TEST(KvWriteDevice, NoRows) {
  verify_device(KvWriteOp(
      {.kv = {1, 64, op::KvType::f16}, .rows = {}, .n_sequences = 1, .n_positions = 64}, 4));
}

TEST(KvWriteDevice, AnyAlignment) {
  for (const op::KvType type : kTypes)
    verify_device(KvWriteOp({.kv = {1, 72, type},
                             .rows = consecutive_rows(9, 2),
                             .n_sequences = 1,
                             .n_positions = 64,
                             .misalign = 3},
                            5));
}

TEST(KvWriteDevice, ExtremeValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float specials[] = {
      65504, 65519.99f, 65520,      -1e9f,     infinity, std::numeric_limits<float>::quiet_NaN(),
      1e-8f, -6e-5f,    0x1.004p0f, 0x1.00cp0f};
  for (const op::KvType type : kTypes) {
    KvWriteOp op(
        {.kv = {1, 16, type}, .rows = consecutive_rows(1, 1), .n_sequences = 1, .n_positions = 64},
        6);
    for (std::size_t i = 0; i < std::size(specials); ++i) op.k()[i] = op.v()[15 - i] = specials[i];
    verify_device(op);
  }
}

}  // namespace
}  // namespace engine::test
