#pragma once

#include <cstdint>
#include <span>

#include "tensor/block_format.h"

// Searches for the numbers of blocks with the least error. A search evaluates candidates in sixteen
// lanes, for several blocks at once, and is compiled for every processor and for AVX-512. (For
// AVX2, GCC 12 generates code of half the speed of the baseline.)
namespace kvik {

// The scale that the blocks of a row share. If it is not known, a search only looks for the scale
// of a sub-block with the largest magnitude; else it adds to the sums.
struct RowUnit {
  bool is_known = false;
  float largest = 0;
  float unit = 0;
  // Σ w q x and Σ w q² of levels times factors, and Σ w (unit · q − x)² without a constant term.
  float wqx = 0, wqq = 0, error = 0;
};

inline constexpr size_t kFittedScales = 32;

// Consecutive blocks of one row, up to n_blocks of the search; there may be fewer at the end of the
// row. If importance is empty, all columns have equal weight.
struct SearchTask {
  const BlockFormat& format;
  std::span<const float> values, importance;
  BlockNumbers* out;       // n_blocks numbers, also if there are fewer blocks
  RowUnit* row = nullptr;  // of formats with a scale per row
  // [kFittedScales]: the first search of a row's blocks keeps the scales here that the next ones
  // use again; null: there is one search only
  float* fitted = nullptr;
};

struct Search {
  size_t n_blocks;
  void (*baseline)(const SearchTask& task);
  void (*avx512)(const SearchTask& task);
};

extern const Search kScaleSearch;      // blocks of 32 values with a scale
extern const Search kScaleOf64Search;  // the same, of 64 values
extern const Search kBitSearch;        // blocks of 128 values that are −1 or 1 times a scale
extern const Search kLineSearch;       // blocks of 32 values with a scale and a minimum
extern const Search kTableSearch;      // blocks of 32 values with a scale of kIq4Levels
extern const Search kFp4Search;    // blocks of 32 values with a power of two as scale of kFp4Levels
extern const Search kNvFp4Search;  // blocks of 64 values with four E4M3 scales of kFp4Levels
// Super-blocks with integer factors of scales and minima, or of scales only, per sub-block of 16 or
// 32.
extern const Search kLinesOf16Search, kLinesOf32Search, kScalesOf16Search;
// Super-blocks with integer factors per sub-block of 16 or 32, and a table of levels of N bits that
// can be shifted.
extern const Search kTable2Of16Search, kTable3Of16Search, kTable4Of16Search, kTable5Of16Search;
extern const Search kTable6Of16Search;
extern const Search kPairsOf32Search;       // with pairs of levels
extern const Search kEvenTable4Of32Search;  // with an even number of bits in each four levels
extern const Search kTable2Of32Search, kTable3Of32Search, kTable4Of32Search, kTable5Of32Search;
extern const Search kCodeSearch;  // super-blocks with a codebook
extern const Search kSignSearch;  // super-blocks of −1, 0 and 1 with a scale

}  // namespace kvik
