// exp, tanh and log over a vector class S (op/simd.h), and as plain functions of one float.
//
// They replace libm, whose results differ between libraries and devices. Every step is one exactly
// rounded operation and there are no branches, so any S gives the same bits. The polynomials are
// minimax fits of the relative error (scripts/fit_polynomials.py prints them). Measured error in
// ulp against double over the whole range: exp 1.02, tanh 1.34, log 0.95
// (tests/kernels/math_test.cc holds them below 2).
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/op/simd.h"

namespace engine::op {

namespace detail {

// c[0] + c[1]*x + … by Horner's rule.
template <class S, std::size_t n>
ENGINE_HD inline typename S::F polynomial(typename S::F x, const float (&c)[n]) {
  typename S::F p = S::set(c[n - 1]);
  for (std::size_t i = n - 1; i > 0; --i) p = S::fma(p, x, S::set(c[i - 1]));
  return p;
}

// ln 2 = kLn2High + kLn2Low. The high part has 21 bits, so that x - n * kLn2High is exact in exp.
inline constexpr float kLn2High = 0x1.62e43p-1f;
inline constexpr float kLn2Low = -0x1.05c61p-29f;

// 2^n for -126 <= n <= 127.
template <class S>
ENGINE_HD inline typename S::F power_of_two(typename S::I n) {
  return S::from_bits(S::template shl<23>(S::addi(n, S::seti(127))));
}

}  // namespace detail

// exp(0) is exactly 1, exp(-inf) +0; results below 2^-126 underflow gradually, NaN stays NaN.
template <class S>
ENGINE_HD inline typename S::F exp(typename S::F x) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr float kLog2e = 0x1.715476p+0f;
  // Adding 1.5 * 2^23 leaves no fraction bits: the sum's low bits are the rounded integer.
  constexpr float kRound = 0x1.8p+23f;
  constexpr float kPolynomial[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239d4p-7f,
                                   0x1.6a2448p-10f};

  // Beyond these the result is 0 or infinity. Both comparisons let NaN through.
  x = S::max(S::set(-104.0f), x);
  x = S::select(S::less(S::set(89.0f), x), S::set(89.0f), x);
  // x = n ln 2 + r, |r| <= ln 2 / 2
  const F rounded = S::fma(x, S::set(kLog2e), S::set(kRound));
  const F n = S::sub(rounded, S::set(kRound));
  const I power = S::subi(S::bits(rounded), S::bits(S::set(kRound)));
  F r = S::fma(n, S::set(-detail::kLn2High), x);
  r = S::fma(n, S::set(-detail::kLn2Low), r);
  // exp(r) = 1 + r + r^2 q(r)
  const F q = detail::polynomial<S>(r, kPolynomial);
  const F p = S::add(S::fma(S::mul(r, r), q, r), S::set(1.0f));
  // n reaches -150 and 128, out of a float's exponent range: half of it at a time, and only the
  // second product can round.
  const I half = S::template sar<1>(power);
  return S::mul(S::mul(p, detail::power_of_two<S>(half)),
                detail::power_of_two<S>(S::subi(power, half)));
}

// Odd; exactly +-1 from |x| = 9.011 on; tanh(+-0) = +-0; NaN stays NaN.
template <class S>
ENGINE_HD inline typename S::F tanh(typename S::F x) {
  using F = typename S::F;
  constexpr float kSmall = 0.625f;
  constexpr float kPolynomial[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c58p-5f, 0x1.522692p-6f,
                                   -0x1.75e1a8p-8f};

  const F a = S::abs(x);
  // 1 - 2 / (exp(2a) + 1) cancels for small a, where tanh(a) = a + a^3 q(a^2) is used.
  const F e = exp<S>(S::add(a, a));
  const F large = S::sub(S::set(1.0f), S::div(S::set(2.0f), S::add(e, S::set(1.0f))));
  const F square = S::mul(a, a);
  const F small = S::fma(S::mul(a, square), detail::polynomial<S>(square, kPolynomial), a);
  const F magnitude = S::select(S::less(a, S::set(kSmall)), small, large);
  const auto sign = S::andi(S::bits(x), S::bits(S::set(-0.0f)));
  return S::from_bits(S::ori(S::bits(magnitude), sign));
}

// log(1) is exactly +0, log(+-0) -inf, log(inf) inf, log(x < 0) NaN; subnormals are exact inputs.
template <class S>
ENGINE_HD inline typename S::F log(typename S::F x) {
  using F = typename S::F;
  using I = typename S::I;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kSqrtHalf = 0x1.6a09e6p-1f;
  constexpr float kPolynomial[] = {0x1.555554p-2f,  -0x1.000228p-2f, 0x1.99a008p-3f,
                                   -0x1.547244p-3f, 0x1.22da22p-3f,  -0x1.0d8552p-3f,
                                   0x1.055b46p-3f,  -0x1.38b4ccp-4f};

  // Subnormals are scaled by 2^23 into the normal range.
  const I subnormal = S::less(x, S::set(0x1p-126f));
  const F normal = S::select(subnormal, S::mul(x, S::set(0x1p+23f)), x);
  // normal = m 2^n with sqrt(1/2) <= m < sqrt(2): measured from the bits of sqrt(1/2), the exponent
  // field is n and the mantissa field m's distance.
  const I base = S::bits(S::set(kSqrtHalf));
  const I distance = S::subi(S::bits(normal), base);
  const F m = S::from_bits(S::addi(S::andi(distance, S::seti(0x7FFFFF)), base));
  const F n = S::sub(S::to_float(S::template sar<23>(distance)),
                     S::select(subnormal, S::set(23.0f), S::set(0.0f)));
  // log(x) = n ln 2 + log(1 + f),  log(1 + f) = f + f^2 (-1/2 + f q(f))
  const F f = S::sub(m, S::set(1.0f));
  const F q = S::fma(f, detail::polynomial<S>(f, kPolynomial), S::set(-0.5f));
  const F low = S::fma(n, S::set(detail::kLn2Low), S::mul(S::mul(f, f), q));
  const F finite = S::fma(n, S::set(detail::kLn2High), S::add(low, f));

  // Where x is not a positive number: 0 - inf is -inf, NaN - inf is NaN.
  const F other = S::sub(
      S::select(S::less(x, S::set(0.0f)), S::set(std::numeric_limits<float>::quiet_NaN()), x),
      S::set(kInfinity));
  const F positive =
      S::select(S::less(S::set(std::numeric_limits<float>::max()), x), S::set(kInfinity), finite);
  return S::select(S::less(S::set(0.0f), x), positive, other);
}

ENGINE_HD inline float exp(float x) { return exp<Scalar>(x); }
ENGINE_HD inline float tanh(float x) { return tanh<Scalar>(x); }
ENGINE_HD inline float log(float x) { return log<Scalar>(x); }

}  // namespace engine::op
