#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kv/kv_cache.h"
#include "tier/tier_fetch.h"

namespace kvik {

class TierLink;

// The loading of a running prompt's pages from tiers while the prompt is computed ("Compute or load
// KV cache? Why not both?", Jin et al. 2024, arXiv 2410.03065). The prompt is computed from the
// front. Pages are read from the end of the prefix that the tier has, because a token can be
// computed only after all tokens before it, and are written to the sequence's own pages. Where the
// two meet, the computed tokens and the loaded pages are one prefix. Nothing waits for the tier: a
// page that does not arrive is computed. The bits of an answer are the same, because a loaded page
// holds the bytes that computing it would give.
//
// Engine thread only. The table outlives the load.
class PageLoad {
 public:
  ~PageLoad();
  PageLoad(const PageLoad&) = delete;
  PageLoad& operator=(const PageLoad&) = delete;

  // Returns the number of tokens with K and V if the first n_cached ones have been computed:
  // n_cached, or the end of the loaded pages that begin there.
  uint32_t n_with_loaded(uint32_t n_cached) const;

  // Returns the number of tokens, of the n_new after n_cached, to compute in one step: none that
  // has been loaded, and so few that the tier loads the others meanwhile, and that its pages in
  // transfer have room. compute_ms: expected time to compute the n_new tokens.
  uint32_t n_to_compute(uint32_t n_cached, uint32_t n_new, double compute_ms) const;

  // Notes that a step computes the tokens before n_tokens, which need not be loaded any more.
  void note_computing(uint32_t n_tokens) {
    *front_ = std::max<uint64_t>(*front_, pages_for(n_tokens));
  }

  // Returns the sharing mark with which a loaded page was stored.
  SharingMark mark_of(uint32_t page) const { return marks_[page]; }

  // Counts the tokens in [begin, end) as hits of the tiers that they came from.
  void count_hits(uint32_t begin, uint32_t end) const;

  // Returns true if no loaded page is left after the first n_cached tokens and none will arrive.
  bool is_over(uint32_t n_cached) const;

 private:
  friend class TierLink;
  PageLoad(TierLink& link, PageTable& table, const PrefixQuery& query, uint32_t n_pages)
      : link_(link),
        table_(table),
        query_(query),
        first_(table.n_sealed()),
        parent_(table.parent_key()),
        loaded_(n_pages),
        marks_(n_pages, SharingMark::kNoTenant) {}

  // Returns the level that a page of the table came from; std::nullopt if it was not loaded.
  std::optional<size_t> level_of(PageId page) const;
  // Returns the first loaded page from `page` on; n_pages() if there is none.
  uint32_t next_loaded(uint32_t page) const;
  uint32_t n_pages() const { return static_cast<uint32_t>(loaded_.size()); }

  TierLink& link_;
  PageTable& table_;
  const PrefixQuery query_;
  const uint32_t first_;  // first page that may be loaded
  const PageKey parent_;  // key of the page before it
  // Levels of the pages that have been loaded, by number of the page.
  std::vector<std::optional<size_t>> loaded_;
  std::vector<SharingMark> marks_;  // likewise
  std::vector<size_t> levels_;      // levels to query after this one, the next one last
  size_t level_ = 0;                // level that is queried now
  FetchId id_{};
  // First page that is worth reading; read by the level's thread.
  std::shared_ptr<std::atomic<uint64_t>> front_ = std::make_shared<std::atomic<uint64_t>>(0);
  bool is_done_ = false;
};

}  // namespace kvik
