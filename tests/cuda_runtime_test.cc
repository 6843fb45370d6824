// The CUDA backend's runtime against a made-up driver: cards, memory and errors that no test machine has.
#include "engine/cuda_runtime.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace engine::cuda {
namespace {

// What the made-up driver has and does.
struct Driver {
  int version = 13000, runtime_version = 13000;
  cudaError_t count_error = cudaSuccess;
  std::vector<cudaDeviceProp> cards;
  std::size_t total = 1000, used = 0, host_total = 1000;
  int n_host_allocations = 0;
  std::map<void*, std::size_t> allocations;
  cudaError_t next_error = cudaSuccess;  // of the next synchronisation
  int n_streams = 0, card = -1, n_waits = 0, silent_card = -1;
};
Driver driver;

constexpr CudaCalls kCalls = {
    .driver_version = [](int* v) { return *v = driver.version, cudaSuccess; },
    .runtime_version = [](int* v) { return *v = driver.runtime_version, cudaSuccess; },
    .device_count =
        [](int* n) { return *n = static_cast<int>(driver.cards.size()), driver.count_error; },
    .device_properties =
        [](cudaDeviceProp* p, int i) {
          if (i == driver.silent_card) return cudaErrorUnknown;
          return *p = driver.cards[static_cast<std::size_t>(i)], cudaSuccess;
        },
    .set_device = [](int i) { return driver.card = i, cudaSuccess; },
    .memory_info =
        [](std::size_t* free, std::size_t* total) {
          return *free = driver.total - driver.used, *total = driver.total, cudaSuccess;
        },
    .allocate =
        [](void** memory, std::size_t n) {
          if (n > driver.total - driver.used) return cudaErrorMemoryAllocation;
          driver.used += n;
          *memory = ::operator new(n);
          driver.allocations[*memory] = n;
          return cudaSuccess;
        },
    .free =
        [](void* memory) {
          driver.used -= driver.allocations[memory];
          driver.allocations.erase(memory);
          ::operator delete(memory);
          return cudaSuccess;
        },
    .allocate_host =
        [](void** memory, std::size_t n) {
          if (n > driver.host_total) return cudaErrorMemoryAllocation;
          ++driver.n_host_allocations;
          *memory = ::operator new(n);
          return cudaSuccess;
        },
    .free_host =
        [](void* memory) {
          --driver.n_host_allocations;
          ::operator delete(memory);
          return cudaSuccess;
        },
    .create_stream =
        [](cudaStream_t* s) {
          *s = reinterpret_cast<cudaStream_t>(&driver);
          return ++driver.n_streams, cudaSuccess;
        },
    .destroy_stream = [](cudaStream_t) { return --driver.n_streams, cudaSuccess; },
    .copy = [](void* to, const void* from, std::size_t n, cudaMemcpyKind,
               cudaStream_t) { return std::memcpy(to, from, n), cudaSuccess; },
    .synchronize =
        [](cudaStream_t) {
          ++driver.n_waits;
          return std::exchange(driver.next_error, cudaSuccess);
        },
    .take_last_error = [] { return cudaSuccess; },
};

cudaDeviceProp card(const char* name, int major, int minor, int bus) {
  cudaDeviceProp p = {};
  std::strncpy(p.name, name, sizeof p.name - 1);
  p.major = major;
  p.minor = minor;
  p.multiProcessorCount = 58;
  p.totalGlobalMem = std::size_t{22} << 30;
  p.pciBusID = bus;
  for (int i = 0; i < 16; ++i) p.uuid.bytes[i] = static_cast<char>(bus + i);
  return p;
}

class CudaRuntime : public testing::Test {
 protected:
  CudaRuntime() {
    driver = {};
    driver.cards = {card("Card A", 8, 9, 0x17), card("Card B", 9, 0, 0x65)};
  }
  static std::unique_ptr<Runtime> open(std::string_view name = "") {
    auto runtime = Runtime::open(name, kCalls);
    EXPECT_TRUE(runtime) << runtime.status().message();
    return runtime ? *std::move(runtime) : nullptr;
  }
  static std::string refusal(std::string_view name = "") {
    const auto runtime = Runtime::open(name, kCalls);
    EXPECT_EQ(runtime.status().code(), Code::device);
    return runtime.status().message();
  }
};

TEST_F(CudaRuntime, ChoosesACardByIndexPciIdOrUuid) {
  EXPECT_NE(open()->name().find("cuda Card A (sm_89, 58 SMs, 22.0 GiB; driver 13.0, runtime 13.0"),
            std::string::npos)
      << open()->name();
  for (const char* name : {"1", "0000:65:00.0", "GPU-65666768-696a-6b6c-6d6e-6f7071727374",
                           "gpu-65666768-696A-6b6c-6d6e-6f7071727374"}) {
    EXPECT_NE(open(name)->name().find("Card B"), std::string::npos) << name;
    EXPECT_EQ(driver.card, 1);
  }
  EXPECT_EQ(driver.n_streams, 0) << "streams live as long as their runtimes";
}

TEST_F(CudaRuntime, TellsWhichCardsThereAre) {
  for (const char* name : {"2", "-1", "Card A", "0000:66:00.0", "GPU-"}) {
    const std::string message = refusal(name);
    EXPECT_NE(message.find('"' + std::string(name) + '"'), std::string::npos) << message;
    EXPECT_NE(message.find("0000:65:00.0  GPU-65666768-"), std::string::npos) << message;
  }
}

TEST_F(CudaRuntime, TellsWhyThereIsNone) {
  driver.cards = {card("Old", 6, 1, 1)};
  EXPECT_EQ(refusal(), CUDART_VERSION < 13000
                           ? "device cuda: Old is sm_61, expected sm_70 or later"
                           : "device cuda: Old is sm_61, expected sm_75 or later");
  driver.cards = {};
  EXPECT_EQ(refusal(), "device cuda: the driver finds no card");
  driver.version = 11040;
  driver.count_error = cudaErrorInsufficientDriver;
  EXPECT_NE(refusal().find("CUDA 11.4, this program has runtime 13.0"), std::string::npos)
      << refusal();
  driver.version = 0;
  EXPECT_EQ(refusal(), "device cuda: there is no NVIDIA driver");
}

TEST_F(CudaRuntime, OneBadCardHidesNoOther) {
  driver.cards = {card("old", 6, 1, 1), card("silent", 8, 9, 2), card("good", 8, 9, 3)};
  driver.silent_card = 1;
  const auto cards = list_cards(kCalls);
  ASSERT_TRUE(cards);
  ASSERT_EQ(cards->size(), 2u);
  EXPECT_EQ(find_card(*cards, "")->name, "good");
  EXPECT_EQ(find_card(*cards, "2")->name, "good");
  EXPECT_EQ(find_card(*cards, "0").status().code(), Code::device);
  EXPECT_EQ(find_card(*cards, "1").status().code(), Code::device);
  driver.cards = {driver.cards[1]};
  driver.silent_card = 0;
  EXPECT_EQ(list_cards(kCalls).status().message(),
            "device cuda: card 0 does not tell its properties: " +
                std::string(cudaGetErrorName(cudaErrorUnknown)) + " (" +
                cudaGetErrorString(cudaErrorUnknown) + ")");
}

TEST_F(CudaRuntime, OutOfMemorySaysWhatWasAskedForAndWhatThereIs) {
  const auto runtime = open();
  const auto first = runtime->allocate(600);
  ASSERT_TRUE(first);
  const auto second = runtime->allocate(500);
  EXPECT_EQ(second.status().code(), Code::out_of_memory);
  EXPECT_EQ(second.status().message(), "device cuda: 500 bytes asked for, 400 free of 1000");
  EXPECT_TRUE(runtime->allocate(400)) << "and goes on";
}

TEST_F(CudaRuntime, FreedMemoryComesBack) {
  {
    const auto runtime = open();
    EXPECT_TRUE(runtime->allocate(900));
    EXPECT_EQ(runtime->free_bytes(), 1000u);
    EXPECT_TRUE(runtime->allocate(900));
    EXPECT_TRUE(runtime->allocate_host(900)) << "takes nothing of the card's";
  }
  EXPECT_EQ(driver.used, 0u);
  EXPECT_EQ(driver.n_host_allocations, 0);
}

TEST_F(CudaRuntime, OutOfHostMemoryIsAnError) {
  const auto runtime = open();
  driver.host_total = 100;
  const auto slab = runtime->allocate_host(101);
  EXPECT_EQ(slab.status().code(), Code::out_of_memory);
  EXPECT_EQ(slab.status().message(), "device cuda: 101 bytes of the host's memory asked for");
}

TEST_F(CudaRuntime, WhatIsSentNeedsNoWait) {
  const auto runtime = open();
  const auto slab = runtime->allocate(8), other = runtime->allocate(8),
             host = runtime->allocate_host(8);
  ASSERT_TRUE(slab && other && host);
  const std::uint64_t value = 7;
  std::memcpy(host->get(), &value, sizeof value);
  driver.next_error = cudaErrorInvalidValue;  // of a wait
  runtime->send(slab->get(), host->get(), sizeof value);
  runtime->copy(other->get(), slab->get(), sizeof value);
  EXPECT_EQ(runtime->wait().code(), Code::device);
  std::uint64_t got = 0;
  ASSERT_TRUE(runtime->download(&got, other->get(), sizeof got).ok());
  EXPECT_EQ(got, value);
}

TEST_F(CudaRuntime, AnOrdinaryErrorNamesItsOpAndPasses) {
  const auto runtime = open();
  auto slab = runtime->allocate(8);
  ASSERT_TRUE(slab);
  std::uint64_t value = 1, got = 0;
  runtime->upload(slab->get(), &value, sizeof value);
  runtime->stream().latch("attention", cudaErrorInvalidConfiguration);
  runtime->stream().latch("rmsnorm", cudaErrorLaunchOutOfResources);
  value = 2;
  runtime->upload(slab->get(), &value, sizeof value);  // not any more
  const int n_waits = driver.n_waits;
  const Status status = runtime->download(&got, slab->get(), sizeof got);
  EXPECT_EQ(driver.n_waits, n_waits + 1) << "for what was begun before the error";
  EXPECT_EQ(status.code(), Code::device);
  EXPECT_NE(status.message().find("attention: cudaErrorInvalidConfiguration"), std::string::npos)
      << status.message();
  EXPECT_TRUE(runtime->download(&got, slab->get(), sizeof got).ok());
  EXPECT_EQ(got, 1u);
}

TEST_F(CudaRuntime, AStickyErrorStays) {
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorECCUncorrectable}) {
    const auto runtime = open();
    auto slab = runtime->allocate(8);
    ASSERT_TRUE(slab);
    std::uint64_t got = 0;
    driver.next_error = error;
    const Status first = runtime->download(&got, slab->get(), sizeof got);
    EXPECT_EQ(first.code(), Code::device_lost);
    EXPECT_NE(first.message().find(cudaGetErrorName(error)), std::string::npos) << first.message();
    const Status second = runtime->download(&got, slab->get(), sizeof got);
    EXPECT_EQ(second.code(), Code::device_lost);
    EXPECT_EQ(second.message(), first.message());
  }
}

TEST(CudaRuntimeHere, NeedsNoDriverToStart) {
  const auto cards = list_cards(cuda_calls());
  if (cards) GTEST_SKIP() << "this machine has a card";
  EXPECT_EQ(cards.status().code(), Code::device);
  EXPECT_TRUE(cards.status().message().starts_with("device cuda: ")) << cards.status().message();
}

}  // namespace
}  // namespace engine::cuda
