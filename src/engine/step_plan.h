#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cost_model.h"
#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace kvik {

// The rows that one step computes.
struct StepPlan {
  struct Entry {
    Sequence* sequence;
    uint32_t n_new;     // number of rows: pending tokens of the sequence, then draft tokens
    uint32_t n_wanted;  // number of last rows whose logits or hidden states are needed

    uint32_t n_draft_tokens() const {
      return static_cast<uint32_t>(sequence->speculation.draft.size());
    }
    uint32_t n_own() const { return n_new - n_draft_tokens(); }
    // Returns the number of draft tokens among the first n_accepted rows.
    uint32_t n_accepted_drafts(uint32_t n_accepted) const {
      return n_accepted - std::min(n_accepted, n_own());
    }
  };
  std::vector<Entry> entries;
  StepWork work;        // of all entries
  StepWork plain_work;  // without the rows of drafts
  uint32_t n_prompt_rows = 0;
  double ms = 0;  // expected time

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
    const uint32_t end = sequence.n_cached + n_new;
    entries.push_back(
        {&sequence, n_new, end - std::clamp(sequence.first_wanted_row(), sequence.n_cached, end)});
  }
  // Adds the sequence's draft tokens as rows after its newest token. Each of them needs logits.
  void add_draft(Entry& entry) {
    const uint32_t n_draft = entry.n_draft_tokens();
    const uint32_t n_cached = entry.sequence->n_cached;
    entry.n_new += n_draft;
    entry.n_wanted += n_draft;
    work.n_rows += n_draft;
    work.n_logits += n_draft;
    work.kv_tokens += n_draft;
    work.attention += StepWork::chunk(n_cached, entry.n_new, 0).attention;
  }
};

// Commits a computed and sampled step. The first accepted[i] rows of entry i, at least one, are
// valid, and their tokens belong to the sequence. Seals full pages for the prefix cache, releases
// pages that have left all windows, and removes pages that hold only rejected rows. Returns the
// number of prompt tokens among the accepted rows.
uint64_t commit_rows(KvCache& kv, const StepPlan& plan, std::span<const uint32_t> accepted);

}  // namespace kvik
