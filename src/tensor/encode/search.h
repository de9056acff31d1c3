#pragma once

#include <cstdint>
#include <span>

#include "tensor/block_format.h"

// Searches for the numbers of blocks with the least error. A search evaluates candidates in sixteen
// lanes, for several blocks at once, and is compiled for every processor and for AVX-512. (For
// AVX2, GCC 12 generates code of half the speed of the baseline.)
namespace kvik {

// Consecutive blocks of one row, up to n_blocks of the search; there may be fewer at the end of the
// row. If importance is empty, all columns have equal weight.
struct SearchTask {
  const BlockFormat& format;
  std::span<const float> values, importance;
  BlockNumbers* out;  // n_blocks numbers, also if there are fewer blocks
};

struct Search {
  size_t n_blocks;
  void (*baseline)(const SearchTask& task);
  void (*avx512)(const SearchTask& task);
};

extern const Search kScaleSearch;  // blocks of 32 values with a scale
extern const Search kLineSearch;   // blocks of 32 values with a scale and a minimum
extern const Search kTableSearch;  // blocks of 32 values with a scale of kIq4Levels
extern const Search kFp4Search;    // blocks of 32 values with a power of two as scale of kFp4Levels
extern const Search kNvFp4Search;  // blocks of 64 values with four E4M3 scales of kFp4Levels
// Super-blocks with integer factors of scales and minima, or of scales only, per sub-block of 16 or
// 32.
extern const Search kLinesOf16Search, kLinesOf32Search, kScalesOf16Search;
extern const Search kCodeSearch;  // super-blocks with a codebook
extern const Search kSignSearch;  // super-blocks of −1, 0 and 1 with a scale

}  // namespace kvik
