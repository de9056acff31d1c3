#include "kv/page_pool.h"

#include "base/check.h"

namespace kvik {

PageLease::~PageLease() {
  if (pool_) pool_->end_lease(id_);
}

PagePool::PagePool(uint32_t n_pages, uint32_t n_groups) : pages_(n_pages), by_group_(n_groups) {
  CHECK(n_groups > 0);
  free_.reserve(n_pages);
  for (uint32_t i = n_pages; i > 0; --i) free_.push_back(PageId{i - 1});
  counts_.free = n_pages;
}

PagePool::~PagePool() { CHECK(counts_.leased == 0 && counts_.sealed == 0); }

const PagePool::Page& PagePool::page(PageId id) const {
  const auto index = static_cast<uint32_t>(id);
  CHECK(index < pages_.size());
  return pages_[index];
}

uint32_t& PagePool::count(PageCounts& counts, State state) {
  switch (state) {
    case State::kFree:
      return counts.free;
    case State::kLeased:
      return counts.leased;
    case State::kSealed:
      return counts.sealed;
    case State::kCached:
      break;
  }
  return counts.cached;
}

void PagePool::move_to(Page& page, State state) {
  PageCounts& group = by_group_[page.group];
  --count(counts_, page.state);
  if (page.state != State::kFree) --count(group, page.state);
  page.state = state;
  page.last_change = ++n_changes_;
  ++count(counts_, state);
  if (state != State::kFree) ++count(group, state);
}

std::optional<PageLease> PagePool::take(uint32_t group) {
  CHECK(group < by_group_.size());
  if (free_.empty()) return std::nullopt;
  const PageId id = free_.back();
  free_.pop_back();
  page(id).group = group;
  move_to(page(id), State::kLeased);
  page(id).n_owners = 1;
  return PageLease(*this, id);
}

void PagePool::seal(PageId id) {
  CHECK(page(id).state == State::kLeased);
  move_to(page(id), State::kSealed);
}

PageLease PagePool::lease(PageId id) {
  Page& p = page(id);
  CHECK(p.state == State::kSealed || p.state == State::kCached);
  if (p.state == State::kCached) move_to(p, State::kSealed);
  ++p.n_owners;
  note_change(id);
  return PageLease(*this, id);
}

void PagePool::evict(PageId id) {
  CHECK(page(id).state == State::kCached);
  move_to(page(id), State::kFree);
  free_.push_back(id);
}

void PagePool::end_lease(PageId id) {
  Page& p = page(id);
  CHECK(p.n_owners > 0);
  note_change(id);
  if (--p.n_owners > 0) return;
  if (p.state == State::kSealed) {
    move_to(p, State::kCached);
    unused_.push_back(id);
    return;
  }
  move_to(p, State::kFree);
  free_.push_back(id);
}

}  // namespace kvik
