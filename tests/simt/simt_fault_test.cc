// Planted faults: each must be reported, with the kernel, the threads and the source line, and must leave a device that
// runs the next kernel. simt_race_test.cc has those that only ThreadSanitizer sees.
#include "tests/simt/run_kernel.h"

namespace engine::simt {
namespace {

struct FaultTest : AllSchedules {};
INSTANTIATE_SCHEDULES(FaultTest);

void correct_kernel(int* out) {
  int* const shared = dynamic_shared<int>();
  store_shared(shared + threadIdx.x, static_cast<int>(threadIdx.x));
  __syncthreads();
  store_global(out + threadIdx.x, load_shared(shared + (threadIdx.x + 40) % 64));
}

// Runs the kernel, expects its fault, and that the same device then runs a correct kernel.
template <class... P, class... A>
void expect_fault(Device& device, Fault fault, const char* words, void (*kernel)(P...),
                  unsigned n_threads, std::size_t shared_bytes, A... arguments) {
  Buffer<int> out(device, 64);
  const Error error = run(device, kernel, 1, n_threads, shared_bytes, arguments...);
  EXPECT_EQ(error.fault, fault) << error.message;
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("expect_fault"), std::string::npos) << error.message;
  expect_ok(run(device, correct_kernel, 1, 64, 256, out.data()));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], (i + 40) % 64);
}

// The line after the one where it is called, as messages name it.
std::string line(int number) { return "simt_fault_test.cc:" + std::to_string(number); }

// --- waiting ------------------------------------------------------------------------------------

void divergent_barrier_kernel() {
  if (threadIdx.x < 20)
    __syncthreads();
  else
    __syncthreads();
}
constexpr int kDivergentBarrier = __LINE__ - 4;

TEST_P(FaultTest, DivergentBarrier) {
  expect_fault(device, Fault::divergent_barrier, line(kDivergentBarrier).c_str(),
               divergent_barrier_kernel, 64, 0);
}

void one_thread_fewer_kernel() {
  if (threadIdx.x == 37) return;
  __syncthreads();
}

TEST_P(FaultTest, UnequalBarrierCounts) {
  expect_fault(device, Fault::unequal_barriers, "thread 37", one_thread_fewer_kernel, 64, 0);
}

void forgotten_arrival_kernel() {
  if (threadIdx.x < 32) sync_threads(1, 64);
}
constexpr int kForgottenArrival = __LINE__ - 2;

TEST_P(FaultTest, NobodyComes) {
  expect_fault(device, Fault::deadlock, ("threads 0-31 wait at " + line(kForgottenArrival)).c_str(),
               forgotten_arrival_kernel, 64, 0);
}

void two_sizes_kernel() { sync_threads(1, threadIdx.x < 32 ? 64 : 96); }

TEST_P(FaultTest, NamedBarrierOfTwoSizes) {
  expect_fault(device, Fault::unequal_barriers, "barrier 1", two_sizes_kernel, 96, 0);
}

void lost_flag_kernel(unsigned* flag) {
  spin_until([&] { return load_acquire(flag) == 1; });
}
constexpr int kLostFlag = __LINE__ - 2;

TEST_P(FaultTest, SpinningForever) {
  Buffer<unsigned> flag(device, 1);
  flag[0] = 0;
  expect_fault(device, Fault::deadlock, line(kLostFlag).c_str(), lost_flag_kernel, 64, 0,
               flag.data());
}

void grid_barrier_kernel(unsigned* state) { grid_barrier(state); }

TEST_P(FaultTest, GridBarrierWithoutCooperation) {
  Buffer<unsigned> state(device, 1);
  state[0] = 0;
  expect_fault(device, Fault::launch, "not cooperative", grid_barrier_kernel, 32, 0, state.data());
}

// --- masks --------------------------------------------------------------------------------------

void absent_lane_kernel(int* out) { *out = __shfl_sync(kAllLanes, 1, 0); }

TEST_P(FaultTest, MaskNamesALaneThatIsNotThere) {
  Buffer<int> out(device, 1);
  expect_fault(device, Fault::bad_mask, "0xffffffff", absent_lane_kernel, 20, 0, out.data());
}

