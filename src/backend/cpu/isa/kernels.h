#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/kv_block.h"
#include "backend/layout/query_row.h"
#include "backend/ops/attention.h"
#include "backend/ops/rows.h"
#include "tensor/op_kinds.h"

// Kernels of the CPU backend for rows and attention, one table per instruction set. The scalar
// table is the specification. All tables give the same bits unless a comment says otherwise.
namespace kvik::cpu {

// Operations on one row of activations.
struct RowKernels {
  // Normalizes one group: out = x / sqrt(mean(x²) + eps) · weight. x, weight, out: [n]
  void (*rms_norm)(const float* x, const float* weight, uint32_t n, float eps, float* out);
  // out = (x − mean(x)) / sqrt(variance(x) + eps) · weight + bias. bias may be null, x may be out.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, uint32_t n, float eps,
                     float* out);
  // x += y
  void (*add)(float* x, const float* y, uint32_t n);
  // x += factor · y
  void (*add_scaled)(float* x, const float* y, float factor, uint32_t n);
  // x *= factor
  void (*scale)(float* x, float factor, uint32_t n);
  // x = cap · tanh(x / cap)
  void (*soft_cap)(float* x, float cap, uint32_t n);
  void (*gated_activation)(Activation activation, const float* gate, const float* up, uint32_t n,
                           float* out);
  // out = min(silu(gate), limit) · (up clamped to ±limit)
  void (*limited_silu)(const float* gate, const float* up, float limit, uint32_t n, float* out);
  // x = xIELU(x)
  void (*xielu)(float* x, const Xielu& parameters, uint32_t n);
  float (*mean_square)(const float* x, uint32_t n);
  float (*dot)(const float* x, const float* y, uint32_t n);
  // x = max(x − (mean(x) + cutoff · deviation(x)), 0)
  void (*cut_off)(float* x, float cutoff, uint32_t n);
  // Applies RoPE to one head in place. cos, sin: [n_pairs]
  void (*rope)(float* head, RopePairing pairing, const float* cos, const float* sin,
               uint32_t n_pairs);
};

// Query rows of one KV head, with all query heads that share it. The rows may belong to several
// sequences, in any order, if the page tables of these sequences agree on all pages that each row
// attends to. Either all rows have an open page, or none has.
struct AttendTask {
  KvBlockLayout layout;
  size_t block_offset;            // offset of this layer's and head's K in a page
  const std::byte* const* pages;  // token t is in pages[t / kPageTokens]
  const QueryRow* rows;
  uint32_t n_rows;
  uint32_t first_column;      // column of the group's first query head in a row of q
  uint32_t first_out_column;  // the same in a row of out
  uint32_t group;             // number of query heads per KV head, which are adjacent in q and out
  float scale;
  float soft_cap;
  uint32_t window;
  float* scratch;                // scratch_floats(layout, group) floats, for this thread only
  const float* sinks = nullptr;  // [group]; null: none
  size_t open_block_offset = 0;  // offset of this layer's and head's K in an open page
  // KV heads, of which block_offset and first_column are those of the first. More than one only in
  // attend_split(), if there is one row, V lies apart from K, and there are at most 48 query heads
  // in all. The partial results of each KV head follow those of the one before.
  uint32_t n_kv_heads = 1;
};

// K and V that the same thread will probably read next, for prefetching: n pages of one split.
struct KeysAhead {
  const std::byte* const* pages = nullptr;
  uint32_t n_pages = 0;
  size_t block_offset = 0;
};

// Partial results of a split that merge_splits() reads. They were computed for n_rows rows; those
// of the merged rows begin at row first_row.
struct SplitPart {
  float* floats;
  uint32_t n_rows;
  uint32_t first_row;
};

struct AttentionKernels {
  // Writes K and V of one token and KV head into their block of a page, except K by channel. k, v:
  // [head_dim]; v is null for latent K.
  void (*write_token)(const KvBlockLayout& layout, std::byte* block, uint32_t token_in_page,
                      const float* k, const float* v);
  // Writes K by channel of one KV head into its block of a page, from the open page.
  void (*write_channels)(const KvBlockLayout& layout, const std::byte* open_block,
                         std::byte* block);
  // Changes the basis of one head in place (HeadBasis). centers, factors: [head_dim], or null.
  void (*change_basis)(float* head, uint32_t head_dim, const float* centers, const float* factors,
                       HeadRotation rotation);
  // Computes the output of all rows of a task.
  void (*attend)(const AttendTask& task);
  // The same in two steps, so that several threads can share a task and several sequences a page.
  // attend_split() computes the partial results of one split. merge_splits() then merges all splits
  // in ascending order, in one or more calls; parts[0] belongs to split splits.begin. `merged`
  // keeps the results between calls, and the last call writes the rows' output. The bits are those
  // of attend().
  void (*attend_split)(const AttendTask& task, uint32_t split, const KeysAhead& ahead,
                       float* partial);
  void (*merge_splits)(const AttendTask& task, SplitRange splits, const SplitPart* parts,
                       float* merged);
  // Returns the number of floats of AttendTask::scratch.
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
namespace amx {  // its other kernels are those of avx512
extern const AttentionKernels kAttentionKernels;
}  // namespace amx

}  // namespace kvik::cpu
