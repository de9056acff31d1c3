#include "host/models/evictions.h"

#include <algorithm>
#include <utility>

namespace kvik {

std::optional<std::vector<EvictableMemory>> choose_evictions(std::vector<EvictableMemory> evictable,
                                                             uint64_t n_bytes) {
  std::ranges::sort(evictable, {},
                    [](const EvictableMemory& e) { return std::pair(e.last_used, e.model); });
  std::vector<EvictableMemory> chosen;
  uint64_t n_freed = 0;
  for (EvictableMemory& entry : evictable) {
    if (n_freed >= n_bytes) break;
    if (!entry.is_loaded) entry.n_bytes = std::min(entry.n_bytes, n_bytes - n_freed);
    n_freed += entry.n_bytes;
    chosen.push_back(entry);
  }
  if (n_freed < n_bytes) return std::nullopt;
  return chosen;
}

}  // namespace kvik
