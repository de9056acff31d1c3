#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

// The leaf loops of the CPU backend, one table per instruction set. The scalar one is the
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

// Where in a page one layer's K and V of one KV head lie (D = head_dim rounded up to 16):
//   f32, bf16  K as [32 / 16][head_dim][16 tokens], V as [D / 16][32 tokens][16 of d]
//   int8       K as [32 / 16][head_dim / 4, rounded up][16 tokens][4] bytes, level + 128,
//              then a scale for each of the 32 tokens, f32;
//              V as [D / 16][32 / 4][16 of d][4 tokens] levels, then 32 scales
//   int4       K as [32 / 16][head_dim / 8, rounded up][16 tokens][4] bytes, the low nibbles for
//              four dimensions and the high ones for the next four, then scales in bf16:
//              [groups of dimensions][32 tokens];
//              V as [head_dim / 32, rounded up][32 / 4][16 of d][4 tokens] bytes, the low nibbles
//              for sixteen dimensions and the high ones for the next sixteen, then scales as K's
//   int8/int4  K as int8 has it, V as int4
//   int4, keys by channel
//              K's nibbles as int4 has them, then for each sixteen tokens the level of nibble 0
//              of each dimension, rounded up to eight, and the steps of a nibble in fifteenths of
//              a level, in bytes, then sixteen scales in f32, of each group of dimensions; V as
//              int4
// An int8 element stands for scale · level, |level| ≤ 127; an int4 element for scale · (2 · nibble
// − 15) of a head that was turned by attention_rotate.inl, and one by channel for scale · (level −
// 128), where level = (256 · first + 128 + 17 · step · nibble) / 256, rounded down.
//
// Where K is latent there is no V: it is the first latent_dim dimensions of K, a multiple of
// sixteen. Int8 K has a scale for those and one for the rest, and int4 groups do not cross that
// border, behind which K is turned for itself.
struct KvBlockLayout {
  KvType type;
  uint32_t head_dim;
  uint32_t latent_dim = 0;  // 0: K and V are heads of their own
  bool keys_by_channel = false;
  size_t k_bytes() const;  // of one head's K in one page
  size_t v_bytes() const;
  size_t head_bytes() const { return k_bytes() + v_bytes(); }  // K, then V
  uint32_t value_dim() const { return latent_dim != 0 ? latent_dim : head_dim; }
  // Return the types that K and V are stored as.
  KvType key_type() const { return kvik::key_type(type); }
  KvType value_type() const { return latent_dim != 0 ? key_type() : kvik::value_type(type); }
  // Dimensions that share a scale.
  uint32_t key_group_dims() const { return group_dims(key_type()); }
  uint32_t value_group_dims() const { return group_dims(value_type()); }
  uint32_t n_key_groups() const;
  uint32_t n_value_groups() const;
  uint32_t group_dims(KvType of) const;  // of K or V of that type
  // Returns whether K is turned before it becomes levels.
  bool turns_keys() const { return key_type() == KvType::kInt4 && !keys_by_channel; }
  // Returns the layout of the open pages beside pages of this layout.
  KvBlockLayout open_layout() const { return {kOpenType, head_dim, latent_dim}; }
};

// One row of q and of out, with the position of its token.
struct QueryRow {
  const float* q;
  float* out;
  uint32_t position;
  // The page of that token in kOpenType, where the row reads that one; null: it reads all tokens
  // where they are stored.
  const std::byte* open = nullptr;

  // Returns the end of the tokens that the row reads from AttendTask::pages.
  uint32_t sealed_end() const { return open ? position / kPageTokens * kPageTokens : position + 1; }
};

// Query rows of one KV head, with all the query heads that share it. Rows of several sequences may
// stand together, in any order, where their page tables agree in all that each of them sees. Either
// all rows have an open page or none.
struct AttendTask {
  KvBlockLayout layout;
  size_t block_offset;            // of this layer's and head's K inside a page
  const std::byte* const* pages;  // token t lies in pages[t / kPageTokens]
  const QueryRow* rows;
  uint32_t n_rows;
  uint32_t first_column;      // of head 0 of the group in q
  uint32_t first_out_column;  // and in out
  uint32_t group;             // query heads per KV head, neighbours in q and out
  float scale;
  float soft_cap;
  uint32_t window;
  float* scratch;                // scratch_floats(layout, group) of this thread's own
  const float* sinks = nullptr;  // [group], null where there are none
  size_t open_block_offset = 0;  // of this layer's and head's K inside an open page
};

// K that is likely read next on the same thread, to be fetched meanwhile: of n pages of one split.
struct KeysAhead {
  const std::byte* const* pages = nullptr;
  uint32_t n_pages = 0;
  size_t block_offset = 0;
};

// Tokens whose scores share one maximum: split s begins at position s · kSplitTokens.
inline constexpr uint32_t kSplitTokens = 512;

// Splits [begin, end).
struct SplitRange {
  uint32_t begin, end;
};
// Of what one split gives to n pairs of a row and a query head; merged splits have the same form.
size_t partial_floats(const KvBlockLayout& layout, size_t n_pairs);

// Where the rows of a task find what a split gave them: among the n_rows of the task that attended
// it they begin with first_row.
struct SplitPart {
  float* floats;
  uint32_t n_rows;
  uint32_t first_row;
};

struct AttentionKernels {
  // K and V of one token and one KV head into their page, without K by channel. k, v: [head_dim];
  // of latent K without v
  void (*write_token)(const KvBlockLayout& layout, std::byte* block, uint32_t token_in_page,
                      const float* k, const float* v);
  // K by channel of one KV head into its page, from its open page.
  void (*write_channels)(const KvBlockLayout& layout, const std::byte* open_block,
                         std::byte* block);
  // One head in place; centers, factors: [head_dim], or null.
  void (*change_basis)(float* head, uint32_t head_dim, const float* centers, const float* factors,
                       HeadRotation rotation);
  void (*attend)(const AttendTask& task);
  // The same in two steps, so that several threads can share a task and several sequences a page:
  // each split for itself, then all of them merged in ascending order, in as many calls as it
  // takes; parts[0] is of splits.begin. `merged` keeps what there is between the calls; the last
  // one writes the rows' out. The bits are those of `attend`.
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
