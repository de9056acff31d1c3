#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvik {

// What the K and V of a page are stored as.
enum class KvType : uint8_t { kF32, kBF16 };

inline const char* name_of(KvType type) { return type == KvType::kF32 ? "f32" : "bf16"; }

inline std::optional<KvType> kv_type_from_name(std::string_view name) {
  if (name == "f32") return KvType::kF32;
  if (name == "bf16") return KvType::kBF16;
  return std::nullopt;
}

// Tokens whose K and V share one page: one unit of sharing, eviction, checksum and I/O.
inline constexpr uint32_t kPageTokens = 32;

}  // namespace kvik
