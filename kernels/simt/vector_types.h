// CUDA's built-in vector types with CUDA's alignment, in the global namespace as there.
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define ENGINE_SIMT_VECTOR(name, element)                                        \
  struct alignas(2 * sizeof(element)) name##2 {                                  \
    element x, y;                                                                \
  };                                                                             \
  struct alignas(4 * sizeof(element)) name##4 {                                  \
    element x, y, z, w;                                                          \
  };                                                                             \
  constexpr name##2 make_##name##2(element x, element y) { return {x, y}; }      \
  constexpr name##4 make_##name##4(element x, element y, element z, element w) { \
    return {x, y, z, w};                                                         \
  }
ENGINE_SIMT_VECTOR(char, signed char)
ENGINE_SIMT_VECTOR(uchar, unsigned char)
ENGINE_SIMT_VECTOR(short, short)
ENGINE_SIMT_VECTOR(ushort, unsigned short)
ENGINE_SIMT_VECTOR(int, int)
ENGINE_SIMT_VECTOR(uint, unsigned)
ENGINE_SIMT_VECTOR(float, float)
#undef ENGINE_SIMT_VECTOR

static_assert(alignof(char2) == 2 && alignof(uchar4) == 4 && alignof(short4) == 8);
static_assert(alignof(int2) == 8 && alignof(uint4) == 16 && alignof(float4) == 16);
