#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/token_id.h"
#include "kv/page_counts.h"
#include "kv/page_key.h"

namespace kvik {

// Hears which prefixes memory holds: whole pages of the layer group that says how far a prefix
// goes, as they become findable and as they are evicted. Engine thread only; must not block.
class PageLog {
 public:
  virtual ~PageLog() = default;
  struct Stored {
    const PageKey& key;
    const PageKey* parent;  // null: nothing stands before it
    std::span<const TokenId> tokens;
    // The name of the adapter that K and V are of; null: the model's own.
    std::shared_ptr<const std::string> adapter = nullptr;
  };
  virtual void on_stored(const Stored& page) = 0;
  virtual void on_removed(const PageKey& key) = 0;

  // The most memory that this takes for a cache of so many pages. Any thread.
  virtual uint64_t bytes_for(uint64_t /*n_pages*/) const { return 0; }
  // max_bytes is the caller's to set. Any thread.
  virtual PageLogCounts counts() const { return {}; }
};

}  // namespace kvik
