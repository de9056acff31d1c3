#include "tier/tier_link.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "tier/save_order.h"
#include "tier/wanted_pages.h"

namespace kvik {
namespace {

constexpr uint32_t kMinSlots = 2;
constexpr uint32_t kMaxSlots = 64;
// the slots of one direction take at most this fraction of the budget
constexpr uint64_t kBudgetPart = 32;

// Computing a page of 32 tokens takes longer than this, except for the smallest models.
constexpr std::chrono::milliseconds kFetchTimePerPage{20};
constexpr std::chrono::milliseconds kFetchTimeBase{500};

// Loading while computing saves little if one of the two takes less than a fraction of the other:
// 1 / (1 + n) of the time for n times. A fetch before computing costs no part of a step.
constexpr double kFetchIfFaster = 4;      // times as fast as computing
constexpr double kNoneIfSlower = 16;      // times as slow as computing
constexpr uint32_t kMinPagesToLoad = 16;  // pages of a prompt
// At most this much of an engine step, during which nothing can be received, counts as waiting for
// the tier.
constexpr std::chrono::milliseconds kMaxCounted{50};

}  // namespace

PageFetch::~PageFetch() {
  if (!is_done_) link_.levels_[level_].queue->cancel(id_);
  std::erase(link_.fetches_, this);
}

TierLink::Slots TierLink::slots_for(std::span<const TierPlace> tiers, size_t page_bytes,
                                    uint64_t budget_bytes) {
  Slots slots;
  for (const TierPlace& place : tiers) {
    const uint64_t slot_bytes = TierQueue::bytes_per_slot(*place.tier, page_bytes);
    const uint64_t n = std::clamp<uint64_t>(budget_bytes / kBudgetPart / slot_bytes / tiers.size(),
                                            kMinSlots, kMaxSlots);
    slots.n = slots.n == 0 ? static_cast<uint32_t>(n) : std::min(slots.n, static_cast<uint32_t>(n));
  }
  for (const TierPlace& place : tiers) {
    slots.bytes += 2 * slots.n * TierQueue::bytes_per_slot(*place.tier, page_bytes);
  }
  return slots;
}

uint64_t TierLink::budget_for(std::span<const TierPlace> tiers, size_t page_bytes,
                              uint64_t page_bytes_wanted) {
  uint64_t bytes = page_bytes_wanted;
  if (!tiers.empty()) bytes += page_bytes_wanted / 8;
  for (const TierPlace& place : tiers) {
    bytes += 2 * kMinSlots * TierQueue::bytes_per_slot(*place.tier, page_bytes);
  }
  return bytes;
}

TierLink::TierLink(KvCache& kv, std::span<const TierPlace> tiers, const Slots& slots,
                   const Clock& clock)
    : kv_(kv), clock_(clock), n_slots_(slots.n), last_pump_(clock.now()) {
  CHECK(!tiers.empty() && tiers.size() <= kTierKinds);
  for (const TierPlace& place : tiers) {
    Level& level = levels_.emplace_back();
    level.kind = place.kind;
    level.save = place.save;
    level.queue = std::make_unique<TierQueue>(*place.tier, kv.pages().memory(),
                                              TierQueueOptions{.kind = place.kind,
                                                               .page_bytes = kv.page_bytes(),
                                                               .n_write_slots = slots.n,
                                                               .n_read_slots = slots.n},
                                              [this] { wake(); });
  }
  kv_.pages().set_sink(this);
}

TierLink::~TierLink() { kv_.pages().set_sink(nullptr); }

// --- waking ---

void TierLink::wake() {
  const MutexLock lock(wake_mutex_);
  is_woken_ = true;
  woken_.notify_all();
  if (on_wake_) on_wake_();
}

void TierLink::wait(Duration at_most) {
  const MutexLock lock(wake_mutex_);
  woken_.wait_for(wake_mutex_, at_most, [this]() REQUIRES(wake_mutex_) { return is_woken_; });
  is_woken_ = false;
}

void TierLink::set_wake(std::function<void()> wake) {
  const MutexLock lock(wake_mutex_);
  on_wake_ = std::move(wake);
}

// --- saving ---

// A page that was loaded is saved only in the levels before the one that it came from.
void TierLink::on_sealed(PageId page) {
  size_t n_levels = levels_.size();
  if (kv_.pages().history(page).is_fetched) {
    for (const PageLoad* load : loads_)
      n_levels = std::min(n_levels, load->level_of(page).value_or(n_levels));
  }
  for (Level& level : std::span(levels_).first(n_levels)) {
    save_soon(level, page);
    save_pending(level);
  }
}

// Queues a page, unless the level saves all pages at the end.
void TierLink::save_soon(Level& level, PageId page) {
  if (level.save == TierPlace::Save::kWhenSealed) level.pending.push_back(page);
}

void TierLink::save_pending(Level& level) {
  while (!level.pending.empty()) {
    const PageId id = level.pending.front();
    // If the page was evicted meanwhile, its contents are lost; another page that took its place is
    // worth saving as well.
    const auto page = kv_.pages().describe(id);
    if (page && !level.queue->save(*page, kv_.pages().bytes_of(id))) return;
    if (page) kv_.pages().note_saved(id);
    level.pending.pop_front();
  }
}

// The tier may have lost everything. The order of parents before children is no longer known and
// not required.
void TierLink::save_all_again(Level& level) {
  for (uint32_t i = 0; i < kv_.n_pages(); ++i) save_soon(level, PageId{i});
}

void TierLink::save_in_levels_before(size_t level, PageId page) {
  for (size_t i = 0; i < level; ++i) save_soon(levels_[i], page);
}

void TierLink::save_rest() {
  flush(std::chrono::steady_clock::now() + kFlushTime);
  const TimePoint deadline = std::chrono::steady_clock::now() + kSaveAllTime;
  for (Level& level : levels_) {
    if (level.save == TierPlace::Save::kAtEnd) save_all(level, deadline);
  }
}

// Saves the pages in batches. The memory of each is released as soon as the tier has stored it.
void TierLink::save_all(Level& level, TimePoint deadline) {
  constexpr size_t kBatch = 64;
  std::vector<SavablePage> pages;
  for (uint32_t i = 0; i < kv_.n_pages(); ++i) {
    const PageId id{i};
    const auto page = kv_.pages().describe(id);
    if (page) pages.push_back({id, page->parent, page->key, kv_.pages().history(id).last_used});
  }
  const std::vector<PageId> order = save_order(pages);
  for (size_t begin = 0; begin < order.size(); begin += kBatch) {
    const size_t n = std::min(kBatch, order.size() - begin);
    const auto batch = std::span(order).subspan(begin, n);
    level.pending.assign(batch.begin(), batch.end());
    flush(deadline);
    if (!level.pending.empty()) return;  // out of time
    for (const PageId id : batch)
      kv_.pages().memory().discard(kv_.pages().bytes_of(id), kv_.page_bytes());
  }
}

void TierLink::flush(TimePoint deadline) {
  const auto is_pending = [](const Level& level) { return !level.pending.empty(); };
  while (std::chrono::steady_clock::now() < deadline) {
    for (Level& level : levels_) save_pending(level);
    if (std::ranges::none_of(levels_, is_pending)) break;
    wait(std::chrono::milliseconds(20));
  }
  for (Level& level : levels_) level.queue->flush(deadline - std::chrono::steady_clock::now());
}

// --- fetching ---

std::unique_ptr<PageFetch> TierLink::fetch(const PrefixQuery& query, FoundPrefix& found,
                                           const Rest& rest) {
  std::vector<size_t> levels;
  for (size_t i = levels_.size(); i > 0; --i) {
    const Way way = way_of(levels_[i - 1], rest);
    if (way == Way::kFetch) levels.push_back(i - 1);
    if (way == Way::kNone) levels_[i - 1].queue->note_declined();
  }
  if (levels.empty()) return nullptr;
  std::unique_ptr<PageFetch> fetch(new PageFetch(*this, query, found));
  fetch->levels_ = std::move(levels);
  if (rest.compute_ms) fetch->token_compute_ms_ = *rest.compute_ms / rest.n_tokens;
  fetches_.push_back(fetch.get());
  found.begin_fetch();
  kv_.hold(found);
  ask_next(*fetch);
  return fetch;
}

// Queries the next tier for what the earlier ones did not have. Ends the fetch if nothing is
// missing or no tier is left.
void TierLink::ask_next(PageFetch& fetch) {
  while (!fetch.levels_.empty() && fetch.found_.n_tokens() < fetch.query_.tokens.size()) {
    fetch.level_ = fetch.levels_.back();
    fetch.levels_.pop_back();
    fetch.id_ = FetchId{++last_id_};
    fetch.waited_ = {};
    fetch.time_limit_ = time_limit_of(fetch);
    fetch.is_trial_ = !levels_[fetch.level_].queue->page_read_ms();
    const auto rest = fetch.query_.tokens.subspan(fetch.found_.n_whole_tokens());
    if (levels_[fetch.level_].queue->fetch({.id = fetch.id_,
                                            .root = fetch.query_.root,
                                            .parent = fetch.found_.last_key(),
                                            .n_before = fetch.found_.n_whole_tokens(),
                                            .tokens = {rest.begin(), rest.end()},
                                            .rules = kv_.layout().rules,
                                            .reader = kv_.pages().mark_of(fetch.query_.tenant),
                                            .has_state = kv_.layout().has_state(),
                                            .n_snapshot_pages = kv_.layout().n_snapshot_pages(),
                                            .n_resumed = fetch.found_.n_tokens()})) {
      fetch.queried_.emplace_back(fetch.level_, fetch.found_.n_tokens());
      return;
    }
    fetch.found_.note_tier_miss(MissReason::kTierTimedOut);  // it is still busy with another fetch
  }
  fetch.is_done_ = true;
}

// Returns the time limit of a fetch: about what computing its pages takes at best, or twice the
// expected time if that is known to be long and computing to take longer, plus the remaining time
// of the earlier fetches from this tier.
Duration TierLink::time_limit_of(const PageFetch& fetch) const {
  const auto n_rest = fetch.query_.tokens.size() - fetch.found_.n_whole_tokens();
  const double expected_ms = levels_[fetch.level_].queue->page_read_ms().value_or(0);
  const Duration per_page = std::max<Duration>(kFetchTimePerPage, from_ms(2 * expected_ms));
  Duration patience = kFetchTimeBase + static_cast<int64_t>(pages_for(n_rest)) * per_page;
  for (const PageFetch* other : fetches_) {
    if (other == &fetch || other->is_done_ || other->level_ != fetch.level_) continue;
    patience += other->time_limit_ - other->waited_;
  }
  return patience;
}

uint32_t TierLink::n_under_way() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(fetches_, [](const PageFetch* fetch) { return !fetch->is_done_; }));
}

