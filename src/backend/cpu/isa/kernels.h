#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/kv_block.h"
#include "backend/layout/query_row.h"
#include "backend/ops/attention.h"
#include "backend/ops/rows.h"
#include "tensor/op_kinds.h"

// Inner loops of the CPU backend, one table per instruction set. The scalar one is the
// specification; all tables give the same bits unless a comment says otherwise.
namespace kvik::cpu {

// Loops over one row of activations.
struct RowKernels {
  // One group: out = x / sqrt(mean(x²) + eps) · weight, all [n].
  void (*rms_norm)(const float* x, const float* weight, uint32_t n, float eps, float* out);
  void (*add)(float* x, const float* y, uint32_t n);
  void (*add_scaled)(float* x, const float* y, float factor, uint32_t n);  // x += factor · y
  void (*scale)(float* x, float factor, uint32_t n);
  void (*soft_cap)(float* x, float cap, uint32_t n);
  void (*gated_activation)(Activation activation, const float* gate, const float* up, uint32_t n,
                           float* out);
  // One head in place; cos, sin: [n_pairs].
  void (*rope)(float* head, RopePairing pairing, const float* cos, const float* sin,
               uint32_t n_pairs);
};

// Query rows of one KV head, with all the query heads that share it. Rows of several sequences may
// be combined in any order if their page tables agree on all pages that each row attends to. Either
// all rows have an open page or none.
struct AttendTask {
  KvBlockLayout layout;
  size_t block_offset;            // offset of this layer's and head's K in a page
  const std::byte* const* pages;  // token t is in pages[t / kPageTokens]
  const QueryRow* rows;
  uint32_t n_rows;
  uint32_t first_column;      // of head 0 of the group in q
  uint32_t first_out_column;  // and in out
  uint32_t group;             // query heads per KV head, adjacent in q and out
  float scale;
  float soft_cap;
  uint32_t window;
  float* scratch;                // scratch_floats(layout, group) owned by this thread
  const float* sinks = nullptr;  // [group]; null: none
  size_t open_block_offset = 0;  // offset of this layer's and head's K in an open page
};

// K that the same thread is likely to read next, to be prefetched: n pages of one split.
struct KeysAhead {
  const std::byte* const* pages = nullptr;
  uint32_t n_pages = 0;
  size_t block_offset = 0;
};

// Position of a task's rows in the partial results of a split: starting at first_row of the n_rows
// of the task that computed it.
struct SplitPart {
  float* floats;
  uint32_t n_rows;
  uint32_t first_row;
};

struct AttentionKernels {
  // Writes K and V of one token and KV head into their page, except K by channel. k, v: [head_dim];
  // latent K has no v.
  void (*write_token)(const KvBlockLayout& layout, std::byte* block, uint32_t token_in_page,
                      const float* k, const float* v);
  // Writes K by channel of one KV head into its page, from its open page.
  void (*write_channels)(const KvBlockLayout& layout, const std::byte* open_block,
                         std::byte* block);
  // One head in place; centers, factors: [head_dim], or null.
  void (*change_basis)(float* head, uint32_t head_dim, const float* centers, const float* factors,
                       HeadRotation rotation);
  void (*attend)(const AttendTask& task);
  // Attention in two steps, so that several threads can share a task and several sequences a page:
  // first each split separately, then all of them are merged in ascending order, in any number of
  // calls; parts[0] is of splits.begin. `merged` keeps results between the calls; the last call
  // writes the rows' out. The bits are those of `attend`.
  void (*attend_split)(const AttendTask& task, uint32_t split, const KeysAhead& ahead,
                       float* partial);
  void (*merge_splits)(const AttendTask& task, SplitRange splits, const SplitPart* parts,
                       float* merged);
  size_t (*scratch_floats)(const KvBlockLayout& layout, uint32_t group);
};

namespace scalar {
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
}  // namespace scalar
namespace avx2 {
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
}  // namespace avx2
namespace avx512 {
extern const RowKernels kRowKernels;
extern const AttentionKernels kAttentionKernels;
}  // namespace avx512

}  // namespace kvik::cpu
