#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/layout/panel.h"
#include "tensor/block_format.h"
#include "tensor/element_type.h"

// A table of how the weights of each type lie in a panel of 32 columns; panel_matrix.h states the
// layouts in words.
namespace kvik {

// Some bits of the levels of 32 k: where a column's lie, and how they get there, onto zeros, and
// back. levels: [32]
struct PanelPart {
  size_t bytes = 0;  // of all columns; 0: there is none
  void (*put)(const uint8_t* levels, uint32_t column, std::byte* at) = nullptr;
  void (*get)(const std::byte* at, uint32_t column, uint8_t* levels) = nullptr;
};

// What a column has for 32 k, the b-th of a block, beside the levels: up to two bytes.
struct PanelBytes {
  uint32_t n = 0;
  void (*put)(const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) = nullptr;
  void (*get)(const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) = nullptr;
};

struct PackedFormat {
  // Elements one by one, in pairs of neighbouring k, or blocks: a block of the file is a header of
  // f16, [n_halves][32], then for each 32 k bytes, [n][32], and the parts of levels. Of floats of 8
  // bits it is 256 times its scales, [32] f32, then the numbers, [k][32].
  enum class Layout : uint8_t { kNone, kElements, kPairs, kBlocks, kFp8 };

  ElementType type = {};
  Layout layout = Layout::kNone;
  uint32_t n_halves = 1;  // scale, and minimum; 0: the scale is among the bytes
  PanelBytes bytes = {};
  PanelPart parts[2] = {};
  // Where a panel has other numbers than the file.
  void (*to_panel)(BlockNumbers& numbers) = nullptr;
  void (*from_panel)(BlockNumbers& numbers) = nullptr;

  size_t header_bytes() const { return n_halves * sizeof(uint16_t) * kPanelColumns; }
  size_t block_bytes() const { return bytes.n * kPanelColumns + parts[0].bytes + parts[1].bytes; }
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
