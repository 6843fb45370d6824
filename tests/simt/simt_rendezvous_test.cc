// Every way in which threads wait for one another, against plain loops, under every schedule.
#include "tests/simt/run_kernel.h"

namespace engine::simt {
namespace {

struct RendezvousTest : AllSchedules {};
INSTANTIATE_SCHEDULES(RendezvousTest);

// --- shuffles and votes -------------------------------------------------------------------------

enum class Shuffle { index, up, down, exclusive_or };

template <class T>
void shuffle_kernel(Shuffle kind, const T* in, T* out, int argument, int width) {
  const T value = load_global(in + threadIdx.x);
  T result{};
  switch (kind) {
    case Shuffle::index:
      result = __shfl_sync(kAllLanes, value, argument, width);
      break;
    case Shuffle::up:
      result = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(argument), width);
      break;
    case Shuffle::down:
      result = __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(argument), width);
      break;
    case Shuffle::exclusive_or:
      result = __shfl_xor_sync(kAllLanes, value, argument, width);
      break;
  }
  store_global(out + threadIdx.x, result);
}

// CUDA C++ Programming Guide, "Warp Shuffle Functions".
int shuffle_source(Shuffle kind, int lane, int argument, int width) {
  const int first = lane / width * width;
  switch (kind) {
    case Shuffle::index:
      return first + argument % width;
    case Shuffle::up:
      return lane - argument >= first ? lane - argument : lane;
    case Shuffle::down:
      return lane + argument < first + width ? lane + argument : lane;
    case Shuffle::exclusive_or: {
      const int source = lane ^ argument;
      return source < first + width ? source : lane;
    }
  }
  return -1;
}

template <class T>
void check_shuffles(Device& device) {
  constexpr unsigned kThreads = 96;
  Buffer<T> in(device, kThreads), out(device, kThreads);
  for (unsigned i = 0; i < kThreads; ++i) in[i] = static_cast<T>(1000 + 7 * i);
  for (const Shuffle kind : {Shuffle::index, Shuffle::up, Shuffle::down, Shuffle::exclusive_or}) {
    for (const int width : {2, 8, 32}) {
      for (const int argument : {0, 1, 3, 16, 31}) {
        expect_ok(run(device, shuffle_kernel<T>, 1, kThreads, 0, kind, in.data(), out.data(),
                      argument, width));
        for (int i = 0; i < static_cast<int>(kThreads); ++i) {
          const int source = i / 32 * 32 + shuffle_source(kind, i % 32, argument, width);
          ASSERT_EQ(out[static_cast<std::size_t>(i)], in[static_cast<std::size_t>(source)])
              << "thread " << i << ", argument " << argument << ", width " << width;
        }
      }
    }
  }
}

TEST_P(RendezvousTest, ShufflesOf4And8Bytes) {
  check_shuffles<int>(device);
  check_shuffles<float>(device);
  check_shuffles<double>(device);
}

void vote_kernel(const int* in, unsigned* out) {
  const int value = load_global(in + threadIdx.x);
  const unsigned ballot = __ballot_sync(kAllLanes, value > 0);
  const unsigned any = static_cast<unsigned>(__any_sync(kAllLanes, value > 60));
  const unsigned all = static_cast<unsigned>(__all_sync(kAllLanes, value > -60));
  store_global(out + 3 * threadIdx.x, ballot);
  store_global(out + 3 * threadIdx.x + 1, any);
  store_global(out + 3 * threadIdx.x + 2, all);
}

TEST_P(RendezvousTest, Votes) {
  Buffer<int> in(device, 64);
  Buffer<unsigned> out(device, 192);
  for (int i = 0; i < 64; ++i)
    in[static_cast<std::size_t>(i)] = i % 3 - 1 + (i == 40 ? 100 : 0) - (i == 7 ? 100 : 0);
  expect_ok(run(device, vote_kernel, 1, 64, 0, in.data(), out.data()));
  for (unsigned i = 0; i < 64; ++i) {
    unsigned ballot = 0;
    for (unsigned l = 0; l < 32; ++l) ballot |= (in[i / 32 * 32 + l] > 0 ? 1u : 0u) << l;
    EXPECT_EQ(out[3 * i], ballot);
    EXPECT_EQ(out[3 * i + 1], i / 32);  // 100 is in the second warp
    EXPECT_EQ(out[3 * i + 2], i / 32);  // -100 in the first
  }
}

