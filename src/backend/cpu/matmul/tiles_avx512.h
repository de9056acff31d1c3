#pragma once

#include <cstdint>

namespace kvik::cpu::avx512 {

// Register tiles and the parts of k that stay in the first-level cache, in units of the kernels.
struct Tiles {
  static constexpr uint32_t kQuantHalves = 2, kQuantRows = 6, kQuantBlocksInL1 = 16;
  static constexpr uint32_t kFewRows = 16;
  static constexpr uint32_t kFloatHalves = 2, kFloatRows = 12, kFloatUnitsInL1 = 96;
};

}  // namespace kvik::cpu::avx512
