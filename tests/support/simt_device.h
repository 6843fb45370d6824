// The executor of kernels/simt as the device of a test program, whose buffers then are where its kernels may
// touch exactly their elements.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/simt/executor.h"
#include "tests/support/buffer.h"
#include "tests/support/ptxas_table.h"

namespace engine::test {

inline int registers_on_card(const void* kernel, int architecture) {
  const std::optional<int> registers = registers_of(kernel, architecture);
  EXPECT_TRUE(registers.has_value()) << "tests/cuda/ptxas.tsv lacks " << kernel_name(kernel);
  return registers.value_or(0);
}

inline simt::Device& simt_device() {
  static simt::Device device({.registers = registers_on_card});
  return device;
}

class SimtMemory : public HeapMemory {
 public:
  void expose(const void* begin, std::size_t n_bytes) override {
    simt_device().memory.adopt(begin, n_bytes);
  }
  void withdraw(const void* begin) override { simt_device().memory.free(const_cast<void*>(begin)); }
};

inline const bool kBuffersAreInSimtMemory = [] {
  simt_device();  // made first, to outlive the buffers
  static SimtMemory memory;
  buffer_memory() = &memory;
  return true;
}();

struct DeviceRun {
  const char* name;
  bool splits_rows;  // into calls of a few, too
  simt::Order order;
  std::uint64_t seed;
  int architecture;  // whose limits hold
};
inline constexpr DeviceRun kDeviceRuns[] = {{"forward", false, simt::Order::forward, 0, 75},
                                            {"reverse", false, simt::Order::reverse, 0, 86},
                                            {"random 1", false, simt::Order::random, 1, 100},
                                            {"random 2", true, simt::Order::random, 2, 120}};

// Calls fn with a stream and waits for what it launches. False after an error, which fails the test.
template <class Fn>
bool on_device(const DeviceRun& run, const Fn& fn) {
  simt_device().options.order = run.order;
  simt_device().options.seed = run.seed;
  simt_device().options.architecture = run.architecture;
  simt::Stream stream(simt_device());
  fn(stream);
  if (stream.error().ok()) return true;
  ADD_FAILURE() << stream.error().message;
  return false;
}

}  // namespace engine::test
