#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvik {

// Type of the K and V in pages. kInt8Int4: K in int8, V in int4.
enum class KvType : uint8_t { kF32, kBF16, kInt8, kInt8Int4, kInt4 };

inline constexpr KvType kAllKvTypes[] = {KvType::kF32, KvType::kBF16, KvType::kInt8,
                                         KvType::kInt8Int4, KvType::kInt4};
inline constexpr const char* kKvTypeNames = "f32, bf16, int8, int8/int4 (K/V) or int4";

inline const char* name_of(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kBF16:
      return "bf16";
    case KvType::kInt8:
      return "int8";
    case KvType::kInt8Int4:
      return "int8/int4";
    case KvType::kInt4:
      break;
  }
  return "int4";
}

inline std::optional<KvType> kv_type_from_name(std::string_view name) {
  for (const KvType type : kAllKvTypes) {
    if (name == name_of(type)) return type;
  }
  return std::nullopt;
}

// Returns true for types whose pages contain levels and scales.
constexpr bool is_quantized(KvType type) { return type != KvType::kF32 && type != KvType::kBF16; }

// Return the type of K and of V in pages of `type`. With MLA the latent K is also V, so its type is
// that of K.
constexpr KvType key_type(KvType type) { return type == KvType::kInt8Int4 ? KvType::kInt8 : type; }
constexpr KvType value_type(KvType type) {
  return type == KvType::kInt8Int4 ? KvType::kInt4 : type;
}

// Returns true for types with open pages: a token attends to its own page in unrounded form,
// because most of the quantization loss is in the newest tokens.
constexpr bool has_open_pages(KvType type) { return is_quantized(type); }

// Tokens per page, which is the unit of sharing, eviction, checksums and I/O.
inline constexpr uint32_t kPageTokens = 32;

// Type of open pages.
inline constexpr KvType kOpenType = KvType::kBF16;

// The functions below take the types of K and V of kInt8Int4 separately.

// Returns the number of adjacent dimensions of a head that share a scale; the last group of a head
// may have fewer.
constexpr uint64_t group_dims(KvType type, uint64_t head_dim) {
  constexpr uint64_t kInt4Dims = 64, kMaxGroups = 8;
  if (type != KvType::kInt4) return head_dim;
  return kInt4Dims * ((head_dim + kInt4Dims * kMaxGroups - 1) / (kInt4Dims * kMaxGroups));
}
// Returns the number of such groups of a head.
constexpr uint64_t n_groups(KvType type, uint64_t head_dim) {
  return (head_dim + group_dims(type, head_dim) - 1) / group_dims(type, head_dim);
}

// Returns the bytes of one token's K or V of one head; int8 levels come with a scale in f32, int4
// levels with one in bf16 for each group.
constexpr uint64_t row_bytes(KvType type, uint64_t head_dim) {
  switch (type) {
    case KvType::kF32:
      return head_dim * sizeof(float);
    case KvType::kBF16:
      return head_dim * sizeof(uint16_t);
    case KvType::kInt8:
      return head_dim + sizeof(float);
    case KvType::kInt8Int4:
    case KvType::kInt4:
      break;
  }
  return (head_dim + 1) / 2 + n_groups(KvType::kInt4, head_dim) * sizeof(uint16_t);
}

// Number of consecutive tokens that share a zero point and a step per dimension in int4 K by
// channel (KvGeometry).
inline constexpr uint32_t kChannelTokens = 16;
static_assert(kPageTokens % kChannelTokens == 0);

// Returns the bytes of a page's int4 K by channel of one head: for each dimension, rounded up to
// eight, the levels and two bytes per kChannelTokens tokens, then sixteen f32 scales.
constexpr uint64_t channel_key_bytes(uint64_t head_dim) {
  constexpr uint64_t kDimBytes = kPageTokens / 2 + kPageTokens / kChannelTokens * 2;
  return (head_dim + 7) / 8 * 8 * kDimBytes + 16 * sizeof(float);
}

// Returns the bytes of one token's K and V of one head, rounded up.
constexpr uint64_t head_token_bytes(KvType type, uint64_t head_dim, bool keys_by_channel) {
  const uint64_t key_bytes = keys_by_channel
                                 ? (channel_key_bytes(head_dim) + kPageTokens - 1) / kPageTokens
                                 : row_bytes(key_type(type), head_dim);
  return key_bytes + row_bytes(value_type(type), head_dim);
}

// Returns the number of adjacent dimensions that share a scale with MLA. All heads have one K:
// latent_dim dimensions, which are also V, followed by the RoPE dimensions (DeepSeek-V2, 2024). The
// two parts have separate scales.
constexpr uint64_t latent_group_dims(KvType type, uint64_t latent_dim, uint64_t head_dim) {
  if (key_type(type) != KvType::kInt4) return latent_dim;
  constexpr uint64_t kMaxGroups = 8;
  for (uint64_t dims = 64; dims < latent_dim; dims *= 2) {
    const uint64_t n = (head_dim + dims - 1) / dims;
    if (latent_dim % dims == 0 && n <= kMaxGroups) return dims;
  }
  return latent_dim;
}
// Returns the bytes of the K of one token with MLA.
constexpr uint64_t latent_row_bytes(KvType type, uint64_t latent_dim, uint64_t head_dim) {
  const uint64_t dims = latent_group_dims(type, latent_dim, head_dim);
  const uint64_t groups = (head_dim + dims - 1) / dims;
  switch (key_type(type)) {
    case KvType::kF32:
      return head_dim * sizeof(float);
    case KvType::kBF16:
      return head_dim * sizeof(uint16_t);
    case KvType::kInt8:
      return head_dim + groups * sizeof(float);
    case KvType::kInt8Int4:
    case KvType::kInt4:
      break;
  }
  return (head_dim + 1) / 2 + groups * sizeof(uint16_t);
}

// Returns the version of the contents of pages of `type`, which is part of the key of every page
// that outlives the process. 2: computed with open pages; 3: int4 with K by channel of a page as
// well; 4: by channel of kChannelTokens tokens.
constexpr uint32_t page_layout_version(KvType type) {
  return type == KvType::kInt4 ? 4 : has_open_pages(type) ? 2 : 1;
}

}  // namespace kvik
