#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "backend/copy_lane.h"
#include "backend/memory.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "tier/aligned_bytes.h"
#include "tier/read_estimate.h"
#include "tier/tier.h"
#include "tier/tier_fetch.h"

namespace kvik {

struct WantedSnapshot;

struct TierQueueOptions {
  TierKind kind = TierKind::kDisk;  // for the log
  size_t page_bytes = 0;
  uint32_t n_write_slots = 8;  // pages on their way to the tier at once
  uint32_t n_read_slots = 8;   // pages that came from it and were not taken yet
  Duration retry_after = std::chrono::milliseconds(100);  // doubled by each failure
  Duration retry_at_most = std::chrono::seconds(5);
  Duration tidy_every = std::chrono::milliseconds(500);
};

// Between the engine thread and a tier: what is saved is copied and written by one thread, what is
// fetched is read ahead by another, and nobody waits for the device, be it the tier's or the
// memory's: pages come and go by lanes (CopyLane). Memory is taken once.
//
// Where a write fails the tier is degraded: pages that are saved meanwhile are dropped, and it is
// tried again with growing pauses. The log says so once, and once when it is back.
//
// Engine thread, but for counters(), which any thread may call. One mutex guards the queues; it is
// never held during a call of the tier's.
class TierQueue {
 public:
  // Bytes of memory that a queue takes for a page that is on its way.
  static size_t bytes_per_slot(const Tier& tier, size_t page_bytes) {
    return tier.slot_bytes(page_bytes);
  }

  // The tier and the pages' memory outlive the queue. `wake` is called, on any thread, when
  // something can be taken or saved again.
  TierQueue(Tier& tier, Memory& memory, const TierQueueOptions& options,
            std::function<void()> wake);
  ~TierQueue();  // what is on its way to the tier gets there first

  // Whether its threads run; else kIo, and it may only be destroyed.
  const Result<void>& started() const { return started_; }

  // Has a page written as it is now. False where all slots are on their way.
  bool save(const TierPage& page, const std::byte* bytes);

  // How often the tier came back after it had lost pages: those in memory are to be saved again.
  uint32_t n_recoveries() const;

  // Waits until what was saved is written, or was dropped, or the time is over.
  void flush(Duration at_most);

  // Begins to read what a prompt asks for, behind all that was asked before. False, and nothing
  // begun, where the tier has not answered again since somebody gave up.
  bool fetch(TierFetch fetch);
  // Nobody waits for it any more; give_up() because it takes too long.
  void cancel(FetchId id);
  void give_up(FetchId id);
  // Hands over what came since the last call, in the order of each fetch. The bytes are borrowed
  // for the call.
  void take_arrivals(const std::function<void(const TierArrival&)>& take);

  // How long reading a page takes; std::nullopt as long as that is not known. Declined: nothing was
  // read because of it.
  std::optional<double> page_read_ms() const;
  void note_declined();

  TierCounters counters() const;
  // Of what happens to fetches on the engine's side.
  void count_no_room();
  void count_hit(uint32_t n_tokens);

 private:
  struct Write {
    TierPage page;
    uint32_t slot;
  };
  struct Arrival {
    TierArrival what;
    std::optional<uint32_t> slot;
  };

  std::span<std::byte> page_in(const AlignedBytes& slot) const;
  std::unique_ptr<CopyLane> lane_of(Memory& memory, std::span<const AlignedBytes> slots) const;
  Result<void> start();
  void write_all();
  bool wait_for_writes() REQUIRES(mutex_);
  void put_batch() REQUIRES(mutex_);
  void retry() REQUIRES(mutex_);
  void degrade(const Error& error) REQUIRES(mutex_);

  void read_all();
  void wait_until_it_answers() REQUIRES(mutex_);
  bool answers() REQUIRES(mutex_);
  uint32_t take_read_slot() REQUIRES(mutex_);
  Tier::Get get_into(uint32_t slot, TierPage& page, KnownBy reader) REQUIRES(mutex_);
  void run_fetch(TierFetch fetch) REQUIRES(mutex_);
  void run_state_fetch(const TierFetch& fetch) REQUIRES(mutex_);
  Tier::Get read_chain(const TierFetch& fetch, std::vector<TierPage>& pages, size_t& n_read,
                       size_t n) REQUIRES(mutex_);
  Tier::Get read_behind_chain(const TierFetch& fetch, std::vector<TierPage>& pages,
                              WantedSnapshot& wanted) REQUIRES(mutex_);
  Tier::Get read_snapshot(const TierFetch& fetch, TierPage& page) REQUIRES(mutex_);
  void end_fetch(const TierFetch& fetch, FetchEnd end) REQUIRES(mutex_);
  Tier::Get read_page(const TierFetch& fetch, TierPage& page) REQUIRES(mutex_);
  void drop_fetch(FetchId id) REQUIRES(mutex_);
  bool is_cancelled(FetchId id) const REQUIRES(mutex_);

  Tier& tier_;
  const TierQueueOptions options_;
  const std::function<void()> wake_;
  std::vector<AlignedBytes> write_slots_;
  std::vector<AlignedBytes> read_slots_;
  std::unique_ptr<CopyLane> write_lane_, read_lane_;

  mutable Mutex mutex_;
  CondVar write_wake_, read_wake_, written_;
  bool is_stopping_ GUARDED_BY(mutex_) = false;

  std::deque<Write> writes_ GUARDED_BY(mutex_);
  size_t n_in_hand_ GUARDED_BY(mutex_) = 0;  // of writes, the writer's
  std::vector<uint32_t> free_write_slots_ GUARDED_BY(mutex_);
  bool wants_slot_ GUARDED_BY(mutex_) = false;            // save() was told no
  std::optional<TimePoint> retry_at_ GUARDED_BY(mutex_);  // degraded, until then
  Duration pause_ GUARDED_BY(mutex_);
  uint32_t n_recoveries_ GUARDED_BY(mutex_) = 0;

  std::deque<TierFetch> fetches_ GUARDED_BY(mutex_);
  std::optional<FetchId> reading_ GUARDED_BY(mutex_);
  bool is_reading_for_nobody_ GUARDED_BY(mutex_) = false;
  bool is_hanging_ GUARDED_BY(mutex_) = false;
  std::deque<Arrival> arrivals_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_read_slots_ GUARDED_BY(mutex_);
  std::vector<Arrival> taken_;  // the engine thread's

  TierCounters counters_ GUARDED_BY(mutex_);
  ReadEstimate read_estimate_ GUARDED_BY(mutex_);
  Result<void> started_;
  std::thread writer_, reader_;
};

}  // namespace kvik
