#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kv/page_counts.h"
#include "kv/page_state.h"

namespace kvik {

class PagePool;

// One owner's hold on a page. Gives itself back.
class PageLease {
 public:
  PageLease() = default;  // of no page
  PageLease(PageLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  PageLease& operator=(PageLease&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~PageLease();

  explicit operator bool() const { return pool_ != nullptr; }
  PageId id() const { return id_; }

 private:
  friend class PagePool;
  PageLease(PagePool& pool, PageId id) : pool_(&pool), id_(id) {}

  PagePool* pool_ = nullptr;
  PageId id_{};
};

// Hands out fixed-size KV pages. Knows numbers, never contents.
//
//   free ──take()──▶ leased ──seal()──▶ sealed ──last lease ends──▶ cached ──evict()──▶ free
//    ▲                 │                   ▲──────── lease(id) ────────┘
//    └─ last lease ends┘
//
// A leased page is being filled and has one owner; a sealed one is full and may have many. The last
// n_apart pages are for what needs certain ones: take() hands out the others. Engine thread only.
// The pool outlives its leases. free + leased + sealed + cached == n_pages, always.
class PagePool {
 public:
  explicit PagePool(uint32_t n_pages, uint32_t n_groups = 1, uint32_t n_apart = 0);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  uint32_t n_pages() const { return static_cast<uint32_t>(pages_.size()); }
  const PageCounts& counts() const { return counts_; }
  // Of those that are apart; the counts of all have them too.
  const PageCounts& counts_apart() const { return counts_apart_; }
  uint32_t n_groups() const { return static_cast<uint32_t>(by_group_.size()); }
  bool is_apart(PageId id) const { return static_cast<uint32_t>(id) >= n_pages() - n_apart_; }
  // Of the pages that a layer group has; free pages belong to none.
  const PageCounts& counts(uint32_t group) const { return by_group_[group]; }

  // A page to fill for a layer group; std::nullopt where none is free that is not apart.
  std::optional<PageLease> take(uint32_t group = 0);
  // Pages that take() can hand out.
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  // This free page, which is apart.
  PageLease take_at(PageId id, uint32_t group);

  // Declares a leased page full: from now on others may lease it.
  void seal(PageId id);

  // One more owner of a sealed or cached page.
  PageLease lease(PageId id);

  // Forgets a cached page.
  void evict(PageId id);

  // Owners of a page: 0 where it is free or cached.
  uint32_t n_owners(PageId id) const { return page(id).n_owners; }
  uint32_t group(PageId id) const { return page(id).group; }
  PageState state(PageId id) const { return page(id).state; }

  // Changes of any page's state or owners so far, and which of them was a page's last: who looks
  // now and then sees what happened meanwhile.
  uint64_t n_changes() const { return n_changes_; }
  uint64_t last_change(PageId id) const { return page(id).last_change; }
  // Counts one that the pool itself does not see.
  void note_change(PageId id) { page(id).last_change = ++n_changes_; }

  // Hands over the pages whose last lease ended since the last call, in the order of its first end.
  // Some may have been leased again.
  void take_unused(std::vector<PageId>& out);

 private:
  friend class PageLease;
  using State = PageState;
  struct Page {
    State state = State::kFree;
    uint32_t group = 0;
    uint32_t n_owners = 0;
    uint64_t last_change = 0;
    bool is_listed = false;  // in unused_
  };

  const Page& page(PageId id) const;
  Page& page(PageId id) { return const_cast<Page&>(std::as_const(*this).page(id)); }
  static uint32_t& count(PageCounts& counts, State state);
  void move_to(PageId id, State state);
  PageLease take_free(PageId id, uint32_t group);
  void give_back(PageId id);
  void end_lease(PageId id);

  std::vector<Page> pages_;
  const uint32_t n_apart_;
  std::vector<PageId> free_;    // used as a stack: the page freed last is warm in the cache
  std::vector<PageId> unused_;  // with room for all: leases end where there is no memory as well
  PageCounts counts_, counts_apart_;
  std::vector<PageCounts> by_group_;
  uint64_t n_changes_ = 0;
};

}  // namespace kvik
