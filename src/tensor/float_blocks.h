#pragma once

#include <cstdint>

// Blocks of 8-bit floats with a float scale: the in-memory form of FP8 tensors of folders. No file
// contains such blocks. Files store the scales in a separate grid with one scale per block of rows
// and columns; here each row has its own copy.
namespace kvik {

template <uint32_t kColumns>
struct BlockFp8 {  // scale · number, rounded once
  float scale;
  uint8_t numbers[kColumns];  // E4M3
};
static_assert(sizeof(BlockFp8<128>) == 132);
static_assert(sizeof(BlockFp8<32>) == 36);

}  // namespace kvik
