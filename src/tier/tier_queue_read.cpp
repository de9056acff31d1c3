#include <algorithm>

#include "tier/tier_queue.h"
#include "tier/wanted_pages.h"

// Fetching: one prompt after the other, its pages in order, as far ahead of the engine as there are
// slots.
namespace kvik {
bool TierQueue::fetch(TierFetch fetch) {
  {
    const MutexLock lock(mutex_);
    if (is_hanging_) {
      ++counters_.misses_timed_out;
      return false;
    }
    fetches_.push_back(std::move(fetch));
  }
  read_wake_.notify_all();
  return true;
}

void TierQueue::cancel(FetchId id) {
  {
    const MutexLock lock(mutex_);
    drop_fetch(id);
  }
  read_wake_.notify_all();
}

void TierQueue::time_out(FetchId id) {
  {
    const MutexLock lock(mutex_);
    ++counters_.misses_timed_out;
    is_hanging_ = is_hanging_ || reading_.has_value();
    drop_fetch(id);
  }
  read_wake_.notify_all();
}

void TierQueue::drop_fetch(FetchId id) {
  std::erase_if(fetches_, [&](const TierFetch& fetch) { return fetch.id == id; });
  if (reading_ == id) is_read_cancelled_ = true;
}

void TierQueue::take_arrivals(const std::function<void(const TierArrival&)>& take) {
  {
    const MutexLock lock(mutex_);
    if (arrivals_.empty()) return;
    taken_.assign(std::make_move_iterator(arrivals_.begin()),
                  std::make_move_iterator(arrivals_.end()));
    arrivals_.clear();
  }
  for (const Arrival& arrival : taken_) take(arrival.what);
  {
    const MutexLock lock(mutex_);
    for (const Arrival& arrival : taken_) {
      if (arrival.slot) free_read_slots_.push_back(*arrival.slot);
    }
  }
  taken_.clear();
  read_wake_.notify_all();
}

std::optional<double> TierQueue::page_read_ms() const {
  const MutexLock lock(mutex_);
  return read_estimate_.page_ms();
}

void TierQueue::note_declined() {
  const MutexLock lock(mutex_);
  read_estimate_.note_declined();
  ++counters_.misses_declined;
}

bool TierQueue::is_cancelled(FetchId id) const {
  return is_stopping_ || (reading_ == id && is_read_cancelled_);
}

void TierQueue::read_all() {
  const MutexLock lock(mutex_);
  while (true) {
    read_wake_.wait(mutex_,
                    [this]() REQUIRES(mutex_) { return is_stopping_ || !fetches_.empty(); });
    if (is_stopping_) return;
    TierFetch next = std::move(fetches_.front());
    fetches_.pop_front();
    reading_ = next.id;
    if (next.has_state) {
      run_state_fetch(next);
    } else {
      run_fetch(std::move(next));
    }
    reading_.reset();
    is_read_cancelled_ = false;
    wait_until_it_answers();
  }
}

// After a fetch timed out, asks for a page that does not exist until the tier answers, so that no
// prompt waits for a tier that hangs.
void TierQueue::wait_until_it_answers() {
  Duration pause = options_.retry_after;
  while (is_hanging_ && !is_stopping_) {
    is_hanging_ = !answers();
    if (!is_hanging_) return;
    read_wake_.wait_for(mutex_, pause, [this]() REQUIRES(mutex_) { return is_stopping_; });
    pause = std::min(2 * pause, options_.retry_at_most);
  }
}

bool TierQueue::answers() {
  read_wake_.wait(mutex_,
                  [this]() REQUIRES(mutex_) { return is_stopping_ || !free_read_slots_.empty(); });
  if (is_stopping_) return true;
  const uint32_t slot = take_read_slot();
  TierPage nobodys;
  const Tier::Get got = get_into(slot, nobodys, SharingMark::kAll);
  free_read_slots_.push_back(slot);
  return got != Tier::Get::kFailed;
}

// Reads first the pages of the groups with full attention, which determine the length of the chain,
// then those that the other groups need at its end.
void TierQueue::run_fetch(TierFetch fetch) {
  std::vector<TierPage> pages = whole_pages(fetch);
  const auto n_groups = static_cast<uint32_t>(fetch.rules.size());
  Tier::Get got = Tier::Get::kFound;
  size_t n = 0;
  for (; n < pages.size() && got == Tier::Get::kFound; ++n) {
    for (uint32_t group = 0; group < n_groups && got == Tier::Get::kFound; ++group) {
      pages[n].group = group;
      if (leads(fetch, group)) got = read_page(fetch, pages[n]);
    }
    if (got != Tier::Get::kFound) break;
  }
  FetchEnd end = end_of(got);
  const auto rest = std::span<const TokenId>(fetch.tokens).subspan(n * kPageTokens);
  std::optional<TierPage> head;
  if (got == Tier::Get::kFound || got == Tier::Get::kAbsent) {
    const uint32_t group = fetch.n_snapshot_pages > 0 ? kSnapshotGroup : 0;
    const PageKey& parent = n > 0 ? pages[n - 1].key : fetch.parent;
    mutex_.unlock();
    head = best_child(tier_, fetch.root, parent, group, fetch.reader, rest);
    mutex_.lock();
  }
  pages.resize(n);
  if (head) pages.push_back(std::move(*head));
  for (uint32_t group = 0; group < n_groups; ++group) {
    size_t i = leads(fetch, group) ? n : first_page_needed(fetch, group, n * kPageTokens);
    for (; i < pages.size(); ++i) {
      pages[i].group = group;
      got = read_page(fetch, pages[i]);
      if (got == Tier::Get::kDamaged || got == Tier::Get::kFailed) end = end_of(got);
    }
  }
  if (pages.size() > n && fetch.n_snapshot_pages > 0) {
    got = read_snapshot(fetch, pages.back());
    if (got == Tier::Get::kDamaged || got == Tier::Get::kFailed) end = end_of(got);
  }
  end_fetch(fetch, end);
}

void TierQueue::end_fetch(const TierFetch& fetch, FetchEnd end) {
  if (is_cancelled(fetch.id)) return;
  if (end == FetchEnd::kAbsent) ++counters_.misses_absent;
  if (end == FetchEnd::kDamaged) ++counters_.misses_damaged;
  if (end == FetchEnd::kFailed) ++counters_.misses_failed;
  arrivals_.push_back({{.id = fetch.id, .page = {}, .bytes = {}, .end = end}, std::nullopt});
  wake_();
}

uint32_t TierQueue::take_read_slot() {
  const uint32_t slot = free_read_slots_.back();
  free_read_slots_.pop_back();
  return slot;
}

// Releases the mutex during the tier's call. A page that was found is then being copied into
// memory.
Tier::Get TierQueue::get_into(uint32_t slot, TierPage& page, SharingMark reader) {
  mutex_.unlock();
  bool is_there = read_lane_->finish(slot).has_value();
  const auto begin = std::chrono::steady_clock::now();
  const Tier::Get got = tier_.get(page, reader, read_slots_[slot].span(), options_.page_bytes);
  const double ms = to_ms(std::chrono::steady_clock::now() - begin);
  if (got == Tier::Get::kFound) is_there = is_there && read_lane_->begin_in(slot).has_value();
  mutex_.lock();
  if (got == Tier::Get::kFound) read_estimate_.observe(ms);
  return is_there ? got : Tier::Get::kFailed;
}

// Reads a page into a slot and queues its arrival. Returns kAbsent for a canceled fetch.
Tier::Get TierQueue::read_page(const TierFetch& fetch, TierPage& page) {
  const FetchId id = fetch.id;
  read_wake_.wait(mutex_,
                  [&]() REQUIRES(mutex_) { return is_cancelled(id) || !free_read_slots_.empty(); });
  if (is_cancelled(id)) return Tier::Get::kAbsent;
  const uint32_t slot = take_read_slot();
  const Tier::Get got = get_into(slot, page, fetch.reader);
  if (got != Tier::Get::kFound || is_cancelled(id)) {
    free_read_slots_.push_back(slot);
    return is_cancelled(id) ? Tier::Get::kAbsent : got;
  }
  ++counters_.pages_read;
  counters_.bytes_read += options_.page_bytes;
  arrivals_.push_back({{.id = id,
                        .page = page,
                        .bytes = {*read_lane_, slot, options_.page_bytes},
                        .end = std::nullopt},
                       slot});
  wake_();
  return got;
}

}  // namespace kvik
