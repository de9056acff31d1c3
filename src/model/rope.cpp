#include "model/rope.h"

#include <cmath>

namespace kvik {

RopeTables::RopeTables(Memory& memory, const ModelConfig& config, std::span<const float> divisors,
                       uint32_t n_rows_max)
    : memory_(memory) {
  for (const RopeConfig& rope : config.ropes) {
    Table table{.config = rope, .frequencies = {}, .host = {}, .cos = {}, .sin = {}};
    const uint32_t n_pairs = rope.n_dims / 2;
    for (uint32_t i = 0; i < n_pairs; ++i) {
      double frequency = std::pow(static_cast<double>(rope.base), -2.0 * i / rope.n_dims);
      if (!divisors.empty()) frequency /= divisors[i];
      table.frequencies.push_back(frequency * rope.position_scale);
    }
    const size_t n_values = size_t{n_rows_max} * n_pairs;
    table.host.resize(2 * n_values);
    table.cos = memory.allocate(n_values * sizeof(float));
    table.sin = memory.allocate(n_values * sizeof(float));
    tables_.push_back(std::move(table));
  }
}

uint64_t RopeTables::bytes(const ModelConfig& config, uint32_t n_rows_max) {
  uint64_t n_pairs = 0;
  for (const RopeConfig& rope : config.ropes) n_pairs += rope.n_dims / 2;
  return n_pairs * n_rows_max * 4 * sizeof(float);  // cos and sin, here and on the host
}

void RopeTables::prepare(std::span<const uint32_t> positions) {
  for (Table& table : tables_) {
    const size_t n_values = positions.size() * table.frequencies.size();
    float* cos = table.host.data();
    float* sin = cos + n_values;
    for (const uint32_t position : positions) {
      for (const double frequency : table.frequencies) {
        const double angle = position * frequency;
        *cos++ = static_cast<float>(std::cos(angle));
        *sin++ = static_cast<float>(std::sin(angle));
      }
    }
    const std::span<const float> values(table.host);
    memory_.copy_in(table.cos.data(), std::as_bytes(values.first(n_values)));
    memory_.copy_in(table.sin.data(), std::as_bytes(values.subspan(n_values, n_values)));
  }
}

RopeAngles RopeTables::angles(uint32_t rope) const {
  const Table& table = tables_[rope];
  return {table.cos.floats(), table.sin.floats(), static_cast<uint32_t>(table.frequencies.size())};
}

}  // namespace kvik
