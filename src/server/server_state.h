#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "server/operate/access_log.h"
#include "server/router.h"
#include "server/server_options.h"

namespace kvik {

// How many requests and connections there are, for those who wait until there are none.
class Census {
 public:
  void add_requests(int change) { add(n_requests_, change); }
  void add_connections(int change) { add(n_connections_, change); }

  // False where the time was over first.
  bool wait_for_no_requests(Duration at_most) { return wait(n_requests_, at_most); }
  bool wait_for_no_connections(Duration at_most) { return wait(n_connections_, at_most); }

 private:
  void add(int& count, int change) {
    const std::scoped_lock lock(mutex_);
    count += change;
    if (count == 0) changed_.notify_all();
  }

  bool wait(const int& count, Duration at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return count == 0; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int n_requests_ = 0;
  int n_connections_ = 0;
};

// What all connections share. Network thread, but for the parts that say otherwise.
struct ServerState {
  static constexpr unsigned kOffloadThreads = 2;

  ServerState(ServiceApi& service, const ServerOptions& server_options)
      : options(server_options),
        accounts(options.api_keys),
        router({service, options, counts, accounts}, is_draining) {}

  const ServerOptions options;
  std::atomic<bool> is_draining{false};   // any thread
  bool is_aborting = false;               // no more words but the last ones
  size_t bodies_bytes = 0;                // of requests being read or parsed
  Census census;                          // any thread
  HttpCounts counts;                      // any thread
  const KeyAccounts accounts;             // any thread
  const Router router;                    // any thread
  std::unique_ptr<AccessLog> access_log;  // null: nobody wants one
  // Large bodies are parsed and tokenized here: a 32 MiB prompt may not hold up others' streams.
  boost::asio::thread_pool offload{kOffloadThreads};
};

}  // namespace kvik
