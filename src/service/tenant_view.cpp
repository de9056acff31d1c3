#include "service/tenant_view.h"

#include <vector>

#include "engine/request/request.h"

namespace kvik {

LiveView tenant_view(const LiveView& view, const std::string& tenant) {
  const uint64_t own = tenant_hash(tenant);
  LiveView seen{.now = view.now,
                .engine = {},
                .steps = {},
                .sequences = {},
                .is_whole = view.is_whole,
                .pages = {}};
  seen.engine.page_bytes = view.engine.page_bytes;
  seen.engine.kv_budget_bytes = view.engine.kv_budget_bytes;
  seen.engine.n_groups = view.engine.n_groups;
  for (size_t g = 0; g < view.engine.n_groups; ++g) {
    seen.engine.groups[g].window = view.engine.groups[g].window;
  }
  for (const LiveSequence& sequence : view.sequences) {
    if (sequence.tenant != own) continue;
    seen.sequences.push_back(sequence);
    seen.sequences.back().head.reset();
    if (sequence.phase != LiveSequence::Phase::kEnded) ++seen.engine.n_running;
  }
  return seen;
}

}  // namespace kvik
