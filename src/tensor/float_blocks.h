#pragma once

#include <cstdint>

// Blocks of small floats under a float, the form that FP8 tensors of folders take in memory once
// their file is read. No file holds them: there, scales lie in a grid of their own, one for so many
// rows and columns, and each row of a matrix gets those that are its own.
namespace kvik {

template <uint32_t kColumns>
struct BlockFp8 {  // scale · number, rounded once
  float scale;
  uint8_t numbers[kColumns];  // E4M3
};
static_assert(sizeof(BlockFp8<128>) == 132);
static_assert(sizeof(BlockFp8<32>) == 36);

}  // namespace kvik
