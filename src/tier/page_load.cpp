#include "tier/page_load.h"

#include <algorithm>

#include "tier/tier_link.h"

namespace kvik {

PageLoad::~PageLoad() { link_.forget(*this); }

uint32_t PageLoad::next_loaded(uint32_t page) const {
  while (page < n_pages() && !loaded_[page]) ++page;
  return page;
}

uint32_t PageLoad::n_with_loaded(uint32_t n_cached) const {
  if (n_cached % kPageTokens != 0) return n_cached;
  uint32_t page = n_cached / kPageTokens;
  while (page < n_pages() && loaded_[page]) ++page;
  return page * kPageTokens;
}

// The table's pages become sealed in their order.
std::optional<size_t> PageLoad::level_of(PageId page) const {
  const uint32_t number = table_.n_sealed();
  if (number >= n_pages() || !table_.holds(0, number)) return std::nullopt;
  return table_.page(0, number) == page ? loaded_[number] : std::nullopt;
}

// If the tier reads a page in r and a page is computed in c, they meet after c / r pages are read
// for each one that is computed.
uint32_t PageLoad::n_to_compute(uint32_t n_cached, uint32_t n_new, double compute_ms) const {
  const auto front = static_cast<uint32_t>(pages_for(n_cached));
  const uint32_t loaded = next_loaded(front);
  if (loaded >= n_pages() && is_done_) return n_new;
  uint32_t end = loaded;
  if (!is_done_ && compute_ms > 0) {
    const double computed_page_ms = compute_ms * kPageTokens / n_new;
    const TierLink::LoadRate rate = link_.rate_of(*this);
    const double n_missing = loaded - std::min(loaded, front);
    const double n_share = n_missing * rate.page_ms / (rate.page_ms + computed_page_ms);
    const double n_room = rate.n_slots * rate.page_ms / computed_page_ms;
    const auto n = static_cast<uint32_t>(std::min({n_share, n_room, n_missing}));
    end = std::min(loaded, front + std::max(n, 1u));
  }
  if (end >= n_pages()) return n_new;
  return std::min(n_new, end * kPageTokens - n_cached);
}

void PageLoad::count_hits(uint32_t begin, uint32_t end) const {
  link_.count_hits(*this, begin, end);
}

bool PageLoad::is_over(uint32_t n_cached) const {
  return is_done_ && next_loaded(n_cached / kPageTokens) >= n_pages();
}

}  // namespace kvik
