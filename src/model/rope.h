#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"

namespace kvik {

// Returns the radians per position by which a pair of dimensions is rotated. `divisor` comes from
// the file's tensor of divisors, or is 1.
double rope_frequency(const RopeConfig& rope, uint32_t pair, double divisor);

// The rotation angles of a batch's rows, computed for each step and shared by all layers. A table
// for the whole context would take 256 MB at a million tokens; computing the sines takes less than
// 1% of a step. One thread.
class RopeTables {
 public:
  // Allocates tables of n_rows_max rows for each of the config's ropes. `divisors` may be empty.
  RopeTables(Memory& memory, const ModelConfig& config, std::span<const float> divisors,
             uint32_t n_rows_max);

  // Returns the bytes of such tables, in the backend's memory and on the host.
  static uint64_t bytes(const ModelConfig& config, uint32_t n_rows_max);

  void prepare(std::span<const uint32_t> positions);

  RopeAngles angles(uint32_t rope) const;
  // Returns the angles that rotate back; only for models with a JointConfig.
  RopeAngles inverse_angles(uint32_t rope) const;
  RopePairing pairing(uint32_t rope) const { return tables_[rope].config.pairing; }

 private:
  struct Table {
    RopeConfig config;
    std::vector<double> frequencies;  // radians per position, one per pair
    std::vector<float> host;          // cos, then sin, then −sin if has_inverse_
    Buffer angles;                    // [2 or 3, n_rows_max, n_pairs], used as far as `host`
    size_t n_values = 0;              // number of values of cos, and of sin, in use
  };

  Memory& memory_;
  const bool has_inverse_;
  std::vector<Table> tables_;
};

}  // namespace kvik
