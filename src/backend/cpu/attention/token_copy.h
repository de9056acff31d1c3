#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/layout/kv_block.h"

namespace kvik::cpu {

// Latent K of a page (kv_block.h): units of equal size as [32 / 16][n_units][16 tokens], then
// scales as [n_scales][32 tokens].
struct TokenLayout {
  uint32_t unit_bytes, n_units, scale_bytes, n_scales;
  size_t scales_at() const { return size_t{kPageTokens} * n_units * unit_bytes; }
  // Returns the bytes of a slot (EntryTarget): a token's units, then its scales.
  size_t slot_bytes() const { return n_units * unit_bytes + n_scales * scale_bytes; }
};

TokenLayout token_layout(const KvBlockLayout& layout);

// Tokens of a vector; their units of the same dimensions lie side by side.
inline constexpr uint32_t kTokenLanes = 16;

// Copies a token from one block to another; tokens are counted from the beginning of the page.
void copy_token(const TokenLayout& layout, const std::byte* from, uint32_t token, std::byte* to,
                uint32_t to_token);
// Copies n adjacent tokens that lie in one vector of each block.
void copy_tokens(const TokenLayout& layout, const std::byte* from, uint32_t token, uint32_t n,
                 std::byte* to, uint32_t to_token);

// Copies a token to a slot.
void pack_token(const TokenLayout& layout, const std::byte* from, uint32_t token, std::byte* slot);
// Copies slots to adjacent tokens of a block, which lie in one vector.
void unpack_tokens(const TokenLayout& layout, std::span<const std::byte* const> slots,
                   std::byte* to, uint32_t to_token);

}  // namespace kvik::cpu
