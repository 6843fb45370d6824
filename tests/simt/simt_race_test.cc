// Races between threads, which only ThreadSanitizer sees: each planted one must be reported, and its correct twin must
// not. Reports are counted, not fatal, in this program. An address is reported once: every run has buffers of its own.
#include <cstdio>

#include "tests/simt/run_kernel.h"

#if !defined(ENGINE_SIMT_TSAN)

int main() {
  std::puts("skipped: needs -fsanitize=thread");
  return 77;
}

#else

namespace {
int n_reports = 0;
}

// Called by ThreadSanitizer, which cannot look into its own report. A second report from the same
// place would be left out without these options.
extern "C" __attribute__((no_sanitize("thread"))) void __tsan_on_report(void*) { ++n_reports; }
extern "C" const char* __tsan_default_options() {
  return "exitcode=0:symbolize=0:suppress_equal_stacks=0:suppress_equal_addresses=0";
}

namespace engine::simt {
namespace {

struct RaceTest : AllSchedules {
  template <class... P, class... A>
  int races(void (*kernel)(P...), const Grid& grid, dim3 block, std::size_t shared_bytes,
            A... arguments) {
    const int before = n_reports;
    expect_ok(run(device, kernel, grid, block, shared_bytes, arguments...));
    return n_reports - before;
  }
  template <class... P, class... A>
  int cooperative_races(void (*kernel)(P...), const Grid& grid, dim3 block, A... arguments) {
    const int before = n_reports;
    expect_ok(run_cooperative(device, kernel, grid, block, 0, arguments...));
    return n_reports - before;
  }
  void SetUp() override {
    AllSchedules::SetUp();
    device.options.report_poison = false;  // the races are to be seen by ThreadSanitizer
  }
};
INSTANTIATE_SCHEDULES(RaceTest);

enum class Barrier { none, warp, block };

// Every thread writes a word, then reads its neighbour's.
void neighbour_kernel(int* global, int* out, Barrier barrier, bool in_shared) {
  int* const words = in_shared ? dynamic_shared<int>() : global;
  const unsigned next = (threadIdx.x + 1) % blockDim.x;
  words[threadIdx.x] = 1;
  if (barrier == Barrier::warp) __syncwarp();
  if (barrier == Barrier::block) __syncthreads();
  out[threadIdx.x] = words[next];
}

TEST_P(RaceTest, WithinABlock) {
  for (const bool in_shared : {false, true}) {
    const auto with = [&](Barrier barrier, unsigned n_threads) {
      Buffer<int> words(device, 64), out(device, 64);
      return races(neighbour_kernel, 1, n_threads, 256, words.data(), out.data(), barrier,
                   in_shared);
    };
    EXPECT_GT(with(Barrier::none, 64), 0);
    EXPECT_GT(with(Barrier::none, 32), 0) << "lanes of a warp do not run in step";
    EXPECT_GT(with(Barrier::warp, 64), 0) << "the neighbour may be in another warp";
    EXPECT_EQ(with(Barrier::warp, 32), 0);
    EXPECT_EQ(with(Barrier::block, 64), 0);
  }
}

// A shuffle makes lanes meet, but orders no memory.
void shuffle_kernel(int* words, int* out) {
  words[threadIdx.x] = 1;
  const int source = __shfl_sync(kAllLanes, static_cast<int>((threadIdx.x + 1) % 32),
                                 static_cast<int>(threadIdx.x));
  out[threadIdx.x] = words[source];
}

TEST_P(RaceTest, AShuffleIsNoBarrier) {
  Buffer<int> words(device, 32), out(device, 32);
  EXPECT_GT(races(shuffle_kernel, 1, 32, 0, words.data(), out.data()), 0);
}

// The second write must wait until everybody has read: the barrier at the end of the loop.
void reuse_kernel(int* out, bool second_barrier) {
  int* const words = dynamic_shared<int>();
  for (int i = 0; i < 3; ++i) {
    words[threadIdx.x] = i;
    __syncthreads();
    out[threadIdx.x] = words[(threadIdx.x + 1) % blockDim.x];
    if (second_barrier) __syncthreads();
  }
}

TEST_P(RaceTest, MissingBarrierBeforeReuse) {
  Buffer<int> out(device, 64);
  EXPECT_GT(races(reuse_kernel, 1, 64, 256, out.data(), false), 0);
  EXPECT_EQ(races(reuse_kernel, 1, 64, 256, out.data(), true), 0);
}

// Asynchronous copies are the thread's own until a barrier.
void copy_kernel(const int* in, int* out, bool barrier) {
  int* const words = dynamic_shared<int>();
  copy_async<4>(words + threadIdx.x, in + threadIdx.x);
  copy_async_commit();
  copy_async_wait<0>();
  if (barrier) __syncthreads();
  out[threadIdx.x] = words[(threadIdx.x + 1) % blockDim.x];
}

TEST_P(RaceTest, AWaitIsNoBarrier) {
  Buffer<int> in(device, 64), out(device, 64);
  std::ranges::fill(in, 1);
  EXPECT_GT(races(copy_kernel, 1, 64, 256, in.data(), out.data(), false), 0);
  EXPECT_EQ(races(copy_kernel, 1, 64, 256, in.data(), out.data(), true), 0);
}

// Producer and consumer warps.
void named_kernel(int* out, bool barrier) {
  int* const words = dynamic_shared<int>();
  if (threadIdx.x < 32) {
    words[threadIdx.x] = 1;
    if (barrier) arrive_threads(1, 64);
  } else {
    if (barrier) sync_threads(1, 64);
    out[threadIdx.x - 32] = words[threadIdx.x - 32];
  }
}

TEST_P(RaceTest, NamedBarrier) {
  Buffer<int> out(device, 32);
  EXPECT_GT(races(named_kernel, 1, 64, 128, out.data(), false), 0);
  EXPECT_EQ(races(named_kernel, 1, 64, 128, out.data(), true), 0);
}

// --- across blocks ------------------------------------------------------------------------------

void blocks_kernel(int* words, int* out, unsigned* state, bool barrier) {
  const unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  words[i] = 1;
  if (barrier) grid_barrier(state);
  out[i] = words[(i + blockDim.x) % n];
}

TEST_P(RaceTest, AcrossBlocks) {
  for (const bool cooperative : {false, true}) {
    for (const bool barrier : {false, true}) {
      if (barrier && !cooperative) continue;
      Buffer<int> words(device, 128), out(device, 128);
      Buffer<unsigned> state(device, 1);
      state[0] = 0;
      const int n = cooperative ? cooperative_races(blocks_kernel, 4, 32, words.data(), out.data(),
                                                    state.data(), barrier)
                                : races(blocks_kernel, 4, 32, 0, words.data(), out.data(),
                                        state.data(), barrier);
      EXPECT_EQ(n == 0, barrier) << n << " reports";
    }
  }
}

// The last block to come adds up what all wrote; with a relaxed counter it may not see it.
void last_block_kernel(int* words, int* out, unsigned* counter, bool acquires) {
  words[blockIdx.x] = 1;
  const unsigned n_before = acquires ? add_acquire_release(counter, 1) : atomicAdd(counter, 1u);
  if (n_before != gridDim.x - 1) return;
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += words[b];
  *out = sum;
}

TEST_P(RaceTest, RelaxedCounter) {
  for (const bool acquires : {false, true}) {
    Buffer<int> words(device, 4), out(device, 1);
    Buffer<unsigned> counter(device, 1);
    counter[0] = 0;
    const int n =
        races(last_block_kernel, 4, 1, 0, words.data(), out.data(), counter.data(), acquires);
    EXPECT_EQ(n == 0, acquires) << n << " reports";
    EXPECT_EQ(out[0], 4);
  }
}

void write_kernel(int* words) { words[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

TEST_P(RaceTest, LaunchesAreOrdered) {
  Buffer<int> words(device, 128);
  std::ranges::fill(words, 0);
  EXPECT_EQ(races(write_kernel, 4, 32, 0, words.data()), 0);
  EXPECT_EQ(races(write_kernel, 2, 64, 0, words.data()), 0);
  for (const int word : words) EXPECT_EQ(word, 2);
}

}  // namespace
}  // namespace engine::simt

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

#endif
