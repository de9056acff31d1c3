#pragma once

#include <cstdint>
#include <span>

#include "tensor/block_format.h"

// Searches for the numbers of blocks with the least error. A search evaluates candidates in sixteen
// lanes, for several blocks at once, and is compiled for every processor and for AVX-512. (For
// AVX2, GCC 12 generates code of half the speed of the baseline.)
namespace kvik {

// Blocks of one row; the last ones may be missing. Empty importance: all columns have equal weight.
struct SearchTask {
  const BlockFormat& format;
  std::span<const float> values, importance;
  BlockNumbers* out;  // n_blocks of the search
};

struct Search {
  size_t n_blocks;
  void (*baseline)(const SearchTask& task);
  void (*avx512)(const SearchTask& task);
};

extern const Search kScaleSearch;  // of 32 values: a scale,
extern const Search kLineSearch;   // a scale and a minimum,
extern const Search kTableSearch;  // a scale of kIq4Levels,
extern const Search kFp4Search;    // or a power of two of kFp4Levels
extern const Search kNvFp4Search;  // of 64 values: four E4M3 scales of kFp4Levels
// For super-blocks: factors of scales and minima, or of scales.
extern const Search kLinesOf16Search, kLinesOf32Search, kScalesOf16Search;

}  // namespace kvik
