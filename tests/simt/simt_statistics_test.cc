// Memory statistics of kernels whose traffic can be counted by hand; every schedule must count the same.
#include <numeric>
#include <string_view>

#include "tests/simt/run_kernel.h"

namespace engine::simt {
namespace {

struct StatisticsTest : AllSchedules {
  void SetUp() override {
    AllSchedules::SetUp();
    device.options.statistics = true;
    device.launches.clear();
  }
  template <class... P, class... A>
  const Statistics& measure(void (*kernel)(P...), const Grid& grid, dim3 block,
                            std::size_t shared_bytes, A... arguments) {
    expect_ok(run(device, kernel, grid, block, shared_bytes, arguments...));
    return device.launches.back();
  }
};
INSTANTIATE_SCHEDULES(StatisticsTest);

template <class T>
void copy_kernel(const T* in, T* out, int stride) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  store_global(out + i, load_global(in + i * static_cast<unsigned>(stride)));
}

TEST_P(StatisticsTest, CoalescedCopy) {
  constexpr unsigned kN = 4 * 64;
  Buffer<float> in(device, kN), out(device, kN);
  std::ranges::fill(in, 1.0f);
  const Statistics& s = measure(copy_kernel<float>, 4, 64, 0, in.data(), out.data(), 1);
  EXPECT_EQ(s.kernel, "TestBody");
  EXPECT_EQ(s.loads.requests, 8u);
  EXPECT_EQ(s.loads.bytes, 4 * kN);
  EXPECT_EQ(s.loads.sectors, 4 * kN / 32);
  EXPECT_EQ(s.loads.unique_bytes, 4 * kN);
  EXPECT_EQ(s.loads.by_width[2], kN);
  EXPECT_DOUBLE_EQ(s.loads.sector_efficiency(), 1.0);
  EXPECT_EQ(s.stores.requests, 8u);
  EXPECT_DOUBLE_EQ(s.stores.sector_efficiency(), 1.0);
  ASSERT_NE(s.buffer(in.data()), nullptr);
  EXPECT_EQ(s.buffer(in.data())->unique_loaded_bytes, 4 * kN);
  EXPECT_EQ(s.buffer(in.data())->stored_bytes, 0u);
  EXPECT_EQ(s.buffer(out.data())->stored_bytes, 4 * kN);
}

TEST_P(StatisticsTest, StrideOfTwo) {
  Buffer<float> in(device, 512), out(device, 256);
  std::ranges::fill(in, 1.0f);
  const Statistics& s = measure(copy_kernel<float>, 4, 64, 0, in.data(), out.data(), 2);
  EXPECT_EQ(s.loads.sectors, 8u * 8);  // 32 lanes of 4 bytes over 256 bytes
  EXPECT_DOUBLE_EQ(s.loads.sector_efficiency(), 0.5);
  EXPECT_DOUBLE_EQ(s.stores.sector_efficiency(), 1.0);
  EXPECT_EQ(s.loads.unique_bytes, 1024u);
}

TEST_P(StatisticsTest, WideLoads) {
  Buffer<float4> in(device, 64), out(device, 64);
  std::ranges::fill(in, float4{1, 2, 3, 4});
  const Statistics& s = measure(copy_kernel<float4>, 1, 64, 0, in.data(), out.data(), 1);
  EXPECT_EQ(s.loads.by_width[4], 64u);
  EXPECT_EQ(s.loads.requests, 2u);
  EXPECT_EQ(s.loads.sectors, 32u);
  EXPECT_DOUBLE_EQ(s.loads.sector_efficiency(), 1.0);
}

// All lanes read the same word: one sector, 4 of its bytes asked for.
TEST_P(StatisticsTest, Broadcast) {
  Buffer<float> in(device, 1), out(device, 64);
  in[0] = 1;
  const Statistics& s = measure(copy_kernel<float>, 1, 64, 0, in.data(), out.data(), 0);
  EXPECT_EQ(s.loads.bytes, 256u);
  EXPECT_EQ(s.loads.unique_bytes, 4u);
  EXPECT_EQ(s.loads.sectors, 2u);
  EXPECT_DOUBLE_EQ(s.loads.sector_efficiency(), 4.0 / 32);
}

// Lane l reads rows of 16 bytes at 128 l: 16 of the 32 bytes of each sector.
TEST_P(StatisticsTest, HalfSectors) {
  Buffer<float4> in(device, 512), out(device, 64);
  std::ranges::fill(in, float4{1, 2, 3, 4});
  const Statistics& s = measure(copy_kernel<float4>, 1, 64, 0, in.data(), out.data(), 8);
  EXPECT_EQ(s.loads.sectors, 64u);
  EXPECT_DOUBLE_EQ(s.loads.sector_efficiency(), 0.5);
}

// Two loads on one line, in a loop whose number of rounds differs between the warps, without a rendezvous.
void loop_kernel(const float* in, float* out) {
  float sum = 0;
  for (unsigned i = 0; i <= threadIdx.x / 32; ++i)
    sum += load_global(in + 32 * i + threadIdx.x % 32) * load_global(in + threadIdx.x % 32);
  store_global(out + threadIdx.x, sum);
}

TEST_P(StatisticsTest, LoopsAreToldApart) {
  Buffer<float> in(device, 64), out(device, 64);
  std::ranges::fill(in, 1.0f);
  const Statistics& s = measure(loop_kernel, 1, 64, 0, in.data(), out.data());
  EXPECT_EQ(s.loads.requests, 6u);
  EXPECT_EQ(s.loads.sectors, 24u);
  EXPECT_EQ(s.loads.unique_bytes, 256u);
  EXPECT_EQ(s.loads.bytes, 768u);
}

template <class T>
void shared_kernel(int stride) {
  T* const shared = dynamic_shared<T>();
  const auto i = threadIdx.x * static_cast<unsigned>(stride);
  store_shared(shared + i, T{});
  (void)load_shared(shared + i);
}

TEST_P(StatisticsTest, BankConflicts) {
  for (const int stride : {1, 2, 3, 4, 8, 16, 32, 33}) {
    const Statistics& s = measure(shared_kernel<int>, 1, 32, 33 * 32 * 4, stride);
    const int ways = std::gcd(stride, 32);
    EXPECT_EQ(s.worst_ways(), ways) << "stride " << stride;
    EXPECT_EQ(s.shared_requests, 2u);
    EXPECT_EQ(s.shared_parts, 2u);
    EXPECT_EQ(s.shared_cycles, 2u * static_cast<unsigned>(ways));
    EXPECT_EQ(s.parts_by_ways[static_cast<std::size_t>(ways)], 2u);
  }
  const Statistics& broadcast = measure(shared_kernel<int>, 1, 32, 4, 0);
  EXPECT_EQ(broadcast.worst_ways(), 1);
  EXPECT_NE(std::string_view(broadcast.worst_conflict.file).find("simt_statistics_test.cc"),
            std::string_view::npos);
}

TEST_P(StatisticsTest, WideSharedAccesses) {
  const Statistics& wide = measure(shared_kernel<float4>, 1, 32, 512, 1);
  EXPECT_EQ(wide.shared_parts, 8u);  // quarters
  EXPECT_EQ(wide.shared_cycles, 8u);
  EXPECT_EQ(wide.worst_ways(), 1);
  const Statistics& two = measure(shared_kernel<float2>, 1, 32, 512, 2);
  EXPECT_EQ(two.shared_parts, 4u);  // halves
  EXPECT_EQ(two.worst_ways(), 2);
}

void counts_kernel(int* counter, const int* in) {
  copy_async<4>(dynamic_shared<int>() + threadIdx.x, in + threadIdx.x);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  if (threadIdx.x % 2 == 0) atomicAdd(counter, 1);
  (void)__ballot_sync(kAllLanes, 1);
  __syncthreads();
}

TEST_P(StatisticsTest, BarriersAtomicsCollectivesCopies) {
  Buffer<int> counter(device, 1), in(device, 64);
  counter[0] = 0;
  std::ranges::fill(in, 3);
  const Statistics& s = measure(counts_kernel, 3, 64, 256, counter.data(), in.data());
  EXPECT_EQ(s.block_barriers, 6u);
  EXPECT_EQ(s.atomics, 96u);
  EXPECT_EQ(s.collectives.size(), 1u);
  EXPECT_EQ(s.collectives.at("__ballot_sync"), 6u);
  EXPECT_EQ(s.async_copies, 192u);
  EXPECT_EQ(s.loads.bytes, 768u);
  EXPECT_EQ(s.loads.unique_bytes, 256u);
  EXPECT_DOUBLE_EQ(s.loads.sector_efficiency(), 1.0);
}

void products_kernel(int* out) {
  auto* const shared = dynamic_shared<uint4>();
  store_shared(shared + threadIdx.x, uint4{});
  __syncwarp();
  for (int i = 0; i < 3; ++i) {
    unsigned x[4];
    load_matrices(x, shared + threadIdx.x);
    int d[4] = {}, e[2] = {};
    mma_m16n8k32(d, x, {x[0], x[1]});
    if (i == 0) mma_m8n8k16(e, x[0], x[1]);
    int sum = d[0] + e[0];
    if (threadIdx.x % 32 < 5) sum = dp4a_s8u8(x[0], x[1], dp4a_u8u8(x[2], x[3], sum));
    sum = __shfl_xor_sync(kAllLanes, warp_add(sum), 1) + __shfl_up_sync(kAllLanes, sum, 1u);
    store_global(out + threadIdx.x, sum);
  }
}

// Twice, since every launch counts from 0.
TEST_P(StatisticsTest, InstructionsByClass) {
  Buffer<int> out(device, 64);
  for (int launch = 0; launch < 2; ++launch) {
    const Statistics& s = measure(products_kernel, 1, 64, 1024, out.data());
    const std::map<std::string_view, std::uint64_t> expected = {
        {"__syncwarp", 2},      {"load_matrices", 6},  {"mma_m16n8k32", 6},     {"mma_m8n8k16", 2},
        {"__shfl_xor_sync", 6}, {"__shfl_up_sync", 6}, {"__reduce_add_sync", 6}};
    EXPECT_EQ(s.collectives, expected);
    EXPECT_EQ(s.dot_products, 2u * 3 * 5 * 2);
  }
}

void phases_kernel(unsigned* barrier) {
  for (int i = 0; i < 7; ++i) grid_barrier(barrier);
}

TEST_P(StatisticsTest, GridBarriers) {
  Buffer<unsigned> barrier(device, 1);
  barrier[0] = 0;
  expect_ok(run_cooperative(device, phases_kernel, 4, 32, 0, barrier.data()));
  EXPECT_EQ(device.launches.back().grid_barriers, 7u);
  EXPECT_EQ(device.launches.back().loads.bytes, 0u) << "waiting is not traffic";
}

TEST_P(StatisticsTest, BoundsAreStillChecked) {
  Buffer<float> in(device, 63), out(device, 64);
  std::ranges::fill(in, 1.0f);
  EXPECT_EQ(run(device, copy_kernel<float>, 1, 64, 0, in.data(), out.data(), 1).fault,
            Fault::out_of_bounds);
  EXPECT_TRUE(device.launches.empty());
}

}  // namespace
}  // namespace engine::simt
