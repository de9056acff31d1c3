#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "tier/tier_queue.h"
#include "tier/wanted_pages.h"

// Reading. Fetches: one prompt after the other, its pages in order, as far ahead of the engine as
// there are slots. Loads: page by page in turns.
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

bool TierQueue::load(TierLoad load) {
  {
    const MutexLock lock(mutex_);
    if (is_hanging_) return false;
    loads_.push_back(std::move(load));
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
  std::erase_if(loads_, [&](const TierLoad& load) { return load.id == id; });
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
  bool is_fetch_next = true;
  while (true) {
    read_wake_.wait(mutex_, [this]() REQUIRES(mutex_) {
      return is_stopping_ || !fetches_.empty() || !loads_.empty();
    });
    if (is_stopping_) return;
    if (loads_.empty() || (is_fetch_next && !fetches_.empty())) {
      TierFetch next = std::move(fetches_.front());
      fetches_.pop_front();
      reading_ = next.id;
      if (next.has_state) {
        run_state_fetch(next);
      } else {
        run_fetch(std::move(next));
      }
    } else {
      TierLoad next = std::move(loads_.front());
      loads_.pop_front();
      reading_ = next.id;
      if (run_load(next)) loads_.push_back(std::move(next));
    }
    is_fetch_next = !is_fetch_next;
    reading_.reset();
    is_read_cancelled_ = false;
    wait_until_it_answers();
  }
}

// Reads one page of a load. Returns false if the load has ended.
bool TierQueue::run_load(TierLoad& load) {
  const auto next = load.next();
  if (!next) {
    end_fetch(load.id, load.absent == 0 ? FetchEnd::kAbsent : FetchEnd::kComplete);
    return false;
  }
  TierArrival arrival{.id = load.id,
                      .page = load.pages[*next],
                      .number = load.first + *next,
                      .bytes = {},
                      .end = std::nullopt};
  const Tier::Get got = read_page(std::move(arrival), load.reader);
  if (is_cancelled(load.id)) return false;
  if (got == Tier::Get::kFailed) {
    end_fetch(load.id, FetchEnd::kFailed);
    return false;
  }
  if (got == Tier::Get::kDamaged) ++counters_.misses_damaged;
  load.note(*next, got == Tier::Get::kAbsent);
  return true;
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
  TierPage discarded;
  const Tier::Get got = get_into(slot, discarded, SharingMark::kAll);
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
  end_fetch(fetch.id, end);
}

void TierQueue::end_fetch(FetchId id, FetchEnd end) {
  if (is_cancelled(id)) return;
  if (end == FetchEnd::kAbsent) ++counters_.misses_absent;
  if (end == FetchEnd::kDamaged) ++counters_.misses_damaged;
  if (end == FetchEnd::kFailed) ++counters_.misses_failed;
  arrivals_.push_back({{.id = id, .page = {}, .bytes = {}, .end = end}, std::nullopt});
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
  note_read(got);
  return is_there ? got : Tier::Get::kFailed;
}

void TierQueue::note_read(Tier::Get got) {
  const bool is_failing = got == Tier::Get::kFailed;
  if (is_failing == std::exchange(is_read_failing_, is_failing)) return;
  if (is_failing) {
    log::warn("the tier '{}' cannot be read; prompts are computed without it",
              to_string(options_.kind));
  } else {
    log::info("the tier '{}' can be read again", to_string(options_.kind));
  }
}

Tier::Get TierQueue::read_page(const TierFetch& fetch, TierPage& page) {
  return read_page({.id = fetch.id, .page = page, .bytes = {}, .end = std::nullopt}, fetch.reader);
}

// Reads a page into a slot and queues its arrival. Returns kAbsent for a canceled fetch.
Tier::Get TierQueue::read_page(TierArrival arrival, SharingMark reader) {
  const FetchId id = arrival.id;
  read_wake_.wait(mutex_,
                  [&]() REQUIRES(mutex_) { return is_cancelled(id) || !free_read_slots_.empty(); });
  if (is_cancelled(id)) return Tier::Get::kAbsent;
  const uint32_t slot = take_read_slot();
  const Tier::Get got = get_into(slot, arrival.page, reader);
  if (got != Tier::Get::kFound || is_cancelled(id)) {
    free_read_slots_.push_back(slot);
    return is_cancelled(id) ? Tier::Get::kAbsent : got;
  }
  ++counters_.pages_read;
  counters_.bytes_read += options_.page_bytes;
  arrival.bytes = {*read_lane_, slot, options_.page_bytes};
  arrivals_.push_back({std::move(arrival), slot});
  wake_();
  return got;
}

// --- with recurrent state: pages are useful only up to a snapshot, which is looked up first ---

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
    if (!wanted) return end_fetch(fetch.id, end_of(got));
    const bool is_tail = wanted->page.tokens.size() < kPageTokens;
    const size_t n_needed = wanted->n_pages + (is_tail ? 0 : 1);
    got = read_chain(fetch, pages, n_read, n_needed);
    if (got == Tier::Get::kFound) got = read_beside_chain(fetch, pages, *wanted);
    if (got == Tier::Get::kFound) return end_fetch(fetch.id, FetchEnd::kComplete);
    // Look for another snapshot before the missing page, or before this one.
    const size_t n_front = n_read < n_needed ? n_read : n_needed - std::min<size_t>(n_needed, 1);
    if (n_front >= n_whole) return end_fetch(fetch.id, end_of(got));
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
  for (uint32_t i = 0; i < fetch.n_snapshot_pages; ++i) {
    page.group = kSnapshotGroup + i;
    const Tier::Get got = read_page(fetch, page);
    if (got != Tier::Get::kFound) return got;
  }
  return Tier::Get::kFound;
}

}  // namespace kvik
