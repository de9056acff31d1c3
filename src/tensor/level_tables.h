#pragma once

#include <cstddef>
#include <cstdint>

// Levels of types with a table, in ascending order.
namespace kvik {

// iq4_nl, iq4_xs, iq4_k, iq4_ks and iq4_kss (ggml's kvalues_iq4nl), denser around zero.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// The tables of ik_llama.cpp's types. A sub-block may have all of them shifted up
// (BlockFormat::table_shift).
inline constexpr int8_t kIq2KLevels[4] = {-31, -13, 1, 17};
inline constexpr int8_t kIq3KLevels[8] = {-63, -40, -23, -10, 1, 13, 28, 47};
inline constexpr int8_t kIq5KLevels[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36,
                                           -30,  -24,  -18,  -12, -6,  -1,  5,   11,  17,  23,  29,
                                           36,   43,   51,   59,  68,  77,  87,  97,  109, 121};
inline constexpr int8_t kIq6KLevels[64] = {
    -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
    -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
    -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
    47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};
// Levels of two values each of iq2_kl, which cannot be shifted.
inline constexpr int8_t kIq2KlPairs[32][2] = {
    {-63, -23}, {-63, 13}, {-40, -63}, {-40, -10}, {-40, 13}, {-40, 47}, {-23, -40}, {-23, -23},
    {-23, 1},   {-23, 13}, {-23, 28},  {-10, -63}, {-10, 1},  {-10, 13}, {-10, 47},  {1, -23},
    {1, -10},   {1, 1},    {1, 13},    {1, 28},    {13, -40}, {13, -23}, {13, -10},  {13, 1},
    {13, 13},   {28, -63}, {28, -23},  {28, 1},    {28, 28},  {28, 47},  {47, -23},  {47, 13}};
inline constexpr int8_t kIq2KShift = 5, kIq3KShift = 4, kIq4KShift = 4;
inline constexpr int8_t kIq5KShift = 2, kIq6KShift = 1;

// Levels plus 128, as the matmul kernels look them up.
struct LevelOperands {
  alignas(64) uint8_t of[64] = {};
  constexpr LevelOperands(const int8_t (&pairs)[32][2], size_t which) {
    for (size_t i = 0; i < 32; ++i) of[i] = static_cast<uint8_t>(pairs[i][which] + 128);
  }
  template <size_t n>
  explicit constexpr LevelOperands(const int8_t (&levels)[n]) {
    for (size_t i = 0; i < n; ++i) of[i] = static_cast<uint8_t>(levels[i] + 128);
  }
};
inline constexpr LevelOperands kIq2KOperands(kIq2KLevels), kIq3KOperands(kIq3KLevels);
inline constexpr LevelOperands kIq4KOperands(kIq4Levels), kIq5KOperands(kIq5KLevels);
inline constexpr LevelOperands kIq6KOperands(kIq6KLevels);
inline constexpr LevelOperands kIq2KlFirst(kIq2KlPairs, 0), kIq2KlSecond(kIq2KlPairs, 1);

}  // namespace kvik
