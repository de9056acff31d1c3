#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "kv/cache_report.h"
#include "kv/kv_cache.h"
#include "kv/page_sink.h"
#include "tier/page_load.h"
#include "tier/tier_queue.h"

namespace kvik {

class TierLink;

// A fetch of one prompt's pages from tiers into memory. They stay leased until this is destroyed.
class PageFetch {
 public:
  ~PageFetch();
  PageFetch(const PageFetch&) = delete;
  PageFetch& operator=(const PageFetch&) = delete;

  // Returns true when no more pages will arrive.
  bool is_done() const { return is_done_; }
  // Returns true if the pages were released because memory became short.
  bool was_released() const { return was_released_; }

 private:
  friend class TierLink;
  PageFetch(TierLink& link, const PrefixQuery& query, FoundPrefix& found)
      : link_(link), query_(query), found_(found) {}

  TierLink& link_;
  const PrefixQuery query_;
  FoundPrefix& found_;          // cached prefix of the prompt; leases the pages that arrive
  std::vector<size_t> levels_;  // levels to query after this one, the next one last
  size_t level_ = 0;            // level that is queried now
  // The levels queried so far, in order, each with the number of tokens cached before its query.
  std::vector<std::pair<size_t, uint32_t>> queried_;
  bool is_trial_ = false;                  // the speed of this level is not known
  double token_compute_ms_ = 0;            // expected time to compute a token; 0: unknown
  std::vector<PageLease> snapshot_pages_;  // pages of a snapshot that have arrived
  FetchId id_{};
  Duration waited_{};
  Duration time_limit_{};
  bool is_done_ = false;
  bool was_released_ = false;
};

// Connects a KvCache with its tiers. Sealed pages are saved in each tier. Missing pages of a prompt
// are fetched before it is admitted, from one tier after the other, each continuing where the one
// before ended. Pages from one tier are also saved in the tiers before it. Never waits for a
// device: the time limit of a fetch is about what computing the same pages would take at best. When
// it is reached, the pages that have arrived are used, and the next tier is queried.
//
// From tiers that are not much faster than computing, pages are loaded after the prompt has been
// admitted, while it is computed (PageLoad).
//
// Each tier has its own queue, threads, memory and counters, so that a slow or dead tier delays no
// other. Pages that find a queue full are remembered and saved later, if they are still cached.
// Engine thread, except for wake-ups and counters().
class TierLink final : public PageSink {
 public:
  // Number of pages that may be in transfer at once, for a KV budget.
  struct Slots {
    uint32_t n = 0;      // in each direction, per tier
    uint64_t bytes = 0;  // memory in both directions, for all tiers
  };
  static Slots slots_for(std::span<const TierPlace> tiers, size_t page_bytes,
                         uint64_t budget_bytes);
  // Returns the budget that has room for page_bytes_wanted of pages in addition to these slots.
  static uint64_t budget_for(std::span<const TierPlace> tiers, size_t page_bytes,
                             uint64_t page_bytes_wanted);

  // Cache, tiers and clock outlive the link.
  TierLink(KvCache& kv, std::span<const TierPlace> tiers, const Slots& slots, const Clock& clock);
  ~TierLink() override;

  // Returns an error if the threads of a queue could not be started.
  Result<void> started() const;

  void on_sealed(PageId page) override;
  void on_shortage() override;

  // Called between steps: saves pages that waited for room, inserts pages that arrived, and ends
  // fetches that took too long.
  void pump();

