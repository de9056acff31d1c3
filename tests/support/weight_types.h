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

// Weight types, and random blocks of them, for tests that cover all types.
namespace kvik::testing {

// Returns the readable types of element_types(), in their order.
inline std::vector<ElementType> weight_types() {
  std::vector<ElementType> types;
  for (const ElementTraits& t : element_types()) {
    if (can_dequantize(t.type)) types.push_back(t.type);
  }
  return types;
}

// Returns the readable types that are stored in blocks, that is without f32, f16 and bf16.
inline std::vector<ElementType> quantized_types() {
  std::vector<ElementType> types = weight_types();
  std::erase_if(types, [](ElementType type) { return traits(type).block_elements == 1; });
  return types;
}

// Fills a block with a small finite scale followed by random E4M3 values, none of which is NaN.
inline void make_random_floats(std::span<std::byte> block, std::mt19937& generator) {
  const float scale = std::ldexp(1.0f + static_cast<float>(generator() % 1000) / 1000, -9);
  std::memcpy(block.data(), &scale, sizeof(scale));
  for (std::byte& b : block.subspan(sizeof(scale))) {
    b = static_cast<std::byte>(generator());
    if (!is_e4m3_number(std::to_integer<uint8_t>(b))) b ^= std::byte{1};
  }
}

// Fills a block with random bytes that cover all valid values of scales, minima, zeros and levels.
inline void make_random_block(ElementType type, std::span<std::byte> block,
                              std::mt19937& generator) {
  const BlockFormat* format = block_format(type);
  if (!format) return make_random_floats(block, generator);
  for (std::byte& b : block) b = static_cast<std::byte>(generator());
  BlockNumbers numbers{};
  read_block(*format, block.data(), numbers);
  numbers.scale &= 0xbfff;  // no infinities: f16 below 2
  numbers.minimum &= 0xbfff;
  // Eight-bit scales exceed the range of f32, and 255 is NaN.
  if (format->packed.n_halves == 0) numbers.scale = (numbers.scale & 63) | 64;
  if (format->factor_to_f32) {  // unsigned E4M3
    for (uint8_t& factor : numbers.factors) factor &= 0x77;
  }
  if (traits(type).gguf_id == kNoGgufId) {  // groups of integers have a zero point
    numbers.zero = static_cast<uint16_t>(generator() % (format->top == 255 ? 257 : 17));
  }
  format->block.write(numbers, block.data());
}

// Fills a row of whole blocks with random bytes, after its scale if it begins with one.
inline void make_random_row(ElementType type, std::span<std::byte> row, std::mt19937& generator) {
  const ElementTraits& t = traits(type);
  if (const BlockFormat* format = block_format(type)) {
    BlockNumbers numbers{};
    set_row_scale(*format, std::ldexp(1.0f + static_cast<float>(generator() % 1000) / 1000, -9),
                  numbers);
    write_row_scale(*format, numbers, row.data());
  }
  for (size_t at = t.row_header_bytes; at < row.size(); at += t.block_bytes) {
    make_random_block(type, row.subspan(at, t.block_bytes), generator);
  }
}

}  // namespace kvik::testing
