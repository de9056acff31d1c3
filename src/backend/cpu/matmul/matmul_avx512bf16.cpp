#include <immintrin.h>

#include "backend/cpu/matmul/matmul_kernels.h"

// Products of bf16 weights and activations rounded to bf16, with VDPBF16PS. The rate is twice that
// of f32 on AMD's Zen 4 and later, and half of it on Intel's Sapphire Rapids.
namespace kvik::cpu::avx512bf16 {

inline constexpr uint32_t kLanes = 16;

struct F32x16 {
  __m512 v;
};

inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline void store(float* p, F32x16 v) { _mm512_storeu_ps(p, v.v); }
inline __mmask16 lanes_below(uint32_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
inline F32x16 load_first(const float* p, uint32_t n) {
  return {_mm512_maskz_loadu_ps(lanes_below(n), p)};
}
inline void store_first(float* p, F32x16 v, uint32_t n) {
  _mm512_mask_storeu_ps(p, lanes_below(n), v.v);
}

// Sixteen pairs of bf16. The intrinsics' type cannot be loaded as integers.
inline __m512bh as_bf16(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }

#include "backend/cpu/matmul/matmul_loops.inl"

template <Ahead kAhead>
struct Bf16Tile {
  static constexpr uint32_t kHalfBytes = 4 * kLanes;
  static constexpr uint32_t kBytes = 2 * kHalfBytes;

  template <uint32_t H, uint32_t R>
  [[gnu::noinline]] static void run(const Tile& t) {
    __m512 sums[R][H];
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t h = 0; h < H; ++h) {
        sums[r][h] =
            t.is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(t.sums + (r * H + h) * kLanes);
      }
    }
    const uint8_t* x = t.x;
    const uint8_t* values = t.weights + t.half * kHalfBytes;
    for (uint32_t pair = 0; pair < t.n_units; ++pair) {
      prefetch_ahead<kAhead, kBytes, R * 4>(t, values, x);
      __m512i w[H];
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) w[h] = _mm512_loadu_si512(values + h * kHalfBytes);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < R; ++r) {
        const __m512bh pairs = as_bf16(_mm512_set1_epi32(load_as<int32_t>(x + 4 * r)));
#pragma GCC unroll 2
        for (uint32_t h = 0; h < H; ++h) {
          sums[r][h] = _mm512_dpbf16_ps(sums[r][h], as_bf16(w[h]), pairs);
        }
      }
      x += R * 4;
      values += kBytes;
    }
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t h = 0; h < H; ++h) _mm512_storeu_ps(t.sums + (r * H + h) * kLanes, sums[r][h]);
    }
  }
};

struct Bf16Kernel : Bf16Tile<Ahead::kWeights> {
  using Wide = Bf16Tile<Ahead::kRows>;
  static constexpr uint32_t kUnit = 2, kUnitBlocks = 0, kWideUnits = 1;
  static constexpr uint32_t kHalves = 2;
  static constexpr uint32_t kRows = 12;
  static constexpr uint32_t kUnitsInL1 = 192;
  static constexpr uint32_t kTilesWorthWidening = 4;
  static constexpr bool kHasRowScales = false;
  static constexpr bool kHasFewRows = false;
  static constexpr uint32_t kUnitBytes = kBytes;
  static constexpr uint32_t kWideUnitBytes = kBytes;
  static constexpr size_t kRowUnitBytes = 4;

  static const uint8_t* widen(const uint8_t* packed, uint32_t, uint8_t*) { return packed; }
};

inline uint16_t round_bf16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline void pack_bf16(const ActivationTile& t) {
  auto* out = reinterpret_cast<uint16_t*>(t.out);
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    const float* x = t.row(r);
    for (uint32_t k = 0; k < t.k; ++k)
      out[(size_t{k / 2} * t.n_rows + r) * 2 + k % 2] = round_bf16(x[k]);
    if (t.k % 2 == 1) out[(size_t{t.k / 2} * t.n_rows + r) * 2 + 1] = 0;
  }
}

const ActivationKernels kBf16Activations = {
    [](uint32_t) { return Bf16Kernel::kRows; },
    [](uint32_t k) { return (size_t{k} + k % 2) * sizeof(uint16_t); }, pack_bf16};
constexpr WeightKernels kKernels[] = {
    {ElementType::kBF16, ActivationFormat::kBF16, multiply<Bf16Kernel>}};
const WeightRows kBf16Types = rows_of(kKernels);

}  // namespace kvik::cpu::avx512bf16
