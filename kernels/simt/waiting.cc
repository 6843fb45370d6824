// How threads wait for one another.
#include <bit>
#include <utility>

#include "kernels/simt/state.h"

namespace engine::simt {

void Executor::complete(Block& block, unsigned id) {
  Barrier& barrier = block.barriers[id];
  barrier.votes[barrier.generation & 1] = {barrier.n_true, barrier.arrived};
  ++barrier.generation;
  barrier.arrived = barrier.n_true = 0;
  n_idle_yields_ = 0;
  for (Warp* warp : block.warps) {
    const unsigned waited = std::exchange(warp->at_barrier[id], 0u);
    make_ready(*warp, waited);
    if (meter_ != nullptr && (waited != 0 || warp == current->warp)) meter_->lanes_met(warp->index);
  }
  if (statistics_ != nullptr) ++statistics_->block_barriers;
}

void fail(Fault fault, const std::string& what, Where where) {
  const uint3 b = current->block_index;
  executor->fail(fault, "block " + triple(b.x, b.y, b.z) + ", thread " +
                            std::to_string(linear_index(*current)) + " at " + at(where) + ": " +
                            what);
}

namespace {

// Returns when the group is complete; its last lane calls complete(warp) before the others go on.
template <class Complete>
Group& meet(unsigned mask, const char* name, const void* in, void* out, Where where,
            const Complete& complete) {
  Thread& self = *current;
  Warp& warp = *self.warp;
  const unsigned me = bit(self.lane);
  self.in = in;
  self.out = out;
  if ((mask & me) == 0)
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) + " that lacks the caller's lane", where);
  if ((mask & ~warp.live) != 0)
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) + ", but only lanes " + hex(warp.live) +
             " are there",
         where);
  Group& group = warp.groups[static_cast<unsigned>(std::countr_zero(mask))];
  const auto others = [&] { return describe_waits(*self.block); };
  if (group.arrived == 0) {
    group.mask = mask;
    group.name = name;
    group.where = where;
  } else if (group.mask != mask) {
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) + ", but others gave " + hex(group.mask) +
             ": " + others(),
         where);
  } else if (group.where != where || group.name != name) {
    fail(Fault::bad_collective,
         std::string(name) + ", but other lanes of the mask are elsewhere: " + others(), where);
  }
  if ((warp.waiting & mask & ~group.arrived) != 0)
    fail(Fault::bad_mask,
         std::string(name) + " with mask " + hex(mask) +
             ", some of whose lanes wait with another mask: " + others(),
         where);
  group.arrived |= me;
  if (group.arrived != mask) {
    warp.waiting |= me;
    executor->wait(name, where);
    return group;
  }
  complete(warp);
  executor->made_progress();
  group.arrived = 0;
  ++group.generation;
  warp.waiting &= ~mask;
  executor->make_ready(warp, mask & ~me);
  if (executor->statistics() != nullptr) {
    ++executor->statistics()->collectives[name];
    if (mask == warp.live) executor->meter()->lanes_met(warp.index);
  }
  return group;
}

}  // namespace

void meet_warp(unsigned mask, const char* name, const void* in, void* out, Collective compute,
               Where where) {
  const Unwatched unwatched;
  meet(mask, name, in, out, where, [&](Warp& warp) {
    const void* inputs[32];
    void* outputs[32];
    for (unsigned lane = 0; lane < 32; ++lane) {
      inputs[lane] = warp.threads[lane].in;
      outputs[lane] = warp.threads[lane].out;
    }
    compute(inputs, outputs, mask);
  });
}

void sync_warp(unsigned mask, Where where) {
  const Unwatched unwatched;
  Group& group = current->warp->groups[static_cast<unsigned>(std::countr_zero(mask | 1u << 31))];
  char& order = group.order[group.generation & 1];
  release_to(&order);
  meet(mask, "__syncwarp", nullptr, nullptr, where, [](Warp&) {});
  acquire_from(&order);
}

Votes sync_block(const char* name, bool value, Where where) {
  const Unwatched unwatched;
  Thread& self = *current;
  Block& block = *self.block;
  Barrier& barrier = block.barriers[0];
  if (barrier.arrived == 0) {
    barrier.name = name;
    barrier.where = where;
  } else if (barrier.where != where || barrier.name != name) {
    fail(Fault::divergent_barrier, std::string(name) + ", but " + describe_waits(block), where);
  }
  const unsigned generation = barrier.generation & 1;
  release_to(&barrier.order[generation]);
  ++self.n_barriers;
  ++barrier.arrived;
  barrier.n_true += value;
  if (barrier.arrived == block.n_live) {
    self.where = where;
    executor->complete(block, 0);
  } else {
    self.warp->at_barrier[0] |= bit(self.lane);
    executor->wait(name, where);
  }
  acquire_from(&barrier.order[generation]);
  return barrier.votes[generation];
}

namespace {

void reach_named(int id, int n_threads, bool waits, const char* name, Where where) {
  const Unwatched unwatched;
  Thread& self = *current;
  if (id < 1 || id >= static_cast<int>(kNamedBarriers))
    fail(Fault::bad_collective, "barrier " + std::to_string(id) + ": ids go from 1 to 15", where);
  Block& block = *self.block;
  Barrier& barrier = block.barriers[static_cast<unsigned>(id)];
  if (n_threads <= 0 || n_threads % 32 != 0)
    fail(Fault::bad_collective,
         "a barrier of " + std::to_string(n_threads) + " threads: must be a multiple of 32", where);
  if (barrier.arrived > 0 && barrier.expected != n_threads)
    fail(Fault::unequal_barriers,
         "barrier " + std::to_string(id) + " of " + std::to_string(n_threads) +
             " threads, but others said " + std::to_string(barrier.expected) + ": " +
             describe_waits(block),
         where);
  barrier.expected = n_threads;
  char& order = barrier.order[barrier.generation & 1];
  release_to(&order);
  if (++barrier.arrived == n_threads) {
    executor->complete(block, static_cast<unsigned>(id));
  } else if (waits) {
    self.warp->at_barrier[static_cast<unsigned>(id)] |= bit(self.lane);
    executor->wait(name, where);
  }
  if (waits) acquire_from(&order);
}

}  // namespace

void sync_named(int id, int n_threads, Where where) {
  reach_named(id, n_threads, true, "named barrier", where);
}
void arrive_named(int id, int n_threads, Where where) {
  reach_named(id, n_threads, false, "named barrier", where);
}

void yield(Where where) {
  const Unwatched unwatched;
  executor->yield(where);
}

void count_grid_barrier(Where where) {
  if (!executor->launch().cooperative)
    fail(Fault::launch, "a grid barrier in a launch that is not cooperative", where);
  const uint3 b = current->block_index;
  const uint3 t = current->index;
  if (executor->statistics() != nullptr && (b.x | b.y | b.z | t.x | t.y | t.z) == 0)
    ++executor->statistics()->grid_barriers;
}

}  // namespace engine::simt