// Ends the fetch from this tier.
void TierLink::end(PageFetch& fetch) {
  fetch.found_ = kv_.find(fetch.query_, std::move(fetch.found_));
  ask_next(fetch);
}

void TierLink::count_hits(const PageFetch& fetch) {
  uint32_t end = fetch.found_.n_tokens();
  for (const auto& [level, n_before] : std::views::reverse(fetch.queried_)) {
    levels_[level].queue->count_hit(end - std::min(n_before, end));
    end = std::min(n_before, end);
  }
}

// Releases all fetched pages: a page is leased only together with those before it.
void TierLink::on_shortage() {
  for (PageFetch* fetch : fetches_) {
    if (!fetch->is_done_) end_without_room(*fetch);
    fetch->was_released_ = true;
    fetch->found_.let_go();
    fetch->snapshot_pages_.clear();
  }
}

void TierLink::take(size_t level, const TierArrival& arrival) {
  const auto load = std::ranges::find_if(loads_, [&](const PageLoad* candidate) {
    return candidate->level_ == level && candidate->id_ == arrival.id && !candidate->is_done_;
  });
  if (load != loads_.end()) return take_loaded(**load, arrival);
  const auto it = std::ranges::find_if(fetches_, [&](const PageFetch* fetch) {
    return fetch->level_ == level && fetch->id_ == arrival.id && !fetch->is_done_;
  });
  if (it == fetches_.end()) return;
  PageFetch& fetch = **it;
  if (!arrival.end) return take_page(fetch, arrival);
  if (arrival.end == FetchEnd::kDamaged) fetch.found_.note_tier_miss(MissReason::kTierDamaged);
  if (arrival.end == FetchEnd::kFailed) fetch.found_.note_unread_tier(MissReason::kTierFailed);
  end(fetch);
}

