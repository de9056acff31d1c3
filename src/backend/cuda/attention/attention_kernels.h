#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"

// Attention over pages in device memory. Pages have the CPU's layout (KvBlockLayout), and the
// arithmetic of a pair of a row and a query head is bit-identical to
// backend/cpu/attention/attention.inl and attention_int8.inl. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kPageTokens = 32;
inline constexpr uint32_t kChannelTokens = 16;
inline constexpr uint32_t kSplitTokens = 512;
inline constexpr uint32_t kMostHeadDim = 1024;
inline constexpr uint32_t kMostKeyGroups = 8;

enum class PageType : uint8_t { kF32, kBF16, kInt8, kInt8Int4, kInt4 };
inline constexpr uint32_t kNumPageTypes = 5;

// Layout of a head's K and V in its block of a page, as numbers.
struct PageLayout {
  PageType type;
  uint32_t head_dim;
  uint32_t latent_dim;            // 0: K and V are separate
  uint32_t value_dim;             // of V
  uint32_t key_dims, value_dims;  // as stored in a page, padded
  bool has_int4_keys, has_int4_values;
  bool turns_keys, keys_by_channel;           // one of the two for int4 keys
  uint32_t key_group_dims, value_group_dims;  // dimensions that share a scale
  uint32_t n_key_groups, n_value_groups;
  size_t k_bytes, head_bytes;  // of one head: K, and K with V
};

// Row `row` of the batch at position `position` of its sequence.
struct PlacedRow {
  uint32_t row, position;
  uint32_t first_page;  // beginning of its sequence's table in the list of pages
};

// Writes K and V of all rows. Grid: [KV heads, rows], kAttendThreads.
struct WriteTask {
  PageLayout layout;
  const PlacedRow* rows;
  uint32_t n_rows;
  const uint8_t* const* pages;  // pages written to
  size_t first_block;           // bytes of a page before head 0 of the layer
  const float *k, *v;           // v is null for latent K
  size_t k_stride, v_stride;
};

// Writes K by channel of full pages from their open pages. Grid: [KV heads, pages], kAttendThreads.
struct ChannelTask {
  PageLayout layout;
  const uint8_t* const* pages;
  const uint8_t* const* open_pages;
  uint32_t n_pages;
  size_t first_block, first_open_block;  // bytes of each before head 0 of the layer
  size_t open_head_bytes;
};

// Changes the basis of heads in place (HeadBasis). Grid: [heads, rows], kAttendThreads.
struct BasisTask {
  float* x;
  size_t stride;
  uint32_t n_rows, head_dim, group;
  const float *centers, *factors;  // null: zero, one
  bool rotates, rotates_back;
};

// Quantized queries: [key_dims] levels per row and head, their scale times the scale of the scores,
// and additional scales of the groups of dimensions.
struct Queries {
  int8_t* levels;
  float* scales;
  float* group_scales;  // [kMostKeyGroups]
};

// For int8 and int4 pages. Grid: [query heads, rows], kAttendThreads.
struct QueryTask {
  PageLayout layout;
  const float* q;
  size_t stride;
  uint32_t n_rows, n_heads;
  float scale;
  Queries out;
};

// Rows that attend to the same pages, and their splits: all, or a single one.
struct AttendItem {
  uint32_t first_row, n_rows;  // of AttendTask::rows
  uint32_t first_page;
  uint32_t first_split, n_splits;
};

// Computes the partial results of each pair for an item's splits: [rows][query heads][value_dim +
// 2], sums, then maximum and total. Grid: [items, KV heads], kAttendThreads.
struct AttendTask {
  PageLayout layout;
  const AttendItem* items;
  const PlacedRow* rows;
  const uint8_t* const* pages;
  size_t first_block;
  const float* q;  // for f32 and bf16 pages
  size_t q_stride;
  Queries queries;  // for the others: [row of the batch][query head]
  uint32_t n_heads, group;
  float scale, soft_cap;
  uint32_t window;
  bool ends_before_own_page;  // rows read their own page from an open page
  float* partials;
};

// Merges the parts of a row in ascending order, the last of which may be its open page, and writes
// its output. Grid: [query heads, rows], kAttendThreads.
struct MergeRow {
  uint32_t row;                  // of out
  uint32_t first_part, n_parts;  // in the list of parts: rows of partials
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
// Pairs per thread block: one per sixteen threads, which are the CPU's lanes.
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
