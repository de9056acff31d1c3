#include "tensor/round.h"

#include <algorithm>
#include <cmath>

#include "tensor/e4m3.h"
#include "tensor/half.h"
#include "tensor/rounding.h"

namespace kvik {
namespace {

// Returns the index of the level of kFp4Levels nearest to value · inverse; of two that are equally
// near, the one of smaller magnitude.
uint8_t number_of_fp4(float value, float inverse) {
  const float size = std::fabs(value) * inverse;
  uint8_t number = 0;
  for (size_t level = 0; level + 1 < 8; ++level) {
    const float middle = 0.5f * static_cast<float>(kFp4Levels[level] + kFp4Levels[level + 1]);
    if (size > middle) ++number;
  }
  return number > 0 && value < 0 ? number | 8 : number;
}

// Range of the small integers of sub-blocks.
struct FactorRange {
  float at_peak, low, high;
};

// Computes value ≈ unit · integer for n sub-blocks and writes the integers to `factors`. Returns
// the unit as f16.
uint16_t to_factors(Values values, float peak, FactorRange range, int least, uint8_t* factors) {
  const float inverse = divide(range.at_peak, peak);
  for (size_t s = 0; s < values.size(); ++s) {
    const float integer = nearest(inverse * values[s], range.low, range.high);
    factors[s] = static_cast<uint8_t>(static_cast<int>(integer) - least);
  }
  return f32_to_f16(peak / range.at_peak);
}

// Computes the levels of all sub-blocks from the factors in `numbers`.
void fill_levels(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float scale = f16_to_f32(numbers.scale);
  const auto zero = static_cast<float>(format.zero);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t s = i / format.sub_block;
    const float step = scale * static_cast<float>(numbers.factor(s, format.min_factor));
    if (format.table) {
      numbers.levels[i] = number_in(format.table, 16, divide(x[i], step));
      continue;
    }
    float value = x[i];
    if (format.has_minimum) value += f16_to_f32(numbers.minimum) * numbers.factors[16 + s];
    const float level = nearest(divide(value, step), -zero, format.top - zero);
    numbers.levels[i] = static_cast<uint8_t>(static_cast<int>(level) + format.zero);
  }
}

// Values ≈ scale · level + offset, offset ≤ 0.
struct Line {
  float scale = 0;
  float offset = 0;
};

// Sums over a sub-block for the least-squares line.
struct Sums {
  float q = 0, qq = 0, qx = 0, x = 0;
};

Line least_squares(const Sums& s) {
  const float det = 32.0f * s.qq - s.q * s.q;
  const float offset = divide(s.qq * s.x - s.q * s.qx, det);
  const float scale = offset > 0 || det == 0 ? divide(s.qx, s.qq)  // a line through zero
                                             : divide(32.0f * s.qx - s.x * s.q, det);
  return {scale, std::min(offset, 0.0f)};
}

// Returns the best of nine lines for 32 values and levels 0 … top.
Line fit_line(Values x, float top) {
  const float low = std::min(*std::ranges::min_element(x), 0.0f);
  const float width = *std::ranges::max_element(x) - low;
  Line best = {0, low};
  float min_error = 0;
  for (const float v : x) min_error += (low - v) * (low - v);
  for (int step = 0; step < 9; ++step) {
    const float inverse = divide(top - 1.0f + 0.25f * static_cast<float>(step), width);
    float levels[kBlock32];
    Sums sums;
    for (size_t i = 0; i < x.size(); ++i) {
      const float q = nearest(inverse * (x[i] - low), 0, top);
      levels[i] = q;
      sums.q += q;
      sums.qq += q * q;
      sums.qx += q * x[i];
      sums.x += x[i];
    }
    const Line line = least_squares(sums);
    float error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const float difference = (line.scale * levels[i] + line.offset) - x[i];
      error += difference * difference;
    }
    if (error < min_error) {
      min_error = error;
      best = line;
    }
  }
  return best;
}

// Returns the best of nine scales for 16 values and levels −32 … 31.
float fit_scale(Values x) {
  const float peak = peak_of(x);
  float best = 0;
  float most_gain = 0;
  for (int step = -4; step < 5; ++step) {
    const float inverse = divide(-(32.0f + 0.25f * static_cast<float>(step)), peak);
    Sums sums;
    for (const float v : x) {
      const float q = nearest(inverse * v, -32, 31);
      sums.qx += q * v;
      sums.qq += q * q;
    }
    const float gain = divide(sums.qx * sums.qx, sums.qq);
    if (gain > most_gain) {
      most_gain = gain;
      best = divide(sums.qx, sums.qq);
    }
  }
  return best;
}

// Rounds scales and minima of sub-blocks, all ≥ 0, to integers up to `top`, then computes the
// levels.
void round_lines(const BlockFormat& format, float top, Values scales, Values minima, Values x,
                 BlockNumbers& numbers) {
  const FactorRange range{top, 0, top};
  numbers.scale = to_factors(scales, *std::ranges::max_element(scales), range, 0, numbers.factors);
  numbers.minimum =
      to_factors(minima, *std::ranges::max_element(minima), range, 0, numbers.factors + 16);
  fill_levels(format, x, numbers);
}

}  // namespace

void round_around_zero(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const auto middle = static_cast<float>(format.zero);
  const float scale = peak_of(x) / -middle;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  numbers.scale = f32_to_f16(scale);
  for (size_t i = 0; i < x.size(); ++i) {
    const float level = std::clamp(x[i] * inverse + (middle + 0.5f), 0.0f, format.top);
    numbers.levels[i] = static_cast<uint8_t>(level);
  }
}

