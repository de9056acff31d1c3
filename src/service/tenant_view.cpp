#include "service/tenant_view.h"

#include <vector>

#include "engine/request/request.h"

namespace kvik {

LiveView seen_by(const LiveView& view, const std::string& tenant) {
  const uint64_t own = tenant_hash(tenant);
  LiveView seen = view;
  std::erase_if(seen.sequences, [&](const LiveSequence& s) { return s.tenant != own; });
  for (PageCell& cell : seen.pages) {
    if (cell.state == PageState::kFree || cell.tenant == own) continue;
    cell = {.page = cell.page,
            .state = cell.state,
            .group = cell.group,
            .n_owners = 0,
            .n_tokens = 0,
            .parent = {},
            .story = {},
            .tenant = 0,
            .is_others = true};
  }
  return seen;
}

}  // namespace kvik