void exited_lane_kernel(int* out) {
  if (threadIdx.x == 9) return;
  store_global(out + threadIdx.x, __shfl_sync(kAllLanes, 1, 0));
}

TEST_P(FaultTest, MaskNamesALaneThatExits) {
  Buffer<int> out(device, 32);
  expect_fault(device, Fault::bad_mask, "0xffffffff", exited_lane_kernel, 32, 0, out.data());
}

void without_caller_kernel(int* out) {
  store_global(out + threadIdx.x, __shfl_sync(0x0000FFFFu, 1, 0));
}

TEST_P(FaultTest, MaskLacksTheCaller) {
  Buffer<int> out(device, 32);
  expect_fault(device, Fault::bad_mask, "lacks the caller", without_caller_kernel, 32, 0,
               out.data());
}

void two_masks_kernel(int* out) {
  const unsigned mask = threadIdx.x < 8 ? 0xFFFFFFFFu : 0xFFFFFF00u;
  store_global(out + threadIdx.x, __shfl_sync(mask, 1, static_cast<int>(threadIdx.x)));
}

TEST_P(FaultTest, LanesDisagreeAboutTheMask) {
  Buffer<int> out(device, 32);
  const Error error = run(device, two_masks_kernel, 1, 32, 0, out.data());
  EXPECT_EQ(error.fault, Fault::bad_mask) << error.message;
}

void two_collectives_kernel(int* out) {
  const int value = threadIdx.x < 16 ? __shfl_sync(kAllLanes, 1, 0) : __any_sync(kAllLanes, 1);
  store_global(out + threadIdx.x, value);
}

TEST_P(FaultTest, LanesInDifferentCollectives) {
  Buffer<int> out(device, 32);
  expect_fault(device, Fault::bad_collective, "other lanes", two_collectives_kernel, 32, 0,
               out.data());
}

void foreign_source_kernel(int* out) {
  const unsigned mask = threadIdx.x < 16 ? 0x0000FFFFu : 0xFFFF0000u;
  store_global(out + threadIdx.x, __shfl_sync(mask, 1, 20));
}

TEST_P(FaultTest, ShuffleFromALaneOutsideOfTheMask) {
  Buffer<int> out(device, 32);
  expect_fault(device, Fault::bad_collective, "outside of the mask", foreign_source_kernel, 32, 0,
               out.data());
}

// --- memory -------------------------------------------------------------------------------------

void load_kernel(const float* p) { (void)load_global(p + threadIdx.x); }
void store_kernel(float* p) { store_global(p + threadIdx.x, 1.0f); }
void atomic_kernel(int* p) { atomicAdd(p + threadIdx.x, 1); }

TEST_P(FaultTest, GlobalOutOfBounds) {
  Buffer<float> x(device, 63);
  std::ranges::fill(x, 1.0f);
  const char* const words = "0 bytes behind a buffer of 252 bytes";
  expect_fault(device, Fault::out_of_bounds, words, load_kernel, 64, 0, x.data());
  expect_fault(device, Fault::out_of_bounds, words, store_kernel, 64, 0, x.data());
  expect_fault(device, Fault::out_of_bounds, words, atomic_kernel, 64, 0,
               reinterpret_cast<int*>(x.data()));
  expect_fault(device, Fault::out_of_bounds, "4 bytes in front of", load_kernel, 1, 0,
               x.data() - 1);
  float host = 0;
  expect_fault(device, Fault::out_of_bounds, "a load of 4 bytes", load_kernel, 1, 0, &host);
}

void straddling_kernel(const float4* p) { (void)load_global(p); }

TEST_P(FaultTest, WideLoadOverTheEnd) {
  Buffer<float> x(device, 6);
  std::ranges::fill(x, 1.0f);
  expect_fault(device, Fault::out_of_bounds, "offset 16 of a buffer of 24", straddling_kernel, 1, 0,
               reinterpret_cast<const float4*>(x.data() + 4));
}

void plain_write_kernel(volatile float* p) { p[3] = 1.0f; }

