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

// The HTTP server: OpenAI's completions and what local servers offer beside them.
//
//   serving ──stop_accepting()──▶ draining ──stop(at_most)──▶ stopped
//
// Network I/O runs on one thread of its own, large bodies are parsed on two more. The public
// functions may be called from any thread but those, and by one caller at a time.
class Server {
 public:
  // Returns the errors that start() would have for these options, before a model is loaded.
  static Result<void> check(const ServerOptions& options);

  // Binds, listens and serves. The service is borrowed and outlives the server.
  // Errors: kInvalidArgument (a host that is none, a certificate or key that cannot be
  // used), kIo (the address is in use or not ours, the access log cannot be written).
  static Result<std::unique_ptr<Server>> start(ServiceApi& service, const ServerOptions& options);
  // Serves on a socket that is bound already, in place of the host and port of the options. The
  // socket may be closed afterwards.
  static Result<std::unique_ptr<Server>> start(ServiceApi& service, const ServerOptions& options,
                                               const ListenSocket& socket);

  ~Server();  // as stop(0)
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;

  // /readyz and new completions answer 503 from now on; what runs goes on.
  void stop_accepting();

  // Waits up to `at_most` for what runs. What is left then gets an error event (a stream) or a 503,
  // and all connections are closed. Completions cut off are cancelled before this returns.
  void stop(Duration at_most);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Whether only this machine can reach `host`: 127.0.0.0/8, ::1, "localhost". Another name is not
// resolved and counts as public.
bool is_loopback(std::string_view host);

}  // namespace kvik
