#include "backend/cpu/matmul/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul/packed_k_quants.h"
#include "backend/cpu/matmul/packed_small_quants.h"
#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/k_blocks.h"
#include "tensor/tensor_digest.h"

namespace kvik::cpu {
namespace {

constexpr size_t kScaleBytes = sizeof(uint16_t) * kPanelColumns;
constexpr size_t kQ8BlockBytes = kScaleBytes + size_t{kBlock32} * kPanelColumns;
constexpr size_t kQ4BlockBytes = kScaleBytes + size_t{kBlock32} * kPanelColumns / 2;

size_t panel_bytes(ElementType type, uint32_t k) {
  const size_t even_k = size_t{k} + k % 2;
  switch (type) {
    case ElementType::kF32:
      return even_k * kPanelColumns * 4;
    case ElementType::kF16:
    case ElementType::kBF16:
      return even_k * kPanelColumns * 2;
    case ElementType::kQ8_0:
      return k / kBlock32 * kQ8BlockBytes;
    case ElementType::kQ4_0:
      return k / kBlock32 * kQ4BlockBytes;
    default:
      if (is_k_quant(type)) return k_panel_bytes(type, k / kBlock256);
      CHECK(is_small_quant(type));
      return small_panel_bytes(type, k);
  }
}

// Where in a panel an element lies: whole elements for floats, the block's parts for quants.
size_t float_offset(ElementType type, uint32_t k, uint32_t column) {
  const size_t element = type == ElementType::kBF16
                             ? (size_t{k / 2} * kPanelColumns + column) * 2 + k % 2
                             : size_t{k} * kPanelColumns + column;
  return element * (type == ElementType::kF32 ? 4 : 2);
}

// kBytes of a row go where `stride` bytes further the next kBytes go.
template <size_t kBytes>
void pack_units(const std::byte* row, uint32_t n_units, std::byte* out, size_t stride) {
  for (uint32_t i = 0; i < n_units; ++i) std::memcpy(out + i * stride, row + i * kBytes, kBytes);
}

void pack_floats(ElementType type, const std::byte* row, uint32_t n_cols, uint32_t column,
                 std::byte* panel) {
  std::byte* out = panel + float_offset(type, 0, column);
  switch (type) {
    case ElementType::kF32:
      return pack_units<4>(row, n_cols, out, 4 * kPanelColumns);
    case ElementType::kF16:
      return pack_units<2>(row, n_cols, out, 2 * kPanelColumns);
    default:  // bf16, in pairs
      pack_units<4>(row, n_cols / 2, out, 4 * kPanelColumns);
      if (n_cols % 2 != 0) {
        std::memcpy(panel + float_offset(type, n_cols - 1, column), row + (n_cols - 1) * 2, 2);
      }
  }
}

// Four bytes of one column, in group g of a block.
std::byte* group_at(std::byte* block, uint32_t g, uint32_t column) {
  return block + kScaleBytes + (size_t{g} * kPanelColumns + column) * 4;
}

void pack_q8_0(const std::byte* row, uint32_t n_blocks, uint32_t column, std::byte* panel) {
  for (uint32_t b = 0; b < n_blocks; ++b) {
    BlockQ8_0 block;
    std::memcpy(&block, row + b * sizeof(block), sizeof(block));
    for (int8_t& quant : block.quants) quant = static_cast<int8_t>(quant ^ -128);
    std::byte* out = panel + b * kQ8BlockBytes;
    std::memcpy(out + column * sizeof(block.scale), &block.scale, sizeof(block.scale));
    for (uint32_t g = 0; g < 8; ++g) std::memcpy(group_at(out, g, column), block.quants + 4 * g, 4);
  }
}

void pack_q4_0(const std::byte* row, uint32_t n_blocks, uint32_t column, std::byte* panel) {
  for (uint32_t b = 0; b < n_blocks; ++b) {
    BlockQ4_0 block;
    std::memcpy(&block, row + b * sizeof(block), sizeof(block));
    std::byte* out = panel + b * kQ4BlockBytes;
    std::memcpy(out + column * sizeof(block.scale), &block.scale, sizeof(block.scale));
    for (uint32_t g = 0; g < 4; ++g) {
      std::memcpy(group_at(out, g, column), block.nibbles + 4 * g, 4);
    }
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
      case ElementType::kQ4_K:
      case ElementType::kQ5_K:
      case ElementType::kQ6_K:
        pack_k_quants(source.type, {row, source.row_bytes()}, column, out);
        break;
      case ElementType::kF32:
      case ElementType::kF16:
      case ElementType::kBF16:
        pack_floats(source.type, row, n_cols, column, out);
        break;
      default:
        pack_small_quants(source.type, {row, source.row_bytes()}, column, out);
        break;
    }
  }
}

float scale_of(const std::byte* block, uint32_t column) {
  uint16_t bits;
  std::memcpy(&bits, block + column * sizeof(bits), sizeof(bits));
  return f16_to_f32(bits);
}

int byte_of(const std::byte* block, size_t i, uint32_t column) {
  return std::to_integer<int>(block[kScaleBytes + (i / 4 * kPanelColumns + column) * 4 + i % 4]);
}

void unpack_q8_0(const std::byte* panel, uint32_t column, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const std::byte* block = panel + b * kQ8BlockBytes;
    const float scale = scale_of(block, column);
    for (size_t i = 0; i < kBlock32; ++i) {
      out[b * kBlock32 + i] = scale * static_cast<float>(byte_of(block, i, column) - 128);
    }
  }
}

