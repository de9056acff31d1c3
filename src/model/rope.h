#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"

namespace kvik {

// Radians per position that a pair of dimensions turns by; `divisor` is that of the file's tensor,
// or 1.
double rope_frequency(const RopeConfig& rope, uint32_t pair, double divisor);

// The rotation angles of a batch's rows, made anew for each step and shared by all layers: a table
// over the whole context would cost 256 MB at a million tokens, the sines of one step under 1% of
// it.
class RopeTables {
 public:
  // Room for n_rows_max rows, for each of the config's ropes. `divisors` may be empty.
  RopeTables(Memory& memory, const ModelConfig& config, std::span<const float> divisors,
             uint32_t n_rows_max);

  // Bytes of such tables.
  static uint64_t bytes(const ModelConfig& config, uint32_t n_rows_max);

  void prepare(std::span<const uint32_t> positions);

  RopeAngles angles(uint32_t rope) const;
  RopePairing pairing(uint32_t rope) const { return tables_[rope].config.pairing; }

 private:
  struct Table {
    RopeConfig config;
    std::vector<double> frequencies;  // radians per position, one per pair
    std::vector<float> host;          // cos, then sin
    Buffer angles;                    // [2, n_rows_max, n_pairs], in use as far as `host`
    size_t n_values = 0;              // of cos, and of sin, that are in use
  };

  Memory& memory_;
  std::vector<Table> tables_;
};

}  // namespace kvik
