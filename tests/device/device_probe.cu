// device-probe: what the first card is and how fast its memory is, as one JSON line.
//
// read: a kernel that loads every 16 bytes of a buffer once. copy: a copy within the card's memory, read and
// written bytes together. Both are medians over buffers far larger than the L2 cache.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kRuns = 9, kThreads = 256, kBlocksPerSm = 8;
// 64 times the L2 of the largest cards, and a fraction of a second to read on the smallest.
constexpr std::size_t kMostBytes = std::size_t{4} << 30;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: %s: %s (%s)\n", what, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(4);
}

// A thread reads every n_threads-th uint4. The sum keeps the loads alive; it is stored only if it has a
// value that zeros do not have.
__global__ void read_all(const uint4* data, std::size_t n, unsigned* sink) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  unsigned sum = 0;
#pragma unroll 4
  for (; i < n; i += stride) {
    const uint4 v = data[i];
    sum |= v.x | v.y | v.z | v.w;
  }
  if (sum != 0) *sink = sum;
}

// Median seconds of kRuns runs after one that is not counted.
template <class Run>
double median_seconds(const char* what, Run run) {
  cudaEvent_t start, end;
  check(cudaEventCreate(&start), what);
  check(cudaEventCreate(&end), what);
  std::vector<float> milliseconds(kRuns + 1);
  for (float& ms : milliseconds) {
    check(cudaEventRecord(start), what);
    run();
    check(cudaGetLastError(), what);
    check(cudaEventRecord(end), what);
    check(cudaEventSynchronize(end), what);
    check(cudaEventElapsedTime(&ms, start, end), what);
  }
  std::sort(milliseconds.begin() + 1, milliseconds.end());
  return milliseconds[1 + kRuns / 2] * 1e-3;
}

}  // namespace

int main() {
  int driver = 0, runtime = 0;
  cudaDeviceProp card;
  check(cudaDriverGetVersion(&driver), "driver");
  check(cudaRuntimeGetVersion(&runtime), "runtime");
  check(cudaGetDeviceProperties(&card, 0), "card 0");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "memory");
  const std::size_t bytes = std::min(kMostBytes, free / 4) / 32 * 32;
  void* data = nullptr;
  unsigned* sink = nullptr;
  check(cudaMalloc(&data, bytes), "allocate");
  check(cudaMalloc(&sink, sizeof *sink), "allocate");
  check(cudaMemset(data, 0, bytes), "clear");
  const auto n_blocks = static_cast<unsigned>(card.multiProcessorCount * kBlocksPerSm);
  const double read = median_seconds("read", [&] {
    read_all<<<n_blocks, kThreads>>>(static_cast<const uint4*>(data), bytes / sizeof(uint4), sink);
  });
  const std::size_t half = bytes / 2;
  const double copy = median_seconds("copy", [&] {
    check(cudaMemcpyAsync(static_cast<char*>(data) + half, data, half, cudaMemcpyDeviceToDevice), "copy");
  });
  std::printf("{\"card\": \"%s\", \"capability\": \"%d.%d\", \"multiprocessors\": %d, \"memory_bytes\": %zu, "
              "\"l2_bytes\": %d, \"driver_cuda\": %d, \"runtime_cuda\": %d, \"buffer_bytes\": %zu, "
              "\"read_bytes_per_second\": %.6g, \"copy_bytes_per_second\": %.6g}\n",
              card.name, card.major, card.minor, card.multiProcessorCount, total, card.l2CacheSize, driver,
              runtime, bytes, static_cast<double>(bytes) / read, static_cast<double>(bytes) / copy);
  return 0;
}
