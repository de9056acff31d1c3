#include "engine/step_plan.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {
namespace {

void commit_entry(KvCache& kv, const StepPlan::Entry& entry, uint32_t n_accepted) {
  Sequence& sequence = *entry.sequence;
  CHECK(n_accepted > 0 && n_accepted <= entry.n_new);
  sequence.table.is_in_step = false;
  sequence.n_cached += n_accepted;
  sequence.n_kv_rows += entry.n_new;
  // All layers have written their K and V, so other sequences may use the pages from now on.
  if (sequence.uses_cache()) kv.seal(sequence.table, sequence.cached_tokens());
  kv.slide(sequence.table, sequence.n_cached);
  if (n_accepted < entry.n_new) kv.shrink(sequence.table, sequence.n_tokens());
}

}  // namespace

uint64_t commit_rows(KvCache& kv, const StepPlan& plan, std::span<const uint32_t> accepted) {
  CHECK(accepted.size() == plan.entries.size());
  uint64_t n_prompt_tokens = 0;
  for (size_t i = 0; i < accepted.size(); ++i) {
    const Sequence& sequence = *plan.entries[i].sequence;
    const uint32_t n_prompt = sequence.usage.prompt_tokens;
    if (sequence.n_cached < n_prompt) {
      n_prompt_tokens += std::min(accepted[i], n_prompt - sequence.n_cached);
    }
    commit_entry(kv, plan.entries[i], accepted[i]);
  }
  return n_prompt_tokens;
}

}  // namespace kvik
