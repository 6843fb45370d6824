// A launch that a card would refuse is refused.
#include "tests/simt/run_kernel.h"

namespace engine::simt {
namespace {

void empty_kernel() {}

Fault fault_of(int architecture, const Grid& grid, dim3 block, std::size_t shared_bytes) {
  Device device({.architecture = architecture});
  return run(device, empty_kernel, grid, block, shared_bytes).fault;
}

TEST(LimitsTest, ThreadsOfABlock) {
  EXPECT_EQ(fault_of(86, 1, 1024, 0), Fault::none);
  EXPECT_EQ(fault_of(86, 1, 1025, 0), Fault::launch);
  EXPECT_EQ(fault_of(86, 1, dim3(32, 32), 0), Fault::none);
  EXPECT_EQ(fault_of(86, 1, dim3(32, 33), 0), Fault::launch);
  EXPECT_EQ(fault_of(86, 1, dim3(1, 1, 64), 0), Fault::none);
  EXPECT_EQ(fault_of(86, 1, dim3(1, 1, 65), 0), Fault::launch);
  EXPECT_EQ(fault_of(86, 1, 0, 0), Fault::launch);
  EXPECT_EQ(fault_of(86, 0, 1, 0), Fault::launch);
  EXPECT_EQ(fault_of(86, dim3(1, 65536), 1, 0), Fault::launch);
}

TEST(LimitsTest, SharedMemoryOfABlock) {
  constexpr struct {
    int architecture;
    std::size_t kib;
  } kMost[] = {{70, 96}, {75, 64}, {80, 163}, {86, 99}, {89, 99}, {90, 227}, {100, 227}, {120, 99}};
  for (const auto& most : kMost) {
    EXPECT_EQ(fault_of(most.architecture, 1, 32, most.kib * 1024), Fault::none)
        << most.architecture;
    EXPECT_EQ(fault_of(most.architecture, 1, 32, most.kib * 1024 + 1), Fault::launch)
        << most.architecture;
  }
}

TEST(LimitsTest, UnknownArchitecture) { EXPECT_EQ(fault_of(42, 1, 32, 0), Fault::launch); }

// Occupancies by hand.
TEST(LimitsTest, ResidentBlocks) {
  const auto resident = [](int architecture, int threads, std::size_t shared, int registers) {
    return resident_blocks_per_sm(*find_limits(architecture), threads, shared, registers);
  };
  EXPECT_EQ(resident(86, 256, 0, 0), 6);  // 1536 threads
  EXPECT_EQ(resident(75, 1024, 0, 0), 1);
  EXPECT_EQ(resident(86, 32, 0, 0), 16);  // blocks
  EXPECT_EQ(resident(80, 33, 0, 0), 32);
  EXPECT_EQ(resident(86, 32, 24 * 1024, 0), 4);  // 100 KB of 25 KB each, with what the system takes
  EXPECT_EQ(resident(75, 32, 24 * 1024, 0), 2);
  EXPECT_EQ(resident(90, 256, 0, 128), 2);  // 65536 registers
  EXPECT_EQ(resident(90, 256, 0, 129), 1);  // 129 * 32 rounds up to 4352 a warp
  EXPECT_EQ(resident(90, 1024, 0, 255), 0);
}

TEST(LimitsTest, CooperativeGrid) {
  Device device({.architecture = 75, .n_sms = 2});
  EXPECT_TRUE(run_cooperative(device, empty_kernel, 4, 512, 0).ok());  // 1024 threads an SM
  const Error error = run_cooperative(device, empty_kernel, 5, 512, 0);
  EXPECT_EQ(error.fault, Fault::launch);
  EXPECT_NE(error.message.find("cooperative"), std::string::npos) << error.message;
  EXPECT_TRUE(run(device, empty_kernel, 5, 512, 0).ok());
}

void other_kernel() {}

// A made-up table: 65 registers a thread, which 1024 threads are too many for.
TEST(LimitsTest, RegistersOfABlock) {
  Device device({.architecture = 90, .registers = [](const void* kernel, int architecture) {
                   return kernel == reinterpret_cast<const void*>(empty_kernel) ? 65
                          : architecture == 90                                  ? 64
                                                                                : 256;
                 }});
  EXPECT_TRUE(run(device, empty_kernel, 1, 896, 0).ok());  // 28 warps of 2304
  const Error error = run(device, empty_kernel, 1, 897, 0);
  EXPECT_EQ(error.fault, Fault::launch);
  EXPECT_NE(error.message.find("registers of a block: 66816"), std::string::npos) << error.message;
  EXPECT_TRUE(run(device, other_kernel, 1, 1024, 0).ok());
  device.options.architecture = 80;
  EXPECT_EQ(run(device, other_kernel, 1, 1, 0).fault, Fault::launch) << "256 of a thread";
}

}  // namespace
}  // namespace engine::simt
