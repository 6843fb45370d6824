// The CPU backend's threads and the choice of its instruction set.
#include "kernels/cpu/pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/cpu/leaf.h"
#include "tests/support/cpu_time.h"

namespace engine::cpu {
namespace {

using test::cpu_seconds;

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

// Threads fall asleep between loops, are woken too late for most, and must still notice the end.
TEST(Pool, EndsWhateverItsThreadsAreDoing) {
  for (int round = 0; round < 300; ++round) {
    Pool pool(3);
    std::atomic<int> sum = 0;
    const auto add = [&](int begin, int end) { sum += end - begin; };
    const Status status = pool.run([&] {
      for (int loop = 0; loop < 4; ++loop) {
        std::this_thread::sleep_for(std::chrono::microseconds(40 + 10 * (round % 5)));
        for (int again = 0; again <= round % 3; ++again) pool.parallel_for(24, 1, add);
      }
    });
    ASSERT_TRUE(status.ok());
    ASSERT_EQ(sum, 4 * 24 * (1 + round % 3));
  }
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

// Loops with hardly any work, of every number of parts: claims of one must never count for another.
TEST(Pool, ManyTinyLoops) {
  for (const int n_threads : {2, 3, 5}) {
    Pool pool(n_threads);
    std::vector<int> runs(23);
    ASSERT_TRUE(pool.run([&] {
                      for (int round = 0; round < 10000; ++round)
                        pool.parallel_for(round % 23 + 1, 1, [&](int begin, int end) {
                          for (int i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
                        });
                    })
                    .ok());
    for (int i = 0; i < 23; ++i)
      EXPECT_EQ(runs[static_cast<std::size_t>(i)],
                10000 / 23 * (23 - i) + std::max(0, 10000 % 23 - i))
          << "item " << i << ", " << n_threads << " threads";
  }
}

// The leader is held up in its first part until all others are done.
TEST(Pool, AThreadTakesItsOwnPartsFirstAndThenThoseOfOthers) {
  Pool pool(2);
  constexpr int kParts = 8;
  ASSERT_EQ(pool.n_parts(kParts, 1), kParts);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> taken;  // by the worker
    std::atomic<int> n_taken = 0;
    ASSERT_TRUE(pool.run([&] {
                      const std::thread::id leader = std::this_thread::get_id();
                      pool.parallel_for(kParts, 1, [&](int begin, int) {
                        if (std::this_thread::get_id() != leader) {
                          taken.push_back(begin);
                          ++n_taken;
                        }
                        while (begin == 0 && n_taken < kParts - 1) std::this_thread::yield();
                      });
                    })
                    .ok());
    EXPECT_EQ(taken, (std::vector<int>{4, 5, 6, 7, 1, 2, 3}));
  }
}

TEST(Pool, PartsCoverAllItems) {
  for (const int n : {1, 7, 64, 1 << 30})
    for (const int parts : {1, 3, 8}) {
      EXPECT_EQ(Pool::part_begin(n, parts, 0), 0);
      EXPECT_EQ(Pool::part_begin(n, parts, parts), n);
      for (int p = 0; p < parts; ++p) {
        const int size = Pool::part_begin(n, parts, p + 1) - Pool::part_begin(n, parts, p);
        EXPECT_GE(size, n / parts) << "part " << p << " of " << parts << " of " << n;
        EXPECT_LE(size, (n + parts - 1) / parts) << "part " << p << " of " << parts << " of " << n;
      }
    }
}

// A loop that the leader runs by itself is no barrier.
TEST(Pool, CountsParallelLoops) {
  Pool pool(3);
  ASSERT_TRUE(pool.run([&] {
                    for (const int n : {0, 1, 9, 10, 20, 100})
                      pool.parallel_for(n, 10, [](int, int) {});
                  })
                  .ok());
  EXPECT_EQ(pool.n_regions(), 2u);
}

// About as many steps as a token has loops, each of some 40 us of work.
void run_token(Pool& pool) {
  ASSERT_TRUE(pool.run([&] {
                    for (int loop = 0; loop < 90; ++loop)
                      pool.parallel_for(64, 1, [](int begin, int end) {
                        for (int i = 0; i < (end - begin) * 2000; ++i)
                          asm volatile("" : : "r"(i) : "memory");
                      });
                  })
                  .ok());
}

TEST(Pool, IdleThreadsSleep) {
  Pool pool(4);
  run_token(pool);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu_seconds() - before, 0.01 * 0.5);
}

// Other processes can slow any one comparison down, so one of many has to succeed.
TEST(Pool, MoreThreadsThanCoresAreNoSlower) {
  Pool one(1), many(static_cast<int>(4 * std::thread::hardware_concurrency()));
  const auto seconds = [](Pool& pool) {
    const auto start = std::chrono::steady_clock::now();
    for (int token = 0; token < 5; ++token) run_token(pool);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double best_ratio = 100;
  for (int attempt = 0; attempt < 50 && best_ratio > 1.25; ++attempt)
    best_ratio = std::min(best_ratio, seconds(many) / seconds(one));
  EXPECT_LE(best_ratio, 1.25);
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

TEST(Limits, ThreadsFitTheProcess) {
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), most_threads());
  // An affinity mask of one processor.
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(first), &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(first), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(default_threads(), 1);
  EXPECT_EQ(most_threads(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
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
