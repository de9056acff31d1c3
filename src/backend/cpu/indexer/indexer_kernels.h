#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kv_type.h"

// Kernels of indexers on the CPU (ops/indexer.h), one table per instruction set. All tables give
// the same bits:
//   dot[h] = Σd q[h][d] · k[t][d]          a chain of fma over d ascending, from 0
//   score[t] = Σh weight[h] · max(dot[h], 0)   a chain of fma over h ascending, from 0
// Tokens are in lanes, so that a score does not depend on other tokens. If heads select on their
// own, dot[h] is the score of token t for head h.
namespace kvik::cpu {

// Scores of one row for all tokens of some pages.
struct ScoreTask {
  KvType type;
  uint32_t dim;
  uint32_t n_heads;
  const float* q;        // [n_heads, dim]
  const float* weights;  // [n_heads]
  const std::byte* const* pages;
  uint32_t n_pages;
  size_t offset;       // of the index keys in a page
  uint32_t page_keys;  // keys of a page: kPageTokens, or up to half as many
  float* scores;       // [n_pages · page_keys]
};

// Scores of one row by each head for the tokens of some pages. Tokens from n_tokens on, counted
// from the first page, are left out: their score is minus infinity.
struct HeadScoreTask {
  KvType type;
  uint32_t dim;
  uint32_t n_heads;
  const float* q;  // [n_heads, dim]
  const std::byte* const* pages;
  uint32_t n_pages;
  size_t offset;  // of the index keys in a page
  uint32_t n_tokens;
  bool pools;     // stores the highest score of each page instead of all scores
  float* scores;  // [n_heads] rows, `stride` floats apart, of a float per page or token
  size_t stride;
};

struct IndexerKernels {
  // Writes the i-th of the index keys of a page. key: [dim]
  void (*write_key)(KvType type, uint32_t dim, std::byte* keys, uint32_t page_keys, uint32_t i,
                    const float* key);
  void (*score)(const ScoreTask& task);
  void (*score_heads)(const HeadScoreTask& task);
};

namespace scalar {
extern const IndexerKernels kIndexerKernels;
}
namespace avx2 {
extern const IndexerKernels kIndexerKernels;
}
namespace avx512 {
extern const IndexerKernels kIndexerKernels;
}

}  // namespace kvik::cpu
