#pragma once

// Layout of each weight type in a panel of 32 columns (backend/layout/panel_matrix.h), as one
// column sees it. A type defines how many blocks of 32 k share a header (kBlocks), the bytes of the
// header and of a block, the number of sub-blocks with scales of their own (kParts), the number of
// minima of a block (kMinima), and by how much its words exceed the levels (kOffset). word()
// returns the four levels k = 4 · group … of the block, as signed bytes.

#include "backend/cuda/kernel/math.cuh"
#include "backend/cuda/matmul/matmul_kernels.h"

namespace kvik::cuda {

__device__ __forceinline__ float f16_at(const uint8_t* p, uint32_t i) {
  return f16_value(read_as<uint16_t>(p + 2 * i));
}

// Returns four nibbles of nibbles stored as [4][32 columns][4] bytes: the low halves of group g are
// k = 4 g …, the high halves k = 16 + 4 g ….
__device__ __forceinline__ uint32_t nibbles_at(const uint8_t* p, uint32_t group, uint32_t column) {
  const uint32_t both = read_as<uint32_t>(p + (group % 4 * kPanelColumns + column) * 4);
  return both >> (group / 4 * 4) & 0x0f0f0f0fu;
}

struct WeightsQ8_0 {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBlockBytes = 64 + 1024;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  static constexpr int kOffset = 0;
  __device__ static uint32_t word(const uint8_t* block, uint32_t group, uint32_t column) {
    return read_as<uint32_t>(block + 64 + (group * kPanelColumns + column) * 4) ^ 0x80808080u;
  }
  __device__ static float scale(const uint8_t*, const uint8_t* block, uint32_t, uint32_t column) {
    return f16_at(block, column);
  }
  __device__ static float value(const uint8_t* header, const uint8_t* block, uint32_t, int level,
                                uint32_t column) {
    return scale(header, block, 0, column) * static_cast<float>(level);
  }
};

struct WeightsQ4_0 {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBlockBytes = 64 + 512;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  static constexpr int kOffset = 8;
  __device__ static uint32_t word(const uint8_t* block, uint32_t group, uint32_t column) {
    return nibbles_at(block + 64, group, column);
  }
  __device__ static float scale(const uint8_t*, const uint8_t* block, uint32_t, uint32_t column) {
    return f16_at(block, column);
  }
  __device__ static float value(const uint8_t* header, const uint8_t* block, uint32_t, int level,
                                uint32_t column) {
    return scale(header, block, 0, column) * static_cast<float>(level);
  }
};

struct WeightsMXFP4 {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBlockBytes = 32 + 512;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  static constexpr int kOffset = 0;
  // The low three bits of a nibble select the levels 0, 1, 2, 3, 4, 6, 8, 12; the fourth bit is the
  // sign.
  __device__ static uint32_t word(const uint8_t* block, uint32_t group, uint32_t column) {
    const uint32_t n = nibbles_at(block + 32, group, column);
    const uint32_t chosen = (n & 7u) | (n >> 4 & 0x70u) | (n >> 8 & 0x700u) | (n >> 12 & 0x7000u);
    const uint32_t above = __byte_perm(0x03020100u, 0x0c080604u, chosen);
    const uint32_t below = __byte_perm(0xfdfeff00u, 0xf4f8fafcu, chosen);
    const uint32_t is_below = (n >> 3 & 0x01010101u) * 255u;
    return (above & ~is_below) | (below & is_below);
  }
  // Returns 2^(exponent − 128), and 0 for exponent 0.
  __device__ static float scale(const uint8_t*, const uint8_t* block, uint32_t, uint32_t column) {
    return __uint_as_float(static_cast<uint32_t>(block[column]) << 23) * 0.5f;
  }
  __device__ static float value(const uint8_t*, const uint8_t* block, uint32_t, int level,
                                uint32_t column) {
    const uint32_t exponent = block[column];
    const float half = exponent < 2 ? __uint_as_float(0x00200000u << exponent)
                                    : __uint_as_float((exponent - 1) << 23);
    return half * static_cast<float>(level);
  }
};

// f16 scales [32] and minima [32] per 256 k; byte factors of the scales [32] and of the minima [32]
// per 32 k.
struct WeightsQ4K {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 128, kBlockBytes = 64 + 512;
  static constexpr uint32_t kParts = 1, kMinima = 1;
  static constexpr int kOffset = 0;
  __device__ static uint32_t word(const uint8_t* block, uint32_t group, uint32_t column) {
    return nibbles_at(block + 64, group, column);
  }
  __device__ static float scale(const uint8_t* header, const uint8_t* block, uint32_t,
                                uint32_t column) {
    return f16_at(header, column) * static_cast<float>(block[column]);
  }
  __device__ static float minus_minimum(const uint8_t* header, const uint8_t* block,
                                        uint32_t column) {
    return (0.0f - f16_at(header, 32 + column)) * static_cast<float>(block[32 + column]);
  }
  __device__ static float value(const uint8_t* header, const uint8_t* block, uint32_t, int level,
                                uint32_t column) {
    const float minimum = f16_at(header, 32 + column) * -static_cast<float>(block[32 + column]);
    return scale(header, block, 0, column) * static_cast<float>(level) + minimum;
  }
};

// Like q4_k, but the fifth bits follow the nibbles: [8][32][4] bits, lowest first.
struct WeightsQ5K : WeightsQ4K {
  static constexpr uint32_t kBlockBytes = 64 + 512 + 128;
  __device__ static uint32_t word(const uint8_t* block, uint32_t group, uint32_t column) {
    const uint32_t two = block[64 + 512 + 16 * group + column / 2];
    const uint32_t four = two >> (column % 2 * 4) & 15u;
    return WeightsQ4K::word(block, group, column) | (four * 0x00204081u & 0x01010101u) << 4;
  }
};

// f16 scales [32] per 256 k; signed byte factors [2][32] per 32 k, one for each 16 k.
struct WeightsQ6K {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 64, kBlockBytes = 64 + 512 + 256;
  static constexpr uint32_t kParts = 2, kMinima = 0;
  static constexpr int kOffset = 32;
  __device__ static uint32_t word(const uint8_t* block, uint32_t group, uint32_t column) {
    const uint8_t* upper = block + 64 + 512 + (group / 4 * kPanelColumns + column) * 4;
    const uint32_t pairs = read_as<uint32_t>(upper) >> (2 * (group % 4)) & 0x03030303u;
    return nibbles_at(block + 64, group, column) | pairs << 4;
  }
  __device__ static float scale(const uint8_t* header, const uint8_t* block, uint32_t part,
                                uint32_t column) {
    const auto factor = static_cast<int8_t>(block[32 * part + column]);
    return f16_at(header, column) * static_cast<float>(factor);
  }
  __device__ static float value(const uint8_t* header, const uint8_t* block, uint32_t part,
                                int level, uint32_t column) {
    return scale(header, block, part, column) * static_cast<float>(level);
  }
};

// Position of block b of a panel, and of the header that it shares with other blocks.
struct BlockPlace {
  const uint8_t *header, *block;
};
template <class Weights>
__device__ __forceinline__ BlockPlace place_of_block(const uint8_t* panel, uint32_t b) {
  constexpr uint32_t kUnitBytes = Weights::kHeaderBytes + Weights::kBlocks * Weights::kBlockBytes;
  const uint8_t* header = panel + static_cast<size_t>(b / Weights::kBlocks) * kUnitBytes;
  return {header, header + Weights::kHeaderBytes + b % Weights::kBlocks * Weights::kBlockBytes};
}

// Float weights. at() returns the weight of row k and a column in a panel.
struct WeightsF32 {
  __device__ static float at(const uint8_t* panel, uint32_t k, uint32_t column) {
    return read_as<float>(panel + (static_cast<size_t>(k) * kPanelColumns + column) * 4);
  }
};
struct WeightsF16 {
  __device__ static float at(const uint8_t* panel, uint32_t k, uint32_t column) {
    return f16_value(
        read_as<uint16_t>(panel + (static_cast<size_t>(k) * kPanelColumns + column) * 2));
  }
};
struct WeightsBF16 {  // stored as pairs of adjacent k
  __device__ static float at(const uint8_t* panel, uint32_t k, uint32_t column) {
    const size_t pair = static_cast<size_t>(k / 2) * kPanelColumns + column;
    return bf16_value(read_as<uint16_t>(panel + pair * 4 + k % 2 * 2));
  }
};

}  // namespace kvik::cuda
