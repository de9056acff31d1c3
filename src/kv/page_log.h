#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/token_id.h"
#include "kv/page_key.h"

namespace kvik {

// Who wants to know which prefixes memory holds: whole pages of the layer group that says how far a
// prefix goes, as they become findable and as they are given up. Engine thread only; must not
// block.
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
};

}  // namespace kvik
