#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "kv/cache_report.h"
#include "kv/kv_cache.h"
#include "kv/page_sink.h"
#include "kv/tiers/tier_queue.h"

namespace kvik {

class TierLink;

// One prompt's pages on their way from a tier into memory, where they stay until this ends.
class PageFetch {
 public:
  ~PageFetch();
  PageFetch(const PageFetch&) = delete;
  PageFetch& operator=(const PageFetch&) = delete;

  // All came that will come.
  bool is_done() const { return is_done_; }

 private:
  friend class TierLink;
  PageFetch(TierLink& link, FoundPrefix& found, uint64_t tenant, FetchId id)
      : link_(link), found_(found), tenant_(tenant), id_(id) {}

  TierLink& link_;
  FoundPrefix& found_;  // the prompt's, which holds what was there and what comes
  uint64_t tenant_;
  FetchId id_;
  Duration waited_{};
  Duration patience_{};
  bool is_done_ = false;
};

// Between a KvCache and a slower tier: what is sealed is saved, and what a prompt lacks is fetched
// before it is admitted. Never waits for the device: a fetch has as long as computing the same
// pages would take at best, then what came serves and the rest is a miss.
//
// Pages that find the write queue full are remembered and saved later, if they are still there.
// Engine thread, but for wake-ups and counters().
class TierLink final : public PageSink {
 public:
  // How many pages are on their way at once, for a budget of K and V.
  struct Slots {
    uint32_t n = 0;      // in each direction
    uint64_t bytes = 0;  // of memory, in both
  };
  static Slots slots_for(const Tier& tier, size_t page_bytes, uint64_t budget_bytes);
  // The budget that holds page_bytes_wanted of pages beside these slots.
  static uint64_t budget_for(const Tier& tier, size_t page_bytes, uint64_t page_bytes_wanted);

  // Cache, tier and clock outlive the link.
  TierLink(KvCache& kv, Tier& tier, const Slots& slots, const Clock& clock);
  ~TierLink() override;

  void on_sealed(PageId page) override;
  void on_shortage() override;

  // Between steps: saves what waited for room, takes what came, ends what took too long.
  void pump();

  // Whether one more prompt's pages can be fetched now; else after some pump().
  bool may_fetch() const { return n_under_way() < kMaxUnderWay; }
  // Begins to bring what memory lacks of a prompt, of which `found` was found just now. `found`
  // stays where it is until the fetch ends, and holds the pages.
  std::unique_ptr<PageFetch> fetch(const PrefixQuery& query, FoundPrefix& found);
  bool is_fetching() const { return n_under_way() > 0; }
  // What fetching the rest of a prompt would take, n_tokens behind what is in memory; std::nullopt
  // as long as too little was read to know. Whoever computes them because of it says so.
  std::optional<double> read_ms(uint32_t n_tokens) const;
  void note_declined() { queue_->note_declined(); }
  // Of an admitted prompt, tokens that came from the tier.
  void count_hit(uint32_t n_tokens) { queue_->count_hit(n_tokens); }

  // Waits until there is something to pump, or the time is over.
  void wait(Duration at_most);
  // Called on any thread when there is something to pump. Replacing it waits for a call that runs.
  void set_wake(std::function<void()> wake);

  // Saves all that waits.
  void flush(Duration at_most);

  TierCounters counters() const { return queue_->counters(); }

 private:
  friend class PageFetch;
  static constexpr uint32_t kMaxUnderWay = 4;

  uint32_t n_under_way() const;
  void end(PageFetch& fetch, std::optional<MissReason> miss = {});
  void take(const TierArrival& arrival);
  void save_pending();
  void save_all_again();
  void count_time();
  void wake();

  KvCache& kv_;
  const Clock& clock_;
  std::deque<PageId> pending_;
  std::vector<PageFetch*> fetches_;
  uint64_t last_id_ = 0;
  uint32_t n_recoveries_ = 0;
  TimePoint last_pump_;

  Mutex wake_mutex_;
  CondVar woken_;
  bool is_woken_ GUARDED_BY(wake_mutex_) = false;
  std::function<void()> on_wake_ GUARDED_BY(wake_mutex_);

  std::unique_ptr<TierQueue> queue_;  // its threads end first
};

}  // namespace kvik
