#pragma once

#include <cstddef>
#include <cstdint>

namespace kvik {

// What a tensor's elements are stored as. The list is GGUF's, so that `kvik show` can name what a
// file holds, and integer groups and floats of 8 bits, which are made while folders are read
// (group_blocks.h, float_blocks.h); which of them can be computed with is the backend's to say
// (Backend::can_compute).
enum class ElementType : uint8_t {
  kF32,
  kF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ8_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ3_XXS,
  kIQ1_S,
  kIQ4_NL,
  kIQ3_S,
  kIQ2_S,
  kIQ4_XS,
  kI8,
  kI16,
  kI32,
  kI64,
  kF64,
  kIQ1_M,
  kBF16,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kInt4G32,
  kInt4G64,
  kInt4G128,
  kInt8G32,
  kInt8G128,
  kFp8,
  kFp8G32,
  kNvFp4,
};

inline constexpr uint32_t kNoGgufId = UINT32_MAX;
inline constexpr size_t kNumElementTypes = static_cast<size_t>(ElementType::kNvFp4) + 1;

}  // namespace kvik
