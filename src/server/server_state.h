#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/mutex.h"
#include "server/http/byte_ledger.h"
#include "server/http/offload.h"
#include "server/http/oldest_first.h"
#include "server/http/tenant_mutex.h"
#include "server/operate/access_log.h"
#include "server/router.h"
#include "server/server_options.h"
#include "service/request_bounds.h"

namespace kvik {

class Connection;

// Counts requests and connections, and waits until there are none.
class ActiveCounts {
 public:
  void add_requests(int change) { requests_.add(change); }
  // Requests that may still submit work to the engine: being prepared, or submitting in pieces.
  void add_submitting(int change) { submitting_.add(change); }
  void add_connections(int change) { connections_.add(change); }

  // Returns false if the time was over first.
  bool wait_for_no_requests(Duration at_most) { return requests_.wait_for_none(at_most); }
  bool wait_for_none_submitting(Duration at_most) { return submitting_.wait_for_none(at_most); }
  bool wait_for_no_connections(Duration at_most) { return connections_.wait_for_none(at_most); }

 private:
  class Count {
   public:
    void add(int change) {
      const MutexLock lock(mutex_);
      n_ += change;
      if (n_ == 0) none_.notify_all();
    }
    bool wait_for_none(Duration at_most) {
      const MutexLock lock(mutex_);
      return none_.wait_for(mutex_, at_most, [this]() REQUIRES(mutex_) { return n_ == 0; });
    }

   private:
    Mutex mutex_;
    CondVar none_;
    int n_ GUARDED_BY(mutex_) = 0;
  };

  Count requests_, submitting_, connections_;
};

// State common to all connections. Network thread, except for the parts marked otherwise.
struct ServerState {
  static constexpr unsigned kOffloadThreads = 2;

  ServerState(ServiceApi& service, const ServerOptions& server_options)
      : options(server_options),
        body_limit_bytes(
            options.body_limit_bytes.value_or(RequestBounds::body_bytes(service.card().n_ctx_max))),
        memory(options.memory_limit_bytes.value_or(
            RequestBounds::memory_bytes(service.card().n_ctx_max))),
        accounts(options.api_keys),
        responses(response_bounds(service.card(), options), options.responses),
        router(context(service), is_draining) {}

  HandlerContext context(ServiceApi& service) {
    return {service, options, counts, memory, accounts, responses, pulls, background};
  }

  // Returns the bounds of stored responses. With API keys, one key may use a quarter of the memory.
  static ResponseStore::Bounds response_bounds(const ModelCard& card,
                                               const ServerOptions& options) {
    const size_t n_bytes = RequestBounds::kept_bytes(card.n_ctx_max);
    return {.total_bytes = n_bytes, .bytes_of_key = options.api_keys ? n_bytes / 4 : n_bytes};
  }

  const ServerOptions options;
  const size_t body_limit_bytes;
  HttpMemory memory;                     // any thread
  OldestFirst<Connection> waiting;       // connections without a whole request
  OldestFirst<Connection> writing;       // connections that send an answer in pieces
  std::atomic<bool> is_draining{false};  // any thread
  bool is_aborting = false;              // true: only final events are sent
  ActiveCounts active_counts;            // any thread
  HttpCounts counts;                     // any thread
  const KeyAccounts accounts;            // any thread
  ResponseStore responses;               // any thread
  BackgroundResponses background{[this](int n) {
    active_counts.add_requests(n);
    if (options.on_background) options.on_background(n);
  }};                                     // any thread
  ModelPulls pulls;                       // any thread
  const Router router;                    // any thread
  std::unique_ptr<AccessLog> access_log;  // null: none
  // Large bodies are parsed and tokenized here: a 32 MiB prompt must not delay other streams.
  Offload offload;
  // Long work that only its own client waits for: one low-priority thread, so that the engine's
  // threads get the cores first.
  Offload slow_work;
  TenantMutex slow_work_mutex;
};

}  // namespace kvik
