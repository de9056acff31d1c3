#pragma once

// Access to each type of page: to K of one token, and to V of one dimension.

#include "backend/cuda/attention/levels.cuh"

namespace kvik::cuda {
namespace {

// Pages of f32 or bf16.
template <bool kIsBf16>
struct FloatPages {
  static constexpr bool kHasLevels = false;
  __device__ static float at(const uint8_t* p, size_t i) {
    return kIsBf16 ? bf16_value(reinterpret_cast<const uint16_t*>(p)[i])
                   : reinterpret_cast<const float*>(p)[i];
  }
  // Return dimension d of a token's K and V.
  __device__ static float key(const PageLayout& layout, const uint8_t* block, uint32_t token,
                              uint32_t d) {
    const size_t tile = static_cast<size_t>(token / kLanes) * layout.head_dim;
    return at(block, (tile + d) * kLanes + token % kLanes);
  }
  __device__ static float value(const PageLayout& layout, const uint8_t* block, uint32_t token,
                                uint32_t d) {
    if (layout.latent_dim != 0) return key(layout, block, token, d);
    const size_t first = (static_cast<size_t>(d / kLanes) * kPageTokens + token) * kLanes;
    return at(block + layout.value_offset, first + d % kLanes);
  }
};

// Combines byte d % 4 of each of four words into one.
__device__ __forceinline__ uint32_t byte_of_each(const Words4& words, uint32_t d) {
  const uint32_t shift = d % 4 * 8;
  uint32_t out = 0;
  for (uint32_t i = 0; i < 4; ++i) out |= (words.word[i] >> shift & 255u) << (8 * i);
  return out;
}

struct Int8Pages {
  static constexpr bool kHasLevels = true;
  // Returns the levels of a token's K in dimensions 4 · word …, as signed bytes.
  __device__ static uint32_t keys(const PageLayout& layout, const uint8_t* block, uint32_t token,
                                  uint32_t word) {
    const size_t tile = static_cast<size_t>(token / kLanes) * layout.key_dims * kLanes;
    return read_as<uint32_t>(block + tile + static_cast<size_t>(word) * 64 + token % kLanes * 4) ^
           0x80808080u;
  }
  // Returns the levels of dimension d of V, of tokens 4 · four …, as signed bytes.
  __device__ static uint32_t values(const PageLayout& layout, const uint8_t* block, uint32_t four,
                                    uint32_t d) {
    if (layout.latent_dim != 0) {
      const size_t tile = static_cast<size_t>(four / 4) * layout.key_dims * kLanes;
      const uint8_t* at = block + tile + static_cast<size_t>(d / 4) * 64 + four % 4 * 16;
      return byte_of_each(read_as<Words4>(at), d) ^ 0x80808080u;
    }
    return read_as<uint32_t>(block + layout.value_offset +
                             static_cast<size_t>(d / kLanes) * kValueBlockBytes + four * 64 +
                             d % kLanes * 4);
  }
  // Return the scale of group g of dimensions of a token's K and V.
  __device__ static float key_scale(const PageLayout& layout, const uint8_t* block, uint32_t g,
                                    uint32_t token) {
    const size_t at = static_cast<size_t>(layout.key_dims) * kPageTokens;
    return reinterpret_cast<const float*>(block + at)[g * kPageTokens + token];
  }
  __device__ static float value_scale(const PageLayout& layout, const uint8_t* block, uint32_t g,
                                      uint32_t token) {
    if (layout.latent_dim != 0) return key_scale(layout, block, g, token);
    return reinterpret_cast<const float*>(block + layout.value_offset + layout.v_bytes -
                                          kPageTokens * sizeof(float))[token];
  }
};

// See Int8Pages for the functions.
struct Int4Pages {
  static constexpr bool kHasLevels = true;
  __device__ static uint32_t keys(const PageLayout& layout, const uint8_t* block, uint32_t token,
                                  uint32_t word) {
    const size_t tile = static_cast<size_t>(token / kLanes) * (layout.key_dims / 8) * 64;
    const uint32_t both =
        read_as<uint32_t>(block + tile + static_cast<size_t>(word / 2) * 64 + token % kLanes * 4);
    const uint32_t nibbles = both >> (word % 2 * 4) & 0x0f0f0f0fu;
    return layout.keys_by_channel ? channel_levels(layout, block, token, word, nibbles)
                                  : odd_levels(nibbles);
  }
  // Returns the levels of four channels of a token's K by channel, from their nibbles.
  __device__ static uint32_t channel_levels(const PageLayout& layout, const uint8_t* block,
                                            uint32_t token, uint32_t word, uint32_t nibbles) {
    const size_t dims = layout.key_dims;
    const uint8_t* firsts = block + dims * kPageTokens / 2 + token / kChannelTokens * 2 * dims;
    const uint8_t* steps = firsts + dims;
    uint32_t levels = 0;
    for (uint32_t j = 0; j < 4; ++j) {
      const uint32_t d = 4 * word + j;
      const uint32_t nibble = nibbles >> (8 * j) & 15u;
      levels |= (256u * firsts[d] + 128u + 17u * steps[d] * nibble) / 256 << (8 * j);
    }
    return levels ^ 0x80808080u;
  }
  __device__ static uint32_t values(const PageLayout& layout, const uint8_t* block, uint32_t four,
                                    uint32_t d) {
    if (layout.latent_dim != 0) {
      const size_t tile = static_cast<size_t>(four / 4) * (layout.key_dims / 8) * 64;
      const uint8_t* at = block + tile + static_cast<size_t>(d / 8) * 64 + four % 4 * 16;
      return odd_levels(byte_of_each(read_as<Words4>(at), d) >> (d / 4 % 2 * 4) & 0x0f0f0f0fu);
    }
    const uint32_t both = read_as<uint32_t>(block + layout.value_offset +
                                            static_cast<size_t>(d / 32) * kValueBlockBytes +
                                            four * 64 + d % kLanes * 4);
    return odd_levels(both >> (d / kLanes % 2 * 4) & 0x0f0f0f0fu);
  }
  __device__ static float scale_at(const uint8_t* p, uint32_t g, uint32_t token) {
    return bf16_value(reinterpret_cast<const uint16_t*>(p)[g * kPageTokens + token]);
  }
  __device__ static float key_scale(const PageLayout& layout, const uint8_t* block, uint32_t g,
                                    uint32_t token) {
    const uint8_t* scales = block + static_cast<size_t>(layout.key_dims) * kPageTokens / 2;
    if (layout.keys_by_channel) {
      constexpr size_t kTiles = kPageTokens / kChannelTokens;
      return reinterpret_cast<const float*>(scales + kTiles * 2 * layout.key_dims)[g];
    }
    return scale_at(scales, g, token);
  }
  __device__ static float value_scale(const PageLayout& layout, const uint8_t* block, uint32_t g,
                                      uint32_t token) {
    if (layout.latent_dim != 0) return key_scale(layout, block, g, token);
    const size_t at =
        layout.value_offset + static_cast<size_t>(layout.value_dims) * kPageTokens / 2;
    return scale_at(block + at, g, token);
  }
};

// K in int8, and V in int4. Latent K is also V, which is then in int8.
struct Int8Int4Pages {
  static constexpr bool kHasLevels = true;
  __device__ static uint32_t keys(const PageLayout& layout, const uint8_t* block, uint32_t token,
                                  uint32_t word) {
    return Int8Pages::keys(layout, block, token, word);
  }
  __device__ static uint32_t values(const PageLayout& layout, const uint8_t* block, uint32_t four,
                                    uint32_t d) {
    return layout.has_int4_values ? Int4Pages::values(layout, block, four, d)
                                  : Int8Pages::values(layout, block, four, d);
  }
  __device__ static float key_scale(const PageLayout& layout, const uint8_t* block, uint32_t g,
                                    uint32_t token) {
    return Int8Pages::key_scale(layout, block, g, token);
  }
  __device__ static float value_scale(const PageLayout& layout, const uint8_t* block, uint32_t g,
                                      uint32_t token) {
    return layout.has_int4_values ? Int4Pages::value_scale(layout, block, g, token)
                                  : Int8Pages::value_scale(layout, block, g, token);
  }
};

}  // namespace
}  // namespace kvik::cuda