  // Returns whether another fetch may begin now; otherwise it may after a later pump().
  bool may_fetch() const { return n_under_way() < kMaxUnderWay; }
  // Begins to fetch the pages after `found`, the cached prefix of a prompt that was just looked up,
  // from the tiers of unknown speed and those expected to read n_tokens in much less time than
  // compute_ms. Returns null, and counts it, if there is none. `found` must not move until the
  // fetch ends, and leases the pages.
  struct Rest {
    uint32_t n_tokens = 0;  // tokens after the cached prefix
    // time to compute them; std::nullopt: not known, all tiers are queried
    std::optional<double> compute_ms;
  };
  std::unique_ptr<PageFetch> fetch(const PrefixQuery& query, FoundPrefix& found, const Rest& rest);
  // Begins to load pages of an admitted prompt, which `table` holds, from the tiers of medium
  // speed. Returns null if there are none, if few tokens are left, if several prompts load already,
  // or if the model has windowed or recurrent layers: one page of these is of no use before those
  // of all layers and the state have arrived.
  std::unique_ptr<PageLoad> load(const PrefixQuery& query, PageTable& table, const Rest& rest);
  // Returns whether load() would ask a tier.
  bool may_load(const Rest& rest) const;
  bool is_fetching() const { return n_under_way() > 0; }
  // Counts the fetched tokens of a prompt that has been admitted as hits.
  void count_hits(const PageFetch& fetch);

  // Waits until pump() has something to do, or `at_most` has passed.
  void wait(Duration at_most);
  // Sets the callback for when pump() has something to do; called on any thread. Replacing it waits
  // for a running call.
  void set_wake(std::function<void()> wake);

  // Ends the saving of pages: saves all waiting ones and, in tiers that save at the end, all pages
  // of the cache. The contents of the pages may be gone afterwards.
  void save_rest();

  // Returns the counters by TierKind. Any thread.
  AllTierCounters counters() const;

 private:
  friend class PageFetch;
  friend class PageLoad;
  static constexpr uint32_t kMaxUnderWay = 4;

  struct Level {
    TierKind kind = TierKind::kDisk;
    TierPlace::Save save = TierPlace::Save::kWhenSealed;
    std::deque<PageId> pending;  // to be saved
    uint32_t n_recoveries = 0;
    std::unique_ptr<TierQueue> queue;
  };

  // The best way to read the pages of a prompt from a level: before the prompt is computed, while
  // it is computed, or not at all.
  enum class Way : uint8_t { kFetch, kLoad, kNone };

  uint32_t n_under_way() const;
  bool can_load() const;
  Way way_of(const Level& level, const Rest& rest) const;
  // Speed of a load, which shares its level with other loads: the time to read one of its pages,
  // and the number of its pages in transfer at once.
  struct LoadRate {
    double page_ms = 0;
    double n_slots = 0;
  };
  LoadRate rate_of(const PageLoad& load) const;
  void forget(PageLoad& load);
  void count_hits(const PageLoad& load, uint32_t begin, uint32_t end);
  void ask_next(PageLoad& load);
  void take_loaded(PageLoad& load, const TierArrival& arrival);
  void end_slow_fetches();
  void ask_next(PageFetch& fetch);
  Duration time_limit_of(const PageFetch& fetch) const;
  void end(PageFetch& fetch);
  void take(size_t level, const TierArrival& arrival);
  void take_page(PageFetch& fetch, const TierArrival& arrival);
  bool take_snapshot_page(PageFetch& fetch, const TierArrival& arrival);
  void end_without_room(PageFetch& fetch);
  // Saves a page that came from a level in the faster levels.
  void save_in_levels_before(size_t level, PageId page);
  void save_soon(Level& level, PageId page);
  void save_pending(Level& level);
  void flush(TimePoint deadline);
  void save_all(Level& level, TimePoint deadline);
  void save_all_again(Level& level);
  void count_time();
  void wake();

  KvCache& kv_;
  const Clock& clock_;
  const uint32_t n_slots_;
  std::vector<PageFetch*> fetches_;
  std::vector<PageLoad*> loads_;
  uint64_t last_id_ = 0;
  TimePoint last_pump_;

  Mutex wake_mutex_;
  CondVar woken_;
  bool is_woken_ GUARDED_BY(wake_mutex_) = false;
  std::function<void()> on_wake_ GUARDED_BY(wake_mutex_);

  // Declared last, so that the threads of the queues end before the other members are destroyed.
  std::vector<Level> levels_;
};

}  // namespace kvik
