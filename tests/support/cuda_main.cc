// main() of test programs that run on a card, the first that the driver shows. Without one that can be used they say
// why and return 77, which ctest counts as skipped.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace {

constexpr int kOldestCapability = CUDART_VERSION < 13000 ? 70 : 75;  // as the engine's

// Why tests cannot run on a card; empty if they can.
std::string why_no_card() {
  int driver = 0, n_cards = 0, major = 0, minor = 0, has_managed_memory = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "there is no NVIDIA driver";
  const cudaError_t error = cudaGetDeviceCount(&n_cards);
  if (error != cudaSuccess) return std::string("the driver reports ") + cudaGetErrorString(error);
  if (n_cards == 0) return "the driver finds no card";
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  cudaDeviceGetAttribute(&has_managed_memory, cudaDevAttrManagedMemory, 0);
  const int capability = 10 * major + minor;
  if (capability < kOldestCapability)
    return "the card is sm_" + std::to_string(capability) + ", expected sm_" +
           std::to_string(kOldestCapability) + " or later";
  if (has_managed_memory == 0) return "the card has no managed memory";
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string reason = why_no_card();
  if (!reason.empty()) {
    constexpr int kSkipped = 77;
    std::printf("skipped: %s\n", reason.c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
