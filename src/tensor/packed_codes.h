#pragma once

#include <cstdint>

namespace kvik {

// Codes of a codebook in a panel, for 32 k of 32 columns:
//   low bytes of the codes   [n][32]
//   their higher bits        [n / 2][n_high][2][32] bits: of each two codes, by column
//   signs                    [8][32][4] bits, lowest first: bit j of group g is k = 4g + j; or
//   shifts                   [n_shifts][32] bits, by column
struct PackedCodes {
  uint32_t n = 0;         // codes; 0: there are none
  uint32_t n_high = 0;    // bits of a code beyond eight
  uint32_t n_shifts = 0;  // 0: there are signs instead

  constexpr uint32_t high_at() const { return 32 * n; }
  // Offset of the bits of one code number.
  constexpr uint32_t high_at(uint32_t number, uint32_t bit) const {
    return high_at() + 8 * (n_high * (number / 2) + bit) + 4 * (number % 2);
  }
  constexpr uint32_t signs_at() const { return high_at() + 4 * n * n_high; }
  constexpr uint32_t bytes() const {
    if (n == 0) return 0;
    return signs_at() + (n_shifts > 0 ? 4 * n_shifts : 128);
  }
};

inline constexpr PackedCodes kIq3XxsCodes = {.n = 8};
inline constexpr PackedCodes kIq3SCodes = {.n = 8, .n_high = 1};
inline constexpr PackedCodes kIq2XxsCodes = {.n = 4};
inline constexpr PackedCodes kIq2XsCodes = {.n = 4, .n_high = 1};
inline constexpr PackedCodes kIq2SCodes = {.n = 4, .n_high = 2};
inline constexpr PackedCodes kIq1SCodes = {.n = 4, .n_high = 3, .n_shifts = 1};
inline constexpr PackedCodes kIq1MCodes = {.n = 4, .n_high = 3, .n_shifts = 4};

}  // namespace kvik
