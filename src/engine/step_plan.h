#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cost_model.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace kvik {

// What one step computes.
struct StepPlan {
  struct Entry {
    Sequence* sequence;
    uint32_t n_new;     // rows: the sequence's next tokens, then those of its draft
    uint32_t n_wanted;  // of them, the last ones: their logits, or hidden states, are wanted

    uint32_t n_guesses() const { return static_cast<uint32_t>(sequence->speculation.draft.size()); }
    uint32_t n_own() const { return n_new - n_guesses(); }
    // The guesses among the first n_accepted rows.
    uint32_t n_true(uint32_t n_accepted) const {
      return n_accepted - std::min(n_accepted, n_own());
    }
  };
  std::vector<Entry> entries;
  StepWork work;        // of all entries
  StepWork plain_work;  // but for the rows of drafts
  uint32_t n_prompt_rows = 0;
  double ms = 0;  // expected

  bool empty() const { return entries.empty(); }
  void clear() {
    entries.clear();
    work = plain_work = {};
    n_prompt_rows = 0;
    ms = 0;
  }
  void add(Sequence& sequence, uint32_t n_new) {
    const uint32_t n_last = n_new == sequence.n_pending() ? 1 : 0;
    const StepWork chunk = StepWork::chunk(sequence.n_cached, n_new, n_last);
    work += chunk;
    plain_work += chunk;
    if (!sequence.is_decoding()) n_prompt_rows += n_new;
    entries.push_back({&sequence, n_new, sequence.wants_all_rows() ? n_new : n_last});
  }
  // The sequence's draft as rows behind its newest token: each wants logits.
  void add_draft(Entry& entry) {
    const uint32_t n_draft = entry.n_guesses();
    const uint32_t n_cached = entry.sequence->n_cached;
    entry.n_new += n_draft;
    entry.n_wanted += n_draft;
    work.n_rows += n_draft;
    work.n_logits += n_draft;
    work.kv_tokens += n_draft;
    work.attention += StepWork::chunk(n_cached, entry.n_new, 0).attention;
  }
};

// What a step leaves behind once its rows are computed and sampled from: of each entry the first
// accepted[i] rows stand, at least one, and its sequence has their tokens. Their pages become
// findable, pages that slid out of every window are given back, and so are those that held nothing
// but rows that do not stand. Returns the prompt tokens among the rows that stand.
uint64_t commit_rows(KvCache& kv, const StepPlan& plan, std::span<const uint32_t> accepted);

}  // namespace kvik
