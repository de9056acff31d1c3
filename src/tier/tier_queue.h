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
  TierKind kind = TierKind::kDisk;  // for log messages
  size_t page_bytes = 0;
  uint32_t n_write_slots = 8;  // pages in transfer to the tier at once
  uint32_t n_read_slots = 8;   // pages read from the tier and not yet taken
  Duration retry_after = std::chrono::milliseconds(100);  // doubled at each failure
  Duration retry_at_most = std::chrono::seconds(5);
  Duration tidy_every = std::chrono::milliseconds(500);
};

// Connects the engine thread with a tier. Saved pages are copied and written by one thread, and
// pages to be fetched are read ahead by another. No caller waits for the device of the tier or of
// the memory: pages are copied by lanes (CopyLane). Memory is allocated once.
//
// After a failed write the tier is degraded: pages saved meanwhile are dropped, and writing is
// tried again with growing pauses. The log records both the failure and the recovery once.
//
// Engine thread, except for counters(), which any thread may call. One mutex guards the queues; it
// is never held during a call to the tier.
class TierQueue {
 public:
  // Returns the memory of a page in transfer, in bytes.
  static size_t bytes_per_slot(const Tier& tier, size_t page_bytes) {
    return tier.slot_bytes(page_bytes);
  }

  // Tier and memory outlive the queue. `wake` is called on any thread when pages have arrived or
  // can be saved again.
  TierQueue(Tier& tier, Memory& memory, const TierQueueOptions& options,
            std::function<void()> wake);
  // Waits until the queued pages are written, unless the tier is degraded.
  ~TierQueue();

  // Returns kIo if the threads could not be started; the queue may then only be destroyed.
  const Result<void>& started() const { return started_; }

  // Queues a copy of a page for writing. Returns false if all slots are in use.
  bool save(const TierPage& page, const std::byte* bytes);

  // Returns how often the tier recovered after it had lost pages: all pages in memory should then
  // be saved again.
  uint32_t n_recoveries() const;

  // Waits until all saved pages are written or dropped, or `at_most` has passed.
  void flush(Duration at_most);

  // Queues a fetch after the earlier ones. Returns false if the tier has not answered since the
  // last time_out(). A load takes turns with fetches and other loads, page by page, because it
  // lasts as long as its prompt is computed.
  bool fetch(TierFetch fetch);
  bool load(TierLoad load);
  // Cancels a fetch whose result is no longer needed; time_out(): because it takes too long.
  void cancel(FetchId id);
  void time_out(FetchId id);
  // Passes the pages that arrived since the last call to `take`, in order for each fetch. The bytes
  // are borrowed for the call.
  void take_arrivals(const std::function<void(const TierArrival&)>& take);

  // Returns the time of reading a page; std::nullopt if it is not known yet. note_declined(): the
  // caller did not fetch because of that time.
  std::optional<double> page_read_ms() const;
  void note_declined();

  TierCounters counters() const;
  // Counters of fetch results that only the engine knows.
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
  // Logs when reads begin to fail, and when they succeed again.
  void note_read(Tier::Get got) REQUIRES(mutex_);
  uint32_t take_read_slot() REQUIRES(mutex_);
  Tier::Get get_into(uint32_t slot, TierPage& page, SharingMark reader) REQUIRES(mutex_);
  void run_fetch(TierFetch fetch) REQUIRES(mutex_);
  void run_state_fetch(const TierFetch& fetch) REQUIRES(mutex_);
  bool run_load(TierLoad& load) REQUIRES(mutex_);
  Tier::Get read_chain(const TierFetch& fetch, std::vector<TierPage>& pages, size_t& n_read,
                       size_t n) REQUIRES(mutex_);
  Tier::Get read_beside_chain(const TierFetch& fetch, std::vector<TierPage>& pages,
                              WantedSnapshot& wanted) REQUIRES(mutex_);
  Tier::Get read_snapshot(const TierFetch& fetch, TierPage& page) REQUIRES(mutex_);
  void end_fetch(FetchId id, FetchEnd end) REQUIRES(mutex_);
  Tier::Get read_page(const TierFetch& fetch, TierPage& page) REQUIRES(mutex_);
  Tier::Get read_page(TierArrival arrival, SharingMark reader) REQUIRES(mutex_);
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
  size_t n_being_written_ GUARDED_BY(mutex_) =
      0;  // number of pages that the writer thread is writing
  std::vector<uint32_t> free_write_slots_ GUARDED_BY(mutex_);
  bool wants_slot_ GUARDED_BY(mutex_) = false;            // save() returned false
  std::optional<TimePoint> retry_at_ GUARDED_BY(mutex_);  // degraded until then
  Duration pause_ GUARDED_BY(mutex_);
  uint32_t n_recoveries_ GUARDED_BY(mutex_) = 0;

  std::deque<TierFetch> fetches_ GUARDED_BY(mutex_);
  std::deque<TierLoad> loads_ GUARDED_BY(mutex_);
  std::optional<FetchId> reading_ GUARDED_BY(mutex_);
  bool is_read_cancelled_ GUARDED_BY(mutex_) = false;
  bool is_read_failing_ GUARDED_BY(mutex_) = false;
  bool is_hanging_ GUARDED_BY(mutex_) = false;
  std::deque<Arrival> arrivals_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_read_slots_ GUARDED_BY(mutex_);
  std::vector<Arrival> taken_;  // engine thread only

  TierCounters counters_ GUARDED_BY(mutex_);
  ReadEstimate read_estimate_ GUARDED_BY(mutex_);
  Result<void> started_;
  std::thread writer_, reader_;
};

}  // namespace kvik
