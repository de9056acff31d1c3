#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"

// Attention over pages in device memory. Pages have the same layout as on the CPU (KvBlockLayout).
// The arithmetic of a pair of a row and a query head gives the same bits as
// backend/cpu/attention/attention.inl and attention_int8.inl. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kPageTokens = 32;
inline constexpr uint32_t kChannelTokens = 16;
inline constexpr uint32_t kSplitTokens = 512;
inline constexpr uint32_t kMaxHeadDim = 1024;
inline constexpr uint32_t kMaxKeyGroups = 8;

enum class PageType : uint8_t { kF32, kBF16, kInt8, kInt8Int4, kInt4 };
inline constexpr uint32_t kNumPageTypes = 5;

// KvBlockLayout of a KV head's block in a page, as plain numbers for kernels.
struct PageLayout {
  PageType type;
  uint32_t head_dim;
  uint32_t latent_dim;            // 0: K and V are separate
  uint32_t value_dim;             // of V
  uint32_t key_dims, value_dims;  // as stored in a page, with padding
  bool has_int4_keys, has_int4_values;
  bool rotates_keys, keys_by_channel;         // exactly one of the two if K is int4
  uint32_t key_group_dims, value_group_dims;  // dimensions that share a scale
  uint32_t n_key_groups, n_value_groups;
  // Bytes from a head's K to its V, of its V, and to the next head's K.
  size_t value_offset, v_bytes, head_stride;
};

// Row `row` of the batch, and its position in its sequence.
struct PlacedRow {
  uint32_t row, position;
  uint32_t first_page;  // index of the sequence's first page in the list of pages
};

// Writes the K and V of all rows. Grid: [KV heads, rows], kAttendThreads.
struct WriteTask {
  PageLayout layout;
  const PlacedRow* rows;
  uint32_t n_rows;
  const uint8_t* const* pages;  // pages that are written to
  size_t first_block;           // bytes of a page before the layer's first head
  const float *k, *v;           // v is null for latent K
  size_t k_stride, v_stride;
};

// Writes K by channel of full pages, from their open pages. Grid: [KV heads, pages],
// kAttendThreads.
struct ChannelTask {
  PageLayout layout;
  const uint8_t* const* pages;
  const uint8_t* const* open_pages;
  uint32_t n_pages;
  // Bytes of a page, and of an open page, before the layer's first head.
  size_t first_block, first_open_block;
  size_t open_head_stride;
};

// Changes the basis of heads in place (HeadBasis). Grid: [heads, rows], kAttendThreads.
struct BasisTask {
  float* x;
  size_t stride;
  uint32_t n_rows, head_dim, group;
  const float *centers, *factors;  // null: zero, one
  bool rotates, rotates_back;
};

// Quantized queries, per row and query head: [key_dims] levels, their scale times the scale of the
// scores, and additional scales of the groups of dimensions.
struct Queries {
  int8_t* levels;
  float* scales;
  float* group_scales;  // [kMaxKeyGroups]
};

// Quantizes queries for int8 and int4 pages. Grid: [query heads, rows], kAttendThreads.
struct QueryTask {
  PageLayout layout;
  const float* q;
  size_t stride;
  uint32_t n_rows, n_heads;
  float scale;
  Queries out;
};

// Rows that attend to the same pages, and the splits to compute: all splits of these rows, or one.
struct AttendItem {
  uint32_t first_row, n_rows;  // index in AttendTask::rows, and number
  uint32_t first_page;
  uint32_t first_split, n_splits;
};

// Computes the partial results of each pair over an item's splits: [rows][query heads][value_dim +
// 2], which are the sums, then the maximum and the total. Grid: [items, KV heads], kAttendThreads.
struct AttendTask {
  PageLayout layout;
  const AttendItem* items;
  const PlacedRow* rows;
  const uint8_t* const* pages;
  size_t first_block;
  const float* q;  // for f32 and bf16 pages
  size_t q_stride;
  Queries queries;  // for quantized pages: [row of the batch][query head]
  uint32_t n_heads, group;
  float scale, soft_cap;
  uint32_t window;
  bool ends_before_own_page;  // rows read their own page from their open page instead
  float* partials;
};

// Merges the partial results (parts) of each row in ascending order and writes the row's output.
// The last part may be that of the open page. Grid: [query heads, rows], kAttendThreads.
struct MergeRow {
  uint32_t row;                  // of out
  uint32_t first_part, n_parts;  // in MergeTask::parts, which lists row indices of partials
};
struct MergeTask {
  PageLayout layout;
  const MergeRow* rows;
  const uint32_t* parts;
  const float* partials;
  uint32_t n_rows, n_heads;
  bool ends_with_open_page;
  const float* sinks;  // [n_heads]; null: none
  float* out;
  size_t out_stride;
};

inline constexpr uint32_t kAttendThreads = 128;
// Pairs per thread block. A pair has sixteen threads, which take the place of the CPU's lanes.
inline constexpr uint32_t kPairs = kAttendThreads / 16;

struct AttentionKernels {
  Kernel<BasisTask> change_basis;
  Kernel<WriteTask> write;
  Kernel<ChannelTask> write_channels;
  Kernel<QueryTask> prepare_queries;
  Kernel<AttendTask> attend[kNumPageTypes];
  Kernel<MergeTask> merge;
};

extern const AttentionKernels kAttentionKernels;

}  // namespace kvik::cuda
