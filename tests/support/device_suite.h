// The check that every CUDA kernel passes, over an op object of tests/support/ops: the CPU backend's bits in every
// run and with every split into rows.
//
// A program that includes this is compiled for a card, or, with ENGINE_DEVICE_SIMT, for the executor of
// kernels/simt.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/cpu/pool.h"
#include "tests/support/buffer.h"
#include "tests/support/compare.h"
#if defined(ENGINE_DEVICE_SIMT)
#include "tests/support/simt_device.h"
#else
#include "tests/support/cuda_device.h"
#endif

namespace engine::test {

// Runs all rows of an op, in calls of `rows_per_call`. False after an error, which fails the test.
template <class Op>
bool run_on_device(Op& op, const DeviceRun& run, int rows_per_call) {
  op.reset();
  return on_device(run, [&](auto& stream) {
    int first = 0;
    do {  // at least one call, so that zero rows are a case
      op.run(first, std::min(rows_per_call, op.n_t() - first), stream);
      first += rows_per_call;
    } while (first < op.n_t());
  });
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

// Ends with the first error of the device, after which its memory may be out of reach.
template <class Op>
void verify_device(Op&& op, const Bits& expected) {
  const auto check = [&](const DeviceRun& run, int rows_per_call) {
    SCOPED_TRACE(std::string(run.name) + ", " + std::to_string(rows_per_call) + " rows a call");
    if (!run_on_device(op, run, rows_per_call)) return false;
    EXPECT_TRUE(op.guards_intact()) << "written outside the output";
    EXPECT_EQ(compare_bits(expected, op.bits()), "");
    return true;
  };
  for (const DeviceRun& run : kDeviceRuns) {
    if (!check(run, std::max(1, op.n_t()))) return;
    for (const int rows_per_call : {1, 3})
      if (run.splits_rows && op.n_t() > rows_per_call && !check(run, rows_per_call)) return;
  }
}

template <class Op>
void verify_device(Op&& op) {
  verify_device(op, cpu_bits(op));
}

}  // namespace engine::test