void reduce_kernel(const int* in, int* out) {
  const int value = load_global(in + threadIdx.x);
  store_global(out + threadIdx.x, __reduce_add_sync(kAllLanes, value));
  store_global(out + 32 + threadIdx.x, __reduce_max_sync(kAllLanes, value));
  store_global(out + 64 + threadIdx.x, __reduce_min_sync(kAllLanes, value));
  store_global(out + 96 + threadIdx.x,
               static_cast<int>(__reduce_or_sync(kAllLanes, static_cast<unsigned>(value))));
  store_global(out + 128 + threadIdx.x, warp_add(2 * value));
}

TEST_P(RendezvousTest, Reductions) {
  Buffer<int> in(device, 32), out(device, 160);
  int sum = 0, any = 0;
  for (int i = 0; i < 32; ++i) {
    in[static_cast<std::size_t>(i)] = (i * 37 + 5) % 101 - 50;
    sum += in[static_cast<std::size_t>(i)];
    any |= in[static_cast<std::size_t>(i)];
  }
  expect_ok(run(device, reduce_kernel, 1, 32, 0, in.data(), out.data()));
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], sum);
    EXPECT_EQ(out[32 + i], *std::max_element(in.begin(), in.end()));
    EXPECT_EQ(out[64 + i], *std::min_element(in.begin(), in.end()));
    EXPECT_EQ(out[96 + i], any);
    EXPECT_EQ(out[128 + i], 2 * sum);
  }
}

// The halves of a warp shuffle by themselves, a different number of times.
void half_warps_kernel(int* out) {
  const unsigned half = threadIdx.x / 16;
  const unsigned mask = 0xFFFFu << 16 * half;
  int value = static_cast<int>(threadIdx.x);
  for (unsigned i = 0; i < 1 + 4 * half; ++i)
    value = __shfl_sync(mask, value, (static_cast<int>(threadIdx.x) + 1) % 16, 16);
  store_global(out + threadIdx.x, value);
}

TEST_P(RendezvousTest, DisjointMasks) {
  Buffer<int> out(device, 32);
  expect_ok(run(device, half_warps_kernel, 1, 32, 0, out.data()));
  for (int i = 0; i < 32; ++i) {
    const int times = i < 16 ? 1 : 5;
    EXPECT_EQ(out[static_cast<std::size_t>(i)], i / 16 * 16 + (i + times) % 16);
  }
}

// --- the block ----------------------------------------------------------------------------------

// Reverses 256 values through shared memory, then again through a warp.
void reverse_kernel(int* out) {
  int* const shared = dynamic_shared<int>();
  store_shared(shared + threadIdx.x, static_cast<int>(threadIdx.x));
  __syncthreads();
  const int value = load_shared(shared + blockDim.x - 1 - threadIdx.x);
  __syncthreads();
  store_shared(shared + threadIdx.x, value);
  __syncwarp();
  store_global(out + blockIdx.x * blockDim.x + threadIdx.x,
               load_shared(shared + (threadIdx.x ^ 31)));
}

TEST_P(RendezvousTest, BlockAndWarpBarriers) {
  Buffer<int> out(device, 3 * 256);
  expect_ok(run(device, reverse_kernel, 3, 256, 1024, out.data()));
  for (int i = 0; i < 3 * 256; ++i)
    EXPECT_EQ(out[static_cast<std::size_t>(i)], 255 - (i % 256 ^ 31));
}

void block_vote_kernel(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  store_global(out + 3 * i, __syncthreads_or(i == 77));
  store_global(out + 3 * i + 1, __syncthreads_and(i != 77));
  store_global(out + 3 * i + 2, __syncthreads_count(i % 3 == 0));
}

TEST_P(RendezvousTest, BlockVotes) {
  Buffer<int> out(device, 300);
  expect_ok(run(device, block_vote_kernel, 1, 100, 0, out.data()));
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(out[3 * i], 1);
    EXPECT_EQ(out[3 * i + 1], 0);
    EXPECT_EQ(out[3 * i + 2], 34);
  }
}

// One warp produces, the other consumes: the ring has two places.
void pipeline_kernel(int* out) {
  int* const shared = dynamic_shared<int>();
  const unsigned lane = threadIdx.x % 32;
  constexpr int kFull = 1, kFree = 3;
  for (int i = 0; i < 6; ++i) {
    int* const place = shared + 32 * (i % 2) + lane;
    if (threadIdx.x < 32) {
      if (i >= 2) sync_threads(kFree + i % 2, 64);
      store_shared(place, 100 * i + static_cast<int>(lane));
      arrive_threads(kFull + i % 2, 64);
    } else {
      sync_threads(kFull + i % 2, 64);
      store_global(out + 32 * i + lane, load_shared(place));
      if (i < 4) arrive_threads(kFree + i % 2, 64);
    }
  }
}

