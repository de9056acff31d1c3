#pragma once

#include <cstdint>
#include <span>

#include "tensor/block_format.h"

// How the numbers of blocks are found that lose least. A search goes through candidates in sixteen
// lanes, for some blocks at once, and is compiled for every processor and for AVX-512. (For AVX2,
// GCC 12 makes code of half the speed of the first one's.)
namespace kvik {

// Some blocks of one row, the last ones perhaps missing; no importance: all columns count alike.
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
extern const Search kTableSearch;  // or a scale of kIq4Levels
extern const Search kFp4Search;    // or a power of two, of kFp4Levels
extern const Search kNvFp4Search;  // of 64: four scales in E4M3, of kFp4Levels
// Of super-blocks: factors of scales and minima, or of scales.
extern const Search kLinesOf16Search, kLinesOf32Search, kScalesOf16Search;

}  // namespace kvik
