#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include "engine/arena.h"

namespace engine {
namespace {

// Two local layers and a global one, so that a slab of 18 pages holds 6 * 64 positions.
class KvCacheTest : public testing::Test {
 protected:
  static constexpr int kSlabPositions = 6 * op::kPage;

  KvCacheTest() {
    config_.n_kv_heads = 1;
    config_.head_dim = 16;
    config_.window = 100;
    config_.is_local = {true, true, false};
  }
  KvCache cache() { return KvCache(config_, op::KvType::f16, arena_); }

  static constexpr std::size_t kPageBytes = 2 * 16 * op::kPage * 2, kSlabBytes = 18 * kPageBytes;
  Config config_ = {};
  HostMemory host_;
  Arena arena_{"the arena", *host_.allocate(3 * kSlabBytes), 3 * kSlabBytes};
};

TEST_F(KvCacheTest, TakesSlabsAsItGrows) {
  KvCache a = cache();
  EXPECT_EQ(a.allocated_bytes(), 0u);
  ASSERT_TRUE(a.reserve(kSlabPositions).ok());
  EXPECT_EQ(a.allocated_bytes(), kSlabBytes);
  ASSERT_TRUE(a.reserve(kSlabPositions + 1).ok());
  EXPECT_EQ(a.allocated_bytes(), 2 * kSlabBytes);
}

TEST_F(KvCacheTest, WhatFailsTakesNothing) {
  KvCache a = cache(), b = cache();
  ASSERT_TRUE(a.reserve(1).ok());
  for (KvCache* some : {&a, &b}) {
    const std::size_t before = some->allocated_bytes();
    const Status status = some->reserve(4 * kSlabPositions);
    EXPECT_EQ(status.code(), Code::out_of_memory);
    EXPECT_NE(status.message().find("the arena: "), std::string::npos) << status.message();
    EXPECT_EQ(some->allocated_bytes(), before);
    EXPECT_EQ(some->pages(2).size(), some == &a ? 1u : 0u);
  }
  EXPECT_TRUE(b.reserve(2 * kSlabPositions).ok()) << "all that is left";
}

TEST_F(KvCacheTest, RewindingGivesBackWhatNobodyUses) {
  KvCache a = cache(), b = cache();
  ASSERT_TRUE(a.reserve(3 * kSlabPositions).ok());
  EXPECT_EQ(b.reserve(1).code(), Code::out_of_memory);
  EXPECT_EQ(a.rewind(10), 10);
  EXPECT_LT(a.allocated_bytes(), 3 * kSlabBytes);
  EXPECT_GT(a.allocated_bytes(), 0u);
  EXPECT_TRUE(b.reserve(1).ok());
  EXPECT_EQ(a.rewind(0), 0);
  EXPECT_EQ(a.allocated_bytes(), 0u);
  EXPECT_TRUE(b.reserve(2 * kSlabPositions).ok());
}

}  // namespace
}  // namespace engine