// The pages of a snapshot arrive one after the other, and are inserted when the snapshot is
// complete.
bool TierLink::take_snapshot_page(PageFetch& fetch, const TierArrival& arrival) {
  const uint32_t index = arrival.page.group - kSnapshotGroup;
  if (index == 0) fetch.snapshot_pages_.clear();
  if (index != fetch.snapshot_pages_.size()) return true;  // an earlier one is missing
  auto page = kv_.snapshots().take_page(arrival.bytes);
  if (!page) return false;
  fetch.snapshot_pages_.push_back(std::move(*page));
  if (fetch.snapshot_pages_.size() < kv_.layout().n_snapshot_pages()) return true;
  if (kv_.snapshots().insert_fetched(arrival.page, fetch.snapshot_pages_, fetch.query_)) {
    for (const PageLease& lease : fetch.snapshot_pages_)
      save_in_levels_before(fetch.level_, lease.id());
  }
  return true;
}

void TierLink::take_page(PageFetch& fetch, const TierArrival& arrival) {
  if (arrival.page.group >= kSnapshotGroup) {
    if (!take_snapshot_page(fetch, arrival)) end_without_room(fetch);
    return;
  }
  auto lease = kv_.pages().insert_fetched(arrival.page, arrival.bytes, fetch.query_);
  if (lease) {
    save_in_levels_before(fetch.level_, lease->id());
    fetch.found_.hold(std::move(*lease));
    return;
  }
  end_without_room(fetch);
}

