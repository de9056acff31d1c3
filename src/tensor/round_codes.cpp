#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "tensor/code_blocks.h"
#include "tensor/half.h"
#include "tensor/round.h"
#include "tensor/rounding.h"

namespace kvik {
namespace {

float magnitude_of_peak(Values x) {
  float peak = 0;
  for (const float v : x) peak = std::max(peak, std::fabs(v));
  return peak;
}

template <const auto& kGrid, size_t kBase>
std::vector<uint16_t> near_points(const int8_t (&digits)[kBase], int offset) {
  constexpr size_t kValues = std::remove_cvref_t<decltype(kGrid)>::kValues;
  constexpr uint32_t kPoints = std::remove_cvref_t<decltype(kGrid)>::kPoints;
  size_t n_numbers = 1;
  for (size_t v = 0; v < kValues; ++v) n_numbers *= kBase;
  std::vector<uint16_t> codes;
  std::vector<uint32_t> keys(kPoints);  // distance · kPoints + code
  for (size_t number = 0; number < n_numbers; ++number) {
    int wanted[kValues];
    size_t rest = number;
    for (int& level : wanted) {
      level = 128 + offset + digits[rest % kBase];
      rest /= kBase;
    }
    for (uint32_t code = 0; code < kPoints; ++code) {
      int distance = 0;
      for (size_t v = 0; v < kValues; ++v) {
        const int difference = wanted[v] - kGrid.levels[code][v];
        distance += difference * difference;
      }
      keys[code] = static_cast<uint32_t>(distance) * kPoints + code;
    }
    std::nth_element(keys.begin(), keys.begin() + kNearPoints, keys.end());
    std::sort(keys.begin(), keys.begin() + kNearPoints);
    for (size_t i = 0; i < kNearPoints; ++i) {
      codes.push_back(static_cast<uint16_t>(keys[i] % kPoints));
    }
  }
  return codes;
}

template <const auto& kGrid, const auto& kDigits, int kOffset = 0>
const uint16_t* table_of() {
  static const std::vector<uint16_t> kCodes = near_points<kGrid>(kDigits, kOffset);
  return kCodes.data();
}

// Returns bits of the negative values among eight. If `even`, the one of smallest magnitude may
// have the other sign.
uint8_t signs_of(Values eight, bool even) {
  uint8_t signs = 0;
  size_t smallest = 0;
  for (size_t i = 0; i < 8; ++i) {
    if (eight[i] < 0) signs = static_cast<uint8_t>(signs | 1 << i);
    if (std::fabs(eight[i]) < std::fabs(eight[smallest])) smallest = i;
  }
  if (even && std::popcount(signs) % 2 == 1) signs ^= static_cast<uint8_t>(1 << smallest);
  return signs;
}

// Sets `signs` of formats with shifts. n: number of values that are shifted together
void shift_by_sums(Values x, size_t n, BlockNumbers& numbers) {
  for (size_t begin = 0; begin < x.size(); begin += n) {
    float sum = 0;
    for (const float v : x.subspan(begin, n)) sum += v;
    std::fill_n(numbers.signs + begin / 8, n / 8, sum < 0 ? 1 : 0);
  }
}

// Sets the scale and the factors, so that the highest level of a sub-block is near its peak.
void round_factors(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const auto max_scale = static_cast<float>(format.codebook.max_scale);
  const float unit_of_f16 = format.to_f32(f32_to_f16(1.0f));
  const size_t n = x.size() / format.sub_block;
  float steps[16];
  float most = 0;
  for (size_t s = 0; s < n; ++s) {
    steps[s] = magnitude_of_peak(x.subspan(s * format.sub_block, format.sub_block)) / format.top;
    most = std::max(most, steps[s]);
  }
  numbers.scale = f32_to_f16(most / (2 * max_scale + 1) / unit_of_f16);
  const float unit = format.to_f32(numbers.scale);
  for (size_t s = 0; s < n; ++s) {
    const float integer = nearest((divide(steps[s], unit) - 1) * 0.5f, 0, max_scale);
    numbers.factors[s] = static_cast<uint8_t>(2 * static_cast<int>(integer) + 1);
  }
}

}  // namespace

const uint16_t* near_iq3_xxs() { return table_of<kIq3XxsGrid, kIq3XxsDigits>(); }
const uint16_t* near_iq3_s() { return table_of<kIq3SGrid, kIq3SDigits>(); }
const uint16_t* near_iq2_xxs() { return table_of<kIq2XxsGrid, kIq2Digits>(); }
const uint16_t* near_iq2_xs() { return table_of<kIq2XsGrid, kIq2Digits>(); }
const uint16_t* near_iq2_s() { return table_of<kIq2SGrid, kIq2Digits>(); }
const uint16_t* near_iq1() { return table_of<kIq1Grid, kIq1Digits, 1>(); }

void round_to_codes(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const Codebook& codebook = format.codebook;
  const uint16_t* codes = codebook.near_points();
  const bool has_shifts = codebook.signs == CodeSigns::kShifts;
  round_factors(format, x, numbers);
  if (has_shifts) shift_by_sums(x, kBlock32 / format.packed.codes.n_shifts, numbers);
  const float unit = format.to_f32(numbers.scale);
  for (size_t begin = 0; begin < x.size(); begin += 8) {
    const Values eight = x.subspan(begin, 8);
    uint8_t& signs = numbers.signs[begin / 8];
    if (!has_shifts) signs = signs_of(eight, codebook.signs == CodeSigns::kEven);
    const float shift = !has_shifts ? 0.0f : signs != 0 ? -1.0f : 1.0f;
    const float step = unit * static_cast<float>(numbers.factors[begin / format.sub_block]);
    for (size_t first = 0; first < 8; first += codebook.n_values) {
      size_t number = 0;
      for (size_t i = codebook.n_values; i-- > 0;) {
        const float value = eight[first + i];
        const float level = divide(has_shifts ? value : std::fabs(value), step) - shift;
        number = number * codebook.n_digits + digit_of(codebook, level);
      }
      numbers.codes[(begin + first) / codebook.n_values] = codes[number * kNearPoints];
    }
  }
}

void round_to_signs(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  numbers.scale = f32_to_f16(magnitude_of_peak(x));
  const float scale = f16_to_f32(numbers.scale);
  for (size_t i = 0; i < x.size(); ++i) {
    const float level = nearest(divide(x[i], scale), -1, 1) + static_cast<float>(format.zero);
    numbers.levels[i] = static_cast<uint8_t>(level);
  }
}

}  // namespace kvik
