#include "engine/kv_cache.h"

#include <algorithm>
#include <functional>
#include <new>
#include <string>

#include "engine/align.h"

namespace engine {
using op::n_pages;

KvCache::KvCache(const Config& config, op::KvType type, KvMemory& memory)
    : shape_{config.n_kv_heads, config.head_dim, type}, memory_(&memory) {
  for (const bool local : config.is_local) layers_.push_back({local ? config.window : 0, {}});
}

std::size_t KvCache::most_bytes(const Config& config, op::KvType type, int n_chunk) {
  const op::KvShape shape = {config.n_kv_heads, config.head_dim, type};
  const int all = n_pages(config.n_ctx_train),
            some =
                std::min(all, n_pages(config.window) + n_pages(kRewindable) + n_pages(n_chunk) + 1);
  std::size_t pages = 0;
  for (const bool local : config.is_local) pages += static_cast<std::size_t>(local ? some : all);
  return align_up(pages, kSlabPages) * shape.page_bytes();
}

Result<std::byte*> KvCache::take_page() {
  if (free_.empty()) {
    const std::size_t page_bytes = shape_.page_bytes();
    free_.reserve((slabs_.size() + 1) * kSlabPages);  // so that dropping a page never allocates
    slabs_.reserve(slabs_.size() + 1);
    ENGINE_ASSIGN(Slab slab, memory_->allocate(kSlabPages * page_bytes));
    slabs_.push_back(std::move(slab));
    for (std::size_t i = kSlabPages; i-- > 0;)
      free_.push_back(slabs_.back().get() + i * page_bytes);
  }
  std::byte* page = free_.back();
  free_.pop_back();
  return page;
}

void KvCache::drop(std::byte*& page) {
  if (page != nullptr) free_.push_back(page);
  page = nullptr;
}

Status KvCache::reserve(int n) {
  const auto no_memory = [&](const std::string& why) {
    return Status(Code::out_of_memory,
                  "no memory for the KV cache at position " + std::to_string(n) + " beside the " +
                      std::to_string(allocated_bytes()) + " bytes in use: " + why);
  };
  // All layers have as many entries, local ones too.
  const int n_before = layers_.empty() ? 0 : static_cast<int>(layers_[0].table.size());
  Status status;
  try {
    status = take_pages(n_before, n_pages(n));
  } catch (const std::bad_alloc&) {
    status = Status(Code::out_of_memory, "the host's memory is used up");
  }
  if (status.ok()) return status;
  trim(n_before * op::kPage);
  return status.code() == Code::out_of_memory ? no_memory(status.message()) : status;
}

// Pages begin..end-1 of every layer. Those of the same positions share slabs, which then become unused
// together.
Status KvCache::take_pages(int begin, int end) {
  for (int page = begin; page < end; ++page)
    for (Layer& layer : layers_) {
      layer.table.reserve(layer.table.size() + 1);
      ENGINE_ASSIGN(std::byte* const taken, take_page());
      layer.table.push_back(taken);
    }
  return {};
}

void KvCache::trim(int n) {
  const auto n_kept = static_cast<std::size_t>(n_pages(n));
  for (Layer& layer : layers_)
    while (layer.table.size() > n_kept) {
      drop(layer.table.back());
      layer.table.pop_back();
    }
  give_back_unused();
}

// Slabs none of whose pages is in use.
void KvCache::give_back_unused() {
  const std::size_t slab_bytes = kSlabPages * shape_.page_bytes();
  std::erase_if(slabs_, [&](const Slab& slab) {
    const auto is_of_slab = [&](const std::byte* page) {
      return !std::less<>()(page, slab.get()) && std::less<>()(page, slab.get() + slab_bytes);
    };
    if (static_cast<std::size_t>(std::count_if(free_.begin(), free_.end(), is_of_slab)) <
        kSlabPages)
      return false;
    std::erase_if(free_, is_of_slab);
    return true;
  });
}

void KvCache::drop_behind(int n) {
  for (Layer& layer : layers_) {
    if (layer.window == 0) continue;
    const int first_kept = std::max(0, n - kRewindable - layer.window) / op::kPage;
    for (int page = std::min(first_kept, static_cast<int>(layer.table.size())); page-- > 0;) {
      std::byte*& entry = layer.table[static_cast<std::size_t>(page)];
      if (entry == nullptr) break;  // earlier ones were dropped before it
      drop(entry);
    }
  }
}

bool KvCache::has_all(const Layer& layer, int begin, int end) const noexcept {
  for (int page = begin / op::kPage; page * op::kPage < end; ++page)
    if (layer.table[static_cast<std::size_t>(page)] == nullptr) return false;
  return true;
}

int KvCache::rewind(int n) {
  const auto reachable = [&](int m) {
    return std::all_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
      return layer.window == 0 || has_all(layer, std::max(0, m - layer.window), m);
    });
  };
  int m = n;
  while (!reachable(m)) --m;
  trim(m);
  return m;
}

}  // namespace engine