void round_to_bytes(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float scale = std::fabs(peak_of(x)) / 127.0f;
  numbers.scale = f32_to_f16(scale);
  for (size_t i = 0; i < x.size(); ++i) {
    const long quant = scale > 0 ? std::lround(x[i] / scale) : 0;
    numbers.levels[i] = static_cast<uint8_t>(quant + format.zero);
  }
}

void round_to_table(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float scale = peak_of(x) / static_cast<float>(format.table[0]);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  numbers.scale = f32_to_f16(scale);
  for (size_t i = 0; i < x.size(); ++i) {
    numbers.levels[i] = number_in(format.table, 16, x[i] * inverse);
  }
}

void round_to_nvfp4(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  for (size_t begin = 0; begin < x.size(); begin += format.sub_block) {
    const Values part = x.subspan(begin, format.sub_block);
    const uint8_t scale = f32_to_e4m3(std::fabs(peak_of(part)) / 6.0f);
    numbers.factors[begin / format.sub_block] = scale;
    const float inverse = divide(2.0f, e4m3_to_f32(scale));
    for (size_t i = 0; i < part.size(); ++i) {
      numbers.levels[begin + i] = number_of_fp4(part[i], inverse);
    }
  }
}

void round_to_fp4(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float peak = std::fabs(peak_of(x));
  int exponent = 0;
  std::frexp(peak, &exponent);  // peak < 2^exponent
  const bool is_some = peak > 0 && std::isfinite(peak);
  numbers.scale = static_cast<uint16_t>(is_some ? std::clamp(exponent + 124, 0, 254) : 0);
  const float inverse = 1.0f / format.to_f32(numbers.scale);
  for (size_t i = 0; i < x.size(); ++i) {
    numbers.levels[i] = number_of_fp4(x[i], inverse);
  }
}

void round_to_mean(const BlockFormat&, Values x, BlockNumbers& numbers) {
  float sum = 0;
  for (const float v : x) sum += std::fabs(v);
  numbers.scale = f32_to_f16(sum / static_cast<float>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) numbers.levels[i] = x[i] < 0 ? 0 : 1;
}

void round_below_peak(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const auto zero = static_cast<float>(format.zero);
  const float scale = peak_of(x) / (format.top - zero);
  numbers.scale = f32_to_f16(scale);
  for (size_t i = 0; i < x.size(); ++i) {
    const float level = nearest(divide(x[i], scale), -zero, format.top - zero) + zero;
    numbers.levels[i] = static_cast<uint8_t>(level);
  }
}

void round_above_minimum(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float minimum = *std::ranges::min_element(x);
  const float scale = (*std::ranges::max_element(x) - minimum) / format.top;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  numbers.scale = f32_to_f16(scale);
  numbers.minimum = f32_to_f16(minimum);
  for (size_t i = 0; i < x.size(); ++i) {
    const float level = std::clamp((x[i] - minimum) * inverse + 0.5f, 0.0f, format.top);
    numbers.levels[i] = static_cast<uint8_t>(level);
  }
}

void round_group(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float low = std::min(*std::ranges::min_element(x), 0.0f);
  const float high = std::max(*std::ranges::max_element(x), 0.0f);
  const float scale = (high - low) / format.top;
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  const float zero = std::nearbyint(-low * inverse);
  numbers.scale = f32_to_f16(scale);
  numbers.zero = static_cast<uint16_t>(zero);
  for (size_t i = 0; i < x.size(); ++i) {
    const float level = std::nearbyint(x[i] * inverse) + zero;
    numbers.levels[i] = static_cast<uint8_t>(std::clamp(level, 0.0f, format.top));
  }
}

void round_peaks(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  const float at_peak = format.table ? format.table[0] : -static_cast<float>(format.zero);
  const size_t n = x.size() / format.sub_block;
  float steps[16];
  for (size_t s = 0; s < n; ++s) {
    steps[s] = peak_of(x.subspan(s * format.sub_block, format.sub_block)) / at_peak;
  }
  const Values of_all(steps, n);
  numbers.scale =
      to_factors(of_all, peak_of(of_all), {-32, -32, 31}, format.min_factor, numbers.factors);
  fill_levels(format, x, numbers);
}

void round_spans(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  float steps[16], minima[16];
  for (size_t s = 0; s < 16; ++s) {
    const auto part = x.subspan(s * 16, 16);
    const float low = std::min(*std::ranges::min_element(part), 0.0f);
    steps[s] = (*std::ranges::max_element(part) - low) / format.top;
    minima[s] = 0.0f - low;  // avoids −0, which would become the block's minimum
  }
  round_lines(format, 15, steps, minima, x, numbers);
}

void round_fitted_lines(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  float scales[8], minima[8];
  for (size_t s = 0; s < 8; ++s) {
    const Line line = fit_line(x.subspan(s * 32, 32), format.top);
    scales[s] = line.scale;
    minima[s] = -line.offset;
  }
  round_lines(format, 63, scales, minima, x, numbers);
}

void round_fitted_scales(const BlockFormat& format, Values x, BlockNumbers& numbers) {
  float scales[16];
  for (size_t s = 0; s < 16; ++s) scales[s] = fit_scale(x.subspan(s * 16, 16));
  numbers.scale = to_factors(scales, peak_of(scales), {-128, -128, 127}, 0, numbers.factors);
  fill_levels(format, x, numbers);
}

}  // namespace kvik
