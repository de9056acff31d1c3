#pragma once

#include <string>

#include "engine/watch/live_view.h"

namespace kvik {

// Returns the view that one tenant may see: its own sequences and the size of the cache. Pages,
// steps, counters and times of the engine are left out, because they reveal the activity of other
// tenants; even the number of pages reveals whether a page that this tenant computed already
// existed.
LiveView tenant_view(const LiveView& view, const std::string& tenant);

}  // namespace kvik
