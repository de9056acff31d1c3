#pragma once

#include <cstdint>

namespace kvik::cpu::avx2 {

// Register tiles and the parts of k that stay in the first-level cache, in units of the kernels.
struct Tiles {
  static constexpr uint32_t kQuantHalves = 1, kQuantRows = 3, kQuantBlocksInL1 = 16;
  static constexpr uint32_t kFewRows = kQuantRows;
  static constexpr uint32_t kFloatHalves = 2, kFloatRows = 3, kFloatUnitsInL1 = 128;
};

}  // namespace kvik::cpu::avx2
