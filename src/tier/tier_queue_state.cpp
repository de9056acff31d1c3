#include <algorithm>
#include <optional>
#include <vector>

#include "tier/tier_queue.h"
#include "tier/wanted_pages.h"

// How a TierQueue fetches where sequences have a state: pages are of use as far as there is a
// snapshot behind them, so it is looked for first.
namespace kvik {

// Pages that the snapshot needs, in their order, then the snapshot. Where a page is missing, the
// last snapshot in front of it.
void TierQueue::run_state_fetch(const TierFetch& fetch) {
  std::vector<TierPage> pages = whole_pages(fetch);
  size_t n_read = 0;  // of the chain
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
    if (got == Tier::Get::kFound) got = read_behind_chain(fetch, pages, *wanted);
    if (got == Tier::Get::kFound) return end_fetch(fetch, FetchEnd::kComplete);
    // Another is looked for in front of the page that is missing, or of this one.
    const size_t n_front = n_read < n_needed ? n_read : n_needed - std::min<size_t>(n_needed, 1);
    if (n_front >= n_whole) return end_fetch(fetch, end_of(got));
    n_whole = n_front;
  }
}

// Pages [n_read, n) of the groups that say how far the chain goes; n_read says how far it went.
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

// What a snapshot needs beside the chain: pages of the other groups, the page that its tail is the
// head of, and its own.
Tier::Get TierQueue::read_behind_chain(const TierFetch& fetch, std::vector<TierPage>& pages,
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
