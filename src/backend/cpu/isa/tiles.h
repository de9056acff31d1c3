#pragma once

#include <cstdint>

// Sizes of the register tiles of each instruction set, and the number of units of k whose weights
// stay in the first-level cache. A unit is that of the kernel: see matmul_loops.inl.
namespace kvik::cpu {

// The tiles of instruction sets without a matrix unit (attention_int8_amx.h).
struct NoMatrixTiles {
  static constexpr uint32_t kRows = 0, kLeastRows = 0, kDims = 1;
};

namespace scalar {  // any size works, because this is the specification and not a fast path
struct Tiles {
  static constexpr uint32_t kQuantHalves = 1, kQuantRows = 1, kQuantBlocksInL1 = 8;
  static constexpr uint32_t kFewRows = kQuantRows;
  static constexpr uint32_t kFloatHalves = 1, kFloatRows = 1, kFloatUnitsInL1 = 64;
};
inline constexpr uint32_t kTileRows = 1, kTileRegisters = 1;
inline constexpr uint32_t kInt8TileRows = 2, kInt8TileRegisters = 2;
using MatrixTiles = NoMatrixTiles;
}  // namespace scalar

namespace avx2 {
struct Tiles {
  static constexpr uint32_t kQuantHalves = 1, kQuantRows = 3, kQuantBlocksInL1 = 16;
  static constexpr uint32_t kFewRows = kQuantRows;
  static constexpr uint32_t kFloatHalves = 2, kFloatRows = 3, kFloatUnitsInL1 = 128;
};
// Attention: 6 rows × 1 vector of two registers. 12 sums, 2 registers of K or V and 1 of Q fit into
// 16 registers.
inline constexpr uint32_t kTileRows = 6, kTileRegisters = 6;
// int8: 4 rows × 1 vector of two registers. 8 sums, 4 registers of widened V and 2 of weights.
inline constexpr uint32_t kInt8TileRows = 4, kInt8TileRegisters = 4;
using MatrixTiles = NoMatrixTiles;
}  // namespace avx2

namespace avxvnni {
struct Tiles {
  static constexpr uint32_t kQuantHalves = 1, kQuantRows = 3, kQuantBlocksInL1 = 16;
  static constexpr uint32_t kFewRows = 6;
  static constexpr uint32_t kFloatHalves = 2, kFloatRows = 3, kFloatUnitsInL1 = 128;
};
}  // namespace avxvnni

namespace avx512 {
struct Tiles {
  static constexpr uint32_t kQuantHalves = 2, kQuantRows = 6, kQuantBlocksInL1 = 16;
  static constexpr uint32_t kFewRows = 16;
  static constexpr uint32_t kFloatHalves = 2, kFloatRows = 12, kFloatUnitsInL1 = 96;
};
// 8 rows × 2 vectors: 16 sums, 2 registers of K or V and 1 of Q. More sums would not use the
// execution ports better.
inline constexpr uint32_t kTileRows = 8, kTileRegisters = 16;
// int8: the same. 12 rows with 24 sums took 3 to 10% longer in a prefill.
inline constexpr uint32_t kInt8TileRows = 8, kInt8TileRegisters = 16;
using MatrixTiles = NoMatrixTiles;
}  // namespace avx512

}  // namespace kvik::cpu
