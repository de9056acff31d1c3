#include "tier/tier_queue.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/process/thread.h"

// Saving pages; tier_queue_read.cpp has fetching.
namespace kvik {
namespace {

// Slots share no system page with other memory, so that a copy lane can pin them.
size_t system_page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

TierQueue::TierQueue(Tier& tier, Memory& memory, const TierQueueOptions& options,
                     std::function<void()> wake)
    : tier_(tier), options_(options), wake_(std::move(wake)), pause_(options.retry_after) {
  const size_t slot_bytes = bytes_per_slot(tier, options_.page_bytes);
  const size_t alignment = std::max(tier.alignment(), system_page());
  for (uint32_t i = 0; i < options_.n_write_slots; ++i) {
    write_slots_.emplace_back(slot_bytes, alignment);
    free_write_slots_.push_back(i);
  }
  for (uint32_t i = 0; i < options_.n_read_slots; ++i) {
    read_slots_.emplace_back(slot_bytes, alignment);
    free_read_slots_.push_back(i);
  }
  write_lane_ = lane_of(memory, write_slots_);
  read_lane_ = lane_of(memory, read_slots_);
  counters_.is_on = true;
  started_ = start();
}

std::span<std::byte> TierQueue::page_in(const AlignedBytes& slot) const {
  return slot.span().subspan(tier_.head_bytes(), options_.page_bytes);
}

std::unique_ptr<CopyLane> TierQueue::lane_of(Memory& memory,
                                             std::span<const AlignedBytes> slots) const {
  std::vector<std::span<std::byte>> pages;
  for (const AlignedBytes& slot : slots) pages.push_back(page_in(slot));
  return memory.make_lane(std::move(pages));
}

Result<void> TierQueue::start() {
  const auto name = [&](std::string_view does) {
    return fmt::format("kvik-{}-{}", to_string(options_.kind), does);
  };
  TRY_ASSIGN(writer_, start_thread(name("w"), [this] { write_all(); }));
  TRY_ASSIGN(reader_, start_thread(name("r"), [this] { read_all(); }));
  return {};
}

TierQueue::~TierQueue() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  write_wake_.notify_all();
  read_wake_.notify_all();
  join_if_started(writer_);
  join_if_started(reader_);
}

bool TierQueue::save(const TierPage& page, const std::byte* bytes) {
  uint32_t slot = 0;
  {
    const MutexLock lock(mutex_);
    if (retry_at_) return true;  // dropped: all pages in memory are saved when the tier recovers
    wants_slot_ = free_write_slots_.empty();
    if (wants_slot_) return false;
    slot = free_write_slots_.back();
    free_write_slots_.pop_back();
  }
  write_lane_->begin_out(slot, bytes);
  {
    const MutexLock lock(mutex_);
    writes_.push_back({page, slot});
  }
  write_wake_.notify_one();
  return true;
}

uint32_t TierQueue::n_recoveries() const {
  const MutexLock lock(mutex_);
  return n_recoveries_;
}

void TierQueue::flush(Duration at_most) {
  const MutexLock lock(mutex_);
  written_.wait_for(mutex_, at_most, [this]() REQUIRES(mutex_) {
    return (writes_.empty() && n_being_written_ == 0) || retry_at_;
  });
}

void TierQueue::write_all() {
  const MutexLock lock(mutex_);
  while (wait_for_writes()) {
    if (retry_at_) {
      retry();
    } else {
      put_batch();
    }
  }
}

// Returns false to stop, after the waiting pages are written.
bool TierQueue::wait_for_writes() {
  const auto has_work = [this]() REQUIRES(mutex_) {
    return is_stopping_ || (!retry_at_ && !writes_.empty());
  };
  if (retry_at_) {
    write_wake_.wait_until(mutex_, *retry_at_, has_work);
  } else {
    write_wake_.wait_for(mutex_, options_.tidy_every, has_work);
  }
  return !is_stopping_ || (!retry_at_ && !writes_.empty());
}

// Writes the waiting pages as one batch, or does deferred work if there are none. Pages that cannot
// be copied out of memory are dropped: the device failed, and the next operation ends the process.
void TierQueue::put_batch() {
  const std::deque<Write> batch = std::exchange(writes_, {});
  n_being_written_ = batch.size();
  mutex_.unlock();
  std::vector<Tier::Put> puts;
  for (const Write& write : batch) {
    if (!write_lane_->finish(write.slot)) continue;
    puts.push_back({write.page, write_slots_[write.slot].span(), options_.page_bytes});
  }
  const Result<void> done = puts.empty() ? tier_.tidy_up() : tier_.put(puts);
  mutex_.lock();
  if (!done) {
    degrade(done.error());
  } else if (!puts.empty()) {
    pause_ = options_.retry_after;
    counters_.pages_written += puts.size();
    counters_.bytes_written += puts.size() * options_.page_bytes;
  }
  for (const Write& write : batch) free_write_slots_.push_back(write.slot);
  n_being_written_ = 0;
  written_.notify_all();
  if (std::exchange(wants_slot_, false)) wake_();
}

void TierQueue::degrade(const Error& error) {
  ++counters_.write_errors;
  for (const Write& write : writes_) free_write_slots_.push_back(write.slot);
  writes_.clear();
  log::warn("the tier '{}' is degraded: {}; serving continues without it", to_string(options_.kind),
            error.message);
  retry_at_ = std::chrono::steady_clock::now() + pause_;
}

void TierQueue::retry() {
  if (std::chrono::steady_clock::now() < *retry_at_) return;
  mutex_.unlock();
  const Result<void> done = tier_.recover();
  mutex_.lock();
  if (!done) {
    pause_ = std::min(2 * pause_, options_.retry_at_most);
    retry_at_ = std::chrono::steady_clock::now() + pause_;
    return;
  }
  log::info("the tier '{}' is back", to_string(options_.kind));
  retry_at_.reset();
  pause_ = std::min(2 * pause_, options_.retry_at_most);  // reset by a successful write
  ++n_recoveries_;
  wake_();
}

TierCounters TierQueue::counters() const {
  const TierSize size = tier_.size();
  const MutexLock lock(mutex_);
  TierCounters counters = counters_;
  counters.size = size;
  counters.is_degraded = retry_at_.has_value();
  counters.queue_pages = writes_.size() + n_being_written_;
  counters.queue_bytes = counters.queue_pages * options_.page_bytes;
  return counters;
}

void TierQueue::count_no_room() {
  const MutexLock lock(mutex_);
  ++counters_.misses_no_room;
}
void TierQueue::count_hit(uint32_t n_tokens) {
  const MutexLock lock(mutex_);
  counters_.hit_tokens += n_tokens;
}

}  // namespace kvik
