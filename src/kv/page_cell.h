#pragma once

#include <cstdint>
#include <optional>

#include "kv/page_history.h"
#include "kv/page_state.h"

namespace kvik {

// One page as the cache map of the web page shows it; never contains tokens.
struct PageCell {
  PageId page{};
  PageState state = PageState::kFree;
  uint32_t group = 0;
  uint32_t n_owners = 0;
  uint32_t n_tokens = 0;         // tokens that other sequences can hit; 0 while it is being filled
  std::optional<PageId> parent;  // page of the same group that holds the tokens before
  PageHistory history;
  uint64_t tenant = 0;  // hash of the tenant that computed it

  friend bool operator==(const PageCell& a, const PageCell& b) {
    return a.page == b.page && a.state == b.state && a.group == b.group &&
           a.n_owners == b.n_owners && a.n_tokens == b.n_tokens && a.parent == b.parent &&
           a.history.taken == b.history.taken && a.history.last_used == b.history.last_used &&
           a.tenant == b.tenant && a.history.is_saved == b.history.is_saved &&
           a.history.is_fetched == b.history.is_fetched;
  }
};

}  // namespace kvik