void unpack_q4_0(const std::byte* panel, uint32_t column, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const std::byte* block = panel + b * kQ4BlockBytes;
    const float scale = scale_of(block, column);
    for (size_t i = 0; i < kBlock32 / 2; ++i) {
      const int nibbles = byte_of(block, i, column);
      out[b * kBlock32 + i] = scale * static_cast<float>((nibbles & 15) - 8);
      out[b * kBlock32 + 16 + i] = scale * static_cast<float>((nibbles >> 4) - 8);
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
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
    case ElementType::kQ6_K:
      return true;
    default:
      return is_small_quant(type);
  }
}

uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols) {
  const uint64_t n_panels = n_rows / kPanelColumns + (n_rows % kPanelColumns != 0);
  return n_panels * panel_bytes(type, static_cast<uint32_t>(n_cols));
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
    CHECK(source.gather.empty() || traits(source.type).block_elements > 1);
    const auto rows = static_cast<uint32_t>(source.n_rows);
    const uint32_t panels = rows / kPanelColumns + (rows % kPanelColumns != 0);
    parts_.push_back({source.type, n_rows_, rows, n_panels, panels,
                      panel_bytes(source.type, n_cols_), nullptr, keep_order(source.gather)});
    n_bytes += packed_bytes(source.type, source.n_rows, source.n_cols);
    n_panels += panels;
    n_rows_ += rows;
  }
  bytes_ = memory.allocate(n_bytes);
  std::byte* at = bytes_.data();
  static_assert(kPanelColumns == kDigestRows);
  std::vector<Hash128> digests(n_panels);
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    part.panels = at;
    pool.run(part.n_panels, [&](size_t panel, uint32_t) {
      digests[part.first_panel + panel] = digest_piece(stacked[i], panel);  // still in the cache
      pack_panel(stacked[i], static_cast<uint32_t>(panel), at + panel * part.panel_bytes);
    });
    at += part.n_panels * part.panel_bytes;
  }
  source_digest_ = digest_of_pieces(digests);
}

const uint32_t* CpuPackedMatrix::keep_order(std::span<const uint32_t> gather) {
  if (gather.empty()) return nullptr;
  CHECK(gather.size() == n_cols_);
  for (const std::vector<uint32_t>& order : orders_) {
    if (std::ranges::equal(order, gather)) return order.data();
  }
  std::vector<bool> is_taken(n_cols_);
  for (const uint32_t k : gather) {
    CHECK(k < n_cols_ && !is_taken[k]);
    is_taken[k] = true;
  }
  orders_.emplace_back(gather.begin(), gather.end());
  return orders_.back().data();
}

void CpuPackedMatrix::unpack_row(uint32_t row, float* out) const {
  CHECK(row < n_rows_);
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [row](const Part& p) { return row - p.first_row < p.n_rows; });
  CHECK(part->gather == nullptr);
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
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
    case ElementType::kQ6_K:
      unpack_k_quants(part->type, panel, column, values);
      return;
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
      unpack_floats(part->type, panel, column, values);
      return;
    default:
      unpack_small_quants(part->type, panel, column, values);
      return;
  }
}

}  // namespace kvik::cpu
