#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "host/kv_events/kv_event_codec.h"
#include "kv/page_log.h"

namespace kvik {

struct KvEventOptions {
  std::string endpoint;  // of ZeroMQ: tcp://HOST:PORT, ipc://PATH; * as a host listens everywhere
  std::string replay_endpoint = {};  // empty: nothing is repeated
  std::string topic = {};
  KvEventEncoding encoding = KvEventEncoding::kArray;
};

// Publishes what a cache holds over ZeroMQ, as vLLM does: batches of events on a PUB socket, each
// message of three frames (topic, number of the batch as eight bytes of big endian, MessagePack).
// Who missed some asks the replay socket (ROUTER) for all from a number on; the last kKept batches
// are remembered. The first batch says that nothing is held.
//
// What the engine tells is put into a queue without waiting for anybody; where that is full, a
// reader has to begin anew: all is cleared, and what is held is told again. The engine's thread
// tells, a thread of its own sends.
class KvEventPublisher final : public PageLog {
 public:
  static constexpr size_t kKept = 10'000;

  // Errors: kInvalidArgument where an endpoint cannot be bound.
  static Result<std::unique_ptr<KvEventPublisher>> start(const KvEventOptions& options);
  ~KvEventPublisher() override;  // what was told is sent first

  void on_stored(const Stored& page) override;
  void on_removed(const PageKey& key) override;

 private:
  struct CloseSocket {
    void operator()(void* socket) const;
  };
  struct CloseContext {
    void operator()(void* context) const;
  };
  using Context = std::unique_ptr<void, CloseContext>;
  using Socket = std::unique_ptr<void, CloseSocket>;

  explicit KvEventPublisher(const KvEventOptions& options);
  Result<Socket> bound(int type, const std::string& endpoint);
  void add(KvEvent event) REQUIRES(mutex_);
  void tell_all_again() REQUIRES(mutex_);
  void send_all();
  void send(const std::vector<KvEvent>& events);
  void answer_replays();

  const KvEventOptions options_;
  Context context_;
  Socket publisher_, replayer_;

  Mutex mutex_;
  CondVar wake_;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::vector<KvEvent> waiting_ GUARDED_BY(mutex_);
  // What is held, by hash: a page that two tenants keep to themselves is there twice.
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

  // Of the sending thread.
  uint64_t n_batches_ = 0;
  std::deque<std::pair<uint64_t, std::string>> kept_;
  std::thread thread_;
};

}  // namespace kvik
