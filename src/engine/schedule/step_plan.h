#pragma once

#include <cstdint>
#include <vector>

#include "engine/request/sequence.h"
#include "engine/schedule/cost_model.h"

namespace kvik {

// What one step computes: the next n_new tokens of each of these sequences.
struct StepPlan {
  struct Entry {
    Sequence* sequence;
    uint32_t n_new;
  };
  std::vector<Entry> entries;
  StepWork work;  // of all entries
  double ms = 0;  // expected

  bool empty() const { return entries.empty(); }
  void clear() {
    entries.clear();
    work = {};
    ms = 0;
  }
  void add(Sequence& sequence, uint32_t n_new) {
    const uint32_t n_logits = n_new == sequence.n_pending() ? 1 : 0;
    work += StepWork::chunk(sequence.n_cached, n_new, n_logits);
    entries.push_back({&sequence, n_new});
  }
};

}  // namespace kvik
