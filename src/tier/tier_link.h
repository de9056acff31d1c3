#pragma once

#include <array>
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
#include "tier/tier_queue.h"

namespace kvik {

class TierLink;

// One prompt's pages on their way from tiers into memory, where they stay until this ends.
class PageFetch {
 public:
  ~PageFetch();
  PageFetch(const PageFetch&) = delete;
  PageFetch& operator=(const PageFetch&) = delete;

  // All came that will come.
  bool is_done() const { return is_done_; }

 private:
  friend class TierLink;
  PageFetch(TierLink& link, const PrefixQuery& query, FoundPrefix& found)
      : link_(link), query_(query), found_(found) {}

  TierLink& link_;
  const PrefixQuery query_;
  FoundPrefix& found_;          // the prompt's, which holds what was there and what comes
  std::vector<size_t> levels_;  // that are asked after this one, the next one last
  size_t level_ = 0;            // that is asked now
  uint32_t n_before_ = 0;       // tokens that were found before it was asked
  std::array<uint32_t, kTierKinds> hits_{};  // tokens that came, by level
  std::vector<PageLease> pieces_;            // of a snapshot, as far as they came
  FetchId id_{};
  Duration waited_{};
  Duration patience_{};
  bool is_done_ = false;
};

// Between a KvCache and the tiers behind it, the nearest first: what is sealed is saved in each,
// and what a prompt lacks is fetched before it is admitted, from one tier after the other, each
// going on where the one before it ended. What came from one is saved in those in front of it.
// Never waits for a device: a tier has as long as computing the same pages would take at best, then
// what came serves and the next one is asked.
//
// Each tier has its own queue, threads, memory and counters: one that is slow or dead is in
// nobody's way. Pages that find a queue full are remembered and saved later, if they are still
// there. Engine thread, but for wake-ups and counters().
class TierLink final : public PageSink {
 public:
  // How many pages are on their way at once, for a budget of K and V.
  struct Slots {
    uint32_t n = 0;      // in each direction, for each tier
    uint64_t bytes = 0;  // of memory, in both directions, for all tiers
  };
  static Slots slots_for(std::span<const TierPlace> tiers, size_t page_bytes,
                         uint64_t budget_bytes);
  // The budget that holds page_bytes_wanted of pages beside these slots.
  static uint64_t budget_for(std::span<const TierPlace> tiers, size_t page_bytes,
                             uint64_t page_bytes_wanted);

  // Cache, tiers and clock outlive the link.
  TierLink(KvCache& kv, std::span<const TierPlace> tiers, const Slots& slots, const Clock& clock);
  ~TierLink() override;

  // Whether its queue's threads run.
  Result<void> started() const;

  void on_sealed(PageId page) override;
  void on_shortage() override;

  // Between steps: saves what waited for room, takes what came, ends what took too long.
  void pump();

  // Whether one more prompt's pages can be fetched now; else after some pump().
  bool may_fetch() const { return n_under_way() < kMaxUnderWay; }
  // Begins to bring what memory lacks of a prompt, of which `found` was found just now, from the
  // tiers that are expected to read n_tokens in less than compute_ms, or of which too little is
  // known; null, and counted, where there is none. `found` stays where it is until the fetch ends,
  // and holds the pages.
  struct Rest {
    uint32_t n_tokens = 0;             // behind what is in memory
    std::optional<double> compute_ms;  // std::nullopt: not known, all tiers are asked
  };
  std::unique_ptr<PageFetch> fetch(const PrefixQuery& query, FoundPrefix& found, const Rest& rest);
  bool is_fetching() const { return n_under_way() > 0; }
  // The prompt was admitted: what came for it served.
  void count_hits(const PageFetch& fetch);

  // Waits until there is something to pump, or the time is over.
  void wait(Duration at_most);
  // Called on any thread when there is something to pump. Replacing it waits for a call that runs.
  void set_wake(std::function<void()> wake);

  // Saves all that waits.
  void flush(Duration at_most);

  // By TierKind; any thread.
  AllTierCounters counters() const;

 private:
  friend class PageFetch;
  static constexpr uint32_t kMaxUnderWay = 4;

  struct Level {
    TierKind kind = TierKind::kDisk;
    std::deque<PageId> pending;  // to be saved
    uint32_t n_recoveries = 0;
    std::unique_ptr<TierQueue> queue;
  };

  uint32_t n_under_way() const;
  bool is_worth_asking(const Level& level, const Rest& rest) const;
  void ask_next(PageFetch& fetch);
  Duration patience_of(const PageFetch& fetch) const;
  void end(PageFetch& fetch);
  void take(size_t level, const TierArrival& arrival);
  void take_page(PageFetch& fetch, const TierArrival& arrival);
  bool take_piece(PageFetch& fetch, const TierArrival& arrival);
  void end_without_room(PageFetch& fetch);
  void promote(PageId page, size_t from);
  void save_pending(Level& level);
  void save_all_again(Level& level);
  void count_time();
  void wake();

  KvCache& kv_;
  const Clock& clock_;
  std::vector<PageFetch*> fetches_;
  uint64_t last_id_ = 0;
  TimePoint last_pump_;

  Mutex wake_mutex_;
  CondVar woken_;
  bool is_woken_ GUARDED_BY(wake_mutex_) = false;
  std::function<void()> on_wake_ GUARDED_BY(wake_mutex_);

  std::vector<Level> levels_;  // the threads of their queues end first
};

}  // namespace kvik
