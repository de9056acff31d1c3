#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvik {
namespace {

// Returns the (fractional) index of the pair of dimensions that makes that many turns in
// n_ctx_original tokens.
double pair_of_turns(const RopeConfig& rope, double turns) {
  const double wavelength = rope.yarn.n_ctx_original / turns;
  return rope.n_dims * std::log(wavelength / (2 * std::numbers::pi)) / (2 * std::log(rope.base));
}

// Returns the share of a pair's frequency that is not stretched: 1 up to the first pair that is
// stretched, 0 from the last one on.
double yarn_share(const RopeConfig& rope, uint32_t pair) {
  double low = pair_of_turns(rope, rope.yarn.beta_fast);
  double high = pair_of_turns(rope, rope.yarn.beta_slow);
  if (rope.yarn.is_whole) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(0.0, low);
  high = std::min(rope.n_dims - 1.0, high);
  return 1 - std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
}

double smoothly_stretched(const Llama3RopeConfig& s, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double stays = std::clamp((s.n_ctx_original / wavelength - s.low_freq_factor) /
                                      (s.high_freq_factor - s.low_freq_factor),
                                  0.0, 1.0);
  return (1 - stays) * frequency / s.factor + stays * frequency;
}

// Returns whether outputs of attention are rotated back.
bool turns_back(const ModelConfig& config) {
  return std::ranges::any_of(config.layers, [](const LayerConfig& layer) {
    return layer.if_attention() && layer.attention().joint.exists();
  });
}

}  // namespace

double rope_frequency(const RopeConfig& rope, uint32_t pair, double divisor) {
  double frequency = std::pow(static_cast<double>(rope.base), -2.0 * pair / rope.n_dims) / divisor;
  if (rope.llama3_scaling.n_ctx_original > 0) {
    frequency = smoothly_stretched(rope.llama3_scaling, frequency);
  }
  const double stretched = frequency * rope.position_scale;
  if (rope.yarn.n_ctx_original == 0) return stretched;
  const double stays = yarn_share(rope, pair);
  return stretched * (1 - stays) + frequency * stays;
}

RopeTables::RopeTables(Memory& memory, const ModelConfig& config, std::span<const float> divisors,
                       uint32_t n_rows_max)
    : memory_(memory), has_inverse_(turns_back(config)) {
  for (const RopeConfig& rope : config.ropes) {
    Table table{.config = rope, .frequencies = {}, .host = {}, .angles = {}};
    const uint32_t n_pairs = rope.n_dims / 2;
    for (uint32_t i = 0; i < n_pairs; ++i) {
      table.frequencies.push_back(
          rope_frequency(rope, i, divisors.empty() || !rope.has_divisors ? 1.0 : divisors[i]));
    }
    const size_t n_values = size_t{n_rows_max} * n_pairs;
    const size_t n_parts = has_inverse_ ? 3 : 2;
    table.host.resize(n_parts * n_values);
    table.angles = memory.allocate(n_parts * n_values * sizeof(float));
    tables_.push_back(std::move(table));
  }
}

uint64_t RopeTables::bytes(const ModelConfig& config, uint32_t n_rows_max) {
  uint64_t n_pairs = 0;
  for (const RopeConfig& rope : config.ropes) n_pairs += rope.n_dims / 2;
  // cos and sin, on the device and on the host
  return n_pairs * n_rows_max * (turns_back(config) ? 6 : 4) * sizeof(float);
}

void RopeTables::prepare(std::span<const uint32_t> positions) {
  for (Table& table : tables_) {
    const size_t n_values = table.n_values = positions.size() * table.frequencies.size();
    float* cos = table.host.data();
    float* sin = cos + n_values;
    float* inverse = sin + n_values;
    for (const uint32_t position : positions) {
      for (const double frequency : table.frequencies) {
        const double angle = position * frequency;
        *cos++ = static_cast<float>(std::cos(angle) * table.config.magnitude);
        *sin = static_cast<float>(std::sin(angle) * table.config.magnitude);
        if (has_inverse_) *inverse++ = -*sin;
        ++sin;
      }
    }
    const std::span<const float> values(table.host);
    memory_.copy_in(table.angles.data(),
                    std::as_bytes(values.first((has_inverse_ ? 3 : 2) * n_values)));
  }
}

RopeAngles RopeTables::angles(uint32_t rope) const {
  const Table& table = tables_[rope];
  const float* cos = table.angles.floats();
  return {cos, cos + table.n_values, static_cast<uint32_t>(table.frequencies.size())};
}

RopeAngles RopeTables::inverse_angles(uint32_t rope) const {
  const RopeAngles forward = angles(rope);
  return {forward.cos, forward.sin + tables_[rope].n_values, forward.n_pairs};
}

}  // namespace kvik
