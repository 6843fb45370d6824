// What a launch asked of memory, counted exactly: the same launch gives the same numbers under every schedule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/simt/vector_types.h"
#include "kernels/simt/where.h"

namespace engine::simt {

// One direction (loads or stores) of a launch's global accesses. A request is one access of a warp: the lanes'
// accesses at the same source line that are the same repetition of it since the warp last met.
struct GlobalTraffic {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;          // asked for, summed over lanes
  std::uint64_t request_bytes = 0;  // distinct bytes of a request, summed over requests
  std::uint64_t sectors = 0;        // 32-byte sectors touched by a request, summed over requests
  std::uint64_t unique_bytes = 0;   // distinct bytes of the launch: what DRAM must deliver at least
  std::uint64_t by_width[5] = {};   // accesses of lanes of 1, 2, 4, 8, 16 bytes

  // 1 if every byte of every sector touched was asked for.
  double sector_efficiency() const {
    return sectors == 0
               ? 1.0
               : static_cast<double>(request_bytes) / (32.0 * static_cast<double>(sectors));
  }
};

struct BufferTraffic {
  std::uintptr_t begin;
  std::uint64_t loaded_bytes = 0, unique_loaded_bytes = 0;
  std::uint64_t stored_bytes = 0, unique_stored_bytes = 0;
};

struct Statistics {
  std::string kernel;  // the function that launched it
  dim3 grid, block;
  std::size_t shared_bytes = 0;

  GlobalTraffic loads, stores;
  std::vector<BufferTraffic> buffers;  // that were accessed, by address

  // Shared requests: a warp's 32 lanes of up to 4 bytes go at once, of 8 bytes in halves, of 16 in quarters. The
  // ways of such a part are the distinct 4-byte words that its busiest bank of 32 must deliver.
  std::uint64_t shared_requests = 0;
  std::uint64_t shared_parts = 0;   // the fewest cycles possible
  std::uint64_t shared_cycles = 0;  // sum of ways
  std::array<std::uint64_t, 33> parts_by_ways{};
  Where worst_conflict;  // the line of a part with the most ways

  std::uint64_t block_barriers = 0;  // passed by a block, named ones included
  std::uint64_t grid_barriers = 0;   // passed by the grid
  // Of warps, by the name in a kernel's source: "__shfl_xor_sync", "__ballot_sync", "mma_m16n8k32", "load_matrices", …
  std::map<std::string_view, std::uint64_t> collectives;
  std::uint64_t dot_products = 0;  // dp4a, of lanes
  std::uint64_t atomics = 0;       // of lanes
  std::uint64_t async_copies = 0;  // of lanes

  int worst_ways() const;
  const BufferTraffic* buffer(const void* begin) const;  // null if untouched
};

enum class Space : std::uint8_t { global, shared };
enum class Direction : std::uint8_t { load, store };

// Groups the lanes' accesses into requests.
class Meter {
 public:
  explicit Meter(Statistics& statistics) : statistics_(statistics) {}

  // `live`: the lanes of the warp that have not exited; buffer: begin and bytes, of global accesses.
  void access(int warp, unsigned lane, unsigned live, Space space, Direction direction,
              std::uintptr_t address, std::size_t bytes, Where where, std::uintptr_t buffer_begin,
              std::size_t buffer_bytes);
  // The warp's lanes have met: what they do next is no part of an earlier request.
  void lanes_met(int warp);
  void finish();

 private:
  struct Request {
    unsigned lanes = 0;
    std::array<std::uintptr_t, 32> address;
  };
  struct Site {
    Where where;
    Space space;
    Direction direction;
    std::size_t bytes;
    std::array<unsigned, 32> n_done{};  // requests a lane has taken part in
    unsigned n_settled = 0;             // requests before pending
    std::vector<Request> pending;
  };
  struct Touched {
    std::vector<std::uint64_t> loaded, stored;  // a bit a byte
    std::uint64_t loaded_bytes = 0, stored_bytes = 0;
  };

  void settle(const Site& site, const Request& request);
  void settle_global(const Site& site, const Request& request);
  void settle_shared(const Site& site, const Request& request);

  Statistics& statistics_;
  std::map<int, std::vector<Site>> sites_;  // by warp
  std::map<std::uintptr_t, Touched> touched_;
};

}  // namespace engine::simt
