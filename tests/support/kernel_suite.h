// The checks every op passes, over the op objects of tests/support/ops (their interface is
// described in ops/float_output.h).
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cpu/pool.h"
#include "tests/support/compare.h"

namespace engine::test {

// A pool of every instruction-set level of this machine and 1, 2, 3 and 5 threads, scalar first.
inline const std::vector<std::unique_ptr<cpu::Pool>>& all_pools() {
  static const auto pools = [] {
    std::vector<std::unique_ptr<cpu::Pool>> made;
    for (const cpu::Isa isa : cpu::supported_isas())
      for (const int n_threads : {1, 2, 3, 5})
        made.push_back(std::make_unique<cpu::Pool>(n_threads, isa));
    return made;
  }();
  return pools;
}

inline std::string describe(const cpu::Pool& pool) {
  return std::string(cpu::name(pool.isa())) + ", " + std::to_string(pool.n_threads()) + " threads";
}

// Runs all rows of an op, in calls of `rows_per_call`.
template <class Op>
void run(Op& op, cpu::Pool& pool, int rows_per_call) {
  op.reset();
  const Status status = pool.run([&] {
    int first = 0;
    do {  // at least one call, so that zero rows are a case
      const int n = std::min(rows_per_call, op.n_t() - first);
      op.run(first, n, pool);
      first += rows_per_call;
    } while (first < op.n_t());
  });
  ASSERT_TRUE(status.ok()) << status.message();
}

// Agrees with the reference, and gives the same bits on every pool and with every split into rows.
template <class Op>
void verify(Op&& op) {
  op.run_reference();
  Bits first;
  for (const auto& pool : all_pools()) {
    SCOPED_TRACE(describe(*pool));
    run(op, *pool, std::max(1, op.n_t()));
    EXPECT_EQ(op.mismatch(), "");
    if (first.empty()) first = op.bits();
    EXPECT_EQ(compare_bits(first, op.bits()), "");
  }
  for (const int rows_per_call : {1, 3}) {
    if (op.n_t() <= rows_per_call) continue;
    SCOPED_TRACE(std::to_string(rows_per_call) + " rows a call");
    for (const auto& pool : all_pools()) {
      if (pool->n_threads() != 2) continue;
      run(op, *pool, rows_per_call);
      EXPECT_EQ(compare_bits(first, op.bits()), "") << describe(*pool);
    }
  }
}

}  // namespace engine::test
