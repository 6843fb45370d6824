#include "engine/arena.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "engine/align.h"

namespace engine {

Arena::Arena(std::string name, Slab memory, std::size_t n)
    : name_(std::move(name)),
      memory_(std::move(memory)),
      n_bytes_(n),
      process_id_(static_cast<std::int64_t>(::getpid())) {
  if (n > 0) gaps_.emplace(0, n);
}

Result<Slab> Arena::allocate(std::size_t n) {
  const std::lock_guard lock(mutex_);
  auto gap = gaps_.end();
  for (auto it = gaps_.begin(); it != gaps_.end(); ++it)
    if (it->second >= n && (gap == gaps_.end() || it->second < gap->second)) gap = it;
  if (gap == gaps_.end()) {
    std::size_t largest = 0;
    for (const auto& [offset, size] : gaps_) largest = std::max(largest, size);
    return Status(Code::out_of_memory, name_ + ": " + std::to_string(n) +
                                           " bytes asked for, at most " + std::to_string(largest) +
                                           " free in a piece of " + std::to_string(n_bytes_));
  }
  const auto [offset, size] = *gap;
  const std::size_t taken = std::min(size, align_up(std::max<std::size_t>(n, 1), kDeviceAlignment));
  used_.emplace(offset, taken);
  auto rest = gaps_.extract(gap);
  if (taken < size) {
    rest.key() = offset + taken;
    rest.mapped() = size - taken;
    gaps_.insert(std::move(rest));
  }
  const auto at = offset;
  return Slab(memory_.get() + at, [this, at](std::byte*) { give_back(at); });
}

// Moves the piece's node, so that nothing is allocated.
void Arena::give_back(std::size_t offset) noexcept {
  // Another thread, which only the parent has, may have held the mutex at the fork.
  if (static_cast<std::int64_t>(::getpid()) != process_id_) return;
  const std::lock_guard lock(mutex_);
  auto piece = used_.extract(offset);
  std::size_t size = piece.mapped();
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && offset + size == next->first) {
    size += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  piece.mapped() = size;
  gaps_.insert(next, std::move(piece));
}

}  // namespace engine
