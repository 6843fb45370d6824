#include "engine/kv_cache.h"

#include <algorithm>
#include <new>
#include <string>

namespace engine {
namespace {

constexpr int pages_for(int n) { return (n + op::kPage - 1) / op::kPage; }

}  // namespace

KvCache::KvCache(const Config& config, op::KvType type)
    : shape_{config.n_kv_heads, config.head_dim, type} {
  for (const bool local : config.is_local) layers_.push_back({local ? config.window : 0, {}});
}

std::byte* KvCache::take_page() {
  if (free_.empty()) {
    const std::size_t page_bytes = shape_.page_bytes();
    slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(kSlabPages * page_bytes));
    free_.reserve(slabs_.size() * kSlabPages);  // so that dropping a page never allocates
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
  try {
    for (Layer& layer : layers_)
      while (static_cast<int>(layer.table.size()) < pages_for(n)) {
        layer.table.reserve(layer.table.size() + 1);
        layer.table.push_back(take_page());
      }
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  "no memory for the KV cache at position " + std::to_string(n) + ": " +
                      std::to_string(kSlabPages * shape_.page_bytes()) + " bytes more than the " +
                      std::to_string(allocated_bytes()) + " in use");
  }
  return {};
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
  for (Layer& layer : layers_) {
    for (std::size_t page = static_cast<std::size_t>(pages_for(m)); page < layer.table.size();
         ++page)
      drop(layer.table[page]);
    layer.table.resize(std::min(layer.table.size(), static_cast<std::size_t>(pages_for(m))));
  }
  return m;
}

}  // namespace engine
