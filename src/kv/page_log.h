#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/token_id.h"
#include "kv/page_counts.h"
#include "kv/page_key.h"

namespace kvik {

// Receives the prefixes that become cached in memory or are evicted: whole pages of the layer group
// with the longest attention span. Engine thread only; must not block.
class PageLog {
 public:
  virtual ~PageLog() = default;
  struct Stored {
    const PageKey& key;
    const PageKey* parent;  // null: the first page of a sequence
    std::span<const TokenId> tokens;
    // Name of the adapter that computed K and V; null: no adapter.
    std::shared_ptr<const std::string> adapter = nullptr;
  };
  virtual void on_stored(const Stored& page) = 0;
  virtual void on_removed(const PageKey& key) = 0;

  // Returns the maximum memory of this log for a cache of n_pages. Any thread.
  virtual uint64_t bytes_for(uint64_t /*n_pages*/) const { return 0; }
  // Returns the counts; the caller sets max_bytes. Any thread.
  virtual PageLogCounts counts() const { return {}; }
};

}  // namespace kvik
