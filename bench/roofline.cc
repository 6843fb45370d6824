#include "bench/roofline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>

#include "engine/huge_buffer.h"
#include "kernels/cpu/leaf.h"

namespace engine::bench {
namespace {

constexpr int kPasses = 5;
constexpr int kParts = 64;  // of a pass, shared out among the threads

// Runs `part` kParts times over all threads, kPasses times; the shortest pass in seconds.
double shortest_pass(cpu::Pool& pool, const std::function<void(int)>& part) {
  double shortest = INFINITY;
  const Status status = pool.run([&] {
    for (int pass = 0; pass < kPasses; ++pass) {
      const auto start = std::chrono::steady_clock::now();
      pool.parallel_for(kParts, 1, [&](int begin, int end) {
        for (int p = begin; p < end; ++p) part(p);
      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      shortest = std::min(shortest, seconds.count());
    }
  });
  return status.ok() ? shortest : INFINITY;
}

// Four sums, so that no chain of dependent adds limits the loads.
std::uint64_t sum_words(const std::uint64_t* words, std::size_t n) {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
  for (std::size_t i = 0; i < n; i += 8) {
    a += words[i] + words[i + 1];
    b += words[i + 2] + words[i + 3];
    c += words[i + 4] + words[i + 5];
    d += words[i + 6] + words[i + 7];
  }
  return a + b + c + d;
}

// --- multiply-adds ------------------------------------------------------------------------------

struct Probe {
  const cpu::Leaf* leaf;
  Multiply kind;
  int multiply_adds;         // of one round
  void (*run)(long rounds);  // rounds > 0
};

#if defined(__x86_64__)

// Independent accumulators: more than latency times instructions a cycle.
constexpr int kChains = 12;

// A function that repeats INSTRUCTION for accumulators 2..13 with operands 0 and 1 and scratch
// registers 14 and 15, all of them zero. In assembly, because a compiler would fold sums that it
// can foresee.
#define ENGINE_PROBE(NAME, INSTRUCTION, END)                                                  \
  void NAME(long rounds) {                                                                    \
    asm volatile(                                                                             \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n pxor %%xmm\\r, %%xmm\\r\n.endr\n"     \
        "1:\n.irp r,2,3,4,5,6,7,8,9,10,11,12,13\n" INSTRUCTION                                \
        "\n.endr\n"                                                                           \
        "dec %0\n jnz 1b\n" END                                                               \
        : "+r"(rounds)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
          "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");              \
  }

ENGINE_PROBE(sse2_int16,
             "movdqa %%xmm0, %%xmm14\n pmaddwd %%xmm1, %%xmm14\n paddd %%xmm14, %%xmm\\r", "")
ENGINE_PROBE(sse2_fp32, "movaps %%xmm0, %%xmm14\n mulps %%xmm1, %%xmm14\n addps %%xmm14, %%xmm\\r",
             "")
ENGINE_PROBE(avx2_int16, "vpmaddwd %%ymm0, %%ymm1, %%ymm14\n vpaddd %%ymm14, %%ymm\\r, %%ymm\\r",
             "vzeroupper")
ENGINE_PROBE(avx2_fp32, "vfmadd231ps %%ymm0, %%ymm1, %%ymm\\r", "vzeroupper")
ENGINE_PROBE(avxvnni_int16, "%{vex%} vpdpwssd %%ymm0, %%ymm1, %%ymm\\r", "vzeroupper")
ENGINE_PROBE(avx512vlvnni_int16, "%{evex%} vpdpwssd %%ymm0, %%ymm1, %%ymm\\r", "vzeroupper")
ENGINE_PROBE(avx512vnni_int16, "vpdpwssd %%zmm0, %%zmm1, %%zmm\\r", "vzeroupper")
ENGINE_PROBE(avx512vnni_fp32, "vfmadd231ps %%zmm0, %%zmm1, %%zmm\\r", "vzeroupper")
ENGINE_PROBE(avx512sums_int16,
             "vpaddw %%zmm0, %%zmm1, %%zmm14\n vpaddw %%zmm1, %%zmm0, %%zmm15\n"
             "vpdpwssd %%zmm14, %%zmm15, %%zmm\\r",
             "vzeroupper")
#undef ENGINE_PROBE

// Blocks of 32 weights as op/matmul.h wants them: N_STEPS times the products DOT in each of the
// accumulators 2..9 of REG, then their conversion, the product of the scales, the term and its addition.
#define ENGINE_BLOCK_PROBE(NAME, REG, N_STEPS, DOT)                                           \
  void NAME(long rounds) {                                                                    \
    asm volatile(                                                                             \
        ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n pxor %%xmm\\r, %%xmm\\r\n.endr\n"     \
        "1:\n.rept " #N_STEPS "\n.irp r,2,3,4,5,6,7,8,9\n" DOT                                \
        "\n.endr\n.endr\n"                                                                    \
        ".irp r,2,3,4,5,6,7,8,9\n vcvtdq2ps %%" REG "mm\\r, %%" REG                           \
        "mm10\n"                                                                              \
        "vmulps %%" REG "mm0, %%" REG "mm1, %%" REG                                           \
        "mm11\n"                                                                              \
        "vmulps %%" REG "mm10, %%" REG "mm11, %%" REG                                         \
        "mm12\n"                                                                              \
        "vaddps %%" REG "mm12, %%" REG "mm13, %%" REG                                         \
        "mm10\n"                                                                              \
        "vpxor %%xmm\\r, %%xmm\\r, %%xmm\\r\n.endr\n"                                         \
        "dec %0\n jnz 1b\n vzeroupper"                                                        \
        : "+r"(rounds)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
          "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");              \
  }
constexpr int kBlockMultiplyAdds = 32 * 8;  // of one lane
ENGINE_BLOCK_PROBE(avx2_block, "y", 16,
                   "vpmaddwd %%ymm0, %%ymm1, %%ymm14\n vpaddd %%ymm14, %%ymm\\r, %%ymm\\r")
ENGINE_BLOCK_PROBE(avxvnni_block, "y", 16, "%{vex%} vpdpwssd %%ymm0, %%ymm1, %%ymm\\r")
ENGINE_BLOCK_PROBE(avx512vlvnni_block, "y", 16, "%{evex%} vpdpwssd %%ymm0, %%ymm1, %%ymm\\r")
ENGINE_BLOCK_PROBE(avx512vnni_block, "z", 16, "vpdpwssd %%zmm0, %%zmm1, %%zmm\\r")
ENGINE_BLOCK_PROBE(avx512sums_block, "z", 8,
                   "vpaddw %%zmm0, %%zmm1, %%zmm14\n vpaddw %%zmm1, %%zmm0, %%zmm15\n"
                   "vpdpwssd %%zmm14, %%zmm15, %%zmm\\r")
#undef ENGINE_BLOCK_PROBE

constexpr Probe kProbes[] = {
    {&cpu::kScalarLeaf, Multiply::int16, 8 * kChains, sse2_int16},
    {&cpu::kScalarLeaf, Multiply::fp32, 4 * kChains, sse2_fp32},
    {&cpu::kAvx2Leaf, Multiply::int16, 16 * kChains, avx2_int16},
    {&cpu::kAvx2Leaf, Multiply::int16_blocks, 8 * kBlockMultiplyAdds, avx2_block},
    {&cpu::kAvx2Leaf, Multiply::fp32, 8 * kChains, avx2_fp32},
    {&cpu::kAvxVnniLeaf, Multiply::int16, 16 * kChains, avxvnni_int16},
    {&cpu::kAvxVnniLeaf, Multiply::int16_blocks, 8 * kBlockMultiplyAdds, avxvnni_block},
    {&cpu::kAvxVnniLeaf, Multiply::fp32, 8 * kChains, avx2_fp32},
    {&cpu::kAvx512VlVnniLeaf, Multiply::int16, 16 * kChains, avx512vlvnni_int16},
    {&cpu::kAvx512VlVnniLeaf, Multiply::int16_blocks, 8 * kBlockMultiplyAdds, avx512vlvnni_block},
    {&cpu::kAvx512VlVnniLeaf, Multiply::fp32, 8 * kChains, avx2_fp32},
    {&cpu::kAvx512VnniLeaf, Multiply::int16, 32 * kChains, avx512vnni_int16},
    {&cpu::kAvx512VnniLeaf, Multiply::int16_blocks, 16 * kBlockMultiplyAdds, avx512vnni_block},
    {&cpu::kAvx512VnniLeaf, Multiply::fp32, 16 * kChains, avx512vnni_fp32},
    {&cpu::kAvx512SumsLeaf, Multiply::int16, 64 * kChains, avx512sums_int16},
    {&cpu::kAvx512SumsLeaf, Multiply::int16_blocks, 16 * kBlockMultiplyAdds, avx512sums_block},
    {&cpu::kAvx512SumsLeaf, Multiply::fp32, 16 * kChains, avx512vnni_fp32},
};

#else

constexpr Probe kProbes[] = {{nullptr, Multiply::int16, 0, nullptr}};

#endif

}  // namespace

double read_bandwidth(cpu::Pool& pool) {
  constexpr std::size_t kBytes = std::size_t{256} << 20, kPart = kBytes / kParts;
  static const Result<HugeBuffer> buffer = HugeBuffer::create(kBytes);
  if (!buffer) return 0;
  // Pages that were never written are all the same one, which would stay in the cache.
  static const bool written = (std::fill_n(buffer->data(), kBytes, std::byte{1}), true);
  static_cast<void>(written);
  const double seconds = shortest_pass(pool, [](int p) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(buffer->data() +
                                                               kPart * static_cast<std::size_t>(p));
    volatile std::uint64_t sum = sum_words(words, kPart / sizeof *words);
    static_cast<void>(sum);
  });
  return static_cast<double>(kBytes) / seconds;
}

double multiply_rate(cpu::Pool& pool, Multiply kind) {
  constexpr long kRounds = 4000;
  const auto* probe = std::find_if(std::begin(kProbes), std::end(kProbes), [&](const Probe& p) {
    return p.leaf == &pool.leaf() && p.kind == kind;
  });
  if (probe == std::end(kProbes)) return 0;
  const double seconds = shortest_pass(pool, [&](int) { probe->run(kRounds); });
  return static_cast<double>(kRounds) * kParts * probe->multiply_adds / seconds;
}

}  // namespace engine::bench
