#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/listen_socket.h"
#include "server/server_options.h"
#include "service/service_api.h"

namespace kvik {

// The HTTP server: the APIs of OpenAI, Anthropic and Ollama, and operational routes.
//
//   serving ──stop_accepting()──▶ draining ──stop(at_most)──▶ stopped
//
// Network I/O runs on a separate thread, large bodies are parsed on two more, grammars that take
// long are compiled on one of low priority, and models are downloaded on two, if there is a
// library. The public functions may be called from any other thread, by one caller at a time.
class Server {
 public:
  // Returns the errors that start() would return for these options, before a model is loaded.
  static Result<void> check(const ServerOptions& options);

  // Binds, listens and serves. Borrows the service, which outlives the server. Errors:
  // kInvalidArgument (an invalid host, certificate or key), kIo (the address is in use or not
  // local, the access log cannot be written).
  static Result<std::unique_ptr<Server>> start(ServiceApi& service, const ServerOptions& options);
  // Serves on a bound socket instead of the options' host and port. The socket may be closed
  // afterwards.
  static Result<std::unique_ptr<Server>> start(ServiceApi& service, const ServerOptions& options,
                                               const ListenSocket& socket);

  ~Server();  // like stop(0)
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;  // 0: a Unix-domain socket

  // From now on /readyz and new completions return 503; running requests continue.
  void stop_accepting();

  // Waits up to `at_most` until no running request will submit more work to the engine: only then
  // may the engine be drained. Slow readers are not waited for. Returns false if the time was over
  // first.
  bool wait_for_submissions(Duration at_most);

  // Returns the counters and histograms of /metrics for operators. Also after stop().
  std::string counters();

  // Waits up to `at_most` for running requests. The remaining ones get an error event (streams) or
  // a 503, and all connections are closed. Canceled completions have ended before this returns.
  void stop(Duration at_most);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Returns whether `host` is reachable from this machine only: 127.0.0.0/8, ::1, "localhost". Other
// names are not resolved and count as public.
bool is_loopback(std::string_view host);

}  // namespace kvik
