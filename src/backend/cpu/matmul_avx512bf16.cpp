#include <immintrin.h>

#include "backend/cpu/matmul_kernels.h"

// Products of bf16 weights with activations rounded to bf16, by VDPBF16PS: twice the rate of f32 on
// AMD's Zen 4 and later, half of it on Intel's Sapphire Rapids.
namespace kvik::cpu::avx512bf16 {

inline constexpr uint32_t kLanes = 16;

struct F32x16 {
  __m512 v;
};

struct Tile {
  const uint8_t* weights;  // panel p begins at weights + p · panel_bytes, at k = 0
  size_t panel_bytes;
  const uint8_t* x;  // this tile's, at k = 0
  uint32_t k;
  uint32_t begin, end;  // pairs of k
  float* sums;          // [rows][panels · 16]: read where begin > 0, written always
};

inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline void store(float* p, F32x16 v) { _mm512_storeu_ps(p, v.v); }
inline __mmask16 lanes_below(uint32_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
inline F32x16 load_first(const float* p, uint32_t n) {
  return {_mm512_maskz_loadu_ps(lanes_below(n), p)};
}
inline void store_first(float* p, F32x16 v, uint32_t n) {
  _mm512_mask_storeu_ps(p, lanes_below(n), v.v);
}

// Sixteen pairs of bf16; the intrinsics' own type may not be made from integer loads.
inline __m512bh as_bf16(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }

struct Bf16Kernel {
  static constexpr uint32_t kUnit = 2;
  static constexpr uint32_t kPanels = 2;
  static constexpr uint32_t kRows = 12;
  static constexpr uint32_t kUnitsInL1 = 192;
  static size_t row_bytes(uint32_t k) { return (size_t{k} + 1) / 2 * 4; }

  template <uint32_t P, uint32_t R>
  static void run(const Tile& t) {
    __m512 sums[R][P];
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t p = 0; p < P; ++p) {
        sums[r][p] =
            t.begin == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(t.sums + (r * P + p) * kLanes);
      }
    }
    const uint8_t* x = t.x + size_t{t.begin} * R * 4;
    const uint8_t* weights = t.weights + size_t{t.begin} * 64;
    for (uint32_t pair = t.begin; pair < t.end; ++pair) {
      __m512i w[P];
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) w[p] = _mm512_loadu_si512(weights + p * t.panel_bytes);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < R; ++r) {
        int32_t two;
        __builtin_memcpy(&two, x + 4 * r, sizeof(two));
        const __m512bh pairs = as_bf16(_mm512_set1_epi32(two));
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) {
          sums[r][p] = _mm512_dpbf16_ps(sums[r][p], as_bf16(w[p]), pairs);
        }
      }
      x += R * 4;
      weights += 64;
    }
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t p = 0; p < P; ++p) _mm512_storeu_ps(t.sums + (r * P + p) * kLanes, sums[r][p]);
    }
  }
};

#include "backend/cpu/matmul_loops.inl"

inline uint16_t round_bf16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline void pack_bf16(const ActivationTile& t) {
  auto* out = reinterpret_cast<uint16_t*>(t.out);
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    const float* x = t.x + r * t.stride;
    for (uint32_t k = 0; k < t.k; ++k)
      out[(size_t{k / 2} * t.n_rows + r) * 2 + k % 2] = round_bf16(x[k]);
    if (t.k % 2 == 1) out[(size_t{t.k / 2} * t.n_rows + r) * 2 + 1] = 0;
  }
}

const ActivationKernels kBf16Activations = {Bf16Kernel::kRows, Bf16Kernel::row_bytes, pack_bf16};
const WeightKernels kBf16Weights = {ActivationFormat::kBF16, multiply<Bf16Kernel>};

}  // namespace kvik::cpu::avx512bf16
