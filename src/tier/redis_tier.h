#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "tier/redis_address.h"
#include "tier/redis_connection.h"
#include "tier/tier.h"

namespace kvik {

struct RedisTierOptions {
  RedisAddress address;
  std::string name_space = "kvik";  // of all keys; a page's own key holds model and salt
  // Seals who knows a page (page_record.h); empty: any mark is believed.
  std::string mark_key = {};
  Duration timeout = std::chrono::seconds(2);  // of a connection, and of each answer
  Duration retry_after = std::chrono::seconds(1);
};

// Pages in a Redis that several servers share. A page is a string value, its head in front of its
// bytes (page_record.h), under NAMESPACE:page:KEY:GROUP; the pages behind one are a set under
// NAMESPACE:next:KEY:GROUP, each member a key and its tokens. How long they stay is Redis's
// business: `maxmemory` with `maxmemory-policy allkeys-lru`. What is read is checked like a page of
// a disk; what is no page of ours is removed, so that a good one can take its place.
//
// Connects when it is needed. Where Redis does not answer, reads find nothing for a while.
// Any thread: reads and writes have a connection each, and a mutex each.
class RedisTier final : public Tier {
 public:
  explicit RedisTier(RedisTierOptions options);
  ~RedisTier() override;

  Get get(TierPage& wanted, KnownBy reader, std::span<std::byte> slot, size_t n_bytes) override;
  std::vector<Child> children(const PageKey& parent, uint32_t group, KnownBy reader,
                              size_t limit) override;
  Result<void> put(std::span<Put> pages) override;
  Result<void> recover() override;
  Result<void> tidy_up() override;
  // As Redis tells, every ten seconds: all of its keys and memory, whoever they belong to.
  TierSize size() const override;

  size_t head_bytes() const override;
  size_t alignment() const override { return 64; }
  size_t slot_bytes(size_t n_page_bytes) const override;

 private:
  // One connection, made again after a pause where it was lost.
  struct Line {
    std::unique_ptr<RedisConnection> connection;
    TimePoint closed_until;
  };

  Result<RedisConnection*> connected(Line& line) const;
  Error lost(Line& line, const Error& error) const;
  std::string page_name(const PageKey& key, uint32_t group) const;
  std::string next_name(const PageKey& parent, uint32_t group) const;
  Result<void> ask_size() REQUIRES(write_mutex_);
  Result<Get> try_get(TierPage& wanted, KnownBy reader, std::span<std::byte> slot, size_t n_bytes)
      REQUIRES(read_mutex_);
  Result<bool> is_for(const std::string& name, KnownBy reader) REQUIRES(read_mutex_);
  Result<void> drop_private(std::vector<Child>& children, uint32_t group, KnownBy reader)
      REQUIRES(read_mutex_);
  Result<std::vector<Child>> try_children(const PageKey& parent, uint32_t group, size_t limit)
      REQUIRES(read_mutex_);
  void drop_children(const PageKey& parent, uint32_t group) REQUIRES(read_mutex_);
  Result<void> try_put(std::span<Put> pages) REQUIRES(write_mutex_);
  Result<void> join_marks(std::span<Put*> pages) REQUIRES(write_mutex_);

  const RedisTierOptions options_;
  mutable Mutex read_mutex_;
  Line reading_ GUARDED_BY(read_mutex_);
  // Pages that children() named last: one that is gone leaves its parent's set.
  std::set<std::string> named_ GUARDED_BY(read_mutex_);
  mutable Mutex write_mutex_;
  Line writing_ GUARDED_BY(write_mutex_);
  TimePoint size_due_ GUARDED_BY(write_mutex_);

  std::atomic<uint64_t> n_keys_ = 0;
  std::atomic<uint64_t> n_bytes_ = 0;
  std::atomic<uint64_t> n_evictions_ = 0;
};

}  // namespace kvik
