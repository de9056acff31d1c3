#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/sequence.h"
#include "engine/schedule/cost_model.h"
#include "kv/kv_cache.h"

namespace kvik {

// What one step computes.
struct StepPlan {
  struct Entry {
    Sequence* sequence;
    uint32_t n_new;     // rows: the sequence's next tokens
    uint32_t n_wanted;  // of them, the last ones: their logits, or hidden states, are wanted
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
    const uint32_t n_last = n_new == sequence.n_pending() ? 1 : 0;
    work += StepWork::chunk(sequence.n_cached, n_new, n_last);
    entries.push_back({&sequence, n_new, sequence.wants_all_rows() ? n_new : n_last});
  }
};

// What a step leaves behind once its rows are computed and sampled from: of each entry the first
// accepted[i] rows stand, at least one. Their pages become findable, pages that slid out of every
// window are given back, and so are those that held nothing but rows that do not stand. Returns the
// prompt tokens among the rows that stand.
uint64_t commit_rows(KvCache& kv, const StepPlan& plan, std::span<const uint32_t> accepted);

}  // namespace kvik
