#include "backend/cpu/matmul/packed_k_quants.h"

#include <cstring>

#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/matmul/packed_levels.h"
#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/k_blocks.h"

namespace kvik::cpu {
namespace {

constexpr size_t kHalfBytes = sizeof(uint16_t) * kPanelColumns;  // f16 of every column
constexpr size_t kScaleBytes = 2 * kPanelColumns;                // small scales of 32 k

// A super-block of a panel: a header, then eight blocks of 32 k.
struct Shape {
  size_t header_bytes, block_bytes;
  size_t bytes() const { return header_bytes + 8 * block_bytes; }
};

Shape shape_of(ElementType type) {
  switch (type) {
    case ElementType::kQ4_K:
      return {2 * kHalfBytes, kScaleBytes + kPackedNibbleBytes};
    case ElementType::kQ5_K:
      return {2 * kHalfBytes, kScaleBytes + kPackedNibbleBytes + kPackedBitBytes};
    default:
      CHECK(type == ElementType::kQ6_K);
      return {kHalfBytes, kScaleBytes + kPackedNibbleBytes + kPackedPairBytes};
  }
}

// One column of one block of 32 k: where its small scales, its nibbles and its upper bits lie.
template <class Byte>
struct Column {
  Byte* block;
  uint32_t column;
  Byte& small_scale(uint32_t which) const { return block[which * kPanelColumns + column]; }
  Byte* nibbles() const { return block + kScaleBytes; }
  Byte* upper_bits() const { return nibbles() + kPackedNibbleBytes; }
};

int level_at(ElementType type, const Column<const std::byte>& from, uint32_t k) {
  const int low = nibble_at(from.nibbles(), from.column, k);
  if (type == ElementType::kQ5_K) return low | bit_at(from.upper_bits(), from.column, k) << 4;
  if (type == ElementType::kQ6_K) return low | pair_at(from.upper_bits(), from.column, k) << 4;
  return low;
}

template <class Block>
void pack_with_minima(const Block& block, Shape shape, uint32_t column, std::byte* out) {
  std::memcpy(out + 2 * column, &block.scale, 2);
  std::memcpy(out + kHalfBytes + 2 * column, &block.minimum, 2);
  const SubBlockScales scales = unpack_six_bits(block.scales);
  uint8_t levels[kBlock256];
  levels_of(block, levels);
  for (size_t s = 0; s < 8; ++s) {
    const Column<std::byte> to{out + shape.header_bytes + s * shape.block_bytes, column};
    to.small_scale(0) = static_cast<std::byte>(scales.scales[s]);
    to.small_scale(1) = static_cast<std::byte>(scales.minima[s]);
    put_nibbles(levels + 32 * s, column, to.nibbles());
    if constexpr (requires { block.fifth_bits; }) {
      put_bits(levels + 32 * s, 4, column, to.upper_bits());
    }
  }
}

void pack_q6_k(const BlockQ6K& block, Shape shape, uint32_t column, std::byte* out) {
  std::memcpy(out + 2 * column, &block.scale, 2);
  uint8_t levels[kBlock256];
  levels_of(block, levels);
  for (size_t s = 0; s < 8; ++s) {
    const Column<std::byte> to{out + shape.header_bytes + s * shape.block_bytes, column};
    to.small_scale(0) = static_cast<std::byte>(block.scales[2 * s]);
    to.small_scale(1) = static_cast<std::byte>(block.scales[2 * s + 1]);
    put_nibbles(levels + 32 * s, column, to.nibbles());
    put_pairs(levels + 32 * s, 4, column, to.upper_bits());
  }
}

template <class Block>
Block block_at(std::span<const std::byte> row, size_t index) {
  Block block;
  std::memcpy(&block, row.data() + index * sizeof(block), sizeof(block));
  return block;
}

float half_at(const std::byte* halves, uint32_t column) {
  uint16_t bits;
  std::memcpy(&bits, halves + 2 * column, sizeof(bits));
  return f16_to_f32(bits);
}

}  // namespace

bool is_k_quant(ElementType type) {
  return type == ElementType::kQ4_K || type == ElementType::kQ5_K || type == ElementType::kQ6_K;
}

size_t k_panel_bytes(ElementType type, uint32_t n_blocks) {
  return n_blocks * shape_of(type).bytes();
}

void pack_k_quants(ElementType type, std::span<const std::byte> row, uint32_t column,
                   std::byte* panel) {
  const Shape shape = shape_of(type);
  const size_t n_blocks = row.size() / traits(type).block_bytes;
  for (size_t b = 0; b < n_blocks; ++b) {
    std::byte* out = panel + b * shape.bytes();
    if (type == ElementType::kQ4_K)
      pack_with_minima(block_at<BlockQ4K>(row, b), shape, column, out);
    if (type == ElementType::kQ5_K)
      pack_with_minima(block_at<BlockQ5K>(row, b), shape, column, out);
    if (type == ElementType::kQ6_K) pack_q6_k(block_at<BlockQ6K>(row, b), shape, column, out);
  }
}

void unpack_k_quants(ElementType type, const std::byte* panel, uint32_t column,
                     std::span<float> out) {
  const Shape shape = shape_of(type);
  for (size_t i = 0; i < out.size(); ++i) {
    const std::byte* header = panel + i / kBlock256 * shape.bytes();
    const size_t in_block = i % kBlock256;
    const Column<const std::byte> from{
        header + shape.header_bytes + in_block / kBlock32 * shape.block_bytes, column};
    const auto k = static_cast<uint32_t>(in_block % kBlock32);
    const int level = level_at(type, from, k);
    if (type == ElementType::kQ6_K) {
      const auto small = static_cast<int8_t>(from.small_scale(k / 16));
      const float step = half_at(header, column) * small;
      out[i] = step * static_cast<float>(level - 32);
    } else {
      const float step = half_at(header, column) * std::to_integer<uint8_t>(from.small_scale(0));
      const float minimum =
          half_at(header + kHalfBytes, column) * std::to_integer<uint8_t>(from.small_scale(1));
      out[i] = step * static_cast<float>(level) - minimum;
    }
  }
}

}  // namespace kvik::cpu
