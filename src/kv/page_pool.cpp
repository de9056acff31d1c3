#include "kv/page_pool.h"

#include <utility>

#include "base/check.h"

namespace kvik {

PageLease::~PageLease() {
  if (pool_) pool_->end_lease(id_);
}

PagePool::PagePool(uint32_t n_pages, uint32_t n_groups, uint32_t n_reserved)
    : pages_(n_pages), n_apart_(n_reserved), by_group_(n_groups) {
  CHECK(n_groups > 0 && n_reserved <= n_pages);
  free_.reserve(n_pages - n_reserved);
  unused_.reserve(n_pages);
  for (uint32_t i = n_pages - n_reserved; i > 0; --i) free_.push_back(PageId{i - 1});
  counts_.free = n_pages;
  counts_apart_.free = n_reserved;
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

void PagePool::move_to(PageId id, State state) {
  Page& p = page(id);
  const auto move = [&](PageCounts& counts) {
    --count(counts, p.state);
    ++count(counts, state);
  };
  move(counts_);
  if (is_reserved(id)) move(counts_apart_);
  PageCounts& group = by_group_[p.group];
  if (p.state != State::kFree) --count(group, p.state);
  if (state != State::kFree) ++count(group, state);
  p.state = state;
  p.last_change = ++n_changes_;
}

PageLease PagePool::take_free(PageId id, uint32_t group) {
  CHECK(group < by_group_.size() && page(id).state == State::kFree);
  page(id).group = group;
  move_to(id, State::kLeased);
  page(id).n_owners = 1;
  return PageLease(*this, id);
}

std::optional<PageLease> PagePool::take(uint32_t group) {
  if (free_.empty()) return std::nullopt;
  const PageId id = free_.back();
  free_.pop_back();
  return take_free(id, group);
}

PageLease PagePool::take_at(PageId id, uint32_t group) {
  CHECK(is_reserved(id));
  return take_free(id, group);
}

void PagePool::give_back(PageId id) {
  move_to(id, State::kFree);
  if (!is_reserved(id)) free_.push_back(id);
}

void PagePool::seal(PageId id) {
  CHECK(page(id).state == State::kLeased);
  move_to(id, State::kSealed);
}

PageLease PagePool::lease(PageId id) {
  Page& p = page(id);
  CHECK(p.state == State::kSealed || p.state == State::kCached);
  if (p.state == State::kCached) move_to(id, State::kSealed);
  ++p.n_owners;
  note_change(id);
  return PageLease(*this, id);
}

void PagePool::take_unused(std::vector<PageId>& out) {
  out.clear();
  out.reserve(pages_.size());
  std::swap(out, unused_);
  for (const PageId id : out) page(id).is_listed = false;
}

void PagePool::evict(PageId id) {
  CHECK(page(id).state == State::kCached);
  give_back(id);
}

void PagePool::end_lease(PageId id) {
  Page& p = page(id);
  CHECK(p.n_owners > 0);
  note_change(id);
  if (--p.n_owners > 0) return;
  if (p.state == State::kSealed) {
    move_to(id, State::kCached);
    if (!std::exchange(p.is_listed, true)) unused_.push_back(id);
    return;
  }
  give_back(id);
}

}  // namespace kvik
