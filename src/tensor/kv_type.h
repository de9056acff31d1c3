#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvik {

// What the K and V of a page are stored as.
enum class KvType : uint8_t { kF32, kBF16, kInt8 };

inline constexpr KvType kAllKvTypes[] = {KvType::kF32, KvType::kBF16, KvType::kInt8};
inline constexpr const char* kKvTypeNames = "f32, bf16 or int8";

inline const char* name_of(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kBF16:
      return "bf16";
    case KvType::kInt8:
      break;
  }
  return "int8";
}

inline std::optional<KvType> kv_type_from_name(std::string_view name) {
  for (const KvType type : kAllKvTypes) {
    if (name == name_of(type)) return type;
  }
  return std::nullopt;
}

// Of one token's K or V of one head; int8 levels come with a scale.
inline uint64_t row_bytes(KvType type, uint64_t head_dim) {
  switch (type) {
    case KvType::kF32:
      return head_dim * sizeof(float);
    case KvType::kBF16:
      return head_dim * sizeof(uint16_t);
    case KvType::kInt8:
      break;
  }
  return head_dim + sizeof(float);
}

// Tokens whose K and V share one page: one unit of sharing, eviction, checksum and I/O.
inline constexpr uint32_t kPageTokens = 32;

// Of how K and V lie in a page: part of the key of every page that outlives the process.
inline constexpr uint32_t kPageLayoutVersion = 1;

}  // namespace kvik