TEST_P(FaultTest, PlainWriteBehindABuffer) {
#if defined(ENGINE_SIMT_ASAN)
  GTEST_SKIP() << "AddressSanitizer reports it by itself and ends the program";
#endif
  Buffer<float> x(device, 3);
  expect_fault(device, Fault::out_of_bounds, "0 bytes behind a buffer of 12 bytes",
               plain_write_kernel, 1, 0, static_cast<volatile float*>(x.data()));
}

void shared_index_kernel(int index) {
  int* const shared = dynamic_shared<int>();
  store_shared(shared + index, 1);
}

TEST_P(FaultTest, SharedOutOfBounds) {
  expect_fault(device, Fault::out_of_bounds, "offset 64 of 64", shared_index_kernel, 1, 64, 16);
  expect_fault(device, Fault::out_of_bounds, "offset -4 of 64", shared_index_kernel, 1, 64, -1);
}

void shared_plain_kernel(int index) {
  volatile int* const shared = dynamic_shared<int>();
  shared[index] = 1;
}

TEST_P(FaultTest, PlainWriteBesideSharedMemory) {
#if defined(ENGINE_SIMT_ASAN)
  GTEST_SKIP() << "AddressSanitizer reports it by itself and ends the program";
#endif
  expect_fault(device, Fault::out_of_bounds, "offset 64 ", shared_plain_kernel, 1, 64, 16);
  expect_fault(device, Fault::out_of_bounds, "offset -1 ", shared_plain_kernel, 1, 64, -1);
}

void misaligned_kernel(const float* p) {
  (void)load_global(reinterpret_cast<const float4*>(p + threadIdx.x));
}
void misaligned_shared_kernel() {
  std::byte* const shared = dynamic_shared<std::byte>();
  store_shared(reinterpret_cast<float2*>(shared + 4), float2{1, 2});
}
void misaligned_copy_kernel(const float* p) { copy_async<16>(dynamic_shared<float>(), p + 2); }

TEST_P(FaultTest, MisalignedVectors) {
  Buffer<float> x(device, 64);
  std::ranges::fill(x, 1.0f);
  expect_fault(device, Fault::misaligned, "above a multiple of 16", misaligned_kernel, 32, 0,
               x.data());
  expect_fault(device, Fault::misaligned, "4 above a multiple of 8", misaligned_shared_kernel, 1,
               64);
  expect_fault(device, Fault::misaligned, "8 above a multiple of 16", misaligned_copy_kernel, 1, 64,
               x.data());
}

void uninitialised_shared_kernel() {
  int* const shared = dynamic_shared<int>();
  if (threadIdx.x != 13) store_shared(shared + threadIdx.x, 1);
  __syncthreads();
  (void)load_shared(shared + (threadIdx.x + 1) % 32);
}

TEST_P(FaultTest, UninitialisedShared) {
  expect_fault(device, Fault::poison, "thread 12", uninitialised_shared_kernel, 32, 128);
}

TEST_P(FaultTest, UninitialisedGlobal) {
  Buffer<float> x(device, 32);
  std::ranges::fill(x, 1.0f);
  std::memcpy(&x[21], &kPoison, 4);
  expect_fault(device, Fault::poison, "thread 21", load_kernel, 32, 0, x.data());
  device.memory.mark_written(x.data());
  expect_ok(run(device, load_kernel, 1, 32, 0, x.data()));
}

template <int n_left>
void missing_wait_kernel(const int* in) {
  int* const shared = dynamic_shared<int>();
  copy_async<4>(shared + threadIdx.x, in);
  copy_async_commit();
  copy_async<4>(shared + 32 + threadIdx.x, in);
  copy_async_commit();
  copy_async_wait<n_left>();
  __syncthreads();
  (void)load_shared(shared + threadIdx.x);
  (void)load_shared(shared + 32 + threadIdx.x);
}

TEST_P(FaultTest, MissingWaitForACopy) {
  Buffer<int> in(device, 1);
  in[0] = 5;
  expect_fault(device, Fault::poison, "nobody waited for", missing_wait_kernel<2>, 32, 256,
               in.data());
  expect_fault(device, Fault::poison, "nobody waited for", missing_wait_kernel<1>, 32, 256,
               in.data());
  expect_ok(run(device, missing_wait_kernel<0>, 1, 32, 256, in.data()));
}

