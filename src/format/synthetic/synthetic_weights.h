#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/synthetic/synthetic_layout.h"

namespace kvik {

// Generates the bytes of tensors; a seed always gives the same bytes.
//
// Small tensors get a fresh value per element. Large ones are assembled from runs at random
// positions of a pool of normally distributed values that is quantized once per type and standard
// deviation: generating and quantizing the 1.1 G values of a small model one by one takes a minute,
// this a second. Rows differ, and so do models of different names; only runs of 128 elements (256
// for K types) repeat. One thread at a time.
class SyntheticWeights {
 public:
  // Fills `out`, whole rows of the tensor starting at `first_row`. `seed`: see seed_of.
  void make(const SyntheticTensor& tensor, uint64_t seed, uint64_t first_row,
            std::span<std::byte> out);

  static uint64_t seed_of(std::string_view text);

 private:
  struct Pool {
    ElementType type;
    float deviation;
    std::vector<std::byte> bytes;
  };

  const Pool& pool_for(const SyntheticTensor& tensor);
  void make_from_pool(const SyntheticTensor& tensor, uint64_t seed, uint64_t first_row,
                      std::span<std::byte> out);

  std::vector<float> normal_;  // standard deviation 1; made on first use
  std::vector<Pool> pools_;
};

}  // namespace kvik
