#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace kvik {

// What one step computes: the next n_new tokens of each of these sequences.
struct StepPlan {
  struct Entry {
    Sequence* sequence;
    uint32_t n_new;
  };
  std::vector<Entry> entries;

  bool empty() const { return entries.empty(); }
};

}  // namespace kvik
