#include "backend/cpu/isa/amx_tiles.h"
#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::amx {

double bf16_dot(long n) {
  TileShapes shapes;
  for (uint32_t tile = 0; tile < 8; ++tile) shapes.set(tile, 16, 64);
  shapes.load();
  constexpr long kChains = 4;
  for (long i = 0; i < n; i += kChains) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 16.0 * 16.0 * 32.0 * 2 * static_cast<double>(n);
}

}  // namespace kvik::cpu::amx
