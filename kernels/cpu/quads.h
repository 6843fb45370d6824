// From stored bytes to vectors: the weights of a quad and the scales of a block, for the rows of
// one vector of a group.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/planes.h"

namespace engine::cpu {

// a shifted so that bit `from` (0..7) comes to bit 4; the bits around it are garbage.
template <class S>
[[gnu::always_inline]] inline typename S::I bit_to_4(typename S::I a, int from) {
  switch (from) {
    case 0:
      return S::template shl<4>(a);
    case 1:
      return S::template shl<3>(a);
    case 2:
      return S::template shl<2>(a);
    case 3:
      return S::template shl<1>(a);
    case 4:
      return a;
    case 5:
      return S::template shr<1>(a);
    case 6:
      return S::template shr<2>(a);
    default:
      return S::template shr<3>(a);
  }
}

// Block b for the rows of vector v: word(k) has the four unsigned weights of quad k as bytes.
template <class S, class Format>
class BlockQuads {
 public:
  using I = typename S::I;

  [[gnu::always_inline]] BlockQuads(const Group<Format>& group, int b, int v)
      : quants_(group.block_quants(b) + 4 * S::kLanes * v) {
    if constexpr (kIsSplit)
      S::load_words(group.row_low(S::kLanes * v) + b * kRowLowBytes,
                    static_cast<std::ptrdiff_t>(group.row_low_bytes), low_);
  }

  [[gnu::always_inline]] I word(int k) const {
    if constexpr (std::is_same_v<Format, Q8_0Planes>) {
      return S::loadi(quants_ + 64 * k);
    } else if constexpr (kIsSplit) {
      const I high = S::loadi(quants_ + 64 * (k / 2)), low = low_[k / 2];
      const I mask = S::seti(static_cast<std::int32_t>(0xF0F0F0F0));
      return k % 2 == 0 ? S::blend_bits(mask, S::template shl<4>(high), low)
                        : S::blend_bits(mask, high, S::template shr<4>(low));
    } else {
      const I pair = S::loadi(quants_ + 64 * (k / 2));
      const I low = S::andi(k % 2 == 0 ? pair : S::template shr<4>(pair), S::seti(0x0F0F0F0F));
      if constexpr (std::is_same_v<Format, Q4_KPlanes>) {
        return low;
      } else {
        constexpr bool one_bit = std::is_same_v<Format, Q5_0Planes>;
        const I bits = S::loadi(quants_ + kBitsAt + (one_bit ? 0 : 64 * (k / 4)));
        const I mask = S::seti(one_bit ? 0x10101010 : 0x30303030);
        return S::ori(low, S::andi(bit_to_4<S>(bits, one_bit ? k : 2 * (k % 4)), mask));
      }
    }
  }

 private:
  static constexpr bool kIsSplit = std::is_same_v<Format, Q8_0SplitPlanes>;
  const std::uint8_t* quants_;
  I low_[kIsSplit ? 4 : 1];  // words of the row-by-row nibbles
};

// Scales of one block, as far as the format has them: d and dmin of the block or its head, s the
// integer sub-scales, n the integer sub-minimum.
template <class S, class Format>
struct BlockScales {
  typename S::F d;
};
template <class S>
struct BlockScales<S, Q4_KPlanes> {
  typename S::F d, dmin, s, n;
};
template <class S>
struct BlockScales<S, Q6_KPlanes> {
  typename S::F d, s, second_s;
};

template <class S, class Format>
[[gnu::always_inline]] inline BlockScales<S, Format> load_scales(const Group<Format>& group, int b,
                                                                 int v) {
  const int r = S::kLanes * v;
  const std::uint8_t *scales = group.block_scales(b), *head = group.head(b);
  const auto halves = [&](const std::uint8_t* at) {
    return S::load_f16(reinterpret_cast<const std::uint16_t*>(at) + r);
  };
  if constexpr (std::is_same_v<Format, Q4_KPlanes>)
    return {halves(head), halves(head + kDminAt), S::to_float(S::load_u8(scales + r)),
            S::to_float(S::load_u8(scales + kSecondScale + r))};
  else if constexpr (std::is_same_v<Format, Q6_KPlanes>)
    return {halves(head), S::to_float(S::load_i8(scales + r)),
            S::to_float(S::load_i8(scales + kSecondScale + r))};
  else
    return {halves(scales)};
}

}  // namespace engine::cpu