void TierLink::end_without_room(PageFetch& fetch) {
  TierQueue& queue = *levels_[fetch.level_].queue;
  queue.cancel(fetch.id_);
  queue.count_no_room();
  fetch.found_.note_tier_miss(MissReason::kTierNoRoom);
  fetch.is_done_ = true;
}

void TierLink::count_time() {
  const TimePoint now = clock_.now();
  const Duration passed = std::min<Duration>(now - last_pump_, kMaxCounted);
  last_pump_ = now;
  for (PageFetch* fetch : fetches_) {
    if (fetch->is_done_) continue;
    fetch->waited_ += passed;
    if (fetch->waited_ < fetch->time_limit_) continue;
    levels_[fetch->level_].queue->time_out(fetch->id_);
    fetch->found_.note_tier_miss(MissReason::kTierTimedOut);
    end(*fetch);
  }
}

Result<void> TierLink::started() const {
  for (const Level& level : levels_) TRY(level.queue->started());
  return {};
}

AllTierCounters TierLink::counters() const {
  AllTierCounters all;
  for (const Level& level : levels_) {
    all[static_cast<size_t>(level.kind)] = level.queue->counters();
  }
  return all;
}

void TierLink::pump() {
  for (size_t i = 0; i < levels_.size(); ++i) {
    Level& level = levels_[i];
    if (const uint32_t n = level.queue->n_recoveries(); n != level.n_recoveries) {
      level.n_recoveries = n;
      save_all_again(level);
    }
    save_pending(level);
    level.queue->take_arrivals([&](const TierArrival& arrival) { take(i, arrival); });
  }
  count_time();
  end_slow_fetches();
}

// --- loading while computing ---

bool TierLink::can_load() const {
  const KvLayout& layout = kv_.layout();
  return layout.n_groups() == 1 && layout.rules[0].needs_all() && !layout.has_state();
}

TierLink::Way TierLink::way_of(const Level& level, const Rest& rest) const {
  const auto page_ms = level.queue->page_read_ms();
  if (!page_ms) return Way::kFetch;
  const auto n_pages = static_cast<double>(pages_at_once(kv_.layout(), rest.n_tokens));
  const double read_ms = *page_ms * n_pages;
  if (!can_load() || rest.n_tokens < kMinPagesToLoad * kPageTokens) {
    return !rest.compute_ms || read_ms < *rest.compute_ms ? Way::kFetch : Way::kNone;
  }
  const double compute_ms = rest.compute_ms.value_or(to_ms(kFetchTimePerPage) * n_pages);
  if (read_ms * kFetchIfFaster <= compute_ms) return Way::kFetch;
  return read_ms <= kNoneIfSlower * compute_ms ? Way::kLoad : Way::kNone;
}

// Ends fetches from tiers whose speed was not known and that turn out to be better used by a load.
// The others get the time that they need.
void TierLink::end_slow_fetches() {
  for (PageFetch* fetch : fetches_) {
    TierQueue& queue = *levels_[fetch->level_].queue;
    if (fetch->is_done_ || !fetch->is_trial_ || !queue.page_read_ms()) continue;
    fetch->is_trial_ = false;
    Rest rest{.n_tokens = static_cast<uint32_t>(fetch->query_.tokens.size()) -
                          fetch->queried_.back().second,
              .compute_ms = {}};
    if (fetch->token_compute_ms_ > 0) rest.compute_ms = fetch->token_compute_ms_ * rest.n_tokens;
    const Way way = way_of(levels_[fetch->level_], rest);
    if (way == Way::kFetch) fetch->time_limit_ = time_limit_of(*fetch);
    if (way != Way::kLoad) continue;
    queue.cancel(fetch->id_);
    end(*fetch);
  }
}

