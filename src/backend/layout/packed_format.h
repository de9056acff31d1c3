#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/layout/panel.h"
#include "tensor/block_format.h"
#include "tensor/element_type.h"

// Layout of each weight type in a panel of 32 columns, derived from PackedLayout of its format;
// panel_matrix.h describes the layouts in words.
namespace kvik {

// Some bits of the levels of 32 k: position of a column's bits, and functions to write them onto
// zeros and to read them back. levels: [32]
struct PanelPart {
  uint32_t bits = 0, shift = 0;  // of a level
  size_t bytes = 0;              // of all columns; 0: unused
  void (*put)(const uint8_t* levels, uint32_t column, std::byte* at) = nullptr;
  void (*get)(const std::byte* at, uint32_t column, uint8_t* levels) = nullptr;
};

struct PackedFormat {
  // Single elements, pairs of adjacent k, or blocks: a block of the file is a header of f16,
  // [n_halves][32], then bytes [n][32] and the parts of levels per 32 k. 8-bit floats have 256
  // times their scales, [32] f32, then the numbers, [k][32].
  enum class Layout : uint8_t { kNone, kElements, kPairs, kBlocks, kFp8 };

  ElementType type = {};
  Layout layout = Layout::kNone;
  PackedLayout packed = {};
  PanelPart parts[2] = {};

  size_t header_bytes() const { return packed.n_halves * sizeof(uint16_t) * kPanelColumns; }
  size_t block_bytes() const {
    return packed.bytes.n * kPanelColumns + parts[0].bytes + parts[1].bytes;
  }
  // Bytes of a block of the file.
  size_t unit_bytes() const {
    if (layout == Layout::kFp8) return traits(type).block_bytes * size_t{kPanelColumns};
    return header_bytes() + traits(type).block_elements / kBlock32 * block_bytes();
  }
};

// Layout::kNone if weights of this type have no packed form.
const PackedFormat& packed_format(ElementType type);

// Returns the bytes of 32 columns over k.
size_t panel_bytes(const PackedFormat& format, uint32_t k);

// Writes a row of the file into its column of a zeroed panel, and converts it back to values.
void pack_column(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* panel);
void unpack_column(const PackedFormat& format, const std::byte* panel, uint32_t column,
                   std::span<float> out);

}  // namespace kvik
