#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

// E4M3 without infinities (Micikevicius et al. 2022): a sign bit, four exponent bits with bias 7,
// three fraction bits. All bits set is NaN.
namespace kvik {

inline constexpr float kLargestE4m3 = 448;
// Largest number of E2M1, the 4-bit format used with E4M3 scales.
inline constexpr float kLargestE2m1 = 6;

inline bool is_e4m3_number(uint8_t bits) { return (bits & 0x7f) != 0x7f; }

inline float e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80u} << 24;
  const uint32_t size = bits & 0x7fu;
  if (size == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  if (size >= 8) return std::bit_cast<float>(sign | ((size + (120u << 3)) << 20));
  const float magnitude = static_cast<float>(size) * 0x1p-9f;  // zero and subnormals: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Rounds to nearest, ties to even; saturates at the largest number. A NaN stays a NaN.
inline uint8_t f32_to_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 24 & 0x80u;
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7f);
  const float size = std::min(std::bit_cast<float>(bits & 0x7fffffffu), kLargestE4m3);
  if (size < 0x1p-6f) {
    // Adding 2^14 moves the result's last bit to 2^-9, so that the hardware rounds there.
    const uint32_t shifted = std::bit_cast<uint32_t>(size + 0x1p14f);
    return static_cast<uint8_t>(sign | (shifted - std::bit_cast<uint32_t>(0x1p14f)));
  }
  const auto exact = std::bit_cast<uint32_t>(size);
  const uint32_t rounded = (exact + 0x7ffffu + (exact >> 20 & 1u)) >> 20;
  return static_cast<uint8_t>(sign | (rounded - (120u << 3)));
}

}  // namespace kvik
