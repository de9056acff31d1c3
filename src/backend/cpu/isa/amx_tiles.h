#pragma once

#include <immintrin.h>

#include <cstdint>

namespace kvik::cpu::amx {

// Shapes of the eight tiles, in the layout that LDTILECFG reads. A new tile has none.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t n_rows[16] = {};

  void set(uint32_t tile, uint32_t rows, uint32_t bytes) {
    n_rows[tile] = static_cast<uint8_t>(rows);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
  // Gives the tiles these shapes, and clears them.
  void load() const {
    asm volatile("" : : "r"(this) : "memory");  // the intrinsic says that it reads eight bytes
    _tile_loadconfig(this);
  }
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace kvik::cpu::amx
