#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvik {

// Purpose of memory that is reserved from the budget.
enum class MemoryKind : uint8_t {
  kPages,
  kTierWrites,
  kTierReads,
  kDraftPages,
  kStates,
  kOpenPages
};
inline constexpr size_t kMemoryKinds = 6;

std::string_view name_of(MemoryKind kind);

}  // namespace kvik
