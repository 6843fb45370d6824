// How kernels are launched, on a card and in the executor of kernels/simt.
//
//   launch(kernel, grid, block, shared_bytes, stream, arguments…);
//
// Arguments are converted to the kernel's parameter types. An error is recorded in the stream under the name of the
// function that calls launch, which is the op's. launch_cooperative guarantees that all blocks run at the
// same time, as a grid barrier needs.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "kernels/cuda/stream.h"
#if !defined(ENGINE_DEVICE_NS)
#define ENGINE_DEVICE_NS cuda
#endif
#endif

namespace engine::ENGINE_DEVICE_NS {

// The grid's size, and who launches it.
struct Grid {
  dim3 size;
  const char* op;
  const char* file;
  int line;

  Grid(dim3 size_, const char* op_ = __builtin_FUNCTION(), const char* file_ = __builtin_FILE(),
       int line_ = __builtin_LINE())
      : size(size_), op(op_), file(file_), line(line_) {}
  template <std::integral Integer>
  Grid(Integer n_blocks, const char* op_ = __builtin_FUNCTION(),
       const char* file_ = __builtin_FILE(), int line_ = __builtin_LINE())
      : Grid(dim3(static_cast<unsigned>(n_blocks)), op_, file_, line_) {}
};

enum class LaunchKind { ordinary, cooperative };

// Shared memory that a launch gets without asking, on every architecture.
inline constexpr std::size_t kSharedWithoutAsking = std::size_t{48} << 10;

template <class... Parameters>
void launch_as(LaunchKind kind, void (*kernel)(Parameters...), const Grid& grid, dim3 block,
               std::size_t shared_bytes, Stream& stream, std::tuple<Parameters...> arguments) {
#if defined(__CUDACC_RTC__)
  // NVRTC compiles device code only: tests/cuda/sm70_test.py.
#elif defined(__CUDACC__)
  if (!stream.ok()) return;
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > kSharedWithoutAsking)
    stream.latch(grid.op,
                 cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared_bytes)));
  if (!stream.ok()) return;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = kind == LaunchKind::cooperative;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.size;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream.handle();
  config.attrs = &attribute;
  config.numAttrs = 1;
  std::apply(
      [&](auto&... argument) {
        void* pointers[] = {&argument..., nullptr};
        stream.latch(grid.op, cudaLaunchKernelExC(&config, function, pointers));
      },
      arguments);
#else
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  };
  const Call call{kernel, std::move(arguments)};
  stream.run({.kernel = grid.op,
              .function = reinterpret_cast<const void*>(kernel),
              .where = {grid.file, grid.line},
              .grid = grid.size,
              .block = block,
              .shared_bytes = shared_bytes,
              .cooperative = kind == LaunchKind::cooperative,
              .body =
                  [](const void* context) {
                    const Call& c = *static_cast<const Call*>(context);
                    std::apply(c.kernel, c.arguments);
                  },
              .context = &call});
#endif
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, dim3 block, std::size_t shared_bytes,
            Stream& stream, Arguments&&... arguments) {
  launch_as(LaunchKind::ordinary, kernel, grid, block, shared_bytes, stream,
            std::tuple<Parameters...>(std::forward<Arguments>(arguments)...));
}

template <class... Parameters, class... Arguments>
void launch_cooperative(void (*kernel)(Parameters...), const Grid& grid, dim3 block,
                        std::size_t shared_bytes, Stream& stream, Arguments&&... arguments) {
  launch_as(LaunchKind::cooperative, kernel, grid, block, shared_bytes, stream,
            std::tuple<Parameters...>(std::forward<Arguments>(arguments)...));
}

}  // namespace engine::ENGINE_DEVICE_NS