// Without the first barrier, lanes that go first read poison: seen wherever the reader can run before the writer.
void missing_barrier_kernel() {
  int* const shared = dynamic_shared<int>();
  store_shared(shared + threadIdx.x, 1);
  (void)load_shared(shared + (threadIdx.x + 1) % 64);
  (void)load_shared(shared + (threadIdx.x + 63) % 64);
}

TEST_P(FaultTest, MissingBarrier) {
  expect_fault(device, Fault::poison, "nobody wrote", missing_barrier_kernel, 64, 256);
}

// --- fragments ----------------------------------------------------------------------------------

// An identity times b is b, if the fragments are what the instruction expects. `swapped` exchanges the two registers of
// a that hold rows g + 8 and k 16….
void identity_kernel(const std::int8_t* b, int* d, bool swapped) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  const auto diagonal = [&](int row, int k) {
    unsigned word = 0;
    for (int i = 0; i < 4; ++i) word |= (row == k + i ? 1u : 0u) << 8 * i;
    return word;
  };
  unsigned a[4] = {diagonal(g, 4 * t), diagonal(g + 8, 4 * t), diagonal(g, 16 + 4 * t),
                   diagonal(g + 8, 16 + 4 * t)};
  if (swapped) std::swap(a[1], a[2]);
  unsigned b_words[2];
  for (int half = 0; half < 2; ++half) {
    b_words[half] = 0;
    for (int i = 0; i < 4; ++i)
      b_words[half] |= static_cast<unsigned>(b[(16 * half + 4 * t + i) * 8 + g] & 255) << 8 * i;
  }
  int sums[4] = {};
  mma_m16n8k32(sums, a, b_words);
  for (int i = 0; i < 4; ++i) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = sums[i];
}

TEST_P(FaultTest, WrongFragmentMapGivesAWrongProduct) {
  Buffer<std::int8_t> b(device, 32 * 8);
  Buffer<int> d(device, 16 * 8);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::int8_t>(i % 127 + 1);
  const auto equal = [&] { return std::equal(d.begin(), d.end(), b.begin()); };
  expect_ok(run(device, identity_kernel, 1, 32, 0, b.data(), d.data(), false));
  EXPECT_TRUE(equal());
  expect_ok(run(device, identity_kernel, 1, 32, 0, b.data(), d.data(), true));
  EXPECT_FALSE(equal());
}

// --- the stack, and what comes after a fault ----------------------------------------------------

void deep_kernel(int* out) {
  volatile char large[std::size_t{16} << 10];
  for (volatile char& byte : large) byte = 1;
  *out = large[0];
}

TEST(StackTest, AnOverflowIsReported) {
#if defined(ENGINE_SIMT_ASAN) || defined(ENGINE_SIMT_TSAN) || !defined(NDEBUG)
  GTEST_SKIP() << "stacks have guard pages here";
#endif
  Device device;
  Buffer<int> out(device, 1);
  // The last thread's stack has room below it: that of the thread before, which has not begun.
  device.options.order = Order::reverse;
  EXPECT_EQ(run(device, deep_kernel, 1, 32, 0, out.data()).fault, Fault::stack_overflow);
}

void throwing_kernel() {
  if (threadIdx.x == 5) throw 1;
  __syncthreads();
}

TEST_P(FaultTest, Exception) {
  expect_fault(device, Fault::exception, "threw", throwing_kernel, 64, 0);
}

TEST(StreamTest, TheFirstErrorWins) {
  Device device;
  Buffer<float> x(device, 1);
  Buffer<int> out(device, 64);
  out[0] = -1;
  Stream stream(device);
  launch(load_kernel, 1, 2, 0, stream, x.data());
  launch(divergent_barrier_kernel, 1, 64, 0, stream);
  launch(correct_kernel, 1, 64, 256, stream, out.data());
  EXPECT_EQ(stream.error().fault, Fault::poison);
  EXPECT_EQ(out[0], -1) << "a launch ran after an error";
  EXPECT_EQ(stream.take_error().fault, Fault::poison);
  launch(correct_kernel, 1, 64, 256, stream, out.data());
  EXPECT_TRUE(stream.error().ok());
  EXPECT_EQ(out[0], 40);
}

}  // namespace
}  // namespace engine::simt
