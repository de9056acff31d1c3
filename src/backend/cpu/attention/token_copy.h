#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/kv_block.h"

namespace kvik::cpu {

// Latent K of a page (kv_block.h): units of equal size as [32 / 16][n_units][16 tokens], then
// scales as [n_scales][32 tokens].
struct TokenLayout {
  uint32_t unit_bytes, n_units, scale_bytes, n_scales;
  size_t scales_at() const { return size_t{kPageTokens} * n_units * unit_bytes; }
};

TokenLayout token_layout(const KvBlockLayout& layout);

// Copies a token from one block to another; tokens are counted from the beginning of the page.
void copy_token(const TokenLayout& layout, const std::byte* from, uint32_t token, std::byte* to,
                uint32_t to_token);

}  // namespace kvik::cpu
