#include "engine/head_screen.h"

#include <algorithm>

#include "engine/placer.h"
#include "kernels/cpu/planes.h"

namespace engine {
namespace {

static_assert(MainDirections::kDirections == op::kScreenDirections);

// A run gives up when it has read more than this share of the rows in full, and would take about as long as the
// full head; several columns share what is read, and the full head takes longer for them.
constexpr double kMostEvaluatedForOne = 0.25, kMostEvaluatedForSeveral = 0.4;
// In a small vocabulary the first rows, before anything is known, are many.
constexpr int kAlwaysEvaluated = 4096;
constexpr int kMostSkips = 64;

int most_evaluated(int n_out, int n_rows) {
  const double share = n_rows == 1 ? kMostEvaluatedForOne : kMostEvaluatedForSeveral;
  return std::max(static_cast<int>(share * n_out), kAlwaysEvaluated);
}

std::size_t n_groups(const op::Matrix& head) {
  return static_cast<std::size_t>(cpu::n_groups(head));
}

std::uint64_t row_bytes(const op::Matrix& head, int bits) {
  return static_cast<std::uint64_t>(head.n_in) * static_cast<std::uint64_t>(bits) / 8;
}

}  // namespace

bool HeadScreen::fits(const op::Matrix& head) noexcept {
  return head.type == gguf::Type::q8_0 && head.layout == op::Layout::split_planes &&
         head.n_in <= op::kMostScreenInputs;
}

HeadScreen::Arrays HeadScreen::place(const op::Matrix& head, std::byte* memory,
                                     std::size_t& n_bytes) {
  Placer placer(memory);
  const std::size_t rows = n_groups(head) * cpu::kGroup;
  const auto n_in = static_cast<std::size_t>(head.n_in), n = n_in * op::kScreenDirections;
  Arrays arrays;
  arrays.bounds = placer.take<std::uint16_t>(rows);
  arrays.projections = placer.take<std::uint8_t>(rows * op::kScreenDirections);
  arrays.steps = placer.take<float>(n_groups(head));
  arrays.directions = {placer.take<std::int8_t>(n), placer.take<float>(n / op::kBlock),
                       placer.take<float>(n / op::kBlock)};
  arrays.state = placer.take<float>(n_in);
  arrays.scratch =
      placer.take<std::byte>(cpu::head_screen_scratch_bytes(head.n_in, op::kMostScreenRows));
  n_bytes = placer.n_bytes();
  return arrays;
}

// Memory comes as zeros: no directions, and all projections without a step.
HeadScreen::HeadScreen(const op::Matrix& head, HugeBuffer memory)
    : head_(head), memory_(std::move(memory)), directions_(head.n_in) {
  std::size_t n_bytes = 0;
  arrays_ = place(head, memory_.data(), n_bytes);
}

Result<std::unique_ptr<HeadScreen>> HeadScreen::create(const op::Matrix& head, cpu::Pool& pool) {
  std::size_t n_bytes = 0;
  place(head, nullptr, n_bytes);
  HugeBuffer memory;
  ENGINE_ASSIGN(memory, HugeBuffer::create(n_bytes));
  std::unique_ptr<HeadScreen> screen(new HeadScreen(head, std::move(memory)));
  ENGINE_TRY(pool.run([&] { cpu::screen_bounds({head, screen->arrays_.bounds}, pool); }));
  return screen;
}

void HeadScreen::run(const op::QuantizedRows& x, int n_rows, int k, int n_ids, cpu::Pool& pool) {
  n_bytes_read_ = 0;
  std::fill(std::begin(is_known_), std::end(is_known_), 0);
  Skips& skips = n_rows == 1 ? of_one_ : of_several_;
  if (skips.n_left > 0) {
    --skips.n_left;
  } else if (screen(x, n_rows, k, n_ids, pool)) {
    skips = {};
  } else {
    skips = {skips.n_next, std::min(2 * skips.n_next, kMostSkips)};
  }
  learn(x, n_rows, pool);
}

// Whether the first row is known.
bool HeadScreen::screen(const op::QuantizedRows& x, int n_rows, int k, int n_ids, cpu::Pool& pool) {
  k_ = k;
  std::int32_t n_evaluated = 0;
  const op::HeadScreenTable table = {arrays_.bounds, arrays_.projections, arrays_.steps,
                                     arrays_.directions};
  cpu::head_screen({.w = head_,
                    .table = table,
                    .x = x,
                    .ids = ids_,
                    .values = values_,
                    .is_known = is_known_,
                    .n_evaluated = &n_evaluated,
                    .scratch = arrays_.scratch,
                    .n_t = n_rows,
                    .n_ids = n_ids,
                    .k = k,
                    .most_evaluated = most_evaluated(head_.n_out, n_rows)},
                   pool);
  const auto rows = static_cast<std::uint64_t>(head_.n_out);
  // High nibbles, scales, bound, projections and step.
  n_bytes_read_ = rows * (row_bytes(head_, 4) + row_bytes(head_, 16) / op::kBlock + 6) +
                  n_groups(head_) * sizeof(float) +
                  static_cast<std::uint64_t>(n_evaluated) * row_bytes(head_, 4);
  return is_known_[0] != 0;
}

HeadScreen::Best HeadScreen::best(int row) const noexcept {
  const std::size_t first = static_cast<std::size_t>(row) * static_cast<std::size_t>(k_),
                    n = static_cast<std::size_t>(k_);
  return {std::span(ids_).subspan(first, n), std::span(values_).subspan(first, n)};
}

void HeadScreen::learn(const op::QuantizedRows& x, int n_rows, cpu::Pool& pool) {
  const int n_in = head_.n_in;
  for (int t = 0; t < n_rows; ++t) {
    for (int i = 0; i < n_in; ++i) {
      const std::ptrdiff_t at = std::ptrdiff_t{t} * n_in;
      arrays_.state[i] =
          x.scale[(at + i) / op::kBlock] * static_cast<float>(x.q[at + op::quad_position(i)]);
    }
    directions_.add({arrays_.state, static_cast<std::size_t>(n_in)});
  }
  if (!directions_.update()) return;
  of_one_ = of_several_ = {};
  // Low nibbles, scales and projections.
  n_bytes_read_ += static_cast<std::uint64_t>(head_.n_out) *
                   (row_bytes(head_, 4) + row_bytes(head_, 16) / op::kBlock + 4);
  cpu::screen_projections(
      {head_, directions_.get().data(), arrays_.directions, arrays_.projections, arrays_.steps},
      pool);
}

}  // namespace engine
