#include <cmath>

#include "tensor/half.h"
#include "tensor/round.h"
#include "tensor/rounding.h"

namespace kvik {
namespace {

// Returns the factor nearest to a number.
float factor_near(const BlockFormat& format, float number) {
  const auto [low, high] = format.encoding.factors;
  if (!format.has_odd_factors) return nearest(number, low, high);
  return 2 * nearest((number - 1) * 0.5f, (low - 1) * 0.5f, (high - 1) * 0.5f) + 1;
}

// The table of a sub-block, which is shifted if the sum of the values is negative, and the scale
// for which its first level is the peak.
struct SubBlockTable {
  uint8_t is_shifted;
  float shift, step;
};
SubBlockTable table_for(const BlockFormat& format, Values part) {
  float sum = 0;
  for (const float v : part) sum += v;
  SubBlockTable table{static_cast<uint8_t>(sum < 0 ? 1 : 0), 0, 0};
  table.shift = static_cast<float>(format.table_shift * table.is_shifted);
  const int8_t lowest = format.pairs ? format.pairs[0][0] : format.table[0];
  table.step = peak_of(part) / (static_cast<float>(lowest) + table.shift);
  return table;
}

// Returns the number of the nearest pair; of two that are equally near, the lower one.
uint8_t pair_near(const BlockFormat& format, float first, float second) {
  uint8_t number = 0;
  float least = 0;
  for (uint8_t k = 0; static_cast<float>(k) <= format.top; ++k) {
    const float a = first - static_cast<float>(format.pairs[k][0]);
    const float b = second - static_cast<float>(format.pairs[k][1]);
    const float distance = a * a + b * b;
    if (k > 0 && distance >= least) continue;
    number = k;
    least = distance;
  }
  return number;
}

}  // namespace

float unit_of_shifted_table(const BlockFormat& format, Values x) {
  float peak = 0;
  for (size_t begin = 0; begin < x.size(); begin += format.sub_block) {
    const float step = table_for(format, x.subspan(begin, format.sub_block)).step;
    if (std::fabs(step) > std::fabs(peak)) peak = step;
  }
  return peak / format.encoding.factors.low;
}

void round_to_shifted_table(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  if (format.row_scale == RowScale::kNone) {
    numbers.scale = f32_to_f16(unit_of_shifted_table(format, x));
  }
  const float unit = scale_of(format, numbers);
  const size_t n_values = format.sub_block;
  for (size_t s = 0; s < x.size() / n_values; ++s) {
    const SubBlockTable table = table_for(format, x.subspan(s * n_values, n_values));
    const float factor = factor_near(format, divide(table.step, unit));
    numbers.factors[s] = static_cast<uint8_t>(static_cast<int>(factor) - format.min_factor);
    numbers.factors[16 + s] = table.is_shifted;
    for (size_t i = s * n_values; i < (s + 1) * n_values; ++i) {
      const float level = divide(x[i], unit * factor) - table.shift;
      numbers.levels[i] = number_in(format.table, static_cast<size_t>(format.top) + 1, level);
    }
  }
}

void round_to_pairs(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float unit = scale_of(format, numbers);
  for (size_t s = 0; s < x.size() / kBlock32; ++s) {
    const SubBlockTable table = table_for(format, x.subspan(s * kBlock32, kBlock32));
    const float factor = factor_near(format, divide(table.step, unit));
    numbers.factors[s] = static_cast<uint8_t>(static_cast<int>(factor) - format.min_factor);
    numbers.factors[16 + s] = 0;
    for (size_t i = s * kBlock32; i < (s + 1) * kBlock32; i += 2) {
      const float step = unit * factor;
      const uint8_t number = pair_near(format, divide(x[i], step), divide(x[i + 1], step));
      numbers.levels[i] = numbers.levels[i + 1] = number;
    }
  }
}

}  // namespace kvik
