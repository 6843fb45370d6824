// The keys and values of one sequence: pages of 64 positions per layer (op/kv_page.h), taken as the
// sequence grows.
//
// Global layers keep every page. A local layer drops a page once it lies wholly more than
// kRewindable positions behind the window, so rewinding by up to kRewindable tokens never needs a
// token evaluated twice; the cost is 40 pages a local layer at most (39 MB for the 270M model), and
// nothing for short sequences.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/config.h"
#include "engine/kv_memory.h"
#include "gguf/result.h"
#include "kernels/op/kv_page.h"

namespace engine {

inline constexpr int kRewindable = 2048;

class KvCache {
 public:
  // Pages come from `memory`, which outlives the cache.
  KvCache(const Config& config, op::KvType type, KvMemory& memory);

  const op::KvShape& shape() const noexcept { return shape_; }
  // What a sequence of the model's full context takes at most, evaluated n_chunk positions at a time.
  static std::size_t most_bytes(const Config& config, op::KvType type, int n_chunk);

  // Pages for positions 0..n-1 exist afterwards, those already dropped excepted. Errors:
  // out_of_memory, after which nothing has changed.
  Status reserve(int n);
  // Gives up the pages beyond positions 0..n-1, and the memory that is then unused.
  void trim(int n);
  // Drops what rewinding to within kRewindable of position n does not need.
  void drop_behind(int n);
  // The largest m <= n such that position m, and m - 1 again, can be evaluated; gives up the pages
  // beyond it.
  int rewind(int n);
  // [pages] of a layer, null where dropped; valid until the next reserve.
  std::span<std::byte* const> pages(int layer) const noexcept {
    return layers_[static_cast<std::size_t>(layer)].table;
  }
  std::size_t allocated_bytes() const noexcept {
    return slabs_.size() * kSlabPages * shape_.page_bytes();
  }

 private:
  static constexpr std::size_t kSlabPages = 18;

  struct Layer {
    int window;  // 0: global
    std::vector<std::byte*> table;
  };
  Result<std::byte*> take_page();
  Status take_pages(int begin, int end);
  void drop(std::byte*& page);
  void give_back_unused();
  bool has_all(const Layer& layer, int begin, int end) const noexcept;

  op::KvShape shape_;
  KvMemory* memory_;
  std::vector<Layer> layers_;
  std::vector<Slab> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace engine
