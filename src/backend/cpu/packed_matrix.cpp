#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace kvik::cpu {
namespace {

constexpr size_t kQ8Quants = size_t{kBlock32} * kPanelColumns;
constexpr size_t kQ4Quants = kQ8Quants / 2;
constexpr size_t kScales = sizeof(uint16_t) * kPanelColumns;

size_t panel_bytes(ElementType type, uint32_t k) {
  const auto unpadded = [&]() -> size_t {
    switch (type) {
      case ElementType::kF32:
        return (size_t{k} + k % 2) * kPanelColumns * 4;
      case ElementType::kF16:
      case ElementType::kBF16:
        return (size_t{k} + k % 2) * kPanelColumns * 2;
      case ElementType::kQ8_0:
        return k / kBlock32 * (kQ8Quants + kScales);
      case ElementType::kQ4_0:
        return k / kBlock32 * (kQ4Quants + kScales);
      default:
        CHECK(can_pack(type));
        return 0;
    }
  };
  return (unpadded() + 63) / 64 * 64;
}

// Where in a panel an element lies: whole elements for floats, the block's parts for quants.
size_t float_offset(ElementType type, uint32_t k, uint32_t column) {
  const size_t element = type == ElementType::kBF16
                             ? (size_t{k / 2} * kPanelColumns + column) * 2 + k % 2
                             : size_t{k} * kPanelColumns + column;
  return element * (type == ElementType::kF32 ? 4 : 2);
}

void pack_floats(ElementType type, const std::byte* row, uint32_t n_cols, uint32_t column,
                 std::byte* panel) {
  const size_t size = traits(type).block_bytes;
  for (uint32_t k = 0; k < n_cols; ++k) {
    std::memcpy(panel + float_offset(type, k, column), row + k * size, size);
  }
}

void pack_q8_0(const std::byte* row, uint32_t n_blocks, uint32_t column, std::byte* panel) {
  std::byte* scales = panel + n_blocks * kQ8Quants + column * sizeof(uint16_t);
  for (uint32_t b = 0; b < n_blocks; ++b) {
    BlockQ8_0 block;
    std::memcpy(&block, row + b * sizeof(block), sizeof(block));
    for (int8_t& quant : block.quants) quant = static_cast<int8_t>(quant ^ -128);
    for (uint32_t g = 0; g < kBlock32 / 4; ++g) {
      std::memcpy(panel + b * kQ8Quants + (g * kPanelColumns + column) * 4, block.quants + 4 * g,
                  4);
    }
    std::memcpy(scales + b * kScales, &block.scale, sizeof(block.scale));
  }
}

void pack_q4_0(const std::byte* row, uint32_t n_blocks, uint32_t column, std::byte* panel) {
  std::byte* scales = panel + n_blocks * kQ4Quants + column * sizeof(uint16_t);
  for (uint32_t b = 0; b < n_blocks; ++b) {
    BlockQ4_0 block;
    std::memcpy(&block, row + b * sizeof(block), sizeof(block));
    for (uint32_t v = 0; v < 4; ++v) {
      std::memcpy(panel + b * kQ4Quants + (v * kPanelColumns + column) * 4, block.nibbles + 4 * v,
                  4);
    }
    std::memcpy(scales + b * kScales, &block.scale, sizeof(block.scale));
  }
}

void pack_panel(const TensorView& source, uint32_t panel, std::byte* out) {
  const auto n_cols = static_cast<uint32_t>(source.n_cols);
  const uint64_t first = uint64_t{panel} * kPanelColumns;
  const auto n = static_cast<uint32_t>(std::min<uint64_t>(kPanelColumns, source.n_rows - first));
  for (uint32_t column = 0; column < n; ++column) {
    const std::byte* row = source.bytes.data() + (first + column) * source.row_bytes();
    switch (source.type) {
      case ElementType::kQ8_0:
        pack_q8_0(row, n_cols / kBlock32, column, out);
        break;
      case ElementType::kQ4_0:
        pack_q4_0(row, n_cols / kBlock32, column, out);
        break;
      default:
        pack_floats(source.type, row, n_cols, column, out);
        break;
    }
  }
}

float load_scale(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return f16_to_f32(bits);
}

void unpack_q8_0(const std::byte* panel, uint32_t column, std::span<float> out) {
  const size_t n_blocks = out.size() / kBlock32;
  const std::byte* scales = panel + n_blocks * kQ8Quants + column * sizeof(uint16_t);
  for (size_t k = 0; k < out.size(); ++k) {
    const auto byte = std::to_integer<int>(panel[(k / 4 * kPanelColumns + column) * 4 + k % 4]);
    out[k] = load_scale(scales + k / kBlock32 * kScales) * static_cast<float>(byte - 128);
  }
}

void unpack_q4_0(const std::byte* panel, uint32_t column, std::span<float> out) {
  const size_t n_blocks = out.size() / kBlock32;
  const std::byte* scales = panel + n_blocks * kQ4Quants + column * sizeof(uint16_t);
  for (size_t b = 0; b < n_blocks; ++b) {
    const float scale = load_scale(scales + b * kScales);
    for (size_t i = 0; i < 16; ++i) {
      const size_t at = b * kQ4Quants + (i / 4 * kPanelColumns + column) * 4 + i % 4;
      const auto byte = std::to_integer<int>(panel[at]);
      out[b * kBlock32 + i] = scale * static_cast<float>((byte & 15) - 8);
      out[b * kBlock32 + 16 + i] = scale * static_cast<float>((byte >> 4) - 8);
    }
  }
}

void unpack_floats(ElementType type, const std::byte* panel, uint32_t column,
                   std::span<float> out) {
  for (uint32_t k = 0; k < out.size(); ++k) {
    const std::byte* at = panel + float_offset(type, k, column);
    if (type == ElementType::kF32) {
      std::memcpy(&out[k], at, sizeof(float));
    } else {
      uint16_t bits;
      std::memcpy(&bits, at, sizeof(bits));
      out[k] = type == ElementType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
  }
}

}  // namespace

bool can_pack(ElementType type) {
  switch (type) {
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kQ8_0:
    case ElementType::kQ4_0:
      return true;
    default:
      return false;
  }
}

CpuPackedMatrix::CpuPackedMatrix(std::span<const TensorView> stacked, Memory& memory,
                                 ThreadPool& pool) {
  CHECK(!stacked.empty());
  n_cols_ = static_cast<uint32_t>(stacked.front().n_cols);
  size_t n_bytes = 0;
  uint32_t n_panels = 0;
  for (const TensorView& source : stacked) {
    CHECK(source.n_cols == n_cols_ && source.n_rows <= UINT32_MAX - n_rows_);
    CHECK(n_cols_ % traits(source.type).block_elements == 0);
    CHECK(source.bytes.size() == source.n_rows * source.row_bytes());
    const auto rows = static_cast<uint32_t>(source.n_rows);
    const uint32_t panels = rows / kPanelColumns + (rows % kPanelColumns != 0);
    parts_.push_back(
        {source.type, n_rows_, rows, n_panels, panels, panel_bytes(source.type, n_cols_), nullptr});
    n_bytes += panels * parts_.back().panel_bytes;
    n_panels += panels;
    n_rows_ += rows;
  }
  bytes_ = memory.allocate(n_bytes);
  std::byte* at = bytes_.data();
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    part.panels = at;
    pool.run(part.n_panels, [&](size_t panel, uint32_t) {
      pack_panel(stacked[i], static_cast<uint32_t>(panel), at + panel * part.panel_bytes);
    });
    at += part.n_panels * part.panel_bytes;
  }
}

void CpuPackedMatrix::unpack_row(uint32_t row, float* out) const {
  CHECK(row < n_rows_);
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [row](const Part& p) { return row - p.first_row < p.n_rows; });
  const uint32_t in_part = row - part->first_row;
  const std::byte* panel = part->panels + in_part / kPanelColumns * part->panel_bytes;
  const uint32_t column = in_part % kPanelColumns;
  const std::span<float> values(out, n_cols_);
  switch (part->type) {
    case ElementType::kQ8_0:
      unpack_q8_0(panel, column, values);
      return;
    case ElementType::kQ4_0:
      unpack_q4_0(panel, column, values);
      return;
    default:
      unpack_floats(part->type, panel, column, values);
      return;
  }
}

}  // namespace kvik::cpu
