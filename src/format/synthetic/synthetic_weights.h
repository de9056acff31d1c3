#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/synthetic/synthetic_layout.h"

namespace kvik {

// Makes up the bytes of tensors, the same for the same seed whatever was made before.
//
// Small tensors get a fresh value for every element. Large ones are put together, run by run, from
// places drawn in a pool of normally distributed values that is quantised once per type and
// deviation: drawing and quantising the 1.1 G values of a small model one by one takes a minute,
// this a second. Rows differ, and so do the models of two names; only runs of 128 elements (256 of
// the K types) occur again. One thread at a time.
class SyntheticWeights {
 public:
  // Fills `out`, whole rows of the tensor from `first_row` on. `seed`: see seed_of.
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

  std::vector<float> normal_;  // deviation 1; made on first use
  std::vector<Pool> pools_;
};

}  // namespace kvik
