#pragma once

#include <cstdint>
#include <optional>

#include "kv/kv_cache.h"

namespace kvik {

// Looks up a prefix and opens a table with it at once, as for a prompt that does not have to wait.
// Returns the number of cached tokens, or std::nullopt if there is no room.
inline std::optional<uint32_t> open_prefix(KvCache& cache, PageTable& table, PrefixQuery query,
                                           uint64_t n_tokens, uint64_t n_spare = 0) {
  query.tenant = table.owner.tenant;
  FoundPrefix found;
  if (!cache.open(table, query, found, n_tokens, n_spare)) return std::nullopt;
  return found.n_tokens();
}

}  // namespace kvik
