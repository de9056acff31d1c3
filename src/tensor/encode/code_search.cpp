#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "tensor/block_format.h"
#include "tensor/encode/search.h"
#include "tensor/half.h"
#include "tensor/rounding.h"

// Searches for the numbers of super-blocks with a codebook. For each sub-block, steps around the
// one that reaches its peak are tried; under a step, eight or four values get the point with the
// least weighted error among those near their digits. Then the steps become 2 · s + 1 times a
// scale, the neighbors of each s are tried, and the scale is refined by least squares.
namespace kvik {
namespace {

constexpr size_t kMaxSubBlock = 32;

// Values of one sub-block with the weights of their squared errors.
struct SubBlock {
  std::span<const float> x;
  float w[kMaxSubBlock];
  uint8_t signs[kMaxSubBlock / 8];  // of formats with signs
  float targets[kMaxSubBlock];      // values times these signs
};

// The points of a sub-block under a step.
struct Fit {
  uint16_t codes[kMaxSubBlock / 4];
  uint8_t shifts[kMaxSubBlock / 8];  // of formats with shifts
  float error = 0;
  float wql = 0, wqq = 0;  // Σ w · level · target and Σ w · level²
};

class CodeFitter {
 public:
  explicit CodeFitter(const BlockFormat& format)
      : format_(format), book_(format.codebook), near_(format.codebook.near_points()) {}

  Fit fit(const SubBlock& s, float step) const {
    Fit out;
    if (book_.signs != CodeSigns::kShifts) {
      add_part(s, step, 0, s.x.size(), 0, out);
      return out;
    }
    const size_t n = kBlock32 / format_.packed.codes.n_shifts;  // values that are shifted together
    for (size_t first = 0; first < s.x.size(); first += n) {
      Fit up = out, down = out;
      add_part(s, step, first, n, 1, up);
      add_part(s, step, first, n, -1, down);
      const bool is_up = up.error <= down.error;
      out = is_up ? up : down;
      std::fill_n(out.shifts + first / 8, n / 8, is_up ? 0 : 1);
    }
    return out;
  }

  // Returns the step with the least error of those around the one that maps the peak to the highest
  // level, refined by least squares.
  float best_step(const SubBlock& s) const {
    float peak = 0;
    for (const float v : s.x) peak = std::max(peak, std::fabs(v));
    Best best;
    for (size_t i = 0; i < s.x.size(); ++i) best.error += s.w[i] * s.x[i] * s.x[i];
    const float all = best.error;
    for (int i = -2; i <= format_.encoding.n_steps; ++i) {
      const float over = 1.0f + format_.encoding.step * static_cast<float>(i);
      try_step(s, peak / (format_.top * over), all, best);
    }
    // Values of one magnitude have the lowest level.
    if (book_.digits[0] > 0) try_step(s, peak / static_cast<float>(book_.digits[0]), all, best);
    return best.step;
  }

 private:
  struct Best {
    float step = 0, error = 0;
  };

  // all: Σ w x²
  void try_step(const SubBlock& s, float step, float all, Best& best) const {
    const Fit trial = fit(s, step);
    const float refined = divide(trial.wql, trial.wqq);
    const float error = all - refined * trial.wql;  // with the same points
    if (refined > 0 && error < best.error) best = {refined, error};
  }

  // Adds the points of n values from `first` on. shift: 1 or −1 if the format has shifts
  void add_part(const SubBlock& s, float step, size_t first, size_t n, int shift, Fit& fit) const {
    const float inverse = divide(1.0f, step);
    const size_t n_values = book_.n_values;
    for (size_t begin = first; begin < first + n; begin += n_values) {
      size_t number = 0;
      for (size_t i = n_values; i-- > 0;) {
        const float level = s.targets[begin + i] * inverse - static_cast<float>(shift);
        number = number * book_.n_digits + digit_of(book_, level);
      }
      fit.codes[begin / n_values] =
          best_code(s, step, begin, near_ + number * kNearPoints, shift < 0 ? 130 : 128, fit);
    }
  }

  uint16_t best_code(const SubBlock& s, float step, size_t begin, const uint16_t* near, int offset,
                     Fit& fit) const {
    uint16_t best = near[0];
    float least = 0;
    for (size_t i = 0; i < kNearPoints; ++i) {
      const float error = book_.n_values == 4 ? error_of<4>(s, step, begin, near[i], offset)
                                              : error_of<8>(s, step, begin, near[i], offset);
      if (i > 0 && error >= least) continue;
      least = error;
      best = near[i];
    }
    fit.error += least;
    const uint8_t* levels = book_.levels + size_t{best} * book_.n_values;
    for (size_t i = 0; i < book_.n_values; ++i) {
      const auto level = static_cast<float>(levels[i] - offset);
      fit.wql += s.w[begin + i] * level * s.targets[begin + i];
      fit.wqq += s.w[begin + i] * level * level;
    }
    return best;
  }

  template <size_t kValues>
  float error_of(const SubBlock& s, float step, size_t begin, uint16_t code, int offset) const {
    const uint8_t* levels = book_.levels + size_t{code} * kValues;
    float error = 0;
    for (size_t i = 0; i < kValues; ++i) {
      const float difference = step * static_cast<float>(levels[i] - offset) - s.targets[begin + i];
      error += s.w[begin + i] * difference * difference;
    }
    return error;
  }

