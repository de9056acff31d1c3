#include "backend/cpu/matmul/packed_small_quants.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/matmul/packed_levels.h"
#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/group_blocks.h"
#include "tensor/half.h"
#include "tensor/low_bit_blocks.h"

namespace kvik::cpu {
namespace {

constexpr size_t kHalfBytes = sizeof(uint16_t) * kPanelColumns;  // f16 of every column
constexpr size_t kByteBytes = kPanelColumns;                     // a byte of every column
constexpr size_t kFiveBitBytes = kPackedNibbleBytes + kPackedBitBytes;

// A block of the file in a panel: a header, then blocks of 32 k, which may begin with bytes of
// every column.
struct Shape {
  uint32_t unit;  // elements of the file's block
  size_t header_bytes, bytes_bytes, level_bytes;
  size_t block_bytes() const { return bytes_bytes + level_bytes; }
  size_t unit_bytes() const { return header_bytes + unit / kBlock32 * block_bytes(); }
};

Shape shape_of(ElementType type) {
  const uint32_t unit = traits(type).block_elements;
  switch (type) {
    case ElementType::kQ4_1:
      return {unit, 2 * kHalfBytes, 0, kPackedNibbleBytes};
    case ElementType::kQ5_0:
      return {unit, kHalfBytes, 0, kFiveBitBytes};
    case ElementType::kQ5_1:
      return {unit, 2 * kHalfBytes, 0, kFiveBitBytes};
    case ElementType::kIQ4_NL:
      return {unit, kHalfBytes, 0, kPackedNibbleBytes};
    case ElementType::kIQ4_XS:
      return {unit, kHalfBytes, kByteBytes, kPackedNibbleBytes};
    case ElementType::kQ2_K:
      return {unit, 2 * kHalfBytes, 2 * kByteBytes, kPackedPairBytes};
    case ElementType::kQ3_K:
      return {unit, kHalfBytes, 2 * kByteBytes, kPackedPairBytes + kPackedBitBytes};
    case ElementType::kInt4G32:
    case ElementType::kInt4G64:
    case ElementType::kInt4G128:
      return {unit, kHalfBytes, kByteBytes, kPackedNibbleBytes};
    default:
      CHECK(type == ElementType::kInt8G32 || type == ElementType::kInt8G128);
      return {unit, 2 * kHalfBytes, 0, size_t{kBlock32} * kPanelColumns};
  }
}

// One column of one unit.
template <class Byte>
struct Column {
  const Shape& shape;
  uint32_t column;
  Byte* unit;

