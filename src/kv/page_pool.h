#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kv/page_counts.h"
#include "kv/page_state.h"

namespace kvik {

class PagePool;

// One owner's reference to a page, released by the destructor.
class PageLease {
 public:
  PageLease() = default;  // refers to no page
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

// Allocates fixed-size KV pages and tracks their state. Knows page ids, never page contents.
//
//   free ──take()──▶ leased ──seal()──▶ sealed ──last lease ends──▶ cached ──evict()──▶ free
//    ▲                 │                   ▲──────── lease(id) ────────┘
//    └─ last lease ends┘
//
// A leased page is being filled and has one owner; a sealed page is full and may have several. The
// last n_reserved pages are reserved for callers that need specific pages (take_at()); take()
// returns the others. Engine thread only. The pool outlives its leases. Invariant: free + leased +
// sealed + cached == n_pages.
class PagePool {
 public:
  explicit PagePool(uint32_t n_pages, uint32_t n_groups = 1, uint32_t n_reserved = 0);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  uint32_t n_pages() const { return static_cast<uint32_t>(pages_.size()); }
  const PageCounts& counts() const { return counts_; }
  // Counts of the reserved pages, which counts() includes.
  const PageCounts& reserved_counts() const { return counts_apart_; }
  uint32_t n_groups() const { return static_cast<uint32_t>(by_group_.size()); }
  bool is_reserved(PageId id) const { return static_cast<uint32_t>(id) >= n_pages() - n_apart_; }
  // Counts of the pages of a layer group; free pages belong to no group.
  const PageCounts& counts(uint32_t group) const { return by_group_[group]; }

  // Leases a free page to be filled for a layer group; std::nullopt if all pages that are not
  // reserved are in use.
  std::optional<PageLease> take(uint32_t group = 0);
  // Number of pages that take() can return.
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  // Leases this reserved page, which must be free.
  PageLease take_at(PageId id, uint32_t group);

  // Marks a leased page as full: other sequences may lease it from now on.
  void seal(PageId id);

  // Adds an owner to a sealed or cached page.
  PageLease lease(PageId id);

  // Makes a cached page free.
  void evict(PageId id);

  // Returns the number of owners of a page: 0 if it is free or cached.
  uint32_t n_owners(PageId id) const { return page(id).n_owners; }
  uint32_t group(PageId id) const { return page(id).group; }
  PageState state(PageId id) const { return page(id).state; }

  // Number of changes of any page's state or owners so far, and the number of a page's last change.
  // Comparing them with an earlier value finds the pages that changed since.
  uint64_t n_changes() const { return n_changes_; }
  uint64_t last_change(PageId id) const { return page(id).last_change; }
  // Counts a change of the page that the pool itself does not see.
  void note_change(PageId id) { page(id).last_change = ++n_changes_; }

  // Moves to `out` the pages whose last lease was released since the last call, in the order of
  // their first release. Some may have been leased again.
  void take_unused(std::vector<PageId>& out);

 private:
  friend class PageLease;
  using State = PageState;
  struct Page {
    State state = State::kFree;
    uint32_t group = 0;
    uint32_t n_owners = 0;
    uint64_t last_change = 0;
    bool is_listed = false;  // whether it is in unused_
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
  // a stack, because the page freed last is warm in the processor's cache
  std::vector<PageId> free_;
  std::vector<PageId> unused_;  // has capacity for all pages: releasing a lease must not allocate
  PageCounts counts_, counts_apart_;
  std::vector<PageCounts> by_group_;
  uint64_t n_changes_ = 0;
};

}  // namespace kvik
