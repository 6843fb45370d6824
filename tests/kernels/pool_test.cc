// The CPU backend's threads and the choice of its instruction set.
#include "kernels/cpu/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

#include "kernels/cpu/leaf.h"

namespace engine::cpu {
namespace {

TEST(Pool, EveryItemRunsOnce) {
  for (const int n_threads : {1, 2, 3, 5}) {
    Pool pool(n_threads);
    ASSERT_EQ(pool.n_threads(), n_threads);
    for (const int n : {0, 1, 2, 4, 5, 6, 7, 100}) {
      for (const int grain : {1, 3, 1000}) {
        std::vector<int> runs(static_cast<std::size_t>(n));
        ASSERT_TRUE(pool.run([&] {
                          pool.parallel_for(n, grain, [&](int begin, int end) {
                            for (int i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
                          });
                        })
                        .ok());
        EXPECT_EQ(runs, std::vector<int>(runs.size(), 1)) << n << " items by " << grain;
      }
    }
  }
}

TEST(Pool, PartsAreNoSmallerThanTheGrain) {
  Pool pool(5);
  std::atomic<int> smallest = 1000;
  ASSERT_TRUE(pool.run([&] {
                    pool.parallel_for(10, 4, [&](int begin, int end) {
                      int seen = smallest;
                      while (end - begin < seen &&
                             !smallest.compare_exchange_weak(seen, end - begin)) {
                      }
                    });
                  })
                  .ok());
  EXPECT_GE(smallest, 4);
}

// Consecutive loops with dependent data: a worker that lagged behind would see old values.
TEST(Pool, LoopsAreBarriers) {
  Pool pool(3);
  std::vector<int> a(64, 0), b(64, 0);
  ASSERT_TRUE(pool.run([&] {
                    for (int round = 0; round < 100; ++round) {
                      pool.parallel_for(64, 1, [&](int begin, int end) {
                        for (int i = begin; i < end; ++i)
                          b[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(63 - i)] + 1;
                      });
                      pool.parallel_for(64, 1, [&](int begin, int end) {
                        for (int i = begin; i < end; ++i)
                          a[static_cast<std::size_t>(i)] = b[static_cast<std::size_t>(63 - i)] + 1;
                      });
                    }
                  })
                  .ok());
  EXPECT_EQ(a, std::vector<int>(64, 200));
}

TEST(Pool, CallersQueueUp) {
  Pool pool(2);
  int jobs = 0;  // unguarded: jobs must not overlap
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) EXPECT_TRUE(pool.run([&] { ++jobs; }).ok());
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(jobs, 200);
}

TEST(Pool, ExceptionsBecomeStatuses) {
  Pool pool(2);
  EXPECT_EQ(pool.run([] { throw std::bad_alloc(); }).code(), Code::out_of_memory);
  EXPECT_EQ(pool.run([] { throw std::runtime_error("broken"); }).code(), Code::internal);
  EXPECT_TRUE(pool.run([] {}).ok());
}

// The child has none of the parent's threads: waiting for them would hang, at the end as well.
TEST(Pool, AForkedChildGetsAnErrorAndCanEnd) {
  auto pool = std::make_unique<Pool>(2);
  ASSERT_TRUE(pool->run([] {}).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = pool->run([] {}).code() == Code::forked;
    ::alarm(10);  // kills a child that hangs in the destructor
    pool.reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Pool, ThreadsRunWithTheDefaultFloatingPointEnvironment) {
  std::fenv_t before;
  ASSERT_EQ(std::fegetenv(&before), 0);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  Pool pool(3);
  std::fesetenv(&before);
  std::atomic<int> n_wrong = 0;
  const Status status = pool.run([&] {
    pool.parallel_for(100, 1, [&](int, int) { n_wrong += std::fegetround() != FE_TONEAREST; });
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(n_wrong, 0);
}

TEST(Select, NamesRoundTrip) {
  for (const Isa isa : supported_isas()) EXPECT_EQ(find_isa(name(isa)), isa);
  EXPECT_EQ(find_isa("avx99"), std::nullopt);
}

TEST(Select, ScalarRunsEverywhere) {
  EXPECT_EQ(supported_isas().front(), Isa::scalar);
  const std::vector<Isa> isas = supported_isas();
  EXPECT_NE(std::find(isas.begin(), isas.end(), best_isa()), isas.end());
}

TEST(Select, AForcedLevelIsTheOneThatRuns) {
  for (const Isa isa : supported_isas()) {
    ASSERT_EQ(::setenv("ENGINE_CPU_ISA", std::string(name(isa)).c_str(), 1), 0);
    ASSERT_EQ(isa_from_environment(), isa);
    const Pool pool(1, *isa_from_environment());
    EXPECT_EQ(pool.isa(), isa);
    EXPECT_EQ(&pool.leaf(), &leaf(isa));
  }
  ASSERT_EQ(::setenv("ENGINE_CPU_ISA", "", 1), 0);
  EXPECT_EQ(isa_from_environment(), best_isa());
  ASSERT_EQ(::unsetenv("ENGINE_CPU_ISA"), 0);
  EXPECT_EQ(isa_from_environment(), best_isa());
}

TEST(Select, AnUnknownLevelIsNeverReplaced) {
  ASSERT_EQ(::setenv("ENGINE_CPU_ISA", "avx99", 1), 0);
  EXPECT_EQ(isa_from_environment(), std::nullopt);
  ASSERT_EQ(::unsetenv("ENGINE_CPU_ISA"), 0);
}

TEST(Select, EveryLevelHasItsOwnCode) {
  for (const Isa isa : supported_isas()) {
    if (isa == Isa::scalar) continue;
    EXPECT_NE(leaf(isa).matmul, leaf(Isa::scalar).matmul) << name(isa);
  }
}

}  // namespace
}  // namespace engine::cpu
