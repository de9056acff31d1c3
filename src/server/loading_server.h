#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "server/http/listen_socket.h"
#include "server/server_options.h"

namespace kvik {

// Answers on the server's port while the model is being loaded: /livez with 200, /health and
// /readyz with 503 and the progress, everything else with 503. The destructor closes its
// connections; clients that connect afterwards wait for the server that starts on the same socket.
class LoadingServer {
 public:
  // `options` are those of the later server; neither its access log nor its stored responses are
  // opened. Errors: those of Server::start().
  static Result<std::unique_ptr<LoadingServer>> start(const ListenSocket& socket,
                                                      ServerOptions options);

  ~LoadingServer();
  LoadingServer(const LoadingServer&) = delete;
  LoadingServer& operator=(const LoadingServer&) = delete;

  // Sets the progress to n_done of n_all bytes. Any thread.
  void show(uint64_t n_done, uint64_t n_all);

 private:
  class Impl;
  explicit LoadingServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace kvik
