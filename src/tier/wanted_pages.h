#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tier/tier.h"
#include "tier/tier_fetch.h"

namespace kvik {

// Choice of the pages that a fetch asks a tier for. Independent of queues and threads.

// Returns the pages that the fetch's tokens fill.
std::vector<TierPage> whole_pages(const TierFetch& fetch);

// Returns the pages, without a group, that the tokens after the page `parent` fill.
std::vector<TierPage> whole_pages(const PageKey& root, const PageKey& parent,
                                  std::span<const TokenId> tokens);

// Returns the first page, counted from the fetch's parent, that a group needs to resume after
// n_tokens.
size_t first_page_needed(const TierFetch& fetch, uint32_t group, size_t n_tokens);

// Returns whether a group determines the length of the chain: a group with full attention, or the
// first group if there is none.
bool leads(const TierFetch& fetch, uint32_t group);

FetchEnd end_of(Tier::Get get);

// Returns the child of `parent` with a page in that group that shares most tokens with the prompt.
std::optional<TierPage> best_child(Tier& tier, const PageKey& root, const PageKey& parent,
                                   uint32_t group, SharingMark reader,
                                   std::span<const TokenId> tokens);

// The last snapshot after the fetch's parent that needs no more than n_whole of its pages and is
// later than the position already resumed at.
struct WantedSnapshot {
  size_t n_pages = 0;  // whole pages before the page's tokens
  TierPage page;       // the snapshot's page: a whole page or a tail
};
std::optional<WantedSnapshot> last_snapshot(Tier& tier, const TierFetch& fetch,
                                            std::span<const TierPage> pages, size_t n_whole);

}  // namespace kvik