  Byte* half(uint32_t which) const { return unit + which * kHalfBytes + 2 * column; }
  Byte& byte(uint32_t block, uint32_t which) const {
    return unit[shape.header_bytes + block * shape.block_bytes() + which * kByteBytes + column];
  }
  Byte* levels(uint32_t block) const {
    return unit + shape.header_bytes + block * shape.block_bytes() + shape.bytes_bytes;
  }
  float value_of_half(uint32_t which) const {
    uint16_t bits;
    std::memcpy(&bits, half(which), sizeof(bits));
    return f16_to_f32(bits);
  }
  int number(uint32_t block, uint32_t which) const {
    return std::to_integer<uint8_t>(byte(block, which));
  }
  void put_half(uint32_t which, uint16_t bits) const { std::memcpy(half(which), &bits, 2); }
  void put_number(uint32_t block, uint32_t which, int number) const {
    byte(block, which) = static_cast<std::byte>(number);
  }
};
using To = Column<std::byte>;
using From = Column<const std::byte>;

// Blocks of 32 with a scale, and a minimum where they have one.
template <class Block>
void put_block_of_32(const Block& block, const To& to) {
  to.put_half(0, block.scale);
  if constexpr (requires { block.minimum; }) to.put_half(1, block.minimum);
  uint8_t levels[kBlock32];
  for (size_t i = 0; i < kBlock32; ++i) levels[i] = block.nibbles[i % 16] >> (i / 16 * 4) & 15;
  put_nibbles(levels, to.column, to.levels(0));
  if constexpr (requires { block.fifth_bits; }) {
    uint8_t fifths[kBlock32];
    for (size_t i = 0; i < kBlock32; ++i) fifths[i] = block.fifth_bits[i / 8] >> (i % 8) & 1;
    put_bits(fifths, 0, to.column, to.levels(0) + kPackedNibbleBytes);
  }
}

void put_block(const BlockIQ4XS& block, const To& to) {
  to.put_half(0, block.scale);
  uint8_t scales[8], levels[kBlock256];
  scales_of(block, scales);
  levels_of(block, levels);
  for (uint32_t b = 0; b < 8; ++b) {
    to.put_number(b, 0, scales[b] - 32);
    put_nibbles(levels + 32 * b, to.column, to.levels(b));
  }
}

void put_block(const BlockQ2K& block, const To& to) {
  to.put_half(0, block.scale);
  to.put_half(1, block.minimum);
  uint8_t levels[kBlock256];
  levels_of(block, levels);
  for (uint32_t b = 0; b < 8; ++b) {
    for (uint32_t part = 0; part < 2; ++part) to.put_number(b, part, block.scales[2 * b + part]);
    put_pairs(levels + 32 * b, 0, to.column, to.levels(b));
  }
}

void put_block(const BlockQ3K& block, const To& to) {
  to.put_half(0, block.scale ^ 0x8000u);
  uint8_t scales[16], levels[kBlock256];
  scales_of(block, scales);
  levels_of(block, levels);
  for (uint32_t b = 0; b < 8; ++b) {
    for (uint32_t part = 0; part < 2; ++part) to.put_number(b, part, scales[2 * b + part]);
    put_pairs(levels + 32 * b, 0, to.column, to.levels(b));
    uint8_t is_below[kBlock32];
    for (uint32_t i = 0; i < kBlock32; ++i) is_below[i] = levels[32 * b + i] < 4;
    put_bits(is_below, 0, to.column, to.levels(b) + kPackedPairBytes);
  }
}

template <uint32_t kGroup>
void put_block(const BlockInt4<kGroup>& block, const To& to) {
  CHECK(block.zero <= 16);
  to.put_half(0, block.scale);
  for (uint32_t b = 0; b < kGroup / 32; ++b) {
    to.put_number(b, 0, 128 - block.zero);
    uint8_t levels[kBlock32];
    for (size_t i = 0; i < kBlock32; ++i) {
      levels[i] = block.nibbles[16 * b + i % 16] >> (i / 16 * 4) & 15;
    }
    put_nibbles(levels, to.column, to.levels(b));
  }
}

template <uint32_t kGroup>
void put_block(const BlockInt8<kGroup>& block, const To& to) {
  CHECK(block.zero <= 256);
  to.put_half(0, block.scale);
  to.put_half(1, f32_to_f16(static_cast<float>(128 - block.zero)));
  for (uint32_t k = 0; k < kGroup; k += 4) {
    std::byte* four = to.levels(k / 32) + (k % 32 / 4 * kPanelColumns + to.column) * 4;
    std::memcpy(four, block.quants + k, 4);
  }
}

template <class Block>
Block read_block(const std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof(block));
  return block;
}

void put_unit(ElementType type, const std::byte* bytes, const To& to) {
  switch (type) {
    case ElementType::kQ4_1:
      return put_block_of_32(read_block<BlockQ4_1>(bytes), to);
    case ElementType::kQ5_0:
      return put_block_of_32(read_block<BlockQ5_0>(bytes), to);
    case ElementType::kQ5_1:
      return put_block_of_32(read_block<BlockQ5_1>(bytes), to);
    case ElementType::kIQ4_NL:
      return put_block_of_32(read_block<BlockIQ4NL>(bytes), to);
    case ElementType::kIQ4_XS:
      return put_block(read_block<BlockIQ4XS>(bytes), to);
    case ElementType::kQ2_K:
      return put_block(read_block<BlockQ2K>(bytes), to);
    case ElementType::kQ3_K:
      return put_block(read_block<BlockQ3K>(bytes), to);
    case ElementType::kInt4G32:
      return put_block(read_block<BlockInt4<32>>(bytes), to);
    case ElementType::kInt4G64:
      return put_block(read_block<BlockInt4<64>>(bytes), to);
    case ElementType::kInt4G128:
      return put_block(read_block<BlockInt4<128>>(bytes), to);
    case ElementType::kInt8G32:
      return put_block(read_block<BlockInt8<32>>(bytes), to);
    default:
      return put_block(read_block<BlockInt8<128>>(bytes), to);
  }
}

// What element k of block b stands for.
float value_at(ElementType type, const From& from, uint32_t b, uint32_t k) {
  const std::byte* levels = from.levels(b);
  const uint32_t column = from.column;
  const float scale = from.value_of_half(0);
  const auto fifth = [&] { return bit_at(levels + kPackedNibbleBytes, column, k) << 4; };
  switch (type) {
    case ElementType::kQ4_1:
      return scale * static_cast<float>(nibble_at(levels, column, k)) + from.value_of_half(1);
    case ElementType::kQ5_0:
      return scale * static_cast<float>((nibble_at(levels, column, k) | fifth()) - 16);
    case ElementType::kQ5_1:
      return scale * static_cast<float>(nibble_at(levels, column, k) | fifth()) +
             from.value_of_half(1);
    case ElementType::kIQ4_NL:
      return scale * kIq4Levels[nibble_at(levels, column, k)];
    case ElementType::kIQ4_XS: {
      const float step = scale * static_cast<float>(static_cast<int8_t>(from.number(b, 0)));
      return step * kIq4Levels[nibble_at(levels, column, k)];
    }
    case ElementType::kQ2_K: {
      const int small = from.number(b, k / 16);
      const float step = scale * static_cast<float>(small & 15);
      const float minimum = from.value_of_half(1) * static_cast<float>(small >> 4);
      return step * static_cast<float>(pair_at(levels, column, k)) - minimum;
    }
    case ElementType::kQ3_K: {
      const float step = -scale * static_cast<float>(from.number(b, k / 16) - 32);
      const int is_below = bit_at(levels + kPackedPairBytes, column, k);
      return step * static_cast<float>(pair_at(levels, column, k) - 4 * is_below);
    }
    case ElementType::kInt8G32:
    case ElementType::kInt8G128: {
      const int quant = std::to_integer<int>(levels[(k / 4 * kPanelColumns + column) * 4 + k % 4]);
      return scale * (static_cast<float>(quant - 128) + from.value_of_half(1));
    }
    default:
      return scale * static_cast<float>(nibble_at(levels, column, k) + from.number(b, 0) - 128);
  }
}

}  // namespace

