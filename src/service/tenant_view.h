#pragma once

#include <string>

#include "engine/watch/live_view.h"

namespace kvik {

// A view as one tenant may see it: its own sequences, and how large the cache is. No pages, steps,
// counters or times of the engine: what others do shows in all of them, and whether a page that
// this tenant computed was another's before shows in how many there are.
LiveView seen_by(const LiveView& view, const std::string& tenant);

}  // namespace kvik
