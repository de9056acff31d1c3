#include "backend/cpu/matmul/packed_levels.h"

#include <cstring>

#include "backend/cpu/matmul/matmul_kernels.h"

namespace kvik::cpu {
namespace {

// Four bytes of one column.
size_t place(uint32_t group, uint32_t column) {
  return (size_t{group} * kPanelColumns + column) * 4;
}

}  // namespace

void put_nibbles(const uint8_t* levels, uint32_t column, std::byte* at) {
  uint8_t pairs[16];
  for (size_t i = 0; i < 16; ++i) {
    pairs[i] = static_cast<uint8_t>((levels[i] & 15) | (levels[16 + i] & 15) << 4);
  }
  for (uint32_t g = 0; g < 4; ++g) std::memcpy(at + place(g, column), pairs + 4 * g, 4);
}

int nibble_at(const std::byte* at, uint32_t column, uint32_t k) {
  const int both = std::to_integer<int>(at[place(k % 16 / 4, column) + k % 4]);
  return both >> (k / 16 * 4) & 15;
}

void put_pairs(const uint8_t* levels, int shift, uint32_t column, std::byte* at) {
  for (uint32_t half = 0; half < 2; ++half) {
    uint8_t bytes[4] = {};
    for (uint32_t i = 0; i < 16; ++i) {
      const int pair = levels[16 * half + i] >> shift & 3;
      bytes[i % 4] |= static_cast<uint8_t>(pair << (i / 4 * 2));
    }
    std::memcpy(at + place(half, column), bytes, 4);
  }
}

int pair_at(const std::byte* at, uint32_t column, uint32_t k) {
  const int pairs = std::to_integer<int>(at[place(k / 16, column) + k % 4]);
  return pairs >> (k % 16 / 4 * 2) & 3;
}

void put_bits(const uint8_t* levels, int shift, uint32_t column, std::byte* at) {
  for (uint32_t g = 0; g < 8; ++g) {
    uint32_t bits = 0;
    for (uint32_t j = 0; j < 4; ++j) bits |= (levels[4 * g + j] >> shift & 1u) << j;
    at[place(g, column) / 8] |= static_cast<std::byte>(bits << (column % 2 * 4));
  }
}

int bit_at(const std::byte* at, uint32_t column, uint32_t k) {
  const int bits = std::to_integer<int>(at[place(k / 4, column) / 8]) >> (column % 2 * 4);
  return bits >> (k % 4) & 1;
}

}  // namespace kvik::cpu