static_assert([] {
  for (int i = 0; i < 16; ++i) {
    if (kIq4Operands[i] != kIq4Levels[i] + 128) return false;
  }
  return true;
}());

bool is_small_quant(ElementType type) {
  switch (type) {
    case ElementType::kQ4_1:
    case ElementType::kQ5_0:
    case ElementType::kQ5_1:
    case ElementType::kIQ4_NL:
    case ElementType::kIQ4_XS:
    case ElementType::kQ2_K:
    case ElementType::kQ3_K:
      return true;
    default:
      return is_int_group(type);
  }
}

size_t small_panel_bytes(ElementType type, uint32_t k) {
  const Shape shape = shape_of(type);
  return k / shape.unit * shape.unit_bytes();
}

void pack_small_quants(ElementType type, std::span<const std::byte> row, uint32_t column,
                       std::byte* panel) {
  const Shape shape = shape_of(type);
  const size_t block_bytes = traits(type).block_bytes;
  for (size_t b = 0; b < row.size() / block_bytes; ++b) {
    put_unit(type, row.data() + b * block_bytes, {shape, column, panel + b * shape.unit_bytes()});
  }
}

void unpack_small_quants(ElementType type, const std::byte* panel, uint32_t column,
                         std::span<float> out) {
  const Shape shape = shape_of(type);
  for (size_t i = 0; i < out.size(); ++i) {
    const From from{shape, column, panel + i / shape.unit * shape.unit_bytes()};
    const auto in_unit = static_cast<uint32_t>(i % shape.unit);
    out[i] = value_at(type, from, in_unit / kBlock32, in_unit % kBlock32);
  }
}

}  // namespace kvik::cpu
