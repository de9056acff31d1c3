#pragma once

#include <cstring>

#include "base/check.h"
#include "tensor/block_format.h"

// Parts of PackedLayout shared by formats: bytes per 32 k, and conversions of numbers that differ
// between file and panel.
namespace kvik {

inline constexpr PackedBytes kScaleAndMinimum = {
    2,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      bytes[0] = numbers.factors[b];
      bytes[1] = numbers.factors[16 + b];
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      numbers.factors[b] = bytes[0];
      numbers.factors[16 + b] = bytes[1];
    }};
inline constexpr PackedBytes kScalesOfHalves = {
    2,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      std::memcpy(bytes, numbers.factors + 2 * b, 2);
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      std::memcpy(numbers.factors + 2 * b, bytes, 2);
    }};
inline constexpr PackedBytes kScalesAndMinimaOfHalves = {  // four bits each
    2,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      for (uint32_t part = 0; part < 2; ++part) {
        const int scale = numbers.factors[2 * b + part];
        bytes[part] = static_cast<uint8_t>(scale | numbers.factors[16 + 2 * b + part] << 4);
      }
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      for (uint32_t part = 0; part < 2; ++part) {
        numbers.factors[2 * b + part] = bytes[part] & 15;
        numbers.factors[16 + 2 * b + part] = bytes[part] >> 4;
      }
    }};
inline constexpr PackedBytes kSignedScale = {  // factors with offset −32, as signed bytes
    1,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      bytes[0] = static_cast<uint8_t>(numbers.factors[b] - 32);
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      numbers.factors[b] = static_cast<uint8_t>(bytes[0] + 32);
    }};
inline constexpr PackedBytes kUnsignedScale = {
    1,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) { bytes[0] = numbers.factors[b]; },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) { numbers.factors[b] = bytes[0]; }};
inline constexpr PackedBytes kOddFactorsOfHalves = {  // s of factors 2 · s + 1, in four bits each
    1,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      const uint8_t* factors = numbers.factors + 2 * b;
      bytes[0] = static_cast<uint8_t>(factors[0] / 2 | factors[1] / 2 << 4);
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      numbers.factors[2 * b] = static_cast<uint8_t>(2 * (bytes[0] & 15) + 1);
      numbers.factors[2 * b + 1] = static_cast<uint8_t>(2 * (bytes[0] >> 4) + 1);
    }};
inline constexpr PackedBytes kExponent = {  // exponent that is the scale of the block
    1,
    [](const BlockNumbers& numbers, uint32_t, uint8_t* bytes) {
      bytes[0] = static_cast<uint8_t>(numbers.scale);
    },
    [](const uint8_t* bytes, uint32_t, BlockNumbers& numbers) { numbers.scale = bytes[0]; }};
inline constexpr PackedBytes kOffset = {  // 128 minus the zero point, as a byte
    1,
    [](const BlockNumbers& numbers, uint32_t, uint8_t* bytes) {
      CHECK(numbers.zero <= 16);
      bytes[0] = static_cast<uint8_t>(128 - numbers.zero);
    },
    [](const uint8_t* bytes, uint32_t, BlockNumbers& numbers) {
      numbers.zero = static_cast<uint16_t>(128 - bytes[0]);
    }};

// Converts q3_k between file and panel: in the panel, the scale has the opposite sign, and the
// third bit of a level is inverted.
inline void change_sign(BlockNumbers& numbers) {
  numbers.scale ^= 0x8000u;
  for (uint8_t& level : numbers.levels) level ^= 4;
}

// Converts groups of 8 bits between file and panel, which stores 128 minus the zero point as f16
// after the scale.
inline void zero_to_offset(BlockNumbers& numbers) {
  CHECK(numbers.zero <= 256);
  numbers.minimum = f32_to_f16(static_cast<float>(128 - numbers.zero));
}
inline void offset_to_zero(BlockNumbers& numbers) {
  numbers.zero = static_cast<uint16_t>(128 - static_cast<int>(f16_to_f32(numbers.minimum)));
}

}  // namespace kvik
