#include "engine/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/align.h"

namespace engine {
namespace {

constexpr std::size_t kSize = 64 * kDeviceAlignment;

struct Block {
  alignas(kDeviceAlignment) std::byte bytes[kSize];
};

class ArenaTest : public testing::Test {
 protected:
  std::size_t offset(const Slab& slab) const {
    return static_cast<std::size_t>(slab.get() - block_.bytes);
  }
  Slab take(std::size_t n) {
    auto slab = arena_.allocate(n);
    EXPECT_TRUE(slab) << slab.status().message();
    return slab ? *std::move(slab) : Slab();
  }

  Block block_;
  Arena arena_{"the arena", Slab(block_.bytes, [](std::byte*) {}), kSize};
};

TEST_F(ArenaTest, PiecesAreAlignedAndFollowOneAnother) {
  const Slab a = take(1), b = take(kDeviceAlignment + 1), c = take(0);
  EXPECT_EQ(offset(a), 0u);
  EXPECT_EQ(offset(b), kDeviceAlignment);
  EXPECT_EQ(offset(c), 3 * kDeviceAlignment);
}

TEST_F(ArenaTest, SaysWhatWasAskedForAndWhatThereIs) {
  const Slab half = take(kSize / 2);
  const auto more = arena_.allocate(kSize / 2 + 1);
  EXPECT_EQ(more.status().code(), Code::out_of_memory);
  EXPECT_EQ(more.status().message(),
            "the arena: 8193 bytes asked for, at most 8192 free in a piece of 16384");
  EXPECT_TRUE(take(kSize / 2));
}

TEST_F(ArenaTest, GapsThatTouchBecomeOne) {
  for (const std::vector<int>& order :
       {std::vector{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    std::vector<Slab> slabs;
    for (int i = 0; i < 3; ++i) slabs.push_back(take(kSize / 4));
    for (const int i : order) slabs[static_cast<std::size_t>(i)].reset();
    EXPECT_TRUE(take(kSize));
  }
}

TEST_F(ArenaTest, TheSmallestGapThatIsLargeEnoughIsTaken) {
  std::vector<Slab> slabs;
  for (const unsigned n : {3u, 2u, 1u, 2u, 2u, 2u}) slabs.push_back(take(n * kDeviceAlignment));
  slabs[0].reset(), slabs[2].reset(), slabs[4].reset();  // at 0, 5 and 8
  EXPECT_EQ(offset(take(2 * kDeviceAlignment)), 8 * kDeviceAlignment);
  EXPECT_EQ(offset(take(kDeviceAlignment)), 5 * kDeviceAlignment);
  EXPECT_EQ(offset(take(3 * kDeviceAlignment)), 0u);
}

// Threads fill their pieces and find them as they left them.
TEST_F(ArenaTest, PiecesNeverOverlap) {
  std::vector<std::thread> threads;
  for (unsigned t = 1; t <= 3; ++t)
    threads.emplace_back([this, t] {
      std::minstd_rand random(t);
      std::vector<std::pair<Slab, std::size_t>> held;
      for (int i = 0; i < 3000; ++i) {
        if (const std::size_t n = 1 + random() % 900; random() % 2 == 0) {
          if (auto slab = arena_.allocate(n)) {
            std::memset(slab->get(), static_cast<int>(t), n);
            held.emplace_back(*std::move(slab), n);
          }
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          for (std::size_t at = 0; at < held.back().second; ++at)
            ASSERT_EQ(held.back().first.get()[at], std::byte{static_cast<unsigned char>(t)});
          held.pop_back();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(take(kSize)) << "all came back";
}

}  // namespace
}  // namespace engine
