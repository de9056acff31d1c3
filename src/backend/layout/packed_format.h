#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/layout/panel.h"
#include "tensor/block_format.h"
#include "tensor/element_type.h"

// Layout of each weight type in a panel of 32 columns, derived from the PackedLayout of its format.
// panel_matrix.h describes the layouts.
namespace kvik {

// One plane of a block's levels: some bits of the levels of 32 k. Holds the functions that write a
// column's bits into a zeroed plane and read them back. levels: [32]
struct PanelPart {
  uint32_t bits = 0, shift = 0;  // number of bits, and the lowest of them in a level
  size_t bytes = 0;              // of all columns; 0: the plane is not used
  void (*put)(const uint8_t* levels, uint32_t column, std::byte* at) = nullptr;
  void (*get)(const std::byte* at, uint32_t column, uint8_t* levels) = nullptr;
};

struct PackedFormat {
  // kElements, kPairs: single elements, or pairs of adjacent k. kBlocks: each block of the file is
  // a header of f16, [n_halves][32], or of f32, [32] (the row's scale); then, for each 32 k, bytes
  // [n][32] and the planes of levels, or codes (tensor/packed_codes.h). kFp8: each block is its
  // scales times 256, [32] f32, then the numbers, [k][32].
  enum class Layout : uint8_t { kNone, kElements, kPairs, kBlocks, kFp8 };

  ElementType type = {};
  Layout layout = Layout::kNone;
  PackedLayout packed = {};
  PanelPart parts[2] = {};

  size_t header_bytes() const { return packed.n_halves * sizeof(uint16_t) * kPanelColumns; }
  size_t block_bytes() const {
    return packed.bytes.n * kPanelColumns + parts[0].bytes + parts[1].bytes + packed.codes.bytes();
  }
  // Returns the bytes of a block of the file for 32 columns.
  size_t unit_bytes() const {
    if (layout == Layout::kFp8) return traits(type).block_bytes * size_t{kPanelColumns};
    return header_bytes() + traits(type).block_elements / kBlock32 * block_bytes();
  }
};

// Returns the format of a type; its layout is kNone if weights of the type have no packed form.
const PackedFormat& packed_format(ElementType type);

// Returns the bytes of a panel: 32 columns over all of k.
size_t panel_bytes(const PackedFormat& format, uint32_t k);

// Writes a row of the file into its column of a zeroed panel. Returns false if an element or a
// scale of the row is not a finite number; scales of eight bits are not checked.
bool pack_column(const PackedFormat& format, std::span<const std::byte> row, uint32_t column,
                 std::byte* panel);
// Converts a column back to floats.
void unpack_column(const PackedFormat& format, const std::byte* panel, uint32_t column,
                   std::span<float> out);

}  // namespace kvik
