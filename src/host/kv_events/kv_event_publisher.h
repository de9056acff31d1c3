#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/file/file_descriptor.h"
#include "base/mutex.h"
#include "base/result.h"
#include "host/kv_events/batch_ring.h"
#include "host/kv_events/event_socket.h"
#include "host/kv_events/kv_event_codec.h"
#include "kv/page_log.h"

namespace kvik {

struct KvEventOptions {
  std::string endpoint;              // tcp://HOST:PORT, ipc://PATH; host * means all addresses
  std::string replay_endpoint = {};  // empty: no replay
  std::string topic = {};
  KvEventEncoding encoding = KvEventEncoding::kArray;
};

// Publishes the contents of a cache over ZeroMQ's protocol as vLLM does: batches of events on a PUB
// socket, as messages of three frames (topic; number of the batch, eight bytes in big endian;
// MessagePack). A subscriber that missed batches requests them from the replay socket (ROUTER); the
// newest batches are kept. The first batch says that the cache is empty.
//
// The engine thread puts events into a queue and never waits; a separate thread sends them. If the
// queue is full, it is replaced by an event that clears the cache and events for all pages that it
// holds. Memory is bounded by max_bytes(), regardless of what subscribers send or do not read.
class KvEventPublisher final : public PageLog {
 public:
  static constexpr size_t kMaxTopicBytes = 256;

  // Returns the maximum memory for a cache of n_pages.
  static constexpr uint64_t max_bytes(uint64_t n_pages) {
    constexpr uint64_t kFixed = uint64_t{64} << 20;  // batches, queue, connections
    constexpr uint64_t kOfPage = 1024;               // held pages, and their events after a reset
    return kFixed + n_pages * kOfPage;
  }

  // Errors: kInvalidArgument if an endpoint cannot be bound or the topic is too long.
  static Result<std::unique_ptr<KvEventPublisher>> start(const KvEventOptions& options);
  ~KvEventPublisher() override;  // sends queued events first

  void on_stored(const Stored& page) override;
  void on_removed(const PageKey& key) override;
  uint64_t bytes_for(uint64_t n_pages) const override { return max_bytes(n_pages); }
  PageLogCounts counts() const override;

 private:
  explicit KvEventPublisher(const KvEventOptions& options);
  void add(KvEvent event) REQUIRES(mutex_);
  void wake();
  void queue_full_state() REQUIRES(mutex_);
  void run();
  bool send_batch();
  void serve_connections(std::chrono::milliseconds at_most);
  bool has_sent_all() const;
  void publish_counts();

  const KvEventOptions options_;
  FileDescriptor wake_;  // event descriptor that wakes the sending thread
  std::unique_ptr<EventSocket> publisher_, replayer_;

  mutable Mutex mutex_;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::deque<KvEvent> waiting_ GUARDED_BY(mutex_);
  uint64_t n_resets_ GUARDED_BY(mutex_) = 0;
  PageLogCounts sent_ GUARDED_BY(mutex_);  // counts that the sending thread published last
  // Held pages by hash; a page that two tenants keep private is held twice.
  struct Held {
    uint32_t n = 0;
    std::optional<uint64_t> parent;
    std::vector<TokenId> tokens;
    std::shared_ptr<const std::string> adapter;
    KvEvent stored(uint64_t hash) const {
      return {.hash = hash, .parent = parent, .tokens = tokens, .adapter = adapter};
    }
  };
  std::unordered_map<uint64_t, Held> held_ GUARDED_BY(mutex_);

  // Used by the sending thread only.
  BatchRing kept_;
  TimePoint second_end_;
  std::thread thread_;
};

}  // namespace kvik
