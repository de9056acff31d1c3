#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "tensor/block_format.h"
#include "tensor/blocks.h"
#include "tensor/e4m3.h"
#include "tensor/element_type.h"

// The types that weights may have, and blocks of them, for tests of all types.
namespace kvik::testing {

// Returns the types of element_types() that can be read, in their order.
inline std::vector<ElementType> weight_types() {
  std::vector<ElementType> types;
  for (const ElementTraits& t : element_types()) {
    if (can_dequantize(t.type)) types.push_back(t.type);
  }
  return types;
}

// Returns the same without floats that lie one by one.
inline std::vector<ElementType> quantised_types() {
  std::vector<ElementType> types = weight_types();
  std::erase_if(types, [](ElementType type) { return traits(type).block_elements == 1; });
  return types;
}

// Fills a block of small floats under a scale that is a number; all bytes are numbers, too.
inline void make_random_floats(std::span<std::byte> block, std::mt19937& generator) {
  const float scale = std::ldexp(1.0f + static_cast<float>(generator() % 1000) / 1000, -9);
  std::memcpy(block.data(), &scale, sizeof(scale));
  for (std::byte& b : block.subspan(sizeof(scale))) {
    b = static_cast<std::byte>(generator());
    if (!is_e4m3_number(std::to_integer<uint8_t>(b))) b ^= std::byte{1};
  }
}

// Fills a block with bytes that take scales, minima, zeros and levels to all the values they can
// have.
inline void make_random_block(ElementType type, std::span<std::byte> block,
                              std::mt19937& generator) {
  const BlockFormat* format = block_format(type);
  if (!format) return make_random_floats(block, generator);
  for (std::byte& b : block) b = static_cast<std::byte>(generator());
  BlockNumbers numbers;
  read_block(*format, block.data(), numbers);
  numbers.scale &= 0xbfff;  // no infinities: f16 below 2
  numbers.minimum &= 0xbfff;
  // Scales of eight bits reach past what f32 holds, and 255 is no number.
  if (format->to_f32 != f16_to_f32) numbers.scale = (numbers.scale & 63) | 64;
  if (format->factor_to_f32) {  // E4M3 without a sign
    for (uint8_t& factor : numbers.factors) factor &= 0x77;
  }
  if (traits(type).gguf_id == kNoGgufId) {  // groups of integers have a zero
    numbers.zero = static_cast<uint16_t>(generator() % (format->top == 255 ? 257 : 17));
  }
  format->block.write(numbers, block.data());
}

}  // namespace kvik::testing
