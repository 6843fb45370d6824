#include "engine/cuda_runtime.h"

#include <cctype>
#include <cstdint>
#include <cstdio>

#include "gguf/reader.h"

namespace engine::cuda {
namespace {

constexpr int kOldestCapability = CUDART_VERSION < 13000 ? 70 : 75;  // that the toolkit knows

std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

Status device_error(const std::string& what) {
  return Status(Code::device, "device cuda: " + what);
}

// 13000 is 13.0.
std::string version(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += hex;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

std::string pci_text(const cudaDeviceProp& p) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(p.pciDomainID),
                static_cast<unsigned>(p.pciBusID), static_cast<unsigned>(p.pciDeviceID));
  return text;
}

bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i])))
      return false;
  return true;
}

// After these nothing works any more in this process's context. Source: the "sticky" errors of the CUDA
// Runtime API's cudaError, whose text says that the process must be relaunched.
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::vector<Card>> list_cards(const CudaCalls& calls) {
  int driver = 0, runtime = 0, n = 0;
  if (calls.driver_version(&driver) != cudaSuccess || driver == 0) {
    calls.take_last_error();
    return device_error("there is no NVIDIA driver");
  }
  calls.runtime_version(&runtime);
  const cudaError_t counted = calls.device_count(&n);
  if (counted != cudaSuccess) {
    calls.take_last_error();
    return device_error("the driver (CUDA " + version(driver) + ", this program has runtime " +
                        version(runtime) + ") reports " + describe(counted));
  }
  if (n == 0) return device_error("the driver finds no card");
  std::vector<Card> cards;
  std::string failed;
  for (int i = 0; i < n; ++i) {
    cudaDeviceProp p;
    const cudaError_t error = calls.device_properties(&p, i);
    if (error == cudaSuccess) {
      cards.push_back({i, p.name, 10 * p.major + p.minor, p.multiProcessorCount, p.totalGlobalMem,
                       uuid_text(p.uuid), pci_text(p)});
      continue;
    }
    calls.take_last_error();
    failed = "card " + std::to_string(i) + " does not tell its properties: " + describe(error);
  }
  if (cards.empty()) return device_error(failed);
  return cards;
}

Result<Card> find_card(const std::vector<Card>& cards, std::string_view name) {
  const Card* too_old = nullptr;
  for (const Card& card : cards) {
    if (!name.empty() && name != std::to_string(card.index) && !same_text(name, card.uuid) &&
        !same_text(name, card.pci))
      continue;
    if (card.capability >= kOldestCapability) return card;
    too_old = &card;
  }
  if (too_old != nullptr)
    return device_error(too_old->name + " is sm_" + std::to_string(too_old->capability) +
                        ", expected sm_" + std::to_string(kOldestCapability) + " or later");
  std::string have;
  for (const Card& card : cards)
    have +=
        "\n  " + std::to_string(card.index) + "  " + card.pci + "  " + card.uuid + "  " + card.name;
  return device_error("there is no card \"" + gguf::printable(name) +
                      "\"; these are there:" + have);
}

Result<std::unique_ptr<Runtime>> Runtime::open(std::string_view name, const CudaCalls& calls) {
  ENGINE_ASSIGN(const std::vector<Card> cards, list_cards(calls));
  ENGINE_ASSIGN(Card card, find_card(cards, name));
  std::unique_ptr<Runtime> runtime(new Runtime(calls, std::move(card)));
  cudaStream_t stream = nullptr;
  cudaError_t error = calls.set_device(runtime->card_.index);
  if (error == cudaSuccess) error = calls.create_stream(&stream);
  if (error != cudaSuccess) return runtime->failure("start", error);
  runtime->stream_ = Stream(stream);
  return runtime;
}

Runtime::~Runtime() {
  if (stream_.handle() != nullptr) calls_.destroy_stream(stream_.handle());
}

std::string Runtime::name() const {
  int driver = 0, runtime = 0;
  calls_.driver_version(&driver);
  calls_.runtime_version(&runtime);
  char memory[32];
  std::snprintf(memory, sizeof memory, "%.1f GiB", static_cast<double>(card_.n_bytes) / 0x1p30);
  return "cuda " + card_.name + " (sm_" + std::to_string(card_.capability) + ", " +
         std::to_string(card_.n_sms) + " SMs, " + memory + "; driver " + version(driver) +
         ", runtime " + version(runtime) + "; built for " ENGINE_CUDA_ARCHITECTURES ")";
}

Result<Slab> Runtime::allocate(std::size_t n) {
  void* memory = nullptr;
  const cudaError_t error = calls_.allocate(&memory, n);
  if (error == cudaErrorMemoryAllocation) {
    calls_.take_last_error();
    std::size_t free = 0, total = 0;
    calls_.memory_info(&free, &total);
    return Status(Code::out_of_memory, "device cuda: " + std::to_string(n) + " bytes asked for, " +
                                           std::to_string(free) + " free of " +
                                           std::to_string(total));
  }
  if (error != cudaSuccess) return failure("allocate", error);
  return Slab(static_cast<std::byte*>(memory), [free = calls_.free](std::byte* m) { free(m); });
}

std::size_t Runtime::free_bytes() const {
  std::size_t free = 0, total = 0;
  calls_.memory_info(&free, &total);
  return free;
}

Result<Slab> Runtime::allocate_host(std::size_t n) {
  void* memory = nullptr;
  const cudaError_t error = calls_.allocate_host(&memory, n);
  if (error == cudaErrorMemoryAllocation) {
    calls_.take_last_error();
    return Status(Code::out_of_memory,
                  "device cuda: " + std::to_string(n) + " bytes of the host's memory asked for");
  }
  if (error != cudaSuccess) return failure("allocate", error);
  return Slab(static_cast<std::byte*>(memory),
              [free = calls_.free_host](std::byte* m) { free(m); });
}

void Runtime::send(std::byte* to, const void* from, std::size_t n) {
  if (stream_.ok())
    stream_.latch("upload", calls_.copy(to, from, n, cudaMemcpyHostToDevice, stream_.handle()));
}

void Runtime::copy(void* to, const void* from, std::size_t n) {
  if (stream_.ok())
    stream_.latch("copy", calls_.copy(to, from, n, cudaMemcpyDeviceToDevice, stream_.handle()));
}

void Runtime::upload(std::byte* to, const void* from, std::size_t n) {
  send(to, from, n);
  // A copy from pageable memory need not have been read when the call returns.
  if (stream_.ok()) stream_.latch("upload", calls_.synchronize(stream_.handle()));
}

Status Runtime::download(void* to, const void* from, std::size_t n) {
  if (lost_.empty() && stream_.ok())
    stream_.latch("download", calls_.copy(to, from, n, cudaMemcpyDeviceToHost, stream_.handle()));
  return wait();
}

Status Runtime::wait() {
  if (!lost_.empty()) return Status(Code::device_lost, lost_);
  // After an error, too: what was begun before it may still be at work.
  stream_.latch("the pass before", calls_.synchronize(stream_.handle()));
  if (stream_.ok()) return {};
  const Stream failed = std::exchange(stream_, Stream(stream_.handle()));
  return failure(failed.failed_op(), static_cast<cudaError_t>(failed.error()));
}

Status Runtime::failure(const char* op, cudaError_t error) {
  calls_.take_last_error();
  const std::string message = "device cuda: " + std::string(op) + ": " + describe(error);
  if (!is_sticky(error)) return Status(Code::device, message);
  lost_ = message + "; the card's context is lost, only a new process can use it";
  return Status(Code::device_lost, lost_);
}

}  // namespace engine::cuda