bool TierLink::may_load(const Rest& rest) const {
  return std::ranges::any_of(levels_,
                             [&](const Level& level) { return way_of(level, rest) == Way::kLoad; });
}

std::unique_ptr<PageLoad> TierLink::load(const PrefixQuery& query, PageTable& table,
                                         const Rest& rest) {
  // When the page in which the prompt ends is sealed, its open page is kept, which a load lacks.
  const uint64_t n_tokens =
      std::min<uint64_t>(query.tokens.size(), std::max<uint64_t>(table.owner.n_prompt, 1) - 1);
  const auto n_pages = static_cast<uint32_t>(n_tokens / kPageTokens);
  if (!can_load() || n_pages < table.n_sealed() + kMinPagesToLoad) return nullptr;
  if (loads_.size() >= kMaxUnderWay) return nullptr;
  std::vector<size_t> levels;
  for (size_t i = levels_.size(); i > 0; --i) {
    if (way_of(levels_[i - 1], rest) == Way::kLoad) levels.push_back(i - 1);
  }
  if (levels.empty()) return nullptr;
  std::unique_ptr<PageLoad> load(new PageLoad(*this, table, query, n_pages));
  load->levels_ = std::move(levels);
  load->note_computing(table.n_sealed() * kPageTokens);
  loads_.push_back(load.get());
  ask_next(*load);
  return load;
}

// Asks the next tier for the pages that the earlier ones did not have.
void TierLink::ask_next(PageLoad& load) {
  const uint32_t first = load.first_;
  const auto tokens =
      load.query_.tokens.first(size_t{load.n_pages()} * kPageTokens).subspan(first * kPageTokens);
  while (!load.levels_.empty()) {
    load.level_ = load.levels_.back();
    load.levels_.pop_back();
    load.id_ = FetchId{++last_id_};
    TierQueue& queue = *levels_[load.level_].queue;
    TierLoad request{.id = load.id_,
                     .reader = kv_.pages().mark_of(load.query_.tenant),
                     .first = first,
                     .pages = whole_pages(load.query_.root, load.parent_, tokens),
                     .is_done = std::vector<bool>(load.n_pages() - first),
                     .present = 0,
                     .absent = load.n_pages() - first,
                     .front = load.front_};
    for (uint32_t page = first; page < load.n_pages(); ++page) {
      request.is_done[page - first] = load.loaded_[page].has_value();
    }
    if (queue.load(std::move(request))) return;
  }
  load.is_done_ = true;
}

void TierLink::take_loaded(PageLoad& load, const TierArrival& arrival) {
  if (arrival.end) return ask_next(load);
  // The step that computes pages before the front has ended; they may be in use by others.
  const uint32_t page = arrival.number;
  if (page < *load.front_ || page < load.table_.n_sealed() || load.loaded_[page]) return;
  if (!kv_.place(load.table_, page, arrival.bytes)) return;
  load.loaded_[page] = load.level_;
  load.marks_[page] = kv_.pages().known_as(arrival.page.known);
}

TierLink::LoadRate TierLink::rate_of(const PageLoad& load) const {
  const auto n_loads =
      static_cast<double>(std::ranges::count_if(loads_, [&](const PageLoad* other) {
        return other->level_ == load.level_ && !other->is_done_;
      }));
  return {.page_ms = n_loads * levels_[load.level_].queue->page_read_ms().value_or(0),
          .n_slots = n_slots_ / std::max(n_loads, 1.0)};
}

void TierLink::count_hits(const PageLoad& load, uint32_t begin, uint32_t end) {
  for (uint32_t page = begin / kPageTokens; page < end / kPageTokens; ++page) {
    if (load.loaded_[page]) levels_[*load.loaded_[page]].queue->count_hit(kPageTokens);
  }
}

void TierLink::forget(PageLoad& load) {
  if (!load.is_done_) levels_[load.level_].queue->cancel(load.id_);
  std::erase(loads_, &load);
}

}  // namespace kvik