  const BlockFormat& format_;
  const Codebook& book_;
  const uint16_t* near_;
};

// Sets the signs of a sub-block and its values times them. If the number of negative values among
// eight must be even, the one that costs least gets the other sign.
void choose_signs(CodeSigns kind, SubBlock& s) {
  std::ranges::copy(s.x, s.targets);
  if (kind == CodeSigns::kShifts) return;
  for (size_t begin = 0; begin < s.x.size(); begin += 8) {
    uint32_t signs = 0;
    size_t cheapest = begin;
    const auto cost = [&](size_t i) { return s.w[i] * s.x[i] * s.x[i]; };
    for (size_t i = begin; i < begin + 8; ++i) {
      if (s.x[i] < 0) signs |= 1u << (i - begin);
      if (cost(i) < cost(cheapest)) cheapest = i;
    }
    if (kind == CodeSigns::kEven && std::popcount(signs) % 2 == 1)
      signs ^= 1u << (cheapest - begin);
    for (size_t i = begin; i < begin + 8; ++i) {
      s.targets[i] = (signs >> (i - begin) & 1) != 0 ? -s.x[i] : s.x[i];
    }
    s.signs[begin / 8] = static_cast<uint8_t>(signs);
  }
}

SubBlock sub_block_of(const SearchTask& task, size_t begin) {
  const size_t n = task.format.sub_block;
  SubBlock s;
  s.x = task.values.subspan(begin, n);
  float mean = 0;
  for (const float v : s.x) mean += std::fabs(v);
  mean /= static_cast<float>(n);
  for (size_t i = 0; i < n; ++i) {
    const float importance = task.importance.empty() ? 1.0f : task.importance[begin + i];
    s.w[i] = importance * (mean + std::fabs(s.x[i]));  // as in searches.cpp
  }
  choose_signs(task.format.codebook.signs, s);
  return s;
}

// Writes the points of sub-block number s.
void put_fit(const BlockFormat& format, const SubBlock& values, const Fit& fit, size_t s,
             BlockNumbers& out) {
  const size_t n_codes = format.sub_block / format.codebook.n_values;
  std::copy_n(fit.codes, n_codes, out.codes + s * n_codes);
  const size_t n_eights = format.sub_block / 8;
  const bool has_shifts = format.codebook.signs == CodeSigns::kShifts;
  std::copy_n(has_shifts ? fit.shifts : values.signs, n_eights, out.signs + s * n_eights);
}

void search_codes_of(const SearchTask& task) {
  const BlockFormat& format = task.format;
  const CodeFitter fitter(format);
  const size_t n = kBlock256 / format.sub_block;
  const auto max_scale = static_cast<float>(format.codebook.max_scale);
  const float f16_unit = format.to_f32(f32_to_f16(1.0f));
  SubBlock subs[16];
  float steps[16];
  float most = 0;
  for (size_t s = 0; s < n; ++s) {
    subs[s] = sub_block_of(task, s * format.sub_block);
    steps[s] = fitter.best_step(subs[s]);
    most = std::max(most, steps[s]);
  }
  BlockNumbers& out = *task.out;
  out.scale = f32_to_f16(most / (2 * max_scale + 1) / f16_unit);
  const float unit = format.to_f32(out.scale);
  float wql = 0, wqq = 0;  // of all sub-blocks, with levels times factors
  for (size_t s = 0; s < n; ++s) {
    const float middle = std::nearbyint((divide(steps[s], unit) - 1) * 0.5f);
    Fit best;
    float best_factor = 0;
    for (float beside = -1; beside <= 1; ++beside) {
      const float factor = 2 * std::clamp(middle + beside, 0.0f, max_scale) + 1;
      const Fit trial = fitter.fit(subs[s], unit * factor);
      if (best_factor != 0 && trial.error >= best.error) continue;
      best = trial;
      best_factor = factor;
    }
    out.factors[s] = static_cast<uint8_t>(best_factor);
    put_fit(format, subs[s], best, s, out);
    wql += best_factor * best.wql;
    wqq += best_factor * best_factor * best.wqq;
  }
  const float refined = divide(wql, wqq);
  if (refined > 0) out.scale = f32_to_f16(refined / f16_unit);
}

// Searches for the scale of −1, 0 and 1: the levels of thresholds from a quarter to the whole of
// the peak, each with its least-squares scale.
void search_signs_of(const SearchTask& task) {
  const std::span<const float> x = task.values;
  const auto weight = [&](size_t i) { return task.importance.empty() ? 1.0f : task.importance[i]; };
  float peak = 0;
  for (const float v : x) peak = std::max(peak, std::fabs(v));
  float best_scale = 0, best_threshold = 0, most_gain = 0;
  constexpr int kSteps = 32;
  for (int step = 1; step < kSteps; ++step) {
    const float threshold = peak * static_cast<float>(step) / kSteps;
    float wx = 0, w = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const bool is_some = std::fabs(x[i]) >= threshold;
      wx += is_some ? weight(i) * std::fabs(x[i]) : 0.0f;
      w += is_some ? weight(i) : 0.0f;
    }
    const float gain = divide(wx * wx, w);
    if (gain <= most_gain) continue;
    most_gain = gain;
    best_scale = divide(wx, w);
    best_threshold = threshold;
  }
  task.out->scale = f32_to_f16(best_scale);
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_some = best_scale > 0 && std::fabs(x[i]) >= best_threshold;
    task.out->levels[i] = static_cast<uint8_t>(!is_some ? 1 : x[i] < 0 ? 0 : 2);
  }
}

}  // namespace

// The same code for every processor, so that the bytes are equal.
constexpr Search kCodeSearch = {1, search_codes_of, search_codes_of};
constexpr Search kSignSearch = {1, search_signs_of, search_signs_of};

}  // namespace kvik
