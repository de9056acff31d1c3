#include "tensor/group_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/half.h"

namespace kvik {
namespace {

template <uint32_t kGroup>
int quant_at(const BlockInt4<kGroup>& block, size_t i) {
  return block.nibbles[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15;
}

template <uint32_t kGroup>
int quant_at(const BlockInt8<kGroup>& block, size_t i) {
  return block.quants[i];
}

template <uint32_t kGroup>
void put_quant(BlockInt4<kGroup>& block, size_t i, int quant) {
  block.nibbles[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(quant << (i % 32 / 16 * 4));
}

template <uint32_t kGroup>
void put_quant(BlockInt8<kGroup>& block, size_t i, int quant) {
  block.quants[i] = static_cast<uint8_t>(quant);
}

template <class Block, uint32_t kGroup>
void dequantize(const std::byte* bytes, std::span<float> out) {
  Block block;
  for (size_t b = 0; b < out.size() / kGroup; ++b) {
    std::memcpy(&block, bytes + b * sizeof(block), sizeof(block));
    const float scale = f16_to_f32(block.scale);
    for (size_t i = 0; i < kGroup; ++i) {
      out[b * kGroup + i] = scale * static_cast<float>(quant_at(block, i) - block.zero);
    }
  }
}

template <class Block, uint32_t kGroup>
void quantize(std::span<const float> values, float top, std::byte* out) {
  for (size_t b = 0; b < values.size() / kGroup; ++b) {
    const auto x = values.subspan(b * kGroup, kGroup);
    const float low = std::min(*std::ranges::min_element(x), 0.0f);
    const float high = std::max(*std::ranges::max_element(x), 0.0f);
    const float scale = (high - low) / top;
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    const float zero = std::nearbyint(-low * inverse);
    Block block{};
    block.scale = f32_to_f16(scale);
    block.zero = static_cast<decltype(block.zero)>(zero);
    for (size_t i = 0; i < kGroup; ++i) {
      const float level = std::nearbyint(x[i] * inverse) + zero;
      put_quant(block, i, static_cast<int>(std::clamp(level, 0.0f, top)));
    }
    std::memcpy(out + b * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace

bool is_int_group(ElementType type) {
  return type >= ElementType::kInt4G32 && type <= ElementType::kInt8G128;
}

void dequantize_int_groups(ElementType type, const std::byte* bytes, std::span<float> out) {
  switch (type) {
    case ElementType::kInt4G32:
      return dequantize<BlockInt4<32>, 32>(bytes, out);
    case ElementType::kInt4G64:
      return dequantize<BlockInt4<64>, 64>(bytes, out);
    case ElementType::kInt4G128:
      return dequantize<BlockInt4<128>, 128>(bytes, out);
    case ElementType::kInt8G32:
      return dequantize<BlockInt8<32>, 32>(bytes, out);
    default:
      CHECK(type == ElementType::kInt8G128);
      return dequantize<BlockInt8<128>, 128>(bytes, out);
  }
}

void quantize_int_groups(ElementType type, std::span<const float> values, std::byte* out) {
  switch (type) {
    case ElementType::kInt4G32:
      return quantize<BlockInt4<32>, 32>(values, 15, out);
    case ElementType::kInt4G64:
      return quantize<BlockInt4<64>, 64>(values, 15, out);
    case ElementType::kInt4G128:
      return quantize<BlockInt4<128>, 128>(values, 15, out);
    case ElementType::kInt8G32:
      return quantize<BlockInt8<32>, 32>(values, 255, out);
    default:
      CHECK(type == ElementType::kInt8G128);
      return quantize<BlockInt8<128>, 128>(values, 255, out);
  }
}

}  // namespace kvik
