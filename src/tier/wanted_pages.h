#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tier/tier.h"
#include "tier/tier_fetch.h"

namespace kvik {

// Which pages a fetch asks a tier for. Nothing here knows queues or threads.

// The pages that the fetch's tokens fill.
std::vector<TierPage> whole_pages(const TierFetch& fetch);

// The first page, counted from the fetch's parent, that a group needs behind n_tokens.
size_t first_page_needed(const TierFetch& fetch, uint32_t group, size_t n_tokens);

// Pages of groups that need all of them say how far a chain goes; where there is no such group,
// those of the first.
bool leads(const TierFetch& fetch, uint32_t group);

FetchEnd end_of(Tier::Get get);

// Returns the child that shares most tokens with the prompt, of those with a page in that group.
std::optional<TierPage> best_child(Tier& tier, const PageKey& root, const PageKey& parent,
                                   uint32_t group, KnownBy reader, std::span<const TokenId> tokens);

// The snapshot that stands furthest behind the fetch's parent, of those that need no more than
// n_whole of its pages and are further than what is resumed at already.
struct WantedSnapshot {
  size_t n_pages = 0;  // whole ones in front of the page's tokens
  TierPage page;       // whose state it is: a whole page, or a tail
};
std::optional<WantedSnapshot> last_snapshot(Tier& tier, const TierFetch& fetch,
                                            std::span<const TierPage> pages, size_t n_whole);

}  // namespace kvik
