// tests/cuda/ptxas.tsv for the executor: how many registers a kernel takes on a card.
#pragma once

#include <optional>
#include <string>

namespace engine::test {

// Of a thread of a kernel that this program contains, by its address; nothing if the table lacks it.
std::optional<int> registers_of(const void* kernel, int architecture);

// The name that the table gives the kernel, "matvec_kernel<1>"; empty if this program's symbols have none.
std::string kernel_name(const void* kernel);

}  // namespace engine::test
