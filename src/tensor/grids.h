#pragma once

#include <cstdint>

// The codebooks of the types iq1 to iq3 of GGUF files: a code is the number of a point of a grid,
// which has the levels of four or eight adjacent values. Constants of the file format.
namespace kvik {

// Levels plus 128.
template <uint32_t kNumPoints, uint32_t kNumValues>
struct GridOf {
  static constexpr uint32_t kPoints = kNumPoints, kValues = kNumValues;
  alignas(64) uint8_t levels[kPoints][kValues];
};

// Magnitudes; the signs are stored beside the codes.
extern const GridOf<256, 4> kIq3XxsGrid;
extern const GridOf<512, 4> kIq3SGrid;
extern const GridOf<256, 8> kIq2XxsGrid;
extern const GridOf<512, 8> kIq2XsGrid;
extern const GridOf<1024, 8> kIq2SGrid;
// The levels of iq1_s and iq1_m are 8 · (−1, 0 or 1) + 1. Values that are shifted have 2 less.
extern const GridOf<2048, 8> kIq1Grid;

// The same points as digits, two bytes each, which kernels look up: a byte has four digits of two
// bits or, in grids of four values, two of four bits, the first in the lowest bits.
template <uint32_t kPoints>
struct DigitPlanes {
  alignas(64) uint8_t plane[2][kPoints];
};
extern const DigitPlanes<256> kIq3XxsPlanes;
extern const DigitPlanes<512> kIq3SPlanes;
extern const DigitPlanes<256> kIq2XxsPlanes;
extern const DigitPlanes<512> kIq2XsPlanes;
extern const DigitPlanes<1024> kIq2SPlanes;
extern const DigitPlanes<2048> kIq1Planes;

inline constexpr int8_t kIq3XxsDigits[] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr int8_t kIq3SDigits[] = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr int8_t kIq2Digits[] = {8, 25, 43};
inline constexpr int8_t kIq1Digits[] = {-8, 0, 8};

}  // namespace kvik
