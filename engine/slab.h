// Memory that goes back to where it came from, which it must not outlive, when its owner lets go of it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace engine {

using Slab = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

}  // namespace engine
