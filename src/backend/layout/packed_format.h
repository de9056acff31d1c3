#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/layout/panel.h"
#include "tensor/block_format.h"
#include "tensor/element_type.h"

// The layout of each type's weights in a panel of 32 columns, made from PackedLayout of its format;
// panel_matrix.h states the layouts in words.
namespace kvik {

// Some bits of the levels of 32 k: where a column's lie, and how they get there, onto zeros, and
// back. levels: [32]
struct PanelPart {
  uint32_t bits = 0, shift = 0;  // of a level
  size_t bytes = 0;              // of all columns; 0: there is none
  void (*put)(const uint8_t* levels, uint32_t column, std::byte* at) = nullptr;
  void (*get)(const std::byte* at, uint32_t column, uint8_t* levels) = nullptr;
};

struct PackedFormat {
  // Elements one by one, in pairs of neighbouring k, or blocks: a block of the file is a header of
  // f16, [n_halves][32], then for each 32 k bytes, [n][32], and the parts of levels. Of floats of 8
  // bits it is 256 times its scales, [32] f32, then the numbers, [k][32].
  enum class Layout : uint8_t { kNone, kElements, kPairs, kBlocks, kFp8 };

  ElementType type = {};
  Layout layout = Layout::kNone;
  PackedLayout packed = {};
  PanelPart parts[2] = {};

  size_t header_bytes() const { return packed.n_halves * sizeof(uint16_t) * kPanelColumns; }
  size_t block_bytes() const {
    return packed.bytes.n * kPanelColumns + parts[0].bytes + parts[1].bytes;
  }
  // Of a block of the file.
  size_t unit_bytes() const {
    if (layout == Layout::kFp8) return traits(type).block_bytes * size_t{kPanelColumns};
    return header_bytes() + traits(type).block_elements / kBlock32 * block_bytes();
  }
};

// Layout::kNone where weights of this type have no packed form.
const PackedFormat& packed_format(ElementType type);

// Bytes of 32 columns over k.
size_t panel_bytes(const PackedFormat& format, uint32_t k);

// A row of the file into its column of a panel of zeros, and back to what it stands for.
void pack_column(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* panel);
void unpack_column(const PackedFormat& format, const std::byte* panel, uint32_t column,
                   std::span<float> out);

}  // namespace kvik
