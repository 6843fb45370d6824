// ENGINE_DEVICE_NS, and that namespace's Runtime and Stream. The engine/cuda_* files are compiled twice:
// for a card, and, with ENGINE_DEVICE_SIMT, for the executor of kernels/simt.
#pragma once

#if defined(ENGINE_DEVICE_SIMT)
#define ENGINE_DEVICE_NS simt
#include "engine/simt_runtime.h"
#else
#define ENGINE_DEVICE_NS cuda
#include "engine/cuda_runtime.h"
#endif
