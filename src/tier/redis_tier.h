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
  std::string name_space = "kvik";  // prefix of all keys; a page's own key covers model and salt
  // Key that seals the marks of pages (page_record.h); empty: every mark is trusted.
  std::string mark_key = {};
  Duration timeout = std::chrono::seconds(2);  // for connecting, and for each reply
  Duration retry_after = std::chrono::seconds(1);
};

// Stores pages in a Redis server that several Kvik servers share. A page is a string value under
// NAMESPACE:page:KEY:GROUP: a record head and the page's bytes (page_record.h). The children of a
// page are a set under NAMESPACE:next:KEY:GROUP, whose members consist of a key and token ids.
// Redis evicts them (`maxmemory` with `maxmemory-policy allkeys-lru`). Values are checked like
// pages of a DiskTier; a value that is not a page is removed, so that an intact page can be stored.
//
// Connects when needed. If Redis does not answer, reads miss for a while. Any thread: reads and
// writes have a connection and a mutex each.
class RedisTier final : public Tier {
 public:
  explicit RedisTier(RedisTierOptions options);
  ~RedisTier() override;

  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot, size_t n_bytes) override;
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override;
  Result<void> put(std::span<Put> pages) override;
  Result<void> recover() override;
  Result<void> tidy_up() override;
  // Returns the number of keys and the memory that Redis reports, all clients included; refreshed
  // every ten seconds.
  TierSize size() const override;

  size_t head_bytes() const override;
  size_t alignment() const override { return 64; }
  size_t slot_bytes(size_t n_page_bytes) const override;

 private:
  // A connection, which is opened again after a pause if it was lost.
  struct Line {
    std::unique_ptr<RedisConnection> connection;
    TimePoint closed_until;
  };

  Result<RedisConnection*> connected(Line& line) const;
  Error lost(Line& line, const Error& error) const;
  std::string page_name(const PageKey& key, uint32_t group) const;
  std::string next_name(const PageKey& parent, uint32_t group) const;
  Result<void> ask_size() REQUIRES(write_mutex_);
  Result<Get> try_get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
                      size_t n_bytes) REQUIRES(read_mutex_);
  // Reads and checks the value of that name.
  Result<Get> read_value(RedisConnection& redis, const std::string& name, TierPage& wanted,
                         SharingMark reader, std::span<std::byte> slot, size_t n_bytes)
      REQUIRES(read_mutex_);
  Result<bool> is_for(const std::string& name, SharingMark reader) REQUIRES(read_mutex_);
  Result<void> drop_private(std::vector<Child>& children, uint32_t group, SharingMark reader)
      REQUIRES(read_mutex_);
  Result<std::vector<Child>> try_children(const PageKey& parent, uint32_t group, size_t limit)
      REQUIRES(read_mutex_);
  void delete_children(const PageKey& parent, uint32_t group) REQUIRES(read_mutex_);
  Result<void> try_put(std::span<Put> pages) REQUIRES(write_mutex_);
  Result<void> join_marks(std::span<Put*> pages) REQUIRES(write_mutex_);

  const RedisTierOptions options_;
  mutable Mutex read_mutex_;
  Line reading_ GUARDED_BY(read_mutex_);
  // Pages that children() returned last: one that turns out to be missing is removed from its
  // parent's set.
  std::set<std::string> listed_children_ GUARDED_BY(read_mutex_);
  mutable Mutex write_mutex_;
  Line writing_ GUARDED_BY(write_mutex_);
  TimePoint size_due_ GUARDED_BY(write_mutex_);

  std::atomic<uint64_t> n_keys_ = 0;
  std::atomic<uint64_t> n_bytes_ = 0;
  std::atomic<uint64_t> n_evictions_ = 0;
};

}  // namespace kvik
