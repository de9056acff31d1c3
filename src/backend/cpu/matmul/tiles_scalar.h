#pragma once

#include <cstdint>

namespace kvik::cpu::scalar {

// Register tiles and the parts of k that stay in the first-level cache, in units of the kernels.
struct Tiles {
  static constexpr uint32_t kQuantHalves = 1, kQuantRows = 2, kQuantBlocksInL1 = 8;
  static constexpr uint32_t kFewRows = kQuantRows;
  static constexpr uint32_t kFloatHalves = 1, kFloatRows = 2, kFloatUnitsInL1 = 64;
};

}  // namespace kvik::cpu::scalar
