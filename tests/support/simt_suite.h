// The check that every CUDA kernel passes in the executor: over an op object of tests/support/ops, the
// CPU backend's bits under every schedule and with every split into rows.
//
// A program that includes this has its buffers where the executor's kernels may touch exactly their
// elements.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/pool.h"
#include "kernels/simt/executor.h"
#include "tests/support/buffer.h"
#include "tests/support/compare.h"
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

struct SimtSchedule {
  const char* name;
  simt::Order order;
  std::uint64_t seed;
  int architecture;  // whose limits hold
};
inline constexpr SimtSchedule kSimtSchedules[] = {{"forward", simt::Order::forward, 0, 75},
                                                  {"reverse", simt::Order::reverse, 0, 86},
                                                  {"random 1", simt::Order::random, 1, 100},
                                                  {"random 2", simt::Order::random, 2, 120}};

// Runs all rows of an op, in calls of `rows_per_call`.
template <class Op>
void run_simt(Op& op, const SimtSchedule& schedule, int rows_per_call) {
  simt_device().options.order = schedule.order;
  simt_device().options.seed = schedule.seed;
  simt_device().options.architecture = schedule.architecture;
  op.reset();
  simt::Stream stream(simt_device());
  int first = 0;
  do {  // at least one call, so that zero rows are a case
    op.run(first, std::min(rows_per_call, op.n_t() - first), stream);
    first += rows_per_call;
  } while (first < op.n_t());
  ASSERT_TRUE(stream.error().ok()) << stream.error().message;
}

// What a run of all rows asks of memory, by launch.
template <class Op>
std::vector<simt::Statistics> traffic(Op& op) {
  simt_device().options.statistics = true;
  simt_device().launches.clear();
  run_simt(op, kSimtSchedules[0], std::max(1, op.n_t()));
  simt_device().options.statistics = false;
  return std::move(simt_device().launches);
}

// The results of the CPU backend at the scalar level, one thread.
template <class Op>
Bits cpu_bits(Op& op) {
  static cpu::Pool pool(1, cpu::Isa::scalar);
  op.reset();
  const Status status = pool.run([&] { op.run(0, op.n_t(), pool); });
  EXPECT_TRUE(status.ok()) << status.message();
  return op.bits();
}

template <class Op>
void verify_simt(Op&& op, const Bits& expected) {
  const auto check = [&](const SimtSchedule& schedule, int rows_per_call) {
    SCOPED_TRACE(std::string(schedule.name) + ", " + std::to_string(rows_per_call) +
                 " rows a call");
    run_simt(op, schedule, rows_per_call);
    EXPECT_TRUE(op.guards_intact()) << "written outside the output";
    EXPECT_EQ(compare_bits(expected, op.bits()), "");
  };
  for (const SimtSchedule& schedule : kSimtSchedules) check(schedule, std::max(1, op.n_t()));
  for (const int rows_per_call : {1, 3})
    if (op.n_t() > rows_per_call) check(kSimtSchedules[3], rows_per_call);
}

template <class Op>
void verify_simt(Op&& op) {
  verify_simt(op, cpu_bits(op));
}

}  // namespace engine::test
