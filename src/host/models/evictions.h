#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace kvik {

// Memory that could be freed for another model.
struct EvictableMemory {
  size_t model = 0;  // index
  // The model's process, which is ended as a whole; otherwise the KV pages kept of an unloaded
  // model, of which a part can be freed.
  bool is_loaded = false;
  uint64_t n_bytes = 0;
  TimePoint last_used;
};

// Returns the entries to free, the least recently used first, so that at least n_bytes become free,
// and of the last kept pages no more than that. std::nullopt if all together are less.
std::optional<std::vector<EvictableMemory>> choose_evictions(std::vector<EvictableMemory> evictable,
                                                             uint64_t n_bytes);

}  // namespace kvik
