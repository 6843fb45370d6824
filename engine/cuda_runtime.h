// The CUDA backend's runtime on a card: device selection, memory, copies, and the errors of all of it.
//
// Everything happens within jobs of one pool.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cuda_calls.h"
#include "engine/slab.h"
#include "gguf/result.h"
#include "kernels/cuda/stream.h"

namespace engine::cuda {

// What a card is and how it can be named.
struct Card {
  int index;
  std::string name;  // "NVIDIA L4"
  int capability;    // 89
  int n_sms;
  std::size_t n_bytes;  // of memory
  std::string uuid;     // "GPU-8f6c…"
  std::string pci;      // "0000:65:00.0"
};

// The cards of this machine that tell what they are, in the runtime's order. Errors: device, if there is no
// driver, an older one than the runtime needs, or no card.
Result<std::vector<Card>> list_cards(const CudaCalls& calls);

// The card named by its index, UUID or PCI id; for an empty name the first one that kernels were built for.
// Errors: device, with the cards there are.
Result<Card> find_card(const std::vector<Card>& cards, std::string_view name);

class Runtime {
 public:
  // On the thread that will do the work. Errors: device.
  static Result<std::unique_ptr<Runtime>> open(std::string_view card, const CudaCalls& calls);
  ~Runtime();
  Runtime(const Runtime&) = delete;

  // "cuda NVIDIA L4 (sm_89, 58 SMs, 22.0 GiB; driver 13.0, runtime 13.0; built for sm_75 sm_80 …)"
  std::string name() const;
  Stream& stream() { return stream_; }

  // Device memory, aligned to 256. Errors: out_of_memory with the bytes asked for, free, and in all.
  Result<Slab> allocate(std::size_t n);
  std::size_t free_bytes() const;
  // Host memory that the card reads and writes by itself, aligned to 256. Errors: out_of_memory.
  Result<Slab> allocate_host(std::size_t n);
  // In the order of launches. `from` may be changed on return.
  void upload(std::byte* to, const void* from, std::size_t n);
  // The same from memory of allocate_host(), which must stay as it is until a wait.
  void send(std::byte* to, const void* from, std::size_t n);
  // Within device memory, in the order of launches.
  void copy(void* to, const void* from, std::size_t n);
  // Waits for everything before it, whatever failed. Errors: device, with the first op or copy that failed since the last
  // wait; device_lost, from then on, if the card's context died of it.
  Status wait();
  // The same behind a copy to the host.
  Status download(void* to, const void* from, std::size_t n);

 private:
  Runtime(const CudaCalls& calls, Card card) : calls_(calls), card_(std::move(card)) {}
  Status failure(const char* op, cudaError_t error);

  const CudaCalls& calls_;
  Card card_;
  Stream stream_;     // owned
  std::string lost_;  // what the context died of
};

}  // namespace engine::cuda
