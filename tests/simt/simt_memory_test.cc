// Memory and matrix instructions: every width, asynchronous copies, dp4a, mma and ldmatrix against plain loops.
#include <random>
#include <vector>

#include "tests/simt/run_kernel.h"

namespace engine::simt {
namespace {

struct MemoryTest : AllSchedules {};
INSTANTIATE_SCHEDULES(MemoryTest);

std::vector<std::int8_t> random_bytes(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::int8_t> bytes(n);
  for (auto& byte : bytes) byte = static_cast<std::int8_t>(generator());
  // The extremes, whose products are largest.
  for (std::size_t i = 0; i < n; i += 5) bytes[i] = i % 2 == 0 ? -128 : 127;
  return bytes;
}

// --- loads and stores ---------------------------------------------------------------------------

template <class T>
void copy_kernel(const T* in, T* out) {
  T* const shared = dynamic_shared<T>();
  const unsigned i = threadIdx.x;
  store_shared(shared + i, load_global(in + i));
  __syncthreads();
  store_global(out + i, load_shared(shared + (i ^ 1)));
  store_global(out + 64 + i, load_readonly(in + i));
  store_global(out + 128 + i, load_streaming(in + i));
}

template <class T>
void check_copy(Device& device) {
  Buffer<T> in(device, 64), out(device, 192);
  const auto bytes = random_bytes(64 * sizeof(T), sizeof(T));
  std::memcpy(in.data(), bytes.data(), bytes.size());
  expect_ok(run(device, copy_kernel<T>, 1, 64, 64 * sizeof(T), in.data(), out.data()));
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(std::memcmp(&out[i], &in[i ^ 1], sizeof(T)), 0) << sizeof(T) << " bytes, " << i;
    EXPECT_EQ(std::memcmp(&out[64 + i], &in[i], sizeof(T)), 0);
    EXPECT_EQ(std::memcmp(&out[128 + i], &in[i], sizeof(T)), 0);
  }
}

TEST_P(MemoryTest, EveryWidth) {
  check_copy<std::uint8_t>(device);
  check_copy<std::uint16_t>(device);
  check_copy<float>(device);
  check_copy<float2>(device);
  check_copy<uint4>(device);
}

// A ring of two places, filled one step ahead, of copies of every size.
template <int bytes>
void ring_kernel(const std::byte* in, std::byte* out, int n_steps) {
  std::byte* const ring = dynamic_shared<std::byte>();
  const auto place = [&](int step) {
    return ring + (step % 2 * 32 + static_cast<int>(threadIdx.x)) * bytes;
  };
  const auto offset = [&](int step) { return (step * 32 + static_cast<int>(threadIdx.x)) * bytes; };
  copy_async<bytes>(place(0), in + offset(0));
  copy_async_commit();
  for (int step = 0; step < n_steps; ++step) {
    // Lanes past the end copy zeros; the group is closed either way.
    copy_async_or_zero<bytes>(place(step + 1), in + offset(step + 1), step + 1 < n_steps);
    copy_async_commit();
    copy_async_wait<1>();
    for (int i = 0; i < bytes; i += 4)
      store_global(reinterpret_cast<unsigned*>(out + offset(step) + i),
                   load_shared(reinterpret_cast<const unsigned*>(place(step) + i)));
  }
  copy_async_wait<0>();
  for (int i = 0; i < bytes; i += 4)
    store_global(reinterpret_cast<unsigned*>(out + offset(n_steps) + i),
                 load_shared(reinterpret_cast<const unsigned*>(place(n_steps) + i)));
}

template <int bytes>
void check_ring(Device& device) {
  constexpr int kSteps = 5;
  constexpr std::size_t kBytes = kSteps * 32 * bytes;
  Buffer<std::byte> in(device, kBytes), out(device, kBytes + 32 * bytes);
  const auto data = random_bytes(kBytes, bytes);
  std::memcpy(in.data(), data.data(), kBytes);
  expect_ok(run(device, ring_kernel<bytes>, 1, 32, 64 * bytes, in.data(), out.data(), kSteps));
  EXPECT_EQ(std::memcmp(in.data(), out.data(), kBytes), 0);
  EXPECT_TRUE(
      std::all_of(out.begin() + kBytes, out.end(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(MemoryTest, AsynchronousCopies) {
  check_ring<4>(device);
  check_ring<8>(device);
  check_ring<16>(device);
}

// A copy happens at the wait and not before: what it brings is what the source holds then.
void late_kernel(int* source, int* out) {
  int* const shared = dynamic_shared<int>();
  copy_async<4>(shared, source);
  copy_async_commit();
  store_global(source, 2);
  copy_async_wait<0>();
  store_global(out, load_shared(shared));
}

TEST(AsyncCopyTest, IsDeferredUntilTheWait) {
  Device device;
  Buffer<int> source(device, 1), out(device, 1);
  source[0] = 1;
  expect_ok(run(device, late_kernel, 1, 1, 16, source.data(), out.data()));
  EXPECT_EQ(out[0], 2);
}

// --- integer products ---------------------------------------------------------------------------

TEST(Dp4aTest, EverySign) {
  const auto bytes = random_bytes(8 * 1000, 1);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    unsigned a, b;
    std::memcpy(&a, &bytes[i], 4);
    std::memcpy(&b, &bytes[i + 4], 4);
    int ss = 7, su = 7, us = 7, uu = 7;
    for (std::size_t j = 0; j < 4; ++j) {
      const int as = bytes[i + j], bs = bytes[i + 4 + j], au = as & 255, bu = bs & 255;
      ss += as * bs;
      su += as * bu;
      us += au * bs;
      uu += au * bu;
    }
    ASSERT_EQ(dp4a_s8s8(a, b, 7), ss);
    ASSERT_EQ(dp4a_s8u8(a, b, 7), su);
    ASSERT_EQ(dp4a_u8s8(a, b, 7), us);
    ASSERT_EQ(dp4a_u8u8(a, b, 7), uu);
  }
  EXPECT_EQ(dp4a_s8s8(0x7F7F7F7F, 0x7F7F7F7F, 0x7FFFFFFF),
            static_cast<int>(0x7FFFFFFFu + 4u * 127 * 127));
}

unsigned pack(const std::int8_t* bytes) {
  unsigned word;
  std::memcpy(&word, bytes, 4);
  return word;
}

// The fragment layouts as the PTX ISA states them, element by element ("Matrix Fragments for mma.m16n8k32" and
// "mma.m8n8k16"), so that they share nothing with the implementation.
void mma_16x8x32_kernel(const std::int8_t* a, const std::int8_t* b, int* d) {
  const int lane = static_cast<int>(threadIdx.x);
  const int group = lane >> 2, in_group = lane % 4;
  std::int8_t a_bytes[16], b_bytes[8];
  for (int i = 0; i < 16; ++i) {
    const int row = (i >= 0 && i < 4) || (i >= 8 && i < 12) ? group : group + 8;
    const int column = i < 8 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
    a_bytes[i] = a[row * 32 + column];
  }
  for (int i = 0; i < 8; ++i) {
    const int row = i < 4 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16;
    b_bytes[i] = b[row * 8 + group];
  }
  const unsigned a_words[4] = {pack(a_bytes), pack(a_bytes + 4), pack(a_bytes + 8),
                               pack(a_bytes + 12)};
  const unsigned b_words[2] = {pack(b_bytes), pack(b_bytes + 4)};
  int sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  mma_m16n8k32(sums, a_words, b_words);
  mma_m16n8k32(sums, a_words, b_words);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = sums[i];
}

void mma_8x8x16_kernel(const std::int8_t* a, const std::int8_t* b, int* d) {
  const int lane = static_cast<int>(threadIdx.x);
  const int group = lane >> 2, in_group = lane % 4;
  std::int8_t a_bytes[4], b_bytes[4];
  for (int i = 0; i < 4; ++i) {
    a_bytes[i] = a[group * 16 + in_group * 4 + i];
    b_bytes[i] = b[(in_group * 4 + i) * 8 + group];
  }
  int sums[2] = {d[group * 8 + in_group * 2], d[group * 8 + in_group * 2 + 1]};
  mma_m8n8k16(sums, pack(a_bytes), pack(b_bytes));
  mma_m8n8k16(sums, pack(a_bytes), pack(b_bytes));
  d[group * 8 + in_group * 2] = sums[0];
  d[group * 8 + in_group * 2 + 1] = sums[1];
}

// a [m, k], b [k, 8], d [m, 8] += 2 a b
void check_mma(Device& device, void (*kernel)(const std::int8_t*, const std::int8_t*, int*),
               std::size_t m, std::size_t n_k) {
  const auto a_bytes = random_bytes(m * n_k, 3), b_bytes = random_bytes(n_k * 8, 4);
  Buffer<std::int8_t> a(device, a_bytes.size()), b(device, b_bytes.size());
  Buffer<int> d(device, m * 8);
  std::ranges::copy(a_bytes, a.begin());
  std::ranges::copy(b_bytes, b.begin());
  std::vector<int> expected(m * 8);
  for (std::size_t i = 0; i < m * 8; ++i) expected[i] = d[i] = static_cast<int>(i * 1000);
  for (std::size_t row = 0; row < m; ++row)
    for (std::size_t column = 0; column < 8; ++column)
      for (std::size_t k = 0; k < n_k; ++k)
        expected[row * 8 + column] += 2 * a_bytes[row * n_k + k] * b_bytes[k * 8 + column];
  expect_ok(run(device, kernel, 1, 32, 0, a.data(), b.data(), d.data()));
  EXPECT_TRUE(std::ranges::equal(d, expected));
}

TEST_P(MemoryTest, Mma) {
  check_mma(device, mma_16x8x32_kernel, 16, 32);
  check_mma(device, mma_8x8x16_kernel, 8, 16);
}

// Rows of 16 bytes, 48 bytes apart, in shared memory; every lane keeps what it gets.
template <int n>
void matrices_kernel(const unsigned* in, unsigned* out) {
  unsigned* const shared = dynamic_shared<unsigned>();
  for (int row = static_cast<int>(threadIdx.x); row < 8 * n; row += 32)
    for (int i = 0; i < 4; ++i) store_shared(shared + 12 * row + i, load_global(in + 4 * row + i));
  __syncwarp();
  unsigned r[n];
  load_matrices<n>(r, shared + 12 * (threadIdx.x % (8 * n)));
  for (int m = 0; m < n; ++m) store_global(out + n * static_cast<int>(threadIdx.x) + m, r[m]);
}

template <int n>
void check_matrices(Device& device) {
  Buffer<unsigned> in(device, 32 * n), out(device, 32 * n);
  for (unsigned i = 0; i < 32 * n; ++i) in[i] = 0x01010101u * i;
  expect_ok(run(device, matrices_kernel<n>, 1, 32, 8 * n * 48, in.data(), out.data()));
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t m = 0; m < n; ++m)
      EXPECT_EQ(out[n * lane + m], in[4 * (8 * m + lane / 4) + lane % 4])
          << n << " matrices, lane " << lane;
}

TEST_P(MemoryTest, Matrices) {
  check_matrices<1>(device);
  check_matrices<2>(device);
  check_matrices<4>(device);
}

// --- the vocabulary's arithmetic ----------------------------------------------------------------

TEST(VocabularyTest, Bits) {
  EXPECT_EQ(__popc(0xF0F0u), 8);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(-1), 0);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__umulhi(0x80000000u, 6u), 3u);
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7043u), 0x77004433u);
  EXPECT_EQ(__byte_perm(0x00800000u, 0u, 0x888Au), 0x000000FFu);
  EXPECT_EQ(__float_as_int(1.0f), 0x3F800000);
  EXPECT_EQ(__int_as_float(__float_as_int(-0.1f)), -0.1f);
  EXPECT_EQ(min(3, -4), -4);
  EXPECT_EQ(max(3u, 4u), 4u);
}

}  // namespace
}  // namespace engine::simt
