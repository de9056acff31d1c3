#include <immintrin.h>

#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::amx {

double bf16_dot(long n) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t n_rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shapes;
  asm volatile("" : : "r"(&shapes) : "memory");  // the intrinsic says that it reads eight bytes
  _tile_loadconfig(&shapes);
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
