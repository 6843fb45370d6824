#include "kernels/simt/statistics.h"

#include <algorithm>
#include <bit>

namespace engine::simt {
namespace {

// Sets the bits and returns how many were not set.
std::uint64_t mark(std::vector<std::uint64_t>& bits, std::size_t first, std::size_t n) {
  std::uint64_t added = 0;
  for (std::size_t i = first; i < first + n; ++i) {
    std::uint64_t& word = bits[i / 64];
    const std::uint64_t bit = std::uint64_t{1} << (i % 64);
    added += (word & bit) == 0;
    word |= bit;
  }
  return added;
}

}  // namespace

int Statistics::worst_ways() const {
  int ways = 32;
  while (ways > 0 && parts_by_ways[static_cast<std::size_t>(ways)] == 0) --ways;
  return ways;
}

const BufferTraffic* Statistics::buffer(const void* begin) const {
  const auto found =
      std::ranges::find(buffers, reinterpret_cast<std::uintptr_t>(begin), &BufferTraffic::begin);
  return found == buffers.end() ? nullptr : &*found;
}

void Meter::access(int warp, unsigned lane, unsigned live, Space space, Direction direction,
                   std::uintptr_t address, std::size_t bytes, Where where,
                   std::uintptr_t buffer_begin, std::size_t buffer_bytes) {
  if (space == Space::global) {
    GlobalTraffic& traffic = direction == Direction::load ? statistics_.loads : statistics_.stores;
    traffic.bytes += bytes;
    ++traffic.by_width[std::countr_zero(bytes)];
    Touched& touched = touched_[buffer_begin];
    const bool is_load = direction == Direction::load;
    auto& bits = is_load ? touched.loaded : touched.stored;
    if (bits.empty()) bits.resize((buffer_bytes + 63) / 64);
    (is_load ? touched.loaded_bytes : touched.stored_bytes) += bytes;
    traffic.unique_bytes += mark(bits, address - buffer_begin, bytes);
  }

  std::vector<Site>& sites = sites_[warp];
  auto site = std::ranges::find_if(sites, [&](const Site& s) {
    return s.where == where && s.space == space && s.direction == direction && s.bytes == bytes;
  });
  if (site == sites.end()) {
    sites.push_back({where, space, direction, bytes});
    site = std::prev(sites.end());
  }
  const unsigned i = site->n_done[lane]++ - site->n_settled;
  if (i >= site->pending.size()) site->pending.resize(i + 1);
  Request& request = site->pending[i];
  request.lanes |= 1u << lane;
  request.address[lane] = address;
  // Whole requests at the front are settled at once, so that a long loop needs little memory.
  if (i == 0 && request.lanes == live) {
    settle(*site, request);
    site->pending.erase(site->pending.begin());
    ++site->n_settled;
  }
}

void Meter::lanes_met(int warp) {
  for (Site& site : sites_[warp]) {
    for (const Request& request : site.pending) settle(site, request);
    site.pending.clear();
    site.n_done.fill(0);
    site.n_settled = 0;
  }
}

void Meter::finish() {
  for (const auto& [warp, sites] : sites_) lanes_met(warp);
  for (const auto& [begin, touched] : touched_) {
    const auto count = [](const std::vector<std::uint64_t>& bits) {
      std::uint64_t n = 0;
      for (const std::uint64_t word : bits) n += static_cast<std::uint64_t>(std::popcount(word));
      return n;
    };
    statistics_.buffers.push_back({begin, touched.loaded_bytes, count(touched.loaded),
                                   touched.stored_bytes, count(touched.stored)});
  }
}

void Meter::settle(const Site& site, const Request& request) {
  if (request.lanes == 0) return;
  site.space == Space::global ? settle_global(site, request) : settle_shared(site, request);
}

void Meter::settle_global(const Site& site, const Request& request) {
  struct Sector {
    std::uintptr_t index;
    std::uint32_t bytes;
  };
  std::array<Sector, 32> sectors;  // an aligned access lies in one sector
  std::size_t n_sectors = 0;
  const auto width = static_cast<std::uint32_t>((std::uint64_t{1} << site.bytes) - 1);
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((request.lanes >> lane & 1) == 0) continue;
    const std::uintptr_t index = request.address[lane] / 32;
    const auto bytes = width << request.address[lane] % 32;
    const auto end = sectors.begin() + static_cast<std::ptrdiff_t>(n_sectors);
    if (const auto found =
            std::find_if(sectors.begin(), end, [&](const Sector& s) { return s.index == index; });
        found != end) {
      found->bytes |= bytes;
    } else {
      sectors[n_sectors++] = {index, bytes};
    }
  }
  GlobalTraffic& traffic =
      site.direction == Direction::load ? statistics_.loads : statistics_.stores;
  ++traffic.requests;
  traffic.sectors += n_sectors;
  for (std::size_t i = 0; i < n_sectors; ++i)
    traffic.request_bytes += static_cast<std::uint64_t>(std::popcount(sectors[i].bytes));
}

void Meter::settle_shared(const Site& site, const Request& request) {
  ++statistics_.shared_requests;
  const unsigned lanes_per_part = site.bytes <= 4 ? 32 : static_cast<unsigned>(128 / site.bytes);
  for (unsigned first = 0; first < 32; first += lanes_per_part) {
    std::array<std::uintptr_t, 32> words;  // distinct words of the part: at most 128 bytes
    std::size_t n_words = 0;
    for (unsigned lane = first; lane < first + lanes_per_part; ++lane) {
      if ((request.lanes >> lane & 1) == 0) continue;
      const std::uintptr_t begin = request.address[lane] / 4;
      const std::uintptr_t end = (request.address[lane] + site.bytes + 3) / 4;
      for (std::uintptr_t word = begin; word < end; ++word) {
        const auto last = words.begin() + static_cast<std::ptrdiff_t>(n_words);
        if (std::find(words.begin(), last, word) == last) words[n_words++] = word;
      }
    }
    if (n_words == 0) continue;
    std::array<int, 32> load{};
    for (std::size_t i = 0; i < n_words; ++i) ++load[words[i] % 32];
    const int ways = *std::ranges::max_element(load);
    if (ways > statistics_.worst_ways()) statistics_.worst_conflict = site.where;
    ++statistics_.shared_parts;
    statistics_.shared_cycles += static_cast<std::uint64_t>(ways);
    ++statistics_.parts_by_ways[static_cast<std::size_t>(ways)];
  }
}

}  // namespace engine::simt
