#pragma once

#include <string>

#include "engine/watch/live_view.h"

namespace kvik {

// A view as one tenant may see it: the pages that its own requests computed, and its own sequences.
// Of others' pages it is told that they are there and in what state, so that the map is full where
// the memory is; no lines of descent, owners, lengths or times. Steps and counters are of all.
LiveView seen_by(const LiveView& view, const std::string& tenant);

}  // namespace kvik
