#include "kv/tiers/tier_link.h"

#include <algorithm>
#include <utility>

namespace kvik {
namespace {

constexpr uint32_t kMinSlots = 2;
constexpr uint32_t kMaxSlots = 64;
constexpr uint64_t kBudgetPart = 32;  // slots of one direction take one of so many parts

// A page of 32 tokens takes longer to compute, but for the smallest models.
constexpr std::chrono::milliseconds kPatiencePerPage{20};
constexpr std::chrono::milliseconds kPatience{500};
// Of one step of the engine, in which nothing can be taken, only so much is the tier's fault.
constexpr std::chrono::milliseconds kMaxCounted{50};

}  // namespace

PageFetch::~PageFetch() {
  if (!is_done_) link_.queue_->cancel(id_);
  std::erase(link_.fetches_, this);
}

TierLink::Slots TierLink::slots_for(const Tier& tier, size_t page_bytes, uint64_t budget_bytes) {
  const uint64_t slot_bytes = TierQueue::bytes_per_slot(tier, page_bytes);
  const uint64_t n =
      std::clamp<uint64_t>(budget_bytes / kBudgetPart / slot_bytes, kMinSlots, kMaxSlots);
  return {.n = static_cast<uint32_t>(n), .bytes = 2 * n * slot_bytes};
}

uint64_t TierLink::budget_for(const Tier& tier, size_t page_bytes, uint64_t page_bytes_wanted) {
  const uint64_t slot_bytes = TierQueue::bytes_per_slot(tier, page_bytes);
  return page_bytes_wanted + page_bytes_wanted / 8 + 2 * kMinSlots * slot_bytes;
}

TierLink::TierLink(KvCache& kv, Tier& tier, const Slots& slots, const Clock& clock)
    : kv_(kv), clock_(clock), last_pump_(clock.now()) {
  queue_ = std::make_unique<TierQueue>(
      tier,
      TierQueueOptions{
          .page_bytes = kv.page_bytes(), .n_write_slots = slots.n, .n_read_slots = slots.n},
      [this] { wake(); });
  kv_.set_sink(this);
}

TierLink::~TierLink() { kv_.set_sink(nullptr); }

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

void TierLink::on_sealed(PageId page) {
  pending_.push_back(page);
  save_pending();
}

void TierLink::save_pending() {
  while (!pending_.empty()) {
    const PageId id = pending_.front();
    // A page that was given up meanwhile is lost; another in its place is as worth saving.
    const auto page = kv_.describe(id);
    if (page && !queue_->save(*page, kv_.memory(), kv_.bytes_of(id))) return;
    if (page) kv_.note_saved(id);
    pending_.pop_front();
  }
}

// The tier may have lost everything: parents before children, as they were sealed, is not known
// any more, and need not be.
void TierLink::save_all_again() {
  for (uint32_t i = 0; i < kv_.n_pages(); ++i) pending_.push_back(PageId{i});
}

void TierLink::flush(Duration at_most) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (std::chrono::steady_clock::now() < deadline) {
    save_pending();
    if (pending_.empty()) break;
    wait(std::chrono::milliseconds(20));
  }
  queue_->flush(deadline - std::chrono::steady_clock::now());
}

// --- fetching ---

std::unique_ptr<PageFetch> TierLink::fetch(const PrefixQuery& query, FoundPrefix& found) {
  std::unique_ptr<PageFetch> fetch(new PageFetch(*this, found, query.tenant, FetchId{++last_id_}));
  const auto rest = query.tokens.subspan(found.n_whole_tokens());
  fetch->patience_ =
      kPatience + static_cast<int64_t>(pages_for(rest.size())) * Duration(kPatiencePerPage);
  for (const PageFetch* other : fetches_) {
    if (!other->is_done_) fetch->patience_ += other->patience_ - other->waited_;
  }
  fetches_.push_back(fetch.get());
  found.begin_fetch();
  const bool is_begun = queue_->fetch({.id = fetch->id_,
                                       .root = query.root,
                                       .parent = found.last_key(),
                                       .n_before = found.n_whole_tokens(),
                                       .tokens = {rest.begin(), rest.end()},
                                       .rules = kv_.layout().rules});
  if (is_begun) {
    kv_.hold(found);
  } else {
    end(*fetch, MissReason::kTierTimedOut);
  }
  return fetch;
}

std::optional<double> TierLink::read_ms(uint32_t n_tokens) const {
  const auto page_ms = queue_->page_read_ms();
  if (!page_ms) return std::nullopt;
  return *page_ms * static_cast<double>(pages_at_once(kv_.layout(), n_tokens));
}

uint32_t TierLink::n_under_way() const {
  return static_cast<uint32_t>(
      std::ranges::count_if(fetches_, [](const PageFetch* fetch) { return !fetch->is_done_; }));
}

void TierLink::end(PageFetch& fetch, std::optional<MissReason> miss) {
  fetch.is_done_ = true;
  if (miss) fetch.found_.note_tier_miss(*miss);
}

// All at once: a page is held only where those before it are.
void TierLink::on_shortage() {
  for (PageFetch* fetch : fetches_) {
    if (!fetch->is_done_) {
      queue_->cancel(fetch->id_);
      queue_->count_no_room();
      end(*fetch);
    }
    fetch->found_.let_go();
  }
}

void TierLink::take(const TierArrival& arrival) {
  const auto it = std::ranges::find_if(fetches_, [&](const PageFetch* fetch) {
    return fetch->id_ == arrival.id && !fetch->is_done_;
  });
  if (it == fetches_.end()) return;
  PageFetch& fetch = **it;
  if (arrival.end) {
    if (arrival.end == FetchEnd::kDamaged) return end(fetch, MissReason::kTierDamaged);
    return end(fetch);
  }
  auto lease = kv_.insert_fetched(arrival.page, arrival.bytes, fetch.tenant_);
  if (lease) {
    fetch.found_.hold(std::move(*lease));
    return;
  }
  queue_->cancel(fetch.id_);
  queue_->count_no_room();
  end(fetch);
}

void TierLink::count_time() {
  const TimePoint now = clock_.now();
  const Duration passed = std::min<Duration>(now - last_pump_, kMaxCounted);
  last_pump_ = now;
  for (PageFetch* fetch : fetches_) {
    if (fetch->is_done_) continue;
    fetch->waited_ += passed;
    if (fetch->waited_ < fetch->patience_) continue;
    queue_->give_up(fetch->id_);
    end(*fetch, MissReason::kTierTimedOut);
  }
}

void TierLink::pump() {
  if (const uint32_t n = queue_->n_recoveries(); n != n_recoveries_) {
    n_recoveries_ = n;
    save_all_again();
  }
  save_pending();
  queue_->take_arrivals([&](const TierArrival& arrival) { take(arrival); });
  count_time();
}

}  // namespace kvik
