#pragma once

#include <bit>
#include <cstdint>

// Portable, exact conversions of 16-bit floats; kernels have vector versions.
namespace kvik {

inline float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Rounds to nearest, ties to even. A NaN stays a NaN.
inline uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero and subnormals: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Rounds to nearest, ties to even; overflow becomes infinity. A NaN stays a NaN.
inline uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // ≥ 65520 rounds to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal or zero
    // Adding 0.5 moves the result's last bit to 2^-24, so that the hardware rounds there.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Returns half of an E8M0 scale of OCP's microscaling formats, 2^(bits − 128). 255, which is NaN in
// those formats, gives 2^127.
inline float half_e8m0_to_f32(uint16_t bits) {
  if (bits < 2) return std::bit_cast<float>(0x00200000u << bits);
  return std::bit_cast<float>((uint32_t{bits} - 1) << 23);
}

}  // namespace kvik
