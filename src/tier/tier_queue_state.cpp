#include <algorithm>
#include <optional>
#include <vector>

#include "tier/tier_queue.h"
#include "tier/wanted_pages.h"

// Fetching for sequences with recurrent state: pages are useful only up to a snapshot, so the
// snapshot is looked up first.
namespace kvik {

// Reads the pages that the snapshot needs, in order, and then the snapshot. If a page is missing,
// continues with the last snapshot before it.
void TierQueue::run_state_fetch(const TierFetch& fetch) {
  std::vector<TierPage> pages = whole_pages(fetch);
  size_t n_read = 0;  // pages of the chain
  size_t n_whole = pages.size();
  Tier::Get got = Tier::Get::kAbsent;
  while (!is_cancelled(fetch.id)) {
    mutex_.unlock();
    std::optional<WantedSnapshot> wanted = last_snapshot(tier_, fetch, pages, n_whole);
    mutex_.lock();
    if (!wanted) return end_fetch(fetch, end_of(got));
    const bool is_tail = wanted->page.tokens.size() < kPageTokens;
    const size_t n_needed = wanted->n_pages + (is_tail ? 0 : 1);
    got = read_chain(fetch, pages, n_read, n_needed);
    if (got == Tier::Get::kFound) got = read_beside_chain(fetch, pages, *wanted);
    if (got == Tier::Get::kFound) return end_fetch(fetch, FetchEnd::kComplete);
    // Look for another snapshot before the missing page, or before this one.
    const size_t n_front = n_read < n_needed ? n_read : n_needed - std::min<size_t>(n_needed, 1);
    if (n_front >= n_whole) return end_fetch(fetch, end_of(got));
    n_whole = n_front;
  }
}

// Reads pages [n_read, n) of the groups that determine the chain's length, and advances n_read.
Tier::Get TierQueue::read_chain(const TierFetch& fetch, std::vector<TierPage>& pages,
                                size_t& n_read, size_t n) {
  for (; n_read < n; ++n_read) {
    for (uint32_t group = 0; group < fetch.rules.size(); ++group) {
      if (!leads(fetch, group)) continue;
      pages[n_read].group = group;
      const Tier::Get got = read_page(fetch, pages[n_read]);
      if (got != Tier::Get::kFound) return got;
    }
  }
  return Tier::Get::kFound;
}

// Reads what a snapshot needs in addition to the chain: pages of the other groups, the page that
// has its tail, and its own pages.
Tier::Get TierQueue::read_beside_chain(const TierFetch& fetch, std::vector<TierPage>& pages,
                                       WantedSnapshot& wanted) {
  const bool is_tail = wanted.page.tokens.size() < kPageTokens;
  const size_t n_chain = wanted.n_pages + (is_tail ? 0 : 1);
  const size_t n_tokens = wanted.n_pages * kPageTokens + wanted.page.tokens.size();
  std::optional<TierPage> head;
  if (is_tail) {
    mutex_.unlock();
    head = best_child(tier_, fetch.root, wanted.page.parent, 0, fetch.reader, wanted.page.tokens);
    mutex_.lock();
    if (!head) return Tier::Get::kAbsent;
  }
  for (uint32_t group = 0; group < fetch.rules.size(); ++group) {
    if (!leads(fetch, group)) {
      for (size_t i = first_page_needed(fetch, group, n_tokens); i < n_chain; ++i) {
        pages[i].group = group;
        const Tier::Get got = read_page(fetch, pages[i]);
        if (got != Tier::Get::kFound) return got;
      }
    }
    if (!head) continue;
    head->group = group;
    const Tier::Get got = read_page(fetch, *head);
    if (got != Tier::Get::kFound) return got;
  }
  return read_snapshot(fetch, wanted.page);
}

// Reads the pages of the snapshot of a page's tokens.
Tier::Get TierQueue::read_snapshot(const TierFetch& fetch, TierPage& page) {
  for (uint32_t piece = 0; piece < fetch.n_snapshot_pages; ++piece) {
    page.group = kSnapshotGroup + piece;
    const Tier::Get got = read_page(fetch, page);
    if (got != Tier::Get::kFound) return got;
  }
  return Tier::Get::kFound;
}

}  // namespace kvik