TEST_P(RendezvousTest, NamedBarriers) {
  Buffer<int> out(device, 6 * 32);
  expect_ok(run(device, pipeline_kernel, 1, 64, 256, out.data()));
  for (int i = 0; i < 6 * 32; ++i)
    EXPECT_EQ(out[static_cast<std::size_t>(i)], i / 32 * 100 + i % 32);
}

void index_kernel(unsigned* out) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned* const mine = out + 6 * (block * (blockDim.x * blockDim.y * blockDim.z) + thread);
  const unsigned values[] = {threadIdx.x, threadIdx.y, threadIdx.z,
                             blockIdx.x,  blockIdx.y,  blockIdx.z};
  for (int i = 0; i < 6; ++i) store_global(mine + i, values[i]);
}

TEST_P(RendezvousTest, IndicesOfThreeDimensions) {
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  Buffer<unsigned> out(device, 6 * 12 * 60);
  expect_ok(run(device, index_kernel, grid, block, 0, out.data()));
  std::size_t i = 0;
  for (unsigned bz = 0; bz < 2; ++bz)
    for (unsigned by = 0; by < 2; ++by)
      for (unsigned bx = 0; bx < 3; ++bx)
        for (unsigned z = 0; z < 3; ++z)
          for (unsigned y = 0; y < 4; ++y)
            for (unsigned x = 0; x < 5; ++x)
              for (const unsigned expected : {x, y, z, bx, by, bz}) ASSERT_EQ(out[i++], expected);
}

// --- the grid -----------------------------------------------------------------------------------

// Each round, a block adds up what all blocks wrote in the round before.
void rounds_kernel(int* sums, unsigned* barrier, int n_rounds) {
  for (int round = 0; round < n_rounds; ++round) {
    if (threadIdx.x == 0) {
      int sum = static_cast<int>(blockIdx.x) + 1;
      for (unsigned b = 0; b < gridDim.x && round > 0; ++b)
        sum += load_global(sums + static_cast<unsigned>(round - 1) * gridDim.x + b);
      store_global(sums + static_cast<unsigned>(round) * gridDim.x + blockIdx.x, sum);
    }
    grid_barrier(barrier);
  }
}

TEST_P(RendezvousTest, GridBarrier) {
  for (const unsigned n_blocks : {1u, 2u, 3u, 8u}) {
    constexpr int kRounds = 5;
    Buffer<int> sums(device, kRounds * n_blocks);
    Buffer<unsigned> barrier(device, 1);
    barrier[0] = 0;
    for (int repeat = 0; repeat < 2; ++repeat) {
      expect_ok(run_cooperative(device, rounds_kernel, n_blocks, 64, 0, sums.data(), barrier.data(),
                                kRounds));
      int before = 0;
      for (int round = 0; round < kRounds; ++round) {
        int total = 0;
        for (unsigned b = 0; b < n_blocks; ++b) {
          const int sum = sums[static_cast<unsigned>(round) * n_blocks + b];
          EXPECT_EQ(sum, static_cast<int>(b) + 1 + before)
              << n_blocks << " blocks, round " << round;
          total += sum;
        }
        before = total;
      }
    }
  }
}

void atomics_kernel(int* total, unsigned* largest, unsigned long long* sum, unsigned* last) {
  atomicAdd(total, static_cast<int>(threadIdx.x));
  atomicMax(largest, blockIdx.x * 1000 + threadIdx.x);
  atomicAdd(sum, 1ull << 33);
  unsigned seen = load_acquire(last);
  while (true) {
    const unsigned old = atomicCAS(last, seen, seen + 1);
    if (old == seen) break;
    seen = old;
  }
}

TEST_P(RendezvousTest, Atomics) {
  Buffer<int> total(device, 1);
  Buffer<unsigned> largest(device, 1), last(device, 1);
  Buffer<unsigned long long> sum(device, 1);
  total[0] = 0, largest[0] = 0, sum[0] = 0, last[0] = 0;
  expect_ok(
      run(device, atomics_kernel, 4, 64, 0, total.data(), largest.data(), sum.data(), last.data()));
  EXPECT_EQ(total[0], 4 * 63 * 64 / 2);
  EXPECT_EQ(largest[0], 3063u);
  EXPECT_EQ(sum[0], 256ull << 33);
  EXPECT_EQ(last[0], 256u);
}

}  // namespace
}  // namespace engine::simt
