#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/ops/attention.h"
#include "tensor/kv_type.h"

namespace kvik {

// Layout of the K and V of one layer and KV head in a page (D = head_dim rounded up to 16). V
// follows K unless has_values_apart():
//   f32, bf16  K as [32 / 16][head_dim][16 tokens], V as [D / 16][32 tokens][16 of d]
//   int8       K as [32 / 16][head_dim / 4, rounded up][16 tokens][4] bytes, level + 128,
//              then a scale for each of the 32 tokens, f32;
//              V as [D / 16][32 / 4][16 of d][4 tokens] levels, then 32 scales
//   int4       K as [32 / 16][head_dim / 8, rounded up][16 tokens][4] bytes: the low nibbles are
//              four dimensions and the high nibbles the next four; then scales in bf16,
//              [groups of dimensions][32 tokens];
//              V as [head_dim / 32, rounded up][32 / 4][16 of d][4 tokens] bytes: the low nibbles
//              are sixteen dimensions and the high nibbles the next sixteen; then scales like K's
//   int8/int4  K as in int8, V as in int4
//   int4, keys by channel
//              K's nibbles as in int4. Then, for each sixteen tokens: the level of nibble 0 of each
//              dimension (their number rounded up to eight), and the step between nibbles of each
//              dimension in units of 17 / 256 of a level, in bytes. Then sixteen f32 scales, of
//              which each group of dimensions uses one. V as in int4
// A level is the integer that a quantized element stores. An int8 element represents scale · level,
// |level| ≤ 127. An int4 element represents scale · (2 · nibble − 15), in a head rotated by
// attention_rotate.inl. An int4 element by channel represents scale · (level − 128) with level =
// (256 · first + 128 + 17 · step · nibble) / 256, rounded down.
//
// Latent K (MLA) has no V: V is the first latent_dim dimensions of K, a multiple of 16. int8 K then
// has one scale for those dimensions and one for the rest, and no int4 group contains dimensions of
// both parts. The two parts of K are rotated separately.
struct KvBlockLayout {
  KvType type;
  uint32_t head_dim;
  uint32_t latent_dim = 0;       // 0: K and V are separate
  bool keys_by_channel = false;  // int4 K with a step for each dimension instead of each token
  uint32_t n_kv_heads = 1;       // of a layer
  size_t k_bytes() const;        // bytes of one head's K in one page
  size_t v_bytes() const;
  size_t head_bytes() const { return k_bytes() + v_bytes(); }
  // Returns whether a layer's part of a page is K of all heads, then V of all heads, so that
  // several heads are read as long runs of memory. Otherwise V of each head follows its K.
  bool has_values_apart() const;
  // Return the bytes from a head's K to its V, and to the next head's K.
  size_t value_offset() const;
  size_t head_stride() const;
  uint32_t value_dim() const { return latent_dim != 0 ? latent_dim : head_dim; }
  // Return the types in which K and V are stored.
  KvType key_type() const { return kvik::key_type(type); }
  KvType value_type() const { return latent_dim != 0 ? key_type() : kvik::value_type(type); }
  // Return the number of adjacent dimensions of K and V that share a scale.
  uint32_t key_group_dims() const { return group_dims(key_type()); }
  uint32_t value_group_dims() const { return group_dims(value_type()); }
  uint32_t n_key_groups() const;
  uint32_t n_value_groups() const;
  uint32_t group_dims(KvType of) const;  // of K or V stored in type `of`
  // Returns whether K is rotated before quantization.
  bool rotates_keys() const { return key_type() == KvType::kInt4 && !keys_by_channel; }
  // Returns the layout of the open pages that go with pages of this layout.
  KvBlockLayout open_layout() const { return {kOpenType, head_dim, latent_dim, false, n_kv_heads}; }
};

// Returns the number of floats in the partial results of n pairs of a row and a query head. The
// merged results of several splits have the same form.
size_t partial_floats(const KvBlockLayout& layout, size_t n_pairs);

inline KvBlockLayout layout_of(const KvGeometry& geometry) {
  return {geometry.type, geometry.head_dim, geometry.latent_dim, geometry.keys_by_channel,
          geometry.n_kv_heads};
}

// Return the offset of one head's K in a page and in an open page, in bytes.
size_t block_offset(const KvTarget& kv, uint32_t kv_head);
size_t open_block_offset(const KvTarget& kv, uint32_t kv_head);

// Returns the index of a token's own page in KvRun::open.
inline size_t open_index(const KvRun& run, uint32_t position) {
  return position / kPageTokens - run.first_position / kPageTokens;
}

// Checks the runs of a call against the number of its rows and the geometry.
void check_runs(const KvTarget& kv, uint32_t n_rows);

}  // namespace kvik
