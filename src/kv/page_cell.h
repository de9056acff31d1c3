#pragma once

#include <cstdint>
#include <optional>

#include "kv/page_state.h"
#include "kv/page_story.h"

namespace kvik {

// One page as the cache map of the web page shows it; never contains tokens.
struct PageCell {
  PageId page{};
  PageState state = PageState::kFree;
  uint32_t group = 0;
  uint32_t n_owners = 0;
  uint32_t n_tokens = 0;         // tokens that other sequences can hit; 0 while it is being filled
  std::optional<PageId> parent;  // page of the same group that holds the tokens before
  PageStory story;
  uint64_t tenant = 0;  // hash of the tenant that computed it

  friend bool operator==(const PageCell& a, const PageCell& b) {
    return a.page == b.page && a.state == b.state && a.group == b.group &&
           a.n_owners == b.n_owners && a.n_tokens == b.n_tokens && a.parent == b.parent &&
           a.story.taken == b.story.taken && a.story.last_used == b.story.last_used &&
           a.tenant == b.tenant && a.story.is_saved == b.story.is_saved &&
           a.story.is_fetched == b.story.is_fetched;
  }
};

}  // namespace kvik
