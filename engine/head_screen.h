// The screened head of a model (kernels/op/head_screen.h): its tables, and the directions it learns from the
// hidden states that come by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/huge_buffer.h"
#include "engine/main_directions.h"
#include "gguf/result.h"
#include "kernels/cpu/pool.h"
#include "kernels/op/head_screen.h"

namespace engine {

class HeadScreen {
 public:
  // Whether a head can be screened.
  static bool fits(const op::Matrix& head) noexcept;

  // The head outlives it. Reads all of it once, on the pool's threads. Takes 6.25 bytes a row of the head, and
  // little else. Errors: out_of_memory.
  static Result<std::unique_ptr<HeadScreen>> create(const op::Matrix& head, cpu::Pool& pool);

  // The k best logits of n_rows (1 to op::kMostScreenRows) normed hidden rows, 1 <= k <= op::kMaxTopLogits. Call it
  // within a job of the pool.
  void run(const op::QuantizedRows& x, int n_rows, int k, int n_ids, cpu::Pool& pool);

  // Of the last run().
  struct Best {
    std::span<const std::int32_t> ids;  // [k], best first
    std::span<const float> values;      // [k]
  };
  bool is_known(int row) const noexcept {
    return is_known_[row] != 0;
  }  // else the full head has to tell
  Best best(int row) const noexcept;
  std::uint64_t n_bytes_read() const noexcept { return n_bytes_read_; }  // of weights and tables

 private:
  HeadScreen(const op::Matrix& head, HugeBuffer memory);
  bool screen(const op::QuantizedRows& x, int n_rows, int k, int n_ids, cpu::Pool& pool);
  void learn(const op::QuantizedRows& x, int n_rows, cpu::Pool& pool);

  op::Matrix head_;
  HugeBuffer memory_;  // of the arrays of `arrays_`
  struct Arrays {
    std::uint16_t* bounds;      // [n_groups, 16]
    std::uint8_t* projections;  // [n_groups, 16, 4]
    float* steps;               // [n_groups]
    op::ScreenDirections directions;
    float* state;  // [n_in]
    std::byte* scratch;
  };
  static Arrays place(const op::Matrix& head, std::byte* memory, std::size_t& n_bytes);
  Arrays arrays_;
  MainDirections directions_;

  // After a run that gave up so many are left out, and twice as many after the next one, until one gets through
  // or the directions change. Runs of several rows, which all rows that any of them leaves have to be read for,
  // count apart.
  struct Skips {
    int n_left = 0, n_next = 1;
  };
  Skips of_one_, of_several_;

  int k_ = 0;
  std::int32_t ids_[op::kMostScreenRows * op::kMaxTopLogits] = {};
  float values_[op::kMostScreenRows * op::kMaxTopLogits] = {};
  std::int32_t is_known_[op::kMostScreenRows] = {};
  std::uint64_t n_bytes_read_ = 0;
};

}  // namespace engine
