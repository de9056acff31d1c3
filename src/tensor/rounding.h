#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "tensor/block_format.h"

// Helpers of the functions that round values to blocks.
namespace kvik {

// Returns a / b, or 0 if b is 0.
inline float divide(float a, float b) { return b == 0 ? 0.0f : a / b; }

// Returns the nearest integer in [low, high], with ties to even. low and high must be integers.
inline float nearest(float value, float low, float high) {
  return std::min(std::max(std::nearbyint(value), low), high);
}

// Returns the value of largest magnitude, with its sign.
inline float peak_of(std::span<const float> x) {
  float peak = 0;
  for (const float v : x) peak = std::fabs(v) > std::fabs(peak) ? v : peak;
  return peak;
}

// Returns the index of the level of a table of n nearest to `value`; of two that are equally near,
// the lower one.
inline uint8_t number_in(const int8_t* table, size_t n, float value) {
  uint8_t number = 0;
  for (size_t i = 0; i + 1 < n; ++i) {
    const float middle = 0.5f * static_cast<float>(table[i] + table[i + 1]);
    if (value > middle) ++number;
  }
  return number;
}

// Returns the index of the digit of a codebook nearest to `level`; of two that are equally near,
// the lower one.
inline size_t digit_of(const Codebook& codebook, float level) {
  size_t digit = 0;
  for (size_t i = 0; i + 1 < codebook.n_digits; ++i) {
    const float middle = 0.5f * static_cast<float>(codebook.digits[i] + codebook.digits[i + 1]);
    if (level > middle) ++digit;
  }
  return digit;
}

}  // namespace kvik
